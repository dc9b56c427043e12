"""Moving batches and dead letters from the queue of one instance to that of another.

One request carries one segment in the format of the journal: a header with the mark of the source's queue, then whole
frames of batches or of dead letters. The source acknowledges what it sent only after the other one answered, and the
other one answers only after the frames are on its disk. So a crash of either loses nothing.

A frame that comes twice is known by the mark of its queue, its number, its time and its checksum: the last ones are
remembered in memory. Only a crash of the receiving process may store the frames of one request twice.
"""

import asyncio
import contextlib
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.delivery import lanes
from reconciler.delivery.contract import NotTaken, QueueFull
from reconciler.delivery.otlp.models import MalformedRequest, RequestTooLarge
from reconciler.delivery.queue import segments
from reconciler.delivery.queue.contract import Batch, Shortage
from reconciler.delivery.queue.disk import ROUND_BYTES, DiskQueue, WholeLetter
from reconciler.delivery.queue.segments import Frame, SegmentHeader, Totals
from reconciler.model.text import counted

MOST_FRAMES = 1_000  # of a request of ours
MOST_RECORDS = 1 << 62  # the bytes are the limit
IDLE_SECONDS = 5.0  # without another batch: the remaining ones cannot be read
HUNG_SECONDS = 30.0  # for the disk
FULL_SECONDS = 5.0  # after which a full queue may have room again
REMEMBERED = 10_000  # frames

WRONG = "The body is no segment with whole frames of a queue: {}."
FULL = "The queue of the destination {} has no room for moved records now ({}); try again."
TOO_LARGE = "A moved batch is more than the queue of the destination {} may ever hold; raise its `max_bytes`."
HANGS = "The disk of the queues does not answer; the moved records may be kept or not. Send them again."
DEAD_FULL = "its dead letters take as many bytes as they may, or the disk takes nothing"


class MovedFrame(NamedTuple):
    """A batch or a dead letter with its bytes. `taken_at` is the time in its frame, in Unix milliseconds."""

    number: int
    records: int
    taken_at: int
    payload: bytes


class MovedFrames(NamedTuple):
    """The content of one request. `mark` is that of the queue that they come from."""

    mark: int
    is_dead: bool
    frames: tuple[MovedFrame, ...]


Send = Callable[[MovedFrames], Awaitable[None]]
"""Sends frames to another instance, and returns when they are on its disk. An error ends the move."""


def encode_moved(moved: MovedFrames) -> bytes:
    """Return the body of a request."""
    first = moved.frames[0].number if moved.frames else 1
    kind = segments.DEAD if moved.is_dead else segments.QUEUE
    pieces = [segments.encode_segment(SegmentHeader(kind, moved.mark, first, Totals(), 0))]
    flags = segments.DEAD_LETTER if moved.is_dead else segments.BATCH
    for one in moved.frames:
        checksum = zlib.crc32(one.payload)
        frame = Frame(one.number, one.records, len(one.payload), one.taken_at, checksum, flags)
        pieces += [segments.encode_frame(frame, mark=moved.mark), one.payload]
    return b"".join(pieces)


def decode_moved(body: bytes) -> MovedFrames:
    """Decode the body of a request. Every byte must be right. Raises MalformedRequest."""
    try:
        header = segments.decode_segment(body)
    except segments.UnknownVersion:
        raise MalformedRequest(WRONG.format("its version is unknown; move from an instance of this version")) from None
    if header is None or header.kind not in (segments.QUEUE, segments.DEAD):
        raise MalformedRequest(WRONG.format("its header is damaged"))
    is_dead = header.kind == segments.DEAD
    found: list[MovedFrame] = []
    at = segments.SEGMENT_HEADER_BYTES
    while at < len(body):
        is_whole = at + segments.FRAME_HEADER_BYTES <= len(body)
        frame = segments.decode_frame(body, at, mark=header.mark) if is_whole else None
        if frame is None or at + frame.length > len(body):
            raise MalformedRequest(WRONG.format(f"the frame at byte {at} is damaged"))
        payload = body[at + segments.FRAME_HEADER_BYTES : at + frame.length]
        is_readable = not is_dead or segments.decode_dead_letter(payload) is not None
        if zlib.crc32(payload) != frame.checksum or not is_readable:
            raise MalformedRequest(WRONG.format(f"the content of the frame at byte {at} is damaged"))
        found.append(MovedFrame(frame.number, frame.records, frame.taken_at, payload))
        at += frame.length
    return MovedFrames(header.mark, is_dead, tuple(found))


# The source.


@dataclass(slots=True)
class MovedCounts:
    """The numbers of batches and records that were moved, even if the move ended early."""

    batches: int = 0
    records: int = 0
    dead_batches: int = 0
    dead_records: int = 0

    def add(self, moved: MovedFrames) -> None:
        """Count the frames of a request that was answered."""
        records = sum(one.records for one in moved.frames)
        if moved.is_dead:
            self.dead_batches, self.dead_records = self.dead_batches + len(moved.frames), self.dead_records + records
        else:
            self.batches, self.records = self.batches + len(moved.frames), self.records + records

    @property
    def told(self) -> str:
        """Return the counts in words."""
        batches = f"{counted(self.batches, 'batch', 'batches')} ({counted(self.records, 'record')})"
        dead = f"{counted(self.dead_batches, 'dead letter')} ({counted(self.dead_records, 'record')})"
        return f"{batches} and {dead}" if self.dead_batches else batches


