"""Accepting one request: dividing it by the routes, and giving each destination's lane its share.

Only the attributes that routes name matter, so resources that differ in others (a host's name, a process) share one
result.

Every destination is checked for room before the first one gets its share. No other task runs between the checks and the
appends. Destinations without a queue come before that, since their answers may take seconds; then every queue is
checked again.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from reconciler.delivery import lanes
from reconciler.delivery.contract import NotTaken, QueueFull
from reconciler.delivery.exporter import Undelivered
from reconciler.delivery.lanes import Lane
from reconciler.delivery.otlp.models import Logs, RecordShare, RequestTooLarge
from reconciler.delivery.queue.contract import FinalFailure, Queue, Reason, Shortage
from reconciler.model.routes import Routes

Match = Callable[[Mapping[str, str]], tuple[str, ...]]
"""The destinations of records whose resource has these attributes, each once."""


class RequestSplit(NamedTuple):
    """Each destination's share, in the order of their first records, and the number of records without a route."""

    shares: dict[str, RecordShare]
    unrouted: int


def split_request(logs: Logs, match: Match) -> RequestSplit:
    """Divide a request among destinations."""
    shares: dict[str, RecordShare] = {}
    unrouted = 0
    for group in logs.groups:
        names = match(group.attributes)
        if not names:
            unrouted += group.records
        for name in names:
            shares.setdefault(name, RecordShare()).add(group)
    return RequestSplit(shares, unrouted)


MOST_ANSWERS = 4096  # that are cached; the oldest is dropped

Pair: TypeAlias = tuple[str, str]


