"""A queue in memory."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from reconciler.delivery.queue.contract import (
    Batch,
    DeadLetter,
    Depth,
    Obituary,
    Piece,
    Shortage,
    Storage,
    Waiters,
    load,
)

MOST_BATCHES = 100_000  # each takes half a KiB beside its bytes
MOST_REFUSED = 10_000  # dead letters with which the queue takes no other for want of room


@dataclass(eq=False, slots=True)
class _Held:
    batch: Batch
    payload: bytes


class MemoryQueue:
    """Bounded by batches and by bytes, dead letters included in the latter."""

    def __init__(self, *, max_batches: int, max_bytes: int) -> None:
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._ready: deque[_Held] = deque()
        self._returned: dict[int, _Held] = {}
        self._first_returned: list[int] = []
        self._claimed: dict[int, _Held] = {}
        self._dead: deque[tuple[DeadLetter, bytes]] = deque()
        self._died: dict[int, int] = {}  # when each dead letter died first
        self._died_before: dict[int, int] = {}  # the same of batches that were dead letters
        self._last = self._last_dead = 0
        self._records = self._size = self._dead_size = 0
        self._waiters = Waiters()

    def configure(self, *, storage: Storage | None, max_batches: int) -> None:  # noqa: ARG002 - it has no storage
        """See the contract."""
        self._max_batches = max_batches

    def room(self, *, size: int) -> Shortage | None:
        """See the contract."""
        batches = len(self._ready) + len(self._returned) + len(self._claimed)
        if batches >= MOST_BATCHES or load(self._records, self._size) >= self._max_batches:
            return Shortage.BATCHES
        return Shortage.BYTES if self._size + self._dead_size + size > self._max_bytes else None

    def may_hold(self, *, size: int) -> bool:
        """See the contract."""
        return size <= self._max_bytes

    def append(self, payload: Sequence[Piece], *, records: int, at: int) -> asyncio.Future[None]:
        """See the contract."""
        # One piece of bytes is taken as it is; views would keep all of the request that they are of.
        data = payload[0] if len(payload) == 1 and isinstance(payload[0], bytes) else b"".join(payload)
        self._last += 1
        self._ready.append(_Held(Batch(self._last, records, len(data), at), data))
        self._records += records
        self._size += len(data)
        self._waiters.wake()
        return _done()

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        claimed: list[Batch] = []
        records = size = 0
        while (held := self._next()) is not None:
            records, size = records + held.batch.records, size + held.batch.size
            if claimed and (records > most_records or size > most_bytes):
                break
            self._take(held)
            claimed.append(held.batch)
        return tuple(claimed)

    def _next(self) -> _Held | None:
        while self._first_returned:
            held = self._returned.get(self._first_returned[0])
            if held is not None:
                return held
            heapq.heappop(self._first_returned)
        return self._ready[0] if self._ready else None

    def _take(self, held: _Held) -> None:
        if self._returned.pop(held.batch.number, None) is not None:
            heapq.heappop(self._first_returned)
        else:
            self._ready.popleft()
        self._claimed[held.batch.number] = held

    async def wait(self) -> None:
        """See the contract."""
        await self._waiters.until(lambda: self._next() is not None)

    async def payload(self, batch: Batch) -> bytes | None:
        """See the contract."""
        held = self._claimed.get(batch.number)
        return held.payload if held is not None else None

    def delivered(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            held = self._claimed.pop(batch.number, None) or self._returned.pop(batch.number, None)
            if held is not None:
                self._forget(held)

    def _forget(self, held: _Held) -> None:
        self._died_before.pop(held.batch.number, None)
        self._records -= held.batch.records
        self._size -= held.batch.size

    def progressed(self, batch: Batch) -> None:
        """See the contract."""
        held = self._claimed.get(batch.number)
        if held is not None:
            held.batch = batch

    def give_back(self, batches: Sequence[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            held = self._claimed.pop(batch.number, None)
            if held is not None:
                held.batch = batch
                self._returned[batch.number] = held
                heapq.heappush(self._first_returned, batch.number)
        self._waiters.wake()

    def bury(
        self, batch: Batch, payload: Sequence[Piece], obituary: Obituary, *, records: int, leaves: bool = True
    ) -> asyncio.Future[None]:
        """See the contract."""
        died = self._died_before.get(batch.number, obituary.at)
        self._bury(b"".join(payload), obituary, records=records, taken_at=batch.taken_at, died=died)
        if leaves:
            self.delivered([batch])
        return _done()

    def _bury(self, data: bytes, obituary: Obituary, *, records: int, taken_at: int, died: int) -> None:
        self._last_dead += 1
        letter = DeadLetter(self._last_dead, records, len(data), taken_at, obituary)
        self._dead.append((letter, data))
        self._died[letter.number] = died
        self._dead_size += len(data)

    def bury_unqueued(
        self, payload: Sequence[Piece], obituary: Obituary, *, records: int, at: int
    ) -> asyncio.Future[None] | None:
        """See the contract."""
        size = sum(map(len, payload))
        if len(self._dead) >= MOST_REFUSED or self._size + self._dead_size + size > self._max_bytes:
            return None
        self._bury(b"".join(payload), obituary, records=records, taken_at=at, died=obituary.at)
        return _done()

    async def dead_letters(self, *, after: int = 0) -> AsyncIterator[tuple[DeadLetter, bytes]]:
        """See the contract."""
        for letter, data in [*self._dead]:
            if letter.number > after:
                yield letter, data

    async def replay(self, *, outages_only: bool, most: int | None = None) -> tuple[int, int]:
        """See the contract."""
        batches = records = 0
        for letter, data in [*self._dead]:
            if outages_only and not letter.obituary.outage:
                continue
            # Its bytes move from one side of the limit to the other.
            if (most is not None and batches >= most) or self.room(size=0) is not None:
                break
            died = self._died[letter.number]
            self._bring_out(letter, data)
            self.append([data], records=letter.records, at=letter.taken_at)
            self._died_before[self._last] = died
            batches, records = batches + 1, records + letter.records
        return batches, records

    def _bring_out(self, letter: DeadLetter, data: bytes) -> None:
        self._died.pop(letter.number, None)
        self._dead.remove((letter, data))
        self._dead_size -= len(data)

    async def discard(self, *, queued: bool, dead: bool) -> tuple[int, int]:
        """See the contract."""
        batches = records = 0
        for held in self._unclaimed() if queued else ():
            self._forget(held)
            batches, records = batches + 1, records + held.batch.records
        if queued:
            self._ready.clear()
            self._returned.clear()
            self._first_returned.clear()
        for letter, data in [*self._dead] if dead else ():
            self._bring_out(letter, data)
            batches, records = batches + 1, records + letter.records
        return batches, records

    def _unclaimed(self) -> Iterator[_Held]:
        yield from self._returned.values()
        yield from self._ready

    async def expire(self, *, before: int) -> tuple[int, int]:
        """See the contract. What is dead has no limit of its own in memory."""
        batches = records = 0
        for letter, data in [*self._dead]:
            if self._died[letter.number] < before:
                self._bring_out(letter, data)
                batches, records = batches + 1, records + letter.records
        return batches, records

    def depth(self) -> Depth:
        """See the contract."""
        first = [next(iter(self._ready), None), *self._returned.values(), *self._claimed.values()]
        oldest = min((held.batch for held in first if held is not None), default=None)
        return Depth(
            batches=len(self._ready) + len(self._returned) + len(self._claimed),
            records=self._records,
            size=self._size,
            claimed=len(self._claimed),
            oldest=oldest.taken_at if oldest is not None else None,
            dead_batches=len(self._dead),
            dead_records=sum(letter.records for letter, _ in self._dead),
            dead_size=self._dead_size,
            dead_oldest=min(self._died.values(), default=None),
        )

    async def close(self) -> None:
        """See the contract."""


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
