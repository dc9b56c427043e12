"""Several entries of one project that follow one repository: a commit is one change for all of them."""

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons, stores
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository
from tests.signing import Signer, allow

EXAMPLES = Path(__file__).parents[3] / "examples" / "repo"
FOLDERS = (
    "shared",
    "teams/checkout",
    "teams/orders",
    "teams/payments",
    "teams/platform",
    "types/destinations",
    "types/processors",
    "types/sources",
)
"""Eight folders whose resources refer to each other."""
SECRETS = {
    f"DESTINATION_DEFAULT__{name}": "canary-of-an-example"
    for name in ("CHECKOUT_ANALYTICS_KEY", "PAYMENTS_AUTHORIZATION", "SECURITY_AUTHORIZATION")
}


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """The example repository, one commit."""
    source = Repository.init(tmp_path / "source")
    shutil.copytree(EXAMPLES, source.path, dirs_exist_ok=True)
    source.commit()
    return source


@pytest.fixture
def daemon(tmp_path: Path, source: Repository) -> Iterator[Daemon]:
    """A daemon at its first start, with an entry for each folder."""
    entries = [watched(folder.replace("/", "-"), source.path, path=folder) for folder in FOLDERS]
    with daemons.running(tmp_path / "daemon", repositories=entries, environment=SECRETS) as running:
        yield running


def applied(daemon: Daemon, commit: str) -> list[dict[str, object]]:
    """The entries, once all of them have applied the commit."""
    return [daemon.applied(name, commit) for name in daemon.repositories]


def test_the_first_start_is_one_change_without_partial_runs_and_alerts(daemon: Daemon, source: Repository) -> None:
    every = applied(daemon, source.head())
    told = [(run["repository"], run["outcome"]) for run in daemon.runs()]
    assert (sorted(told), daemon.opened()) == (sorted((name, "succeeded") for name in daemon.repositories), [])
    assert Counter(one["state"] for one in every) == {"ready": len(FOLDERS)}


def test_a_flow_that_a_commit_ends_is_told_in_the_run_of_its_entry(daemon: Daemon, source: Repository) -> None:
    applied(daemon, source.head())
    for path, old, new in (
        ("shared/processors/keep-warnings.yaml", "value: warn", "value: error"),
        ("teams/orders/orders.yaml", "service.name: orders", "service.name: orders-of-today"),
        ("teams/orders/orders.yaml", "- name: orders-desk", "- name: security-events"),
    ):
        text = (source.path / path).read_text()
        assert old in text
        source.write(path, text.replace(old, new))
    commit = source.commit()
    applied(daemon, commit)
    runs = {run["repository"]: daemon.run(run["id"]) for run in daemon.runs() if run["commit"] == commit}
    assert (sorted(runs), "flows" in runs["shared"]) == (["shared", "teams-orders"], False)
    told = {one["text"] for one in runs["teams-orders"]["flows"]["changes"]}
    assert "orders stops delivering to orders-desk" in told


@pytest.mark.parametrize("settings", [{"path": "b"}, {"include": ["/b/"]}], ids=["path", "include"])
def test_a_commit_records_no_run_of_an_entry_whose_files_stay(tmp_path: Path, settings: dict[str, object]) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a/a.yaml", destination("a"))
    source.write("b/b.yaml", destination("b"))
    first = source.commit()
    entries = [watched("a", source.path, path="a"), watched("b", source.path, **settings)]
    with daemons.running(tmp_path / "daemon", repositories=entries) as daemon:
        applied(daemon, first)
        [start] = daemon.runs("b")
        source.write("a/a.yaml", destination("a", "edited"))
        second = source.commit()
        _, b = applied(daemon, second)
        assert (b["state"], b["head"], b["lastRun"], daemon.runs("b")) == ("ready", second, start["id"], [start])
        assert [run["commit"] for run in daemon.runs("a")] == [second, first]
        # It is known after a restart, and a run that somebody asks for is recorded.
        daemon.restart()
        assert daemon.repository("b")["commit"] == second
        asked = daemon.reconcile("b")
        assert (asked["commit"], asked["outcome"], asked["counts"]) == (second, "succeeded", {})
        source.write("b/b.yaml", destination("b", "edited"))
        assert daemon.run_of("b", source.commit())["counts"] == {"configured": 1}
        assert [run["commit"] for run in daemon.runs("a")] == [second, first]


TYPE = """\
apiVersion: service/v1
kind: ProcessorType
metadata: {name: keep, description: "%s"}
spec:
  version: 1.0.0
  supportedPlatforms: [linux]
  parameters: [{name: least, type: string, default: info}]
  logs: {processors: "- filter: {at_least: {{ .least }}}"}
"""
COMPONENT = """\
apiVersion: service/v1
kind: Processor
metadata: {name: %s, description: "%s"}
spec: {type: keep}
"""
NAMES = ("apps", "desks", "types")


class Entries:
    """Three entries of one project: a type in one, and a component of that type in each of the others."""

    def __init__(self, folder: Path, **settings: dict[str, object]) -> None:
        self.source = Repository.init(folder / "source")
        self.write("types")
        self.write("desks")
        self.write("apps")
        self.first = self.source.commit()
        repositories = [watched(name, self.source.path, path=name, **settings.get(name, {})) for name in NAMES]
        self.daemon = Daemon(folder / "daemon", repositories=repositories)

    def write(self, entry: str, description: str = "", *, name: str = "") -> None:
        """Write the file of an entry."""
        document = TYPE % description if entry == "types" else COMPONENT % (name or entry, description)
        self.source.write(f"{entry}/one.yaml", document)

    def commit(self) -> dict[str, tuple[str, dict[str, int]]]:
        """Commit, and wait for all; the runs of the commit."""
        commit = self.source.commit()
        applied(self.daemon, commit)
        return self.runs(commit)

    def runs(self, commit: str) -> dict[str, tuple[str, dict[str, int]]]:
        """Outcome and counts of the run of each entry at a commit; more than one fails."""
        found = [run for run in self.daemon.runs() if run["commit"] == commit]
        told = {str(run["repository"]): (str(run["outcome"]), dict(run["counts"])) for run in found}
        assert len(told) == len(found), found
        return told

    def stored(self) -> dict[str, tuple[int, str]]:
        """The version and the owner of each Processor, by its name."""
        found = self.daemon.resources("Processor")
        return {
            one["metadata"]["name"]: (one["metadata"]["version"], one["status"]["source"]["repository"])
            for one in found
            if one["status"]["source"]["type"] == "git"
        }


