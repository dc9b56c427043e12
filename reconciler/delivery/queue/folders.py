"""Folders of queues, `<root>/<directory>/<ULID>/`, and reading them without changing them.

The identity is a small file, `queue.json`, so that no text of users is ever part of a path. It is read once, because no
other process makes or removes a folder. A folder that cannot be read for now does not block the others. It is read
again whenever somebody asks for all queues, or looks for one that is not known.

`peek` reads the batches of a queue beside a service that runs: anything that is written at the same moment may be seen
or not, and a file that is removed meanwhile is skipped.
"""

import contextlib
import logging
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.delivery.queue import files, segments
from reconciler.delivery.queue.contract import FinalFailure, QueueFault
from reconciler.delivery.queue.files import PASSING, System
from reconciler.delivery.queue.segments import Acknowledgements, Frame
from reconciler.model import ids
from reconciler.model.text import counted
from reconciler.settings import bounded_io

log = logging.getLogger(__name__)

FILE = "queue.json"
GONE = "queue.gone.json"  # of a queue that was removed, and of which damaged files are kept
DEAD_LETTERS = "dead"  # the folder of the segments of dead letters
QUARANTINE = "quarantine"  # the folder of damaged segments, in that of the queue
PARTIAL = ".new"  # the end of the name of a folder that is being made
VERSION = 1
MOST_BYTES = 64 << 10
DIRECTORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
TOLD = 10  # unreadable folders in one line of the log

WHOSE = "Whose the queue in {} is cannot be read ({}); {}."
WHICH = "Which queues are in {} cannot be read ({}); {}."
DO = "look at its permissions, the disk, and the limit of open files"


class QueueIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `queue.json`. `created` is in Unix milliseconds; `mark` is the secret number that checksums begin
    with.
    """

    version: int
    project: str
    destination: str
    created: int
    mark: int


class FoundIdentity(NamedTuple):
    """A queue on disk. `directory` is the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str
    folder: Path
    mark: int


