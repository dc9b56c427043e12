"""All notifications, in memory as they are in `ops.db`, and what people did with them.

Belongs here: taking over what a look found, one look at a time; what is shown. Does not: what becomes of a notification
(`reconciler.notifications.ledger`), looking, sending alerts (`outbox`), who may see which (the API).

What cannot be written is not shown either: the next look finds it again.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from reconciler import ids
from reconciler.clock import Clock
from reconciler.counting import counted
from reconciler.notifications import ledger, rendering, telling
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, Look, Notification, State, UserStatus
from reconciler.notifications.rendering import Place
from reconciler.notifying import keeping
from reconciler.notifying.outbox import Outbox
from reconciler.operations.contract import AlertRow, Noted, NotificationRow, NotificationStatusRow, Operations

log = logging.getLogger(__name__)

PAGE = 200  # notifications of a list at a stretch
SLICE = 20  # that are looked at, written or rendered at a stretch
RETENTION = timedelta(days=30)

T = TypeVar("T")

Sees = Callable[[Cause], bool]
"""Whether somebody sees what concerns this."""


class Board:
    """Used from one event loop."""

    def __init__(
        self,
        operations: Operations,
        *,
        clock: Clock,
        place: Place,
        retention: timedelta = RETENTION,
        outbox: Outbox | None = None,
        most: int = MOST,
    ) -> None:
        """`most` are kept, open and resolved."""
        self._operations = operations
        self._clock = clock
        self._place = place
        self._retention = retention
        self._outbox = outbox
        self._most = most
        self._kept: dict[str, Notification] = {}  # by id, the oldest first
        self._latest: dict[Cause, Notification] = {}
        self._open = 0
        self._statuses: dict[str, dict[str, UserStatus]] = {}  # by notification and person
        self._rendered: dict[str, bytes] = {}  # by id, for all who did not dismiss it
        self._changing = asyncio.Lock()
        self._made = 0  # the time in the last id, in milliseconds
        self._is_full = False

    async def load(self) -> None:
        """What an earlier start kept. Raises StoreFault."""
        for one in sorted(keeping.notifications(await self._operations.notifications()), key=lambda one: one.id):
            self._kept[one.id] = one
        for row in await self._operations.notification_statuses():
            if row.notification in self._kept:
                self._statuses.setdefault(row.notification, {})[row.user] = UserStatus(row.status)
        self._latest = ledger.latest(self._kept.values())
        self._open = sum(one.state is State.OPEN for one in self._kept.values())

    # What looks find.

    async def take(self, look: Look) -> None:
        """Take over what a look found. Raises StoreFault; then all is as before."""
        async with self._changing:
            now, room = self._clock(), self._most - self._open
            put: list[Notification] = []
            left_out = 0
            for findings in _slices(look.findings):
                found = ledger.met(self._latest, findings, domain=look.domain, now=now, new_id=self._new_id, room=room)
                room -= sum(one.began == now for one in found.put)
                put += found.put
                left_out += found.left_out
                await asyncio.sleep(0)
            put += ledger.missed(self._latest, look, now=now)
            self._tell_of_room(left_out)
            if put:
                await self._write(put, now=now)

    async def tidy(self) -> None:
        """Tell outward what had to wait, and forget what ended long ago. Raises StoreFault."""
        async with self._changing:
            now = self._clock()
            gone = ledger.forgotten(self._kept.values(), now=now, retention=self._retention, most=self._most)
            waiting = [one for one in self._latest.values() if telling.due(one, now=now) is not None]
            if gone or waiting:
                await self._write(waiting, now=now, forget=gone)
        await self._prepare()

    async def _prepare(self) -> None:
        """Render what changed, so that a list need not."""
        for slice_ in _slices([one for one in self._kept.values() if one.id not in self._rendered]):
            for one in slice_:
                self._shown(one, None)
            await asyncio.sleep(0)

    async def _write(self, put: Sequence[Notification], *, now: datetime, forget: Sequence[str] = ()) -> None:
        """Tell of them outward where that is due, keep all of it, then show it."""
        fresh: list[Notification] = []
        rows: list[NotificationRow] = []
        alerts: list[AlertRow] = []
        for slice_ in _slices(put):
            for one in slice_:
                told, out = self._told(one, now)
                fresh.append(told)
                rows.append(keeping.row(told))
                alerts += out
            await asyncio.sleep(0)
        unread = [one.id for one in fresh if self._has_come_back(one)]
        await asyncio.shield(self._operations.note(Noted(put=rows, forget=forget, unread=unread, alerts=alerts)))
        for one in fresh:
            self._put(one)
        for identifier in unread:
            self._unread(identifier)
        for identifier in forget:
            self._forget(identifier)
        if self._outbox is not None:
            self._outbox.add(alerts)

    def _told(self, one: Notification, now: datetime) -> tuple[Notification, list[AlertRow]]:
        """With the alerts that go out about it now."""
        state = telling.due(one, now=now)
        if state is None:
            return one, []
        out = [] if self._outbox is None else self._outbox.alerts(one, state, at=now, new_id=self._new_id)
        return telling.told(one, state, now=now), out

    def _has_come_back(self, one: Notification) -> bool:
        before = self._kept.get(one.id)
        return before is not None and before.state is State.RESOLVED and one.state is State.OPEN

    def _put(self, one: Notification) -> None:
        before = self._kept.get(one.id)
        self._open += (one.state is State.OPEN) - (before is not None and before.state is State.OPEN)
        self._kept[one.id] = one
        self._latest[one.cause] = one
        self._rendered.pop(one.id, None)

    def _unread(self, identifier: str) -> None:
        statuses = self._statuses.get(identifier, {})
        self._statuses[identifier] = {user: each for user, each in statuses.items() if each is not UserStatus.READ}

    def _forget(self, identifier: str) -> None:
        one = self._kept.pop(identifier)
        self._open -= one.state is State.OPEN
        self._statuses.pop(identifier, None)
        self._rendered.pop(identifier, None)
        if self._latest.get(one.cause) is one:
            del self._latest[one.cause]

    def _new_id(self) -> str:
        # Two within a millisecond have an order too: they are listed by their ids.
        self._made = max(int(self._clock().timestamp() * 1000), self._made + 1)
        return ids.ulid(milliseconds=self._made, randomness=os.urandom(ids.RANDOM_BYTES))

    def _tell_of_room(self, left_out: int) -> None:
        """Once, and not at each look that meets them again."""
        if left_out and not self._is_full:
            told = counted(left_out, "cause")
            log.warning("There are %d open notifications, and %s found no room; mend some of them.", self._most, told)
        self._is_full = left_out > 0

    # What is shown.

    @property
    def open(self) -> Sequence[Notification]:
        """Those whose cause is there, the oldest first."""
        return [one for one in self._kept.values() if one.state is State.OPEN]

    def one(self, identifier: str, *, sees: Sees, user: str | None) -> bytes | None:
        """One notification as JSON, as a person sees it (`user`) or a key (None); None for one that they do not see."""
        one = self._kept.get(identifier)
        return None if one is None or not sees(one.cause) else self._shown(one, user)

    async def pages(
        self, *, sees: Sees, user: str | None, after: str | None = None, limit: int = MOST
    ) -> AsyncGenerator[list[bytes], None]:
        """Those that somebody sees, the newest first, as they were at the first page; `after` is the id of the last one
        of the page before.
        """
        found = [one for one in sorted(self._kept.values(), key=_id, reverse=True) if after is None or one.id < after]
        found = [one for one in found if sees(one.cause)][:limit]
        for start in range(0, len(found), PAGE):
            yield [self._shown(one, user) for one in found[start : start + PAGE]]

    async def set_status(self, identifier: str, status: UserStatus, *, sees: Sees, user: str) -> bytes | None:
        """Keep what a person did with a notification; it as JSON, None for one that they do not see.

        Raises StoreFault.
        """
        async with self._changing:
            one = self._kept.get(identifier)
            if one is None or not sees(one.cause):
                return None
            row = NotificationStatusRow(identifier, user, status.value)
            await asyncio.shield(self._operations.put_notification_status(row))
            self._statuses.setdefault(identifier, {})[user] = status
            return self._shown(one, user)

    def _shown(self, one: Notification, user: str | None) -> bytes:
        statuses = self._statuses.get(one.id)
        status = UserStatus.UNREAD if user is None or statuses is None else statuses.get(user, UserStatus.UNREAD)
        if status is UserStatus.DISMISSED:
            return rendering.whole(rendering.rendered(one, self._place, is_hidden=True), status)
        rendered = self._rendered.get(one.id)
        if rendered is None:
            rendered = rendering.rendered(one, self._place, is_hidden=False)
            if self._kept.get(one.id) is one:  # a list may show what it was a moment ago
                self._rendered[one.id] = rendered
        return rendering.whole(rendered, status)


def _id(one: Notification) -> str:
    return one.id


def _slices(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many that the loop is held for about a millisecond."""
    return (values[start : start + SLICE] for start in range(0, len(values), SLICE))
