"""The line of a queue on disk: what can be claimed next, and what is claimed; walking a journal from its beginning."""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.delivery.queue import files, frames
from reconciler.delivery.queue.contract import Batch, Piece, Waiters
from reconciler.delivery.queue.files import QueueFiles
from reconciler.delivery.queue.frames import (
    LONGEST_BYTES,
    SEGMENT_HEADER_BYTES,
    Progress,
    QueueEntry,
    Segment,
    SegmentTotals,
)
from reconciler.delivery.queue.journal import Journal

# Walking: reading a journal from its beginning to its end, a few headers at a time, around what is damaged.

CHUNK_BYTES = (
    16 << 10
)  # of one read: many headers when batches are small, and not much more than one when they are large
MOST_CHUNKS = 4  # at a stretch, when all in them has left


class JournalWalk:
    """A place in a journal. With `claims`, what is read counts as `out` of its segment; what left is skipped."""

    def __init__(self, journal: Journal, files: QueueFiles, *, claims: bool) -> None:
        self._journal = journal
        self._files = files
        self._claims = claims
        self._segment: Segment | None = None
        self._offset = SEGMENT_HEADER_BYTES
        self._last = 0  # the number that was read last
        self._seen = SegmentTotals()  # of this segment, what has not left
        self._left = SegmentTotals()  # of this segment, what had not left when one came to it

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is committed beyond this place."""
        return not self._arrive()

    def step(self, entry: QueueEntry) -> bool:
        """Take an entry that was just committed, if it is the next one here."""
        if self._arrive_before(entry):
            self._pass(entry)
            return True
        return False

    def now(self) -> list[QueueEntry] | None:
        """The next entries, as far as the kernel has them in memory; None when the disk has to be asked."""
        found: list[QueueEntry] = []
        for _ in range(MOST_CHUNKS):
            if not self._arrive():
                return found
            segment = self._segment
            assert segment is not None
            chunk = self._files.now(segment.path, self._offset, min(CHUNK_BYTES, segment.end - self._offset))
            if chunk is None or not self._take(chunk, found):
                return None
            if found:
                return found
        return None

    async def soon(self) -> list[QueueEntry]:
        """The next entries from the disk; none at the end."""
        found: list[QueueEntry] = []
        while not found and self._arrive():
            segment = self._segment
            assert segment is not None
            try:
                begins = self._offset
                size = min(CHUNK_BYTES, segment.end - begins)
                chunk = await self._files.soon(segment.path, begins, size)
            except OSError:
                chunk = b""
            if segment is not self._segment or begins != self._offset or segment.is_gone:
                continue  # somebody skipped it meanwhile
            if self._take(chunk, found):
                continue
            if segment.left.batches <= 0:  # it may be being emptied
                self._offset = segment.end
            else:
                await self._skip(segment)
        return found

    def to_end(self) -> Segment | None:
        """Skip all that is committed; the segment that one is in now."""
        while self._arrive():
            assert self._segment is not None
            self._offset = self._segment.end
        return self._segment

    @property
    def next_number(self) -> int:
        """No entry beyond this place has a lower number."""
        return self._last + 1

    @property
    def segment(self) -> Segment | None:
        """Where one is."""
        return self._segment

    def _arrive(self) -> bool:
        """Go to the segment that has the next frame; False when there is none."""
        if self._segment is None:
            if not self._journal.segments:
                return False
            self._enter(self._journal.segments[0])
        segment = self._segment
        assert segment is not None
        while segment.is_gone or self._offset >= segment.end:
            if segment.following is None:
                return False
            if not segment.is_gone:
                self._settle(segment)
            self._enter(segment.following)
            segment = segment.following
        return True

    def _enter(self, segment: Segment) -> None:
        self._segment, self._offset, self._seen, self._left = (
            segment,
            SEGMENT_HEADER_BYTES,
            SegmentTotals(),
            segment.left,
        )

    def _settle(self, segment: Segment) -> None:
        """All of a segment was read: whatever should have been there and was not is lost."""
        if self._claims:
            self._journal.settle(segment, segment.out)
        elif segment.left == self._left:  # else some left meanwhile, and there is nothing to compare with
            self._journal.settle(segment, self._seen)

    def _arrive_before(self, entry: QueueEntry) -> bool:
        segment = self._segment
        if segment is not entry.segment:
            if segment is not None and not (segment.following is entry.segment and self._offset >= segment.end):
                return False
            if segment is None and self._journal.segments[0] is not entry.segment:
                return False
            if segment is not None:
                self._settle(segment)
            self._enter(entry.segment)
        return self._offset == entry.offset

    def _pass(self, entry: QueueEntry) -> None:
        self._offset, self._last = entry.end, entry.number
        self._seen = self._seen.plus(entry.totals)
        if self._claims:
            entry.segment.out = entry.segment.out.plus(entry.totals)

    def _take(self, chunk: Piece, found: list[QueueEntry]) -> bool:
        """Read the headers in a chunk that begins here; False when there is none where one should be."""
        segment, begins = self._segment, self._offset
        assert segment is not None
        while self._offset - begins + frames.HEADER_BYTES <= len(chunk):
            frame = frames.decode(chunk, self._offset - begins, mark=self._journal.mark)
            if frame is None or self._offset + frame.length > segment.end:
                return bool(found)
            self._see(QueueEntry(frame.number, frame.records, frame.size, frame.taken_at, segment, self._offset), found)
        return self._offset > begins

    def _see(self, entry: QueueEntry, found: list[QueueEntry]) -> None:
        segment = entry.segment
        is_own = entry.number >= segment.first and entry.number > self._last  # else what an emptied file had before
        if not is_own or entry.number in segment.done:
            self._offset = entry.end
            return
        self._pass(entry)
        found.append(entry)

    async def _skip(self, segment: Segment) -> None:
        """Go on behind what cannot be read."""
        begins, mark = self._offset, self._journal.mark
        self._journal.damaged(segment, lost=0)

        def search() -> int | None:
            try:
                limit = min(segment.end, LONGEST_BYTES)
                return frames.find(files.read_whole(segment.path, limit=limit), begins + 1, mark=mark)
            except OSError:
                return None

        following = await self._files.run(search)
        if segment is self._segment and not segment.is_gone:
            self._offset = segment.end if following is None else following


# The line of a queue on disk: what can be claimed next, what is claimed, what was given back.
#
# The front of the line is in memory, as headers; the rest is read from the files when the front is used up. What was
# given back was claimed before all that is in the line, so it comes first.

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
        frames.unpack_numbers(progress.done),
    )
    return LeasedBatch(entry, batch)


def _out(entry: QueueEntry) -> QueueEntry:
    entry.segment.out = entry.segment.out.minus(entry.totals)
    return entry


def progress_of(batch: Batch) -> Progress:
    """What is remembered of a batch."""
    return Progress(batch.attempts, batch.spent, frames.pack_numbers(batch.done))
