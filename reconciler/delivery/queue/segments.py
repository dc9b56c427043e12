"""The formats of segments and of their acknowledgements, and a segment as it is known in memory. Pure: reads no file.

A segment is a file: a header, then frames, one for each batch or dead letter. Frames are appended, and nothing is
allocated beforehand. A segment ends at 16 MiB: small enough to be searched in 20 ms after a crash and for space to come
back in small steps, large enough that 10 GB are 640 files. Its header says how much was ever appended before it, so
only the last segment has to be read to know how much is queued.

Beside a segment is a file of acknowledgements: which batches left. Each change writes it anew. Its records have a
checksum each. The first unreadable record ends the file: what follows is forgotten, and those batches are sent again.

Checksums are CRC-32 (zlib): it finds each error of up to 32 bits in a row, and takes 40 microseconds for 250 KB without
the interpreter's lock. The checksum of a frame's header begins with the queue's mark, a secret number, so no log
record can pass for a frame when a damaged file is searched. `docs/queue-format.md` describes every byte.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.delivery.queue.contract import FinalFailure, Piece, Reason

ACKNOWLEDGEMENTS_MAGIC = b"RqAcks\x01\x00"  # the last two bytes are the version
MOST_ACKNOWLEDGEMENT_BYTES = 64 << 20  # of a file; what the rest says is forgotten

DONE = 1  # earlier versions wrote it for each batch, and others, which do not count
SEVERAL = 3

_RECORD = struct.Struct("<IIB")  # checksum of all after it, length of the body, kind
_CHECKSUM_BYTES = 4
_DONE = struct.Struct("<QII")  # number, records, bytes
_SEVERAL = struct.Struct("<QQQQ")  # first number, batches, records, bytes; then a bit for each number


class Totals(NamedTuple):
    """A sum of batches, their records, and their bytes of payload."""

    batches: int = 0
    records: int = 0
    size: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """Add another one."""
        return Totals(self.batches + other.batches, self.records + other.records, self.size + other.size)

    def minus(self, other: "Totals") -> "Totals":
        """Subtract another one; no part goes below zero."""
        return Totals(
            max(0, self.batches - other.batches), max(0, self.records - other.records), max(0, self.size - other.size)
        )


NOTHING = Totals()


class Acknowledgements:
    """The acknowledgements of one segment, which begins with the number `first`. `gone` sums the acknowledged batches.
    `length` is that of the file.
    """

    def __init__(self, first: int, *, mark: int) -> None:
        self.first = first
        self.gone = Totals()
        self.length = 0
        self._mark = mark
        self._left = 0  # a bit for each number that left, from the first one on

    def __contains__(self, number: int) -> bool:
        """Return True if a batch left."""
        return number >= self.first and bool(self._left >> (number - self.first) & 1)

    def highest(self) -> int:
        """Return the highest number that left, or the one before the first."""
        return self.first + self._left.bit_length() - 1

    def leave(self, first: int, last: int, totals: Totals) -> None:
        """Record that all batches in a range of numbers left. Numbers that left before may be among them."""
        self._left |= ((1 << (last - first + 1)) - 1) << (first - self.first)
        self.gone = self.gone.plus(totals)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        left = self._left.to_bytes((self._left.bit_length() + 7) // 8, "little")
        body = _SEVERAL.pack(self.first, *self.gone) + left
        sealed = _RECORD.pack(0, len(body), SEVERAL)[_CHECKSUM_BYTES:] + body
        return ACKNOWLEDGEMENTS_MAGIC + zlib.crc32(sealed, self._mark).to_bytes(_CHECKSUM_BYTES, "little") + sealed

    def read(self, data: bytes) -> None:
        """Add the records in the bytes of a file."""
        if not data.startswith(ACKNOWLEDGEMENTS_MAGIC):
            return
        at = len(ACKNOWLEDGEMENTS_MAGIC)
        while at + _RECORD.size <= len(data):
            checksum, length, kind = _RECORD.unpack_from(data, at)
            end = at + _RECORD.size + length
            if end > len(data) or zlib.crc32(data[at + _CHECKSUM_BYTES : end], self._mark) != checksum:
                break
            self._take(kind, data[at + _RECORD.size : end])
            at = end
        self.length = at

    def _take(self, kind: int, body: bytes) -> None:
        """Add one record. A record with a number below the first is from before the file was emptied and reused."""
        (number,) = struct.unpack_from("<Q", body)
        if number < self.first:
            return
        if kind == DONE and number not in self:
            self.leave(number, number, Totals(1, *_DONE.unpack(body)[1:]))
        elif kind == SEVERAL:
            self._left |= int.from_bytes(body[_SEVERAL.size :], "little") << (number - self.first)
            self.gone = self.gone.plus(Totals(*_SEVERAL.unpack_from(body)[1:]))


VERSION = 1

# Frames.

FRAME_MAGIC = b"\xf1RqF"  # no UTF-8, and no beginning of a protobuf field that OTLP has
FRAME_HEADER_BYTES = 40
MOST_BYTES = 64 << 20  # of a payload

BATCH = 0
DEAD_LETTER = 1

# Magic, version, flags, zero, payload's length, records, number, taken at, payload's checksum; then the header's.
_FRAME = struct.Struct("<4sBBHIIQQI")
_SEAL = struct.Struct("<I")


class Frame(NamedTuple):
    """The header of a frame, read at `offset`. `size` is the payload's bytes, `taken_at` Unix milliseconds."""

    number: int
    records: int
    size: int
    taken_at: int
    checksum: int
    flags: int = BATCH
    offset: int = 0

    @property
    def length(self) -> int:
        """Bytes of the whole frame."""
        return FRAME_HEADER_BYTES + self.size


