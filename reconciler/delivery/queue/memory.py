"""A queue in memory, and the line of batches, which the disk queue uses too."""

import asyncio
import bisect
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reconciler.delivery.queue.contract import HEAD_BYTES, Batch, DeadLetter, Depth, FinalFailure, Piece, Shortage, load
from reconciler.model.routes import Storage

Source = TypeVar("Source")


@dataclass(eq=False, slots=True)
class QueuedBatch(Generic[Source]):
    """A batch in the line. `source` gives its bytes."""

    batch: Batch
    source: Source


class QueueLine(Generic[Source]):
    """The claimable and the claimed batches of a queue. Used in the event loop only. `ready` are the next unclaimed
    batches, in the order of their numbers.
    """

    def __init__(self) -> None:
        self.ready: deque[QueuedBatch[Source]] = deque()
        self._claims: dict[int, QueuedBatch[Source]] = {}
        self._change: asyncio.Future[None] | None = None

    def _fill(self) -> None:
        """Start to fill `ready` if more batches exist, and wake those who wait."""

    def has_next(self) -> bool:
        """Return true if there is something to claim."""
        if not self.ready:
            self._fill()
        return bool(self.ready)

    async def wait(self) -> None:
        """See the contract."""
        while not self.has_next():
            if self._change is None:
                self._change = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._change)

    def wake(self) -> None:
        """Wake all who wait in `wait`."""
        if self._change is not None:
            self._change.set_result(None)
            self._change = None

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        claimed: list[Batch] = []
        records = size = 0
        while self.has_next():
            batch = self.ready[0].batch
            records, size = records + batch.records, size + batch.size
            if claimed and (records > most_records or size > most_bytes):
                break
            self._claims[batch.number] = self.ready.popleft()
            claimed.append(batch)
        return tuple(claimed)

    def find_claimed(self, number: int) -> QueuedBatch[Source] | None:
        """Return a claimed batch."""
        return self._claims.get(number)

    def give_back(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            held = self._claims.pop(batch.number, None)
            if held is not None:
                bisect.insort(self.ready, held, key=lambda one: one.batch.number)
        self.wake()

    def leave(self, number: int) -> Source | None:
        """Remove a claimed batch and return it; None if it is not there."""
        held = self._claims.pop(number, None)
        return held.source if held is not None else None

    def leave_unclaimed(self) -> list[QueuedBatch[Source]]:
        """Remove the unclaimed batches that are in memory, and return them."""
        left = [*self.ready]
        self.ready.clear()
        return left

    def all(self) -> list[QueuedBatch[Source]]:
        """Return every batch in memory."""
        return [*self._claims.values(), *self.ready]

    def _oldest(self) -> int | None:
        """Return the time at which the first batch was accepted, if it is in memory."""
        first = self.ready[0] if self.has_next() else None
        if self._claims and (first is None or min(self._claims) < first.batch.number):
            first = self._claims[min(self._claims)]
        return None if first is None else first.batch.taken_at


MOST_BATCHES = 100_000  # each takes half a KiB beside its bytes
MOST_REFUSED = 10_000  # dead letters for want of room; with more, such records are not kept


@dataclass(eq=False, slots=True)
class HeldLetter:
    """A dead letter in memory."""

    number: int
    records: int
    taken_at: int
    final_failure: FinalFailure
    payload: bytes


class MemoryQueue(QueueLine[bytes]):
    """A queue in memory. It is limited by batches and by bytes, which include the dead letters. `letters` are the dead
    letters.
    """

    label = "memory"

    def __init__(self, *, max_batches: int, max_bytes: int) -> None:
        super().__init__()
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self.letters: deque[HeldLetter] = deque()
        self._last = 0
        self._last_letter = 0
        self._batches = self._records = self._size = self._dead_size = 0

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:  # noqa: ARG002 - it has no storage
        """See the contract."""
        self._max_batches = max_batches

    def room(self, *, size: int) -> Shortage | None:
        """See the contract."""
        if self._batches >= MOST_BATCHES or load(self._records, self._size) >= self._max_batches:
            return Shortage.BATCHES
        return Shortage.BYTES if self._size + self._dead_size + size > self._max_bytes else None

    def may_hold(self, *, size: int) -> bool:
        """See the contract."""
        return size <= self._max_bytes

    def append(
        self,
        payload: Sequence[Piece],
        *,
        records: int,
        at: int,
        joins: bool = False,  # noqa: ARG002 - none do
    ) -> asyncio.Future[None]:
        """See the contract."""
        # A single piece of bytes is kept as it is. Views are copied, because they would keep the whole request in
        # memory.
        data = payload[0] if len(payload) == 1 and isinstance(payload[0], bytes) else b"".join(payload)
        self._last += 1
        self.ready.append(QueuedBatch(Batch(self._last, records, len(data), at), data))
        self._count(1, records, len(data))
        self.wake()
        return _done()

    def _count(self, batches: int, records: int, size: int) -> None:
        self._batches, self._records, self._size = self._batches + batches, self._records + records, self._size + size

    async def payload(self, batch: Batch) -> bytes | None:
        """See the contract."""
        held = self.find_claimed(batch.number)
        return held.source if held is not None else None

    def delivered(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            if self.leave(batch.number) is not None:
                self._forget(batch)

    def _forget(self, batch: Batch) -> None:
        self._count(-1, -batch.records, -batch.size)

    def bury(
        self, batch: Batch, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """See the contract."""
        self._bury(b"".join(payload), final_failure, records=records, taken_at=batch.taken_at)
        if leaves:
            self.delivered([batch])
        return _done()

    def _bury(self, data: bytes, final_failure: FinalFailure, *, records: int, taken_at: int) -> None:
        # Numbers begin at the time, so that they differ from those of an earlier queue, which a person may still see.
        self._last_letter = max(self._last_letter + 1, final_failure.at)
        self.letters.append(HeldLetter(self._last_letter, records, taken_at, final_failure, data))
        self._dead_size += len(data)

    async def dead_letters(self) -> AsyncGenerator[DeadLetter, None]:
        """See the contract."""
        for one in [*self.letters]:
            size, died, head = len(one.payload), one.final_failure.at, one.payload[:HEAD_BYTES]
            yield DeadLetter(one.number, one.records, size, died, one.taken_at, one.final_failure, head)

    def bury_unqueued(
        self, payload: Sequence[Piece], final_failure: FinalFailure, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """See the contract."""
        size = sum(map(len, payload))
        if len(self.letters) >= MOST_REFUSED or self._size + self._dead_size + size > self._max_bytes:
            return None
        self._bury(b"".join(payload), final_failure, records=records, taken_at=at)
        return _done()

    async def replay(
        self, *, outages_only: bool, most: int | None = None, number: int | None = None
    ) -> tuple[int, int]:
        """See the contract."""
        batches = records = 0
        for letter in [*self.letters]:
            if (outages_only and not letter.final_failure.outage) or number not in (None, letter.number):
                continue
            # The bytes count against the same limit before and after.
            if (most is not None and batches >= most) or self.room(size=0) is not None:
                break
            self._remove(letter)
            self.append([letter.payload], records=letter.records, at=letter.taken_at)
            batches, records = batches + 1, records + letter.records
        return batches, records

    def _remove(self, letter: HeldLetter) -> None:
        self.letters.remove(letter)
        self._dead_size -= len(letter.payload)

    async def discard(self, *, queued: bool, dead: bool, number: int | None = None) -> tuple[int, int]:
        """See the contract."""
        left = [held.batch for held in self.leave_unclaimed()] if queued else []
        for batch in left:
            self._forget(batch)
        batches, records = self._remove_letters(lambda one: number in (None, one.number)) if dead else (0, 0)
        return batches + len(left), records + sum(batch.records for batch in left)

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract. Dead letters have no limit of their own in memory."""
        return self._remove_letters(lambda letter: letter.final_failure.at < before)

    def _remove_letters(self, is_wanted: Callable[[HeldLetter], bool]) -> tuple[int, int]:
        gone = [letter for letter in self.letters if is_wanted(letter)]
        for letter in gone:
            self._remove(letter)
        return len(gone), sum(letter.records for letter in gone)

    def depth(self) -> Depth:
        """See the contract."""
        return Depth(
            batches=self._batches,
            records=self._records,
            size=self._size,
            claimed=len(self._claims),
            oldest=self._oldest(),
            dead_batches=len(self.letters),
            dead_records=sum(letter.records for letter in self.letters),
            dead_size=self._dead_size,
            dead_oldest=min((letter.final_failure.at for letter in self.letters), default=None),
        )

    async def close(self) -> None:
        """See the contract."""


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
