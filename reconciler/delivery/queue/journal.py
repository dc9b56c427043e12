"""A journal: segments in a folder, appended at one end, acknowledged in any order."""

import asyncio
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reconciler.delivery.queue import acknowledgements, frames, recovery
from reconciler.delivery.queue.acknowledgements import FileWrite
from reconciler.delivery.queue.appending import Appender
from reconciler.delivery.queue.committer import Committer
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.files import QueueFiles, Space, System
from reconciler.delivery.queue.frames import NumberSet, Progress, QueueEntry, Segment, SegmentTotals
from reconciler.delivery.queue.recovery import Recovered
from reconciler.delivery.queue.used_segments import UsedSegments
from reconciler.model.text import counted

# A journal: segments in a folder, appended to at one end, from which anything leaves in any order.
#
# What left is written at most every 100 ms and never synchronised: a crash means that some of it is sent again.

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
AGAIN_SECONDS = 1.0  # after a write that failed
ATTEMPTS = 2  # at the end: what a full disk does not take is sent again

NOT_WRITTEN = "What left the queue file %s could not be written down (%s); until it is, a crash sends it again."


class Journal:
    """See the module. `committed` hears of entries that can be read now, `refused` of those that never can, and
    `forget` of files that go.
    """

    def __init__(
        self,
        folder: Path,
        *,
        recovered: Recovered,
        committer: Committer,
        clock: Callable[[], int],
        space: Space,
        committed: Callable[[Sequence[QueueEntry]], None],
        refused: Callable[[Sequence[QueueEntry]], None],
        forget: Callable[[Path], None],
    ) -> None:
        """`space` is that of the disk that the folder is on."""
        self.folder = folder
        self.mark = recovered.header.mark
        self.segments = list(recovered.segments)
        self.left = SegmentTotals()
        for segment in self.segments:
            self.left = self.left.plus(segment.left)
        self.disk = sum(segment.end + segment.acknowledged for segment in self.segments)
        self.quarantined = recovered.quarantined
        self.lost = recovered.lost
        self.last = recovered.header.first - 1  # the highest number that is committed
        self._kind = recovered.header.kind
        self._committer = committer
        self._heard = committed
        self._dirty: dict[Segment, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._again: dict[Segment, None] = {}  # what the disk refused, so that it keeps nothing else waiting
        self._again_timer: asyncio.TimerHandle | None = None
        self._writing: set[Segment] = set()
        self._unwritten: set[Segment] = set()  # those whose last write failed
        self._is_refused = False  # whether a write failed since this was looked at
        self._is_open = False
        header = recovered.header
        self.appender = Appender(
            folder, header=header, committer=committer, clock=clock, committed=self._committed, refused=refused
        )
        self._used_up = UsedSegments(
            self.segments,
            header=header,
            appender=self.appender,
            committer=committer,
            space=space,
            forget=forget,
            is_used_up=lambda: self.is_used_up,
            freed=self._freed,
            stay=self._stay,
            note=self._put_down,
        )

    def start(self) -> None:
        """Begin to write: until then nothing is done to a file."""
        self._is_open = True
        for segment in self.segments:
            if segment.left.batches <= 0:  # a crash may have come before it went
                self._touch(segment)
        if self._dirty and self._timer is None:
            self._wait()

    def _committed(self, segment: Segment, entries: Sequence[QueueEntry], is_new: bool) -> None:
        if is_new:
            if self.segments:
                self.segments[-1].following = segment
                self.segments[-1].is_sealed = True
                self._touch(self.segments[-1])
            self.segments.append(segment)
            self.disk += frames.SEGMENT_HEADER_BYTES
        self.last = entries[-1].number
        size = sum(entry.size for entry in entries)
        added = SegmentTotals(len(entries), sum(entry.records for entry in entries), size)
        self.left = self.left.plus(added)
        self.disk += frames.segment_length(added) - frames.SEGMENT_HEADER_BYTES
        self._heard(entries)

    # What leaves.

    def acknowledge(self, entries: Sequence[QueueEntry]) -> None:
        """They left; what did before does not count again. `out` is the caller's, who reads."""
        batches = records = size = 0
        for entry in entries:
            segment, totals = entry.segment, entry.totals
            if entry.number in segment.done:
                continue
            segment.done.add(entry.number)
            segment.progress.pop(entry.number, None)
            segment.died.pop(entry.number, None)
            segment.unsaved.discard(entry.number)
            segment.left, segment.gone = segment.left.minus(totals), segment.gone.plus(totals)
            segment.unwritten.append(acknowledgements.done(entry.number, totals, mark=self.mark))
            batches, records, size = batches + 1, records + entry.records, size + entry.size
            self._touch(segment)
        self.left = self.left.minus(SegmentTotals(batches, records, size))

    def progressed(self, entry: QueueEntry, progress: Progress) -> None:
        """Remember what was tried. Only the last of several within 100 ms is written."""
        entry.segment.progress[entry.number] = progress
        entry.segment.unsaved.add(entry.number)
        self._touch(entry.segment)

    def replayed(self, entry: QueueEntry, died: int) -> None:
        """Remember of a batch that was a dead letter when it died first."""
        entry.segment.died[entry.number] = died
        entry.segment.unwritten.append(acknowledgements.replayed(entry.number, died, mark=self.mark))
        self._touch(entry.segment)

    def acknowledge_rest(self, segment: Segment, first: int, last: int) -> SegmentTotals:
        """All of a segment left that is not `out`, with numbers from `first` to `last`: how much that was."""
        gone = segment.left.minus(segment.out).at_least_nothing()
        numbers = NumberSet(first)
        numbers.add_bits(first, _ones(last - first + 1))
        segment.unwritten.append(acknowledgements.several(first, numbers.bits(), gone, mark=self.mark))
        segment.done.add_bits(first, numbers.bits())
        segment.left, segment.gone = segment.left.minus(gone), segment.gone.plus(gone)
        self.left = self.left.minus(gone)
        self._touch(segment)
        return gone

    def settle(self, segment: Segment, readable: SegmentTotals) -> None:
        """All of a segment was read, and so much of what should not have left is there: the rest is lost."""
        missing = segment.left.minus(readable)
        if missing == SegmentTotals():
            return
        segment.left = readable
        self.left = self.left.minus(missing)
        self._touch(segment)
        self.damaged(segment, lost=missing.batches)

    def damaged(self, segment: Segment, *, lost: int) -> None:
        """Something in a segment cannot be read: the file is put beside what is served, for people to look at."""
        self.lost += max(0, lost)
        if lost > 0:
            unread = counted(lost, "batch", "batches")
            log.error("The queue file %s has %s that cannot be read, lost for good.", segment.path, unread)
        if segment.is_damaged:
            return
        segment.is_damaged = True
        self.quarantined += 1
        self._committer.do(
            lambda _: recovery.copy_to_quarantine(segment.path, kind=self._kind),
            recovery.quarantine_note(segment.path),
        )

    # Writing down what left.

    def _touch(self, segment: Segment) -> None:
        if segment in self._again:
            return
        self._dirty[segment] = None
        if self._timer is None and not self._writing:
            self._wait()

    def _wait(self) -> None:
        if self._is_open:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _later(self, stuck: Iterable[Segment]) -> None:
        """Try these again, when the disk may be well."""
        for segment in stuck:
            self._dirty.pop(segment, None)
            self._again[segment] = None
        if self._again and self._again_timer is None and self._is_open:
            self._again_timer = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._again_timer = None
        again, self._again = self._again, {}
        for segment in again:
            self._touch(segment)

    def _flush(self) -> None:
        """Write what is to be written, in one go; one is under way at a time."""
        self._timer = None
        if self._writing:
            return  # its end comes back to this
        dirty, self._dirty = self._dirty, {}
        self._used_up.tidy(dirty)
        self._put_down(dirty)

    def _put_down(self, dirty: Iterable[Segment]) -> None:
        writes = [write for segment in dirty if self._may_note(segment) and (write := self._note(segment)) is not None]
        if not writes:
            return
        self._writing |= {write.segment for write in writes}
        written: set[Segment] = set()

        def ended(failure: Exception | None) -> None:
            self._writing -= {write.segment for write in writes}
            failed = [write for write in writes if write.segment not in written]
            for write in failed:
                self._take_back(write)
            self._hear([write.segment for write in failed], written, failure)
            if self._dirty and self._timer is None:
                self._wait()

        self._committer.do(lambda system: acknowledgements.put_all(system, writes, written), ended)

    def _hear(self, failed: Sequence[Segment], written: set[Segment], failure: Exception | None) -> None:
        """Of a round of writes: it is told once, until all that failed was written, or is gone."""
        self._unwritten -= written
        self._unwritten &= self._again.keys() | self._dirty.keys() | self._writing | {*failed}
        if failed:
            if not self._unwritten:
                log.warning(NOT_WRITTEN, failed[0].path, os.strerror(getattr(failure, "errno", None) or 0))
            self._unwritten.update(failed)
            self._is_refused = True
            self._committer.faults += 1
            self._later(failed)

    def _may_note(self, segment: Segment) -> bool:
        return segment not in self._writing and self._used_up.may_note(segment)

    def _note(self, segment: Segment) -> FileWrite | None:
        before = segment.acknowledged
        write = acknowledgements.pending_acknowledgement(segment, mark=self.mark)
        self.disk += segment.acknowledged - before
        return write

    def _take_back(self, write: FileWrite) -> None:
        before = write.segment.acknowledged
        acknowledgements.take_back_acknowledgement(write)
        self.disk += write.segment.acknowledged - before

    def _stay(self, stuck: Sequence[Segment]) -> None:
        """Their files could not be given back: what left them is written down, and they are tried again."""
        self._put_down(stuck)
        self._later(stuck)

    def _freed(self, size: int) -> None:
        self.disk -= size

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is queued, nor waits to be."""
        return self.left.batches <= 0 and self.appender.is_idle

    @property
    def kept(self) -> int:
        """The bytes on disk that stay there when more is appended: no more than a header when nothing is queued and no
        file stays that should be gone.
        """
        is_empty = self.is_used_up or self.appender.is_held
        return frames.SEGMENT_HEADER_BYTES if is_empty and not self._used_up.is_staying else self.disk

    @property
    def spare(self) -> int:
        """The bytes on disk that are given back before what is appended next is written."""
        return 0 if self._used_up.is_stuck else self.disk - self.kept

    def make_room(self) -> None:
        """Give back what is `spare`."""
        if self.is_used_up and not self.appender.is_held:
            self._used_up.make_room([*self._dirty, *self._again])

    async def close(self) -> None:
        """Write all that is to be written, and close the files."""
        self.appender.stop()
        self._is_open = False
        for timer in (self._timer, self._again_timer):
            if timer is not None:
                timer.cancel()
        while not self.appender.is_idle:
            await self._committer.done(_nothing)
        for _ in range(ATTEMPTS):
            await self._settled()
            self._is_refused = False
            self._dirty.update(self._again)
            self._again.clear()
            self._flush()
            await self._settled()
            if not self._is_refused:
                break
        self.appender.let_go()
        await self._committer.done(_nothing)

    async def _settled(self) -> None:
        while self._writing or self._used_up.is_busy:
            await self._committer.done(_nothing)


def _ones(count: int) -> bytes:
    return ((1 << count) - 1).to_bytes((count + 7) // 8, "little")


def _nothing(_: System) -> None:
    """Waits for what was asked for before."""


# The bytes of one entry, read and checked.

KEPT_BYTES = 32 << 20  # of all queues
KEPT_OF_ONE = 4 << 20  # of one queue


class KeptPayloads:
    """How many bytes of payloads are kept in memory from their arrival until they are sent for the first time."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._room = limit

    def take(self, size: int) -> bool:
        """Whether so many more may be kept; then they count."""
        if size > self._room:
            return False
        self._room -= size
        return True

    def give(self, size: int) -> None:
        """So many are kept no more."""
        self._room += size


async def read_payload(entry: QueueEntry, journal: Journal, files: QueueFiles) -> bytes | None:
    """The payload of a frame; None when it is not there as it was written."""
    length = frames.HEADER_BYTES + entry.size
    data = files.now(entry.segment.path, entry.offset, length)
    found = _checked(data, entry, mark=journal.mark) if data is not None else None
    if found is not None:
        return found
    try:
        return _checked(await files.soon(entry.segment.path, entry.offset, length), entry, mark=journal.mark)
    except OSError:
        return None


def _checked(data: Piece, entry: QueueEntry, *, mark: int) -> bytes | None:
    if len(data) != frames.HEADER_BYTES + entry.size:
        return None
    frame = frames.decode(data, 0, mark=mark)
    if frame is None or (frame.number, frame.size) != (entry.number, entry.size):
        return None
    found = memoryview(data)[frames.HEADER_BYTES :]
    return bytes(found) if zlib.crc32(found) == frame.checksum else None
