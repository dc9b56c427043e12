"""Notifications of several replicas: all show the same, and each has one owner."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler.model.notification_types import NotificationType
from reconciler.notifications.board import Board, Owners
from reconciler.notifications.models import Cause, Domain, Finding, Observation, UserStatus
from reconciler.notifications.replicas import ReplicaObserver
from reconciler.replicas.keeper import WORK
from reconciler.replicas.work import Work
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import Noted
from tests.api.parts import Moment
from tests.notifications import boards
from tests.notifications.boards import PLACE, finding, observation, shown
from tests.waiting import until

pytestmark = pytest.mark.anyio

CHAT = boards.target("chat")
DISK = Cause(NotificationType.DISK_LOW, "/data")
KEYS = Cause(NotificationType.KEYS_TO_REVIEW, "una")


class Telling(SqliteOperations):
    """The file that all replicas have open. Others hear of a change, unless its notice is lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.heard: list[Callable[[int, Noted], None]] = []

    async def note(self, noted: Noted, *, after: int) -> int:
        number = await super().note(noted, after=after)
        for hear in self.heard:
            hear(number, noted)
        return number


class Replica:
    """One of them."""

    def __init__(self, operations: Telling, clock: Moment, name: str) -> None:
        self.leases: set[str] = set()
        self.gone: set[str] = set()
        owners = Owners(name, leases=self, is_gone=self.gone.__contains__)
        self.board = Board(operations, clock=clock, place=PLACE, targets=(CHAT,), owners=owners)

    def holds(self, name: str) -> bool:
        return name in self.leases

    async def open(self) -> list[tuple[str, str]]:
        """Return the open ones, as a person reads them here."""
        found = await shown(self.board)
        return sorted(
            (one["metadata"]["displayName"], one["status"]["userStatus"])
            for one in found
            if one["metadata"]["labels"]["service/state"] == "open"
        )

    def due(self) -> list[str]:
        return [self.board.kept[one.notification].cause.subject for one in self.board.due(CHAT)]


class Cluster:
    """Two replicas of one file."""

    def __init__(self, folder: Path) -> None:
        self.clock = Moment()
        self.operations = Telling(folder / "ops.db")
        self.a, self.b = (Replica(self.operations, self.clock, name) for name in ("r1", "r2"))
        self.a.leases |= {"telemetry", WORK}
        self.b.leases |= {"billing"}

    def connect(self) -> None:
        self.operations.heard = [self.a.board.follow, self.b.board.follow]

    def fail_over(self) -> None:
        """Replica `r1` is gone, and `r2` has its leases."""
        self.b.leases |= self.a.leases
        self.a.leases.clear()
        self.b.gone.add("r1")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    for one in (made.a, made.b):
        await one.board.load()
    made.connect()
    yield made
    await made.operations.close()


def about(cause: Cause, domain: Domain) -> Observation:
    return Observation(domain, (Finding(cause, title=f"About {cause.subject}"),))


UNREAD = ("The repository telemetry cannot be read", "unread")
READ = ("The repository telemetry cannot be read", "read")


async def test_what_one_opens_and_a_person_reads_is_so_on_the_other(cluster: Cluster) -> None:
    await cluster.a.board.take(observation(finding("telemetry")))
    assert await cluster.b.open() == [UNREAD]
    [identifier] = cluster.b.board.kept
    await cluster.b.board.set_status(identifier, UserStatus.READ, sees=lambda _: True, user="id-ana")
    assert await cluster.a.open() == [READ]
    await cluster.a.board.take(observation())
    await cluster.a.board.take(observation(finding("telemetry")))
    assert (await cluster.a.open(), await cluster.b.open()) == ([UNREAD], [UNREAD])
    cluster.clock.instant += timedelta(days=40)
    await cluster.a.board.take(observation())
    cluster.clock.instant += timedelta(days=40)
    for one in (cluster.b, cluster.a):
        await one.board.settle(CHAT, one.board.due(CHAT), is_told=False)
        await one.board.tidy()
    assert (dict(cluster.a.board.kept), dict(cluster.b.board.kept)) == ({}, {})


async def test_changes_at_the_same_moment_are_all_kept(cluster: Cluster) -> None:
    cluster.operations.heard = []
    names = [f"r{number}" for number in range(20)]
    for replica, share in ((cluster.a, names[:10]), (cluster.b, names[10:])):
        replica.leases |= set(share)
    takes = []
    for number in range(10):
        takes.append(cluster.a.board.take(observation(*map(finding, names[: number + 1]))))
        takes.append(cluster.b.board.take(observation(*map(finding, names[10 : 11 + number]))))
    await asyncio.gather(*takes)
    await asyncio.gather(cluster.a.board.reload(), cluster.b.board.reload())
    stored = (await cluster.operations.notifications()).rows
    assert sorted(one.cause.subject for one in cluster.a.board.kept.values()) == sorted(names)
    assert [*cluster.a.board.kept] == [*cluster.b.board.kept] == [row.id for row in stored]


