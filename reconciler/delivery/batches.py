"""Batches in flight: leases, parts of a batch, and what is left of one."""

import logging
import math
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from reconciler.delivery import http_sender
from reconciler.delivery.otlp import skeletons
from reconciler.delivery.queue.contract import Batch, Obituary, Piece, Queue, QueueFault, Reason
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model.text import counted

# What one attempt carries, and which batches it is of.
#
# A parcel holds whole batches, or some records of one batch. A batch is in one parcel, or in several with different
# records of it. Neither holds bytes: they are read for each attempt.


@dataclass(slots=True, eq=False)
class LeasedPart:
    """A batch that is claimed. `parcels` counts those with records of it that are not settled; `done` are the records
    that need no sending any more, `given_up` those that become dead letters, one for each kind of failure.
    """

    batch: Batch
    parcels: int = 1
    done: set[int] = field(default_factory=set)
    given_up: dict[tuple[Reason, int | None, bool], tuple[Obituary, tuple[int, ...]]] = field(default_factory=dict)
    is_leaving: bool = False  # the queue has been told

    @property
    def left(self) -> tuple[int, ...]:
        """The records that are not done."""
        return tuple(place for place in range(self.batch.records) if place not in self.done)

    def give_up(self, records: tuple[int, ...] | None, obituary: Obituary) -> None:
        """These records, or all of it, are not sent again. Those that failed alike share the first one's obituary."""
        kind = obituary.reason, obituary.status, obituary.outage
        first, places = self.given_up.get(kind, (obituary, ()))
        self.given_up[kind] = first, places + (self.left if records is None else records)


@dataclass(slots=True, eq=False)
class Credit:
    """How many more times parcels that were one may be divided because something in them is refused. Without a limit
    an endpoint that refuses everything would get every record twice; a part that arrives gives more.
    """

    left: int


@dataclass(slots=True, eq=False)
class SendBatch:
    """`records` are places in the one batch; None is all of every batch. `spent` is seconds of the longest time.

    `arrivals` is how many parcels of the destination had arrived when this one failed first; `tried` when it was tried
    last, and `not_before` until when it is left alone since then, for the endpoint asked for that or the service itself
    failed; both in monotonic seconds.
    """

    held: tuple[LeasedPart, ...]
    credit: Credit
    records: tuple[int, ...] | None = None
    attempts: int = 0
    spent: float = 0.0
    arrivals: int | None = None
    tried: float = 0.0
    not_before: float = 0.0
    outage: bool = False  # what its last failure was

    @property
    def size(self) -> int:
        """Records."""
        return sum(one.batch.records for one in self.held) if self.records is None else len(self.records)


def lease(batch: Batch) -> LeasedPart:
    """A batch that was just claimed."""
    return LeasedPart(batch, done=set(batch.done))


def merge_batches(held: Sequence[LeasedPart]) -> list[SendBatch]:
    """Parcels of batches that were claimed together, in their order: as few as can be. A batch of which something is
    done has one of its own, and one that a process before this one tried goes with its like: none is given up early for
    the time that another one spent.
    """
    made: list[SendBatch] = []
    for (is_begun, _, _), found in groupby(held, key=_history):
        some = tuple(found)
        made += each(some) if is_begun else [_parcel(some, None)]
    return made


def _history(one: LeasedPart) -> tuple[bool, int, int]:
    return bool(one.done), one.batch.attempts, one.batch.spent


def each(held: Sequence[LeasedPart]) -> list[SendBatch]:
    """A parcel for each batch."""
    return [_parcel((one,), one.left if one.done else None) for one in held]


def split_batches(parcel: SendBatch) -> list[SendBatch]:
    """A parcel for each batch of one."""
    return [_part(parcel, (one,), None) for one in parcel.held]


def part_batch(parcel: SendBatch, groups: Sequence[tuple[int, ...]]) -> list[SendBatch]:
    """A parcel for each group of the records that are left of a parcel of one batch; it is no more."""
    parcel.held[0].parcels += len(groups) - 1
    return [_part(parcel, parcel.held, records) for records in groups]


def batch_place(parcel: SendBatch) -> tuple[int, int]:
    """Its place in the line of all that arrived: the first batch, and the first record of that."""
    return parcel.held[0].batch.number, min(parcel.records, default=0) if parcel.records is not None else 0


def divide_batch(parcel: SendBatch) -> list[SendBatch]:
    """The halves of a parcel of which something was refused: whole batches as long as there are several, then records
    of the one. None for a single record, and when it was divided enough.
    """
    if parcel.size < 2 or not parcel.credit.left:
        return []
    parcel.credit.left -= 1
    return halve_batch(parcel)


def halve_batch(parcel: SendBatch) -> list[SendBatch]:
    """The halves of a parcel of two batches or two records at least."""
    held = parcel.held
    if len(held) > 1:
        middle = len(held) // 2
        return [_part(parcel, held[:middle], None), _part(parcel, held[middle:], None)]
    records = parcel.records or tuple(range(held[0].batch.records))
    middle = len(records) // 2
    held[0].parcels += 1
    return [_part(parcel, held, records[:middle]), _part(parcel, held, records[middle:])]


