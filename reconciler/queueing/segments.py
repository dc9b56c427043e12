"""Segments: the files that frames are appended to, one after another.

Belongs here: the bytes of a file's header, its name, and what is known of a segment while the service runs. Does not:
reading and writing files.

A segment grows; nothing is allocated beforehand. It ends at 16 MiB: small enough to be searched in 20 ms after a crash,
and for space to come back in small steps, large enough that 10 GB are 640 files. The header says how much was appended
before it, ever, so that nothing but the last segment has to be read to know what is queued: the next header tells how
much is in each, and also how long its file has to be.
"""

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reconciler.queueing import frames
from reconciler.queueing.number_sets import NumberSet

MAGIC = b"RqSegmnt"
VERSION = 1
HEADER_BYTES = 64
ROLL_BYTES = 16 << 20
LONGEST_BYTES = ROLL_BYTES + frames.HEADER_BYTES + frames.MOST_BYTES  # the last append may go over the end
NAME_DIGITS = 16
SUFFIX = ".seg"
ACKNOWLEDGED = ".ack"

QUEUE = 1
DEAD = 2

DRAINED = 1  # a flag: all that was in it left the queue, and so did the bytes

# Magic, version, kind, flags, mark, first number, batches, records and bytes before, made at, zero; then the checksum.
_HEADER = struct.Struct("<8sHBBIQQQQQI")
_SEAL = struct.Struct("<I")


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
    packed = _HEADER.pack(
        MAGIC, VERSION, header.kind, header.flags, header.mark, header.first, *header.before, header.made_at, 0
    )
    return packed + _SEAL.pack(zlib.crc32(packed))


def decode_segment(data: bytes) -> SegmentHeader | None:
    """The header that a file begins with; None when there is none that is whole. Raises UnknownVersion."""
    if len(data) < HEADER_BYTES:
        return None
    magic, version, kind, flags, mark, first, batches, records, size, made_at, _ = _HEADER.unpack_from(data)
    if magic != MAGIC:
        return None
    if version != VERSION:
        raise UnknownVersion
    if _SEAL.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        return None
    return SegmentHeader(kind, mark, first, SegmentTotals(batches, records, size), made_at, flags)


def segment_length(totals: SegmentTotals) -> int:
    """How long a file is that holds so much."""
    return HEADER_BYTES + totals.batches * frames.HEADER_BYTES + totals.size


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
    return first + min(length, LONGEST_BYTES) // frames.HEADER_BYTES


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
    end: int = HEADER_BYTES
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
