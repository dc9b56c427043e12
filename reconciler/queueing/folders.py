"""The folders below the root of queues: which queue is in which, and how one comes and goes.

Belongs here: the index of what is on disk, making and removing folders. Does not: what is in one (`recovery`), which
queues are open (`queues`).

The files that say whose a folder is are read once: the root is locked, so nobody else makes or removes any. One that
cannot be read for now (`identities.read`) is read again by whoever would otherwise take its queue for a missing one.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from reconciler import ids
from reconciler.queueing import identities, quarantine, segments
from reconciler.queueing.identities import Found
from reconciler.queueing.system import System

log = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """Whose queue, and the name of the folder that its own folder is in."""

    project: str
    name: str
    directory: str


class Folders:
    """See the module. Every method may wait for the disk; they are called one after another."""

    def __init__(
        self, root: Path, *, system: System, clock: Callable[[], int], randomness: Callable[[int], bytes]
    ) -> None:
        """`clock` gives Unix milliseconds, `randomness` so many bytes."""
        self._root = root
        self._system = system
        self._clock = clock
        self._randomness = randomness
        self._known: dict[Path, Found] = {}
        self._first: dict[Wanted, Found] = {}  # of several for the same, that with the lowest folder
        self._unread: list[Path] = []

    def scan(self) -> None:
        """Read whose every folder is. Raises OSError when the root cannot be read."""
        self._known.clear()
        self._unread = [folder for folder in sorted(self._root.glob("*/*/")) if not identities.is_partial(folder)]
        try:
            self._read_rest()
        except OSError as fault:
            log.warning("Whose some queues in %s are cannot be read for now (%s).", self._root, fault.strerror)

    def all(self) -> list[Found]:
        """The queues that are on disk, sorted by their folders. Raises OSError."""
        self._read_rest()
        return [self._known[folder] for folder in sorted(self._known)]

    def find_or_make(self, wanted: Wanted) -> Found:
        """The queue of a destination; made when there is none. Raises OSError, also when that is not known for now."""
        found = self._first.get(wanted)
        if found is None:
            self._read_rest()
            found = self._first.get(wanted)
        return found or self._make(wanted)

    def remove(self, folder: Path) -> None:
        """Remove the folder of a queue in which nothing is queued. Damaged files are kept. Raises OSError."""
        try:
            _remove(folder)
        finally:
            if identities.read(folder) is None:
                self._known.pop(folder, None)
                self._sort()

    def _make(self, wanted: Wanted) -> Found:
        place = self._root / wanted.directory
        if not place.exists():
            place.mkdir(mode=0o700)
            self._system.synchronise_folder(self._root)
        made = identities.make(
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
        """Read what is not read; what fails is left for the next time. Raises OSError."""
        if not self._unread:
            return
        failures: list[OSError] = []
        unread, self._unread = self._unread, []
        for folder in unread:
            try:
                self._read(folder)
            except OSError as fault:
                failures.append(fault)
                self._unread.append(folder)
        self._sort()
        if failures:
            raise failures[0]

    def _read(self, folder: Path) -> None:
        found = identities.read(folder)
        if found is not None:
            self._known[folder] = found
        elif not (folder / identities.GONE).exists():
            log.error("Whose the queue in %s is cannot be read; it is left as it is.", folder)

    def _sort(self) -> None:
        ordered = [self._known[folder] for folder in sorted(self._known, key=str, reverse=True)]
        self._first = {Wanted(one.project, one.name, one.directory): one for one in ordered}


def _remove(folder: Path) -> None:
    """Of a queue with damaged files, those and its file stay; the latter under another name."""
    if (folder / quarantine.FOLDER).exists():
        (folder / identities.FILE).rename(folder / identities.GONE)
        for path in [*folder.glob(f"*{segments.SUFFIX}"), *folder.glob(f"*{segments.ACKNOWLEDGED}")]:
            path.unlink()
        shutil.rmtree(folder / identities.DEAD_LETTERS, ignore_errors=True)
        return
    shutil.rmtree(folder)
