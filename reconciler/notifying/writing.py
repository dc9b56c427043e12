"""Writing to `ops.db` what the board shows, and what waits for that while it cannot be written.

Belongs here: the order of what is written, and trying again. Does not: what there is to write (`board`), rows
(`keeping`).

A full disk is what somebody should hear of at once, so nothing that is shown or sent waits for it. What ends meanwhile
with the process is found again by the first look of the next one. What waits is no more than what is shown, what is to
be taken out of the file, and what waits to be sent, however long nothing can be written.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable

from reconciler.store.contract import StoreFault
from reconciler.store.operations import AlertRow, Noted, NotificationRow, Operations

log = logging.getLogger(__name__)

Unsent = Callable[[Iterable[AlertRow]], list[AlertRow]]
"""Those of some alerts that still wait to be sent."""


class Writer:
    """Used by one task at a time."""

    def __init__(self, operations: Operations, *, unsent: Unsent) -> None:
        self._operations = operations
        self._unsent = unsent
        self._put: dict[str, NotificationRow] = {}  # by id
        self._forget: set[str] = set()
        self._unread: set[str] = set()
        self._alerts: list[AlertRow] = []
        self._targets: Collection[str] | None = None
        self.newest = ""  # the greatest id that the file may have; greater ones need not be taken out of it
        self.fault = ""  # why something waits; empty when nothing does

    async def write(self, noted: Noted) -> None:
        """Write this, or let it wait behind what waits. Raises nothing that the disk does."""
        if self.fault:
            self._wait(noted)
            return
        try:
            await self._note(noted)
        except StoreFault as fault:
            self._wait(noted)
            self._failed(fault)

    async def again(self) -> None:
        """Write what waits, where it can be by now. Raises nothing that the disk does."""
        try:
            await self.flush()
        except StoreFault as fault:
            self._failed(fault)

    async def flush(self) -> None:
        """Write what waits. Raises StoreFault; then it goes on waiting."""
        if not self.fault:
            return
        self._alerts = self._unsent(self._alerts)
        put = [*self._put.values()]
        await self._note(Noted(put, self._forget, self._unread, self._alerts, self._targets))
        self._put, self._forget, self._unread, self._alerts, self.fault = {}, set(), set(), [], ""
        self._targets = None
        log.info("Notifications can be written again, and those that waited for that are.")

    def _wait(self, noted: Noted) -> None:
        self._put |= {row.id: row for row in noted.put}
        self._unread.update(noted.unread)
        for identifier in noted.forget:
            self._put.pop(identifier, None)
            self._unread.discard(identifier)
        self._forget.update(identifier for identifier in noted.forget if identifier <= self.newest)
        self._alerts += noted.alerts
        self._targets = self._targets if noted.targets is None else noted.targets

    def _failed(self, fault: StoreFault) -> None:
        """Say so once, and not at each time that meets it again."""
        if self.fault != fault.message:
            log.warning("Notifications are shown and alerts sent, but after a restart not known: %s", fault.message)
        self.fault = fault.message

    async def _note(self, noted: Noted) -> None:
        before = self.newest
        self.newest = max([before, *(row.id for row in noted.put)])  # also where nobody waits for the end of this
        try:
            await asyncio.shield(self._operations.note(noted))
        except StoreFault:
            self.newest = before
            raise
