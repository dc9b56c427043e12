"""A backup: a folder with both databases as they were at one moment each, and a manifest. There whole or not at all.

Belongs here: the order, and the name under which it is made. Does not: copying (`copies`), the command
(`reconciler.cli.backup`).

A process that is killed leaves `.NAME.unfinished` and nothing else; the next backup of that name removes it.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.store.contract import StoreFault
from reconciler.upkeep import copies, files, manifests
from reconciler.upkeep.databases import ELSEWHERE, KINDS, STORE, DatabaseKind, DatabasePlaces
from reconciler.upkeep.manifests import Manifest
from reconciler.upkeep.watches import ProgressWatch
from reconciler.version import __version__

OURS = (manifests.NAME, *(kind.file for kind in KINDS))


def back_up(places: DatabasePlaces, folder: Path, *, now: datetime, watch: ProgressWatch) -> Manifest:
    """Make a backup of a service, running or not, as a new folder. Raises Refused, StoreFault; then there is none."""
    _check_folder(folder)
    found = _found(places)
    needed = sum(copies.look_at_copy(places.of(kind), kind).size * (2 if kind.forgotten else 1) for kind in found)
    files.check_room(folder.parent, needed, purpose="The backup")
    try:
        with _unfinished(folder) as partial:
            copied = tuple(_copied(places.of(kind), partial / kind.file, kind=kind, watch=watch) for kind in found)
            manifest = Manifest(format=manifests.FORMAT, program=__version__, made_at=rfc3339(now), files=copied)
            files.write_new_file(partial / manifests.NAME, manifests.encode_manifest(manifest))
            files.force_to_disk(partial)
            partial.rename(folder)
            files.force_to_disk(folder.parent)
    except OSError as error:
        raise Refused(
            f"The backup {folder} cannot be written ({error.strerror}); mend that, or name another."
        ) from error
    return manifest


def _check_folder(folder: Path) -> None:
    if os.path.lexists(folder):
        raise Refused(f"{folder} is there already; name a folder that is not, such as one with the date in its name.")
    if not folder.parent.is_dir():
        raise Refused(f"{folder.parent} is no folder; make it first.")


def _found(places: DatabasePlaces) -> list[DatabaseKind]:
    if not places.store.exists():
        raise Refused(f"There is no store at {places.store}; {ELSEWHERE}.")
    return [kind for kind in KINDS if kind is STORE or places.of(kind).exists()]


def _copied(source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch) -> manifests.File:
    copied = copies.copy_database(source, target, kind=kind, watch=watch)
    try:
        length, digest = target.stat().st_size, files.file_digest(target)
    except OSError as error:  # what cannot be read back is no backup
        raise StoreFault(f"{target} cannot be read back ({error.strerror}); look at its disk.") from error
    return manifests.File(target.name, length, digest, copied.identity.version, copied.rows)


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder of our own beside it, for as long as the context lasts; what a killed process left in it goes."""
    partial = folder.with_name(f".{folder.name}.unfinished")
    with contextlib.suppress(FileExistsError):
        partial.mkdir(mode=0o700)
    descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _take(descriptor, partial)
        try:
            _clear(partial)
            yield partial
        finally:
            if partial.is_dir():
                _clear(partial)
                partial.rmdir()
    finally:
        os.close(descriptor)


def _take(descriptor: int, partial: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"Another backup is being made in {partial}; wait for its end, or choose another name.") from None
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise Refused(f"{partial} belongs to somebody else; remove it, or choose another name.")


def _clear(partial: Path) -> None:
    """Remove what we make, and nothing else."""
    for name in OURS:
        files.remove_database(partial / name)
