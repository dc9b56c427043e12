"""Routes and renderings kept up to date: work that is done for a project whenever its resources change.

One project at a time, and once more if it changes meanwhile. So the worker has one such job, however fast commits come.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, Protocol

from reconciler.delivery.contract import Behind
from reconciler.model import errors
from reconciler.model.routes import Routes
from reconciler.replicas.work import ALONE, Work
from reconciler.store.records import ResourceChange

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0  # after a project could not be read or followed
LATE_SECONDS = 2.0  # after an unread change, in which the former routes are used
LEFT_SECONDS = 60.0  # after another replica changed a project, which renders it at once
PAUSE_SECONDS = 0.05  # between two readings, for what changes together


class ProjectFault(NamedTuple):
    """Why a project is not followed in full, and the timer of the next time that it is read, changed or not."""

    message: str
    timer: asyncio.TimerHandle


class ProjectFollowing(ABC):
    """The projects that are to be followed, in the order in which that was found."""

    verb: str  # the verb for a followed project in sentences

    def __init__(self, *, again_seconds: float = AGAIN_SECONDS) -> None:
        self._again_seconds = again_seconds
        self._waiting: dict[str, None] = {}
        self._faults: dict[str, ProjectFault] = {}
        self._woken = asyncio.Event()

    @abstractmethod
    async def _follow(self, project: str) -> bool:
        """Follow a project. Return True if there is more to do. Raises ReconcilerError if a part cannot be followed."""

    def heard(self, told: ResourceChange) -> None:
        """Record a change of the store."""
        if told.changed and told.project is not None:
            self.ask(told.project)

    def ask(self, project: str) -> None:
        """Follow a project soon."""
        self._waiting[project] = None
        self._woken.set()

    async def keep(self, projects: Iterable[str] = ()) -> None:
        """Follow these projects, then for ever those that change."""
        for project in projects:
            self.ask(project)
        while True:
            await self._woken.wait()
            while self._waiting:
                project = next(iter(self._waiting))
                del self._waiting[project]
                try:
                    if await self._follow(project):
                        self.ask(project)
                except errors.ReconcilerError as problem:
                    self._log_outcome(project, problem.message)
                else:
                    self._log_outcome(project, None)
            self._woken.clear()
            await asyncio.sleep(PAUSE_SECONDS)

    def _log_outcome(self, project: str, message: str | None) -> None:
        """Log a lasting fault once, and its end, and try again."""
        before = self._faults.pop(project, None)
        if before is not None:
            before.timer.cancel()
        if message is None:
            if before is not None:
                log.warning("What the project %s %s is followed in full again.", project, self.verb)
            return
        if before is None or before.message != message:
            told = "What the project %s %s is not followed in full, and is read again: %s"
            log.warning(told, project, self.verb, message)
        timer = asyncio.get_running_loop().call_later(self._again_seconds, self.ask, project)
        self._faults[project] = ProjectFault(message, timer)


class ProjectFollower(Protocol):
    """An object that follows the routes of projects."""

    async def left(self, project: str) -> tuple[str, ...]:
        """Return the destinations with a lane, or with a queue on disk that may not be open yet."""

    async def change(self, routes: Routes) -> None:
        """Follow the present routes of a project."""


Read = Callable[[str, tuple[str, ...]], Awaitable[Routes]]
"""Return the routes of a project, and the last known settings of these destinations, which may have none."""


class Change(NamedTuple):
    """The changes of a project since its routes were read. `at` is the time of the first, on the monotonic clock."""

    at: float
    endpoints: frozenset[str]

    def and_then(self, later: "Change | None") -> "Change":
        """Return both as one."""
        return self if later is None else Change(self.at, self.endpoints | later.endpoints)


class RouteFollowing(ProjectFollowing):
    """The projects whose routes must be read, in the order of their changes."""

    verb = "routes"

    def __init__(
        self,
        read: Read,
        follower: ProjectFollower,
        *,
        monotonic: Callable[[], float],
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        super().__init__(again_seconds=again_seconds)
        self._monotonic = monotonic
        self._unread: dict[str, Change] = {}  # changes that no reading in progress includes
        self._being_read: Change | None = None  # changes that the reading in progress includes
        self._read = read
        self._follower = follower
        self._reading: str | None = None

    def heard(self, told: ResourceChange) -> None:
        if told.changed and told.project is not None:
            change = Change(self._monotonic(), frozenset(told.changed_endpoints))
            self._unread[told.project] = self._unread.get(told.project, change).and_then(change)
        super().heard(told)

    def behind(self, project: str) -> Behind | None:
        """Return how far the routes of a project are behind the store; None if they are not."""
        change = self._unread.get(project)
        if project == self._reading and self._being_read is not None:
            change = self._being_read.and_then(change)
        if change is None:
            return None
        return Behind(self._monotonic() - change.at > LATE_SECONDS, change.endpoints)

    async def _follow(self, project: str) -> bool:
        self._reading = project
        change = self._being_read = self._unread.pop(project, None)
        routes = None
        try:
            routes = await self._read(project, await self._follower.left(project))
            await self._follower.change(routes)
        except errors.ReconcilerError as problem:
            # If only a part of the routes cannot be followed, the rest is. A fault that only a person can correct may
            # last: until then the former routes are in force.
            if routes is None and change is not None and not isinstance(problem, errors.Refused):
                self._unread[project] = change.and_then(self._unread.get(project))
            raise
        finally:
            self._reading = self._being_read = None
        return False


class RenderingFollowing(ProjectFollowing):
    """Renders the Configurations of changed projects that Collectors run. A replica renders the projects that it
    changes. Later, the holder of `WORK` renders what is left, in case that replica is gone.
    """

    verb = "renders"

    def __init__(
        self, render: Callable[[str], Awaitable[bool]], work: Work = ALONE, *, left_seconds: float = LEFT_SECONDS
    ) -> None:
        super().__init__()
        self._render = render
        self._work = work
        self._left_seconds = left_seconds
        self._asking: set[str] = set()  # for projects that other replicas changed

    def heard(self, told: ResourceChange) -> None:
        if not told.is_remote:
            super().heard(told)
        elif told.changed and told.project is not None and told.project not in self._asking and self._work.is_mine:
            self._asking.add(told.project)
            asyncio.get_running_loop().call_later(self._left_seconds, self._ask_for_left, told.project)

    def _ask_for_left(self, project: str) -> None:
        self._asking.discard(project)
        self.ask(project)

    async def _follow(self, project: str) -> bool:
        return await self._render(project)
