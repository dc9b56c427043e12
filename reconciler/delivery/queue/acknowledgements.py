"""Acknowledgements: which batches left a segment, and what was tried of the others. Pure: reads and writes no file.

Each segment has a file of acknowledgements beside it. Records are appended, each with a checksum. The first unreadable
record ends the file: what follows is forgotten, and those batches are sent again.
"""

import struct
import zlib
from typing import NamedTuple

MAGIC = b"RqAcks\x01\x00"  # the last two bytes are the version
MOST_READ_BYTES = 64 << 20  # of a file; what the rest says is forgotten

REWRITE_BYTES = 1 << 20  # of a file, before it is written anew
REWRITE_TIMES = 8  # as long as it would be then
PROGRESS_BYTES = 64  # about, of one record

DONE = 1
PROGRESSED = 2
SEVERAL = 3
REPLAYED = 4

_PREFIX = struct.Struct("<IIB")  # checksum of all after it, length of the body, kind
_CHECKSUM_BYTES = 4
_DONE = struct.Struct("<QII")  # number, records, bytes
_PROGRESSED = struct.Struct("<QIQ")  # number, attempts, milliseconds; then a bit for each record that is done
_REPLAYED = struct.Struct("<QQ")  # number, when it died first
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


class Progress(NamedTuple):
    """The attempts of a batch that has not left: see `contract.Batch`. `done` has a bit for each record."""

    attempts: int
    spent: int
    done: bytes

    @property
    def places(self) -> frozenset[int]:
        """The records that are done, by their place in the batch."""
        return frozenset(
            8 * at + bit for at, byte in enumerate(self.done) if byte for bit in range(8) if byte >> bit & 1
        )


