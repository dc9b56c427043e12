"""A journal: segments in a folder, appended to at one end, from which anything leaves in any order.

Belongs here: which segments there are, what left them, when that is written, when a file goes. Does not: appending
(`appending`), who claims what (`line`), reading (`walking`).

What left is written at most every 100 ms and never synchronised: a crash means that some of it is sent again. A segment
of which all left is removed when it is the first one; elsewhere it is emptied to its header, which then says so, so
that a file that is missing is never taken for one that was used up. The last one stays, for its numbers: when all that
is queued has left, it is emptied in place, once it is long or its room is needed. None of that needs room on the
disk.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from reconciler.counting import counted
from reconciler.queueing import acknowledging, quarantine, segments, used_files
from reconciler.queueing.appending import Appender
from reconciler.queueing.committer import Committer, File
from reconciler.queueing.entries import Entry
from reconciler.queueing.number_sets import Numbers
from reconciler.queueing.recovery import Recovered
from reconciler.queueing.segments import Progress, Segment, Totals
from reconciler.queueing.space import Space
from reconciler.queueing.system import System
from reconciler.queueing.used_files import Write

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
AGAIN_SECONDS = 1.0  # after a write that failed
ATTEMPTS = 2  # at the end: what a full disk does not take is sent again
EMPTY_BYTES = 8 << 20  # from which on the last segment is emptied when nothing is queued
SMALL_BYTES = 64 << 10  # the same on a disk with little room, of which it may have the share below
SHARES = 16

NOT_GIVEN_BACK = "The queue file %s could not be %s (%s)."


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
        committed: Callable[[Sequence[Entry]], None],
        refused: Callable[[Sequence[Entry]], None],
        forget: Callable[[Path], None],
    ) -> None:
        """`space` is that of the disk that the folder is on."""
        self.folder = folder
        self.mark = recovered.header.mark
        self.segments = list(recovered.segments)
        self.left = Totals()
        for segment in self.segments:
            self.left = self.left.plus(segment.left)
        self.disk = sum(segment.end + segment.acknowledged for segment in self.segments)
        self.quarantined = recovered.quarantined
        self.lost = recovered.lost
        self.last = recovered.header.first - 1  # the highest number that is committed
        self._kind = recovered.header.kind
        self._header = recovered.header
        self._committer = committer
        self._heard = committed
        self._forget = forget
        self._space = space
        self._dirty: dict[Segment, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_flushing = False
        self._is_refused = False  # whether the last flush failed
        self._stuck: Segment | None = None  # the last one, if it could not be emptied
        self._is_closed = False
        self.appender = Appender(
            folder,
            header=recovered.header,
            committer=committer,
            clock=clock,
            committed=self._committed,
            refused=refused,
        )
        for segment in self.segments:
            if segment.left.batches <= 0:  # a crash may have come before it went
                self._touch(segment)

    def _committed(self, segment: Segment, entries: Sequence[Entry], is_new: bool) -> None:
        if is_new:
            if self.segments:
                self.segments[-1].following = segment
                self.segments[-1].is_sealed = True
                self._touch(self.segments[-1])
            self.segments.append(segment)
            self.disk += segments.HEADER_BYTES
        self.last = entries[-1].number
        size = sum(entry.size for entry in entries)
        added = Totals(len(entries), sum(entry.records for entry in entries), size)
        self.left = self.left.plus(added)
        self.disk += segments.length(added) - segments.HEADER_BYTES
        self._heard(entries)

    # What leaves.

    def acknowledge(self, entries: Sequence[Entry]) -> None:
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
            segment.unwritten.append(acknowledging.done(entry.number, totals, mark=self.mark))
            batches, records, size = batches + 1, records + entry.records, size + entry.size
            self._touch(segment)
        self.left = self.left.minus(Totals(batches, records, size))

    def progressed(self, entry: Entry, progress: Progress) -> None:
        """Remember what was tried. Only the last of several within 100 ms is written."""
        entry.segment.progress[entry.number] = progress
        entry.segment.unsaved.add(entry.number)
        self._touch(entry.segment)

    def replayed(self, entry: Entry, died: int) -> None:
        """Remember of a batch that was a dead letter when it died first."""
        entry.segment.died[entry.number] = died
        entry.segment.unwritten.append(acknowledging.replayed(entry.number, died, mark=self.mark))
        self._touch(entry.segment)

    def acknowledge_rest(self, segment: Segment, first: int, last: int) -> Totals:
        """All of a segment left that is not `out`, with numbers from `first` to `last`: how much that was."""
        gone = segment.left.minus(segment.out).at_least_nothing()
        numbers = Numbers(first)
        numbers.add_bits(first, _ones(last - first + 1))
        segment.unwritten.append(acknowledging.several(first, numbers.bits(), gone, mark=self.mark))
        segment.done.add_bits(first, numbers.bits())
        segment.left, segment.gone = segment.left.minus(gone), segment.gone.plus(gone)
        self.left = self.left.minus(gone)
        self._touch(segment)
        return gone

    def settle(self, segment: Segment, readable: Totals) -> None:
        """All of a segment was read, and so much of what should not have left is there: the rest is lost."""
        missing = segment.left.minus(readable)
        if missing == Totals():
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
        self._committer.do(lambda _: quarantine.copy(segment.path, kind=self._kind), quarantine.told(segment.path))

    # Writing down what left.

    def _touch(self, segment: Segment) -> None:
        self._dirty[segment] = None
        if self._timer is None and not self._is_flushing:
            self._wait(FLUSH_SECONDS)

    def _wait(self, seconds: float) -> None:
        if not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._flush)

    def _flush(self) -> None:
        """Write what is to be written, in one go; one is under way at a time."""
        self._timer = None
        if self._is_flushing:
            return  # its end comes back to this
        dirty, self._dirty = self._dirty, {}
        self._tidy(dirty)
        self._put_down(dirty)

    def _put_down(self, dirty: Iterable[Segment]) -> None:
        writes = [write for segment in dirty if not segment.is_gone and (write := self._write(segment)) is not None]
        if not writes:
            return
        self._is_flushing = True

        def chore(system: System) -> None:
            for write in writes:
                used_files.put(system, write)

        def ended(failure: Exception | None) -> None:
            self._is_flushing, self._is_refused = False, failure is not None
            for write in writes if failure is not None else ():
                self._take_back(write)
            if self._dirty and self._timer is None:
                self._wait(AGAIN_SECONDS if failure is not None else FLUSH_SECONDS)

        self._committer.do(chore, ended)

    def _write(self, segment: Segment) -> Write | None:
        """What is to be written of a segment: what is new, or all anew once that is far less than the file has."""
        if self.appender.is_held and segment is self.segments[-1]:
            return None  # it is being emptied, and its file of acknowledgements goes
        if segment.acknowledged >= acknowledging.rewrite_at(
            len(segment.progress) + len(segment.died), segment.done.size
        ):
            segment.unwritten.clear()
            segment.unsaved = set(segment.progress)
            segment.unwritten.append(
                acknowledging.several(segment.done.first, segment.done.bits(), segment.gone, mark=self.mark)
            )
            segment.unwritten += [
                acknowledging.replayed(number, died, mark=self.mark) for number, died in sorted(segment.died.items())
            ]
            return self._taken(segment, offset=0, is_anew=True)
        if not segment.unwritten and not segment.unsaved:
            return None
        return self._taken(segment, offset=segment.acknowledged, is_anew=False)

    def _taken(self, segment: Segment, *, offset: int, is_anew: bool) -> Write:
        records = [] if offset else [acknowledging.MAGIC]
        records += segment.unwritten
        records += [
            acknowledging.progressed(number, segment.progress[number], mark=self.mark)
            for number in sorted(segment.unsaved)
        ]
        data = b"".join(records)
        before, segment.acknowledged = segment.acknowledged, offset + len(data)
        self.disk += segment.acknowledged - before
        write = Write(segment, offset, data, before, is_anew, segment.unwritten, segment.unsaved)
        segment.unwritten, segment.unsaved = [], set()
        return write

    def _take_back(self, write: Write) -> None:
        """A write failed: what it had is written with what is next."""
        segment = write.segment
        if segment.is_gone:
            return
        if not write.is_anew:
            segment.unwritten = write.records + segment.unwritten
            segment.unsaved |= write.unsaved & segment.progress.keys()
        self.disk -= segment.acknowledged - write.before
        segment.acknowledged = write.before
        self._dirty[segment] = None

    # Files that go.

    def _tidy(self, dirty: Sequence[Segment] | dict[Segment, None]) -> None:
        for segment in dirty:
            if (
                segment.is_sealed
                and not segment.is_gone
                and segment.left.batches <= 0
                and segment is not self.segments[-1]
            ):
                segment.is_gone = True
                if segment is not self.segments[0]:
                    self._empty(segment)
        while len(self.segments) > 1 and self.segments[0].is_gone:
            self._remove(self.segments.pop(0))
        if self._may_empty_last() and self._is_last_long():
            self._empty_last()

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is queued, nor waits to be."""
        return self.left.batches <= 0 and self.appender.is_idle

    @property
    def kept(self) -> int:
        """The bytes on disk that stay there when more is appended: no more than a header when nothing is queued."""
        return segments.HEADER_BYTES if self.is_used_up or self.appender.is_held else self.disk

    def make_room(self) -> None:
        """Give back what is not `kept`, before what is appended next is written."""
        if not self.is_used_up or self.appender.is_held:
            return
        self._tidy([*self._dirty])
        if self._may_empty_last():
            self._empty_last()
        elif self.segments and self.segments[-1].is_damaged:
            self.appender.let_go()  # the next append begins another segment, and this one goes

    def _remove(self, segment: Segment) -> None:
        self.disk -= segment.end + segment.acknowledged
        self._forget(segment.path)  # an open file keeps its room

        def chore(system: System) -> None:
            # In this order: what is acknowledged must not come back when a crash comes between the two.
            system.remove(segment.path)
            system.remove(segment.acknowledgements)

        self._committer.do(chore, self._given_back("removed", segment.path))

    def _empty(self, segment: Segment) -> None:
        header = self._header._replace(
            first=segment.first, before=segment.before, made_at=segment.made_at, flags=segments.DRAINED
        )
        self.disk -= segment.end - segments.HEADER_BYTES + segment.acknowledged
        segment.end, segment.acknowledged = segments.HEADER_BYTES, 0
        act = used_files.replace if segment.is_damaged else used_files.empty
        file, data = File(segment.path), segments.encode(header)
        self._committer.do(lambda system: act(system, file, data), self._given_back("emptied", segment.path))

    def _given_back(self, what: str, path: Path) -> Callable[[Exception | None], None]:
        def told(failure: Exception | None) -> None:
            self._space.look_again()
            if isinstance(failure, OSError):
                log.warning(NOT_GIVEN_BACK, path, what, os.strerror(failure.errno or 0))

        return told

    def _may_empty_last(self) -> bool:
        if len(self.segments) != 1 or self.left.batches > 0 or not self.appender.is_idle or self.appender.is_held:
            return False
        last = self.segments[0]
        return last.end > segments.HEADER_BYTES and not last.is_damaged

    def _is_last_long(self) -> bool:
        long = min(EMPTY_BYTES, self.appender.roll_bytes, max(SMALL_BYTES, self._space.spare() // SHARES))
        last = self.segments[-1]
        return last.end >= long or last is self._stuck or self.appender.refused_at is not None

    def _empty_last(self) -> None:
        last = self.segments[0]
        file = self.appender.file or File(last.path)
        self.appender.is_held = True
        header = self.appender.emptied()
        unwritten, last.unwritten = last.unwritten, []

        def ended(failure: Exception | None) -> None:
            self.appender.is_held = False
            if failure is None:
                last.is_gone = True
                last.following = self.appender.restart(last)
                self.segments, self._stuck = [last.following], None
                self.disk -= last.end - segments.HEADER_BYTES + last.acknowledged
                self._space.look_again()
            else:
                last.unwritten = unwritten + last.unwritten
                self._not_emptied(last, failure)
            self._committer.wants(self.appender)

        self._committer.do(lambda system: used_files.empty(system, file, header), ended)

    def _not_emptied(self, last: Segment, failure: Exception) -> None:
        """What is in the file now, and of which header, is unknown: nothing is appended to it any more. It is emptied
        later, or removed when there is another one.
        """
        self._committer.faults += 1
        if self._stuck is not last:
            log.warning(NOT_GIVEN_BACK, last.path, "emptied", os.strerror(getattr(failure, "errno", None) or 0))
        self._stuck = last
        self.appender.let_go()
        last.is_sealed = True
        self._put_down([last])
        self._dirty[last] = None
        if self._timer is None:
            self._wait(AGAIN_SECONDS)

    async def close(self) -> None:
        """Write all that is to be written, and close the files."""
        self.appender.stop()
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        while not self.appender.is_idle:
            await self._committer.done(_nothing)
        for _ in range(ATTEMPTS):
            while self._is_flushing or self.appender.is_held:
                await self._committer.done(_nothing)
            self._flush()
            while self._is_flushing or self.appender.is_held:
                await self._committer.done(_nothing)
            if not self._is_refused:
                break
        self.appender.let_go()
        await self._committer.done(_nothing)


def _ones(count: int) -> bytes:
    return ((1 << count) - 1).to_bytes((count + 7) // 8, "little")


def _nothing(_: System) -> None:
    """Waits for what was asked for before."""