def sum_frames(frames: "Sequence[Frame] | Sequence[QueueEntry]") -> Totals:
    """Return the totals of frames."""
    return Totals(len(frames), sum(frame.records for frame in frames), sum(frame.size for frame in frames))


def checksum(payload: Iterable[Piece]) -> int:
    """Return the CRC-32 of pieces one after another."""
    value = 0
    for piece in payload:
        value = zlib.crc32(piece, value)
    return value


def encode_frame(frame: Frame, *, mark: int) -> bytes:
    """Return the bytes of a frame before its payload."""
    packed = _FRAME.pack(
        FRAME_MAGIC, VERSION, frame.flags, 0, frame.size, frame.records, frame.number, frame.taken_at, frame.checksum
    )
    return packed + _SEAL.pack(zlib.crc32(packed, mark))


def decode_frame(region: Piece, offset: int, *, mark: int) -> Frame | None:
    """Return the header at an offset, where at least FRAME_HEADER_BYTES are; None when there is no whole one."""
    end = offset + _FRAME.size
    magic, version, flags, _, size, records, number, taken_at, payload = _FRAME.unpack_from(region, offset)
    if magic != FRAME_MAGIC or version != VERSION or size > MOST_BYTES:
        return None
    if _SEAL.unpack_from(region, end)[0] != zlib.crc32(memoryview(region)[offset:end], mark):
        return None
    return Frame(number, records, size, taken_at, payload, flags, offset)


def find_frame(region: bytes, start: int, *, mark: int) -> int | None:
    """Return the offset of the next whole header at `start` or after it."""
    while True:
        start = region.find(FRAME_MAGIC, start)
        if start < 0 or start + FRAME_HEADER_BYTES > len(region):
            return None
        if decode_frame(region, start, mark=mark) is not None:
            return start
        start += 1


class Scanned(NamedTuple):
    """The content of a region: its frames, the number of unreadable stretches between them, the last frame's end.

    `torn` says that what follows `end` is the beginning of a frame, or zeros: a crash cut a write short.
    """

    frames: list[Frame]
    gaps: int
    end: int
    torn: bool


def scan(region: bytes, start: int, *, mark: int) -> Scanned:
    """Read all frames from `start` on, and skip unreadable stretches. Payloads are not checked."""
    found: list[Frame] = []
    gaps, at, end = 0, start, start
    while at + FRAME_HEADER_BYTES <= len(region):
        frame = decode_frame(region, at, mark=mark)
        if frame is None or at + frame.length > len(region):
            following = find_frame(region, at + 1, mark=mark)
            if following is None:
                break
            gaps, at = gaps + 1, following
            continue
        found.append(frame)
        at = end = at + frame.length
    tail = region[end:]
    is_short = len(tail) < FRAME_HEADER_BYTES or not tail.strip(b"\0")
    return Scanned(found, gaps, end, is_short or decode_frame(tail, 0, mark=mark) is not None)


# The payload of a dead letter's frame: a length of four bytes, the final failure as JSON, the bytes of the batch.

_LENGTH = struct.Struct("<I")


class _WrittenFailure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    reason: Reason
    at: int
    attempts: int
    cause: str
    taken_at: int
    status: int | None = None
    answer: bytes = b""
    outage: bool = False


class DeadLetterFrame(NamedTuple):
    """The payload of a dead letter's frame."""

    final_failure: FinalFailure
    taken_at: int
    payload: bytes


def encode_dead_letter(final_failure: FinalFailure, payload: Sequence[Piece], *, taken_at: int) -> list[Piece]:
    """Return the pieces of a frame's payload."""
    written = msgspec.json.encode(_WrittenFailure(taken_at=taken_at, **final_failure._asdict()))
    return [_LENGTH.pack(len(written)) + written, *payload]


