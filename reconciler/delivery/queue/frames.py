"""Frames and segments: how batches and dead letters lie in files."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.delivery.queue.contract import Obituary, Piece, Reason

# Frames: how one batch lies in a file, and how it is found again in a file that was damaged. Pure.
#
# A frame is a header of 40 bytes and the payload. The header has a checksum of its own, so that a length that was
# damaged leads nowhere; it begins with the mark of the queue, a secret number, so that no log record can hold what
# passes for a frame when a damaged file is searched. The checksum is CRC-32 as zlib has it: it finds every error of up
# to 32 bits in a row, is there without a library, and takes 40 microseconds for 250 KB, with the interpreter's lock let
# go.

MAGIC = b"\xf1RqF"  # no UTF-8, and no beginning of a protobuf field that OTLP has
VERSION = 1
HEADER_BYTES = 40
MOST_BYTES = 64 << 20  # of a payload: eight times a request

BATCH = 0
DEAD_LETTER = 1

# Magic, version, flags, zero, payload's length, records, number, taken at, payload's checksum; then the header's.
_HEADER = struct.Struct("<4sBBHIIQQI")
_SEAL = struct.Struct("<I")
_SEALED_BYTES = HEADER_BYTES - _SEAL.size


class Frame(NamedTuple):
    """What a header says. `size` is the payload's bytes, `taken_at` Unix milliseconds."""

    number: int
    records: int
    size: int
    taken_at: int
    checksum: int
    flags: int = BATCH

    @property
    def length(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_BYTES + self.size


def checksum(payload: Sequence[Piece]) -> int:
    """The CRC-32 of pieces one after another."""
    value = 0
    for piece in payload:
        value = zlib.crc32(piece, value)
    return value


def header(frame: Frame, *, mark: int) -> bytes:
    """The bytes of a frame before its payload."""
    packed = _HEADER.pack(
        MAGIC, VERSION, frame.flags, 0, frame.size, frame.records, frame.number, frame.taken_at, frame.checksum
    )
    return packed + _SEAL.pack(zlib.crc32(packed, mark))


def decode(region: Piece, offset: int, *, mark: int) -> Frame | None:
    """The header at an offset, where at least HEADER_BYTES are; None when there is none that is whole."""
    end = offset + _SEALED_BYTES
    magic, version, flags, _, size, records, number, taken_at, payload = _HEADER.unpack_from(region, offset)
    if magic != MAGIC or version != VERSION or size > MOST_BYTES:
        return None
    if _SEAL.unpack_from(region, end)[0] != zlib.crc32(memoryview(region)[offset:end], mark):
        return None
    return Frame(number, records, size, taken_at, payload, flags)


def find(region: bytes, start: int, *, mark: int) -> int | None:
    """Where the next whole header begins, at `start` or after it."""
    while True:
        start = region.find(MAGIC, start)
        if start < 0 or start + HEADER_BYTES > len(region):
            return None
        if decode(region, start, mark=mark) is not None:
            return start
        start += 1


class Placed(NamedTuple):
    """A frame and where it begins in the region. Its header is whole; of its payload nothing is known."""

    offset: int
    frame: Frame


class Scanned(NamedTuple):
    """What a region holds: its frames, how many stretches between them are unreadable, and where the last one ends.

    After `end` nothing is readable; `torn` says that what is there is the beginning of a frame, or nothing but zeros,
    as a write leaves it that a crash cut short.
    """

    frames: list[Placed]
    gaps: int
    end: int
    torn: bool


def scan(region: bytes, start: int, *, mark: int) -> Scanned:
    """Everything readable from `start` on. Unreadable stretches are skipped."""
    found: list[Placed] = []
    gaps, at, end = 0, start, start
    while at + HEADER_BYTES <= len(region):
        frame = decode(region, at, mark=mark)
        if frame is None or at + frame.length > len(region):
            following = find(region, at + 1, mark=mark)
            if following is None:
                break
            gaps, at = gaps + 1, following
            continue
        found.append(Placed(at, frame))
        at = end = at + frame.length
    return Scanned(found, gaps, end, _is_torn(region, end, mark=mark))


def _is_torn(region: bytes, end: int, *, mark: int) -> bool:
    tail = region[end:]
    if not tail.strip(b"\0") or len(tail) < HEADER_BYTES:
        return True
    return decode(tail, 0, mark=mark) is not None  # a whole header, and less of the payload than it says


# What a dead letter's frame holds: the obituary, and the bytes. Pure.
#
# A length of four bytes, little-endian; the obituary as a JSON object of so many bytes; the payload.

_LENGTH = struct.Struct("<I")


class _Written(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    reason: Reason
    at: int
    attempts: int
    cause: str
    taken_at: int
    status: int | None = None
    answer: bytes = b""
    outage: bool = False


class DeadLetterFrame(NamedTuple):
    """What a frame held."""

    obituary: Obituary
    taken_at: int
    payload: bytes


def encode_dead_letter(obituary: Obituary, payload: Sequence[Piece], *, taken_at: int) -> list[Piece]:
    """The pieces of a frame."""
    written = msgspec.json.encode(_Written(taken_at=taken_at, **obituary._asdict()))
    return [_LENGTH.pack(len(written)) + written, *payload]


def decode_dead_letter(data: bytes) -> DeadLetterFrame | None:
    """What a frame holds; None when it is something else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        begins = _LENGTH.size + length
        written = msgspec.json.decode(data[_LENGTH.size : begins], type=_Written)
    except (struct.error, msgspec.MsgspecError):
        return None
    obituary = Obituary(**{name: getattr(written, name) for name in Obituary._fields})
    return DeadLetterFrame(obituary, written.taken_at, data[begins:])


# A set of numbers that lie close together, one bit each.

BLOCK_BITS = 8


class NumberSet:
    """Numbers from the first one on that was added, or given."""

    __slots__ = ("_bits", "_first")

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Take it in. Raises ValueError for one below the first."""
        place = number - self._first
        if place < 0:
            raise ValueError("the number is below the first")
        block = place // BLOCK_BITS
        if block >= len(self._bits):
            self._bits.extend(bytes(block + 1 - len(self._bits)))
        self._bits[block] |= 1 << place % BLOCK_BITS

    def __contains__(self, number: int) -> bool:
        place = number - self._first
        block = place // BLOCK_BITS
        return place >= 0 and block < len(self._bits) and bool(self._bits[block] >> place % BLOCK_BITS & 1)

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()

    def bits(self) -> bytes:
        """Bit i of byte j is the number `first` + 8 j + i."""
        return bytes(self._bits)

    def add_bits(self, first: int, bits: bytes) -> None:
        """Take in what `bits` of another set with that first number says; what is below our first is left out."""
        value = int.from_bytes(bits, "little")
        shift = first - self._first
        value = value << shift if shift >= 0 else value >> -shift
        value |= int.from_bytes(self._bits, "little")
        self._bits = bytearray(value.to_bytes((value.bit_length() + 7) // 8, "little"))

    @property
    def first(self) -> int:
        """The lowest that there can be."""
        return self._first

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self._bits)

    def highest(self) -> int | None:
        """The highest of them."""
        length = int.from_bytes(self._bits, "little").bit_length()
        return self._first + length - 1 if length else None


def pack_numbers(places: frozenset[int]) -> bytes:
    """Places from 0 on, as bits."""
    numbers = NumberSet()
    for place in places:
        numbers.add(place)
    return numbers.bits()


def unpack_numbers(bits: bytes) -> frozenset[int]:
    """The places that `packed` packed."""
    return frozenset(
        place * BLOCK_BITS + bit
        for place, byte in enumerate(bits)
        if byte
        for bit in range(BLOCK_BITS)
        if byte >> bit & 1
    )


# Segments: the files that frames are appended to, one after another.
#
# A segment grows; nothing is allocated beforehand. It ends at 16 MiB: small enough to be searched in 20 ms after a
# crash, and for space to come back in small steps, large enough that 10 GB are 640 files. The header says how much was
# appended before it, ever, so that nothing but the last segment has to be read to know what is queued: the next header
# tells how much is in each, and also how long its file has to be.

SEGMENT_MAGIC = b"RqSegmnt"
SEGMENT_HEADER_BYTES = 64
ROLL_BYTES = 16 << 20
LONGEST_BYTES = ROLL_BYTES + HEADER_BYTES + MOST_BYTES  # the last append may go over the end
NAME_DIGITS = 16
SUFFIX = ".seg"
ACKNOWLEDGED = ".ack"

QUEUE = 1
DEAD = 2

DRAINED = 1  # a flag: all that was in it left the queue, and so did the bytes

# Magic, version, kind, flags, mark, first number, batches, records and bytes before, made at, zero; then the checksum.
_SEGMENT_HEADER = struct.Struct("<8sHBBIQQQQQI")
_SEGMENT_SEAL = struct.Struct("<I")


class SegmentTotals(NamedTuple):
    """How much: batches, records, and bytes of payload."""

    batches: int = 0
    records: int = 0
    size: int = 0

    def plus(self, other: "SegmentTotals") -> "SegmentTotals":
        """Both together."""
        return SegmentTotals(self.batches + other.batches, self.records + other.records, self.size + other.size)

    def minus(self, other: "SegmentTotals") -> "SegmentTotals":
        """What is left without the other."""
        return SegmentTotals(self.batches - other.batches, self.records - other.records, self.size - other.size)

    def at_least_nothing(self) -> "SegmentTotals":
        """Without what is below zero."""
        return SegmentTotals(max(0, self.batches), max(0, self.records), max(0, self.size))


NOTHING = SegmentTotals()


class SegmentHeader(NamedTuple):
    """What is at the beginning of a segment. `before` is all that was appended to the queue before it."""

    kind: int
    mark: int
    first: int
    before: SegmentTotals
    made_at: int
    flags: int = 0


class UnknownVersion(Exception):
    """A newer service wrote it."""


def encode_segment(header: SegmentHeader) -> bytes:
    """The bytes of a header."""
    packed = _SEGMENT_HEADER.pack(
        SEGMENT_MAGIC, VERSION, header.kind, header.flags, header.mark, header.first, *header.before, header.made_at, 0
    )
    return packed + _SEGMENT_SEAL.pack(zlib.crc32(packed))


def decode_segment(data: bytes) -> SegmentHeader | None:
    """The header that a file begins with; None when there is none that is whole. Raises UnknownVersion."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, version, kind, flags, mark, first, batches, records, size, made_at, _ = _SEGMENT_HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        return None
    if version != VERSION:
        raise UnknownVersion
    if _SEGMENT_SEAL.unpack_from(data, _SEGMENT_HEADER.size)[0] != zlib.crc32(data[: _SEGMENT_HEADER.size]):
        return None
    return SegmentHeader(kind, mark, first, SegmentTotals(batches, records, size), made_at, flags)


def segment_length(totals: SegmentTotals) -> int:
    """How long a file is that holds so much."""
    return SEGMENT_HEADER_BYTES + totals.batches * HEADER_BYTES + totals.size


def segment_name(first: int) -> str:
    """The name of the segment that begins with a number."""
    return f"{first:016x}{SUFFIX}"


def segment_number(stem: str) -> int | None:
    """With which number a segment begins, by its name without its end."""
    if len(stem) != NAME_DIGITS:
        return None
    try:
        return int(stem, 16)
    except ValueError:
        return None


def highest_number(first: int, length: int) -> int:
    """The highest number that may be in a file so long that begins with a number, whatever is in it."""
    return first + min(length, LONGEST_BYTES) // HEADER_BYTES


@dataclass(eq=False, slots=True)
class Segment:
    """A segment while the service runs. `end` is where what is committed ends, `left` what of it has not left the
    queue, `out` what of that was read and is held in memory.

    `done` are the numbers that left, `gone` what they came to, `progress` what is remembered of others. For the file of
    acknowledgements, which is `acknowledged` bytes long, are `unwritten` and `unsaved`, numbers in `progress`. `died`
    has those that were dead letters before, with when each died first, in Unix milliseconds.
    """

    path: Path
    first: int
    before: SegmentTotals
    end: int = SEGMENT_HEADER_BYTES
    left: SegmentTotals = NOTHING
    out: SegmentTotals = NOTHING
    gone: SegmentTotals = NOTHING
    made_at: int = 0
    following: "Segment | None" = None
    is_gone: bool = False
    is_damaged: bool = False
    is_sealed: bool = False
    done: NumberSet = field(default_factory=NumberSet)
    progress: dict[int, "Progress"] = field(default_factory=dict)
    died: dict[int, int] = field(default_factory=dict)
    unsaved: set[int] = field(default_factory=set)
    unwritten: list[bytes] = field(default_factory=list)
    acknowledged: int = 0

    @property
    def acknowledgements(self) -> Path:
        """The file beside it."""
        return self.path.with_suffix(ACKNOWLEDGED)


class Progress(NamedTuple):
    """What is remembered of a batch that has not left: see `contract.Batch`. `done` has a bit for each record."""

    attempts: int
    spent: int
    done: bytes


# An entry: one frame of a segment as it is known in memory, with or without its bytes.


@dataclass(eq=False, slots=True)
class QueueEntry:
    """`offset` is where its header begins in the segment; `kept` its payload, while there is room for it."""

    number: int
    records: int
    size: int
    taken_at: int
    segment: Segment
    offset: int = SEGMENT_HEADER_BYTES
    kept: bytes | None = None

    @property
    def totals(self) -> SegmentTotals:
        """What it counts for."""
        return SegmentTotals(1, self.records, self.size)

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.offset + HEADER_BYTES + self.size
