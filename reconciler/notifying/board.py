"""All notifications, in memory as they are in `ops.db`, and what people did with them.

Belongs here: taking over what a look found, one look at a time; what is shown. Does not: what becomes of a notification
(`reconciler.notifications.ledger`), looking, sending alerts (`outbox`), who may see which (the API).

What cannot be written is shown and told all the same (`writing`); what a person did is not taken then.
"""

import asyncio
import logging
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from reconciler import ids
from reconciler.clock import Clock
from reconciler.concerns import Severity, Type
from reconciler.counting import counted
from reconciler.notifications import ledger, telling
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, Domain, Look, Notification, State, UserStatus
from reconciler.notifications.rendering import Place
from reconciler.notifying import keeping
from reconciler.notifying.outbox import Outbox
from reconciler.notifying.rendered import Rendered
from reconciler.notifying.writing import Writer
from reconciler.operations.contract import AlertRow, Noted, NotificationRow, NotificationStatusRow, Operations

log = logging.getLogger(__name__)

PAGE = 200  # notifications of a list at a stretch, seen or not
SLICE = 20  # that are judged, written or rendered at a stretch: each takes some 50 microseconds
QUICK = 500  # that are only looked at or counted: each takes some 2 microseconds
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
        self._retention = retention
        self._outbox = outbox
        self._writer = Writer(operations, unsent=list if outbox is None else outbox.unsent)
        self._most = most
        self._kept: dict[str, Notification] = {}  # by id, the oldest first: a new id is greater than all others
        self._latest: dict[Cause, Notification] = {}
        self._open: Counter[tuple[Type, Severity]] = Counter()
        self._there: dict[tuple[Domain, str], dict[str, Notification]] = {}  # those, by domain and project and then id
        self._ended: dict[str, Notification] = {}
        self._untold: dict[str, Notification] = {}  # whose end is still to be told outward
        self._statuses: dict[str, dict[str, UserStatus]] = {}  # by notification and person
        self._rendered = Rendered(place)
        targets = 0 if outbox is None else len(outbox.targets)
        self._slice = max(1, SLICE * 4 // (4 + targets))  # an alert costs a fifth of a notification
        self._changing = asyncio.Lock()
        self._made = 0  # the time in the last id, in milliseconds
        self._left_out: set[tuple[Domain, str | None]] = set()  # of which looks, by domain and part

    async def load(self) -> None:
        """What an earlier start kept. Raises StoreFault."""
        for one in sorted(keeping.notifications(await self._operations.notifications()), key=lambda one: one.id):
            self._kept[one.id] = one
            self._rendered.want(one.id)
        for identifier, user, status in keeping.statuses(await self._operations.notification_statuses()):
            if identifier in self._kept:
                self._statuses.setdefault(identifier, {})[user] = status
                self._rendered.want(identifier, status)
        self._latest = ledger.latest(self._kept.values())
        for one in self._kept.values():
            self._count_in(one)
        if self._kept:  # the clock may have been set back since
            self._writer.newest = max(self._kept)
            self._made = ids.milliseconds(self._writer.newest)
        await self._tell_targets()

    async def _tell_targets(self) -> None:
        """Tell targets what is open and what they did not hear of, and remember who alerts go to. Raises StoreFault
        for a file that cannot be read.
        """
        present = () if self._outbox is None else self._outbox.targets
        known = set(await self._operations.alert_targets())
        lasting = known.intersection(present)  # one that was gone is new when it comes back
        stale = [one for one in self._kept.values() if not one.told_to <= lasting]
        put = {one.id: replace(one, told_to=one.told_to & lasting) for one in stale}
        alerts = self._anew(present, put, now=self._clock())
        if put or known != set(present):
            await self._tell(put, alerts, targets=present)

    def _anew(self, names: Collection[str], put: dict[str, Notification], *, now: datetime) -> list[AlertRow]:
        """The alerts to targets that did not hear of what is open; `put`, which is not kept yet, has that they did."""
        if self._outbox is None:
            return []
        told, alerts = self._outbox.anew(names, (self._kept | put).values(), at=now, new_id=self._new_id)
        put |= {one.id: one for one in told}
        return alerts

    async def _tell(
        self, put: dict[str, Notification], alerts: Sequence[AlertRow], *, targets: Collection[str] | None = None
    ) -> None:
        rows: list[NotificationRow] = []
        for ones in _slices([*put.values()]):
            rows += [keeping.row(one) for one in ones]
            await asyncio.sleep(0)
        await self._writer.write(Noted(put=rows, alerts=alerts, targets=targets))
        for one in put.values():
            self._put(one)
        if self._outbox is not None:
            self._outbox.add(alerts)

    async def _catch_up(self, now: datetime) -> None:
        """Remember who did not hear of a beginning, and tell a target that takes alerts again what is still open."""
        if self._outbox is None:
            return
        await self._outbox.tidy()
        put: dict[str, Notification] = {}
        for identifier, names in sorted(self._outbox.lost().items()):
            one = self._kept.get(identifier)
            if one is not None and not names.isdisjoint(one.told_to):
                put[identifier] = telling.untold(one, names)
        recovered = self._outbox.recovered()
        alerts = [] if recovered is None else self._anew([recovered], put, now=now)
        if put:
            await self._tell(put, alerts)

    # What looks find.

    async def take(self, look: Look) -> None:
        """Take over what a look found."""
        async with self._changing:
            now, room = self._clock(), ledger.Room(self._most - self._open.total(), self._taken)
            put: list[Notification] = []
            left_out = 0
            causes: set[Cause] = set()
            for slice_ in _slices(look.findings):
                findings = [finding for finding in slice_ if finding.cause not in causes]
                causes.update(finding.cause for finding in findings)
                found = ledger.met(self._latest, findings, domain=look.domain, now=now, new_id=self._new_id, room=room)
                put += found.put
                left_out += found.left_out
                await asyncio.sleep(0)
            for ones in _slices(self._spoken_of(look), QUICK):
                put += ledger.missed(ones, causes, now=now)
                await asyncio.sleep(0)
            if put:
                await self._write(put, now=now)
            self._tell_of_room(look, left_out)

    def _spoken_of(self, look: Look) -> list[Notification]:
        """The open ones of which a look says whether their cause is there."""
        if look.part is not None:
            return [*self._there.get((look.domain, look.part), {}).values()]
        return [one for (domain, _), there in self._there.items() if domain is look.domain for one in there.values()]

    def _taken(self, project: str) -> int:
        """How many are open in a project."""
        return sum(len(self._there.get((domain, project), ())) for domain in Domain)

    async def tidy(self) -> None:
        """Write and tell outward what had to wait, and forget what ended long ago."""
        async with self._changing:
            await self._writer.again()
            now = self._clock()
            await self._catch_up(now)
            surplus = len(self._kept) - self._most
            gone = ledger.forgotten(self._ended.values(), now=now, retention=self._retention, surplus=surplus)
            waiting = [one for one in self._untold.values() if telling.due(one, now=now) is not None]
            if gone or waiting:
                await self._write(waiting, now=now, forget=gone)
        await self._prepare()

    async def _prepare(self) -> None:
        """Render what changed, so that a list need not."""
        for wanted in _slices(self._rendered.wanted()):
            for identifier, status in wanted:
                if identifier in self._kept:  # and not forgotten meanwhile
                    self._rendered.of(self._kept[identifier], status)
            await asyncio.sleep(0)

    async def _write(self, put: Sequence[Notification], *, now: datetime, forget: Sequence[str] = ()) -> None:
        """Tell of them outward where that is due, keep all of it, then show it."""
        fresh: list[Notification] = []
        rows: list[NotificationRow] = []
        alerts: list[AlertRow] = []
        made: Counter[str] = Counter()  # alerts, by target
        for slice_ in _slices(put, self._slice):
            for one in slice_:
                told, out = self._told(one, now, made)
                fresh.append(told)
                rows.append(keeping.row(told))
                alerts += out
            await asyncio.sleep(0)
        unread = [one.id for one in fresh if self._has_come_back(one)]
        await self._writer.write(Noted(put=rows, forget=forget, unread=unread, alerts=alerts))
        for ones in _slices(fresh, QUICK):
            for one in ones:
                self._put(one)
            await asyncio.sleep(0)
        for identifier in unread:
            self._unread(identifier)
        for identifier in forget:
            self._forget(identifier)
        for rows_ in _slices(alerts, QUICK):
            if self._outbox is not None:
                self._outbox.add(rows_)
            await asyncio.sleep(0)

    def _told(self, one: Notification, now: datetime, made: Counter[str]) -> tuple[Notification, list[AlertRow]]:
        """With the alerts that go out about it now."""
        state = telling.due(one, now=now)
        if state is None:
            return one, []
        out = [] if self._outbox is None else self._outbox.alerts(one, state, at=now, new_id=self._new_id, made=made)
        return telling.told(one, state, [row.target for row in out]), out

    def _has_come_back(self, one: Notification) -> bool:
        before = self._kept.get(one.id)
        return before is not None and before.state is State.RESOLVED and one.state is State.OPEN

    def _put(self, one: Notification) -> None:
        before = self._kept.get(one.id)
        if before is not None:
            self._count_out(before)
        self._count_in(one)
        self._kept[one.id] = one
        self._latest[one.cause] = one
        self._rendered.changed(one.id)

    def _unread(self, identifier: str) -> None:
        statuses = self._statuses.get(identifier, {})
        self._statuses[identifier] = {user: each for user, each in statuses.items() if each is not UserStatus.READ}

    def _forget(self, identifier: str) -> None:
        one = self._kept.pop(identifier)
        self._count_out(one)
        self._statuses.pop(identifier, None)
        self._rendered.forget(identifier)
        if self._latest.get(one.cause) is one:
            del self._latest[one.cause]

    def _count_in(self, one: Notification) -> None:
        if one.state is State.OPEN:
            self._open[one.cause.type, one.severity] += 1
            self._there.setdefault((one.domain, one.cause.project), {})[one.id] = one
        elif ledger.is_forgettable(one):
            self._ended[one.id] = one
        else:
            self._untold[one.id] = one

    def _count_out(self, one: Notification) -> None:
        self._ended.pop(one.id, None)
        self._untold.pop(one.id, None)
        if one.state is State.OPEN:
            self._open[one.cause.type, one.severity] -= 1
            there = self._there[one.domain, one.cause.project]
            del there[one.id]
            if not there:
                del self._there[one.domain, one.cause.project]

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
            told, there = counted(left_out, "cause"), counted(self._open.total(), "open notification")
            log.warning("%s found no room beside %s; mend some of them.", told, there)
        self._left_out.add((look.domain, look.part))

    # What is shown.

    @property
    def unwritten(self) -> str:
        """Why something that is shown could not be written; empty when all is."""
        return self._writer.fault

    @property
    def open(self) -> Counter[tuple[Type, Severity]]:
        """How many there are whose cause is there, of each type and severity; not to be changed."""
        return self._open

    def one(self, identifier: str, *, sees: Sees, user: str | None) -> bytes | None:
        """One notification as JSON, as a person sees it (`user`) or a key (None); None for one that they do not see."""
        one = self._kept.get(identifier)
        return None if one is None or not sees(one.cause) else self._shown(one, user)

    def cause(self, identifier: str) -> Cause | None:
        """What a notification is about, for whoever decides who sees it; None where there is none."""
        one = self._kept.get(identifier)
        return None if one is None else one.cause

    async def pages(
        self, *, sees: Sees, user: str | None, after: str | None = None, limit: int = MOST
    ) -> AsyncGenerator[list[bytes], None]:
        """Those that somebody sees, the newest first, as they were when the first was asked for; `after` is the id of
        the last one of the list before.
        """
        every = list(self._kept.values())
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
            one = self._kept.get(identifier)
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
        return self._rendered.of(one, status, is_kept=self._kept.get(one.id) is one)


def _id(one: Notification) -> str:
    return one.id


def _slices(values: Sequence[T], size: int = SLICE) -> Iterator[Sequence[T]]:
    """So many that the loop is held for about a millisecond."""
    return (values[start : start + size] for start in range(0, len(values), size))
