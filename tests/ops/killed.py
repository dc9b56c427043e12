"""A process killed at each step: `python -m tests.ops.killed (backup|restore|upgrade) FOLDER FIRST EVERY`.

A step is a call to the system that Python's audit events tell of: a file opened, linked, renamed, removed, a database
connected. At each (or at every so many-th, beginning with the first given) the process is killed, and what is left is
judged, used, and used for the same once more. What is wrong is told as JSON, a line each; last, how many steps there
were.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from reconciler.ops import backup, databases
from reconciler.store import files
from reconciler.store.files import STORE, DatabasePlaces
from tests.ops import scenes

EVENTS = ("open", "sqlite3.connect", "os.", "shutil.")
OLD, NEW = ["c"], ["a", "b"]


def main(what: str, folder: Path, first: int, every: int) -> None:
    scenes.filled(folder / "old", *OLD)
    new = scenes.filled(folder / "new", *NEW)
    backup.back_up(new, folder / "given", now=scenes.NOW, watch=scenes.watch())
    step, wrong = first, 0
    while True:
        work = folder / "work"
        shutil.copytree(folder / "old", work)
        if what == "upgrade":
            (work / "store.db").unlink()
            scenes.older(work / "store.db", 2)
        ended = die_at(step, partial(ACTS[what], work, folder / "given"))
        problems = JUDGES[what](work, folder / "given")
        if problems:
            wrong += 1
            print(json.dumps({"step": step, "problems": problems, "left": scenes.listing(work)}))
        shutil.rmtree(work)
        if ended:
            break
        step += every
    print(json.dumps({"steps": step, "wrong": wrong}))


def die_at(step: int, act: Callable[[], object]) -> bool:
    """Act in a process that is killed at a step; whether it came to its end before."""
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, _: object) -> None:
            nonlocal count
            if event.startswith(EVENTS):
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        act()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status == 0


def back_up(work: Path, _: Path) -> None:
    places = DatabasePlaces(work / "store.db", work / "ops.db")
    backup.back_up(places, work / "backup", now=scenes.NOW, watch=scenes.watch())


def restore(work: Path, given: Path) -> None:
    places = DatabasePlaces(work / "store.db", work / "ops.db")
    backup.restore(backup.read_backup(given), places, by="machine:root", now=scenes.NOW, watch=scenes.watch())


def upgrade(work: Path, _: Path) -> None:
    databases.copy_before_upgrade(DatabasePlaces(work / "store.db", work / "ops.db"), clock=lambda: 0.0)


def judge_backup(work: Path, given: Path) -> list[str]:
    if not (work / "backup").exists():
        back_up(work, given)
    backup.check_manifest(work / "backup", backup.read_manifest(work / "backup"))
    found = scenes.names(work / "backup" / "store.db")
    there = {name for name in scenes.listing(work) if not name.endswith(".unfinished")}  # in a folder of its own
    left = there - {"backup", "store.db", "ops.db"}
    return [*([] if found == OLD else [f"it holds {found}"]), *(f"{name} is left" for name in sorted(left))]


def judge_restore(work: Path, given: Path) -> list[str]:
    problems = []
    found, signed_in = scenes.names(work / "store.db"), scenes.sessions(work / "ops.db")
    if found not in (OLD, NEW):
        problems.append(f"the store holds {found}")
    if found == NEW and signed_in:
        problems.append("somebody of the old store is signed in")
    kept = sorted(work.glob("store.db.replaced-*[0-9Z]"))
    if found == NEW and [scenes.names(path) for path in kept] != [OLD]:
        problems.append(f"what was there is in {kept}")
    for path in work.glob("*.replaced-*"):
        path.unlink()
    restore(work, given)
    if scenes.names(work / "store.db") != NEW:
        problems.append("another restore does not help")
    return [*problems, *(f"{path.name} is left" for path in sorted(work.glob("*.restoring*")))]


def judge_upgrade(work: Path, given: Path) -> list[str]:
    copy = work / f"store.db.before-{STORE.latest}"
    problems = [] if not copy.exists() or scenes.sound(copy) == "ok" else ["the copy is not whole"]
    upgrade(work, given)
    if files.identify(copy, STORE).version != 2:
        problems.append("the copy is of another version")
    with closing(sqlite3.connect(work / "store.db")) as connection:
        problems += [] if connection.execute("pragma user_version").fetchone() == (2,) else ["the store was changed"]
    left = set(scenes.listing(work)) - {copy.name, "store.db", "ops.db"}
    return [*problems, *(f"{name} is left" for name in sorted(left))]


ACTS = {"backup": back_up, "restore": restore, "upgrade": upgrade}
JUDGES = {"backup": judge_backup, "restore": judge_restore, "upgrade": judge_upgrade}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
