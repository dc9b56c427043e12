"""The store on PostgreSQL: locks of projects, lost connections, and texts that the server does not take."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import replace

import psycopg
import pytest

from reconciler.store import audit
from reconciler.store.contract import LeaseLost, OutcomeUnknown, StoreFault
from reconciler.store.postgresql.connection import PostgresqlConnection
from reconciler.store.postgresql.store import BEAT_SECONDS, LOCKS, PostgresqlStore
from reconciler.store.records import AuditWanted, Changes, QuoteRow, Record, ReferenceRow, Traces, VersionRow
from reconciler.store.replica_records import Lease
from tests.postgresql.cutting import cut
from tests.postgresql.servers import Database, Server
from tests.store import contract_redactions, looking, rows
from tests.store.contract_audit import events

pytestmark = [pytest.mark.providers, pytest.mark.anyio]

WAIT = 10.0  # seconds
IDLE_SECONDS = 10.0  # after which the server ends a transaction in which nothing happens
SECRET = "hunter2-of-a-version"


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresqlStore]:
    opened = PostgresqlStore(database.url)
    await opened.create_project(rows.PROJECT, at=rows.AT)
    yield opened
    await opened.close()


@pytest.fixture
async def other(database: Database, store: PostgresqlStore) -> AsyncIterator[PostgresqlStore]:  # noqa: ARG001 - it is made
    opened = PostgresqlStore(database.url)
    yield opened
    await opened.close()


async def test_a_project_is_locked_for_others_until_its_commit_and_other_projects_are_not(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    async with store.locked(rows.PROJECT):
        with pytest.raises(TimeoutError):
            async with other.locked(rows.PROJECT, seconds=0.05):
                pass
        async with other.locked("another", seconds=WAIT):
            await other.tell([rows.audit("meanwhile")])
        assert await store.commit([rows.stored("a")], record=Record(), project=rows.PROJECT) == 1
        async with other.locked(rows.PROJECT, seconds=WAIT):
            assert await looking.names(other) == ["a"]
            await other.commit([rows.stored("b")], record=Record(), project=rows.PROJECT)
    assert await looking.names(store) == ["a", "b"]


async def test_a_lock_is_given_back_although_many_others_are_waited_for(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    many = [f"p{number}" for number in range(LOCKS)]

    async def wait(project: str) -> None:
        async with store.locked(project, seconds=WAIT):
            pass

    async with AsyncExitStack() as held, asyncio.TaskGroup() as waiting:
        for project in many:
            await held.enter_async_context(other.locked(project))
        async with store.locked(rows.PROJECT):
            for project in many:
                waiting.create_task(wait(project))
            await asyncio.sleep(0.5)
        async with other.locked(rows.PROJECT, seconds=1.0):
            await held.aclose()


async def test_a_commit_keeps_its_own_lock_when_the_one_before_it_ends_late(
    store: PostgresqlStore, database: Database
) -> None:
    async with AsyncExitStack() as first:
        await first.enter_async_context(store.locked(rows.PROJECT))
        await store.commit([rows.stored("a")], record=Record(), project=rows.PROJECT)
        async with store.locked(rows.PROJECT, seconds=WAIT):
            await first.aclose()
            with psycopg.connect(database.admin_url, autocommit=True) as admin:
                admin.execute(
                    "select pg_terminate_backend(pid) from pg_locks "
                    "where locktype = 'advisory' and database = (select oid from pg_database where datname = "
                    "current_database())"
                )
            with pytest.raises(StoreFault):  # it has lost the lock
                await store.commit([rows.stored("b")], record=Record(), project=rows.PROJECT)


async def test_a_lock_ends_with_its_context_and_a_cancelled_waiter_leaves_nothing(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    async def wait() -> None:
        async with other.locked(rows.PROJECT):
            raise AssertionError("it is locked")

    async with store.locked(rows.PROJECT):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.1)
        waiting.cancel()
        async with asyncio.timeout(WAIT):
            await asyncio.wait({waiting})
        assert waiting.cancelled()
    async with other.locked(rows.PROJECT, seconds=WAIT):
        pass
    async with store.locked(rows.PROJECT, seconds=WAIT):
        pass


@pytest.mark.slow
async def test_a_lock_is_kept_for_longer_than_an_idle_transaction_is(
    store: PostgresqlStore, other: PostgresqlStore
) -> None:
    async with store.locked(rows.PROJECT):
        await asyncio.sleep(IDLE_SECONDS + BEAT_SECONDS)
        with pytest.raises(TimeoutError):
            async with other.locked(rows.PROJECT, seconds=0.05):
                pass
        assert await store.commit([rows.stored("a")], record=Record(), project=rows.PROJECT) == 1


async def test_a_lock_whose_commit_is_cancelled_ends_after_it(
    store: PostgresqlStore,
) -> None:
    started, rest = threading.Event(), threading.Event()

    def parts() -> Iterator[Changes]:
        yield rows.stored("a")
        started.set()
        assert rest.wait(WAIT)
        yield rows.stored("b")

    async def change() -> None:
        async with store.locked(rows.PROJECT):
            await store.commit(parts(), record=Record(), project=rows.PROJECT)

    changing = asyncio.create_task(change())
    assert await asyncio.to_thread(started.wait, WAIT)
    for _ in range(2):
        changing.cancel()
        await asyncio.sleep(0.01)
    assert not changing.done()
    rest.set()
    async with asyncio.timeout(WAIT):
        await asyncio.wait({changing})
    assert (changing.cancelled(), await looking.names(store)) == (True, ["a", "b"])


@pytest.mark.slow
async def test_a_list_is_kept_for_longer_than_an_idle_transaction_is(store: PostgresqlStore) -> None:
    await store.commit([rows.stored(*(f"{number:03}" for number in range(300)))], record=Record())
    pages = store.list_pages(rows.PROJECT, rows.KIND, after="", limit=1_000)
    found = len(await anext(pages))
    await asyncio.sleep(IDLE_SECONDS + 1)
    found += sum([len(page) async for page in pages])
    assert found == 300


async def test_a_run_whose_lease_another_replica_has_stores_nothing(store: PostgresqlStore, database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("insert into lease (repository, holder, number, until) values ('telemetry', 'b', 7, now())")
    with pytest.raises(LeaseLost):
        await store.commit([rows.stored("a")], record=Record(lease=Lease("telemetry", 6)))
    beside = Record(lease=Lease("unknown", 1))
    with pytest.raises(LeaseLost):
        await store.commit([rows.stored("a")], record=Record(lease=Lease("telemetry", 7), beside=(beside,)))
    assert await store.commit([rows.stored("a")], record=Record(lease=Lease("telemetry", 7))) == 1


async def test_after_a_restart_of_the_server_the_next_call_gets_a_new_connection(
    store: PostgresqlStore, server: Server
) -> None:
    await store.commit([rows.stored("a")], record=Record())
    assert await looking.names(store) == ["a"]
    server.stop("immediate")
    with pytest.raises(
        StoreFault, match=r"^The store could not be (read|opened) \(.+\); nothing was changed: look if "
    ):
        await store.revision()
    with pytest.raises(StoreFault):
        await store.commit([rows.stored("b")], record=Record())
    server.start()
    assert await store.revision() == 1
    assert await store.commit([rows.stored("b")], record=Record()) == 2
    assert await looking.names(store) == ["a", "b"]


async def test_a_session_that_the_server_ended_is_replaced(store: PostgresqlStore, server: Server) -> None:
    await store.commit([rows.stored("a")], record=Record())
    await asyncio.sleep(1.1)  # a connection that was used just now is not tried again
    with server.admin() as admin:
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'service'")
    assert await store.revision() == 1
    assert await store.commit([rows.stored("b")], record=Record()) == 2


@pytest.mark.parametrize("reaches", [True, False])
async def test_a_commit_that_is_not_confirmed_may_have_been_stored_and_says_so(*, reaches: bool) -> None:
    server = Server(tcp=True).start()
    try:
        with cut(server) as line:
            store = PostgresqlStore(line.url(server.database("cut").url))
            await store.create_project(rows.PROJECT, at=rows.AT)
            line.cuts, line.reaches = 1, reaches
            with pytest.raises(OutcomeUnknown, match="so it may have been stored, or not; read the state again"):
                await store.commit([rows.stored("a")], record=Record())
            assert line.lost.acquire(timeout=WAIT)
            # The next commit waits for the end of the transaction that was cut.
            assert await store.commit([rows.stored("b")], record=Record()) == 1 + int(reaches)
            assert await looking.names(store) == ["a", "b"][1 - int(reaches) :]
            await store.close()
    finally:
        server.remove()


async def test_a_read_that_nobody_waits_for_is_ended(
    store: PostgresqlStore, server: Server, database: Database
) -> None:
    await store.commit([rows.stored("a")], record=Record())
    with server.admin(database.name) as admin, admin.transaction():
        admin.execute("lock table wanted in access exclusive mode")
        reading = asyncio.create_task(store.drift("telemetry", project=rows.PROJECT))
        await asyncio.sleep(0.1)
        reading.cancel()
        async with asyncio.timeout(WAIT):
            await asyncio.wait({reading})
        assert reading.cancelled()
    assert await store.drift("telemetry", project=rows.PROJECT) == 0


async def test_a_nul_character_is_stored_as_another_one_and_the_audit_is_whole(
    store: PostgresqlStore, database: Database
) -> None:
    event = rows.audit("a")._replace(detail='{"name": "x\0y"}', actor="key:\0")
    status = rows.run_status("R1", 0, name="na\0me", reason="it is \0")
    wanted = rows.wanted("a\0.yaml", "a\0")
    part = replace(rows.stored("a"), audit=[event], statuses=[status], wanted=[wanted])
    await store.commit([part], record=Record(run=rows.run("R1", message="\0")))
    [found] = await events(store)
    assert (found["detail"], found["actor"]) == ({"name": "x\ufffdy"}, "key:\ufffd")
    run, told = await looking.run(store, "R1")
    assert (run["message"], told["name"], told["reason"]) == ("\ufffd", "na\ufffdme", "it is \ufffd")
    with closing(PostgresqlConnection(database.url)) as connection:
        [quote] = [row for row in connection.all("quotes", rows.PROJECT, ["x\0y"]) if row[0] == "detail"]
        found_again = connection.all("wanted_in", "telemetry", ["a\0.yaml"])
    assert [row[4] for row in found_again] == ["a\ufffd"]
    await store.commit([Changes(quotes=[QuoteRow(*quote)._replace(text="(\0)")])], record=Record(redacts=True))
    with closing(PostgresqlConnection(database.url)) as connection:
        assert audit.verify_chain(connection, known=None, since=None).rewrites == 1


async def test_escaped_nul_characters_in_documents_disturb_no_report(store: PostgresqlStore) -> None:
    body = b'{"metadata":{"additionalInfo":{"message":"a\\u0000b"},"deprecated":true,"name":"old"},"spec":{}}'
    part = rows.stored("old", "user")
    part = replace(part, references=[ReferenceRow(rows.PROJECT, rows.KIND, "user", rows.KIND, "old")])
    part.versions[0] = part.versions[0]._replace(body=body)
    await store.commit([part], record=Record())
    [deprecated] = (await store.attention(rows.PROJECT, named=5)).deprecated
    assert (deprecated.name, deprecated.message, deprecated.users.first) == ("old", "a\0b", (f"{rows.KIND} user",))


async def test_a_fault_says_what_the_server_says_without_values_of_rows(store: PostgresqlStore) -> None:
    await store.commit([rows.stored("a")], record=Record())
    with pytest.raises(StoreFault) as caught:
        await store.commit([rows.stored("a")], record=Record())
    assert "duplicate key value violates unique constraint" in caught.value.message
    assert "(default" not in caught.value.message


async def test_the_files_hold_no_overwritten_value_after_it_was_erased(
    store: PostgresqlStore, server: Server, database: Database
) -> None:
    await store.commit([rows.stored("a", "b", padding=SECRET + os.urandom(5_000).hex())], record=Record())
    status = Changes(statuses=[rows.run_status("R1", 0, reason=SECRET)])
    await store.commit([status], record=Record(run=rows.run("R1")))
    rewritten = [VersionRow(rows.PROJECT, rows.KIND, name, 1, rows.body(name, 1), None) for name in "ab"]
    quote = QuoteRow("reason", "R1", 0, "(redacted)")
    assert files_holding(server, database, SECRET) >= 2
    await store.commit([Changes(rewritten=rewritten, quotes=[quote])], record=Record(redacts=True))
    assert files_holding(server, database, SECRET) >= 2
    await contract_redactions.erased(store)
    assert files_holding(server, database, SECRET) == 0
    assert await store.erase_traces() is Traces.NONE


def files_holding(server: Server, database: Database, text: str) -> int:
    """Count the tables, with what is stored beside them, whose files hold a text."""
    count = (
        "select count(*) from pg_class where relkind in ('r', 't') and pg_relation_size(oid) > 0 "
        "and position(%s in pg_read_binary_file(pg_relation_filepath(oid))) > 0"
    )
    with server.admin(database.name) as admin:
        admin.execute("checkpoint")
        row = admin.execute(count, [text.encode()]).fetchone()
    assert row is not None
    return int(row[0])


async def test_traces_are_kept_while_a_plan_needs_what_was_before(store: PostgresqlStore, database: Database) -> None:
    await store.commit([rows.stored("a", padding=SECRET)], record=Record())
    with closing(PostgresqlConnection(database.url)) as planning, planning.reading():
        assert planning.value("revision") == 1
        row = VersionRow(rows.PROJECT, rows.KIND, "a", 1, rows.body("a", 1), None)
        await store.commit([Changes(rewritten=[row])], record=Record(redacts=True))
        assert await store.erase_traces() is Traces.KEPT
        assert SECRET.encode() in planning.all("versions", rows.PROJECT, rows.KIND, "a", 1)[0][1]
    await contract_redactions.erased(store)


async def test_events_are_found_by_the_name_of_a_key_whatever_their_details_are(store: PostgresqlStore) -> None:
    details = ['{"name": "collector"}', "{", "7", '"collector"', '{"name": "\\u0000"}', None]
    told = [rows.audit(f"K{number}")._replace(kind="Key", detail=detail) for number, detail in enumerate(details)]
    await store.tell(told)
    found = await events(store, AuditWanted(kind="Key", name="collector"))
    assert [one["name"] for one in found] == ["K0"]


def test_an_address_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(Exception, match=r"`store\.url` has an option `nonsense` that libpq") as caught:
        PostgresqlStore("postgresql://user:hunter2@host:port:1/db?nonsense=1")
    assert "hunter2" not in str(caught.value)
