"""The board: all notifications in memory and in `ops.db`, and the marks of people on them."""

import asyncio
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from reconciler.model import ids
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import counted
from reconciler.notifications import ledger, models
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import (
    QUICK,
    SLICE,
    Cause,
    Domain,
    Look,
    Notification,
    NotificationState,
    UserStatus,
    in_slices,
)
from reconciler.notifications.outbox import Outbox
from reconciler.notifications.rendering import NotificationPlace, RenderedNotifications
from reconciler.store.contract import Operations, StoreFault
from reconciler.store.records import AlertRow, Noted, NotificationRow, NotificationStatusRow

log = logging.getLogger(__name__)

# Notifications in memory, each found by whatever it is looked for by.


class NotificationIndex:
    """All that there are. The attributes are to be read alone."""

    def __init__(self, notifications: Iterable[Notification] = ()) -> None:
        """In any order."""
        self.all = {one.id: one for one in sorted(notifications, key=_id)}  # the oldest first: new ids are greater
        self.latest = ledger.latest(self.all.values())
        self.open: Counter[tuple[NotificationType, Severity]] = Counter()
        self.there: dict[tuple[Domain, str], dict[str, Notification]] = {}  # those, by domain and project and then id
        self.ended: dict[str, Notification] = {}
        self.untold: dict[str, Notification] = {}  # whose end is still to be told outward
        for one in self.all.values():
            self._count_in(one)

    def put(self, one: Notification) -> None:
        """Keep one that is new, or as it is now."""
        before = self.all.get(one.id)
        if before is not None:
            self._count_out(before)
        self._count_in(one)
        self.all[one.id] = one
        self.latest[one.cause] = one

    def forget(self, identifier: str) -> None:
        """Keep one no longer."""
        one = self.all.pop(identifier)
        self._count_out(one)
        if self.latest.get(one.cause) is one:
            del self.latest[one.cause]

    def has_come_back(self, one: Notification) -> bool:
        """Return True when this, which is not kept yet, is open again after it had ended."""
        before = self.all.get(one.id)
        return before is not None and before.state is NotificationState.RESOLVED and one.state is NotificationState.OPEN

    def spoken_of(self, look: Look) -> list[Notification]:
        """The open ones of which a look says whether their cause is there."""
        if look.part is not None:
            return [*self.there.get((look.domain, look.part), {}).values()]
        return [one for (domain, _), there in self.there.items() if domain is look.domain for one in there.values()]

    def taken(self, project: str) -> int:
        """How many are open in a project."""
        return sum(len(self.there.get((domain, project), ())) for domain in Domain)

    def _count_in(self, one: Notification) -> None:
        if one.state is NotificationState.OPEN:
            self.open[one.cause.type, one.severity] += 1
            self.there.setdefault((one.domain, one.cause.project), {})[one.id] = one
        elif ledger.is_forgettable(one):
            self.ended[one.id] = one
        else:
            self.untold[one.id] = one

    def _count_out(self, one: Notification) -> None:
        self.ended.pop(one.id, None)
        self.untold.pop(one.id, None)
        if one.state is NotificationState.OPEN:
            self.open[one.cause.type, one.severity] -= 1
            there = self.there[one.domain, one.cause.project]
            del there[one.id]
            if not there:
                del self.there[one.domain, one.cause.project]


def _id(one: Notification) -> str:
    return one.id


# Writes to `ops.db`, and a queue for the writes that fail.
#
# Showing and sending do not wait for a write, since people must hear of a full disk at once. If the process ends before
# a write succeeds, the next start finds the causes again. The queue is bounded: it holds at most the notifications that
# are shown, the ids to remove from the file, and the alerts that are not sent yet.

Unsent = Callable[[Iterable[AlertRow]], list[AlertRow]]
"""Returns the alerts that still wait to be sent."""


class Writer:
    """Writes notifications. Used by one task at a time."""

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


# All notifications, in memory as they are in `ops.db`, and what people did with them.
#
# A notification that cannot be written is shown and sent nevertheless (`Writer`); marks of people are refused then.
#
# A look may find thousands, so all of this is done in slices. Between two of them alerts are sent and lists are read,
# and nothing else changes a notification: whoever does holds `_changing` from its first slice to its last. What a
# process that ends between two of them had written is told by the next start, and what it had not written is found
# again.

PAGE = 50  # notifications of a list at a stretch, seen or not: some milliseconds where each is rendered
RETENTION = timedelta(days=30)

Sees = Callable[[Cause], bool]
"""Returns True when somebody may see notifications of a cause."""


