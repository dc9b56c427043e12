"""A journal: segments in a folder. Batches are appended at one end and acknowledged in any order. Empty segments are
removed.

Acknowledgements are written within 100 ms and never forced to disk: after a crash some batches are sent again. A fully
acknowledged segment is removed if it is the first one. Otherwise its file is truncated to the header, which says so,
because a missing file in the middle would look lost. The last segment stays, because it has the last number; when
nothing is queued, it is sealed and truncated too. None of that needs free space on the disk. A failed write of one
segment is tried again every second, and delays no other segment.
"""

import asyncio
import itertools
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import files, recovery, segments
from reconciler.delivery.queue.appender import Appender, Committer, write_all
from reconciler.delivery.queue.files import QueueReader, System
from reconciler.delivery.queue.recovery import Recovered
from reconciler.delivery.queue.segments import (
    LONGEST_BYTES,
    SEGMENT_HEADER_BYTES,
    QueueEntry,
    Segment,
    Totals,
)
from reconciler.model.text import counted

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
AGAIN_SECONDS = 1.0  # after a write that failed
ATTEMPTS = 2  # at the end: if the disk is full, those batches are sent again

REFUSED = (
    "What left the queue file %s could not be written down, or its room not given back (%s); it is tried again. A "
    "crash may send some of it again."
)


class Shared(NamedTuple):
    """The parts that all queues share."""

    committer: Committer
    reader: QueueReader
    clock: Callable[[], int]


