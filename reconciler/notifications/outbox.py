"""Alerts on their way to targets, kept until they are delivered."""

import asyncio
import heapq
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from reconciler.delivery.http_client import HttpClient
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.text import counted
from reconciler.notifications import alerts, ledger
from reconciler.notifications.alerts import WHOLE, AlertContent, AlertOutcome, AlertSender, AlertTarget
from reconciler.notifications.models import QUICK, Notification, NotificationState, in_slices
from reconciler.notifications.rendering import NotificationPlace
from reconciler.store.contract import Operations
from reconciler.store.records import AlertRow

# The queue of alerts of one target, and its counts. In memory alone.
#
# The end of a cause is told to whoever heard of its beginning: an alert about a beginning that is given up takes the
# one about its end with it, and is remembered in `lost` until the board knows who did not hear.

log = logging.getLogger(__name__)


class WaitingAlert(msgspec.Struct, frozen=True, gc=False):
    """An alert, with the id of the notification that it is about. Nothing for the garbage collector, as `AlertRow`."""

    row: AlertRow
    about: str
    is_beginning: bool


class AlertLane:
    """One target."""

    def __init__(self, to: AlertTarget, *, most: int) -> None:
        """`most` alerts wait."""
        self.to = to
        self.most = most
        self.waiting: deque[WaitingAlert] = deque()
        self.woken = asyncio.Event()
        self.lost: set[str] = set()  # notifications whose beginning was given up, which the board does not know yet
        self.owes = False  # whether it misses some that may still be open
        self.takes = False  # whether the last attempt was taken
        self.is_full = False  # whether too many waited since it took one last
        self.is_sending = False  # the oldest one, which stays at its place
        self.is_testing = False
        self.sent = self.failed = self.given_up = 0
        self._is_failing = False
        self._refused = ("", 0)  # the alert that was refused last, and how often

    def add(self, row: AlertRow) -> list[str]:
        """Let one wait; its id where it is not to be sent, since it tells the end of what was given up."""
        one = WaitingAlert(row, *alerts.alert_about(row.body))
        if one.about in self.lost and not one.is_beginning:
            return [row.id]
        if one.is_beginning:
            self.lost.discard(one.about)
        self.waiting.append(one)
        return []

    def shed(self) -> list[str]:
        """Give up what is too much, the oldest: the ids. The log tells when that begins, and a metric of how many."""
        surplus = len(self.waiting) - self.most
        if surplus <= 0:
            return []
        if not self.is_full:
            log.warning("Too many alerts wait for %s; the oldest are given up until it takes one.", self.to.name)
        self.is_full = True
        return self.give_up(surplus)

    def give_up(self, number: int) -> list[str]:
        """Give up so many, the oldest, but the one that is under way. The ids of all that go with that."""
        first = [self.waiting.popleft()] if self.is_sending else []
        gone = [self.waiting.popleft() for _ in range(number)]
        self.given_up += number
        lost = {one.about for one in gone if one.is_beginning}
        ends = self._without_ends(lost) if lost else []
        self.waiting.extendleft(first)
        self.lost |= lost
        self.owes = self.owes or bool(lost)
        return [one.row.id for one in (*gone, *ends)]

    def _without_ends(self, lost: set[str]) -> list[WaitingAlert]:
        """Take those out that tell the end of what is lost; what begins anew behind that is not lost."""
        stay: deque[WaitingAlert] = deque()
        ends = []
        for one in self.waiting:
            if one.about in lost and not one.is_beginning:
                ends.append(one)
                continue
            if one.is_beginning:
                lost.discard(one.about)
            stay.append(one)
        self.waiting = stay
        return ends

    @property
    def has_recovered(self) -> bool:
        """True when it takes alerts, none waits, and it missed some."""
        return self.owes and self.takes and not self.waiting

    def tell(self, came: AlertOutcome) -> None:
        """Take down what came of an attempt; say once that nothing is taken, and once that it is again."""
        was_failing, self.takes = self._is_failing, came.is_taken
        self._is_failing = not came.is_taken
        self.is_full = self.is_full and not came.is_taken
        if came.is_taken and was_failing:
            log.info("The alert target %s takes alerts again.", self.to.name)
        if not came.is_taken and not was_failing:
            log.warning("The alert target %s does not take an alert, which is tried again: %s", self.to.name, came.why)

    def refused(self, row: AlertRow) -> int:
        """How often this alert was refused by now."""
        identifier, times = self._refused
        self._refused = (row.id, times + 1 if identifier == row.id else 1)
        return self._refused[1]