async def test_one_that_missed_a_change_reads_it_with_the_next(cluster: Cluster) -> None:
    cluster.operations.heard = []
    await cluster.a.board.take(observation(finding("telemetry")))
    cluster.connect()
    keeping = asyncio.create_task(cluster.b.board.keep())
    await cluster.a.board.take(about(DISK, Domain.DISK))
    await until(lambda: len(cluster.b.board.kept) == 2)
    assert await cluster.b.open() == await cluster.a.open()
    keeping.cancel()


async def test_none_opens_or_resolves_what_another_owns(cluster: Cluster) -> None:
    await cluster.a.board.take(observation(finding("telemetry")))
    await cluster.a.board.take(about(DISK, Domain.DISK))
    await cluster.a.board.take(about(KEYS, Domain.KEYS))
    before = await cluster.a.open()
    assert len(before) == 3
    for domain in (Domain.REPOSITORIES, Domain.DISK, Domain.KEYS):
        await cluster.b.board.take(Observation(domain, ()))
    await cluster.b.board.take(observation(finding("telemetry", title="Another title")))
    await cluster.b.board.tidy()
    assert (await cluster.a.open(), await cluster.b.open()) == (before, before)


async def test_each_machine_has_its_own_and_its_name_says_which(cluster: Cluster) -> None:
    for replica in (cluster.a, cluster.b):
        await replica.board.take(about(DISK, Domain.DISK))
    titles = [f"About /data (replica {name})" for name in ("r1", "r2")]
    assert await cluster.a.open() == [(title, "unread") for title in titles]
    found = await shown(cluster.b.board)
    assert len({one["metadata"]["labels"]["service/cause"] for one in found}) == 2
    await cluster.b.board.take(Observation(Domain.DISK, ()))
    assert await cluster.a.open() == [(titles[0], "unread")]


async def test_the_next_holder_takes_over_and_what_only_the_dead_one_could_check_is_resolved(cluster: Cluster) -> None:
    await cluster.a.board.take(observation(finding("telemetry")))
    await cluster.a.board.take(about(DISK, Domain.DISK))
    cluster.fail_over()
    await cluster.b.board.tidy()
    assert await cluster.b.open() == [UNREAD]
    await cluster.b.board.take(observation(finding("telemetry")))
    assert await cluster.b.open() == [UNREAD]
    await cluster.b.board.take(observation())
    assert await cluster.b.open() == []


async def test_alerts_are_sent_by_the_owner_alone_and_by_the_next_one_if_it_is_gone(cluster: Cluster) -> None:
    await cluster.a.board.take(observation(finding("telemetry")))
    await cluster.a.board.take(about(DISK, Domain.DISK))
    await cluster.b.board.take(observation(finding("billing")))
    assert (cluster.a.due(), cluster.b.due()) == (["telemetry", "/data"], ["billing"])
    await cluster.a.board.settle(CHAT, cluster.a.board.due(CHAT)[1:], is_told=True)
    cluster.fail_over()
    assert sorted(cluster.b.due()) == ["billing", "telemetry"]
    await cluster.b.board.tidy()  # resolves what only `r1` could check, and its target hears of that
    assert sorted(cluster.b.due()) == ["/data", "billing", "telemetry"]
    assert cluster.a.due() == ["/data"]  # if it is alive after all, its own


async def test_one_that_was_stopped_decides_again_on_what_came_meanwhile(cluster: Cluster) -> None:
    await cluster.a.board.take(observation(finding("telemetry")))
    cluster.operations.heard = []
    cluster.b.leases |= cluster.a.leases  # which the other does not know
    await cluster.b.board.take(observation())
    await cluster.a.board.take(observation())
    await cluster.a.board.tidy()
    [one] = cluster.a.board.kept.values()
    assert (one.resolved is not None, one.version) == (True, 2)


async def test_a_replica_is_gone_after_two_minutes_and_resolved_when_it_is_back(cluster: Cluster) -> None:
    now, ages = [0.0], {"r1": timedelta(), "r2": timedelta()}
    forgotten = []

    async def read() -> dict[str, timedelta]:
        return ages

    async def forget(age: timedelta) -> None:
        forgotten.append(age)

    cluster.b.leases.add(WORK)
    observer = ReplicaObserver(
        read, lambda: {"r1", "old"}, forget=forget, monotonic=lambda: now[0], work=Work(cluster.b)
    )
    await cluster.b.board.take(await observer.observe())
    assert (observer.is_gone("r1"), await cluster.b.open()) == (False, [])
    now[0], ages["r1"] = 121.0, timedelta(seconds=121)
    await cluster.b.board.take(await observer.observe())
    assert await cluster.b.open() == [("The replica r1 is gone", "unread")]
    # `old` left in good order, and has not come back.
    assert [observer.is_gone(name) for name in ("r1", "r2", "old", "unknown")] == [True, False, True, False]
    now[0], ages["r1"] = 131.0, timedelta()
    await cluster.b.board.take(await observer.observe())
    assert (observer.is_gone("r1"), await cluster.b.open()) == (False, [])
    cluster.b.leases.clear()
    assert (await observer.observe()).projects == frozenset()
    assert (observer.is_gone("old"), set(forgotten)) == (False, {timedelta(days=7)})
