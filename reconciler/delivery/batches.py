"""Batches in flight: the leases of queued batches, and the parts in which they are sent.

A send batch holds whole queued batches, or some records of one. A queued batch is in one send batch, or in several with
different records of it. Neither holds bytes: they are read for each attempt. Only a batch of the format `single` keeps
the bodies of its records until they are tried.

`Pending` chooses the next one. With one consumer, records arrive in order: the leased batches are sent in order, no
batch overtakes one that waits for another attempt, and no more are leased until all are settled. Small batches are
leased at most every `linger` seconds, so that they are sent together; the first one is sent at once, and so is a
backlog.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from reconciler.delivery import http_sender
from reconciler.delivery.breaker import SendEnvironment, SendGate
from reconciler.delivery.otlp import skeletons
from reconciler.delivery.queue.contract import Batch, FinalFailure, Piece, Queue, QueueFault, Reason
from reconciler.model.routes import Destination, Format
from reconciler.model.text import counted

log = logging.getLogger(__name__)

BURY_AGAIN_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Lease:
    """A leased queued batch.

    `parts` counts the unsettled send batches with records of it; `done` are the records that need not be sent any more,
    `given_up` those that become dead letters, one letter for each kind of failure.
    """

    queued: Batch
    parts: int = 1
    done: set[int] = field(default_factory=set)
    given_up: dict[tuple[Reason, int | None, bool], tuple[FinalFailure, tuple[int, ...]]] = field(default_factory=dict)
    is_leaving: bool = False  # the queue has been told

    @property
    def left(self) -> tuple[int, ...]:
        """The records that are not done."""
        return tuple(place for place in range(self.queued.records) if place not in self.done)

    def give_up(self, records: Sequence[int] | None, final_failure: FinalFailure) -> None:
        """Give up these records, or all remaining ones. Records that failed in the same way share one final failure."""
        kind = final_failure.reason, final_failure.status, final_failure.outage
        first, places = self.given_up.get(kind, (final_failure, ()))
        self.given_up[kind] = first, (*places, *(self.left if records is None else records))


@dataclass(slots=True, eq=False)
class Credit:
    """The number of times that the parts of one batch may still be divided after a refusal.

    Without a limit an endpoint that refuses everything would get every record twice. Each part that arrives adds to it.
    """

    left: int


@dataclass(slots=True, eq=False)
class SendBatch:
    """The content of one request. `records` are positions in the only queued batch; None means all of every batch.

    `spent` is the used part of the max elapsed time, in seconds. `arrivals` is the number of batches of the destination
    that had arrived when this one failed again. `tried` is the time of the last attempt, and `not_before` the earliest
    time of the next one, because the endpoint asked for that or the service itself failed; both in monotonic seconds.
    """

    leases: tuple[Lease, ...]
    credit: Credit
    records: Sequence[int] | None = None
    attempts: int = 0
    spent: float = 0.0
    arrivals: int | None = None
    tried: float = 0.0
    not_before: float = 0.0
    due: float = 0.0  # monotonic seconds, while it waits for another attempt
    outage: bool = False  # True if the last failure was an outage
    bodies: deque[bytes] | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The number of records."""
        return sum(one.queued.records for one in self.leases) if self.records is None else len(self.records)

    @property
    def place(self) -> tuple[int, int]:
        """The place in the order of arrival: the first queued batch, and its first record."""
        return self.leases[0].queued.number, self.records[0] if self.records else 0

    def split_first(self) -> "SendBatch":
        """Remove the first record of a batch with bodies, and return it as a send batch."""
        assert self.bodies is not None
        places = self.records or range(self.leases[0].queued.records)
        self.leases[0].parts += 1
        self.records = places[1:]
        return SendBatch(
            self.leases, self.credit, places[:1], self.attempts, self.spent, bodies=deque([self.bodies.popleft()])
        )

    def part(self, groups: Sequence[Sequence[int]]) -> list["SendBatch"]:
        """Return a send batch for each group of the remaining records of its only queued batch. They replace it."""
        self.leases[0].parts += len(groups) - 1
        return [replace(self, records=records) for records in groups]

    def halve(self) -> list["SendBatch"]:
        """Return the halves; there must be at least two queued batches or two records."""
        if len(self.leases) > 1:
            middle = len(self.leases) // 2
            return [replace(self, leases=some, records=None) for some in (self.leases[:middle], self.leases[middle:])]
        records = self.records or range(self.leases[0].queued.records)
        middle = len(records) // 2
        return self.part([records[:middle], records[middle:]])

    def divide(self) -> list["SendBatch"]:
        """Return the halves of a refused batch; nothing for a single record, or if it was divided too often."""
        if self.size < 2 or not self.credit.left:
            return []
        self.credit.left -= 1
        return self.halve()

    def record_arrival(self) -> None:
        """Record that this part arrived, so that the rest of the batch may be divided further."""
        self.credit.left += self.size.bit_length() + 1

    def delivery_id(self, *, project: str, destination: str, is_single: bool = False) -> str:
        """Return the same id for the same content: of whole batches, of records of one, or of a record by itself."""
        first, last = self.leases[0].queued, self.leases[-1].queued
        origin = http_sender.endpoint_origin(project=project, destination=destination, at=first.taken_at)
        if is_single:
            return f"{origin}:{first.number}:{self.place[1]}"
        if self.records is None:
            return f"{origin}:{first.number}-{last.number}"
        return f"{origin}:{first.number}:{self.records[0]}-{self.records[-1]}"


