"""A queue in memory, and the line of batches, which the queue on disk uses too."""

import asyncio
import bisect
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reconciler.delivery.queue.contract import Batch, DeadLetter, Depth, Obituary, Piece, Shortage, Storage, load

Source = TypeVar("Source")


@dataclass(eq=False, slots=True)
class QueuedBatch(Generic[Source]):
    """A batch in the line. `source` gives its bytes."""

    batch: Batch
    source: Source


class QueueLine(Generic[Source]):
    """Used in the event loop only. `ready` are the next batches that nobody has claimed yet.

    `fill` is called when `ready` is empty: it adds to it soon, if there is something, and wakes those who wait.
    """

    def __init__(self, fill: Callable[[], None]) -> None:
        self.ready: deque[QueuedBatch[Source]] = deque()
        self._fill = fill
        self._held: dict[int, QueuedBatch[Source]] = {}  # claimed or given back, in the order of their numbers
        self._returned: list[int] = []  # numbers that were given back, sorted
        self._change: asyncio.Future[None] | None = None

    @property
    def claimed(self) -> int:
        """The number of claimed batches."""
        return len(self._held) - len(self._returned)

    def has_next(self) -> bool:
        """Return true if there is something to claim."""
        if not self._returned and not self.ready:
            self._fill()
        return bool(self._returned or self.ready)

    async def wait(self) -> None:
        """Return when there is something to claim."""
        while not self.has_next():
            if self._change is None:
                self._change = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._change)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        if self._change is not None:
            self._change.set_result(None)
            self._change = None

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        claimed: list[Batch] = []
        records = size = 0
        while self.has_next():
            batch = self._held[self._returned[0]].batch if self._returned else self.ready[0].batch
            records, size = records + batch.records, size + batch.size
            if claimed and (records > most_records or size > most_bytes):
                break
            if self._returned:
                del self._returned[0]
            else:
                self._held[batch.number] = self.ready.popleft()
            claimed.append(batch)
        return tuple(claimed)

    def find_claimed(self, number: int) -> QueuedBatch[Source] | None:
        """Return a claimed batch."""
        return None if self._is_returned(number) else self._held.get(number)

    def give_back(self, batches: Iterable[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            held = self.find_claimed(batch.number)
            if held is not None:
                held.batch = batch
                bisect.insort(self._returned, batch.number)
        self.wake()

    def leave(self, number: int) -> Source | None:
        """Remove a batch that was claimed; None when it is not there."""
        if self._is_returned(number):
            self._returned.remove(number)
        held = self._held.pop(number, None)
        return held.source if held is not None else None

    def leave_unclaimed(self) -> list[QueuedBatch[Source]]:
        """Remove all batches that nobody has claimed, and return them."""
        left = [*(self._held.pop(number) for number in self._returned), *self.ready]
        self._returned.clear()
        self.ready.clear()
        return left

    def first(self) -> Batch | None:
        """Return the batch with the lowest number, as far as it is in memory."""
        if self._held:
            return next(iter(self._held.values())).batch
        return self.ready[0].batch if self.has_next() else None

    def all(self) -> Iterable[QueuedBatch[Source]]:
        """Return every batch in the line."""
        return [*self._held.values(), *self.ready]

    def _is_returned(self, number: int) -> bool:
        place = bisect.bisect_left(self._returned, number)
        return place < len(self._returned) and self._returned[place] == number


MOST_BATCHES = 100_000  # each takes half a KiB beside its bytes
MOST_REFUSED = 10_000  # dead letters with which the queue takes no other for lack of room


@dataclass(eq=False, slots=True)
class HeldLetter:
    """A dead letter in memory. `died` is when it died first."""

    listed: DeadLetter
    payload: bytes
    died: int


class MemoryQueue:
    """Bounded by batches and by bytes, dead letters included in the latter.

    `line` has the batches, `letters` the dead letters.
    """

    def __init__(self, *, max_batches: int, max_bytes: int) -> None:
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self.line: QueueLine[bytes] = QueueLine(lambda: None)
        self.letters: deque[HeldLetter] = deque()
        self._died: dict[int, int] = {}  # of batches that were dead letters: when they died first
        self._last = self._last_dead = 0
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

    def append(self, payload: Sequence[Piece], *, records: int, at: int) -> asyncio.Future[None]:
        """See the contract."""
        # One piece of bytes is taken as it is; views would keep the whole request in memory.
        data = payload[0] if len(payload) == 1 and isinstance(payload[0], bytes) else b"".join(payload)
        self._last += 1
        self.line.ready.append(QueuedBatch(Batch(self._last, records, len(data), at), data))
        self._count(1, records, len(data))
        self.line.wake()
        return _done()

    def _count(self, batches: int, records: int, size: int) -> None:
        self._batches, self._records, self._size = self._batches + batches, self._records + records, self._size + size

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        return self.line.claim(most_records=most_records, most_bytes=most_bytes)

    async def wait(self) -> None:
        """See the contract."""
        await self.line.wait()

    async def payload(self, batch: Batch) -> bytes | None:
        """See the contract."""
        held = self.line.find_claimed(batch.number)
        return held.source if held is not None else None

    def delivered(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            if self.line.leave(batch.number) is not None:
                self._forget(batch)

    def _forget(self, batch: Batch) -> None:
        self._died.pop(batch.number, None)
        self._count(-1, -batch.records, -batch.size)

    def progressed(self, batch: Batch) -> None:
        """See the contract."""
        held = self.line.find_claimed(batch.number)
        if held is not None:
            held.batch = batch

    def give_back(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        self.line.give_back(batches)

    def bury(
        self, batch: Batch, payload: Sequence[Piece], obituary: Obituary, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """See the contract."""
        died = self._died.get(batch.number, obituary.at)
        self._bury(b"".join(payload), obituary, records=records, taken_at=batch.taken_at, died=died)
        if leaves:
            self.delivered([batch])
        return _done()

    def _bury(self, data: bytes, obituary: Obituary, *, records: int, taken_at: int, died: int) -> None:
        self._last_dead += 1
        self.letters.append(HeldLetter(DeadLetter(self._last_dead, records, len(data), taken_at, obituary), data, died))
        self._dead_size += len(data)

    def bury_unqueued(
        self, payload: Sequence[Piece], obituary: Obituary, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """See the contract."""
        size = sum(map(len, payload))
        if len(self.letters) >= MOST_REFUSED or self._size + self._dead_size + size > self._max_bytes:
            return None
        self._bury(b"".join(payload), obituary, records=records, taken_at=at, died=obituary.at)
        return _done()

    async def dead_letters(self, *, after: int = 0) -> AsyncIterator[tuple[DeadLetter, bytes]]:
        """See the contract."""
        for letter in [*self.letters]:
            if letter.listed.number > after:
                yield letter.listed, letter.payload

    async def replay(self, *, outages_only: bool, most: int | None = None) -> tuple[int, int]:
        """See the contract."""
        batches = records = 0
        for letter in [*self.letters]:
            if outages_only and not letter.listed.obituary.outage:
                continue
            # Its bytes move from one side of the limit to the other.
            if (most is not None and batches >= most) or self.room(size=0) is not None:
                break
            self._remove(letter)
            self.append([letter.payload], records=letter.listed.records, at=letter.listed.taken_at)
            self._died[self._last] = letter.died
            batches, records = batches + 1, records + letter.listed.records
        return batches, records

    def _remove(self, letter: HeldLetter) -> None:
        self.letters.remove(letter)
        self._dead_size -= len(letter.payload)

    async def discard(self, *, queued: bool, dead: bool) -> tuple[int, int]:
        """See the contract."""
        left = [held.batch for held in self.line.leave_unclaimed()] if queued else []
        for batch in left:
            self._forget(batch)
        batches, records = self._remove_letters(lambda _: True) if dead else (0, 0)
        return batches + len(left), records + sum(batch.records for batch in left)

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract. Dead letters have no limit of their own in memory."""
        return self._remove_letters(lambda letter: letter.died < before)

    def _remove_letters(self, is_wanted: Callable[[HeldLetter], bool]) -> tuple[int, int]:
        gone = [letter for letter in self.letters if is_wanted(letter)]
        for letter in gone:
            self._remove(letter)
        return len(gone), sum(letter.listed.records for letter in gone)

    def depth(self) -> Depth:
        """See the contract."""
        first = self.line.first()
        return Depth(
            batches=self._batches,
            records=self._records,
            size=self._size,
            claimed=self.line.claimed,
            oldest=first.taken_at if first is not None else None,
            dead_batches=len(self.letters),
            dead_records=sum(letter.listed.records for letter in self.letters),
            dead_size=self._dead_size,
            dead_oldest=min((letter.died for letter in self.letters), default=None),
        )

    async def close(self) -> None:
        """See the contract."""


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