class WantedQueue(NamedTuple):
    """The queue to find or create: its owner, and the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str


def read_identity(folder: Path) -> FoundIdentity | None:
    """Return the owner of a folder; None when the file is damaged. Raises OSError for a passing fault."""
    try:
        identity = msgspec.json.decode(bounded_io.read_file(folder / FILE, limit=MOST_BYTES), type=QueueIdentity)
    except (bounded_io.NotAFile, bounded_io.FileTooLarge, msgspec.MsgspecError):
        return None
    except OSError as fault:
        if fault.errno in PASSING:
            raise
        return None
    if identity.version != VERSION:
        return None
    return FoundIdentity(identity.project, identity.destination, folder.parent.name, folder, identity.mark)


def is_partial_identity(folder: Path) -> bool:
    """Return True for a folder that a crash left incomplete."""
    return folder.name.startswith(".")


def sweep_folders(root: Path) -> None:
    """Remove incomplete folders of an earlier process. They contain no records."""
    for partial in root.glob(f"*/.*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


class QueueFolders:
    """The folders below a root. All methods except `forget` may wait for the disk, so they run on a thread. They run
    one after another, except `remove`, which does not use the index.
    """

    def __init__(
        self, root: Path, *, system: System, clock: Callable[[], int], randomness: Callable[[int], bytes]
    ) -> None:
        """`clock` returns Unix milliseconds, `randomness` so many bytes."""
        self._root = root
        self._system = system
        self._clock = clock
        self._randomness = randomness
        self._known: dict[Path, FoundIdentity] = {}
        self._left: set[Path] = set()  # folders that are no queues, as logged

    def scan(self) -> dict[Path, QueueFault]:
        """Read the owners that are not known yet.

        Returns a fault for each folder, of the root or of a queue, whose content cannot be read for now. Raises OSError
        when the root cannot be read.
        """
        faults: dict[Path, QueueFault] = {}
        for place in sorted(self._root.iterdir()):
            try:
                folders = sorted(folder for folder in place.iterdir() if folder.is_dir()) if place.is_dir() else []
            except OSError as fault:
                faults[place] = _fault(WHICH, place, fault)
                continue
            for folder in folders:
                try:
                    self._read(folder)
                except OSError as fault:
                    faults[folder] = _fault(WHOSE, folder, fault)
        return faults

    def _read(self, folder: Path) -> None:
        if folder in self._known or is_partial_identity(folder):
            return
        try:
            found = read_identity(folder)
        except FileNotFoundError:
            return  # it was removed meanwhile
        if found is not None:
            self._known[folder] = found
        elif not (folder / GONE).exists() and folder not in self._left:
            self._left.add(folder)
            log.error("Whose the queue in %s is cannot be read; it is left as it is.", folder)

    def tell(self, faults: Mapping[Path, QueueFault]) -> None:
        """Log what cannot be read."""
        if faults:
            told = " ".join(fault.message for fault in [*faults.values()][:TOLD])
            log.error("Of what is in %s, %s cannot be read: %s", self._root, counted(len(faults), "folder"), told)

    def all(self) -> tuple[list[FoundIdentity], list[QueueFault]]:
        """Return the queues that are on disk, sorted by their folders, and the folders that cannot be read for now."""
        try:
            faults = [*self.scan().values()]
        except OSError as fault:  # of the root: too many open files, for instance
            faults = [_fault(WHICH, self._root, fault)]
        return [self._known[folder] for folder in sorted(self._known)], faults

    def find_or_make(self, wanted: WantedQueue) -> FoundIdentity:
        """Return the queue of a destination, or create it. Raises OSError, and QueueFault if it may be in a folder that
        cannot be read now.
        """
        found = self._find(wanted)
        if found is None:
            faults = self.scan()
            found = self._find(wanted)
            for path, fault in faults.items():
                if found is None and self._root / wanted.directory in (path, path.parent):
                    raise QueueFault(f"{fault.message} Until then the queue of {wanted.name} is not opened.")
        return found or self._make(wanted)

    def remove(self, folder: Path) -> bool:
        """Remove the folder of an empty queue, but keep damaged files. Return True if it is no queue any more."""
        with contextlib.suppress(OSError):
            if not (folder / QUARANTINE).exists():
                shutil.rmtree(folder)
            else:
                (folder / FILE).rename(folder / GONE)
                for path in [*folder.glob(f"*{segments.SUFFIX}"), *folder.glob(f"*{segments.ACKNOWLEDGED}")]:
                    path.unlink()
                shutil.rmtree(folder / DEAD_LETTERS, ignore_errors=True)
        return read_identity(folder) is None

    def forget(self, folder: Path) -> None:
        """Forget a folder that was removed."""
        self._known.pop(folder, None)

    def _find(self, wanted: WantedQueue) -> FoundIdentity | None:
        """Return the queue of a destination; if there are several, the one whose folder is first."""
        found = [one for one in self._known.values() if (one.project, one.name, one.directory) == wanted]
        return min(found, key=lambda one: str(one.folder), default=None)

    def _make(self, wanted: WantedQueue) -> FoundIdentity:
        """Create a folder with its file: both or neither. Raises OSError."""
        place = self._root / wanted.directory
        if not place.exists():
            place.mkdir(mode=0o700)
            self._system.synchronise_folder(self._root)
        at, randomness = self._clock(), self._randomness(ids.RANDOM_BYTES + 4)
        mark = int.from_bytes(randomness[ids.RANDOM_BYTES :], "little")
        folder = place / ids.ulid(milliseconds=at, randomness=randomness[: ids.RANDOM_BYTES])
        identity = QueueIdentity(
            version=VERSION, project=wanted.project, destination=wanted.name, created=at, mark=mark
        )
        partial = folder.with_name(f".{folder.name}{PARTIAL}")
        partial.mkdir(mode=0o700)
        try:
            self._fill(partial, identity)
            partial.rename(folder)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)  # the next attempt takes another name
            raise
        self._system.synchronise_folder(place)
        made = self._known[folder] = FoundIdentity(wanted.project, wanted.name, place.name, folder, mark)
        return made

    def _fill(self, partial: Path, identity: QueueIdentity) -> None:
        (partial / DEAD_LETTERS).mkdir(mode=0o700)  # now, because the disk may be full later
        descriptor = os.open(partial / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")
            self._system.synchronise(descriptor)
        finally:
            os.close(descriptor)
        self._system.synchronise_folder(partial)


def _fault(said: str, path: Path, fault: OSError) -> QueueFault:
    return QueueFault(said.format(path, os.strerror(fault.errno or 0), DO))


class PeekedState(StrEnum):
    """The state of a batch."""

    QUEUED = "queued"
    ACKNOWLEDGED = "acknowledged"  # it left the queue, or the dead letters, and its bytes are still there
    DEAD = "dead"


class Peeked(NamedTuple):
    """A batch or dead letter in a file. Times are Unix milliseconds; `payload` is None when it is damaged."""

    state: PeekedState
    number: int
    records: int
    taken_at: int
    payload: bytes | None
    final_failure: FinalFailure | None = None


def peek_queues(root: Path) -> list[FoundIdentity]:
    """Return the queues below a root, sorted by their folders."""
    known = [read_identity(one) for one in sorted(root.glob("*/*/")) if not is_partial_identity(one)]
    return [one for one in known if one is not None]


def peek(queue: FoundIdentity) -> Iterator[Peeked]:
    """Return the content of a queue: the batches in their order, then the dead letters in theirs."""
    for path in sorted(queue.folder.glob(f"*{segments.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=False)
    for path in sorted((queue.folder / DEAD_LETTERS).glob(f"*{segments.SUFFIX}")):
        yield from _segment(path, mark=queue.mark, is_dead=True)


def _segment(path: Path, *, mark: int, is_dead: bool) -> Iterator[Peeked]:
    try:
        region = files.read_whole(path, limit=segments.LONGEST_BYTES).data
        header = segments.decode_segment(region)
    except (OSError, segments.UnknownVersion):
        return
    first = header.first if header is not None else segments.segment_number(path.stem)
    if first is None or (header is not None and header.flags & segments.DRAINED):
        return
    acknowledged = Acknowledgements(first, mark=mark)
    with contextlib.suppress(OSError):
        limit = segments.MOST_ACKNOWLEDGEMENT_BYTES
        acknowledged.read(files.read_whole(path.with_suffix(segments.ACKNOWLEDGED), limit=limit).data)
    for frame in segments.scan(region, segments.SEGMENT_HEADER_BYTES, mark=mark).frames:
        if frame.number >= first:
            begins = frame.offset + segments.FRAME_HEADER_BYTES
            yield _peeked(frame, region[begins : begins + frame.size], acknowledged, is_dead=is_dead)


def _peeked(frame: Frame, payload: bytes, acknowledged: Acknowledgements, *, is_dead: bool) -> Peeked:
    whole = payload if zlib.crc32(payload) == frame.checksum else None
    state = PeekedState.DEAD if is_dead else PeekedState.QUEUED
    if frame.number in acknowledged:
        state = PeekedState.ACKNOWLEDGED
    if is_dead:
        letter = segments.decode_dead_letter(whole) if whole is not None else None
        if letter is None:
            return Peeked(state, frame.number, frame.records, frame.taken_at, None)
        return Peeked(state, frame.number, frame.records, letter.taken_at, letter.payload, letter.final_failure)
    return Peeked(state, frame.number, frame.records, frame.taken_at, whole)
