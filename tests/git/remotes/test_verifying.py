"""A head that must be signed by somebody who may."""

import os
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.remotes import verification
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.verification import Verification
from reconciler.model.errors import Transient
from tests.git.remotes.shims import Shim
from tests.repositories import Repository
from tests.signing import Signer, allow, sign_with

pytestmark = pytest.mark.anyio

PEOPLE = b"author A <a@x> 1700000000 +0100\ncommitter C <c@x> 1700000060 -0230\n"
COMMIT = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n" + PEOPLE + b"\nChange\n"
PGP = b"-----BEGIN PGP SIGNATURE-----\n\niQEz\n-----END PGP SIGNATURE-----\n"


def with_header(raw: bytes, signature: bytes) -> bytes:
    """The commit with a signature where git puts it."""
    header, body = raw.split(b"\n\n", 1)
    return header + b"\ngpgsig " + b"\n ".join(signature.rstrip(b"\n").split(b"\n")) + b"\n\n" + body


class Scene:
    """A repository, two keys, and a file that allows the first."""

    def __init__(self, folder: Path) -> None:
        self.ada = Signer.make(folder, "ada")
        self.eve = Signer.make(folder, "eve")
        self.file = allow(folder / "signers", self.ada)
        self.repository = Repository.init(folder / "repository")
        self._program = GitProgram(folder / "home", safe_directories=[self.repository.path])

    def commit(self, signer: Signer | None = None) -> RefHead:
        """A new commit, signed by this key."""
        sign_with(self.repository, signer)
        return RefHead("refs/heads/main", self.repository.commit())

    def tag(self, name: str, signer: Signer | None, at: str = "HEAD") -> str:
        """An annotated tag, signed by this key."""
        sign_with(self.repository, signer)
        self.repository.git("tag", "--annotate" if signer is None else "--sign", "--message=Tag", name, at)
        return self.repository.head(name)

    def stored(self, raw: bytes) -> RefHead:
        """A commit that holds exactly this."""
        return RefHead(
            "x", self.repository.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", data=raw)
        )

    async def verify(self, head: RefHead) -> None:
        """Ask."""
        mirror = self.repository.path / ".git"
        signers = verification.read_signers(self.file)
        await Verification(signers, mirror=mirror, program=self._program).verify(head)

    async def refuses(self, head: RefHead, why: str) -> None:
        """The head is not applied, for this reason."""
        with pytest.raises(GitFault) as caught:
            await self.verify(head)
        until = f"nothing more is applied until the head is signed with an SSH key that {self.file} allows"
        assert (caught.value.message, caught.value.state) == (f"{why}; {until}", RepositoryState.UNSIGNED)
        assert not caught.value.transient


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_is_good_when_an_allowed_key_signed_it(scene: Scene) -> None:
    await scene.verify(scene.commit(scene.ada))


async def test_is_refused_without_a_signature(scene: Scene) -> None:
    head = scene.commit()
    await scene.refuses(head, f"the commit {head.commit[:12]} is not signed")


async def test_is_refused_with_the_key_of_somebody_else(scene: Scene) -> None:
    head = scene.commit(scene.eve)
    told = f"the commit {head.commit[:12]} is signed with the key {scene.eve.fingerprint}, which is not allowed"
    await scene.refuses(head, told)
    allow(scene.file, scene.ada, scene.eve)
    await scene.verify(head)


async def test_is_refused_when_it_is_not_what_was_signed(scene: Scene) -> None:
    raw = with_header(COMMIT.replace(b"Change", b"Chance"), scene.ada.signature(COMMIT))
    head = scene.stored(raw)
    await scene.refuses(head, f"the commit {head.commit[:12]} was altered, or has the signature of another object")


async def test_is_refused_with_a_signature_for_something_else(scene: Scene) -> None:
    head = scene.stored(with_header(COMMIT, scene.ada.signature(COMMIT, namespace="file")))
    why = "Couldn't verify signature: namespace does not match"
    await scene.refuses(head, f"the commit {head.commit[:12]} has a signature that cannot be checked ({why})")


@pytest.mark.parametrize(
    ("armor", "made_with"),
    [(PGP, "PGP"), (PGP.replace(b"PGP SIGNATURE", b"SIGNED MESSAGE"), "X.509")],
)
async def test_is_refused_with_a_signature_that_is_not_of_ssh(scene: Scene, armor: bytes, made_with: str) -> None:
    head = scene.stored(with_header(COMMIT, armor))
    told = f"the commit {head.commit[:12]} is signed with {made_with}, and only SSH signatures are checked"
    await scene.refuses(head, told)


