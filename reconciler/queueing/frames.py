"""Frames: how one batch lies in a file, and how it is found again in a file that was damaged. Pure.

Belongs here: the bytes of a frame (`docs/queue-format.md` describes them). Does not: files, and what is in a payload.

A frame is a header of 40 bytes and the payload. The header has a checksum of its own, so that a length that was damaged
leads nowhere; it begins with the mark of the queue, a secret number, so that no log record can hold what passes for a
frame when a damaged file is searched. The checksum is CRC-32 as zlib has it: it finds every error of up to 32 bits in a
row, is there without a library, and takes 40 microseconds for 250 KB, with the interpreter's lock let go.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from reconciler.queueing.contract import Piece

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
