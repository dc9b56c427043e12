"""A journal: segments in a folder, appended at one end, acknowledged in any order, given back when all left them.

Acknowledgements are written within 100 ms and never forced to disk: after a crash some batches are sent again.

A segment of which everything left is removed if it is the first one. Another one is emptied to its header, which says
so: a missing file in the middle would look lost. The last one stays, for its numbers; when nothing is queued, it is
sealed and emptied too, once it is long or its room is needed. None of that needs room on the disk. A segment that the
disk does not remove or empty is tried again every second; its acknowledgements were written before.
"""

import asyncio
import itertools
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import files, recovery, segments
from reconciler.delivery.queue.appender import Appender, Committer, write_all
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.files import QueueReader, System
from reconciler.delivery.queue.recovery import Recovered
from reconciler.delivery.queue.segments import (
    LONGEST_BYTES,
    SEGMENT_HEADER_BYTES,
    AcknowledgementWrite,
    Progress,
    QueueEntry,
    Segment,
    Totals,
)
from reconciler.model.text import counted

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
AGAIN_SECONDS = 1.0  # after a write that failed
ATTEMPTS = 2  # at the end: what a full disk does not take is sent again
EMPTY_BYTES = 8 << 20  # the last segment is emptied from this length on when nothing is queued
SMALL_BYTES = 64 << 10  # the same on a disk with little room, of which it may have the share below
SHARES = 16

NOT_WRITTEN = "What left the queue file %s could not be written down (%s); until it is, a crash sends it again."
NOT_GIVEN_BACK = "The queue file %s could not be %s (%s)."


class Shared(NamedTuple):
    """The parts that all queues share."""

    committer: Committer
    reader: QueueReader
    clock: Callable[[], int]


@dataclass(slots=True)
class _Step:
    """Work on one segment: write its acknowledgements, then remove or empty its file. Faults are set afterwards."""

    segment: Segment
    act: Callable[[System], None] | None
    verb: str
    write: AcknowledgementWrite | None
    fault: OSError | None = None
    write_fault: OSError | None = None
    is_skipped: bool = False


