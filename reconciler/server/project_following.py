"""Work that is done for a project whenever its resources change: one project at a time, and once more if it changes
meanwhile. So the worker has one such job, however fast commits come.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from reconciler.model import errors
from reconciler.store.records import ResourceChange

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0  # after a project could not be read or followed
PAUSE_SECONDS = 0.05  # between two readings, for what changes together


class ProjectFault(NamedTuple):
    """Why a project is not followed in full, and the timer of the next time that it is read, changed or not."""

    message: str
    timer: asyncio.TimerHandle


class ProjectFollowing(ABC):
    """The projects that are to be followed, in the order in which that was found."""

    verb: str  # what a project does that is followed, in a sentence

    def __init__(self, *, again_seconds: float = AGAIN_SECONDS) -> None:
        self._again_seconds = again_seconds
        self._waiting: dict[str, None] = {}
        self._faults: dict[str, ProjectFault] = {}
        self._woken = asyncio.Event()

    @abstractmethod
    async def _follow(self, project: str) -> bool:
        """Follow a project. Return True if there is more to do. Raises ReconcilerError for what is not followed."""

    def heard(self, told: ResourceChange) -> None:
        """The store changed."""
        if told.changed and told.project is not None:
            self.ask(told.project)

    def ask(self, project: str) -> None:
        """Follow a project soon."""
        self._waiting[project] = None
        self._woken.set()

    async def keep(self, projects: Iterable[str]) -> None:
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
                    self._came(project, problem.message)
                else:
                    self._came(project, None)
            self._woken.clear()
            await asyncio.sleep(PAUSE_SECONDS)

    def _came(self, project: str, message: str | None) -> None:
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


class RenderingFollowing(ProjectFollowing):
    """Renders the Configurations of projects that change, as far as Collectors run them."""

    verb = "renders"

    def __init__(self, render: Callable[[str], Awaitable[bool]]) -> None:
        super().__init__()
        self._render = render

    async def _follow(self, project: str) -> bool:
        return await self._render(project)
