"""The batches that are claimed, until they leave the queue: arrived, or as dead letters.

Belongs here: what the queue is told of each batch, and when. Does not: what is sent when (`consuming`), whether
something is given up (`retrying`).

A batch leaves when the last parcel with records of it is settled. Then it is acknowledged, or what was given up of it
becomes a dead letter, or several. When the disk does not take one, the batch stays claimed, and that is tried again.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from reconciler.model.text import counted
from reconciler.queueing.contract import Batch, Obituary, Piece, Queue, QueueFault
from reconciler.sending import parcels, remains
from reconciler.sending.parcels import LeasedPart, SendBatch

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
        held = [parcels.lease(batch) for batch in claimed]
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
        return [*remains.only_records(payload, frozenset(places))]
    except (ValueError, IndexError):
        return [payload]  # sent twice rather than lost
