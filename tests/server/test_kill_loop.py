"""A daemon that is killed at any moment, again and again: what it acknowledged is there, and the rest converges."""

import contextlib
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests import daemons
from tests.daemons import Daemon, asked, destination, watched
from tests.repositories import Repository

KILLS = 25
LONGEST_LIFE = 1.2  # seconds from the start of the process to its end, so that starting is hit as well
FILES = 60
SEED = 20260102
WRITERS = 3

pytestmark = pytest.mark.slow


class Writer(threading.Thread):
    """Applies and deletes resources of its own for as long as it may, and remembers what was acknowledged."""

    def __init__(self, daemon: Daemon, number: int) -> None:
        super().__init__(name=f"writer-{number}")
        self.daemon_under_test = daemon
        self.number = number
        self.acknowledged: dict[str, str | None] = {}
        self.unknown: set[str] = set()
        self.done = threading.Event()

    def run(self) -> None:
        count = 0
        while not self.done.is_set():
            count += 1
            name = f"api-{self.number}-{count % 40}"
            gone = count % 7 == 0
            # Without an answer nobody knows whether it happened; either is right.
            self.unknown.add(name)
            with contextlib.suppress(OSError, HTTPException, ValueError):
                status = self._take(name) if gone else self._give(name, str(count))
                if status in (202, 204, 404):
                    self.acknowledged[name] = None if gone else str(count)
                    self.unknown.discard(name)
                    continue
            time.sleep(0.01)

    def _give(self, name: str, description: str) -> int:
        return self.daemon_under_test.post("/v1/apply", {"resources": [asked(name, description)]}).status

    def _take(self, name: str) -> int:
        return self.daemon_under_test.delete(f"/v1/resources/Destination/{name}").status


@contextlib.contextmanager
def writing(daemon: Daemon) -> Iterator[list[Writer]]:
    writers = [Writer(daemon, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.done.set()
        for writer in writers:
            writer.join()


def change(source: Repository, chance: random.Random, step: int) -> None:
    """Edit, move, add and delete some files, and commit."""
    for _ in range(10):
        number = chance.randrange(FILES)
        path, moved = f"{number % 5}/{number}.yaml", f"moved/{number}.yaml"
        match chance.choice(["edit", "move", "remove"]):
            case "edit":
                source.remove(moved)
                source.write(path, destination(f"git-{number}", f"step {step}"))
            case "move" if (source.path / path).exists():
                source.git("add", "--all")
                source.remove(moved)
                source.move(path, moved)
            case _:
                source.git("add", "--all")
                source.remove(path)
    source.write("always.yaml", destination("git-always", f"step {step}"))
    source.commit()


def wanted(daemon: Daemon) -> list[dict[str, Any]]:
    """What came from Git, less what another daemon cannot know: ids, versions, dates, and the commits of a version."""
    found = [one for one in daemon.resources("Destination") if one["metadata"]["name"].startswith("git-")]
    for one in found:
        for key in ("id", "version", "dateModified", "hash"):
            del one["metadata"][key]
        for key in ("commit", "date", "changedBy"):
            one["status"]["source"].pop(key, None)
    return found


def test_killed_again_and_again_it_keeps_what_it_acknowledged_and_converges(tmp_path: Path) -> None:
    chance = random.Random(SEED)  # noqa: S311 - moments and files, no secret
    source = Repository.init(tmp_path / "source")
    for number in range(FILES):
        source.write(f"{number % 5}/{number}.yaml", destination(f"git-{number}"))
    source.commit()
    repositories = [watched("one", source.path, interval="500ms", prune={"maxPercent": 100})]
    daemon = Daemon(tmp_path / "daemon", repositories=repositories, has_real_reader=True)
    children: set[int] = set()
    try:
        with writing(daemon) as writers:
            for step in range(KILLS):
                life = chance.uniform(0, LONGEST_LIFE)
                if life < 0.4:
                    daemon.launch()  # most likely it dies before it listens
                else:
                    daemon.start()
                    children |= set(daemon.children())
                end = time.monotonic() + life
                while time.monotonic() < end:
                    change(source, chance, step)
                daemon.kill()
            daemon.start()
            change(source, chance, KILLS)
            daemon.run_of("one", source.head())
        daemons.until(lambda: daemon.repository("one")["commit"] == source.head(), "the head is applied")
        check(daemon, writers)
        with daemons.running(tmp_path / "fresh", repositories=repositories) as fresh:
            fresh.run_of("one", source.head())
            assert wanted(daemon) == wanted(fresh)
        children |= set(daemon.children())
        assert daemon.stop() == 0
    finally:
        daemons.end(daemon)
    check_store(daemon)
    daemons.until(lambda: not any(map(_is_reader, children)), "no reader child is left")
    assert sum(len(writer.acknowledged) for writer in writers) > 0


def check(daemon: Daemon, writers: list[Writer]) -> None:
    """Every acknowledged write is there, and nothing else is but what nobody knows of."""
    present = {one["metadata"]["name"]: one["metadata"] for one in daemon.resources("Destination")}
    for writer in writers:
        for name, description in writer.acknowledged.items():
            if name not in writer.unknown:
                found = present.get(name)
                assert (None if found is None else found["description"]) == description, name
    # Every version that is there has its whole history below it.
    for name, metadata in list(present.items())[::10]:
        versions = [one["metadata"]["version"] for one in daemon.history("Destination", name)]
        assert versions == list(range(metadata["version"], 0, -1)), name


def check_store(daemon: Daemon) -> None:
    with closing(sqlite3.connect(daemon.state / "store.db")) as store:
        assert store.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert store.execute("pragma foreign_key_check").fetchall() == []
        twice = "select run, count(*) from audit where run is not null group by run, kind, name having count(*) > 1"
        assert store.execute(twice).fetchall() == []
        lost = "select count(*) from audit where run is not null and run not in (select id from run)"
        assert store.execute(lost).fetchone() == (0,)


def _is_reader(process: int) -> bool:
    with contextlib.suppress(OSError):
        return b"reconciler.worker.child" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False