def decode_dead_letter(data: bytes) -> DeadLetterFrame | None:
    """Read a frame's payload; None when it is something else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        begins = _LENGTH.size + length
        written = msgspec.json.decode(data[_LENGTH.size : begins], type=_WrittenFailure)
    except (struct.error, msgspec.MsgspecError):
        return None
    final_failure = FinalFailure(**{name: getattr(written, name) for name in FinalFailure._fields})
    return DeadLetterFrame(final_failure, written.taken_at, data[begins:])


# The header of a segment.

SEGMENT_MAGIC = b"RqSegmnt"
SEGMENT_HEADER_BYTES = 64
ROLL_BYTES = 16 << 20
LONGEST_BYTES = ROLL_BYTES + FRAME_HEADER_BYTES + MOST_BYTES  # the last append may go over the end
NAME_DIGITS = 16
SUFFIX = ".seg"
ACKNOWLEDGED = ".ack"  # the file beside a segment

QUEUE = 1
DEAD = 2

DRAINED = 1  # a flag: all batches left, and the bytes are gone

# Magic, version, kind, flags, mark, first number, batches, records and bytes before, made at, zero; then the checksum.
_SEGMENT = struct.Struct("<8sHBBIQQQQQI")


class SegmentHeader(NamedTuple):
    """The beginning of a segment. `before` sums everything that was appended to the journal before it."""

    kind: int
    mark: int
    first: int
    before: Totals
    made_at: int
    flags: int = 0


class UnknownVersion(Exception):
    """The file is from a newer service."""


def encode_segment(header: SegmentHeader) -> bytes:
    """Return the bytes of a header."""
    packed = _SEGMENT.pack(
        SEGMENT_MAGIC, VERSION, header.kind, header.flags, header.mark, header.first, *header.before, header.made_at, 0
    )
    return packed + _SEAL.pack(zlib.crc32(packed))


def decode_segment(data: bytes) -> SegmentHeader | None:
    """Return the header that a file begins with; None when there is no whole one. Raises UnknownVersion."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, version, kind, flags, mark, first, batches, records, size, made_at, _ = _SEGMENT.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        return None
    if version != VERSION:
        raise UnknownVersion
    if _SEAL.unpack_from(data, _SEGMENT.size)[0] != zlib.crc32(data[: _SEGMENT.size]):
        return None
    return SegmentHeader(kind, mark, first, Totals(batches, records, size), made_at, flags)


def segment_length(totals: Totals) -> int:
    """Return the length of a file with these totals."""
    return SEGMENT_HEADER_BYTES + totals.batches * FRAME_HEADER_BYTES + totals.size


def segment_name(first: int) -> str:
    """Return the name of the segment that begins with a number."""
    return f"{first:016x}{SUFFIX}"


def segment_number(stem: str) -> int | None:
    """Return the first number of a segment, by its name without the suffix."""
    if len(stem) != NAME_DIGITS:
        return None
    try:
        return int(stem, 16)
    except ValueError:
        return None


def highest_number(first: int, length: int) -> int:
    """Return the highest number that a file of this first number and length may have, whatever is in it."""
    return first + min(length, LONGEST_BYTES) // FRAME_HEADER_BYTES


@dataclass(eq=False, slots=True)
class Segment:
    """A segment of an open journal. `end` is the end of the last committed frame, `left` sums the queued batches. A
    sealed segment gets no more frames. A drained one has no valid frames, but bytes of it may still be on disk.
    `counted` is the number of its bytes in the journal's sum. `is_changed`: its acknowledgements must be written.
    `is_busy`: the thread works on it. `is_stuck`: the last work failed, and is tried again at `retry_at`.
    """

    path: Path
    first: int
    before: Totals
    acknowledged: Acknowledgements
    made_at: int
    end: int = SEGMENT_HEADER_BYTES
    left: Totals = NOTHING
    following: "Segment | None" = None
    is_sealed: bool = False
    is_drained: bool = False
    is_damaged: bool = False
    counted: int = 0
    is_changed: bool = False
    is_busy: bool = False
    retry_at: float = 0.0
    is_stuck: bool = False

    @property
    def acknowledgements_path(self) -> Path:
        """The file beside it."""
        return self.path.with_suffix(ACKNOWLEDGED)

    @property
    def is_spent(self) -> bool:
        """True if all batches left, and none will be added: the file may be removed."""
        return self.is_drained or (self.is_sealed and self.left.batches <= 0)

    @property
    def holds_bytes(self) -> bool:
        """True if more than the header is on disk."""
        return self.end > SEGMENT_HEADER_BYTES or self.acknowledged.length > 0


@dataclass(eq=False, slots=True)
class QueueEntry:
    """A frame of a segment, without its payload. `offset` is where its header begins."""

    number: int
    records: int
    size: int
    taken_at: int
    segment: Segment
    offset: int

    @classmethod
    def of(cls, frame: Frame, segment: Segment, offset: int) -> "QueueEntry":
        """Return the entry of a frame."""
        return cls(frame.number, frame.records, frame.size, frame.taken_at, segment, offset)

    @property
    def totals(self) -> Totals:
        """This entry alone."""
        return Totals(1, self.records, self.size)

    @property
    def end(self) -> int:
        """The offset of the next frame."""
        return self.offset + FRAME_HEADER_BYTES + self.size

    @property
    def has_left(self) -> bool:
        """True if it was acknowledged."""
        return self.number in self.segment.acknowledged
