"""The line of a queue: which batch is next, which ones are claimed, which ones were given back.

Batches that were given back come first, in the order of their numbers. Both kinds of queues use it.
"""

import asyncio
import bisect
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from reconciler.delivery.queue.contract import Batch

Source = TypeVar("Source")


@dataclass(eq=False, slots=True)
class QueuedBatch(Generic[Source]):
    """A batch in the line. `source` gives its bytes."""

    batch: Batch
    source: Source


class QueueLine(Generic[Source]):
    """Used in the event loop only. `ready` are the next batches that nobody has claimed yet.

    `fill` is called when `ready` is empty: it may add to it, and returns true if it did.
    """

    def __init__(self, fill: Callable[[], bool]) -> None:
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
        return bool(self._returned or self.ready) or self._fill()

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
        return self.ready[0].batch if self.ready or self._fill() else None

    def all(self) -> Iterable[QueuedBatch[Source]]:
        """Return every batch in the line."""
        return [*self._held.values(), *self.ready]

    def _is_returned(self, number: int) -> bool:
        place = bisect.bisect_left(self._returned, number)
        return place < len(self._returned) and self._returned[place] == number
