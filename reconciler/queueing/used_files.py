"""Writing the files of a journal on the committer's thread: acknowledgements, and segments that are used up.

Belongs here: what is safe when a crash or a full disk comes between two calls. Does not: when, and appending
(`committer`).
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reconciler.queueing import segments
from reconciler.queueing.committer import CLOSED, CommitFile
from reconciler.queueing.segments import Segment
from reconciler.queueing.system import System

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
        system.remove(file.path.with_suffix(segments.ACKNOWLEDGED))
    finally:
        if not is_open:
            system.close(descriptor)


def replace_segment(system: System, file: CommitFile, header: bytes) -> None:
    """The same for a segment whose bytes are in quarantine, too: it gets other ones."""
    write_anew(system, file.path, header)
    system.remove(file.path.with_suffix(segments.ACKNOWLEDGED))


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