def record_arrival(parcel: SendBatch) -> None:
    """It arrived, so that dividing what it was part of is worth it."""
    parcel.credit.left += parcel.size.bit_length() + 1


def delivery_id(parcel: SendBatch, *, project: str, destination: str, place: int | None = None) -> str:
    """The same for the same content: of whole batches, of records of one, or of one record, `place`."""
    first, last = parcel.held[0].batch, parcel.held[-1].batch
    origin = http_sender.endpoint_origin(project=project, destination=destination, at=first.taken_at)
    if place is not None:
        return f"{origin}:{first.number}:{place}"
    if parcel.records is None:
        return f"{origin}:{first.number}-{last.number}"
    return f"{origin}:{first.number}:{_span(parcel.records)}"


def _span(records: Sequence[int]) -> str:
    first, last = min(records), max(records)
    if last - first + 1 == len(records):
        return f"{first}-{last}"
    return f"{first}-{last}.{zlib.crc32(','.join(map(str, records)).encode()):08x}"  # with holes


def _parcel(held: tuple[LeasedPart, ...], records: tuple[int, ...] | None) -> SendBatch:
    """With the attempts that a process before this one made, and credit enough to find one record among all."""
    first = held[0].batch
    made = SendBatch(held, Credit(0), records, attempts=first.attempts, spent=first.spent / 1000)
    made.credit.left = made.size.bit_length() + 1
    return made


def _part(parcel: SendBatch, held: tuple[LeasedPart, ...], records: tuple[int, ...] | None) -> SendBatch:
    return SendBatch(
        held,
        parcel.credit,
        records,
        attempts=parcel.attempts,
        spent=parcel.spent,
        arrivals=parcel.arrivals,
        tried=parcel.tried,
        not_before=parcel.not_before,
        outage=parcel.outage,
    )


# One attempt at a parcel whose records have a request each.

NOTED_EVERY = 64  # records that arrived, after which that is remembered


@dataclass(slots=True, eq=False)
class RecordFailure:
    """Records that failed alike, so that one decision is each one's own. `took` is seconds of the longest request."""

    verdict: AnswerVerdict
    places: list[int] = field(default_factory=list)
    took: float = 0.0


@dataclass(slots=True, eq=False)
class RecordRound:
    """`bodies` are those of `places`, the records of the parcel's one batch.

    `is_probe`: its first record is the only one until that has been answered.
    """

    parcel: SendBatch
    places: tuple[int, ...]
    bodies: Sequence[bytes]
    is_probe: bool = False
    next: int = 0
    in_flight: int = 0
    failed: dict[tuple[bool, int | None, int], RecordFailure] = field(default_factory=dict)
    untried: tuple[int, ...] = ()
    noted: int = 0

    @property
    def has_more(self) -> bool:
        """Whether there is a record that nobody sends."""
        return self.next < len(self.places)

    @property
    def is_over(self) -> bool:
        """Whether every record that was begun has its outcome, and no other will be."""
        return not self.in_flight and not self.has_more

    def begin(self) -> int:
        """The position of the next record."""
        position = self.next
        self.next += 1
        self.in_flight += 1
        return position

    def fail(self, position: int, verdict: AnswerVerdict, *, took: float) -> None:
        """A record did not arrive. Waits of the same second are alike: a date comes to other fractions each time."""
        alike = verdict.outage, verdict.status, math.ceil(verdict.retry_after)
        failure = self.failed.setdefault(alike, RecordFailure(verdict))
        failure.places.append(self.places[position])
        failure.took = max(failure.took, took)
        if verdict.retry_after > failure.verdict.retry_after:
            failure.verdict = verdict

    def stop(self) -> tuple[int, ...]:
        """Begin no other record; those that were not."""
        rest = self.places[self.next :]
        self.next = len(self.places)
        return rest


def joined_failures(
    failures: Sequence[RecordFailure], untried: tuple[int, ...]
) -> tuple[list[RecordFailure], tuple[int, ...]]:
    """Failures and untried records of a round that an outage ended: what waits for its end waits as one, else every
    probe would part another record from its batch. The one that failed last is the next probe's last choice.
    """
    of_outage = [one for one in failures if one.verdict.outage]
    if not of_outage or not untried:
        return list(failures), untried
    # No time counts: the records that were not tried spent none.
    latest = max(reversed(of_outage), key=lambda one: one.verdict.retry_after)  # until when they are to wait
    all_of_it = RecordFailure(latest.verdict, [*untried, *(place for one in of_outage for place in one.places)])
    return [*(one for one in failures if not one.verdict.outage), all_of_it], ()


# The batches that are claimed, until they leave the queue: arrived, or as dead letters.
#
# A batch leaves when the last parcel with records of it is settled. Then it is acknowledged, or what was given up of it
# becomes a dead letter, or several. When the disk does not take one, the batch stays claimed, and that is tried again.

log = logging.getLogger(__name__)

BURY_AGAIN_SECONDS = 30.0