def send_batch(*leases: Lease) -> SendBatch:
    """Return a batch of all records of some leases, with enough credit to find one refused record."""
    made = SendBatch(leases, Credit(0))
    made.credit.left = made.size.bit_length() + 1
    return made


class Leases:
    """The leases of one queue.

    A batch leaves the queue when its last part is settled. Then it is acknowledged, or its given-up records become dead
    letters. If the disk refuses one, the batch stays leased and this is tried again.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        name: str,
        buried: Callable[[int, FinalFailure], None],
        later: Callable[[float, Callable[[], Awaitable[None]]], None],
    ) -> None:
        """`buried` is called with records and final failure for each dead letter, `later` with work and its delay."""
        self._queue = queue
        self._name = name
        self._buried = buried
        self._later = later
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def lease(self, *, most_records: int, most_bytes: int) -> list[Lease]:
        """Take the next batches from the queue."""
        claimed = self._queue.claim(most_records=most_records, most_bytes=most_bytes)
        leases = [Lease(batch) for batch in claimed]
        self._leases.update((one.queued.number, one) for one in leases)
        return leases

    async def payload(self, lease: Lease) -> bytes | None:
        """Read the bytes of a queued batch; None if they cannot be read, so that the batch is lost."""
        data = await self._queue.payload(lease.queued)
        if data is None:
            self._let_go(lease)
            log.error(
                "A batch of %s for %s cannot be read any more: it is in quarantine, see `reconciler queue status`.",
                counted(lease.queued.records, "record"),
                self._name,
            )
        return data

    async def acknowledge(self, batch: SendBatch) -> None:
        """Settle a delivered batch."""
        whole: list[Batch] = []
        for one in batch.leases:
            one.parts -= 1
            if batch.records is not None:
                one.done.update(batch.records)
            if one.parts:
                continue
            if not one.given_up:
                whole.append(one.queued)
                self._let_go(one)
            else:
                await self._bury(one)
        if whole:
            self._queue.delivered(whole)

    async def give_up(self, batch: SendBatch, final_failure: FinalFailure) -> None:
        """Settle a batch that is given up."""
        for one in batch.leases:
            one.parts -= 1
            one.give_up(batch.records, final_failure)
            if not one.parts:
                await self._bury(one)

    async def _bury(self, lease: Lease) -> None:
        """Make a dead letter of each kind of failure in a batch; it leaves the queue with the last one."""
        payload = await self.payload(lease)
        if payload is None:
            return
        for kind, (final_failure, places) in [*lease.given_up.items()]:
            lease.is_leaving = len(lease.given_up) == 1
            pieces = _pieces(lease, payload, places)
            try:
                await self._queue.bury(
                    lease.queued, pieces, final_failure, records=len(places), leaves=lease.is_leaving
                )
            except QueueFault as fault:
                lease.is_leaving = False
                log.warning("Dead letters of %s could not be written: %s", self._name, fault.message)
                self._later(BURY_AGAIN_SECONDS, lambda: self._bury(lease))
                return
            del lease.given_up[kind]
            lease.done.update(places)
            self._buried(len(places), final_failure)
        self._let_go(lease)

    def withdraw(self, idle: Sequence[SendBatch]) -> tuple[frozenset[SendBatch], int]:
        """Release the queued batches whose remaining records are all in these waiting send batches.

        Return the send batches that end with that, and the number of their records that need not be sent any more. A
        queued batch with a part in flight stays.
        """
        here = Counter(one.queued.number for batch in idle for one in batch.leases)
        free = frozenset(batch for batch in idle if all(here[one.queued.number] == one.parts for one in batch.leases))
        left = {one.queued.number: one for batch in free for one in batch.leases}
        self._release(left[number] for number in sorted(left))
        return free, sum(len(one.done) for one in left.values())

    def release_all(self) -> None:
        """Release all leases."""
        self._release(self._leases[number] for number in sorted(self._leases) if not self._leases[number].is_leaving)
        self._leases.clear()

    def _release(self, left: Iterable[Lease]) -> None:
        batches = [one.queued for one in left]
        for batch in batches:
            self._leases.pop(batch.number, None)
        if batches:
            self._queue.give_back(batches)

    def _let_go(self, lease: Lease) -> None:
        lease.is_leaving = True
        self._leases.pop(lease.queued.number, None)


def _pieces(lease: Lease, payload: bytes, places: Sequence[int]) -> list[Piece]:
    if len(places) == lease.queued.records:
        return [payload]
    try:
        return [skeletons.keep_records(payload, frozenset(places))]
    except ValueError:
        return [payload]  # better sent twice than lost


MOST_WAITING = 2_000  # batches that wait for another attempt; with more, no other is leased
MOST_TRIED_IN_TURN = 8  # parts that are probed in turn before another batch is leased as a probe
LEAST_CAP = 16 * 1024  # the lowest cap in bytes, even if the endpoint refuses smaller bodies as too large


class Job(NamedTuple):
    """The next request of a consumer. A probe tests if the endpoint is back."""

    batch: SendBatch
    is_probe: bool = False


class Pending:
    """The waiting batches of one destination. `hungry` is set if nothing could be leased; `cap` limits bodies, in
    bytes.
    """

    def __init__(
        self, leases: Leases, destination: Destination, *, environment: SendEnvironment, gate: SendGate
    ) -> None:
        self._leases = leases
        self._destination = destination
        self._environment = environment
        self._gate = gate
        self._leases_at = 0.0  # monotonic seconds, before which nothing is leased
        self._probes = 0
        self._was_open = True  # at the last pick
        self._picked_at = 0.0  # monotonic seconds
        self.idle: list[SendBatch] = []  # leased batches that no consumer sends now
        self.hungry = asyncio.Event()
        self.cap: int | None = None

    def change(self, destination: Destination, *, is_elsewhere: bool) -> None:
        """Change the settings. With a new endpoint, everything that waits is due at once."""
        self._destination = destination
        if is_elsewhere:
            self._make_due(self.idle)
            self.cap = None

    @property
    def _is_line(self) -> bool:
        """Return True if records must stay in order."""
        return self._destination.buffering.consumers == 1

    @property
    def waiting(self) -> int:
        """The number of queued batches with records that wait for another attempt."""
        return len({lease.queued.number for batch in self.idle if batch.due for lease in batch.leases})

    def drop(self, gone: Collection[SendBatch]) -> None:
        """Remove these, so that more can be leased."""
        self.idle = [one for one in self.idle if one not in gone]
        self.hungry.set()

    def end_outage(self) -> None:
        """Make batches that failed because of an outage due at once, even before the endpoint's Retry-After."""
        self._make_due([batch for batch in self.idle if batch.outage])

    def _make_due(self, waiting: Iterable[SendBatch]) -> None:
        for batch in waiting:
            batch.due = min(batch.due, self._environment.monotonic())
            batch.not_before = 0.0

    def put(self, ready: Iterable[SendBatch]) -> None:
        """Add these as the next to send."""
        for batch in ready:
            batch.due = 0.0
            self.idle.append(batch)

    def put_off(self, batch: SendBatch, *, delay: float) -> None:
        """Delay a batch by a number of seconds."""
        batch.due = self._environment.monotonic() + delay
        batch.bodies = None
        self.idle.append(batch)

    def too_large(self, size: int) -> None:
        """Limit later bodies: the endpoint refused one of this many bytes."""
        self.cap = max(size // 2, LEAST_CAP)

    def pick(self) -> Job | None:
        """Return the next job, for the caller to do; None if there is none."""
        self._was_open = self._gate.is_open
        if not self._was_open:
            return None
        now = self._picked_at = self._environment.monotonic()
        is_probe = not self._gate.is_up
        if is_probe and not self._gate.may_probe(now):
            return None
        batch = self._in_line(now, is_probe=is_probe) if self._is_line else self._in_turn(now, is_probe=is_probe)
        if batch is None:
            return None
        if is_probe:
            self._probes += 1
            self._gate.probe()
        if batch.bodies is not None and len(batch.bodies) > 1:
            return Job(batch.split_first(), is_probe)
        self.idle.remove(batch)
        return Job(batch, is_probe)

    def _in_line(self, now: float, *, is_probe: bool) -> SendBatch | None:
        first = min(self.idle, key=lambda one: one.place, default=None) or self._lease(now)
        if first is None or (first.not_before if is_probe else first.due) > now:
            return None
        return first

    def _in_turn(self, now: float, *, is_probe: bool) -> SendBatch | None:
        if not is_probe:
            due = (one for one in self.idle if one.due <= now)
            return min(due, key=lambda one: (one.due, one.place), default=None) or self._lease(now)
        # Each waiting batch is probed in turn, and sometimes a new one, because any of them may be why the endpoint
        # fails.
        free = [one for one in self.idle if one.not_before <= now]
        first = min(free, key=lambda one: (one.tried, one.place), default=None)
        is_for_new = self._probes % 4 == 3 or (self._probes % 2 == 1 and len(self.idle) < MOST_TRIED_IN_TURN)
        is_new = first is not None and not first.tried
        return (self._lease(now) if is_for_new and not is_new else None) or first or self._lease(now)

    def _lease(self, now: float) -> SendBatch | None:
        """Lease the next batches, and return the first."""
        if now < self._leases_at or self.waiting >= MOST_WAITING:
            return None
        most_records, most_bytes = self._environment.most_records, self._environment.most_bytes
        if self.cap is not None:
            most_bytes = min(most_bytes, self.cap)
        leases = self._leases.lease(most_records=most_records, most_bytes=most_bytes)
        if not leases:
            self.hungry.set()
            return None
        is_single = self._destination.endpoint.format is Format.SINGLE
        records, size = sum(one.queued.records for one in leases), sum(one.queued.size for one in leases)
        is_backlog = is_single or records * 2 >= most_records or size * 2 >= most_bytes
        self._leases_at = now if is_backlog else now + self._environment.linger
        made = [send_batch(one) for one in leases] if is_single else [send_batch(*leases)]
        self.put(made)
        return made[0]

    def next_in(self) -> float | None:
        """Return the seconds until there may be a job."""
        if not self._was_open:
            return 0.0 if self._gate.is_open else self._gate.opens_in()
        # Batches that were not due at the last pick may be due now, and nothing else would pick them.
        before = self._picked_at
        times = [self._leases_at] if self._leases_at > before else []
        idle = self.idle
        if self._is_line:
            idle = [min(self.idle, key=lambda one: one.place)] if self.idle else []
        if self._gate.is_up:
            times += [min(one.due for one in idle)] if idle else []
        elif self._gate.probe_at > before:
            times.append(self._gate.probe_at)
        elif idle and (first := min(one.not_before for one in idle)) > before:
            times.append(first)
        return min(times) - self._environment.monotonic() if times else None
