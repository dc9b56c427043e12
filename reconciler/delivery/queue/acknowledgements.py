"""The file of acknowledgements beside each segment."""

import errno
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import frames
from reconciler.delivery.queue.committer import CLOSED, CommitFile
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.frames import NOTHING, NumberSet, Progress, Segment, SegmentTotals

# The file of acknowledgements beside each segment: what left the queue, and what was tried of what did not. Pure.
#
# Records are appended, each with a checksum. Whatever cannot be read ends the file: what it would have said is
# forgotten, and the batches are sent again.

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


# Writing the files of a journal on the committer's thread: acknowledgements, and segments that are used up.

PARTIAL = ".new"


class FileWrite(NamedTuple):
    """Something for a file of acknowledgements: at an offset, or instead of it all if `is_anew`. The file lacks
    `records` and `unsaved` until it is written.
    """

    segment: Segment
    offset: int
    data: bytes
    before: int
    is_anew: bool
    records: list[bytes]
    unsaved: set[int]


def remove_segment(system: System, used_up: Sequence[Segment], removed: list[Segment]) -> None:
    """Remove segments of which all left, one after another; `removed` gets each that is. Raises OSError."""
    for segment in used_up:
        # In this order: what is acknowledged must not come back when a crash comes between the two.
        system.remove(segment.path)
        system.remove(segment.acknowledgements)
        removed.append(segment)


def empty_segment(system: System, file: CommitFile, header: bytes) -> None:
    """Leave nothing of a segment but another header. A crash before the end leaves frames, or what was acknowledged of
    some, that the header disowns. Raises OSError; unless the header was written, what was acknowledged is there then.
    """
    is_open = file.descriptor != CLOSED
    descriptor = file.descriptor if is_open else system.open(file.path)
    try:
        if system.write(descriptor, [header], 0, synced=True) != len(header):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        system.cut(descriptor, len(header))
        system.remove(file.path.with_suffix(frames.ACKNOWLEDGED))
    finally:
        if not is_open:
            system.close(descriptor)


def replace_segment(system: System, file: CommitFile, header: bytes) -> None:
    """The same for a segment whose bytes are in quarantine, too: it gets other ones."""
    write_anew(system, file.path, header)
    system.remove(file.path.with_suffix(frames.ACKNOWLEDGED))


def write_anew(system: System, path: Path, data: bytes) -> None:
    """Other bytes for a file, all of them or none."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        write_acknowledgements(system, partial, 0, data)
        partial.rename(path)
    except OSError:
        system.remove(partial)
        raise


def put_all(system: System, writes: Sequence[FileWrite], written: set[Segment]) -> None:
    """Write down what left, or was tried, of each; `written` gets those that are. One that fails keeps no other from
    being written. Raises the first OSError, at the end.
    """
    faults: list[OSError] = []
    for write in writes:
        try:
            _put(system, write)
            written.add(write.segment)
        except OSError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]


def _put(system: System, one: FileWrite) -> None:
    path = one.segment.acknowledgements
    if one.is_anew:
        write_anew(system, path, one.data)
    else:
        write_acknowledgements(system, path, one.offset, one.data)


def write_acknowledgements(system: System, path: Path, offset: int, data: bytes) -> None:
    """Bytes of a file of acknowledgements, which is made when it is missing. Raises OSError.

    At their place, so that what a full disk left of an earlier attempt is written over.
    """
    descriptor = system.open(path, make=True)
    try:
        written = system.write(descriptor, [data], offset, synced=False)
        if written != len(data):
            raise OSError("the disk took a part")
    finally:
        system.close(descriptor)


# What is to be written beside a segment: what left it, and what was tried of the rest. Pure.


def pending_acknowledgement(segment: Segment, *, mark: int) -> FileWrite | None:
    """What is to be written of a segment, which counts as written from now on; None when that is nothing."""
    if segment.acknowledged >= rewrite_at(len(segment.progress) + len(segment.died), segment.done.size):
        return _all(segment, mark=mark)
    if not segment.unwritten and not segment.unsaved:
        return None
    return _taken(segment, offset=segment.acknowledged, is_anew=False, mark=mark)


def _all(segment: Segment, *, mark: int) -> FileWrite:
    unwritten, unsaved = segment.unwritten, segment.unsaved  # what the file lacks, if this cannot be written
    segment.unsaved = set(segment.progress)
    segment.unwritten = [several(segment.done.first, segment.done.bits(), segment.gone, mark=mark)]
    segment.unwritten += [replayed(number, died, mark=mark) for number, died in sorted(segment.died.items())]
    write = _taken(segment, offset=0, is_anew=True, mark=mark)
    return write._replace(records=unwritten, unsaved=unsaved)


def _taken(segment: Segment, *, offset: int, is_anew: bool, mark: int) -> FileWrite:
    records = [] if offset else [MAGIC]
    records += segment.unwritten
    records += [progressed(number, segment.progress[number], mark=mark) for number in sorted(segment.unsaved)]
    data = b"".join(records)
    before, segment.acknowledged = segment.acknowledged, offset + len(data)
    write = FileWrite(segment, offset, data, before, is_anew, segment.unwritten, segment.unsaved)
    segment.unwritten, segment.unsaved = [], set()
    return write


def take_back_acknowledgement(write: FileWrite) -> None:
    """A write failed: what the file lacks is written with what is next."""
    segment = write.segment
    segment.unwritten = write.records + segment.unwritten
    segment.unsaved |= write.unsaved & segment.progress.keys()
    segment.acknowledged = write.before
