"""The leases of this replica: which repositories it follows.

Every few seconds it reports that it lives and renews its leases (a beat). Then it takes repositories that no replica
follows, up to its fair share, and gives away those beyond it. The number of a lease prevents a replica from writing
after another one took over. Everything else here only avoids double work on one repository. The end of a lease is
counted from before its renewal, on a clock that also runs while the machine sleeps, so it comes here no later than in
the database.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, TypeAlias

from reconciler.model.errors import ReconcilerError
from reconciler.replicas.peers import Peer
from reconciler.store.contract import Leases, NameTaken
from reconciler.store.replica_records import LEASE_SECONDS, Beat, Lease, ReplicaRow

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0  # between two beats
WORK = "~work"
"""The lease of the work that one replica does for all. No repository has this name."""
MOST_GIVEN = 4  # groups that a replica gives away at each beat

Group: TypeAlias = tuple[str, ...]
"""Repositories that always have the same holder, by name."""


# Pure decisions about leases to take and to give away.


@dataclass(frozen=True, slots=True)
class Shares:
    """A decision: the groups to take, and those to give away."""

    take: tuple[Group, ...] = ()
    give: tuple[Group, ...] = ()


def shares(
    groups: Sequence[Group], beat: Beat, *, me: ReplicaRow, is_resting: Callable[[str], bool], may_take: bool = True
) -> Shares:
    """Decide which groups to take and to give away. The fair share counts the living replicas with the same settings,
    because others may not know all of these repositories. Only groups without work in progress are given away.
    """
    holders = {one.repository: one.holder for one in beat.held}
    alike = sum(one.settings == me.settings for one in beat.living)
    share = -(-len(groups) // max(alike, 1))
    mine = [group for group in groups if all(holders.get(name) == me.name for name in group)]
    free = [group for group in groups if all(holders.get(name, me.name) == me.name for name in group)]
    free = [group for group in free if group not in mine]
    # If this replica has a part of a group, the settings added the rest.
    free.sort(key=lambda group: not any(name in holders for name in group))
    begun = sum(any(name in holders for name in group) for group in free)
    take = free[: max(begun, share - len(mine))] if may_take else free[:begun]
    surplus = max(0, len(mine) - share)
    given = [group for group in mine[::-1] if all(map(is_resting, group))][: min(surplus, MOST_GIVEN)]
    return Shares(tuple(take), (*given, *_strays(groups, holders, me=me.name)))


def _strays(groups: Sequence[Group], holders: Mapping[str, str], *, me: str) -> list[Group]:
    """Return the leases to give back after a change of the settings: those of no group, or of a group of which another
    replica has a part.
    """
    known = {name for group in groups for name in group}
    strays: list[Group] = [
        (name,) for name, holder in holders.items() if holder == me and name not in known and name != WORK
    ]
    for group in groups:
        named = [holders[name] for name in group if name in holders]
        if named and named[0] != me and me in named:
            strays.append(tuple(name for name in group if holders.get(name) == me))
    return strays


# The keeper.


class Followers(Protocol):
    """The part that follows repositories."""

    def groups(self) -> Sequence[Group]:
        """Return all groups of the settings, sorted."""

    def is_resting(self, name: str) -> bool:
        """Return True if no run of a repository is in progress or requested."""

    async def follow(self, held: Mapping[str, Lease]) -> None:
        """Follow exactly the repositories with these leases. A lease with a new number makes its repository start
        again.
        """


def boot_seconds() -> float:
    """Return the seconds since the start of the machine, including sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class _Heard:
    """The answers of the database."""

    beat: Beat = field(default_factory=lambda: Beat((), ()))
    ages: Mapping[str, timedelta] = field(default_factory=dict)  # since the last beat of each replica
    until: float = 0.0  # of the leases, on the clock of this replica
    last: float | None = None  # when the last answered beat began
    fault: str = ""
    other: NameTaken | None = None  # another process took the name at the last beat
    giving: set[str] = field(default_factory=set)


