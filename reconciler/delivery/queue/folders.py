"""Folders of queues, and the identity file in each."""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.delivery.queue import frames, recovery
from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.queue.files import PASSING, System
from reconciler.model import ids
from reconciler.model.text import counted
from reconciler.settings import bounded_io

# Whose a queue's folder is: the small file `queue.json` in it, so that no text of users is ever part of a path.

FILE = "queue.json"
GONE = "queue.gone.json"  # of a queue that was removed, and of which damaged files are kept
DEAD_LETTERS = "dead"  # the folder of their segments
PARTIAL = ".new"  # how the name of a folder ends that is being made
VERSION = 1
MOST_BYTES = 64 << 10
DIRECTORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


class QueueIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """`created` is in Unix milliseconds; `mark` is the secret number that checksums begin with."""

    version: int
    project: str
    destination: str
    created: int
    mark: int


class FoundIdentity(NamedTuple):
    """A queue that is on disk. `directory` is the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str
    folder: Path
    mark: int
    created: int


def read_identity(folder: Path) -> FoundIdentity | None:
    """Whose a folder is; None when that cannot be read. Raises OSError for what passes: then none is made anew."""
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
    return FoundIdentity(
        identity.project, identity.destination, folder.parent.name, folder, identity.mark, identity.created
    )


def is_partial_identity(folder: Path) -> bool:
    """Whether a folder is what a crash left of making one."""
    return folder.name.startswith(".")


def make_identity(
    directory: Path, *, project: str, name: str, at: int, randomness: bytes, system: System
) -> FoundIdentity:
    """Make a folder for a queue; it is there, with its file, or not at all. Raises OSError.

    `randomness` are 14 bytes, of which the last 4 are the mark.
    """
    mark = int.from_bytes(randomness[ids.RANDOM_BYTES :], "little")
    folder = directory / ids.ulid(milliseconds=at, randomness=randomness[: ids.RANDOM_BYTES])
    identity = QueueIdentity(version=VERSION, project=project, destination=name, created=at, mark=mark)
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    partial.mkdir(mode=0o700)
    try:
        _fill(partial, identity, system)
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)  # whoever wants the queue tries again, with another name
        raise
    system.synchronise_folder(directory)
    return FoundIdentity(project, name, directory.name, folder, mark, at)


def sweep_folders(root: Path) -> None:
    """Remove what a process that ended while it made a folder has left. Nothing is in it."""
    for partial in root.glob(f"*/.*{PARTIAL}"):
        shutil.rmtree(partial, ignore_errors=True)


def _fill(partial: Path, identity: QueueIdentity, system: System) -> None:
    (partial / DEAD_LETTERS).mkdir(mode=0o700)  # now: a disk that is full later must not keep what dies from it
    descriptor = os.open(partial / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, msgspec.json.format(msgspec.json.encode(identity)) + b"\n")
        system.synchronise(descriptor)
    finally:
        os.close(descriptor)
    system.synchronise_folder(partial)


# The folders below the root of queues: which queue is in which, and how one comes and goes.
#
# The files that say whose a folder is are read once: the root is locked, so nobody else makes or removes any. What
# cannot be read for now (`read_identity`) keeps nobody from the others; it is read again by whoever asks for all, or
# would otherwise take its queue for a missing one.

log = logging.getLogger(__name__)

TOLD = 10  # folders that cannot be read, in one line of the log

WHOSE = "Whose the queue in {} is cannot be read ({}); {}."
WHICH = "Which queues are in {} cannot be read ({}); {}."
DO = "look at its permissions, the disk, and the limit of open files"


class WantedQueue(NamedTuple):
    """Whose queue, and the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str


