"""Reading queue files without changing them.

What is written at the same moment may be seen or not. A file that goes meanwhile is passed over.
"""

import os
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery.queue import acknowledgements, files, folders, frames
from reconciler.delivery.queue.acknowledgements import Acknowledged
from reconciler.delivery.queue.contract import Obituary
from reconciler.delivery.queue.folders import FoundIdentity
from reconciler.delivery.queue.frames import Frame

MOST_ACKNOWLEDGED_BYTES = 64 << 20  # of a file; what the rest would say left is shown as queued


class State(StrEnum):
    """What became of a batch."""

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
    """The queues below a root, sorted by their folders."""
    known = (
        folders.read_identity(folder) for folder in sorted(root.glob("*/*/")) if not folders.is_partial_identity(folder)
    )
    return [one for one in known if one is not None]


def walk(queue: FoundIdentity) -> Iterator[Peeked]:
    """All that the files of a queue hold: the queue in its order, then the dead letters in theirs."""
    for path in sorted(queue.folder.glob(f"*{frames.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=False)
    for path in sorted((queue.folder / folders.DEAD_LETTERS).glob(f"*{frames.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=True)


def _segment(path: Path, *, mark: int, is_dead: bool) -> Iterator[Peeked]:
    try:
        descriptor = files.open_files(path)
    except OSError:
        return
    try:
        first = _first(path, descriptor)
        if first is None:
            return
        said = acknowledgements.read_acknowledgements(_acknowledged(path), first=first, mark=mark)
        for frame, payload in _frames(path, descriptor, mark=mark):
            if frame.number >= first:
                yield _peeked(frame, payload, said, is_dead=is_dead)
    finally:
        os.close(descriptor)


def _first(path: Path, descriptor: int) -> int | None:
    """The first number that counts; None when there is none, or all was used up."""
    try:
        header = frames.decode_segment(os.pread(descriptor, frames.SEGMENT_HEADER_BYTES, 0))
        if header is None:
            return int(path.stem, 16)
    except (OSError, ValueError, frames.UnknownVersion):
        return None
    return None if header.flags & frames.DRAINED else header.first


def _acknowledged(path: Path) -> bytes:
    try:
        return files.read_whole(path.with_suffix(frames.ACKNOWLEDGED), limit=MOST_ACKNOWLEDGED_BYTES)
    except OSError:
        return b""


def _frames(path: Path, descriptor: int, *, mark: int) -> Iterator[tuple[Frame, bytes]]:
    at = frames.SEGMENT_HEADER_BYTES
    while True:
        header = os.pread(descriptor, frames.HEADER_BYTES, at)
        if len(header) < frames.HEADER_BYTES:
            return
        frame = frames.decode(header, 0, mark=mark)
        payload = os.pread(descriptor, frame.size, at + frames.HEADER_BYTES) if frame is not None else b""
        if frame is None or len(payload) < frame.size:
            following = frames.find(files.read_whole(path, limit=frames.LONGEST_BYTES), at + 1, mark=mark)
            if following is None:
                return
            at = following
            continue
        yield frame, payload
        at += frame.length


def _peeked(frame: Frame, payload: bytes, said: Acknowledged, *, is_dead: bool) -> Peeked:
    whole = payload if zlib.crc32(payload) == frame.checksum else None
    gone = frame.number in said.done
    if is_dead:
        letter = frames.decode_dead_letter(whole) if whole is not None else None
        state = State.ACKNOWLEDGED if gone else State.DEAD
        if letter is None:
            return Peeked(state, frame.number, frame.records, frame.taken_at, None)
        return Peeked(
            state,
            frame.number,
            frame.records,
            letter.taken_at,
            letter.payload,
            letter.obituary.attempts,
            obituary=letter.obituary,
        )
    progress = said.progress.get(frame.number)
    attempts, done = (progress.attempts, frames.unpack_numbers(progress.done)) if progress else (0, frozenset())
    state = State.ACKNOWLEDGED if gone else State.QUEUED
    return Peeked(state, frame.number, frame.records, frame.taken_at, whole, attempts, done)