# Alerts on their way: kept in `ops.db` until their target took them, at least once.
#
# Each target has a task of its own, so that one that fails keeps nobody waiting, and gets its alerts one after another
# in their order. What one does not take is tried again for an hour, and what it refuses twice more; then it is given
# up. Of that the log tells and a metric, and no notification: one about alerts that fail would itself be an alert that
# fails.

MOST = 1_000  # alerts that wait for one target; the oldest go first
ADDED = 200  # that a target gets at a stretch
MOST_ANEW = 100  # open notifications that a target is told of late: a chat is no place for more
MOST_GONE = 100_000  # alerts to forget while the disk takes nothing; further ones were not written either, as a rule
PATIENCE = timedelta(hours=1)  # from when an alert was made
REFUSALS = 3  # of one alert; a proxy on the way may have been the one that refused
FIRST_RETRY = 1.0  # seconds; doubled at each failure
LONGEST_RETRY = 60.0
LONGEST_ASKED = 300.0  # of a `Retry-After`
SPREAD = 0.1
DOUBLINGS = 10

Wait = Callable[[float], Awaitable[None]]
NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class AlertTally:
    """Counts of a target since the start: alerts, and failed attempts."""

    target: str
    sent: int
    failed: int
    given_up: int
    waiting: int


@dataclass(frozen=True, slots=True)
class TriedAlert:
    """The outcome of a test of a target, and how many seconds it took."""

    target: str
    came: AlertOutcome
    seconds: float