class QueueFolders:
    """See the module. Every method but `forget` may wait for the disk; they are called one after another, but for
    `remove`, which knows nothing of the index.
    """

    def __init__(
        self, root: Path, *, system: System, clock: Callable[[], int], randomness: Callable[[int], bytes]
    ) -> None:
        """`clock` gives Unix milliseconds, `randomness` so many bytes."""
        self._root = root
        self._system = system
        self._clock = clock
        self._randomness = randomness
        self._known: dict[Path, FoundIdentity] = {}
        self._first: dict[WantedQueue, FoundIdentity] = {}  # of several for the same, that with the lowest folder
        self._unread: dict[Path, OSError] = {}  # folders of queues, and those of the root whose content is not known

    def scan(self) -> None:
        """Read whose every folder is; what cannot be read is told. Raises OSError when the root cannot be read."""
        self._known.clear()
        self._unread.clear()
        for place in sorted(self._root.iterdir()):
            if place.is_dir():
                self._read(place)
        self._sort()
        faults = self._faults()
        if faults:
            told = " ".join(fault.message for fault in faults[:TOLD])
            log.error("Of what is in %s, %s cannot be read: %s", self._root, counted(len(faults), "folder"), told)

    def all(self) -> tuple[list[FoundIdentity], list[QueueFault]]:
        """The queues that are on disk, sorted by their folders, and what cannot be read for now, of whomever it is."""
        self._read_rest()
        return [self._known[folder] for folder in sorted(self._known)], self._faults()

    def find_or_make(self, wanted: WantedQueue) -> FoundIdentity:
        """The queue of a destination; made when there is none. Raises OSError, and QueueFault when nobody knows for now
        whether there is one.
        """
        found = self._first.get(wanted)
        if found is None:
            self._read_rest()
            found = self._first.get(wanted)
        if found is None:
            self._refuse_unknown(wanted)
        return found or self._make(wanted)

    def remove(self, folder: Path) -> bool:
        """Remove the folder of a queue in which nothing is queued; whether it is no queue any more. Damaged files are
        kept. Raises OSError.
        """
        with contextlib.suppress(OSError):
            _remove(folder)
        return read_identity(folder) is None

    def forget(self, folder: Path) -> None:
        """This one was removed."""
        self._known.pop(folder, None)
        self._sort()

    def _refuse_unknown(self, wanted: WantedQueue) -> None:
        for path in sorted(self._unread):
            if self._root / wanted.directory in (path, path.parent):
                raise QueueFault(f"{self._fault(path).message} Until then the queue of {wanted.name} is not opened.")

    def _make(self, wanted: WantedQueue) -> FoundIdentity:
        place = self._root / wanted.directory
        if not place.exists():
            place.mkdir(mode=0o700)
            self._system.synchronise_folder(self._root)
        made = make_identity(
            place,
            project=wanted.project,
            name=wanted.name,
            at=self._clock(),
            randomness=self._randomness(ids.RANDOM_BYTES + 4),
            system=self._system,
        )
        self._known[made.folder] = self._first[wanted] = made
        return made

    def _read_rest(self) -> None:
        """Read what is not read; what fails is left for the next time."""
        if not self._unread:
            return
        unread, self._unread = self._unread, {}
        for path in unread:
            self._read(path)
        self._sort()

    def _read(self, path: Path) -> None:
        """A folder of the root, with all in it, or that of one queue."""
        try:
            if path.parent == self._root:
                for folder in sorted(path.iterdir()):
                    if folder.is_dir() and not is_partial_identity(folder):
                        self._read(folder)
            else:
                self._identify(path)
        except FileNotFoundError:
            return  # it went meanwhile
        except OSError as fault:
            self._unread[path] = fault

    def _faults(self) -> list[QueueFault]:
        return [self._fault(path) for path in sorted(self._unread)]

    def _fault(self, path: Path) -> QueueFault:
        said = WHICH if path.parent == self._root else WHOSE
        return QueueFault(said.format(path, os.strerror(self._unread[path].errno or 0), DO))

    def _identify(self, folder: Path) -> None:
        found = read_identity(folder)
        if found is not None:
            self._known[folder] = found
        elif not (folder / GONE).exists():
            log.error("Whose the queue in %s is cannot be read; it is left as it is.", folder)

    def _sort(self) -> None:
        ordered = [self._known[folder] for folder in sorted(self._known, key=str, reverse=True)]
        self._first = {WantedQueue(one.project, one.name, one.directory): one for one in ordered}


def _remove(folder: Path) -> None:
    """Of a queue with damaged files, those and its file stay; the latter under another name."""
    if (folder / recovery.FOLDER).exists():
        (folder / FILE).rename(folder / GONE)
        for path in [*folder.glob(f"*{frames.SUFFIX}"), *folder.glob(f"*{frames.ACKNOWLEDGED}")]:
            path.unlink()
        shutil.rmtree(folder / DEAD_LETTERS, ignore_errors=True)
        return
    shutil.rmtree(folder)