class Board:
    """Used from one event loop."""

    def __init__(
        self,
        operations: Operations,
        *,
        clock: Clock,
        place: NotificationPlace,
        retention: timedelta = RETENTION,
        outbox: Outbox | None = None,
        most: int = MOST,
    ) -> None:
        """`most` are kept, open and resolved."""
        self._operations = operations
        self._clock = clock
        self._retention = retention
        self._outbox = outbox
        self._writer = Writer(operations, unsent=list if outbox is None else outbox.unsent)
        self._most = most
        self._kept = NotificationIndex()
        self._statuses: dict[str, dict[str, UserStatus]] = {}  # by notification and person
        self._rendered = RenderedNotifications(place)
        targets = 0 if outbox is None else len(outbox.targets)
        self._slice = max(1, SLICE * 4 // (4 + targets))  # an alert costs a quarter of a notification at most
        self._changing = asyncio.Lock()
        self._made = 0  # the time in the last id, in milliseconds
        self._left_out: set[tuple[Domain, str | None]] = set()  # of which looks, by domain and part

    async def load(self) -> None:
        """Load what an earlier start kept. Raises StoreFault."""
        self._kept = NotificationIndex(models.read_notifications(await self._operations.notifications()))
        for identifier, user, status in models.read_statuses(await self._operations.notification_statuses()):
            if identifier in self._kept.all:
                self._statuses.setdefault(identifier, {})[user] = status
        if self._kept.all:  # the clock may have been set back since
            self._writer.newest = max(self._kept.all)
            self._made = ids.milliseconds(self._writer.newest)
        await self._tell_targets()

    async def _tell_targets(self) -> None:
        """Tell targets what is open and what they did not hear of, and remember who alerts go to. Raises StoreFault
        for a file that cannot be read.
        """
        present = () if self._outbox is None else self._outbox.targets
        known = set(await self._operations.alert_targets())
        lasting = known.intersection(present)  # one that was gone is new when it comes back
        put: dict[str, Notification] = {}
        async for ones in in_slices([*self._kept.all.values()], QUICK):
            put |= {one.id: replace(one, told_to=one.told_to & lasting) for one in ones if not one.told_to <= lasting}
        alerts = await self._anew(present, put, now=self._clock())
        if put or known != set(present):
            await self._tell(put, alerts, targets=present)

    async def _anew(self, names: Collection[str], put: dict[str, Notification], *, now: datetime) -> list[AlertRow]:
        """The alerts to targets that did not hear of what is open; `put`, which is not kept yet, has that they did."""
        if self._outbox is None:
            return []
        kept = [*(self._kept.all | put).values()]
        told, alerts = await self._outbox.anew(names, kept, at=now, new_id=self._new_id)
        put |= {one.id: one for one in told}
        return alerts

    async def _tell(
        self, put: dict[str, Notification], alerts: Sequence[AlertRow], *, targets: Collection[str] | None = None
    ) -> None:
        rows: list[NotificationRow] = []
        async for ones in in_slices([*put.values()]):
            rows += [models.notification_row(one) for one in ones]
        await self._writer.write(Noted(put=rows, alerts=alerts, targets=targets))
        await self._keep([*put.values()], alerts)

    async def _keep(self, put: Sequence[Notification], alerts: Sequence[AlertRow]) -> None:
        """Show and send what is written."""
        async for ones in in_slices(put, QUICK):
            for one in ones:
                if self._kept.has_come_back(one):  # in one stretch, so that nobody sees it open and read
                    self._unread(one.id)
                self._kept.put(one)
        if self._outbox is not None:
            await self._outbox.add(alerts)

    async def _catch_up(self, now: datetime) -> None:
        """Remember who did not hear of a beginning, and tell a target that takes alerts again what is still open."""
        if self._outbox is None:
            return
        await self._outbox.tidy()
        put: dict[str, Notification] = {}
        async for lost in in_slices(sorted((await self._outbox.lost()).items()), QUICK):
            for identifier, names in lost:
                one = self._kept.all.get(identifier)
                if one is not None and not names.isdisjoint(one.told_to):
                    put[identifier] = ledger.untold(one, names)
        recovered = self._outbox.recovered()
        alerts = [] if recovered is None else await self._anew([recovered], put, now=now)
        if put:
            await self._tell(put, alerts)

    # What looks find.

    async def take(self, look: Look) -> None:
        """Take over what a look found."""
        async with self._changing:
            now, room = self._clock(), ledger.LedgerRoom(self._most - self._kept.open.total(), self._kept.taken)
            put: list[Notification] = []
            left_out = 0
            causes: set[Cause] = set()
            latest = self._kept.latest
            async for slice_ in in_slices(look.findings):
                findings = [finding for finding in slice_ if finding.cause not in causes]
                causes.update(finding.cause for finding in findings)
                found = ledger.met(latest, findings, domain=look.domain, now=now, new_id=self._new_id, room=room)
                put += found.put
                left_out += found.left_out
            async for ones in in_slices(self._kept.spoken_of(look), QUICK):
                put += ledger.missed(ones, causes, now=now)
            if put:
                await self._write(put, now=now)
            self._tell_of_room(look, left_out)

    async def tidy(self) -> None:
        """Write and tell outward what had to wait, and forget what ended long ago."""
        async with self._changing:
            await self._writer.again()
            now = self._clock()
            await self._catch_up(now)
            surplus = len(self._kept.all) - self._most
            gone = ledger.forgotten(self._kept.ended.values(), now=now, retention=self._retention, surplus=surplus)
            waiting = [one for one in self._kept.untold.values() if ledger.due(one, now=now) is not None]
            if gone or waiting:
                await self._write(waiting, now=now, forget=gone)

    async def _write(self, put: Sequence[Notification], *, now: datetime, forget: Sequence[str] = ()) -> None:
        """Tell of them outward where that is due, keep all of it, then show it."""
        fresh: list[Notification] = []
        unread: list[str] = []
        rows: list[NotificationRow] = []
        alerts: list[AlertRow] = []
        made: Counter[str] = Counter()  # alerts, by target
        async for ones in in_slices(put, self._slice):
            for one in ones:
                told, out = self._told(one, now, made)
                fresh.append(told)
                rows.append(models.notification_row(told))
                alerts += out
                if self._kept.has_come_back(told):
                    unread.append(told.id)
        await self._writer.write(Noted(put=rows, forget=forget, unread=unread, alerts=alerts))
        await self._keep(fresh, alerts)
        async for identifiers in in_slices(forget, QUICK):
            for identifier in identifiers:
                self._forget(identifier)

    def _told(self, one: Notification, now: datetime, made: Counter[str]) -> tuple[Notification, list[AlertRow]]:
        """With the alerts that go out about it now."""
        state = ledger.due(one, now=now)
        if state is None:
            return one, []
        out = [] if self._outbox is None else self._outbox.alerts(one, state, at=now, new_id=self._new_id, made=made)
        return ledger.told(one, state, [row.target for row in out]), out

    def _unread(self, identifier: str) -> None:
        statuses = self._statuses.get(identifier, {})
        self._statuses[identifier] = {user: each for user, each in statuses.items() if each is not UserStatus.READ}

    def _forget(self, identifier: str) -> None:
        self._kept.forget(identifier)
        self._statuses.pop(identifier, None)
        self._rendered.forget(identifier)

    def _new_id(self) -> str:
        # Two within a millisecond have an order too: they are listed by their ids.
        self._made = max(int(self._clock().timestamp() * 1000), self._made + 1)
        return ids.ulid(milliseconds=self._made, randomness=os.urandom(ids.RANDOM_BYTES))

    def _tell_of_room(self, look: Look, left_out: int) -> None:
        """Once, and not at each look that meets them again."""
        if not left_out:
            self._left_out.discard((look.domain, look.part))
            return
        if not self._left_out:
            told, there = counted(left_out, "cause"), counted(self._kept.open.total(), "open notification")
            log.warning("%s found no room beside %s; mend some of them.", told, there)
        self._left_out.add((look.domain, look.part))

    # What is shown.

    @property
    def unwritten(self) -> str:
        """Why something that is shown could not be written; empty when all is."""
        return self._writer.fault

    @property
    def open(self) -> Counter[tuple[NotificationType, Severity]]:
        """How many there are whose cause is there, of each type and severity; not to be changed."""
        return self._kept.open

    def one(self, identifier: str, *, sees: Sees, user: str | None) -> bytes | None:
        """One notification as JSON, as a person sees it (`user`) or a key (None); None for one that they do not see."""
        one = self._kept.all.get(identifier)
        return None if one is None or not sees(one.cause) else self._shown(one, user)

    def cause(self, identifier: str) -> Cause | None:
        """Return the cause of a notification, to decide who sees it; None when there is none."""
        one = self._kept.all.get(identifier)
        return None if one is None else one.cause

    async def pages(
        self, *, sees: Sees, user: str | None, after: str | None = None, limit: int = MOST
    ) -> AsyncGenerator[list[bytes], None]:
        """Those that somebody sees, the newest first, as they were when the first was asked for; `after` is the id of
        the last one of the list before.
        """
        every = list(self._kept.all.values())
        end = len(every) if after is None else bisect_left(every, after, key=_id)
        for stop in range(end, 0, -PAGE):
            found = [one for one in reversed(every[max(stop - PAGE, 0) : stop]) if sees(one.cause)][:limit]
            limit -= len(found)
            if found:
                yield [self._shown(one, user) for one in found]
            if limit == 0:
                return
            await asyncio.sleep(0)  # whoever sees few walks far

    async def set_status(self, identifier: str, status: UserStatus, *, sees: Sees, user: str) -> bytes | None:
        """Keep what a person did with a notification; it as JSON, None for one that they do not see.

        Raises StoreFault.
        """
        async with self._changing:
            one = self._kept.all.get(identifier)
            if one is None or not sees(one.cause):
                return None
            await self._writer.flush()  # or a notification that came back would be unread again
            row = NotificationStatusRow(identifier, user, status.value)
            await asyncio.shield(self._operations.put_notification_status(row))
            statuses = self._statuses.setdefault(identifier, {})
            statuses[user] = status
            if status is UserStatus.UNREAD:  # as in the file, where that is no row
                del statuses[user]
            return self._shown(one, user)

    def _shown(self, one: Notification, user: str | None) -> bytes:
        statuses = self._statuses.get(one.id)
        status = UserStatus.UNREAD if user is None or statuses is None else statuses.get(user, UserStatus.UNREAD)
        return self._rendered.of(one, status, is_kept=self._kept.all.get(one.id) is one)
