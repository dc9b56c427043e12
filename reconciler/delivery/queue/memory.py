"""A queue in memory."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from reconciler.delivery.queue.contract import (
    Batch,
    DeadLetter,
    Depth,
    Obituary,
    Piece,
    Shortage,
    Storage,
    load,
)
from reconciler.delivery.queue.line import QueuedBatch, QueueLine

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
        self.line: QueueLine[bytes] = QueueLine(lambda: False)
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
