"""Notifications as rows of `ops.db`, written behind the board."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Notification, NotificationState, UserStatus
from reconciler.store.contract import Operations, StoreFault
from reconciler.store.records import AlertRow, Noted, NotificationRow, NotificationStatusRow

# Notifications as rows of `ops.db`, and back.

log = logging.getLogger(__name__)


class _Body(msgspec.Struct, frozen=True, omit_defaults=True):
    domain: Domain
    type: NotificationType
    severity: Severity
    opened: str
    began: str
    modified: str
    subject: str = ""
    project: str = ""
    user: str = ""
    facts: dict[str, str | int | list[str]] = {}
    version: int = 1
    occurrences: int = 1
    resolved: str | None = None
    told: NotificationState | None = None
    told_as: list[Severity] = []
    told_to: list[str] = []


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(_Body)


def notification_row(one: Notification) -> NotificationRow:
    """A notification as it is kept."""
    body = _Body(
        domain=one.domain,
        type=one.cause.type,
        severity=one.severity,
        opened=rfc3339(one.opened),
        began=rfc3339(one.began),
        modified=rfc3339(one.modified),
        subject=one.cause.subject,
        project=one.cause.project,
        user=one.cause.user,
        facts={name: _clean(value) for name, value in one.facts.items()},
        version=one.version,
        occurrences=one.occurrences,
        resolved=_text(one.resolved),
        told=one.told,
        told_as=sorted(one.told_as),
        told_to=sorted(one.told_to),
    )
    return NotificationRow(one.id, _encoder.encode(body))


def notifications(rows: Iterable[NotificationRow]) -> list[Notification]:
    """Read kept notifications. A row of a later version, with a type that this one does not know, is passed over."""
    found = []
    for each in rows:
        try:
            found.append(_notification(each.id, _decoder.decode(each.body)))
        except (msgspec.MsgspecError, ValueError):
            log.warning("The notification %s was written by another version, and is not shown.", each.id)
    return found


def statuses(rows: Iterable[NotificationStatusRow]) -> Iterator[tuple[str, str, UserStatus]]:
    """Yield notification, person and status. A status of a later version is passed over."""
    for each in rows:
        try:
            yield each.notification, each.user, UserStatus(each.status)
        except ValueError:
            log.warning("What was done with %s was written by another version; it is unread.", each.notification)


def _clean(value: str | int | tuple[str, ...]) -> str | int | list[str]:
    """A fact whose texts are UTF-8: a name that a disk gave may not be."""
    if isinstance(value, tuple):
        return [each.encode("utf-8", "backslashreplace").decode() for each in value]
    return value if isinstance(value, int) else value.encode("utf-8", "backslashreplace").decode()


def _notification(identifier: str, body: _Body) -> Notification:
    facts: Mapping[str, str | int | tuple[str, ...]] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in body.facts.items()
    }
    return Notification(
        id=identifier,
        domain=body.domain,
        cause=Cause(body.type, body.subject, body.project, body.user),
        severity=body.severity,
        facts=facts,
        opened=datetime.fromisoformat(body.opened),
        began=datetime.fromisoformat(body.began),
        modified=datetime.fromisoformat(body.modified),
        version=body.version,
        occurrences=body.occurrences,
        resolved=_instant(body.resolved),
        told=body.told,
        told_as=frozenset(body.told_as),
        told_to=frozenset(body.told_to),
    )


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# Writing to `ops.db` what the board shows, and what waits for that while it cannot be written.
#
# A full disk is what somebody should hear of at once, so nothing that is shown or sent waits for it. What ends
# meanwhile with the process is found again by the first look of the next one. What waits is no more than what is shown,
# what is to be taken out of the file, and what waits to be sent, however long nothing can be written.

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
