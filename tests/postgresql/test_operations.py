"""Sessions and notifications on PostgreSQL outlive their process and their server, and other replicas hear of them."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import psycopg
import pytest

from reconciler.store.contract import StaleChange, StoreFault
from reconciler.store.notices import NoticeKind
from reconciler.store.postgresql.operations import PostgresqlOperations
from reconciler.store.records import Noted
from reconciler.store.statements import Connection
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import Database, Server
from tests.store.contract_operations import LATER, ONE, TWO, row, status

pytestmark = [pytest.mark.providers, pytest.mark.anyio]


@pytest.fixture
async def operations(database: Database) -> AsyncIterator[PostgresqlOperations]:
    PostgresqlEngine(database).prepare()
    opened = PostgresqlOperations(database.url)
    yield opened
    await opened.close()


@pytest.mark.parametrize("end", ["fast", "immediate", "kill"])
async def test_a_server_that_comes_back_has_them_all(
    operations: PostgresqlOperations, server: Server, end: str
) -> None:
    key = await operations.flow_key()
    await operations.put_session(row(1))
    number = await operations.note(Noted(put=[ONE], statuses=[status(ONE, "ana", "read")]), after=0)
    if end == "kill":
        server.kill()
    else:
        server.stop(end)
    with pytest.raises(
        StoreFault, match=r"^The sessions and notifications could not be written \(.*nothing was changed"
    ):
        await operations.put_session(row(2))
    with pytest.raises(StoreFault):
        await operations.sessions()
    server.start()
    assert await operations.sessions() == [row(1)]
    assert await operations.notifications() == (number, [ONE], [status(ONE, "ana", "read")])
    assert await operations.flow_key() == key
    await operations.put_session(row(2))
    assert await operations.sessions([row(2).digest, b"unknown"]) == [row(2)]


async def test_replicas_make_one_key_and_number_their_changes_together(
    operations: PostgresqlOperations, database: Database
) -> None:
    others = [PostgresqlOperations(database.url) for _ in range(4)]
    try:
        assert len(set(await asyncio.gather(*(one.flow_key() for one in others)))) == 1
        found = await asyncio.gather(*(one.note(Noted(put=[TWO]), after=0) for one in others), return_exceptions=True)
        assert sorted(str(type(one).__name__) for one in found) == ["StaleChange"] * 3 + ["int"]
        assert await operations.note(Noted(put=[ONE]), after=1) == 2
        with pytest.raises(StaleChange):
            await others[0].note(Noted(forget=[ONE.id]), after=1)
        assert (await others[0].notifications()).rows == [ONE, TWO]
    finally:
        for one in others:
            await one.close()


async def test_other_replicas_are_told_in_the_same_transaction(
    operations: PostgresqlOperations, database: Database
) -> None:
    told: list[tuple[str, object]] = []
    fails = False

    def tell(connection: Connection, kind: NoticeKind, body: Callable[[], msgspec.Struct]) -> None:
        told.append((str(kind), msgspec.to_builtins(body(), enc_hook=list)))
        if fails:
            connection.run("no such statement")

    telling = PostgresqlOperations(database.url, tell_replicas=tell)
    try:
        await telling.put_session(row(1))
        await telling.put_session(row(2), without=[row(1).digest])
        await telling.touch_sessions({row(2).digest: LATER})
        await telling.note(Noted(put=[ONE]), after=0)
        assert [kind for kind, _ in told] == ["sessions", "sessions", "sessions", "notifications"]
        fails = True
        with pytest.raises(KeyError):
            await telling.remove_sessions([row(2).digest])
        assert await operations.sessions() == [row(2)._replace(seen_at=LATER)]
    finally:
        await telling.close()


async def test_a_large_commit_does_not_hold_up_a_sign_in(operations: PostgresqlOperations, database: Database) -> None:
    with psycopg.connect(database.url) as commit:
        commit.execute("select number from fact where key = 'revision' for update")
        async with asyncio.timeout(10):
            await operations.put_session(row(1))
            await operations.note(Noted(put=[ONE]), after=0)


async def test_a_session_cannot_be_read_by_the_worker(operations: PostgresqlOperations, database: Database) -> None:
    from reconciler.store.postgresql import rights  # noqa: PLC0415

    await operations.put_session(row(1))
    rights.settle(database.url, database.worker_url)
    with psycopg.connect(database.worker_url) as worker, pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute("select digest from session")
