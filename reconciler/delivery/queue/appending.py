"""Appending to a journal."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import frames
from reconciler.delivery.queue.committer import CommitFile, Committer, QueueCommit
from reconciler.delivery.queue.contract import Piece, QueueFault
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.frames import NumberSet, QueueEntry, Segment, SegmentTotals

log = logging.getLogger(__name__)

MOST_COMMIT_BYTES = 16 << 20  # of one round and file; what is more waits for the next
INTERVAL_SECONDS = 0.5  # between two synchronisations, where settings want them so

FAULT = "The disk could not take the records ({}); nothing of them was kept."
REFUSES = "The disk does not take what is written to the queue in %s (%s); until it does, that is refused."
TAKES = "The disk takes what is written to the queue in %s again."
DOUBTFUL = "The disk could not be made to keep what the queue in %s took last (%s); a power cut may lose it."


class Mode(NamedTuple):
    """When appends are forced to disk: before they are done, or so often, or never."""

    synced: bool = True
    interval: bool = False


class _Waiting(NamedTuple):
    entry: QueueEntry
    header: bytes
    payload: Sequence[Piece]
    heard: asyncio.Future[None]
    synced: bool


@dataclass(slots=True)
class _UnderWay:
    waiting: list[_Waiting]
    segment: Segment
    new: bool


class Appender:
    """The end of a journal. `mode`, `roll_bytes` may be changed at any time."""

    def __init__(
        self,
        folder: Path,
        *,
        header: frames.SegmentHeader,
        committer: Committer,
        clock: Callable[[], int],
        committed: Callable[[Segment, Sequence[QueueEntry], bool], None],
        refused: Callable[[Sequence[QueueEntry]], None],
    ) -> None:
        """`header` has the kind and mark, the next number and the totals so far; `committed` hears of each round that
        went well, with its entries and whether the segment is new, `refused` of one that did not. Nothing is appended
        to a file that was there before.
        """
        self.mode = Mode()
        self.roll_bytes = frames.ROLL_BYTES
        self.waiting_size = self.waiting_records = 0
        self.refused_at: float | None = None  # when the disk last took nothing, in seconds of the loop
        self.is_held = False  # while the last segment is being emptied
        self._folder = folder
        self._header = header
        self._committer = committer
        self._clock = clock
        self._committed = committed
        self._refused = refused
        self._next = header.first
        self._totals = header.before
        self._waiting: deque[_Waiting] = deque()
        self._under_way: _UnderWay | None = None
        self._segment: Segment | None = None
        self._file: CommitFile | None = None
        self._is_unsynced = False
        self._is_sync_due = False
        self._is_sync_refused = False  # whether `refused_at` is that of a synchronisation
        self._timer: asyncio.TimerHandle | None = None
        self._unknown = Segment(folder, 0, SegmentTotals())  # of entries that wait

    @property
    def waiting(self) -> int:
        """Batches that are not on disk."""
        return len(self._waiting) + (len(self._under_way.waiting) if self._under_way else 0)

    @property
    def next_number(self) -> int:
        """Of what is appended next."""
        return self._next

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting or under way."""
        return not self._waiting and self._under_way is None

    def append(
        self, payload: Sequence[Piece], *, records: int, at: int, keep: bool, synced: bool, flags: int = frames.BATCH
    ) -> asyncio.Future[None]:
        """Take a payload; the future is done when it is where the mode wants it, or on disk if `synced`."""
        size = sum(map(len, payload))
        frame = frames.Frame(self._next, records, size, at, frames.checksum(payload), flags)
        entry = QueueEntry(self._next, records, size, at, self._unknown)
        if keep:
            entry.kept = payload[0] if len(payload) == 1 and isinstance(payload[0], bytes) else b"".join(payload)
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(entry, frames.header(frame, mark=self._header.mark), payload, heard, synced))
        self._next += 1
        self.waiting_size += size + frames.HEADER_BYTES
        self.waiting_records += records
        self._committer.wants(self)
        return heard

    def restart(self, old: Segment) -> Segment:
        """Forget the last segment, which was emptied, for one in the same file that begins with the next number."""
        first = self._waiting[0].entry.number if self._waiting else self._next
        self._segment = Segment(old.path, first, self._totals, made_at=old.made_at)
        self._segment.done = NumberSet(first)
        return self._segment

    def emptied(self) -> bytes:
        """The header of the segment that `restart` will give."""
        first = self._waiting[0].entry.number if self._waiting else self._next
        return frames.encode_segment(self._header._replace(first=first, before=self._totals, made_at=self._clock()))

    @property
    def file(self) -> CommitFile | None:
        """The file of the segment that is appended to."""
        return self._file

    def prepare(self) -> QueueCommit | None:
        """For the committer: what can be written now."""
        if self._under_way is not None or self.is_held:
            return None
        if not self._waiting:
            return self._synchronisation()
        taken = self._take()
        is_new = self._file is None or self._segment is None or self._segment.end >= self.roll_bytes
        segment = self._fresh(taken[0].entry.number) if is_new else self._segment
        assert segment is not None
        self._under_way = _UnderWay(taken, segment, is_new)
        return self._commit(taken, segment, is_new)

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        size, most = 0, min(MOST_COMMIT_BYTES, self.roll_bytes)
        while self._waiting and (not taken or size + _length(self._waiting[0]) <= most):
            taken.append(self._waiting.popleft())
            size += _length(taken[-1])
        return taken

    def _fresh(self, first: int) -> Segment:
        segment = Segment(self._folder / frames.segment_name(first), first, self._totals, made_at=self._clock())
        segment.done = NumberSet(first)
        return segment

    def _commit(self, taken: Sequence[_Waiting], segment: Segment, is_new: bool) -> QueueCommit:
        buffers: list[Piece] = []
        offset = 0 if is_new else segment.end
        at = segment.end
        if is_new:
            header = self._header._replace(first=segment.first, before=segment.before, made_at=segment.made_at)
            buffers.append(frames.encode_segment(header))
            file = CommitFile(segment.path)
        else:
            assert self._file is not None
            file = self._file
        for entry, head, payload, _, _ in taken:
            entry.segment, entry.offset = segment, at
            at += frames.HEADER_BYTES + entry.size
            buffers.append(head)
            buffers.extend(payload)
        synced = self.mode.synced or any(one.synced for one in taken)
        thorough = not is_new and self._is_sync_due and self._is_unsynced  # another file synchronises nothing of this
        if thorough:
            self._is_sync_due = self._is_unsynced = False
        return QueueCommit(file, offset, buffers, at - offset, synced or thorough, thorough, is_new, self._ended)

    def _synchronisation(self) -> QueueCommit | None:
        if not self._is_sync_due or not self._is_unsynced or self._file is None or self._segment is None:
            return None
        self._is_sync_due = self._is_unsynced = False
        return QueueCommit(self._file, self._segment.end, [], 0, True, True, False, self._synchronised)

    def _synchronised(self, commit: QueueCommit) -> None:
        if commit.fault is not None:
            self._fail(commit)
        elif self._is_sync_refused:  # else it says nothing of writing
            self._recover()

    def _ended(self, commit: QueueCommit) -> None:
        under_way = self._under_way
        assert under_way is not None
        self._under_way = None
        entries = [one.entry for one in under_way.waiting]
        self.waiting_size -= sum(entry.size + frames.HEADER_BYTES for entry in entries)
        self.waiting_records -= sum(entry.records for entry in entries)
        if commit.fault is None:
            self._keep(commit, under_way, entries)
        else:
            self._fail(commit)
            self._refused(entries)
            fault = QueueFault(FAULT.format(commit.fault.strerror))
            for one in under_way.waiting:
                if not one.heard.done():
                    one.heard.set_exception(fault)
        if self._waiting or self._is_sync_due:
            self._committer.wants(self)

    def _keep(self, commit: QueueCommit, under_way: _UnderWay, entries: Sequence[QueueEntry]) -> None:
        segment = under_way.segment
        self._recover()
        if under_way.new:
            self.let_go()
            self._segment, self._file = segment, commit.file
        segment.end = commit.offset + commit.size
        added = SegmentTotals(
            len(entries), sum(entry.records for entry in entries), sum(entry.size for entry in entries)
        )
        segment.left = segment.left.plus(added)
        self._totals = self._totals.plus(added)
        if not commit.synced:
            self._unsynced()
        self._committed(segment, entries, under_way.new)
        for one in under_way.waiting:
            if not one.heard.done():
                one.heard.set_result(None)

    def _recover(self) -> None:
        if self.refused_at is not None:
            log.warning(TAKES, self._folder)
        self.refused_at = None

    def _fail(self, commit: QueueCommit) -> None:
        assert commit.fault is not None
        if self.refused_at is None:
            log.error(REFUSES, self._folder, commit.fault.strerror)
        self._is_sync_refused = not commit.buffers and (self.refused_at is None or self._is_sync_refused)
        self.refused_at = asyncio.get_running_loop().time()
        if commit.spoiled and not commit.new:
            self._file = None  # the next append begins another segment
            if commit.thorough or (self._is_unsynced and self._wants_syncs):
                self._doubt(commit.fault)
            self._is_unsynced = False
        elif commit.thorough:
            self._unsynced()  # it is tried again

    def _doubt(self, fault: OSError) -> None:
        log.error(DOUBTFUL, self._folder, os.strerror(fault.errno or 0))

    def _unsynced(self) -> None:
        self._is_unsynced = True
        if self.mode.interval and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._sync_due)

    def _sync_due(self) -> None:
        self._timer = None
        self._is_sync_due = True
        self._committer.wants(self)

    def let_go(self) -> None:
        """Close the file; before that, what no synchronisation has seen is synchronised, unless nobody wants that."""
        file, self._file = self._file, None
        if file is None:
            return
        is_due = self._is_unsynced and self._wants_syncs
        self._is_unsynced = self._is_sync_due = False

        def close(system: System) -> None:
            try:
                if is_due:
                    system.synchronise(file.descriptor)
            finally:
                system.close(file.descriptor)

        def closed(failure: Exception | None) -> None:
            if is_due and isinstance(failure, OSError):
                self._committer.faults += 1
                self._doubt(failure)

        self._committer.do(close, closed)

    @property
    def _wants_syncs(self) -> bool:
        return self.mode.synced or self.mode.interval

    def stop(self) -> None:
        """No synchronisation is due any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _length(one: _Waiting) -> int:
    return frames.HEADER_BYTES + one.entry.size
