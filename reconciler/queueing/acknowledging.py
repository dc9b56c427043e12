"""The file of acknowledgements beside each segment: what left the queue, and what was tried of what did not. Pure.

Belongs here: the bytes of its records, and what they come to. Does not: when they are written (`journals`).

Records are appended, each with a checksum. Whatever cannot be read ends the file: what it would have said is forgotten,
and the batches are sent again.
"""

import struct
import zlib
from dataclasses import dataclass, field

from reconciler.queueing.number_sets import NumberSet
from reconciler.queueing.segments import NOTHING, Progress, SegmentTotals

MAGIC = b"RqAcks\x01\x00"  # the last two bytes are the version

REWRITE_BYTES = 1 << 20  # of a file, before it is written anew
REWRITE_TIMES = 8  # as long as what it has to say
PROGRESS_BYTES = 64  # about, of one record

DONE = 1
PROGRESSED = 2
SEVERAL = 3
REPLAYED = 4

_PREFIX = struct.Struct("<IIB")  # checksum of all after it, length of the body, kind
_CHECKSUM_BYTES = 4
_DONE = struct.Struct("<QII")  # number, records, bytes
_PROGRESSED = struct.Struct("<QIQ")  # number, attempts, spent; then a bit for each record that is done
_REPLAYED = struct.Struct("<QQ")  # number, when it died first
_SEVERAL = struct.Struct("<QQQQ")  # first number, batches, records, bytes; then a bit for each number


def rewrite_at(tried: int, size: int) -> int:
    """From which length on a file is written anew that has to say something of so many batches that did not leave, and
    of those that did in so many bytes of bits.
    """
    return max(REWRITE_BYTES, REWRITE_TIMES * (tried * PROGRESS_BYTES + size))


def longest(held: SegmentTotals) -> int:
    """No file is longer beside a segment that holds so much: once it may grow beyond where it is written anew, by what
    was tried of each batch, with a bit for each record, that it was a dead letter, and that it left.
    """
    return rewrite_at(2 * held.batches, held.batches) + 2 * held.batches * PROGRESS_BYTES + held.records


def done(number: int, totals: SegmentTotals, *, mark: int) -> bytes:
    """One batch left the queue."""
    return _record(DONE, _DONE.pack(number, totals.records, totals.size), mark=mark)


def progressed(number: int, progress: Progress, *, mark: int) -> bytes:
    """What was tried of one batch; the last record of a batch counts."""
    body = _PROGRESSED.pack(number, progress.attempts, progress.spent) + progress.done
    return _record(PROGRESSED, body, mark=mark)


def replayed(number: int, died: int, *, mark: int) -> bytes:
    """One batch was a dead letter, which died first at that time."""
    return _record(REPLAYED, _REPLAYED.pack(number, died), mark=mark)


def several(first: int, bits: bytes, totals: SegmentTotals, *, mark: int) -> bytes:
    """Batches left the queue together: bit i of byte j is the number `first` + 8 j + i."""
    return _record(SEVERAL, _SEVERAL.pack(first, *totals) + bits, mark=mark)


def _record(kind: int, body: bytes, *, mark: int) -> bytes:
    sealed = _PREFIX.pack(0, len(body), kind)[_CHECKSUM_BYTES:] + body
    return zlib.crc32(sealed, mark).to_bytes(_CHECKSUM_BYTES, "little") + sealed


@dataclass(slots=True)
class Acknowledged:
    """What a file says. After `end` nothing is readable."""

    done: NumberSet
    totals: SegmentTotals = NOTHING
    progress: dict[int, Progress] = field(default_factory=dict)
    died: dict[int, int] = field(default_factory=dict)
    end: int = 0


def read_acknowledgements(data: bytes, *, first: int, mark: int) -> Acknowledged:
    """What the file of the segment says that begins with `first`."""
    found = Acknowledged(NumberSet(first))
    if not data.startswith(MAGIC):
        return found
    at = len(MAGIC)
    batches = records = size = 0
    while at + _PREFIX.size <= len(data):
        checksum, length, kind = _PREFIX.unpack_from(data, at)
        end = at + _PREFIX.size + length
        if end > len(data) or zlib.crc32(data[at + _CHECKSUM_BYTES : end], mark) != checksum:
            break
        body = data[at + _PREFIX.size : end]
        at = end
        added = _take(found, kind, body, first=first)
        batches, records, size = batches + added.batches, records + added.records, size + added.size
    found.totals, found.end = SegmentTotals(batches, records, size), at
    return found


def _take(found: Acknowledged, kind: int, body: bytes, *, first: int) -> SegmentTotals:
    """Take a record in; how much it adds to what left."""
    if kind == DONE:
        number, records, size = _DONE.unpack(body)
        if number < first or number in found.done:  # below: the file was emptied and begins anew
            return SegmentTotals()
        found.done.add(number)
        found.progress.pop(number, None)
        found.died.pop(number, None)
        return SegmentTotals(1, records, size)
    if kind == PROGRESSED:
        number, attempts, spent = _PROGRESSED.unpack_from(body)
        if number >= first and number not in found.done:
            found.progress[number] = Progress(attempts, spent, body[_PROGRESSED.size :])
    elif kind == REPLAYED:
        number, died = _REPLAYED.unpack(body)
        if number >= first and number not in found.done:
            found.died[number] = died
    elif kind == SEVERAL:
        begins, *totals = _SEVERAL.unpack_from(body)
        if begins >= first:
            found.done.add_bits(begins, body[_SEVERAL.size :])
            return SegmentTotals(*totals)
    return SegmentTotals()