class Outbox:
    """All targets. Used from one event loop."""

    def __init__(
        self,
        recipients: Sequence[AlertTarget],
        operations: Operations,
        *,
        place: NotificationPlace,
        clock: Clock,
        wait: Wait = asyncio.sleep,
        most: int = MOST,
    ) -> None:
        """`most` alerts wait for each target."""
        self._operations = operations
        self._place = place
        self._clock = clock
        self._wait = wait
        self._most = most
        self._lanes = {one.name: AlertLane(one, most=most) for one in recipients}
        self._sender: AlertSender | None = None
        self._gone: dict[str, None] = {}  # the ids of alerts that are to be forgotten, in their order
        self._is_stuck = False  # whether they could not be, and the log told of that

    async def load(self) -> None:
        """The alerts that an earlier start did not send; of targets that are gone, they are forgotten. Raises
        StoreFault.
        """
        rows = await self._operations.alerts()
        await self.add(rows)
        self._gone.update(dict.fromkeys(row.id for row in rows if row.target not in self._lanes))
        await self.tidy()

    @property
    def targets(self) -> list[str]:
        """Their names, as the settings order them."""
        return list(self._lanes)

    def tallies(self) -> list[AlertTally]:
        """Return the counts of each target."""
        return [_tally(lane) for lane in self._lanes.values()]

    # Making alerts.

    def alerts(
        self, one: Notification, state: NotificationState, *, at: datetime, new_id: NewId, made: Counter[str]
    ) -> list[AlertRow]:
        """Make the alerts about a change of state; keep them, then give them to `add`. `made` counts by target those
        of this look: what no queue has room for is not made.
        """
        lanes = [lane for lane in self._lanes.values() if self._hears(lane, one, state, made)]
        if not lanes:
            return []
        said = alerts.alert_content(one, state, self._place)
        return [self._alert(lane, said, at=at, new_id=new_id) for lane in lanes]

    def _hears(self, lane: AlertLane, one: Notification, state: NotificationState, made: Counter[str]) -> bool:
        name = lane.to.name
        is_lost = state is NotificationState.RESOLVED and one.id in lane.lost
        if is_lost or not ledger.wants(name, lane.to.wanted, one, state):
            return False
        made[name] += 1
        if made[name] <= self._most:
            return True
        if made[name] == self._most + 1:
            log.warning("One look has more alerts for %s than may wait; those past %d are not made.", name, self._most)
        lane.given_up += 1
        lane.owes = lane.owes or state is NotificationState.OPEN
        return False

    async def anew(
        self, names: Collection[str], kept: Sequence[Notification], *, at: datetime, new_id: NewId
    ) -> tuple[list[Notification], list[AlertRow]]:
        """Make late alerts for targets about open notifications that they did not hear of, the worst first, then the
        oldest. Return the notifications, as they are after that, and the alerts.
        """
        told: dict[str, Notification] = {}
        made: list[AlertRow] = []
        for lane in (lane for name, lane in self._lanes.items() if name in names):
            name = lane.to.name
            total, worst = await _unheard(lane.to, kept)
            number = min(len(worst), self._most - len(lane.waiting))
            lane.owes = lane.owes or number < len(worst)  # once there is room; or what it lost since this began
            async for ones in in_slices(worst[:number]):
                for one in ones:
                    told[one.id] = ledger.told_also(told.get(one.id, one), name)
                    made.append(
                        self._alert(
                            lane,
                            alerts.alert_content(one, NotificationState.OPEN, self._place),
                            at=at,
                            new_id=new_id,
                        )
                    )
            if total:
                of = counted(total, "open notification")
                log.info("The alert target %s did not hear of %s and is told of %d.", name, of, number)
        return [*told.values()], made

    async def lost(self) -> dict[str, set[str]]:
        """The ids of notifications of whose beginning targets are not told, since the alert was given up, with the
        names of those; each once.
        """
        found: dict[str, set[str]] = {}
        for name, lane in self._lanes.items():
            for identifier in lane.lost:
                found.setdefault(identifier, set()).add(name)
            lane.lost.clear()
            await asyncio.sleep(0)
        return found

    def recovered(self) -> str | None:
        """A target that takes alerts again and may be told of what is still open; each once, and one at a time."""
        for name, lane in self._lanes.items():
            if lane.has_recovered:
                lane.owes = False
                return name
        return None

    def _alert(self, lane: AlertLane, said: AlertContent, *, at: datetime, new_id: NewId) -> AlertRow:
        identifier = new_id()
        return AlertRow(identifier, lane.to.name, alerts.alert_body(said, identifier=identifier, at=at), rfc3339(at))

    async def add(self, rows: Sequence[AlertRow]) -> None:
        """Send these, which are kept. Where more wait than may, the oldest are given up."""
        by_target: dict[str, list[AlertRow]] = {}
        async for some in in_slices(rows, QUICK):
            for row in some:
                by_target.setdefault(row.target, []).append(row)
        for lane in self._lanes.values():
            async for ones in in_slices(by_target.get(lane.to.name, ()), ADDED):
                for row in ones:
                    self._gone.update(dict.fromkeys(lane.add(row)))
                self._gone.update(dict.fromkeys(lane.shed()))  # once for all of them: it walks through the queue
                lane.woken.set()

    def unsent(self, rows: Iterable[AlertRow]) -> list[AlertRow]:
        """Those of these that wait still."""
        waiting = {one.row.id for lane in self._lanes.values() for one in lane.waiting}
        return [row for row in rows if row.id in waiting]

    # Sending them.

    async def test(self, target: str | None, *, request: str) -> list[TriedAlert]:
        """Send one that is about nothing to a target, or to each, now and once, past those that wait; nothing for a
        target that there is not. `request` is the id of who asks for that.
        """
        lanes = [lane for name, lane in self._lanes.items() if target in (None, name)]
        async with asyncio.TaskGroup() as group:
            tests = [
                group.create_task(
                    self._test(lane, identifier=f"{request}-{lane.to.name}"), name=f"alert-test-{lane.to.name}"
                )
                for lane in lanes
            ]
        return [test.result() for test in tests]

    async def _test(self, lane: AlertLane, *, identifier: str) -> TriedAlert:
        to = lane.to
        if self._sender is None:
            return TriedAlert(to.name, AlertOutcome(why="the service is starting or ending; try again"), 0.0)
        if lane.is_testing:  # each target has so many connections that one more of it would take those of others
            return TriedAlert(to.name, AlertOutcome(why="another test of it is under way; try again"), 0.0)
        now, begun = self._clock(), time.monotonic()
        body = alerts.trial_alert(target=to.name, identifier=identifier, at=now, place=self._place)
        lane.is_testing = True
        try:
            came = await self._sender.send(to, body, identifier=identifier, seconds=now.timestamp())
        finally:
            lane.is_testing = False
        return TriedAlert(to.name, came, time.monotonic() - begun)

    async def keep(self, client: HttpClient, *, authorities: Path | None = None, whole: float = WHOLE) -> None:
        """Send for ever. `authorities` is a PEM file that is trusted instead of the system's; an attempt has `whole`
        seconds.
        """
        self._sender = sender = AlertSender(client, authorities=authorities, whole=whole)
        try:
            async with asyncio.TaskGroup() as group:
                for name, lane in self._lanes.items():
                    group.create_task(self._serve(lane, sender), name=f"alerts-{name}")
        finally:
            self._sender = None
            sender.close()

    async def _serve(self, lane: AlertLane, sender: AlertSender) -> None:
        failures = 0
        while True:
            await self._expire(lane)
            if not lane.waiting:
                lane.woken.clear()
                await lane.woken.wait()
                continue
            row = lane.waiting[0].row
            lane.is_sending = True
            came = await sender.send(lane.to, row.body, identifier=row.id, seconds=self._clock().timestamp())
            lane.is_sending = False
            lane.tell(came)
            if came.is_taken:
                failures = 0
                lane.sent += 1
                lane.waiting.popleft()
                await self._forget([row.id])
                continue
            failures += 1
            lane.failed += 1
            if came.is_refused and lane.refused(row) >= REFUSALS:
                log.warning("An alert to %s of %s is given up: %s.", lane.to.name, row.made_at, came.why)
                await self._forget(lane.give_up(1))
            else:
                await self._wait(max(_backoff(failures), min(came.asked, LONGEST_ASKED)))

    async def _expire(self, lane: AlertLane) -> None:
        """Give up what waited too long, untried: nobody wants to hear now of what was then."""
        before = self._clock() - PATIENCE
        old = 0
        while old < len(lane.waiting) and datetime.fromisoformat(lane.waiting[old].row.made_at) <= before:
            old += 1
        if old:
            told = counted(old, "alert")
            log.warning("%s to %s could not be sent within an hour and %s given up.", told, lane.to.name, _is(old))
            await self._forget(lane.give_up(old))

    async def _forget(self, ids: Iterable[str]) -> None:
        self._gone.update(dict.fromkeys(ids))
        if not self._is_stuck:  # else there may be many, and the board tries them again
            await self.tidy()

    async def tidy(self) -> None:
        """Forget in the file what is sent or given up, and what could not be forgotten before."""
        if not self._gone:
            return
        gone, self._gone = self._gone, {}
        try:
            await asyncio.shield(self._operations.remove_alerts([*gone]))
            self._is_stuck = False
        except errors.ReconcilerError as fault:
            gone |= self._gone
            while len(gone) > MOST_GONE:
                gone.popitem()
            self._gone = gone
            if not self._is_stuck:
                log.warning("Alerts that were sent are sent again after a restart: %s", fault.message)
            self._is_stuck = True


async def _unheard(to: AlertTarget, kept: Sequence[Notification]) -> tuple[int, list[Notification]]:
    """How many there are of which a target hears late, and the first of them: the worst, then the oldest."""
    total, first = 0, list[Notification]()
    async for ones in in_slices(kept, QUICK):
        unheard = [one for one in ones if ledger.wants_anew(to.name, to.wanted, one)]
        total += len(unheard)
        first = heapq.nsmallest(MOST_ANEW, [*first, *unheard], key=lambda one: (-one.severity.weight, one.id))
    return total, first


def _tally(lane: AlertLane) -> AlertTally:
    return AlertTally(lane.to.name, lane.sent, lane.failed, lane.given_up, len(lane.waiting))


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _backoff(failures: int) -> float:
    wait = min(FIRST_RETRY * float(2 ** min(failures - 1, DOUBLINGS)), LONGEST_RETRY)
    return wait * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - it spreads waits
