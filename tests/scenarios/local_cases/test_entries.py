"""Several entries of one project that follow one repository: a commit is one change for all of them."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository

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
    for name in ("ARCHIVE_ACCESS_KEY", "CHECKOUT_ANALYTICS_KEY", "PAYMENTS_AUTHORIZATION", "SECURITY_AUTHORIZATION")
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
