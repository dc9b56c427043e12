"""A daemon that is killed at a random moment of a large reconcile ends as one that was not: every resource is stored
once, by one run, and nothing of what was given up is left.
"""

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository
from tests.worker.stored import unshown

FILES = 1_000
TEXT = 2_000  # characters in each: together far more than waits in memory
ROUNDS = 25
SEED = 20261122
SECONDS = 60.0


class Large:
    """A repository whose every commit changes all of its files."""

    def __init__(self, folder: Path) -> None:
        self.source = Repository.init(folder)
        self.commits = 0

    def commit(self) -> str:
        self.commits += 1
        for number in range(FILES):
            text = f"{self.commits} " + "x" * TEXT
            self.source.write(f"{number % 20:02}/{number:04}.yaml", destination(f"d{number:04}", text))
        return self.source.commit()


@pytest.fixture
def large(tmp_path: Path) -> Large:
    return Large(tmp_path / "source")


def applied(daemon: Daemon, commit: str) -> dict[str, Any]:
    """The run that applied a commit, once it is there and nothing is left to sweep."""
    store = daemon.state / "store.db"
    daemons.until(lambda: daemon.repository("large")["commit"] == commit, "it is applied", seconds=SECONDS)
    daemons.until(lambda: not unshown(store), "what was given up is gone", seconds=SECONDS)
    [run] = [run for run in daemon.runs("large") if run["commit"] == commit]
    return run


def check(daemon: Daemon, *, commit: str, version: int) -> None:
    run = applied(daemon, commit)
    assert (run["outcome"], run["counts"]) == ("succeeded", {"created" if version == 1 else "configured": FILES})
    found = [(one["metadata"]["name"], one["metadata"]["version"]) for one in daemon.resources("Destination")]
    assert found == [(f"d{number:04}", version) for number in range(FILES)]
    with closing(sqlite3.connect(daemon.state / "store.db")) as store:
        assert store.execute("select count(*) from version").fetchone() == (FILES * version,)
        assert store.execute("select count(*) from audit where run = ?", (run["id"],)).fetchone() == (FILES,)
        assert store.execute("select count(*) from run_status").fetchone() == (FILES * version,)
        assert store.execute("select count(*) from source_file").fetchone() == (FILES,)
        assert store.execute("select count(*) from wanted").fetchone() == (FILES,)


def known(daemon: Daemon) -> list[dict[str, Any]]:
    """What came from Git, less what another daemon cannot know."""
    found = daemon.resources("Destination")
    for one in found:
        for key in ("id", "version", "dateModified", "hash"):
            del one["metadata"][key]
        one["status"]["source"].pop("changedBy", None)
    return found


def kill_again_and_again(folder: Path, large: Large, *, rounds: int) -> None:
    chance = random.Random(SEED)  # noqa: S311 - moments, no secret
    repositories = [watched("large", large.source.path, interval="1h")]
    daemon = Daemon(folder / "daemon", repositories=repositories, has_real_reader=True)
    try:
        large.commit()
        begun = time.monotonic()
        daemon.start()
        check(daemon, commit=large.source.head(), version=1)
        took = time.monotonic() - begun
        for _ in range(rounds):
            commit = large.commit()  # it is seen at once, or at the next start
            time.sleep(chance.uniform(0, took))
            daemon.kill()
            if chance.random() < 0.5:
                daemon.launch()
                time.sleep(chance.uniform(0, took))
                daemon.kill()
            daemon.start()
            check(daemon, commit=commit, version=large.commits)
        with daemons.running(folder / "fresh", repositories=repositories) as fresh:
            applied(fresh, large.source.head())
            assert known(daemon) == known(fresh)
        assert daemon.stop() == 0
    finally:
        daemons.end(daemon)
    with closing(sqlite3.connect(daemon.state / "store.db")) as store:
        assert store.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert store.execute("pragma foreign_key_check").fetchall() == []


@pytest.mark.slow
def test_killed_in_a_large_reconcile_it_ends_as_if_it_were_not(tmp_path: Path, large: Large) -> None:
    kill_again_and_again(tmp_path, large, rounds=ROUNDS)
