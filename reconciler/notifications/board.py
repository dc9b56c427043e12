"""The board: all notifications in memory and in `ops.db`, and the marks of people on them."""

import asyncio
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from reconciler.model import ids
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted
from reconciler.notifications import ledger, models, rendering
from reconciler.notifications.ledger import MOST, DueAlert
from reconciler.notifications.models import (
    Cause,
    Look,
    Notification,
    NotificationState,
    UserStatus,
)
from reconciler.notifications.rendering import NotificationPlace
from reconciler.settings.models import AlertTarget
from reconciler.store.contract import Operations, StoreFault
from reconciler.store.records import Noted, NotificationStatusRow

log = logging.getLogger(__name__)

PAGE = 50  # notifications of a list at a stretch, seen or not: some milliseconds where each is rendered
RETENTION = timedelta(days=30)

Sees = Callable[[Cause], bool]
"""Returns True when somebody may see notifications of a cause."""


class Board:
    """Used from one event loop.

    A change is written first, then shown and sent as an alert. A change that cannot be written is shown and sent
    nevertheless, because people must learn of a full disk at once, and is written later; marks of people are refused
    meanwhile. If the process ends before that, the next start finds the causes again, and repeats the alerts that are
    not recorded as sent.
    """

    def __init__(
        self,
        operations: Operations,
        *,
        clock: Clock,
        place: NotificationPlace,
        retention: timedelta = RETENTION,
        targets: Sequence[AlertTarget] = (),
        most: int = MOST,
    ) -> None:
        """`targets` get alerts. `most` are kept, open and resolved."""
        self.targets = targets
        self.unwritten = ""  # why something that is shown could not be written; empty when all is
        self._operations = operations
        self._clock = clock
        self._place = place
        self._retention = retention
        self._most = most
        self._kept: Mapping[str, Notification] = {}  # the oldest first: new ids are greater; replaced, never changed
        self._statuses: dict[str, dict[str, UserStatus]] = {}  # by notification and person
        self._stored: Mapping[str, Notification] = {}  # in the file
        self._to_unread: set[str] = set()  # what could not be written of marks
        self._changing = asyncio.Lock()  # whoever changes a notification holds it until that is shown
        self._changed = asyncio.Event()
        self._made = 0  # the time in the last id, in milliseconds

    async def load(self) -> None:
        """Load the stored notifications, and send open ones to targets that did not get them. Raises StoreFault if the
        file cannot be read.
        """
        kept = models.read_notifications(await self._operations.notifications())
        self._kept = self._stored = {one.id: one for one in kept}
        for row in await self._operations.notification_statuses():
            if row.notification in self._kept:
                self._statuses.setdefault(row.notification, {})[row.user] = UserStatus(row.status)
        if self._kept:  # the clock may have been set back since
            self._made = ids.milliseconds(max(self._kept))
        names = {target.name for target in self.targets}
        known = [(one, ledger.only_to(one, names)) for one in self._kept.values()]
        async with self._changing:
            await self._put([after for before, after in known if after != before])
        for target in self.targets:
            await self.tell_late(target)

    # What looks find.

    async def take(self, look: Look) -> None:
        """Apply the findings of an observer."""
        async with self._changing:
            changes = ledger.changes(
                self._kept.values(),
                look,
                now=self._clock(),
                new_id=self._new_id,
                targets=self.targets,
                most=self._most,
            )
            await self._put(changes)

    async def tidy(self) -> None:
        """Write pending changes, remove notifications that ended long ago, and start alerts that are due."""
        async with self._changing:
            gone = ledger.forgotten(self._kept.values(), now=self._clock(), retention=self._retention, most=self._most)
            await self._put((), forget=gone)

    async def _put(self, ones: Collection[Notification], *, forget: Collection[str] = ()) -> None:
        """Write, then show and send, without an `await` between, so that no reopened notification is shown as read."""
        back = {one.id for one in ones if self._has_come_back(one)}
        kept = {**self._kept, **{one.id: one for one in ones}}
        for identifier in forget:
            del kept[identifier]
            self._statuses.pop(identifier, None)
        await self._write(kept, unread=back)
        self._kept = kept
        for identifier in back & self._statuses.keys():
            statuses = self._statuses[identifier].items()
            self._statuses[identifier] = {user: each for user, each in statuses if each is not UserStatus.READ}
        self._changed.set()
        self._changed = asyncio.Event()

    def _has_come_back(self, one: Notification) -> bool:
        before = self._kept.get(one.id)
        return before is not None and before.resolved is not None and one.resolved is None

    async def _write(self, kept: Mapping[str, Notification], *, unread: Collection[str] = ()) -> None:
        """Write these to the file. What cannot be written waits for the next write."""
        self._to_unread.update(unread)
        rows = [models.notification_row(one) for one in kept.values() if self._stored.get(one.id) is not one]
        forget = self._stored.keys() - kept.keys()
        if not rows and not forget:
            return
        try:
            await asyncio.shield(self._operations.note(Noted(rows, forget, self._to_unread)))
        except StoreFault as fault:
            if self.unwritten != fault.message:  # once, and not at each time that meets it again
                log.warning("Notifications are shown and alerts sent, but after a restart not known: %s", fault.message)
            self.unwritten = fault.message
            return
        self._stored, self._to_unread = kept, set()
        if self.unwritten:
            self.unwritten = ""
            log.info("Notifications can be written again, and those that waited for that are.")

    def _new_id(self) -> str:
        # Two within a millisecond have an order too: they are listed by their ids.
        self._made = max(int(self._clock().timestamp() * 1000), self._made + 1)
        return ids.ulid(milliseconds=self._made, randomness=os.urandom(ids.RANDOM_BYTES))

    # Alerts.

    def due(self, target: AlertTarget) -> list[DueAlert]:
        """Return the alerts that are due for a target, in order."""
        return ledger.due(self._kept.values(), target.name, now=self._clock())

    def notification(self, identifier: str) -> Notification | None:
        """Return a stored notification."""
        return self._kept.get(identifier)

    def changed(self) -> asyncio.Event:
        """Return the event of the next change, or the next time that alerts may be due."""
        return self._changed

    async def settle(self, target: AlertTarget, alerts: Iterable[DueAlert], *, is_told: bool) -> None:
        """Record that a target accepted these alerts, or that they were given up."""
        async with self._changing:
            put: dict[str, Notification] = {}
            for alert in alerts:
                one = put.get(alert.notification) or self._kept.get(alert.notification)
                if one is not None:
                    put[one.id] = ledger.settled(one, target.name, alert, is_told=is_told)
            await self._put(put.values())

    async def tell_late(self, target: AlertTarget) -> None:
        """Send a target the open notifications that it did not get."""
        async with self._changing:
            late = ledger.told_late(self._kept.values(), target, now=self._clock())
            await self._put(late)
        if late:
            told = counted(len(late), "open notification")
            log.info("The alert target %s is told of %s that it did not hear of.", target.name, told)

    # What is shown.

    @property
    def kept(self) -> Mapping[str, Notification]:
        """All of them by id. A change replaces the mapping, and the notification in it."""
        return self._kept

    @property
    def open(self) -> Counter[tuple[NotificationType, Severity]]:
        """The number of open notifications of each type and severity."""
        return Counter(
            (one.cause.type, one.severity) for one in self._kept.values() if one.state is NotificationState.OPEN
        )

    def one(self, identifier: str, *, sees: Sees, user: str | None) -> bytes | None:
        """Return a notification as JSON, for a person (`user`) or a key (None); None if they may not see it."""
        one = self._kept.get(identifier)
        return None if one is None or not sees(one.cause) else self._shown(one, user)

    async def pages(
        self, *, sees: Sees, user: str | None, after: str | None = None, limit: int = MOST
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the notifications that a caller may see, newest first, as of the first page. `after` is the last id of
        the previous list.
        """
        every = list(self._kept.values())
        end = len(every) if after is None else bisect_left(every, after, key=lambda one: one.id)
        for stop in range(end, 0, -PAGE):
            found = [one for one in reversed(every[max(stop - PAGE, 0) : stop]) if sees(one.cause)][:limit]
            limit -= len(found)
            if found:
                yield [self._shown(one, user) for one in found]
            if limit == 0:
                return
            await asyncio.sleep(0)  # whoever sees few walks far

    async def set_status(self, identifier: str, status: UserStatus, *, sees: Sees, user: str) -> bytes | None:
        """Store a person's mark of a notification. Return the notification as JSON, None if they may not see it.

        Raises StoreFault.
        """
        async with self._changing:
            one = self._kept.get(identifier)
            if one is None or not sees(one.cause):
                return None
            await self._write(self._kept)
            if self.unwritten:  # a notification that came back would be unread again
                raise StoreFault(self.unwritten)
            row = NotificationStatusRow(identifier, user, status.value)
            await asyncio.shield(self._operations.put_notification_status(row))
            statuses = self._statuses.setdefault(identifier, {})
            statuses[user] = status
            if status is UserStatus.UNREAD:  # as in the file, where that is no row
                del statuses[user]
            return self._shown(one, user)

    def _shown(self, one: Notification, user: str | None) -> bytes:
        status = UserStatus.UNREAD if user is None else self._statuses.get(one.id, {}).get(user, UserStatus.UNREAD)
        return rendering.render(one, self._place, status)