class Leases:
    """Of one queue. `buried` is called with records and obituary for each dead letter, `later` with what to do again
    after so many seconds.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        name: str,
        buried: Callable[[int, Obituary], None],
        later: Callable[[float, Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._queue = queue
        self._name = name
        self._buried = buried
        self._later = later
        self._held: dict[int, LeasedPart] = {}

    def __len__(self) -> int:
        return len(self._held)

    def claim(self, *, most_records: int, most_bytes: int) -> list[LeasedPart]:
        """Take the next batches from the queue."""
        claimed = self._queue.claim(most_records=most_records, most_bytes=most_bytes)
        held = [lease(batch) for batch in claimed]
        for one in held:
            self._held[one.batch.number] = one
        return held

    async def payload(self, parcel: SendBatch) -> bytes | None:
        """The bytes of a parcel's batches. None when there are none of one: it is held no more, and the parcel ends."""
        found: list[bytes] = []
        missing: list[LeasedPart] = []
        for one in parcel.held:
            data = await self._queue.payload(one.batch)
            if data is None:
                missing.append(one)
            else:
                found.append(data)
        if not missing:
            return found[0] if len(found) == 1 else b"".join(found)
        for one in missing:
            self._lose(one)
        parcel.held = tuple(one for one in parcel.held if one not in missing)
        return b"".join(found) if parcel.held else None

    def progressed(self, parcel: SendBatch) -> None:
        """Remember what was tried, in case that the process ends."""
        for one in parcel.held:
            one.batch = one.batch._replace(
                attempts=parcel.attempts, spent=round(parcel.spent * 1000), done=frozenset(one.done)
            )
            self._queue.progressed(one.batch)

    def note_done(self, held: LeasedPart) -> None:
        """Remember which records of a batch need no sending any more."""
        held.batch = held.batch._replace(done=frozenset(held.done))
        self._queue.progressed(held.batch)

    async def arrived(self, parcel: SendBatch) -> None:
        """All of it needs no sending any more."""
        whole: list[Batch] = []
        for one in parcel.held:
            one.parcels -= 1
            if parcel.records is not None:
                one.done.update(parcel.records)
            if one.parcels:
                self.note_done(one)
            elif not one.given_up:
                whole.append(one.batch)
                self._let_go(one)
            else:
                await self.bury(one)
        if whole:
            self._queue.delivered(whole)

    async def give_up(self, parcel: SendBatch, obituary: Obituary) -> None:
        """It is not tried again."""
        for one in parcel.held:
            one.parcels -= 1
            one.give_up(parcel.records, obituary)
            if not one.parcels:
                await self.bury(one)

    async def bury(self, held: LeasedPart) -> None:
        """Make a dead letter of each kind of failure in a batch; it leaves with the last one."""
        payload = await self._queue.payload(held.batch)
        if payload is None:
            self._lose(held)
            return
        for kind, (obituary, places) in [*held.given_up.items()]:
            held.is_leaving = len(held.given_up) == 1
            pieces = _pieces(held, payload, places)
            try:
                await self._queue.bury(held.batch, pieces, obituary, records=len(places), leaves=held.is_leaving)
            except QueueFault as fault:
                held.is_leaving = False
                log.warning("Dead letters of %s could not be written: %s", self._name, fault.message)
                self._later(BURY_AGAIN_SECONDS, lambda: self.bury(held))
                return
            del held.given_up[kind]
            held.done.update(places)
            self._buried(len(places), obituary)
            if held.given_up:
                self.note_done(held)
        self._let_go(held)

    def withdraw(self, idle: Sequence[SendBatch]) -> tuple[frozenset[SendBatch], int]:
        """Give back the batches of which nothing is left but some of these parcels, which nobody sends now: those
        parcels, and how many records of theirs need no sending any more. What is in flight in part stays as it is.
        """
        here = Counter(one.batch.number for parcel in idle for one in parcel.held)
        free = frozenset(one for one in idle if all(here[held.batch.number] == held.parcels for held in one.held))
        left = {one.batch.number: one for parcel in free for one in parcel.held}
        self._give_back(left[number] for number in sorted(left))
        return free, sum(len(one.done) for one in left.values())

    def give_back(self) -> None:
        """Everything that is held is queued again."""
        self._give_back(self._held[number] for number in sorted(self._held) if not self._held[number].is_leaving)
        self._held.clear()

    def _give_back(self, left: Iterable[LeasedPart]) -> None:
        batches = [one.batch._replace(done=frozenset(one.done)) for one in left]
        for batch in batches:
            self._held.pop(batch.number, None)
        if batches:
            self._queue.give_back(batches)

    def _lose(self, held: LeasedPart) -> None:
        self._let_go(held)
        log.error(
            "A batch of %s for %s cannot be read any more: it is in quarantine, see `reconciler queue status`.",
            counted(held.batch.records, "record"),
            self._name,
        )

    def _let_go(self, held: LeasedPart) -> None:
        held.is_leaving = True
        self._held.pop(held.batch.number, None)


def _pieces(held: LeasedPart, payload: bytes, places: Sequence[int]) -> list[Piece]:
    if len(places) == held.batch.records:
        return [payload]
    try:
        return [skeletons.keep_records(payload, frozenset(places))]
    except ValueError:
        return [payload]  # sent twice rather than lost
