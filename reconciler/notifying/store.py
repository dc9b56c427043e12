"""Whether the store can be read and written, from what it counts of itself, and what the board could not write.

Belongs here: when that is worth a notification, and when it is over. Does not: counting (`store.figures`).
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from reconciler.clock import Clock
from reconciler.concerns import Severity, Type
from reconciler.notifications.models import Cause, Domain, Finding, Look
from reconciler.store.contract import StoreFault
from reconciler.store.figures import Figures

QUIET = timedelta(minutes=10)  # after the last change that could not be written, when none was tried since
WRITE = "A change could not be written to the store; the log says why."


class Store(Protocol):
    """What is asked of the store."""

    async def revision(self) -> int:
        """Raises StoreFault."""

    def figures(self) -> Figures:
        """What it counts of itself."""


class Observer:
    """Remembers what was counted at the last look."""

    def __init__(self, store: Store, *, unwritten: Callable[[], str], clock: Clock) -> None:
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
        found = [Finding(Cause(Type.STORE_DEGRADED), Severity.CRITICAL, {"message": message})] if message else []
        return [Look(Domain.STORE, tuple(found))]