class Matcher:
    """Matches attributes with the routes of one project, and caches the results. Use it from one thread."""

    def __init__(self, routes: Routes) -> None:
        self._routes = [(frozenset(route.labels), route.destinations) for route in routes.routes]
        self._pairs = frozenset(pair for labels, _ in self._routes for pair in labels)
        self._known: dict[frozenset[Pair], tuple[str, ...]] = {}

    def of(self, attributes: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of the destinations, each once, in the order of their routes."""
        held = self._pairs.intersection(attributes.items())
        known = self._known.get(held)
        if known is None:
            found = (name for labels, names in self._routes if labels <= held for name in names)
            known = tuple(dict.fromkeys(found))
            if len(self._known) >= MOST_ANSWERS:
                del self._known[next(iter(self._known))]
            self._known[held] = known
        return known


UNREAD_SECONDS = 1.0  # after which a project's routes should have been read
SOONEST_SECONDS, LATEST_SECONDS = 1, 5  # the wait after a full queue: SDKs of senders give up after 10 s
HUNG_SECONDS = 30.0  # after which a sender is told that the disk does not answer

KEEP = "Keep the records and send them again."
READING = "The service is reading the project's Configurations; try again."
STOPPING = "The service stops, and a queue in memory takes nothing more; try again."

Wanted: TypeAlias = tuple[Lane, RecordShare]
"""A lane, and its share of a request."""

Appended: TypeAlias = tuple[Lane, RecordShare, asyncio.Future[None]]
"""The same, and a future that ends when the queue has it. It belongs to the queue: shield it."""


class Intake:
    """Accepts requests. If `is_stopping`, queues in memory accept no more records."""

    def __init__(self, *, clock: Callable[[], int], chance: random.Random, hung_seconds: float = HUNG_SECONDS) -> None:
        """Set it up. `clock` returns Unix milliseconds. A sender waits for the disk at most `hung_seconds`."""
        self.is_stopping = False
        self._hung_seconds = hung_seconds
        self._clock = clock
        self._chance = chance

    async def take(self, wanted: Sequence[Wanted]) -> None:
        """Store all shares as each lane promises. Raises QueueFull, NotTaken, RequestTooLarge."""
        self._refuse_without_room(wanted)
        inline = [(lane, share) for lane, share in wanted if lane.queue is None]
        if inline:
            await _send(inline)
            if any(lane.leaving for lane, _ in wanted):  # the settings changed meanwhile: its queue may be gone
                raise QueueFull(READING, seconds=UNREAD_SECONDS)
            self._refuse_without_room(wanted)
        await self._written(self._append(wanted))

    def _refuse_without_room(self, wanted: Sequence[Wanted]) -> None:
        for lane, share in wanted:
            if self.is_stopping and lane.place == lanes.MEMORY:
                raise QueueFull(STOPPING, seconds=UNREAD_SECONDS)
            if lane.queue is None or lane.drops:
                continue
            shortage = lane.queue.room(size=share.size)
            if shortage is Shortage.BYTES and lane.exceeds(share.size):
                message = f"These records are more than the queue of the destination {lane.name} may ever hold"
                raise RequestTooLarge(f"{message}; send fewer at a time, or raise its `max_bytes`.")
            if shortage is not None:
                message = f"The destination {lane.name} cannot take more now: {lanes.SHORT[shortage]}; try again."
                raise QueueFull(message, seconds=self.patience())

    def _append(self, wanted: Sequence[Wanted]) -> list[Appended]:
        appends: list[Appended] = []
        for lane, share in wanted:
            queue = lane.queue
            if queue is None:
                continue
            written: asyncio.Future[None] | None
            shortage = queue.room(size=share.size) if lane.drops else None
            if shortage is None:
                written = queue.append(share.pieces, records=share.records, at=self._clock(), joins=True)
            else:
                written = self._bury(lane, queue, share, shortage)
            if written is None:
                lane.counts.dropped += share.records
            else:
                appends.append((lane, share, written))
        return appends

    def _bury(self, lane: Lane, queue: Queue, share: RecordShare, shortage: Shortage) -> asyncio.Future[None] | None:
        """Make a dead letter of a share for a full queue, if its settings say so; None if the share is dropped."""
        if not lane.buries or shortage is Shortage.DISK:
            return None

        def told(written: asyncio.Future[None]) -> None:
            if written.exception() is None:
                lane.sender.buried(share.records, final_failure)

        cause = f"The queue of the destination {lane.name} was full: {lanes.SHORT[shortage]}."
        final_failure = FinalFailure(Reason.QUEUE_FULL, self._clock(), 0, cause)
        written = queue.bury_unqueued(share.pieces, final_failure, records=share.records, at=final_failure.at)
        if written is not None:
            written.add_done_callback(told)
        return written

    async def _written(self, appends: Sequence[Appended]) -> None:
        """Wait a limited time for all writes, which run together: a disk may hang.

        If a lane that drops records cannot write its share, the share is dropped, as in a full queue: otherwise the
        sender would repeat the request for all lanes. A late share is counted as dropped only when the disk answers.
        """
        if not appends:
            return
        # Each request passes through this, and `asyncio.wait` takes three times as long.
        waiter = asyncio.get_running_loop().create_future()
        timer = waiter.get_loop().call_later(self._hung_seconds, _wake, waiter)
        left = len(appends)

        def ended(lane: Lane, records: int, written: asyncio.Future[None]) -> None:
            nonlocal left
            _count(lane, records, written)
            left -= 1
            if not left:
                _wake(waiter)

        for lane, share, written in appends:
            written.add_done_callback(partial(ended, lane, share.records))
        try:
            await waiter
        finally:
            timer.cancel()
        for lane, _, written in appends:
            if lane.drops:
                continue
            if not written.done():
                raise NotTaken(f"The disk of the queues does not answer. {KEEP}")
            if (problem := written.exception()) is not None:
                raise NotTaken(f"{problem} {KEEP}")

    def patience(self) -> float:
        """Return the seconds to wait before another attempt, spread so that not all senders try at once."""
        return float(self._chance.randint(SOONEST_SECONDS, LATEST_SECONDS))


async def _send(inline: Sequence[Wanted]) -> None:
    """Send to destinations without a queue, each with its own time limit. Raises the first failure."""

    async def send(lane: Lane, share: RecordShare) -> str:
        try:
            await lane.sender.deliver(share.pieces)
        except Undelivered as failed:
            return failed.message
        lane.counts.taken += share.records
        return ""

    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(send(*one), name=f"deliver-{one[0].name}") for one in inline]
    failed = next(filter(None, (one.result() for one in sent)), "")
    if failed:
        raise NotTaken(failed)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _count(lane: Lane, records: int, written: asyncio.Future[None]) -> None:
    """Count records when the disk took or refused them."""
    if written.exception() is None:
        lane.counts.taken += records
    elif lane.drops:
        lane.counts.dropped += records
