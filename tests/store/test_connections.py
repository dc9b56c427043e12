"""The store's file: who may read it, where it may lie, how it is written, and what is refused."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from reconciler.model.errors import Refused
from reconciler.store import database, engines
from reconciler.store.contract import NewerStore, StoreFault
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows

pytestmark = pytest.mark.anyio
LATEST = database.migrations()[-1].number


def modes(folder: Path) -> dict[str, int]:
    return {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in folder.iterdir()}


async def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "store.db")
        await store.create_project(rows.PROJECT, at=rows.AT)
        files = modes(tmp_path)
    finally:
        os.umask(before)
    await store.close()
    assert files == dict.fromkeys(["store.db", "store.db-shm", "store.db-wal"], 0o600)


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "a?mode=ro.db", "a#b.db", "%61.db", "ü.db"])
async def test_any_path_is_that_path(tmp_path: Path, name: str) -> None:
    store = SqliteStore(tmp_path / name)
    view = engines.open_view(str(tmp_path / name))
    await store.create_project("there", at=rows.AT)
    with view.snapshot() as revision:
        assert revision == 0
    view.close()
    await store.close()
    assert list(modes(tmp_path)) == [name]


def test_a_write_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    connection = database.open_writer(tmp_path / "store.db")
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "journal_size_limit")
    found = [connection.execute(f"pragma {name}").fetchone()[0] for name in names]
    connection.close()
    assert found == ["wal", 2, 1, database.BUSY_MILLISECONDS, database.WAL_LIMIT_BYTES]


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    database.open_writer(tmp_path / "store.db").close()
    reader = database.open_reader(tmp_path / "store.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("create table other (value)")
    reader.close()


@pytest.mark.parametrize("content", [b"a text, and no database\n" * 100, b"SQLite format 3\x00" + b"\xff" * 4_096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreFault) as raised:
        SqliteStore(path)
    assert raised.value.message == (
        "The store could not be opened (file is not a database): its file is damaged, or is something else; "
        "restore a backup (docs/recovery.md)."
    )
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("create table theirs (value text)")
    other.close()
    with pytest.raises(Refused, match=r"^The store's file is another program's database; "):
        SqliteStore(path)
    other = sqlite3.connect(path)
    assert other.execute("select name from sqlite_master").fetchall() == [("theirs",)]
    other.close()


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "store.db"
    with pytest.raises(StoreFault) as caught:
        SqliteStore(path)
    assert caught.value.message == (
        f"The store could not be opened ([Errno 2] No such file or directory: '{path}'); nothing was changed: "
        "look at the disk's space and permissions."
    )


def test_a_view_of_a_store_that_is_missing_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(StoreFault, match=r"^The store could not be opened \(unable to open database file\); "):
        engines.open_view(str(tmp_path / "store.db"))
    assert list(tmp_path.iterdir()) == []


async def test_a_store_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 7000")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NewerStore) as caught:
        SqliteStore(path)
    assert caught.value.message == (
        f"The store is of version 7000, and this program knows versions up to {LATEST}: it was written by a "
        "later version; install that one, or restore a backup made before the upgrade."
    )
    assert path.read_bytes() == before


async def test_a_closed_store_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.close()
    with pytest.raises(StoreFault, match=r"^The store could not be read \(Cannot operate on a closed database\); "):
        await store.get(rows.PROJECT, rows.key("a"))


async def test_a_damaged_store_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await store.create_project(rows.PROJECT, at=rows.AT)
    names = [f"{number:04}" for number in range(500)]
    await store.commit([rows.stored(*names)], record=Record())
    await store.close()
    data = path.read_bytes()
    kept = len(data) * 3 // 4  # the schema stands before that
    path.write_bytes(data[:kept] + b"\xff" * (len(data) - kept))
    damaged = SqliteStore(path)
    with pytest.raises(StoreFault, match="malformed"):
        await looking.names(damaged)
    await damaged.close()
