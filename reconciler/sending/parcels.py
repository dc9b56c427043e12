"""What one attempt carries, and which batches it is of.

Belongs here: batches that are claimed, parcels of them, dividing parcels, delivery ids. Does not: sending them
(`attempting`), what becomes of a batch when its last parcel is settled (`holdings`).

A parcel holds whole batches, or some records of one batch. A batch is in one parcel, or in several with different
records of it. Neither holds bytes: they are read for each attempt.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from reconciler.queueing.contract import Batch, Obituary, Reason
from reconciler.sending import requests


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
    origin = requests.endpoint_origin(project=project, destination=destination, at=first.taken_at)
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