@pytest.fixture
def entries(tmp_path: Path) -> Iterator[Entries]:
    """Entries that are applied."""
    found = Entries(tmp_path)
    try:
        found.daemon.start()
        applied(found.daemon, found.first)
        assert found.runs(found.first) == dict.fromkeys(NAMES, ("succeeded", {"created": 1}))
        yield found
    finally:
        daemons.end(found.daemon)


def test_what_a_commit_changes_in_several_entries_is_one_change(entries: Entries) -> None:
    entries.write("desks", "edited")
    entries.write("types", "edited")
    assert entries.commit() == dict.fromkeys(("desks", "types"), ("succeeded", {"configured": 1}))
    # A type goes with all that has it.
    for name in NAMES:
        entries.source.remove(f"{name}/one.yaml")
        entries.source.write(f"{name}/two.yaml", destination(name))
    assert entries.commit() == dict.fromkeys(NAMES, ("succeeded", {"created": 1, "deleted": 1}))
    assert (entries.stored(), entries.daemon.complaints()) == ({}, [])


def test_a_resource_passes_from_one_entry_to_another_and_keeps_its_versions(entries: Entries) -> None:
    entries.source.write("apps/desk.yaml", COMPONENT % ("desks", "edited"))
    entries.source.remove("desks/one.yaml")
    entries.source.write("desks/two.yaml", destination("kept"))
    assert entries.commit() == {"apps": ("succeeded", {"configured": 1}), "desks": ("succeeded", {"created": 1})}
    told = entries.daemon.repository("desks")["message"]
    assert told == "Processor desks passed to the repository apps."
    assert entries.stored() == {"apps": (1, "apps"), "desks": (2, "apps")}


def test_an_entry_that_is_suspended_keeps_no_other_from_its_commit(entries: Entries) -> None:
    daemon = entries.daemon
    assert daemon.post("/v1/repositories/desks/suspend", {"reason": "a test"}).status == 200
    for name in NAMES:
        entries.write(name, "edited")
    commit = entries.source.commit()
    for name in ("apps", "types"):
        daemon.applied(name, commit)
    assert entries.runs(commit) == dict.fromkeys(("apps", "types"), ("succeeded", {"configured": 1}))
    assert entries.stored() == {"apps": (2, "apps"), "desks": (1, "desks")}
    assert daemon.repository("desks")["commit"] == entries.first


def test_an_entry_without_a_trusted_signature_keeps_no_other_from_its_commit(tmp_path: Path) -> None:
    signers = allow(tmp_path / "signers", Signer.make(tmp_path, "ada"))
    entries = Entries(tmp_path, desks={"verify": {"signersFile": str(signers)}})
    try:
        entries.daemon.start()
        for name in ("apps", "types"):
            entries.daemon.applied(name, entries.first)
        entries.daemon.state_of("desks", "unsigned")
        found: dict[str, tuple[str, dict[str, int]]] = {"desks": ("failed", {})} | dict.fromkeys(
            ("apps", "types"), ("succeeded", {"created": 1})
        )
        assert (entries.runs(entries.first), entries.stored()) == (found, {"apps": (1, "apps")})
    finally:
        daemons.end(entries.daemon)


def test_an_atomic_entry_that_is_refused_stores_nothing_and_the_others_meet_that(tmp_path: Path) -> None:
    entries = Entries(tmp_path, types={"atomic": True})
    entries.source.write("types/bad.yaml", destination("bad").replace("type: otlp", "type: 5"))
    commit = entries.source.commit()
    try:
        entries.daemon.start()
        for name in ("apps", "desks"):
            entries.daemon.applied(name, commit)
        invalid = ("partial", {"invalid": 1})
        refused = ("refused", {"created": 1, "invalid": 1})
        assert entries.runs(commit) == {"apps": invalid, "desks": invalid, "types": refused}
        assert entries.stored() == {}
        # What it holds is mended: it lets in what the others hold.
        entries.source.remove("types/bad.yaml")
        mended = entries.source.commit()
        applied(entries.daemon, mended)
        assert entries.runs(mended) == dict.fromkeys(NAMES, ("succeeded", {"created": 1}))
    finally:
        daemons.end(entries.daemon)


@pytest.mark.slow
def test_a_first_start_that_is_killed_stores_all_or_nothing(tmp_path: Path) -> None:
    seen = set()
    for number in range(20):
        entries = Entries(tmp_path / str(number))
        daemon = entries.daemon
        try:
            daemon.start()
            time.sleep(number * 0.01)  # any moment of the runs
            daemon.kill()
            with stores.sql(daemon.state) as store:
                [(runs,)] = store.execute("select count(*) from run")
                [(heads,)] = store.execute("select count(*) from resource")
            seen.add(runs + heads)
            daemon.start()
            applied(daemon, entries.first)
            assert entries.runs(entries.first) == dict.fromkeys(NAMES, ("succeeded", {"created": 1}))
        finally:
            daemons.end(daemon)
    assert seen <= {(0, 0), (3, 3)}
