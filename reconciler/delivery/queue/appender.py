"""The end of a journal, where batches are appended, and the committer: one thread that writes for all queues.

One commit of a journal is in progress at a time. Batches that arrive meanwhile form the next commit, which begins when
the loop learns that this one ended: nothing waits for a timer, and 64 senders share one sync. Small requests of one
commit share a batch.

The loop prepares lists of buffers. The thread only makes system calls, which release the interpreter's lock. A disk
that hangs blocks this thread, never the event loop.
"""

import asyncio
import contextlib
import errno
import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from reconciler.delivery.queue import segments
from reconciler.delivery.queue.contract import Piece, QueueFault
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.segments import Acknowledgements, Frame, QueueEntry, Segment, SegmentHeader
from reconciler.model.routes import Sync

log = logging.getLogger(__name__)

PLENTY = 1 << 62
MOST_PIECES = 1000  # of one call; the kernel takes 1024
END_SECONDS = 30.0  # for all writes at the end; a disk that hangs does not keep the service from ending
HANG_SECONDS = 30.0  # without an answer of the disk; then nothing is accepted until it answers

HANGS = "The disk of the queues in %s does not answer; until it does, they take nothing more."
ANSWERS = "The disk of the queues in %s answers again."

Work: TypeAlias = Callable[[System], None]
Ended: TypeAlias = Callable[[Exception | None], None]


class Committer:
    """The thread that writes for all queues. Use it from one loop. The thread starts with the first piece of work.

    `spare` is the number of bytes that may be written to the disk of a folder so that `reserve` stays free, measured
    after the last work. It is negative if less is free.
    """

    def __init__(self, system: System, folder: Path, *, reserve: int) -> None:
        self.faults = 0  # writes that the disk failed
        self.spare = PLENTY
        self._system = system
        self._folder = folder
        self._reserve = reserve
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_measuring = False
        self.is_hanging = False
        self._unanswered = 0  # pieces of work
        self._watch: asyncio.TimerHandle | None = None  # rings when the disk hangs

    def do(self, work: Work, ended: Ended) -> None:
        """Run something on the thread after all earlier work; `ended` is called on the loop, with the error if any."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            failure: Exception | None = None
            try:
                work(self._system)
            except Exception as fault:  # the caller hears of it; the thread serves all queues
                failure = fault
            self.measure()
            with contextlib.suppress(RuntimeError):  # the loop ended and did not close the queues
                loop.call_soon_threadsafe(self._answer, ended, failure)

        self._unanswered += 1
        if self._watch is None:
            self._watch = loop.call_later(HANG_SECONDS, self._hang)
        if self._thread is None:
            # A daemon: the process ends although a call hangs.
            self._thread = threading.Thread(target=_serve, args=(self._requests,), name="queues", daemon=True)
            self._thread.start()
        self._requests.put(run)

    def _answer(self, ended: Ended, failure: Exception | None) -> None:
        self._unanswered -= 1
        if self._watch is not None:
            self._watch.cancel()
        if self.is_hanging:
            log.warning(ANSWERS, self._folder)
        self.is_hanging = False
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(HANG_SECONDS, self._hang) if self._unanswered else None
        ended(failure)

    def _hang(self) -> None:
        """Record that the disk does not answer."""
        self.is_hanging = True
        self.faults += 1
        log.error(HANGS, self._folder)

    def measure(self) -> None:
        """Ask the file system for its free space, which may wait for the disk."""
        try:
            found = os.statvfs(self._folder)
        except OSError:  # the append will say what is wrong
            self.spare = PLENTY
        else:
            self.spare = found.f_bavail * found.f_frsize - self._reserve

    async def idle(self) -> None:
        """Wait for all earlier work."""
        ended = asyncio.Event()
        self.do(lambda _: None, lambda _: ended.set())
        await ended.wait()

    def has_space(self, size: int) -> bool:
        """Return True if this many bytes may be written. If not, measure the disk again."""
        if self.is_hanging:
            return False
        if self.spare >= size:
            return True
        if not self._is_measuring:
            self._is_measuring = True
            self.do(lambda _: None, self._space_measured)
        return False

    def _space_measured(self, _: Exception | None) -> None:
        self._is_measuring = False

    def stop(self) -> None:
        """End the thread after its present work."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread = None


