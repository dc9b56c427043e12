"""Heads that must be signed: an unsigned one is neither applied nor read, and what was last good stays."""

from pathlib import Path
from typing import Any

import pytest

from tests.daemons import destination, statuses, until
from tests.following import Follow, holding
from tests.repositories import Repository
from tests.signing import Signer, allow, sign_with


class Signed:
    """A followed repository with two keys, of which the first may sign."""

    def __init__(self, folder: Path, source: Repository, follow: Follow, **settings: object) -> None:
        self.ada = Signer.make(folder, "ada")
        self.eve = Signer.make(folder, "eve")
        self.file = allow(folder / "signers", self.ada)
        self.source = source
        sign_with(source, self.ada)
        source.write("a.yaml", destination("a"))
        source.write("b.yaml", destination("b"))
        source.commit()
        signed: dict[str, object] = {"interval": "200ms", "verify": {"signersFile": str(self.file)}}
        self.followed = follow(source, **signed, **settings)

    def head(self) -> str:
        """The source's head as messages name it."""
        return self.source.head()[:12]

    def until_signed(self, why: str) -> str:
        """The message of a head that is not applied."""
        return f"{why}; nothing more is applied until the head is signed with an SSH key that {self.file} allows"

    def stays(self, message: str, versions: dict[str, int]) -> None:
        """The state becomes unsigned for this reason, and what was applied stays."""
        daemon, name = self.followed.daemon, self.followed.name
        shown = until(lambda: self._shown(message), f"{name} is unsigned: {message}")
        assert shown["state"] == "unsigned"
        assert self.followed.versions() == versions
        [newest, *_] = daemon.runs(name)
        assert (newest["outcome"], newest["message"], newest["counts"]) == ("failed", message, {})

    def _shown(self, message: str) -> dict[str, Any] | None:
        shown = self.followed.state()
        return shown if shown["message"] == message else None

    def is_ready(self) -> dict[str, Any]:
        """The state becomes ready; the newest run."""
        self.followed.daemon.state_of(self.followed.name, "ready")
        return self.followed.daemon.run(self.followed.daemon.runs(self.followed.name)[0]["id"])


@pytest.fixture
def signed(tmp_path: Path, source: Repository, follow: Follow) -> Signed:
    made = Signed(tmp_path, source, follow)
    assert made.followed.head()["counts"] == {"created": 2}
    return made


def test_what_is_not_signed_is_not_applied_until_a_signed_head_follows(signed: Signed) -> None:
    good = signed.source.head()
    sign_with(signed.source, None)
    signed.source.remove("b.yaml")
    signed.source.write("a.yaml", "nobody reads: [this")
    signed.source.commit()
    told = signed.until_signed(f"the commit {signed.head()} is not signed")
    signed.stays(told, {"a": 1, "b": 1})
    assert signed.followed.state()["commit"] == good
    assert signed.followed.daemon.reconcile(signed.followed.name)["message"] == told
    sign_with(signed.source, signed.ada)
    signed.source.write("a.yaml", destination("a", "signed"))
    run = signed.followed.commit()
    assert (statuses(run), run["outcome"]) == ({"a": "configured", "b": "deleted"}, "succeeded")
    assert signed.followed.state()["state"] == "ready"


@pytest.mark.slow
def test_taking_a_signer_out_of_the_file_counts_at_the_next_poll(signed: Signed) -> None:
    allow(signed.file, signed.eve)
    told = f"the commit {signed.head()} is signed with the key {signed.ada.fingerprint}, which is not allowed"
    signed.stays(signed.until_signed(told), {"a": 1, "b": 1})
    allow(signed.file, signed.eve, signed.ada)
    assert signed.is_ready()["counts"] == {}
    signed.file.unlink()
    gone = f"the file of signers {signed.file} does not exist; mend that, or correct `verify.signersFile`"
    signed.stays(f"{gone}; until then no new head is applied", {"a": 1, "b": 1})
    allow(signed.file, signed.ada)
    assert signed.is_ready()["counts"] == {}
    assert signed.followed.versions() == {"a": 1, "b": 1}


def test_a_first_head_that_is_not_signed_is_never_read(tmp_path: Path, source: Repository, follow: Follow) -> None:
    other = Signer.make(tmp_path, "bob")
    source.write("a.yaml", destination("a"))
    source.commit()
    followed = follow(source, verify={"signersFile": str(allow(tmp_path / "allowed", other))})
    shown = followed.daemon.state_of(followed.name, "unsigned")
    assert (shown["commit"], shown["head"], followed.names()) == (None, source.head(), [])
    assert [run["outcome"] for run in followed.daemon.runs(followed.name)] == ["failed"]
    followed.change()  # without a file of signers
    followed.daemon.state_of(followed.name, "ready")
    assert (followed.head()["counts"], followed.names()) == ({"created": 1}, ["a"])