async def test_is_refused_when_its_signature_is_none_or_of_its_text_alone(scene: Scene) -> None:
    nonsense = scene.stored(with_header(COMMIT, b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"))
    why = "Couldn't verify signature: invalid format"
    await scene.refuses(nonsense, f"the commit {nonsense.commit[:12]} has a signature that cannot be checked ({why})")
    below = scene.stored(COMMIT + b"gpgsig " + scene.ada.signature(COMMIT))
    await scene.refuses(below, f"the commit {below.commit[:12]} is not signed")
    tag = b"object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\n\nx\n"
    merged = COMMIT.replace(
        b"\n\n", b"\nmergetag " + (tag + scene.ada.signature(tag)).strip().replace(b"\n", b"\n ") + b"\n\n", 1
    )
    merge = scene.stored(merged)
    await scene.refuses(merge, f"the commit {merge.commit[:12]} is not signed")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            'valid-before="20200101"',
            "key has expired: verify time 2023-11-14T22:14:20 > valid-before 2020-01-01T00:00:00",
        ),
        (
            'valid-after="20300101"',
            "key is not yet valid: verify time 2023-11-14T22:14:20 < valid-after 2030-01-01T00:00:00",
        ),
        ('namespaces="file"', 'key is not permitted for use in signature namespace "git"'),
    ],
)
async def test_is_refused_when_the_key_may_not_sign_it(scene: Scene, options: str, why: str) -> None:
    head = scene.commit(scene.ada)
    scene.file.write_text("nonsense\n" + scene.ada.line(options))
    key = "a key" if "not permitted" in why else f"the key {scene.ada.fingerprint}"
    told = f"the commit {head.commit[:12]} is signed with {key}, which is not allowed"
    await scene.refuses(head, f"{told} ({scene.file}:2: {why})")


