"""Reading queue files without changing them, beside a service that runs.

Anything that is written at the same moment may be seen or not. A file that goes meanwhile is passed over.
"""

import os
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import acknowledgements, files, folders, segments
from reconciler.delivery.queue.acknowledgements import Acknowledgements
from reconciler.delivery.queue.contract import Obituary
from reconciler.delivery.queue.folders import FoundIdentity
from reconciler.delivery.queue.segments import Frame


class State(StrEnum):
    """The state of a batch."""

    QUEUED = "queued"
    ACKNOWLEDGED = "acknowledged"  # it left the queue, or the dead letters, and its bytes are still there
    DEAD = "dead"


class Peeked(NamedTuple):
    """A batch or dead letter in a file. Times are Unix milliseconds; `payload` is None when it is damaged.

    `done` are the records, by their place in the batch, that need no sending any more.
    """

    state: State
    number: int
    records: int
    taken_at: int
    payload: bytes | None
    attempts: int = 0
    done: frozenset[int] = frozenset()
    obituary: Obituary | None = None


def found(root: Path) -> list[FoundIdentity]:
    """Return the queues below a root, sorted by their folders."""
    known = [folders.read_identity(one) for one in sorted(root.glob("*/*/")) if not folders.is_partial_identity(one)]
    return [one for one in known if one is not None]


def walk(queue: FoundIdentity) -> Iterator[Peeked]:
    """Return the content of a queue: the batches in their order, then the dead letters in theirs."""
    for path in sorted(queue.folder.glob(f"*{segments.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=False)
    for path in sorted((queue.folder / folders.DEAD_LETTERS).glob(f"*{segments.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=True)


def _segment(path: Path, *, mark: int, is_dead: bool) -> Iterator[Peeked]:
    first = segments.segment_number(path.stem)
    try:
        descriptor = files.open_file(path)
    except OSError:
        return
    try:
        header = segments.decode_segment(os.pread(descriptor, segments.SEGMENT_HEADER_BYTES, 0))
        first = header.first if header is not None else first
        if first is None or (header is not None and header.flags & segments.DRAINED):
            return
        acknowledged = Acknowledgements(first, mark=mark)
        acknowledged.read(_acknowledgements(path))
        for frame, payload in _frames(path, descriptor, mark=mark):
            if frame.number >= first:
                yield _peeked(frame, payload, acknowledged, is_dead=is_dead)
    except (OSError, segments.UnknownVersion):
        return
    finally:
        os.close(descriptor)


def _acknowledgements(path: Path) -> bytes:
    try:
        limit = acknowledgements.MOST_READ_BYTES
        return files.read_whole(path.with_suffix(segments.ACKNOWLEDGED), limit=limit).data
    except OSError:
        return b""


def _frames(path: Path, descriptor: int, *, mark: int) -> Iterator[tuple[Frame, bytes]]:
    at = segments.SEGMENT_HEADER_BYTES
    while True:
        header = os.pread(descriptor, segments.FRAME_HEADER_BYTES, at)
        if len(header) < segments.FRAME_HEADER_BYTES:
            return
        frame = segments.decode_frame(header, 0, mark=mark)
        payload = os.pread(descriptor, frame.size, at + segments.FRAME_HEADER_BYTES) if frame is not None else b""
        if frame is None or len(payload) < frame.size:
            region = files.read_whole(path, limit=segments.LONGEST_BYTES).data
            following = segments.find_frame(region, at + 1, mark=mark)
            if following is None:
                return
            at = following
            continue
        yield frame, payload
        at += frame.length


def _peeked(frame: Frame, payload: bytes, acknowledged: Acknowledgements, *, is_dead: bool) -> Peeked:
    whole = payload if zlib.crc32(payload) == frame.checksum else None
    state = State.DEAD if is_dead else State.QUEUED
    if frame.number in acknowledged.done:
        state = State.ACKNOWLEDGED
    if is_dead:
        letter = segments.decode_dead_letter(whole) if whole is not None else None
        if letter is None:
            return Peeked(state, frame.number, frame.records, frame.taken_at, None)
        obituary = letter.obituary
        return Peeked(
            state, frame.number, frame.records, letter.taken_at, letter.payload, obituary.attempts, obituary=obituary
        )
    progress = acknowledged.progress.get(frame.number)
    attempts, done = (progress.attempts, progress.places) if progress is not None else (0, frozenset())
    return Peeked(state, frame.number, frame.records, frame.taken_at, whole, attempts, done)