class Journal:
    """One journal. `committed` is called with entries that are on disk now.

    `left` is what is queued, `disk` its bytes on disk, `last` the highest committed number.
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
        self._dirty: dict[Segment, None] = {}
        self._busy: set[Segment] = set()
        self._retry: dict[Segment, None] = {}  # the disk failed something of these; they wait, and keep nobody waiting
        self._unwritten: set[Segment] = set()  # the last write of their acknowledgements failed
        self._stuck: set[Segment] = set()  # the disk failed to remove or empty their files
        self._timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
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
        """Begin to write: before that nothing is done to a file."""
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
        """Record that entries left. Entries that left before do not count again."""
        for entry in entries:
            if not entry.has_left:
                entry.segment.acknowledged.leave(entry.number, entry.totals)
                self._forget(entry.segment, entry.totals)

    def acknowledge_rest(self, segment: Segment, *, first: int, held: Totals) -> None:
        """Record that everything in a segment left from a number on, all but `held`, which is before it."""
        gone = segment.left.minus(held)
        last = segment.following.first - 1 if segment.following is not None else self.last
        if last >= first:
            segment.acknowledged.leave_range(first, last, gone)
        self._forget(segment, gone)

    def _forget(self, segment: Segment, totals: Totals) -> None:
        segment.left = segment.left.minus(totals)
        self.left = self.left.minus(totals)
        self._touch(segment)

    def try_batch(self, entry: QueueEntry, progress: Progress) -> None:
        """Record an attempt."""
        entry.segment.acknowledged.try_batch(entry.number, progress)
        self._touch(entry.segment)

    # Damage.

    def settle(self, segment: Segment, readable: Totals) -> None:
        """Everything in a segment was read, and only this much of what is left is there: the rest is lost."""
        if segment.left != readable:
            lost = segment.left.batches - readable.batches
            self.left = self.left.minus(segment.left).plus(readable)
            segment.left = readable
            self._touch(segment)
            self.report_damage(segment, lost=lost)

    def report_damage(self, segment: Segment, *, lost: int) -> None:
        """Something in a segment cannot be read: put the file in quarantine, for people to look at."""
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

    async def payload(self, entry: QueueEntry) -> bytes | None:
        """Return the payload of an entry; None when it is not there as it was written."""
        length = segments.FRAME_HEADER_BYTES + entry.size
        data = self.reader.now(entry.segment.path, entry.offset, length)
        found = self._checked(data, entry) if data is not None else None
        if found is None:
            try:
                found = self._checked(await self.reader.soon(entry.segment.path, entry.offset, length), entry)
            except OSError:
                return None
        return found

    def _checked(self, data: Piece, entry: QueueEntry) -> bytes | None:
        if len(data) != segments.FRAME_HEADER_BYTES + entry.size:
            return None
        frame = segments.decode_frame(data, 0, mark=self.mark)
        if frame is None or (frame.number, frame.size) != (entry.number, entry.size):
            return None
        payload = memoryview(data)[segments.FRAME_HEADER_BYTES :]
        return bytes(payload) if zlib.crc32(payload) == frame.checksum else None

    # Room.

    @property
    def is_empty(self) -> bool:
        """Nothing is queued, nor waits to be."""
        return self.left.batches <= 0 and not self.appender.waiting

    @property
    def kept(self) -> int:
        """The bytes on disk that stay when more is appended: a header when the journal is empty."""
        if self.is_empty and not self._stuck:
            return segments.SEGMENT_HEADER_BYTES
        going = [segment for segment in self._busy if segment.is_spent and segment not in self._stuck]
        return self.disk - sum(segment.counted - segments.SEGMENT_HEADER_BYTES for segment in going)

    def make_room(self) -> None:
        """Give back all bytes of an empty journal, before the next append is written."""
        if self.is_empty and self.segments:
            self._seal_last()
            self._tidy([*self._dirty, *self._retry, self.segments[-1]])

    def _seal_last(self) -> None:
        if not self.segments[-1].is_sealed and self.segments[-1].holds_bytes:
            self.segments[-1].is_sealed = True
            self.appender.seal()

    def _is_last_long(self) -> bool:
        long = min(EMPTY_BYTES, self.appender.roll_bytes, max(SMALL_BYTES, self._committer.space.spare // SHARES))
        return self.segments[-1].end >= long or self.appender.refused_at is not None

    # Writing acknowledgements, and giving files back.

    def _touch(self, segment: Segment) -> None:
        """Look at a segment within 100 ms."""
        if segment not in self._retry:
            self._dirty[segment] = None
            if self._timer is None and self._is_open:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._timer = None
        dirty = [segment for segment in self._dirty if segment not in self._busy]  # the end of those calls this again
        if self.segments and self.is_empty and self._is_last_long():
            self._seal_last()
            dirty.append(self.segments[-1])
        self._tidy(dirty)

    def _try_again(self) -> None:
        self._retry_timer = None
        retry, self._retry = self._retry, {}
        for segment in retry:
            self._touch(segment)

    def _tidy(self, dirty: Iterable[Segment]) -> None:
        """Do on the thread what is to be done for these, and remove the first segments of which everything left."""
        steps = []
        for segment in self._removable():
            steps.append(self._step(segment, "removed", partial(_remove, segment=segment)))
        for segment in dirty:
            self._dirty.pop(segment, None)
            if segment in self._busy:
                self._dirty[segment] = None
            elif segment.is_spent and segment.holds_bytes:
                steps.append(self._step(segment, "emptied", self._emptying(segment)))
            elif not segment.is_spent:
                steps.append(self._step(segment, "", None))
        steps = [step for step in steps if step.act is not None or step.write is not None]
        if steps:
            self._committer.do(lambda system: _run(system, steps), lambda _: self._end(steps))
        self._busy.update(step.segment for step in steps)

    def _removable(self) -> list[Segment]:
        """Return the first segments of which everything left. If one cannot be removed, none behind it is removed."""
        found = itertools.takewhile(
            lambda one: one.is_spent and one not in self._busy and one not in self._retry, self.segments[:-1]
        )
        first = [*found]
        return first[:1] if first and first[0] in self._stuck else first

    def _step(self, segment: Segment, verb: str, act: Callable[[System], None] | None) -> _Step:
        if act is not None:
            self._busy.add(segment)
            self.reader.forget(segment.path)  # a file keeps its room while it is open
        write = segment.acknowledged.take_write()
        return _Step(segment, act, verb, write)

    def _emptying(self, segment: Segment) -> Callable[[System], None]:
        """Return what leaves nothing of a segment but its header.

        A crash before the end leaves frames, or acknowledgements, that the header disowns.
        """
        # The last one says which number is next.
        first = segment.first if segment.following is not None else self.last + 1
        header = segments.encode_segment(
            self._header._replace(first=first, before=segment.before, made_at=segment.made_at, flags=segments.DRAINED)
        )
        path, is_damaged = segment.path, segment.is_damaged

        def empty(system: System) -> None:
            if is_damaged:
                replace(system, path=path, data=header)  # the bytes of the file itself are in quarantine
            else:
                write_at(system, path=path, data=header, offset=0, synced=True, cut=True)
            system.remove(path.with_suffix(segments.ACKNOWLEDGED))

        return empty

    def _end(self, steps: Sequence[_Step]) -> None:
        for step in steps:
            segment, acknowledged = step.segment, step.segment.acknowledged
            self._busy.discard(segment)
            if step.act is not None and step.fault is None and not step.is_skipped:
                segment.is_drained, segment.end = True, segments.SEGMENT_HEADER_BYTES
                acknowledged.file_removed()
                self.reader.forget(segment.path)  # it may have been read meanwhile
                self._unwritten.discard(segment)
                self._stuck.discard(segment)
                self._account(segment)
                if step.verb == "removed":
                    self.segments.remove(segment)
                    self.disk -= segment.counted
                continue
            if step.is_skipped:
                self._touch(segment)
            if step.fault is not None:
                if segment not in self._stuck:
                    log.warning(NOT_GIVEN_BACK, segment.path, step.verb, os.strerror(step.fault.errno or 0))
                self._stuck.add(segment)
                self._try_later(segment)
            if step.write_fault is not None:
                acknowledged.write_failed()
                if not self._unwritten:
                    log.warning(NOT_WRITTEN, segment.path, os.strerror(step.write_fault.errno or 0))
                self._unwritten.add(segment)
                self._try_later(segment)
            else:
                self._unwritten.discard(segment)
            self._account(segment)
        for segment in [*self._dirty, *self._removable()]:
            self._touch(segment)

    def _try_later(self, segment: Segment) -> None:
        self._committer.faults += 1
        self._dirty.pop(segment, None)
        self._retry[segment] = None
        if self._retry_timer is None and self._is_open:
            self._retry_timer = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._try_again)

    async def close(self) -> None:
        """Finish all writes, and close the files."""
        self._is_open = False
        while self.appender.waiting:
            await self._committer.idle()
        for timer in (self._timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        for _ in range(ATTEMPTS):
            await self._idle()
            self._dirty.update(self._retry)
            self._retry.clear()
            self._flush()
            await self._idle()
            if not self._retry:
                break
        self.appender.close()
        await self._committer.idle()
        for segment in self.segments:
            self.reader.forget(segment.path)

    async def _idle(self) -> None:
        while self._busy:
            await self._committer.idle()


# On the committer's thread.


def _run(system: System, steps: Sequence[_Step]) -> None:
    """Write acknowledgements, then give files back. A fault of one step keeps no other from running."""
    for step in steps:
        if step.write is not None:
            offset, data, is_anew = step.write
            path = step.segment.acknowledgements_path
            if is_anew:
                write = partial(replace, path=path, data=data)
            else:
                write = partial(write_at, path=path, data=data, offset=offset)
            step.write_fault = _attempt(write, system)
    is_removing = True
    for step in steps:
        if step.act is not None:
            step.is_skipped = step.verb == "removed" and not is_removing  # none behind a file that stays
            step.fault = None if step.is_skipped else _attempt(step.act, system)
            is_removing = is_removing and step.fault is None


def _attempt(act: Callable[[System], None], system: System) -> OSError | None:
    try:
        act(system)
    except OSError as fault:
        return fault
    return None


def _remove(system: System, *, segment: Segment) -> None:
    # In this order: acknowledged batches must not come back when a crash comes between the two.
    system.remove(segment.path)
    system.remove(segment.acknowledgements_path)


def replace(system: System, *, path: Path, data: bytes) -> None:
    """Give a file other bytes, all of them or none. Raises OSError."""
    other = path.with_name(f"{path.name}.new")
    try:
        write_at(system, path=other, data=data, offset=0, cut=True)
        other.rename(path)
    except OSError:
        system.remove(other)
        raise


def write_at(system: System, *, path: Path, data: bytes, offset: int, synced: bool = False, cut: bool = False) -> None:
    """Write bytes of a file, which is made when it is missing; with `cut` they are its end. Raises OSError."""
    descriptor = system.open(path, make=True)
    try:
        write_all(system, descriptor, [data], offset, synced=synced)
        if cut:
            system.cut(descriptor, offset + len(data))
    finally:
        system.close(descriptor)


CHUNK_BYTES = 16 << 10  # of one read: many headers of small batches, and not much more than one of a large batch
MOST_CHUNKS = 4  # at a stretch, when all in them has left


class JournalWalk:
    """A position in a journal. Entries that left are skipped.

    `held` returns how much of a segment the caller has read and not acknowledged: at the end of the segment, the rest
    of what is left is lost. Without it, that is only known when nothing leaves while the segment is read.
    """

    def __init__(self, journal: Journal, *, held: Callable[[Segment], Totals] | None = None) -> None:
        self._journal = journal
        self._held = held
        self._segment: Segment | None = None
        self._offset = SEGMENT_HEADER_BYTES
        self._last = 0  # the number that was read last
        self._seen = Totals()  # of this segment
        self._left = Totals()  # of this segment, when the walk came to it

    def step(self, entry: QueueEntry) -> bool:
        """Take an entry that was just committed, if it is the next one here."""
        if self._arrive() is not entry.segment or self._offset != entry.offset:
            return False
        self._pass(entry)
        return True

    def now(self) -> list[QueueEntry] | None:
        """Return the next entries, as far as the kernel has them in memory; None when the disk has to be asked."""
        found: list[QueueEntry] = []
        for _ in range(MOST_CHUNKS):
            segment = self._arrive()
            if segment is None:
                return found
            chunk = self._journal.reader.now(segment.path, self._offset, self._chunk(segment))
            if chunk is None or not self._take(segment, chunk, found):
                return None
            if found:
                return found
        return None

    async def soon(self) -> list[QueueEntry]:
        """Return the next entries from the disk; none at the end."""
        found: list[QueueEntry] = []
        while not found and (segment := self._arrive()) is not None:
            begins = self._offset
            try:
                chunk = await self._journal.reader.soon(segment.path, begins, self._chunk(segment))
            except OSError:
                chunk = b""
            if self._is_at(segment, begins) and not self._take(segment, chunk, found):
                await self._skip_damage(segment)
        return found

    def discard_rest(self) -> None:
        """Acknowledge everything beyond this position."""
        while (segment := self._arrive()) is not None:
            held = self._held(segment) if self._held is not None else Totals()
            self._journal.acknowledge_rest(segment, first=max(self._last + 1, segment.first), held=held)
            self._offset = segment.end

    def _is_at(self, segment: Segment, offset: int) -> bool:
        """Return true unless somebody went on, or the segment was used up, during a wait."""
        return segment is self._segment and offset == self._offset and not segment.is_spent

    def _chunk(self, segment: Segment) -> int:
        return min(CHUNK_BYTES, segment.end - self._offset)

    def _arrive(self) -> Segment | None:
        """Go to the segment that has the next frame, and return it."""
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
        """All of a segment was read: the entries that were not there are lost."""
        if self._held is not None:
            self._journal.settle(segment, self._held(segment))
        elif segment.left == self._left:
            self._journal.settle(segment, self._seen)

    def _pass(self, entry: QueueEntry) -> None:
        self._offset, self._last = entry.end, entry.number
        self._seen = self._seen.plus(entry.totals)

    def _take(self, segment: Segment, chunk: Piece, found: list[QueueEntry]) -> bool:
        """Read the headers in a chunk that begins here; False when there is none where one should be."""
        begins = self._offset
        while self._offset - begins + segments.FRAME_HEADER_BYTES <= len(chunk):
            frame = segments.decode_frame(chunk, self._offset - begins, mark=self._journal.mark)
            if frame is None or self._offset + frame.length > segment.end:
                return bool(found)
            entry = QueueEntry.of(frame, segment, self._offset)
            # Lower numbers are of frames that the file had before it was emptied.
            if entry.number < segment.first or entry.number <= self._last or entry.has_left:
                self._offset = entry.end
            else:
                self._pass(entry)
                found.append(entry)
        return self._offset > begins

    async def _skip_damage(self, segment: Segment) -> None:
        """Go to the next frame behind unreadable bytes."""
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