class Journal:
    """One journal. `committed` is called with entries that are on disk now. `left` sums the queued batches, `disk` is
    the bytes on disk, `last` the highest committed number.
    """

    def __init__(
        self,
        folder: Path,
        *,
        recovered: Recovered,
        shared: Shared,
        committed: Callable[[Sequence[QueueEntry]], None],
    ) -> None:
        self.folder = folder
        self.mark = recovered.header.mark
        self.reader = shared.reader
        self.segments = recovered.segments
        self.left = Totals()
        self.disk = 0
        self.damaged = recovered.damaged
        self.lost = recovered.lost
        self.last = recovered.header.first - 1
        self._header = recovered.header
        self._committer = shared.committer
        self._committed = committed
        self._dirty: dict[Segment, None] = {}  # segments with acknowledgements to write or bytes to free
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        for segment in self.segments:
            self.left = self.left.plus(segment.left)
            self._account(segment)
        self.appender = Appender(
            folder,
            header=recovered.header,
            committer=shared.committer,
            clock=shared.clock,
            committed=self._appended,
        )

    def start(self) -> None:
        """Allow writes; before this call, no file is changed."""
        self._is_open = True
        for segment in self.segments:
            if segment.is_spent:  # a crash came before it was removed
                self._touch(segment)

    def _appended(self, segment: Segment, entries: Sequence[QueueEntry]) -> None:
        if not self.segments or segment is not self.segments[-1]:
            if self.segments:
                self.segments[-1].following = segment
                self.segments[-1].is_sealed = True
                self._touch(self.segments[-1])
            self.segments.append(segment)
        self.last = entries[-1].number
        self.left = self.left.plus(segments.sum_frames(entries))
        self._account(segment)
        self._touch(segment)
        self._committed(entries)

    def _account(self, segment: Segment) -> None:
        """Count the bytes of a segment on disk."""
        now = segment.end + segment.acknowledged.length
        self.disk += now - segment.counted
        segment.counted = now

    # Acknowledging.

    def acknowledge(self, entries: Iterable[QueueEntry]) -> None:
        """Record that entries left the queue. Entries that left before do not count again."""
        for entry in entries:
            if not entry.has_left:
                entry.segment.acknowledged.leave(entry.number, entry.number, entry.totals)
                self._forget(entry.segment, entry.totals)

    def acknowledge_rest(self, segment: Segment, *, first: int, held: Totals) -> None:
        """Record that everything in a segment from a number on left the queue. `held` sums the batches before it that
        stay.
        """
        gone = segment.left.minus(held)
        last = segment.following.first - 1 if segment.following is not None else self.last
        if last >= first:
            segment.acknowledged.leave(first, last, gone)
        self._forget(segment, gone)

    def _forget(self, segment: Segment, totals: Totals) -> None:
        segment.left = segment.left.minus(totals)
        self.left = self.left.minus(totals)
        segment.is_changed = True
        self._touch(segment)

    # Damage.

    def settle(self, segment: Segment, readable: Totals) -> None:
        """Record that a segment was read to its end, and only this much of its queued batches was found: the rest is
        lost.
        """
        if segment.left != readable:
            lost = segment.left.batches - readable.batches
            self.left = self.left.minus(segment.left).plus(readable)
            segment.left = readable
            self._touch(segment)
            self.report_damage(segment, lost=lost)

    def report_damage(self, segment: Segment, *, lost: int) -> None:
        """Handle an unreadable part of a segment: put the file in quarantine, where people can examine it."""
        if lost > 0:
            self.lost += lost
            unread = counted(lost, "batch", "batches")
            log.error("The queue file %s has %s that cannot be read, lost for good.", segment.path, unread)
        if segment.is_damaged:
            return
        segment.is_damaged = True
        place = len(self.damaged)
        self.damaged.append(segment.path)

        def copy(_: System) -> None:
            self.damaged[place] = recovery.put_in_quarantine(segment.path, kind=self._header.kind, is_served=True)

        self._committer.do(copy, lambda failure: recovery.report_quarantine(segment.path, failure))

    async def payload(self, entry: QueueEntry, *, most: int | None = None) -> bytes | None:
        """Return the payload of an entry, or its first `most` bytes; None if it is not there as it was written. Only a
        whole payload is checked.
        """
        length = segments.FRAME_HEADER_BYTES + (entry.size if most is None else min(entry.size, most))
        try:
            data = await self.reader.read(entry.segment.path, entry.offset, length)
        except OSError:
            return None
        frame = segments.decode_frame(data, 0, mark=self.mark) if len(data) == length else None
        if frame is None or (frame.number, frame.size) != (entry.number, entry.size):
            return None
        payload = data[segments.FRAME_HEADER_BYTES :]
        return payload if len(payload) < entry.size or zlib.crc32(payload) == frame.checksum else None

    # Room.

    @property
    def is_empty(self) -> bool:
        """True if nothing is queued, and nothing waits to be written."""
        return self.left.batches <= 0 and not self.appender.waiting

    @property
    def kept(self) -> int:
        """The bytes on disk that an append cannot free: only a header if the journal is empty."""
        if self.is_empty and not any(segment.is_stuck for segment in self.segments):
            return SEGMENT_HEADER_BYTES
        return self.disk

    def make_room(self) -> None:
        """Free all bytes of an empty journal before the next append is written."""
        if self.is_empty and self.segments:
            self._seal_last()
            self._tidy(is_urgent=True)

    def _seal_last(self) -> None:
        last = self.segments[-1]
        if not last.is_sealed and last.holds_bytes:
            last.is_sealed = True
            self.appender.seal()
        self._dirty[last] = None

    # Writing acknowledgements, and giving files back.

    def _touch(self, segment: Segment) -> None:
        """Schedule work on a segment within 100 ms."""
        self._dirty[segment] = None
        if self._timer is None and self._is_open:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self, *, is_urgent: bool = False) -> None:
        self._timer = None
        if self.segments and self.is_empty:
            self._seal_last()
        self._tidy(is_urgent=is_urgent)
        for segment in [*self._dirty][:1]:  # some still wait for the thread, or for another attempt
            self._touch(segment)

    def _removable(self) -> list[Segment]:
        """Return the first segments that are fully acknowledged. If one cannot be removed, no later one is."""
        found = [*itertools.takewhile(lambda segment: segment.is_spent, self.segments[:-1])]
        return found[:1] if found and found[0].is_stuck else found

    def _tidy(self, *, is_urgent: bool = False) -> None:
        """Do the work on segments on the thread. An urgent call also tries failed work again without its delay."""
        now = asyncio.get_running_loop().time()
        removable = self._removable()
        steps = []
        for segment in [*dict.fromkeys([*removable, *self._dirty])]:
            if segment.is_busy or (segment.retry_at > now and not is_urgent):
                continue
            self._dirty.pop(segment, None)
            step = _Step(segment, end=segment.end, is_removed=segment in removable)
            if segment.is_changed and not segment.is_drained:
                step.acknowledged, segment.is_changed = segment.acknowledged.encode(), False
            if not step.is_removed and segment.is_spent and segment.holds_bytes:
                step.header = self._drained(segment)
            if step.gives_back:
                self.reader.forget(segment.path)  # an open file keeps its disk space
                if not segment.is_stuck:
                    segment.end = SEGMENT_HEADER_BYTES  # the thread finishes this before it writes the next append
                    self._account(segment)
            if step.gives_back or step.acknowledged is not None:
                segment.is_busy = True
                steps.append(step)
        if steps:
            self._committer.do(lambda system: _run(system, steps), lambda _: self._end(steps))

    def _drained(self, segment: Segment) -> bytes:
        """Return the header of a fully acknowledged segment. That of the last segment has the next number."""
        first = segment.first if segment.following is not None else self.last + 1
        return segments.encode_segment(
            self._header._replace(first=first, before=segment.before, made_at=segment.made_at, flags=segments.DRAINED)
        )

    def _end(self, steps: "Sequence[_Step]") -> None:
        for step in steps:
            segment = step.segment
            segment.is_busy = False
            if step.fault is not None:
                self._refused(step, step.fault)
                continue
            if step.gives_back:
                segment.is_drained, segment.end, segment.acknowledged.length = True, SEGMENT_HEADER_BYTES, 0
            segment.is_stuck = False
            self._account(segment)
            if step.is_removed:
                self.segments.remove(segment)
                self.disk -= segment.counted
        for segment in self._removable():
            self._touch(segment)

    def _refused(self, step: "_Step", fault: OSError) -> None:
        """Log failed work once, until it succeeds, and schedule another attempt."""
        segment = step.segment
        if not any(one.is_stuck for one in self.segments):
            log.warning(REFUSED, segment.path, os.strerror(fault.errno or 0))
        segment.is_stuck, segment.end = True, step.end
        self._account(segment)
        segment.is_changed |= step.acknowledged is not None
        segment.retry_at = asyncio.get_running_loop().time() + AGAIN_SECONDS
        self._committer.faults += 1
        self._touch(segment)

    async def close(self) -> None:
        """Finish all writes, and close the files."""
        self._is_open = False
        while self.appender.waiting:
            await self._committer.idle()
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(ATTEMPTS):
            await self._committer.idle()
            self._flush(is_urgent=True)
        self.appender.close()
        await self._committer.idle()
        for segment in self.segments:
            self.reader.forget(segment.path)


