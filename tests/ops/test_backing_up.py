"""A backup holds one moment of both databases, whole and verified, or it is not there."""

import hashlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.errors import ReconcilerError
from reconciler.ops import backup, databases
from reconciler.ops.databases import ProgressWatch
from reconciler.store import database
from reconciler.store.files import OPERATIONS, STORE, DatabasePlaces
from tests import canaries, needs
from tests.ops import scenes

ROOT = Path(__file__).parents[2]
WRITES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
number = 0
while True:
    number += 1
    connection.execute("begin immediate")
    connection.execute("insert into one values (?)", (number,))
    connection.execute("insert into other values (?)", (number,))
    connection.execute("commit")
    if number == 10:
        print("writing", flush=True)
"""
SCRIPT = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$2" -m tests.ops.full_disk "$1"'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(places: DatabasePlaces, folder: Path) -> str:
    with pytest.raises(ReconcilerError) as caught:
        backup.back_up(places, folder, now=scenes.NOW, watch=scenes.watch())
    return caught.value.message


def test_it_holds_the_store_and_says_what_is_in_it(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a", "b")
    made = backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    folder = tmp_path / "backup"
    assert scenes.listing(folder) == ["manifest.json", "ops.db", "store.db"]
    assert scenes.listing(tmp_path) == ["backup", "state"]
    assert [mode(path) for path in (folder, *sorted(folder.iterdir()))] == [0o700, 0o600, 0o600, 0o600]
    told = json.loads((folder / "manifest.json").read_bytes())
    assert backup.read_manifest(folder) == made
    assert (told["format"], told["madeAt"]) == (1, "2026-11-22T06:12:00.000Z")
    assert [file["version"] for file in told["files"]] == [STORE.latest, OPERATIONS.latest]
    digests = [hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest() for file in told["files"]]
    assert [file["sha256"] for file in told["files"]] == digests
    assert (told["files"][0]["rows"]["resource"], told["files"][1]["rows"]["session"]) == (2, 0)
    backup.check_manifest(folder, made)
    assert [scenes.sound(folder / name) for name in ("store.db", "ops.db")] == ["ok", "ok"]
    assert scenes.names(folder / "store.db") == ["a", "b"]


def test_it_leaves_what_it_copies_as_it_was(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    before = {path.name: path.read_bytes() for path in (tmp_path / "state").glob("*.db")}
    backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").glob("*.db")} == before
    assert (scenes.names(places.store), scenes.sessions(places.operations)) == (["a"], 1)


def test_nobody_who_is_signed_in_is_in_it(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    assert canaries.leaks(places.operations.read_bytes()) != []
    backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    copy = tmp_path / "backup" / "ops.db"
    assert canaries.leaks(copy.read_bytes()) == []
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("select count(*) from session").fetchone() == (0,)
        assert connection.execute("select count(*) from fact where key = 'flow_key'").fetchone() == (0,)


def test_a_store_that_never_had_sessions_has_a_backup(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    places.operations.unlink()
    made = backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    assert [file.name for file in made.files] == ["store.db"]


def test_a_log_that_a_killed_service_left_is_in_it(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    writer = sqlite3.connect(places.store, isolation_level=None)
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("insert into project (name, created_at) values ('from the log', 'now')")
    for name in ("store.db", "store.db-wal"):
        (tmp_path / name).write_bytes((tmp_path / "state" / name).read_bytes())
    writer.close()
    killed = DatabasePlaces(tmp_path / "store.db", places.operations)
    backup.back_up(killed, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    with closing(sqlite3.connect(tmp_path / "backup" / "store.db")) as connection:
        assert ("from the log",) in connection.execute("select name from project").fetchall()


def test_a_large_copy_is_of_one_moment_though_another_process_writes_all_the_time(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    with closing(sqlite3.connect(places.store)) as connection:
        connection.execute("create table ballast (data blob)")
        connection.executemany("insert into ballast values (zeroblob(1000000))", [()] * 48)  # six steps
        connection.execute("create table one (number)")
        connection.execute("create table other (number)")
        connection.commit()
    command = [sys.executable, "-c", WRITES, str(places.store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writing:
        assert writing.stdout is not None
        assert writing.stdout.readline() == b"writing\n"
        watch = ProgressWatch(time.monotonic, 60.0, lambda _: None)
        made = backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=watch)
        was_writing = writing.poll() is None
        writing.kill()
    rows = made.files[0].rows
    assert (was_writing, rows["one"] > 0, rows["one"]) == (True, True, rows["other"])


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    (tmp_path / "backup").mkdir()
    assert refused(places, tmp_path / "backup") == (
        f"{tmp_path}/backup is there already; name a folder that is not, such as one with the date in its name."
    )
    assert refused(places, tmp_path / "none" / "backup") == f"{tmp_path}/none is no folder; make it first."


def test_what_is_no_store_of_ours_has_no_backup(tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "state")
    none = f"There is no store at {places.store}; {databases.ELSEWHERE}."
    assert refused(places, tmp_path / "backup") == none
    with closing(sqlite3.connect(places.store)) as connection:
        connection.execute("create table a (b)")
    other = f"{places.store} is not the store of this program; name another file."
    assert refused(places, tmp_path / "backup") == other
    places.store.write_bytes(b"no database" * 1000)
    assert "file is not a database" in refused(places, tmp_path / "backup")
    assert scenes.listing(tmp_path) == ["state"]


def test_a_store_of_a_later_version_has_no_backup(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    with closing(sqlite3.connect(places.store)) as connection:
        connection.execute(f"pragma user_version = {STORE.latest + 1}")
    assert refused(places, tmp_path / "backup") == (
        f"The store in {places.store} is of version {STORE.latest + 1}, and this program knows versions up to "
        f"{STORE.latest}: a later version of the program wrote it; install that one."
    )


def test_a_damaged_store_leaves_nothing(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", *(f"n{number}" for number in range(300)))
    scenes.damage(places.store)
    assert "damaged" in refused(places, tmp_path / "backup") or "malformed" in refused(places, tmp_path / "backup")
    assert scenes.listing(tmp_path) == ["state"]


def test_a_copy_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "a")
    with pytest.raises(ReconcilerError, match=r"took longer than 1 seconds and was given up; nothing was changed\."):
        backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch_that_is_over())
    assert scenes.listing(tmp_path) == ["state"]


def test_root_leaves_nothing_that_the_service_cannot_open(tmp_path: Path) -> None:
    needs.require_root()
    places = scenes.filled(tmp_path / "state", "a")
    for path in (tmp_path / "state", *(tmp_path / "state").iterdir()):
        os.chown(path, 12345, 12345)
    backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    assert {path.stat().st_uid for path in (tmp_path / "state").iterdir()} == {12345}


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    command = [*needs.require_mount_namespace(), "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [words.partition(" takes ")[0] for words in told["refusals"]] == [
        "The backup",
        "To restore this backup",
        "The copy of the store before it is brought to this version",
    ]
    assert all(
        words.endswith(f"the disk of {tmp_path} has {told['free']} left; make room there.")
        for words in told["refusals"]
    )
    assert told["left"] == ["store.db"]


def test_the_versions_are_those_that_ship() -> None:
    assert STORE.latest == database.migrations()[-1].number
