"""Leases on a real server: each has one holder, a greater number for each, and ends by the server's clock."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest

from reconciler.store import statements
from reconciler.store.contract import NameTaken, StoreFault
from reconciler.store.postgresql.connection import IDLE_SECONDS
from reconciler.store.postgresql.leases import PostgresqlLeases
from reconciler.store.replica_records import LEASE_SECONDS, Beat, Lease, ReplicaRow
from tests.postgresql.cutting import cut
from tests.postgresql.servers import Database, Server

pytestmark = [pytest.mark.providers, pytest.mark.anyio]

PACKAGE = "reconciler.store.postgresql"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Open = Callable[[], Awaitable[PostgresqlLeases]]


@pytest.fixture
async def opened(database: Database) -> AsyncIterator[Open]:
    migrate(database.url)
    async with AsyncExitStack() as closing:

        async def open_() -> PostgresqlLeases:
            leases = PostgresqlLeases(database.url)
            closing.push_async_callback(leases.close)
            return leases

        yield open_


def migrate(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for step in statements.migrations(PACKAGE):
            connection.execute(step.sql.encode())


def replica(name: str, process: str = "") -> ReplicaRow:
    return ReplicaRow(name, f"http://{name}", "1", process or f"process-{name}", "digest")


def end_all(database: Database) -> None:
    """Let all leases and replicas end now, as if time had passed."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("update lease set until = clock_timestamp() - interval '1 ms'")
        connection.execute("update replica set beat = beat - interval '1 min'")


def holders(beat: Beat) -> dict[str, str]:
    return {one.repository: one.holder for one in beat.held}


async def test_a_beat_shows_who_lives_and_who_holds_what(opened: Open) -> None:
    a, b = await opened(), await opened()
    assert await a.beat(replica("a")) == Beat((replica("a"),), ())
    assert await a.take("a", [("one", "two")]) == [Lease("one", 1), Lease("two", 1)]
    beat = await b.beat(replica("b"))
    assert beat.living == (replica("a"), replica("b"))
    assert holders(beat) == {"one": "a", "two": "a"}
    await a.leave(replica("a"))
    assert await b.beat(replica("b")) == Beat((replica("b"),), ())


async def test_a_group_is_taken_whole_or_not_at_all(opened: Open) -> None:
    a, b = await opened(), await opened()
    await a.beat(replica("a"))
    await b.beat(replica("b"))
    assert await a.take("a", [("two",)]) == [Lease("two", 1)]
    assert await b.take("b", [("one", "two"), ("three",)]) == [Lease("three", 1)]
    await a.release("a", ["two"])
    assert await b.take("b", [("one", "two")]) == [Lease("one", 1), Lease("two", 2)]


async def test_many_that_take_at_once_each_get_others(opened: Open) -> None:
    names = [f"r{number}" for number in range(20)]
    everybody = [await opened() for _ in range(5)]
    for number, leases in enumerate(everybody):
        await leases.beat(replica(f"p{number}"))
    taken = await asyncio.gather(
        *(leases.take(f"p{number}", [(name, f"{name}-b") for name in names]) for number, leases in enumerate(everybody))
    )
    found = sorted(lease for some in taken for lease in some)
    assert found == sorted(Lease(name, 1) for one in names for name in (one, f"{one}-b"))
    for some in taken:
        held = {lease.repository for lease in some}
        assert {name.removesuffix("-b") for name in held} == held & set(names)


async def test_a_beat_renews_and_what_has_ended_gets_a_greater_number(opened: Open, database: Database) -> None:
    a, b = await opened(), await opened()
    await a.beat(replica("a"))
    await a.take("a", [("one",)])
    end_all(database)
    assert holders(await b.beat(replica("b"))) == {}
    assert holders(await a.beat(replica("a"))) == {"one": "a"}  # nobody took it
    end_all(database)
    await b.beat(replica("b"))
    assert await b.take("b", [("one",)]) == [Lease("one", 2)]
    assert holders(await a.beat(replica("a"))) == {"one": "b"}