def _serve(requests: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    while (run := requests.get()) is not None:
        run()
        del run  # it has the bytes of its records


def write_all(system: System, descriptor: int, buffers: Sequence[Piece], offset: int, *, synced: bool) -> None:
    """Write buffers at an offset, with one call if the kernel takes them at once. Raises OSError."""
    left = buffers
    while left:
        written = system.write(descriptor, left[:MOST_PIECES], offset, synced=synced)
        if written == 0 and any(map(len, left[:MOST_PIECES])):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left, offset = rest(left, written), offset + written


def rest(buffers: Sequence[Piece], written: int) -> list[Piece]:
    """Return the rest of the buffers after this many bytes are written."""
    for place, buffer in enumerate(buffers):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *buffers[place + 1 :]]
        written -= len(buffer)
    return []


MOST_COMMIT_BYTES = 16 << 20
INTERVAL_SECONDS = 0.5  # between two synchronisations with `sync: interval`

FAULT = "The disk could not take the records ({}); nothing of them was kept."
REFUSES = "The disk does not take what is written to the queue in %s (%s); until it does, that is refused."
TAKES = "The disk takes what is written to the queue in %s again."
DOUBTFUL = "The disk could not be made to keep what the queue in %s took last (%s); a power cut may lose it."


JOINED_RECORDS = 256  # of small appends in one batch: if an endpoint refuses one record, the others follow soon
JOINED_BYTES = 64 << 10  # of one batch of small appends; a larger append is a batch by itself


class _Waiting(NamedTuple):
    """An append that is not on disk yet."""

    payload: Sequence[Piece]
    size: int
    records: int
    at: int
    flags: int
    synced: bool
    joins: bool
    written: asyncio.Future[None]