# On the committer's thread.


@dataclass(slots=True)
class _Step:
    """Work on one segment: write its acknowledgements, then truncate its file to the header, or remove it. `fault` is
    set afterwards.
    """

    segment: Segment
    end: int  # of the segment, before its bytes are given back
    is_removed: bool
    acknowledged: bytes | None = None
    header: bytes | None = None
    fault: OSError | None = None

    @property
    def gives_back(self) -> bool:
        """True if only the header of the segment remains."""
        return self.is_removed or self.header is not None

    def run(self, system: System) -> None:
        """Do it. Raises OSError."""
        try:
            if self.acknowledged is not None:
                replace(system, path=self.segment.acknowledgements_path, data=self.acknowledged)
                self.segment.acknowledged.length = len(self.acknowledged)
        except OSError:
            if not self.gives_back:  # this needs no free space, and no acknowledgements afterwards
                raise
        if self.is_removed:
            _remove(system, segment=self.segment)
        elif self.header is not None:
            _empty(system, segment=self.segment, header=self.header)


def _run(system: System, steps: Sequence[_Step]) -> None:
    """Do all steps. After a failed step the others still run, but no file is removed behind one that stays."""
    stays: OSError | None = None
    for step in steps:
        try:
            if step.is_removed and stays is not None:
                raise stays
            step.run(system)
        except OSError as fault:
            step.fault = fault
            stays = fault if step.is_removed else stays


def _remove(system: System, *, segment: Segment) -> None:
    # In this order, so that acknowledged batches do not come back after a crash between the two.
    system.remove(segment.path)
    system.remove(segment.acknowledgements_path)


def _empty(system: System, *, segment: Segment, header: bytes) -> None:
    """Truncate a segment to its header. After a crash before the end, frames or acknowledgements remain that the header
    declares void.
    """
    if segment.is_damaged:
        replace(system, path=segment.path, data=header)  # the quarantine has a link to the old file
    else:
        write_file(system, path=segment.path, data=header, synced=True)
    system.remove(segment.acknowledgements_path)


def replace(system: System, *, path: Path, data: bytes) -> None:
    """Replace the bytes of a file, completely or not at all. Raises OSError."""
    other = path.with_name(f"{path.name}.new")
    try:
        write_file(system, path=other, data=data)
        other.rename(path)
    except OSError:
        system.remove(other)
        raise


def write_file(system: System, *, path: Path, data: bytes, synced: bool = False) -> None:
    """Write a whole file, and create it if it is missing. Raises OSError."""
    descriptor = system.open(path, make=True)
    try:
        write_all(system, descriptor, [data], 0, synced=synced)
        system.cut(descriptor, len(data))
    finally:
        system.close(descriptor)


