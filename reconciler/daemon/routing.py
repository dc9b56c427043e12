"""Keeping delivery's routes as the store is: what a project routes is read again whenever its resources change.

Belongs here: when to read which project. Does not: reading (`reading.routings`), following what was read (`delivery`).

One project is read at a time, and one that changes meanwhile once more: however fast commits come, the reader child
has one such job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol

from reconciler.delivery.reporting import Behind
from reconciler.model import errors
from reconciler.model.routes import Routes
from reconciler.reconcile.apply import AppliedChange

log = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0  # after a project could not be read or followed; twice as long each time that it is the same fault
LONGEST_SECONDS = 60.0
PAUSE_SECONDS = 0.05  # between two readings, for what changes together
LATE_SECONDS = 2.0  # after a change that was not read, in which the routes of before are used


class ProjectFollower(Protocol):
    """What follows routes."""

    async def left(self, project: str) -> tuple[str, ...]:
        """The destinations that are sent to, or have a queue on disk that may not be open yet."""

    async def change(self, routes: Routes) -> None:
        """Follow what a project routes now."""


Read = Callable[[str, tuple[str, ...]], Awaitable[Routes]]
"""What a project routes, and what is known of these destinations, which may be gone."""


class RouteFault(NamedTuple):
    """Why a project is not followed in full, and when it is read again whether it changes or not."""

    message: str
    seconds: float
    timer: asyncio.TimerHandle


class Change(NamedTuple):
    """What changed in a project since its routes were read: the first time of it, by the monotonic clock."""

    at: float
    endpoints: frozenset[str]

    def and_then(self, later: "Change | None") -> "Change":
        """Both as one."""
        return self if later is None else Change(self.at, self.endpoints | later.endpoints)


class RouteFollowing:
    """The projects whose routes are to be read, in the order in which that was found."""

    def __init__(
        self,
        read: Read,
        follower: ProjectFollower,
        *,
        monotonic: Callable[[], float],
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._again_seconds = again_seconds
        self._monotonic = monotonic
        self._unread: dict[str, Change] = {}  # what no reading that has begun sees
        self._being_read: Change | None = None  # what the reading that has begun sees
        self._read = read
        self._follower = follower
        self._waiting: dict[str, None] = {}
        self._reading: str | None = None
        self._faults: dict[str, RouteFault] = {}
        self._woken = asyncio.Event()

    def heard(self, told: AppliedChange) -> None:
        """The store changed."""
        if told.changed and told.project is not None:
            change = Change(self._monotonic(), frozenset(told.changed_endpoints))
            before = self._unread.get(told.project)
            self._unread[told.project] = change if before is None else before.and_then(change)
            self.ask(told.project)

    def ask(self, project: str) -> None:
        """Read a project soon."""
        self._waiting[project] = None
        self._woken.set()

    def behind(self, project: str) -> Behind | None:
        """How far the routes of a project are behind the store; None if all that changed was read."""
        change = self._unread.get(project)
        if project == self._reading and self._being_read is not None:
            change = self._being_read.and_then(change)
        if change is None:
            return None
        return Behind(self._monotonic() - change.at > LATE_SECONDS, change.endpoints)

    async def keep(self, projects: Iterable[str]) -> None:
        """Read these projects, then for ever those that change."""
        for project in projects:
            self.ask(project)
        while True:
            await self._woken.wait()
            while self._waiting:
                project = self._reading = next(iter(self._waiting))
                del self._waiting[project]
                self._came(project, await self._follow(project))
            self._woken.clear()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, project: str) -> str | None:
        """Why it is not followed in full; None when it is."""
        self._being_read = self._unread.pop(project, None)
        try:
            routes = await self._read(project, await self._follower.left(project))
        except errors.ReconcilerError as problem:
            # What only a person can mend may last: until then the routes of before are in force.
            if self._being_read is not None and not isinstance(problem, errors.Refused):
                self._unread[project] = self._being_read.and_then(self._unread.get(project))
            return problem.message
        else:
            return await self._change(routes)
        finally:
            self._reading = self._being_read = None

    async def _change(self, routes: Routes) -> str | None:
        try:
            await self._follower.change(routes)
        except errors.ReconcilerError as problem:  # the rest is followed
            return problem.message
        return None

    def _came(self, project: str, message: str | None) -> None:
        """A fault that stands is told once, and its end; each time it is longer until the next try."""
        before = self._faults.pop(project, None)
        if before is not None:
            before.timer.cancel()
        if message is None:
            if before is not None:
                log.warning("What the project %s routes is followed in full again.", project)
            return
        seconds = self._again_seconds
        if before is not None and before.message == message:
            seconds = min(before.seconds * 2, LONGEST_SECONDS)
        else:
            log.warning("What the project %s routes is not followed in full, and is read again: %s", project, message)
        timer = asyncio.get_running_loop().call_later(seconds, self.ask, project)
        self._faults[project] = RouteFault(message, seconds, timer)