async def test_leases_last_by_the_clock_of_the_server(opened: Open, database: Database) -> None:
    a = await opened()
    await a.beat(replica("a"))
    await a.take("a", [("one",)])
    with psycopg.connect(database.url) as connection:
        [(left,)] = connection.execute("select extract(epoch from until - clock_timestamp()) from lease").fetchall()
    assert LEASE_SECONDS - 2 < float(left) <= LEASE_SECONDS


async def test_a_new_process_of_a_name_begins_without_leases_and_the_former_one_is_refused(opened: Open) -> None:
    former, present = await opened(), await opened()
    await former.beat(replica("a", "former"))
    await former.take("a", [("one",)])
    assert holders(await present.beat(replica("a", "present"))) == {}
    assert await present.take("a", [("one",)]) == [Lease("one", 2)]
    with pytest.raises(NameTaken, match=r"`replica\.name`"):
        await former.beat(replica("a", "former"))
    await former.leave(replica("a", "former"))
    assert holders(await present.beat(replica("a", "present"))) == {"one": "a"}


async def test_a_forgotten_replica_is_known_again(opened: Open, database: Database) -> None:
    a = await opened()
    await a.beat(replica("a"))
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("delete from replica")
    assert (await a.beat(replica("a"))).living == (replica("a"),)


async def test_the_time_since_the_last_beat_tells_who_is_gone(opened: Open, database: Database) -> None:
    a, b = await opened(), await opened()
    await a.beat(replica("a"))
    end_all(database)
    await b.beat(replica("b"))
    ages = await b.ages()
    assert (ages["a"] > timedelta(seconds=59), ages["b"] < timedelta(seconds=30)) == (True, True)
    await b.forget(timedelta(seconds=30))
    assert list(await b.ages()) == ["b"]


async def test_a_commit_under_a_lease_delays_a_take_over_and_no_renewal(opened: Open, database: Database) -> None:
    a, b = await opened(), await opened()
    await a.beat(replica("a"))
    await a.take("a", [("one",), ("two",)])
    query = statements.load(PACKAGE)["lease_of_record"].replace("$1", "'one'").replace("$2", "1")
    with psycopg.connect(database.url) as committing:
        assert committing.execute(query.encode()).fetchall() == [(1,)]
        await a.beat(replica("a"))
        end_all(database)
        await b.beat(replica("b"))
        assert await b.take("b", [("one",), ("two",)]) == [Lease("two", 2)]
    assert await b.take("b", [("one",)]) == [Lease("one", 2)]
    with psycopg.connect(database.url) as committing:
        assert committing.execute(query.encode()).fetchall() == []


async def test_without_the_server_each_call_fails_soon_and_later_ones_work(opened: Open, server: Server) -> None:
    a = await opened()
    await a.beat(replica("a"))
    server.stop()
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(StoreFault, match="leases of this replica"):
            await a.beat(replica("a"))
    assert time.monotonic() - began < 10
    server.start()
    assert (await a.beat(replica("a"))).living == (replica("a"),)


@pytest.fixture
def own() -> Iterator[Server]:
    """A server that a line may lead to."""
    server = Server(tcp=True)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.mark.slow
async def test_a_replica_that_stops_while_it_takes_leases_keeps_others_from_them_for_some_seconds_only(
    own: Server,
) -> None:
    url = own.database("leases").url
    migrate(url)
    with cut(own) as line:
        stopped, other = PostgresqlLeases(line.url(url)), PostgresqlLeases(url)
        await stopped.beat(replica("a"))
        await other.beat(replica("b"))
        line.stops_after = b"pg_advisory_xact_lock"
        with pytest.raises(StoreFault):
            await stopped.take("a", [("one",)])
        began, taken = time.monotonic(), list[Lease]()
        while not taken and time.monotonic() - began < 2 * IDLE_SECONDS:
            with contextlib.suppress(StoreFault):
                taken = await other.take("b", [("one",)])
        assert [one.repository for one in taken] == ["one"]
        await stopped.close()
        await other.close()