CHUNK_BYTES = 16 << 10  # of one read: many headers of small batches, and not much more than one of a large batch


class JournalWalk:
    """A position in a journal. Acknowledged entries are skipped.

    `held` returns the sum of the entries of a segment that the caller has read and not acknowledged. So at the end of
    the segment, the difference to the queued sum is what was lost. Without `held`, this is known only if nothing is
    acknowledged while the segment is read.
    """

    def __init__(self, journal: Journal, *, held: Callable[[Segment], Totals] | None = None) -> None:
        self._journal = journal
        self._held = held
        self._segment: Segment | None = None
        self._offset = SEGMENT_HEADER_BYTES
        self._last = 0  # the number that was read last
        self._seen = Totals()  # of this segment
        self._left = Totals()  # of this segment, when the walk came to it

    @property
    def is_at_end(self) -> bool:
        """True if no entry follows."""
        return self._arrive() is None

    def step(self, entry: QueueEntry) -> bool:
        """Move past an entry that was just committed, if it is the next one here."""
        if self._arrive() is not entry.segment or self._offset != entry.offset:
            return False
        self._pass(entry)
        return True

    async def next(self) -> list[QueueEntry]:
        """Return the next entries; none at the end."""
        found: list[QueueEntry] = []
        while not found and (segment := self._arrive()) is not None:
            begins = self._offset
            try:
                chunk = await self._journal.reader.read(segment.path, begins, min(CHUNK_BYTES, segment.end - begins))
            except OSError:
                chunk = b""
            if self._is_at(segment, begins):
                found = self._take(segment, chunk)
                if self._offset == begins:
                    await self._skip_damage(segment)
        return found

    def discard_rest(self) -> None:
        """Acknowledge everything beyond this position."""
        while (segment := self._arrive()) is not None:
            held = self._held(segment) if self._held is not None else Totals()
            self._journal.acknowledge_rest(segment, first=max(self._last + 1, segment.first), held=held)
            self._offset = segment.end

    def _is_at(self, segment: Segment, offset: int) -> bool:
        """Return False if the position moved, or the segment became empty, during a wait."""
        return segment is self._segment and offset == self._offset and not segment.is_spent

    def _arrive(self) -> Segment | None:
        """Move to the segment with the next frame, and return it."""
        if self._segment is None:
            if not self._journal.segments:
                return None
            self._enter(self._journal.segments[0])
        segment = self._segment
        assert segment is not None
        while segment.is_spent or self._offset >= segment.end:
            if segment.following is None:
                return None
            if not segment.is_spent:
                self._settle(segment)
            segment = segment.following
            self._enter(segment)
        return segment

    def _enter(self, segment: Segment) -> None:
        self._segment, self._offset, self._seen, self._left = segment, SEGMENT_HEADER_BYTES, Totals(), segment.left

    def _settle(self, segment: Segment) -> None:
        """Record the end of a segment: entries that were not found are lost."""
        if self._held is not None:
            self._journal.settle(segment, self._held(segment))
        elif segment.left == self._left:
            self._journal.settle(segment, self._seen)

    def _pass(self, entry: QueueEntry) -> None:
        self._offset, self._last = entry.end, entry.number
        self._seen = self._seen.plus(entry.totals)

    def _take(self, segment: Segment, chunk: bytes) -> list[QueueEntry]:
        """Read the headers in the chunk from here, up to the first unreadable one."""
        found = []
        begins = self._offset
        while self._offset - begins + segments.FRAME_HEADER_BYTES <= len(chunk):
            frame = segments.decode_frame(chunk, self._offset - begins, mark=self._journal.mark)
            if frame is None or self._offset + frame.length > segment.end:
                break
            entry = QueueEntry.of(frame, segment, self._offset)
            # Lower numbers belong to frames from before the file was truncated.
            if entry.number < segment.first or entry.number <= self._last or entry.has_left:
                self._offset = entry.end
            else:
                self._pass(entry)
                found.append(entry)
        return found

    async def _skip_damage(self, segment: Segment) -> None:
        """Move to the next frame behind unreadable bytes."""
        begins, mark = self._offset, self._journal.mark
        self._journal.report_damage(segment, lost=0)

        def search() -> int | None:
            try:
                region = files.read_whole(segment.path, limit=min(segment.end, LONGEST_BYTES)).data
            except OSError:
                return None
            return segments.find_frame(region, begins + 1, mark=mark)

        following = await self._journal.reader.run(search)
        if self._is_at(segment, begins):
            self._offset = segment.end if following is None else following
