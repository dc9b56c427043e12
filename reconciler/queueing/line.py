"""The line of a queue on disk: what can be claimed next, what is claimed, what was given back.

Belongs here: who is next, in memory that does not grow with what is on disk. Does not: bytes, appending, dead letters.

The front of the line is in memory, as headers; the rest is read from the files when the front is used up. What was
given back was claimed before all that is in the line, so it comes first.
"""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.queueing import number_sets
from reconciler.queueing.contract import Batch
from reconciler.queueing.entries import QueueEntry
from reconciler.queueing.journals import Journal
from reconciler.queueing.reading import QueueFiles
from reconciler.queueing.segments import Progress
from reconciler.queueing.waiters import Waiters
from reconciler.queueing.walking import JournalWalk

log = logging.getLogger(__name__)

READY = 1024  # headers in memory, or some more when they were read together
AGAIN_SECONDS = 1.0  # after reading met a fault of the program


@dataclass(eq=False, slots=True)
class LeasedBatch:
    """An entry that was claimed, as its user sees it."""

    entry: QueueEntry
    batch: Batch


class QueueLine:
    """See the module. `journal` is told of what left by the caller."""

    def __init__(self, journal: Journal, files: QueueFiles) -> None:
        self.claimed: dict[int, LeasedBatch] = {}
        self._folder = journal.folder
        self._returned: dict[int, LeasedBatch] = {}
        self._ready: deque[QueueEntry] = deque()
        self._first_returned: list[int] = []
        self._first_held: list[int] = []
        self._walk = JournalWalk(journal, files, claims=True)
        self._filling: asyncio.Task[None] | None = None
        self._waiters = Waiters()

    @property
    def has_room(self) -> bool:
        """Whether what is appended now is likely to be kept in the front."""
        return len(self._ready) < READY

    def add(self, entries: Sequence[QueueEntry]) -> list[QueueEntry]:
        """What was just committed; returns what is not in the front now, and is read later."""
        late = [entry for entry in entries if not self._add(entry)]
        self.wake()
        return late

    def _add(self, entry: QueueEntry) -> bool:
        if len(self._ready) >= READY or self._filling is not None or not self._walk.step(entry):
            return False
        self._ready.append(entry)
        return True

    def claim(self, *, most_records: int, most_bytes: int) -> tuple[Batch, ...]:
        """See the contract."""
        claimed: list[Batch] = []
        records = size = 0
        while self._has_next():
            held = self._next()
            batch = held.batch
            records, size = records + batch.records, size + batch.size
            if claimed and (records > most_records or size > most_bytes):
                break
            self._take(held)
            claimed.append(batch)
        return tuple(claimed)

    def _has_next(self) -> bool:
        """Whether somebody is first in line, as far as it can be known without waiting for the disk."""
        while self._first_returned and self._first_returned[0] not in self._returned:
            heapq.heappop(self._first_returned)
        return bool(self._first_returned or self._ready) or self._fill()

    def _next(self) -> LeasedBatch:
        """The first in line, which stays there."""
        return self._returned[self._first_returned[0]] if self._first_returned else _held(self._ready[0])

    def _take(self, held: LeasedBatch) -> None:
        number = held.entry.number
        if self._returned.pop(number, None) is not None:
            heapq.heappop(self._first_returned)
        else:
            self._ready.popleft()
            heapq.heappush(self._first_held, number)
        self.claimed[number] = held

    def _fill(self) -> bool:
        """Read on; False when there is nothing, or the disk has to be asked first."""
        if self._filling is not None:
            return False
        found = self._walk.now()
        if found is None:
            self._filling = asyncio.create_task(self._fill_soon(), name="queue-reading")
            return False
        self._ready.extend(found)
        return bool(found)

    async def _fill_soon(self) -> None:
        try:
            self._ready.extend(await self._walk.soon())
        except Exception:
            log.exception("Reading the queue in %s met a fault of the program; it is read again soon.", self._folder)
            await asyncio.sleep(AGAIN_SECONDS)
        finally:
            self._filling = None
            self.wake()

    async def wait(self) -> None:
        """Until there is something to claim."""
        await self._waiters.until(self._has_next)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._waiters.wake()

    def give_back(self, batches: Iterable[Batch]) -> None:
        """See the contract."""
        for batch in batches:
            held = self.claimed.pop(batch.number, None)
            if held is not None:
                held.batch = batch
                self._returned[batch.number] = held
                heapq.heappush(self._first_returned, batch.number)
        self.wake()

    def leave(self, numbers: Iterable[int]) -> list[QueueEntry]:
        """Those that were claimed leave the line; what is not known is left out."""
        left: list[QueueEntry] = []
        for number in numbers:
            held = self.claimed.pop(number, None) or self._returned.pop(number, None)
            if held is not None:
                left.append(_out(held.entry))
        self._forget()
        return left

    def leave_unclaimed(self) -> list[QueueEntry]:
        """All of the front that is not claimed leaves the line."""
        left = [_out(held.entry) for held in self._returned.values()] + [_out(entry) for entry in self._ready]
        self._returned.clear()
        self._ready.clear()
        self._first_returned.clear()
        self._forget()
        return left

    @property
    def walk(self) -> JournalWalk:
        """Where the front ends."""
        return self._walk

    def oldest(self) -> int | None:
        """When the first one was taken that has not left, as far as it is in memory."""
        self._forget()
        if self._first_held:
            number = self._first_held[0]
            return (self.claimed.get(number) or self._returned[number]).entry.taken_at
        return self._ready[0].taken_at if self._ready or self._fill() else None

    def close(self) -> None:
        """Read no more."""
        if self._filling is not None:
            self._filling.cancel()

    def _forget(self) -> None:
        first = self._first_held
        while first and first[0] not in self.claimed and first[0] not in self._returned:
            heapq.heappop(first)


def _held(entry: QueueEntry) -> LeasedBatch:
    progress = entry.segment.progress.get(entry.number)
    if progress is None:
        return LeasedBatch(entry, Batch(entry.number, entry.records, entry.size, entry.taken_at))
    batch = Batch(
        entry.number,
        entry.records,
        entry.size,
        entry.taken_at,
        progress.attempts,
        progress.spent,
        number_sets.unpack_numbers(progress.done),
    )
    return LeasedBatch(entry, batch)


def _out(entry: QueueEntry) -> QueueEntry:
    entry.segment.out = entry.segment.out.minus(entry.totals)
    return entry


def progress_of(batch: Batch) -> Progress:
    """What is remembered of a batch."""
    return Progress(batch.attempts, batch.spent, number_sets.pack_numbers(batch.done))
