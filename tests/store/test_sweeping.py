"""Sweeping goes on whatever happens, and whoever writes small things does not wait for all of it."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from reconciler.store import database, writing_ahead
from reconciler.store.contract import Changes, Moved, Record, RewrittenRow, Traces
from reconciler.store.sqlite import SqliteStore
from tests.store import looking, rows
from tests.waiting import until

pytestmark = pytest.mark.anyio

WAIT = 20.0  # seconds
MANY = 6 * writing_ahead.VERSIONS  # so that sweeping them takes many steps


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()


async def begun(store: SqliteStore, *, prefix: str) -> None:
    """Many resources that a process wrote ahead, which is still there."""
    ahead = store.ahead()
    assert ahead is not None
    await ahead.write([rows.stored(*(f"{prefix}{number:04}" for number in range(MANY)))])


async def dropped(store: SqliteStore) -> None:
    ahead = store.ahead()
    assert ahead is not None
    await ahead.write([rows.stored("dropped")])
    await ahead.drop()


def counted(path: Path) -> tuple[int, int]:
    """Versions that are there, and changes that are under way or to be swept."""
    with contextlib.closing(database.open_reader(path)) as reader:
        [found] = reader.execute("select (select count(*) from version_row), (select count(*) from staged)").fetchall()
    return found[0], found[1]


async def until_swept(store: SqliteStore) -> None:
    await until(lambda: counted(store.path) == (0, 0))


async def test_it_goes_on_after_a_fault_of_ours(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await until_swept(store)

    def faulty(connection: sqlite3.Connection) -> Iterator[None]:
        yield connection.execute("select 1").fetchone()
        raise ValueError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr(writing_ahead, "sweep_everything", faulty)
        await dropped(store)
        await until(lambda: "Sweeping the store failed." in caplog.messages)
    assert counted(store.path) == (1, 1)
    await dropped(store)
    await until_swept(store)


async def test_a_small_write_does_not_wait_until_all_is_swept_before_traces_are_erased(store: SqliteStore) -> None:
    await begun(store, prefix="ahead-")
    await store.commit([rows.stored("a")], record=Record(), planned_at=0)
    rewritten = RewrittenRow(rows.PROJECT, rows.KIND, "a", 1, rows.body("a", 1, "(redacted)"), None)
    await store.commit([Changes(rewritten=(rewritten,))], record=Record(redacts=True), planned_at=1)
    erasing = asyncio.create_task(store.erase_traces())
    await asyncio.sleep(0)
    async with asyncio.timeout(WAIT):
        await store.commit([rows.stored("b")], record=Record(), planned_at=2)
        left, _ = counted(store.path)
        assert not erasing.done()
        assert left > writing_ahead.VERSIONS
        assert await erasing is Traces.ERASED
    assert (counted(store.path), await looking.names(store)) == ((2, 0), ["a", "b"])


async def test_a_small_write_does_not_wait_until_another_users_change_is_swept(
    store: SqliteStore, tmp_path: Path
) -> None:
    other = SqliteStore(tmp_path / "store.db")
    await begun(other, prefix="theirs-")
    ours = store.ahead()
    assert ours is not None
    await ours.write([rows.stored("ours")])
    large = asyncio.create_task(store.commit((), record=Record(), planned_at=None, ahead=ours))
    await asyncio.sleep(0)
    async with asyncio.timeout(WAIT):
        await store.commit([rows.stored("b")], record=Record(), planned_at=0)
        assert not large.done()
        await large
    assert (counted(store.path), await looking.names(store)) == ((2, 0), ["b", "ours"])
    await other.close()


async def test_a_change_that_is_overtaken_while_others_are_swept_is_void(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "store.db")
    await begun(other, prefix="theirs-")
    ours = store.ahead()
    assert ours is not None
    await ours.write([rows.stored("a")])
    large = asyncio.create_task(store.commit((), record=Record(), planned_at=None, ahead=ours))
    await asyncio.sleep(0)
    await store.commit([rows.stored("a")], record=Record(), planned_at=0)
    with pytest.raises(Moved):
        await large
    assert await looking.versions(store, "a") == [1]
    await other.close()
