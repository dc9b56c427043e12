"""Keeping delivery's routes as the store is: what a project routes is read again whenever its resources change.

Belongs here: when to read which project. Does not: reading (`reading.routings`), following what was read (`delivery`).

One project is read at a time, and one that changes meanwhile once more: however fast commits come, the reader child
has one such job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from reconciler import errors
from reconciler.applying import Told
from reconciler.routing.models import Routes

log = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0  # after a project could not be read
PAUSE_SECONDS = 0.05  # between two readings, for what changes together


class Follower(Protocol):
    """What follows routes."""

    async def left(self, project: str) -> tuple[str, ...]:
        """The destinations of which something may be left."""

    async def change(self, routes: Routes) -> None:
        """Follow what a project routes now."""


Read = Callable[[str, tuple[str, ...]], Awaitable[Routes]]
"""What a project routes, and what is known of these destinations, which may be gone."""


class Routing:
    """The projects whose routes are to be read, in the order in which that was found."""

    def __init__(self, read: Read, follower: Follower, *, again_seconds: float = AGAIN_SECONDS) -> None:
        self._again_seconds = again_seconds
        self._read = read
        self._follower = follower
        self._waiting: dict[str, None] = {}
        self._reading: str | None = None
        self._woken = asyncio.Event()

    def heard(self, told: Told) -> None:
        """The store changed."""
        if told.changed and told.project is not None:
            self.ask(told.project)

    def ask(self, project: str) -> None:
        """Read a project soon."""
        self._waiting[project] = None
        self._woken.set()

    def is_behind(self, project: str) -> bool:
        """Whether a project changed since its routes were read, or nobody has read them."""
        return project in self._waiting or project == self._reading

    async def keep(self, projects: Iterable[str]) -> None:
        """Read these projects, then for ever those that change."""
        for project in projects:
            self.ask(project)
        loop = asyncio.get_running_loop()
        while True:
            await self._woken.wait()
            while self._waiting:
                project = self._reading = next(iter(self._waiting))
                del self._waiting[project]
                if not await self._follow(project):
                    loop.call_later(self._again_seconds, self.ask, project)
                self._reading = None
            self._woken.clear()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow(self, project: str) -> bool:
        try:
            await self._follower.change(await self._read(project, await self._follower.left(project)))
        except errors.ReconcilerError as problem:
            log.warning(
                "What the project %s routes is not followed in full, and is read again: %s", project, problem.message
            )
            return False
        return True