class LeaseKeeper:
    """Keeps the leases of this replica. Not safe for threads: everything happens on the event loop."""

    def __init__(
        self,
        leases: Leases,
        replica: ReplicaRow,
        *,
        seconds: float = BEAT_SECONDS,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        """`replica` gets its digest of the settings later, by `settings_are`."""
        self._leases = leases
        self._me = replica
        self._seconds = seconds
        self._clock = clock
        self._followers: Followers | None = None
        self._heard = _Heard()
        self._held: dict[str, Lease] = {}
        self._changed = asyncio.Event()
        self._beating = asyncio.Lock()

    @property
    def name(self) -> str:
        """The name of this replica."""
        return self._me.name

    def attach(self, followers: Followers) -> None:
        """Set the followers that get the leases."""
        self._followers = followers

    async def settings_are(self, digest: str) -> None:
        """Beat with changed settings, so that this replica takes its share of their repositories now. Raises
        nothing.
        """
        self._me = self._me._replace(settings=digest)
        await self.beat()

    # What is known

    def check_name(self) -> None:
        """Raise NameTaken if another process took the name of this replica."""
        if self._heard.other is not None:
            raise NameTaken(self._heard.other.message)

    @property
    def held(self) -> Mapping[str, Lease]:
        """The leases of this replica that have not ended."""
        return self._held if self._clock() < self._heard.until else {}

    def holds(self, name: str) -> bool:
        """Return True if this replica has the lease of a repository, or of `WORK`."""
        return name in self.held

    def holder(self, name: str) -> str | None:
        """Return the replica that had a lease at the last beat."""
        return next((one.holder for one in self._heard.beat.held if one.repository == name), None)

    @property
    def living(self) -> Sequence[ReplicaRow]:
        """The replicas that lived at the last beat, by name."""
        return self._heard.beat.living

    @property
    def are_alike(self) -> bool:
        """True if every living replica has the settings of this one."""
        return bool(self.living) and all(one.settings == self._me.settings for one in self.living)

    def peers(self) -> list[Peer]:
        """Return the replicas that lived at the last beat, with their addresses."""
        return [Peer(one.name, one.url, one.process) for one in self.living]

    def known(self) -> Collection[str]:
        """Return the replicas that have not left, living or not."""
        return self._heard.ages.keys()

    # Beats

    async def keep(self) -> None:
        """Beat and follow the leased repositories, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat_on(), name="lease-beats")
            tasks.create_task(self._end_on_time(), name="lease-ends")
            tasks.create_task(self._follow_on(), name="lease-following")

    async def beat(self) -> None:
        """Report that this replica lives, and take or give leases. Raises nothing foreseen."""
        async with self._beating:
            began = self._clock()
            try:
                async with asyncio.timeout(LEASE_SECONDS):
                    await self._beat(began)
            except (ReconcilerError, TimeoutError) as fault:
                if isinstance(fault, NameTaken):
                    self._heard.until, self._heard.other = 0.0, fault
                message = str(fault) or "the database does not answer in time"
                if message != self._heard.fault:
                    log.warning("The leases of repositories could not be renewed: %s", message)
                self._heard.fault = message
            else:
                self._heard.fault, self._heard.other = "", None
        self._changed.set()

    async def _beat(self, began: float) -> None:
        beat = await self._leases.beat(self._me)
        before, heard = self._heard.last, self._heard
        heard.beat, heard.until, heard.last = beat, began + LEASE_SECONDS, began
        heard.ages = await self._leases.ages()
        mine = {one.repository: Lease(one.repository, one.number) for one in beat.held if one.holder == self.name}
        heard.giving &= mine.keys()
        # After an outage of the database, all leases have ended. Let their former holders return too.
        may_take = before is None or began - before < LEASE_SECONDS
        groups = () if self._followers is None else self._followers.groups()
        decided = shares(groups, beat, me=self._me, is_resting=self._is_resting, may_take=may_take)
        take = list(decided.take)
        if may_take and self.holder(WORK) is None:
            take.append((WORK,))
        if take:
            mine |= {one.repository: one for one in await self._leases.take(self.name, take)}
        heard.giving |= {name for group in decided.give for name in group}
        self._held = {name: lease for name, lease in mine.items() if name not in heard.giving}

    def _is_resting(self, name: str) -> bool:
        return self._followers is not None and self._followers.is_resting(name)

    async def _beat_on(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(self._seconds)

    async def _end_on_time(self) -> None:
        """Stop following repositories when the leases end without a renewal."""
        while True:
            left = self._heard.until - self._clock()
            if left <= 0 and self._held:
                log.warning("The leases of this replica have ended: it follows no repository until they are renewed.")
                self._held = {}
                self._changed.set()
            await asyncio.sleep(max(left, 1.0))

    async def _follow_on(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            giving = set(self._heard.giving)
            if self._followers is not None:
                await self._followers.follow(dict(self.held))
            if giving:
                await self._release(giving)

    async def _release(self, names: Collection[str]) -> None:
        try:
            await self._leases.release(self.name, names)
        except ReconcilerError as fault:  # they are released after the next beat
            log.debug("Leases could not be released: %s", fault)
        else:
            log.info("Another replica may follow %s.", ", ".join(sorted(names)))

    async def leave(self) -> None:
        """End the leases, because this replica stops. Its repositories have been stopped before. Raises nothing
        foreseen.
        """
        self._held = {}
        try:
            async with asyncio.timeout(self._seconds), self._beating:
                await self._leases.leave(self._me)
        except (ReconcilerError, TimeoutError) as fault:  # they end by themselves
            log.debug("Leases could not be released: %s", fault)