def test_heads_must_be_signed_from_the_change_of_the_settings_on(source: Repository, follow: Follow) -> None:
    followed = holding(source, follow, "a")
    allowed = allow(source.path.with_name("allowed"), Signer.make(source.path.parent, "bob"))
    followed.change(verify={"signersFile": str(allowed)})
    followed.daemon.state_of(followed.name, "unsigned")
    assert followed.versions() == {"a": 1}


@pytest.mark.slow
def test_a_restart_asks_for_the_signature_again(signed: Signed) -> None:
    sign_with(signed.source, None)
    signed.source.write("a.yaml", destination("a", "unsigned"))
    signed.source.commit()
    told = signed.until_signed(f"the commit {signed.head()} is not signed")
    signed.stays(told, {"a": 1, "b": 1})
    signed.followed.daemon.restart()
    signed.stays(told, {"a": 1, "b": 1})
    sign_with(signed.source, signed.ada)
    assert signed.followed.commit()["counts"] == {"configured": 1}
    signed.followed.daemon.stop()
    allow(signed.file, signed.eve)
    signed.followed.daemon.start()
    told = f"the commit {signed.head()} is signed with the key {signed.ada.fingerprint}, which is not allowed"
    signed.stays(signed.until_signed(told), {"a": 2, "b": 1})


@pytest.mark.slow
def test_an_approval_lets_nothing_go_that_is_not_signed(signed: Signed) -> None:
    daemon, name = signed.followed.daemon, signed.followed.name
    signed.source.remove("a.yaml")
    signed.source.remove("b.yaml")
    held = signed.source.commit()
    daemon.state_of(name, "empty")
    sign_with(signed.source, None)
    signed.source.write("c.yaml", destination("c"))
    head = signed.source.commit()
    told = signed.until_signed(f"the commit {signed.head()} is not signed")
    signed.stays(told, {"a": 1, "b": 1})
    assert daemon.post(f"/v1/repositories/{name}/approve", {"commit": head}).status == 409
    answer = daemon.post(f"/v1/repositories/{name}/approve", {"commit": held})
    assert answer.status == 202, answer
    assert daemon.finished(answer.body["run"])["message"] == told
    signed.stays(told, {"a": 1, "b": 1})
    sign_with(signed.source, signed.ada)
    assert statuses(signed.followed.commit()) == {"a": "deleted", "b": "deleted", "c": "created"}


@pytest.mark.slow
def test_a_signed_tag_vouches_for_its_commit(tmp_path: Path, source: Repository, follow: Follow) -> None:
    ada = Signer.make(tmp_path, "ada")
    source.write("a.yaml", destination("a"))
    source.commit()
    source.git("tag", "--annotate", "--message=Plain", "v1")
    settings: dict[str, object] = {"branch": None, "tag": "v1", "interval": "200ms"}
    followed = follow(source, **settings, verify={"signersFile": str(allow(tmp_path / "allowed", ada))})
    shown = followed.daemon.state_of(followed.name, "unsigned")
    assert str(shown["message"]).startswith(f"the commit {source.head()[:12]} is not signed; ")
    sign_with(source, ada)
    source.git("tag", "--sign", "--force", "--message=Signed", "v1")  # of the same commit
    followed.daemon.state_of(followed.name, "ready")
    assert followed.names() == ["a"]


@pytest.mark.slow
def test_what_another_repository_lets_go_passes_to_the_last_signed_head(
    signed: Signed, tmp_path: Path, follow: Follow
) -> None:
    other = Repository.init(tmp_path / "other")
    for name in ("c", "d", "e"):
        other.write(f"{name}.yaml", destination(name))
    other.commit()
    first = follow(other, project=signed.followed.project)
    assert first.head()["counts"] == {"created": 3}
    signed.source.write("c.yaml", destination("c"))
    assert signed.followed.commit()["counts"] == {"unchanged": 1}
    sign_with(signed.source, None)
    signed.source.write("c.yaml", destination("c", "unsigned"))
    signed.source.write("d.yaml", destination("d"))
    signed.source.commit()
    told = signed.until_signed(f"the commit {signed.head()} is not signed")
    signed.stays(told, {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})
    other.remove("c.yaml")
    other.remove("d.yaml")
    run = first.commit()
    assert statuses(run) == {"d": "deleted"}
    assert run["message"] == f"Destination c passed to the repository {signed.followed.name}."
    signed.stays(told, {"a": 1, "b": 1, "c": 1, "e": 1})
