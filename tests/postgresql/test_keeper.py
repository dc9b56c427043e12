"""Keepers of leases on a real server: they share repositories, and stop following what they can no longer renew."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reconciler.replicas import keeper
from reconciler.replicas.keeper import WORK, Group, LeaseKeeper
from reconciler.store import engines
from reconciler.store.contract import Leases, NameTaken
from reconciler.store.postgresql.leases import PostgresqlLeases
from reconciler.store.replica_records import LEASE_SECONDS, Lease, ReplicaRow
from tests.postgresql.servers import Database, Server
from tests.waiting import until

pytestmark = [pytest.mark.providers, pytest.mark.anyio]

GROUPS: tuple[Group, ...] = (("one", "two"), ("three",), ("four",), ("five",))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(database: Database, tmp_path: Path) -> Database:
    opened = await engines.open_store(database.url, tmp_path, worker_url=database.worker_url)
    await opened.operations.close()
    await opened.store.close()
    return database


@dataclass
class Following:
    """Follows nothing, and remembers what it was told. Its clock stands as far ahead as a test says."""

    keeper: LeaseKeeper
    ahead: list[float]
    told: list[dict[str, Lease]] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def groups(self) -> Sequence[Group]:
        return GROUPS

    def is_resting(self, name: str) -> bool:
        return name not in self.busy

    async def follow(self, held: Mapping[str, Lease]) -> None:
        self.told.append(dict(held))

    @property
    def followed(self) -> set[str]:
        """The repositories that it follows."""
        return set(self.told[-1]) - {WORK} if self.told else set()


@contextlib.asynccontextmanager
async def running(database: Database, name: str, process: str = "") -> AsyncIterator[Following]:
    """A keeper that beats often, and leaves at the end."""
    leases: Leases = PostgresqlLeases(database.url)
    ahead = [0.0]

    def clock() -> float:
        return keeper.boot_seconds() + ahead[0]

    kept = LeaseKeeper(leases, ReplicaRow(name, "", "1", process or f"process-{name}", ""), seconds=0.1, clock=clock)
    following = Following(kept, ahead)
    kept.attach(following)
    await kept.settings_are("same")
    task = asyncio.create_task(kept.keep())
    try:
        yield following
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await kept.leave()
        await leases.close()


async def test_one_follows_all_and_gives_another_one_its_share(store: Database) -> None:
    async with running(store, "a") as a:
        await until(lambda: len(a.followed) == 5)
        assert (a.keeper.holds(WORK), a.keeper.are_alike) == (True, True)
        a.busy = {"three"}
        async with running(store, "b") as b:
            await until(lambda: len(b.followed) >= 2 and not a.followed & b.followed)
            assert "three" in a.followed
            assert {"one", "two"} <= a.followed or {"one", "two"} <= b.followed
            assert not b.keeper.holds(WORK)
            await until(lambda: {a.keeper.holder(name) for name in b.followed} == {"b"})
            assert [one.name for one in a.keeper.peers()] == ["a", "b"]
        await until(lambda: len(a.followed) == 5)


async def test_leases_that_are_not_renewed_end_on_the_clock_of_their_holder(store: Database, server: Server) -> None:
    async with running(store, "a") as a:
        await until(lambda: len(a.followed) == 5)
        server.stop()
        a.ahead[0] = LEASE_SECONDS - 5
        assert (len(a.followed), a.keeper.holds("one")) == (5, True)
        a.ahead[0] = LEASE_SECONDS + 1
        assert not a.keeper.holds("one")
        await until(lambda: not a.followed)
        server.start()
        await until(lambda: len(a.followed) == 5)


async def test_after_an_outage_of_the_database_everybody_keeps_what_they_had(store: Database, server: Server) -> None:
    async with running(store, "a") as a, running(store, "b") as b:
        await until(lambda: len(a.followed) >= 2 and len(b.followed) >= 2 and len(a.followed | b.followed) == 5)
        before = a.followed, b.followed
        server.stop()
        a.ahead[0] = b.ahead[0] = LEASE_SECONDS + 1
        await until(lambda: not a.followed and not b.followed)
        server.start()
        with server.admin(store.name) as connection:
            connection.execute("update lease set until = clock_timestamp() - interval '1 s'")
        await until(lambda: (a.followed, b.followed) == before)


async def test_another_process_of_its_name_leaves_it_nothing(store: Database) -> None:
    async with running(store, "a") as a:
        await until(lambda: len(a.followed) == 5)
        a.keeper.check_name()
        async with running(store, "a", "another"):
            await until(lambda: not a.followed)
            with pytest.raises(NameTaken, match=r"`replica\.name`"):
                a.keeper.check_name()
        await until(lambda: len(a.followed) == 5)
        a.keeper.check_name()