class NumberSet:
    """A set of numbers that are close together, from `first` on: one bit each."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Add a number, which is not below the first."""
        block, bit = divmod(number - self.first, 8)
        if block >= len(self._bits):
            self._bits.extend(bytes(block + 1 - len(self._bits)))
        self._bits[block] |= 1 << bit

    def add_bits(self, first: int, bits: bytes) -> None:
        """Add the number `first` + 8 j + i for each bit i of byte j. Numbers below our first are left out."""
        shift = first - self.first
        added = int.from_bytes(bits, "little")
        value = int.from_bytes(self._bits, "little") | (added << shift if shift >= 0 else added >> -shift)
        self._bits = bytearray(value.to_bytes((value.bit_length() + 7) // 8, "little"))

    def __contains__(self, number: int) -> bool:
        block, bit = divmod(number - self.first, 8)
        return 0 <= block < len(self._bits) and bool(self._bits[block] >> bit & 1)

    def bits(self) -> bytes:
        """Return bytes as `add_bits` takes them, with our first."""
        return bytes(self._bits)

    def highest(self) -> int:
        """Return the highest number, or the one before the first."""
        return self.first + int.from_bytes(self._bits, "little").bit_length() - 1


def pack_places(places: frozenset[int]) -> bytes:
    """Return places in a batch as bits, as `Progress.done` has them."""
    numbers = NumberSet()
    for place in places:
        numbers.add(place)
    return numbers.bits()


class AcknowledgementWrite(NamedTuple):
    """Bytes for the file: at an offset, or in the place of the whole file if `is_anew`."""

    offset: int
    data: bytes
    is_anew: bool


class Acknowledgements:
    """The acknowledgements of one segment, which begins with the number `first`.

    `gone` sums what left, `progress` has what was tried of the rest, `died` when a replayed dead letter died first.
    `length` is the file's, with the write under way.
    """

    def __init__(self, first: int, *, mark: int) -> None:
        self.done = NumberSet(first)
        self.gone = Totals()
        self.progress: dict[int, Progress] = {}
        self.died: dict[int, int] = {}
        self.length = 0
        self._mark = mark
        self._unwritten: list[bytes] = []
        self._tried: set[int] = set()  # numbers whose progress is not written
        self._is_stale = False  # a write failed: only a new file can be trusted
        self._length_before = 0  # the write under way

    def leave(self, number: int, totals: Totals) -> None:
        """Record that one batch left."""
        self._leave(number, totals)
        self._tried.discard(number)
        self._unwritten.append(self._record(DONE, _DONE.pack(number, totals.records, totals.size)))

    def leave_range(self, first: int, last: int, totals: Totals) -> None:
        """Record that all batches in a range of numbers left. Numbers that left before may be among them."""
        bits = ((1 << (last - first + 1)) - 1).to_bytes((last - first + 8) // 8, "little")
        self.done.add_bits(first, bits)
        self.gone = self.gone.plus(totals)
        self._unwritten.append(self._several(first, bits, totals))

    def try_batch(self, number: int, progress: Progress) -> None:
        """Record an attempt. Only the last one before a write is written."""
        self.progress[number] = progress
        self._tried.add(number)

    def replay(self, number: int, died: int) -> None:
        """Record that a batch was a dead letter, which died first at that time in Unix milliseconds."""
        self.died[number] = died
        self._unwritten.append(self._record(REPLAYED, _REPLAYED.pack(number, died)))

    def take_write(self) -> AcknowledgementWrite | None:
        """Return what has to be written, which counts as written from now on; None when that is nothing."""
        tried = len(self.progress) + len(self.died)
        rewrite_at = max(REWRITE_BYTES, REWRITE_TIMES * (tried * PROGRESS_BYTES + len(self.done.bits())))
        is_anew = self._is_stale or self.length >= rewrite_at
        if is_anew:
            self._unwritten = [self._several(self.done.first, self.done.bits(), self.gone)]
            self._unwritten += [
                self._record(REPLAYED, _REPLAYED.pack(number, died)) for number, died in sorted(self.died.items())
            ]
            self._tried = set(self.progress)
        elif not self._unwritten and not self._tried:
            return None
        offset = 0 if is_anew else self.length
        records = [*([] if offset else [MAGIC]), *self._unwritten, *map(self._progressed, sorted(self._tried))]
        data = b"".join(records)
        self._unwritten, self._tried, self._is_stale = [], set(), False
        self._length_before, self.length = self.length, offset + len(data)
        return AcknowledgementWrite(offset, data, is_anew)

    def write_failed(self) -> None:
        """A write failed: all is written anew with the next one."""
        self._is_stale = True
        self.length = self._length_before

    def file_removed(self) -> None:
        """The segment was emptied: its header says that all left."""
        self.length = 0
        self._unwritten, self._tried, self._is_stale = [], set(), False

    def _progressed(self, number: int) -> bytes:
        attempts, spent, done = self.progress[number]
        return self._record(PROGRESSED, _PROGRESSED.pack(number, attempts, spent) + done)

    def _several(self, first: int, bits: bytes, totals: Totals) -> bytes:
        return self._record(SEVERAL, _SEVERAL.pack(first, *totals) + bits)

    def _record(self, kind: int, body: bytes) -> bytes:
        sealed = _PREFIX.pack(0, len(body), kind)[_CHECKSUM_BYTES:] + body
        return zlib.crc32(sealed, self._mark).to_bytes(_CHECKSUM_BYTES, "little") + sealed

    def _leave(self, number: int, totals: Totals) -> None:
        self.done.add(number)
        self.progress.pop(number, None)
        self.died.pop(number, None)
        self.gone = self.gone.plus(totals)

    def read(self, data: bytes) -> None:
        """Take in the bytes of the file."""
        if not data.startswith(MAGIC):
            return
        at = len(MAGIC)
        while at + _PREFIX.size <= len(data):
            checksum, length, kind = _PREFIX.unpack_from(data, at)
            end = at + _PREFIX.size + length
            if end > len(data) or zlib.crc32(data[at + _CHECKSUM_BYTES : end], self._mark) != checksum:
                break
            self._take(kind, data[at + _PREFIX.size : end])
            at = end
        self.length = at

    def _take(self, kind: int, body: bytes) -> None:
        """Take in one record. One of a number below the first is from before the file was emptied and used anew."""
        (number,) = struct.unpack_from("<Q", body)
        if number < self.done.first or (kind != SEVERAL and number in self.done):
            return
        if kind == DONE:
            _, records, size = _DONE.unpack(body)
            self._leave(number, Totals(1, records, size))
        elif kind == PROGRESSED:
            _, attempts, spent = _PROGRESSED.unpack_from(body)
            self.progress[number] = Progress(attempts, spent, body[_PROGRESSED.size :])
        elif kind == REPLAYED:
            self.died[number] = _REPLAYED.unpack(body)[1]
        elif kind == SEVERAL:
            self.done.add_bits(number, body[_SEVERAL.size :])
            self.gone = self.gone.plus(Totals(*_SEVERAL.unpack_from(body)[1:]))