async def move(queue: DiskQueue, send: Send, counts: MovedCounts) -> None:
    """Send the queued batches, then the dead letters, each oldest first, and acknowledge each part once it is stored.
    Nothing else may claim from the queue meanwhile. Raises the errors of `send`; then the rest is still here.
    """
    mark = queue.identity.mark

    async def send_on(frames: Sequence[MovedFrame], *, is_dead: bool) -> None:
        moved = MovedFrames(mark, is_dead, tuple(frames))
        await send(moved)
        counts.add(moved)

    while batches := await _claim(queue):
        try:
            read = [(batch, await queue.payload(batch)) for batch in batches]
            if frames := [_frame(batch, payload) for batch, payload in read if payload is not None]:
                await send_on(frames, is_dead=False)
        except BaseException:
            queue.give_back(batches)
            raise
        queue.delivered(batches)
    await queue.hand_letters(lambda letters: send_on([*map(_dead_frame, letters)], is_dead=True))


async def _claim(queue: DiskQueue) -> list[Batch]:
    """Return the batches of one request; none at the end."""
    found: list[Batch] = []
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(IDLE_SECONDS):
            while len(found) < min(MOST_FRAMES, queue.depth().batches) and size < ROUND_BYTES:
                await queue.wait()
                some = queue.claim(most_records=MOST_RECORDS, most_bytes=ROUND_BYTES - size)
                size += sum(one.size for one in some)
                found += some
    return found


def _frame(batch: Batch, payload: bytes) -> MovedFrame:
    return MovedFrame(batch.number, batch.records, batch.taken_at, payload)


def _dead_frame(one: WholeLetter) -> MovedFrame:
    final_failure, taken_at, payload = one.letter
    pieces = segments.encode_dead_letter(final_failure, [payload], taken_at=taken_at)
    return MovedFrame(one.number, one.records, one.buried_at, b"".join(pieces))


# The receiving side.


class FrameId(NamedTuple):
    """The identity of a frame, even if it comes in two requests."""

    mark: int
    is_dead: bool
    number: int
    taken_at: int
    checksum: int


class Receiving:
    """Stores frames of other instances in queues on disk."""

    def __init__(self) -> None:
        self._last: OrderedDict[FrameId, asyncio.Future[None]] = OrderedDict()  # being written, or on disk

    def take(self, queue: DiskQueue, name: str, moved: MovedFrames) -> Awaitable[Totals]:
        """Append frames without a pause. Await the result: then all are on disk. It sums the frames that were new. If a
        frame finds no room, those before it are kept. When awaited, raises QueueFull, NotTaken, RequestTooLarge.
        """
        written: list[asyncio.Future[None]] = []
        new, refused = Totals(), None
        for one in moved.frames:
            frame = FrameId(moved.mark, moved.is_dead, one.number, one.taken_at, zlib.crc32(one.payload))
            known = self._last.get(frame)
            if known is None:
                known, refused = self._append(queue, name, one, is_dead=moved.is_dead)
                if known is None:
                    break
                self._remember(frame, known)
                new = new.plus(Totals(1, one.records, len(one.payload)))
            written.append(known)
        return _written(written, new, refused)

    def _append(
        self, queue: DiskQueue, name: str, one: MovedFrame, *, is_dead: bool
    ) -> tuple[asyncio.Future[None] | None, Exception | None]:
        """Append a frame. There is no pause after the check for room."""
        if is_dead:
            letter = segments.decode_dead_letter(one.payload)
            assert letter is not None  # every frame was read
            written = queue.take_letter(letter, records=one.records)
            return written, QueueFull(FULL.format(name, DEAD_FULL), seconds=FULL_SECONDS) if written is None else None
        size = len(one.payload)
        shortage = queue.room(size=size)
        if shortage is Shortage.BYTES and not queue.may_hold(size=size):
            return None, RequestTooLarge(TOO_LARGE.format(name))
        if shortage is not None:
            return None, QueueFull(FULL.format(name, lanes.SHORT[shortage]), seconds=FULL_SECONDS)
        return queue.append([one.payload], records=one.records, at=one.taken_at, synced=True), None

    def _remember(self, frame: FrameId, written: asyncio.Future[None]) -> None:
        self._last[frame] = written

        def forget(done: asyncio.Future[None]) -> None:
            if done.exception() is not None:
                self._last.pop(frame, None)

        written.add_done_callback(forget)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)


async def _written(written: Sequence[asyncio.Future[None]], new: Totals, refused: Exception | None) -> Totals:
    """Wait until the frames are on disk, then raise the refusal of a further frame, if there is one."""
    if written:
        await asyncio.wait(written, timeout=HUNG_SECONDS)
    if not all(one.done() for one in written):
        raise NotTaken(HANGS)
    for one in written:
        if (problem := one.exception()) is not None:
            raise NotTaken(str(problem))
    if refused is not None:
        raise refused
    return new