class Appender:
    """The end of one journal. `sync` and `roll_bytes` may be changed at any time. `committed` is called after each
    successful commit, with its segment and entries. `refused_at` is when the disk last failed, in seconds of the loop,
    or None.
    """

    def __init__(
        self,
        folder: Path,
        *,
        header: SegmentHeader,
        committer: Committer,
        clock: Callable[[], int],
        committed: Callable[[Segment, Sequence[QueueEntry]], None],
    ) -> None:
        """`header` has the kind and mark, the next number and the totals so far. Nothing is appended to old files."""
        self.sync = Sync.COMMIT
        self.roll_bytes = segments.ROLL_BYTES
        self.next_number = header.first
        self.waiting_size = self.waiting_records = 0
        self.refused_at: float | None = None
        self._folder = folder
        self._header = header
        self._committer = committer
        self._clock = clock
        self._committed = committed
        self._totals = header.before
        self._waiting: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._is_due = False
        self._segment: Segment | None = None  # None when the next append begins another one
        self._is_unsynced = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of batches that are not on disk yet."""
        return len(self._waiting) + len(self._under_way)

    def was_refused(self, *, within: float) -> bool:
        """Return True if the disk failed in the last `seconds`."""
        return self.refused_at is not None and asyncio.get_running_loop().time() < self.refused_at + within

    def append(
        self,
        payload: Sequence[Piece],
        *,
        records: int,
        at: int,
        synced: bool = False,
        joins: bool = False,
        flags: int = segments.BATCH,
    ) -> asyncio.Future[None]:
        """Append a payload. The future is done when it is written as `sync` says; if `synced`, when it is on disk. If
        it `joins`, it may share one batch with others that do.
        """
        size = sum(map(len, payload))
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(payload, size, records, at, flags, synced, joins, written))
        self.waiting_size += segments.FRAME_HEADER_BYTES + size
        self.waiting_records += records
        self._commit_soon()
        return written

    def _commit_soon(self) -> None:
        """Begin a commit at the end of this turn of the loop, with everything that was appended in it."""
        if not self._is_due and not self._under_way:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._commit)

    def _commit(self) -> None:
        self._is_due = False
        size, most = 0, min(MOST_COMMIT_BYTES, self.roll_bytes)
        buffers: list[Piece] = []
        frames: list[Frame] = []
        while self._waiting and (not frames or size + segments.FRAME_HEADER_BYTES + self._waiting[0].size <= most):
            joined = self._next_batch()
            frame = _frame(self.next_number, joined)
            self.next_number += 1
            frames.append(frame)
            self._under_way += joined
            buffers.append(segments.encode_frame(frame, mark=self._header.mark))
            buffers += [piece for one in joined for piece in one.payload]
            size += frame.length
        synced = self.sync is Sync.COMMIT or any(one.synced for one in self._under_way)
        segment, offset = self._segment, 0
        if segment is not None and segment.end < self.roll_bytes:
            offset = segment.end
        else:
            first = frames[0].number
            path = self._folder / segments.segment_name(first)
            acknowledged = Acknowledgements(first, mark=self._header.mark)
            segment = Segment(path, first, self._totals, acknowledged, self._clock())
            header = self._header._replace(first=first, before=self._totals, made_at=segment.made_at)
            buffers.insert(0, segments.encode_segment(header))
        self._committer.do(
            lambda system: _append(system, segment.path, buffers, offset, synced=synced),
            lambda failure: self._end(failure, segment, frames, synced=synced),
        )

    def _next_batch(self) -> list[_Waiting]:
        """Take the next batch: one append, or several small ones.

        Each batch has a fixed cost at every step, from its frame on disk to its acknowledgement.
        """
        joined = [self._waiting.popleft()]
        records, size = joined[0].records, joined[0].size
        while self._waiting and joined[0].joins and self._waiting[0].joins:
            records, size = records + self._waiting[0].records, size + self._waiting[0].size
            if records > JOINED_RECORDS or size > JOINED_BYTES:
                break
            joined.append(self._waiting.popleft())
        return joined

    def _end(self, failure: Exception | None, segment: Segment, frames: Sequence[Frame], *, synced: bool) -> None:
        written, self._under_way = self._under_way, []
        self.waiting_size -= sum(segments.FRAME_HEADER_BYTES + one.size for one in written)
        self.waiting_records -= sum(one.records for one in written)
        if failure is None:
            self._keep(frames, segment, synced=synced)
        else:
            self._fail(failure)
            self.seal()
        for one in written:
            if one.written.done():
                continue
            if failure is None:
                one.written.set_result(None)
            else:
                one.written.set_exception(QueueFault(FAULT.format(_reason(failure))))
        if self._waiting:
            self._commit_soon()

    def _keep(self, frames: Sequence[Frame], segment: Segment, *, synced: bool) -> None:
        if self.refused_at is not None:
            log.warning(TAKES, self._folder)
        self.refused_at = None
        if segment is not self._segment:
            self.seal()
            self._segment = segment
        entries = []
        for frame in frames:
            entries.append(QueueEntry.of(frame, segment, segment.end))
            segment.end += frame.length
        added = segments.sum_frames(entries)
        segment.left = segment.left.plus(added)
        self._totals = self._totals.plus(added)
        if not synced and self.sync is Sync.INTERVAL:
            self._is_unsynced = True
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._synchronise)
        self._committed(segment, entries)

    def _fail(self, failure: Exception) -> None:
        self._committer.faults += 1
        if self.refused_at is None:
            log.error(REFUSES, self._folder, _reason(failure))
        self.refused_at = asyncio.get_running_loop().time()

    def _synchronise(self) -> None:
        """Force the last half second to disk."""
        self._timer = None
        if self._segment is not None and self._is_unsynced:
            self._force(self._segment)

    def _force(self, segment: Segment) -> None:
        """Force a segment to disk. After a failure the segment is not used any more, and a new one begins."""
        self._is_unsynced = False

        def ended(failure: Exception | None) -> None:
            if failure is None:
                return
            if segment is self._segment:
                self._fail(failure)
                self.seal()
            else:
                self._committer.faults += 1
            log.error(DOUBTFUL, self._folder, _reason(failure))

        self._committer.do(lambda system: _synchronise(system, segment.path), ended)

    def seal(self) -> None:
        """End the segment: the next append begins another one. With `sync: interval` its end is forced to disk."""
        segment, self._segment = self._segment, None
        if segment is not None and self._is_unsynced:
            self._force(segment)

    def close(self) -> None:
        """Write everything that waits, and end the segment."""
        if self._timer is not None:
            self._timer.cancel()
        self.seal()


def _frame(number: int, joined: Sequence[_Waiting]) -> Frame:
    records, size = sum(one.records for one in joined), sum(one.size for one in joined)
    checksum = segments.checksum(piece for one in joined for piece in one.payload)
    return Frame(number, records, size, joined[0].at, checksum, joined[0].flags)


def _append(system: System, path: Path, buffers: Sequence[Piece], offset: int, *, synced: bool) -> None:
    """Write buffers at the end of a file; at offset 0, create it. Raises OSError, and then leaves no trace."""
    descriptor = system.open(path) if offset else system.create(path)
    try:
        write_all(system, descriptor, buffers, offset, synced=synced)
        if not offset:
            system.synchronise_folder(path.parent)
    except Exception:
        # A refused batch must not come back after a restart. If this fails too, it may.
        with contextlib.suppress(OSError):
            system.cut(descriptor, offset)
            if not offset:
                system.remove(path)
        raise
    finally:
        system.close(descriptor)


def _synchronise(system: System, path: Path) -> None:
    descriptor = system.open(path)
    try:
        system.synchronise(descriptor)
    finally:
        system.close(descriptor)


def _reason(failure: Exception) -> str:
    number = failure.errno if isinstance(failure, OSError) and failure.errno else errno.EIO
    return os.strerror(number)
