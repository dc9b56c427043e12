"""Whether the store can be read and written, from what it counts of itself, and what the board could not write; and
which stored versions are damaged.

Belongs here: when that is worth a notification, and when it is over; when the whole store is looked through. Does not:
counting (`store.figures`), finding damage (`store.checksums`).
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Finding, Look
from reconciler.store.contract import DamagedVersion, StoreFault, StoreFigures

log = logging.getLogger(__name__)

QUIET = timedelta(minutes=10)  # after the last change that could not be written, when none was tried since
EXAMINING_SECONDS = 24 * 3600.0  # between two looks through the whole store
AFTER_FAULT_SECONDS = 600.0
NAMED = 10  # damaged versions that a notification names
WRITE = "A change could not be written to the store; the log says why."


class ObservedStore(Protocol):
    """What is asked of the store."""

    async def revision(self) -> int:
        """Raises StoreFault."""

    def figures(self) -> StoreFigures:
        """What it counts of itself."""


class StoreObserver:
    """Remembers what was counted at the last look."""

    def __init__(self, store: ObservedStore, *, unwritten: Callable[[], str], clock: Clock) -> None:
        """`unwritten` says why notifications could not be written beside it; empty when they could."""
        self._store = store
        self._unwritten = unwritten
        self._clock = clock
        self._failed = self._stored = 0
        self._failed_at: datetime | None = None  # None once something was written since

    async def look(self) -> list[Look]:
        """Read something, and look at what was written."""
        now, commits = self._clock(), self._store.figures().commits
        failed, stored = commits.failed, sum(commits.seconds.counts)
        if failed > self._failed:
            self._failed_at = now
        elif stored > self._stored or (self._failed_at is not None and now - self._failed_at >= QUIET):
            self._failed_at = None
        self._failed, self._stored = failed, stored
        message = self._unwritten() if self._failed_at is None else WRITE
        try:
            await self._store.revision()
        except StoreFault as fault:
            message = fault.message
        found = (
            [Finding(Cause(NotificationType.STORE_DEGRADED), Severity.CRITICAL, {"message": message})]
            if message
            else []
        )
        return [Look(Domain.STORE, tuple(found))]


class Examined(Protocol):
    """What is asked of the store about damage."""

    async def examine(self) -> None:
        """Look through all of it. Raises StoreFault."""

    async def damaged(self) -> list[DamagedVersion]:
        """Raises StoreFault."""


class DamageObserver:
    """Tells of damaged versions, whoever found them."""

    def __init__(self, store: Examined) -> None:
        self._store = store
        self._is_examined = False

    async def keep(self) -> None:
        """Look through the store now, and then again and again."""
        while True:
            seconds = EXAMINING_SECONDS
            try:
                await self._store.examine()
                self._is_examined = True
            except StoreFault as fault:
                log.warning("The store could not be looked through for damage. %s", fault.message)
                seconds = AFTER_FAULT_SECONDS
            await asyncio.sleep(seconds)

    async def look(self) -> list[Look]:
        """Tell what is damaged now. Raises StoreFault."""
        found = await self._store.damaged()
        cause = Cause(NotificationType.STORE_DAMAGED)
        if found:
            names = tuple(_told(one) for one in found[:NAMED])
            return [Look(Domain.DAMAGE, (Finding(cause, Severity.CRITICAL, {"total": len(found), "names": names}),))]
        # What an earlier start found may be there still.
        unknown = () if self._is_examined else (Finding(cause, Severity.CRITICAL, fading=True),)
        return [Look(Domain.DAMAGE, unknown)]


def _told(one: DamagedVersion) -> str:
    return f"{one.kind} {one.name} (version {one.version}, project {one.project})"