async def test_is_judged_at_the_time_of_the_commit_in_utc(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    head = scene.commit(scene.ada)
    scene.file.write_text(scene.ada.line('valid-after="20231114221420",valid-before="20231114221421"'))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    await scene.verify(head)


async def test_is_good_although_other_lines_of_the_file_are_not(scene: Scene) -> None:
    head = scene.commit(scene.ada)
    scene.file.write_text("nonsense\n" + scene.eve.line('what="this"') + scene.ada.line() + "\0\xff\n")
    await scene.verify(head)


async def test_is_refused_by_a_file_of_nonsense(scene: Scene) -> None:
    head = scene.commit(scene.ada)
    scene.file.write_text("\x1b[2J nonsense\n")
    told = f"the commit {head.commit[:12]} is signed with the key {scene.ada.fingerprint}, which is not allowed"
    await scene.refuses(head, f"{told} ({scene.file}:1: missing key)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
async def test_is_good_with_every_type_of_key(scene: Scene, tmp_path: Path, kind: str) -> None:
    bob = Signer.make(tmp_path, "bob", kind=kind)
    allow(scene.file, bob)
    await scene.verify(scene.commit(bob))


async def test_is_good_when_its_tag_is_signed(scene: Scene) -> None:
    head = scene.commit()
    await scene.verify(head._replace(tag=scene.tag("v1", scene.ada)))
    await scene.verify(head._replace(tag=scene.tag("v2", None, "v1")))  # a tag of the tag
    scene.tag("v3", None)
    await scene.verify(head._replace(tag=scene.tag("v4", scene.ada, "v3")))


async def test_is_judged_by_the_commit_when_its_tag_has_no_signature(scene: Scene) -> None:
    head = scene.commit(scene.ada)
    await scene.verify(head._replace(tag=scene.tag("v1", None)))
    head = scene.commit()
    await scene.refuses(head._replace(tag=scene.tag("v2", None)), f"the commit {head.commit[:12]} is not signed")


async def test_is_refused_when_its_tag_is_signed_by_somebody_else(scene: Scene) -> None:
    head = scene.commit(scene.ada)
    tag = scene.tag("v1", scene.eve)
    told = f"the tag {tag[:12]} is signed with the key {scene.eve.fingerprint}, which is not allowed"
    await scene.refuses(head._replace(tag=tag), told)


async def test_is_refused_when_its_tag_leads_elsewhere(scene: Scene) -> None:
    """A remote may say what it likes of where a tag leads."""
    scene.commit(scene.ada)
    tag = scene.tag("v1", scene.ada)
    other = scene.commit()
    await scene.refuses(other._replace(tag=tag), f"the tag {tag[:12]} does not lead to {other.commit[:12]}")


@pytest.mark.slow
async def test_is_refused_when_tags_of_tags_do_not_end(scene: Scene) -> None:
    head = scene.commit(scene.ada)
    scene.tag("v0", None)
    for number in range(verification.MOST_TAGS):
        last = scene.tag(f"v{number + 1}", None, f"v{number}")
    await scene.refuses(head._replace(tag=last), f"the tag {last[:12]} does not lead to {head.commit[:12]}")


async def test_is_refused_when_it_is_larger_than_a_commit_is(scene: Scene) -> None:
    head = scene.stored(COMMIT + b"x" * verification.MOST_OBJECT_BYTES)
    await scene.refuses(head, f"the commit {head.commit[:12]} has more than 1048576 bytes")


async def test_counts_as_it_is_though_another_object_stands_for_it(scene: Scene) -> None:
    good, bad = scene.commit(scene.ada), scene.commit()
    scene.repository.git("replace", bad.commit, good.commit)
    await scene.refuses(bad, f"the commit {bad.commit[:12]} is not signed")


async def test_that_is_not_there_is_damage_of_the_mirror(scene: Scene) -> None:
    with pytest.raises(GitFault, match=r"^the mirror lacks the commit 111111111111; ") as caught:
        await scene.verify(RefHead("x", "1" * 40))
    assert caught.value.state is RepositoryState.MIRROR_CORRUPT


async def test_is_tried_again_when_the_program_that_shows_it_was_killed(scene: Scene, shim: Shim) -> None:
    head = scene.commit(scene.ada)
    shim.kill("cat-file")
    with pytest.raises(
        Transient, match=rf"^git was ended by a signal before it showed {head.commit}; it is tried again$"
    ):
        await scene.verify(head)
    shim.act("")
    await scene.verify(head)


async def test_cannot_be_judged_without_the_program(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = scene.commit(scene.ada)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(scene.repository.git("--exec-path") + "/git")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(GitFault, match=r"has a signature that cannot be checked .*ssh-keygen") as caught:
        await scene.verify(head)
    assert caught.value.state is RepositoryState.UNSIGNED


async def test_leaves_nothing_behind(scene: Scene, tmp_path: Path) -> None:
    head = scene.commit(scene.ada)
    await scene.verify(head)
    before = left(tmp_path / "home")
    await scene.verify(head)
    assert left(tmp_path / "home") == before


def left(home: Path) -> tuple[int, list[Path]]:
    """How many files are open, and the files that git and ssh-keygen may write."""
    return len(list(Path("/proc/self/fd").iterdir())), sorted(home.iterdir())


def unusable(path: Path) -> str:
    """Why a file of signers cannot be used."""
    with pytest.raises(GitFault) as caught:
        verification.read_signers(path)
    assert caught.value.state is RepositoryState.UNSIGNED
    return caught.value.message.removeprefix(f"the file of signers {path} ").removesuffix(
        "; until then no new head is applied"
    )


def test_a_file_of_signers_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    path = tmp_path / "signers"
    assert unusable(path) == "does not exist; mend that, or correct `verify.signersFile`"
    path.write_text("")
    nobody = "names nobody; write a line for each who may sign"
    assert unusable(path) == nobody
    path.write_text(" \n# a@x ssh-ed25519 AAAA\n\t\n")
    assert unusable(path) == nobody
    path.write_bytes(b"a\n" * verification.MOST_BYTES)
    assert unusable(path) == "has more than 1048576 bytes; mend that, or correct `verify.signersFile`"
    path.unlink()
    os.mkfifo(path)
    assert unusable(path) == "is not a regular file; mend that, or correct `verify.signersFile`"
    path.unlink()
    path.symlink_to(path)
    assert (
        unusable(path)
        == "cannot be read (Too many levels of symbolic links); mend that, or correct `verify.signersFile`"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_signers_that_is_closed_says_who_must_read_it(tmp_path: Path) -> None:
    path = tmp_path / "signers"
    path.write_text("x")
    path.chmod(0)
    assert unusable(path).startswith("cannot be read by the user ")
