"""Databases as a service keeps them, small: a store of some resources, and somebody who is signed in."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from reconciler.ops.databases import ProgressWatch
from reconciler.store import database, operations
from reconciler.store.files import DatabasePlaces
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import Changes, Record, SessionRow
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows

NOW = datetime(2026, 11, 22, 6, 12, tzinfo=UTC)
TOKEN = "canary-id-token-of-somebody-who-is-signed-in"


def places(folder: Path) -> DatabasePlaces:
    """Return where both are in a state directory, which is made."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return DatabasePlaces(folder / "store.db", folder / "ops.db")


def filled(folder: Path, *names: str) -> DatabasePlaces:
    """A state directory with these resources, and one session."""
    found = places(folder)
    asyncio.run(_fill(found, names))
    return found


async def _fill(found: DatabasePlaces, names: tuple[str, ...]) -> None:
    store = SqliteStore(found.store)
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit([rows.stored(name) for name in names], record=Record(run=rows.run("R1")))
    await store.close()
    beside = SqliteOperations(found.operations)
    await beside.flow_key()
    await beside.put_session(SessionRow(b"\1" * 32, "a user", 0, rows.AT, rows.AT, TOKEN))
    await beside.close()


async def add(path: Path, part: Changes) -> None:
    """Store more."""
    store = SqliteStore(path)
    await store.commit([part], record=Record())
    await store.close()


def older(path: Path, version: int) -> None:
    """A store as a program of this version left it, without resources."""
    with closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations()[:version])


def older_operations(path: Path, version: int) -> None:
    """`ops.db` as a program of this version left it, with somebody who is signed in."""
    steps = database.migrations(operations.PACKAGE)[:version]
    with closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=steps, application_id=operations.APPLICATION_ID)
        connection.execute("insert into session values (x'01', 'a user', 0, '', '', ?)", (TOKEN,))


def names(path: Path) -> list[str]:
    """Return what a store holds, opened as the service opens it."""

    async def look() -> list[str]:
        store = SqliteStore(path)
        try:
            return await looking.names(store)
        finally:
            await store.close()

    return asyncio.run(look())


def sessions(path: Path) -> int:
    """How many are signed in; the file is opened as the service opens it."""

    async def look() -> int:
        beside = SqliteOperations(path)
        try:
            return len(await beside.sessions())
        finally:
            await beside.close()

    return asyncio.run(look())


def sound(path: Path) -> str:
    """Return what SQLite says of a file that nobody uses."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return str(connection.execute("pragma integrity_check").fetchone()[0])


def damage(path: Path) -> None:
    """Write over the middle of a database, as a failing disk does."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xff" * 3 * 4096)


def watch(seconds: float = 60.0) -> ProgressWatch:
    """One whose clock stands still."""
    return ProgressWatch(lambda: 0.0, seconds, lambda _: None)


def watch_that_is_over() -> ProgressWatch:
    """One whose time is up at the second look."""
    moments = iter([0.0])
    return ProgressWatch(lambda: next(moments, 100.0), 1.0, lambda _: None)


def listing(folder: Path) -> list[str]:
    """The names in a folder, without what SQLite has beside a database that was read: an index, and an empty log."""
    found = (path for path in folder.iterdir() if not path.name.endswith("-shm"))
    return sorted(path.name for path in found if not path.name.endswith("-wal") or path.stat().st_size)
