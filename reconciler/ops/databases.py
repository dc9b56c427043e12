"""The databases of a service: verified copies, and files that are whole or absent."""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.store import files
from reconciler.store.contract import StoreFault
from reconciler.store.files import KINDS, DatabaseIdentity, DatabaseKind, DatabasePlaces

if TYPE_CHECKING:
    from reconciler.settings.models import Settings

# A service that had a store must not begin with an empty one.

COPIED = re.compile(r"\.(?:before|replaced)-[0-9TZ]+")
"""The end of names of copies that an upgrade or a restore made beside a database."""
ELSEWHERE = "name the service's settings with --config, or its `stateDir` with --state-dir"
"""The advice if there is no store: the service has the settings of its unit, which a shell seldom has."""


POSTGRESQL = "postgresql"
"""The file in a state directory which says that the service has a store on PostgreSQL."""


def database_places(settings: "Settings") -> DatabasePlaces:
    """Return the paths of the databases of a service with these settings, which are of SQLite."""
    return files.places(settings.store.url, settings.state_dir)


def kept_in(settings: "Settings") -> tuple[Path, ...]:
    """Return the folders of the service's data on this machine, the state directory first."""
    if settings.store.is_postgresql:
        return (settings.state_dir,)
    return tuple(dict.fromkeys((settings.state_dir, database_places(settings).store.parent)))  # often the same


def check_sqlite(settings: "Settings", instead: str) -> None:
    """Raise Refused, with the action to take `instead`, if the store is not in files of this machine."""
    if settings.store.is_postgresql:
        raise Refused(f"The store is on PostgreSQL, which has its own programs for this: {instead}.")


def missing_on_postgresql(state_directory: Path) -> str | None:
    """Return why the service must not start with an empty database: it had a store. None if it never had one."""
    if not any((state_directory / name).exists() for name in (POSTGRESQL, files.STORE.file, files.OPERATIONS.file)):
        return None
    return (
        f"The database of `store.url` is empty, and {state_directory} is of a service that had a store; correct "
        "`store.url`, copy the store with `reconciler store copy`, restore a dump with `pg_restore`, or start once "
        "with --new-store to begin with an empty one."
    )


def mark_postgresql(state_directory: Path) -> None:
    """Record in a state directory that its service has a store on PostgreSQL. If this fails, the start continues."""
    with suppress(OSError):
        (state_directory / POSTGRESQL).touch(mode=0o600)


def missing(found: DatabasePlaces) -> str | None:
    """Return why the service must not start with an empty store: it had one, which is missing or empty. None if nothing
    is missing, or there never was a store. Raises OSError.
    """
    store = found.store
    if store.exists() and store.stat().st_size:
        return None
    copies = [each for each in store.parent.glob(f"{store.name}.*") if COPIED.fullmatch(each.name, len(store.name))]
    traces = (found.operations, found.operations.with_name(POSTGRESQL))
    if not copies and not any(each.exists() for each in traces):
        return None
    is_ = "is empty" if store.exists() else "is missing"
    if not copies and not found.operations.exists():
        return (
            f"The store {store} {is_}, and the service of {found.operations.parent} had its store on PostgreSQL; set "
            "`store.url`, copy the store with `reconciler store copy`, or start once with --new-store to begin with an "
            "empty one."
        )
    backup = max(copies, key=lambda each: (each.stat().st_mtime, each.name), default="BACKUP")
    return (
        f"The store {store} {is_}, and {found.operations.parent} is of a service that had one; put it back, restore a "
        f"backup with `reconciler restore {backup}`, or start once with --new-store to begin with an empty one."
    )


# Files and folders that are complete or do not exist: they are forced to disk, renamed, and given to their owner.

SPARE_BYTES = 64 << 20  # 64 MiB that stay free in addition to the written bytes
CHUNK_BYTES = 1 << 20
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def make_private_file(path: Path) -> None:
    """Make an empty file that only its owner may read. An existing file is replaced, and a link is not followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def write_new_file(path: Path, data: bytes) -> None:
    """Write a new file. It is on the disk when this returns."""
    make_private_file(path)
    path.write_bytes(data)
    force_to_disk(path)


def force_to_disk(path: Path) -> None:
    """Force a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits, as `sha256sum` prints it."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def keep_copy(path: Path, kept: Path) -> None:
    """Keep a file under a second name, on the disk; `path` stays. Raises OSError."""
    os.link(path, kept)
    force_to_disk(kept.parent)


def give_to_owner(path: Path, *, like: Path) -> None:
    """Give a file that root made to the owner of `like`: otherwise the service could not open it."""
    owner = like.stat()
    if os.geteuid() == 0 and (path.stat().st_uid, path.stat().st_gid) != (owner.st_uid, owner.st_gid):
        os.chown(path, owner.st_uid, owner.st_gid)


def remove_database(path: Path) -> None:
    """Remove the file of a database and SQLite's files beside it, if they exist."""
    for name in files.beside(path):
        name.unlink(missing_ok=True)


def check_room(folder: Path, needed: int, *, purpose: str) -> None:
    """Raise Refused if the disk of a folder has no room for this many bytes and a reserve."""
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE_BYTES:
        raise Refused(
            f"{purpose} takes {size_text(needed + SPARE_BYTES)}, and the disk of {folder} has {size_text(free)} left; "
            "make room there."
        )


def size_text(number: int) -> str:
    """Return a size for people: `812 bytes`, `1.4 GiB`."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} bytes" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


# A time limit for long operations, and messages about their progress.

EVERY_SECONDS = 2.0  # at most one line of progress

Said = Callable[[str], None]


@dataclass
class ProgressWatch:
    """A time limit with progress messages. `clock` is monotonic, in seconds; the operation must end within `seconds`
    from now.
    """

    clock: Callable[[], float]
    seconds: float
    said: Said

    def __post_init__(self) -> None:
        """Start the time."""
        self._begun = self._told = self.clock()

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return self.clock() - self._begun > self.seconds

    def check(self, what: str) -> None:
        """Raise Refused if the time is up."""
        if self.is_over:
            raise Refused(f"{what} took longer than {self.seconds:g} seconds and was given up; nothing was changed.")

    def tell(self, sentence: str) -> None:
        """Report the progress, unless a report was a moment ago."""
        if self.clock() - self._told >= EVERY_SECONDS:
            self._told = self.clock()
            self.said(sentence)


# A copy of a database while others write to it: consistent, verified, and on the disk.


@dataclass(frozen=True, slots=True)
class CopiedDatabase:
    """The content of a copy."""

    identity: DatabaseIdentity
    rows: Mapping[str, int]


def copy_database(
    source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch, is_quick: bool = False
) -> CopiedDatabase:
    """Copy a database to one new file without a log, which only its owner may read.

    `is_quick`: the copy is verified by `quick_check`, which does not compare indexes with their tables. After a failure
    there is no file. Raises Refused, NewerStore, StoreFault.
    """
    try:
        make_private_file(target)
        before = files.copy_into(source, target, kind=kind, watch=watch)
        found = files.identify(target, kind)
        told = files.verdict(target, kind, watch=watch, is_quick=is_quick)
        is_same = found.version == before.version and (kind.forgotten != () or found.pages == before.pages)
        if told != "ok" or not is_same:
            wrong = told if told != "ok" else "a copy of it is another one"
            raise Refused(
                f"The {kind.name} is damaged ({wrong}), so that no copy of it is worth anything; restore a backup."
            )
        rows = files.count_rows(target, kind, watch=watch)
        force_to_disk(target)
    except BaseException as problem:
        remove_database(target)
        if isinstance(problem, OSError):
            raise StoreFault(
                f"The {kind.name} could not be copied ({problem}); nothing was changed: look at the disk's space and "
                "permissions."
            ) from problem
        raise
    return CopiedDatabase(found, rows)


# A copy of a database before this version changes it, for a return to the previous version.

log = logging.getLogger(__name__)

KEPT = "before"
NEWEST = 2  # copies of each database that are kept
SECONDS = 3600.0  # for a copy; a start waits for it


def copy_before_upgrade(
    places: DatabasePlaces, *, clock: Callable[[], float], beating: Callable[[], None] = lambda: None
) -> tuple[Path, ...]:
    """Copy each database that this version will change, before any is changed. Return the copies, which may be none.

    No other process may use them. `clock` is monotonic, in seconds; `beating` is called during the copy. A database of
    another program or a later version is not copied; opening it is refused. Raises Refused: then no database must be
    changed.
    """
    copies = []
    for kind in KINDS:
        path = places.of(kind)
        found = _older(path, kind)
        if found is not None:
            copy = path.with_name(f"{path.name}.{KEPT}-{kind.latest}")
            watch = ProgressWatch(clock, SECONDS, lambda _: beating())
            _copy_one(path, copy, found, kind=kind, watch=watch)
            told = "Copied the %s to %s before it is brought from version %d to %d."
            log.info(told, kind.name, copy, found.version, kind.latest)
            _remove_old(path)
            copies.append(copy)
    return tuple(copies)


def _older(path: Path, kind: DatabaseKind) -> DatabaseIdentity | None:
    if not path.exists() or path.stat().st_size == 0:
        return None
    with suppress(ReconcilerError):
        found = files.identify(path, kind)
        return found if found.version < kind.latest else None
    return None


def _copy_one(path: Path, copy: Path, found: DatabaseIdentity, *, kind: DatabaseKind, watch: ProgressWatch) -> None:
    partial = copy.with_name(f"{copy.name}.partial")
    what = f"The copy of the {kind.name} before it is brought to this version"
    try:
        check_room(path.parent, found.size * (2 if kind.forgotten else 1), purpose=what)
        copy_database(path, partial, kind=kind, watch=watch, is_quick=True)
        partial.rename(copy)
        force_to_disk(copy.parent)
    except (OSError, StoreFault) as problem:
        why = str(problem.__cause__ or problem).rstrip(".")
        if isinstance(problem, OSError):
            why = problem.strerror or "the disk failed"
        raise Refused(
            f"The {kind.name} could not be copied before it is brought to this version ({why}), so it stays as it is; "
            "mend that, or install the version before."
        ) from problem


def _remove_old(path: Path) -> None:
    """Remove all copies except the newest. Failures are ignored, because old copies do no harm."""
    beginning = f"{path.name}.{KEPT}-"
    with suppress(OSError):
        numbers = (each.name.removeprefix(beginning) for each in path.parent.glob(f"{beginning}*"))
        for number in sorted(int(number) for number in numbers if number.isdecimal())[:-NEWEST]:
            copy = path.with_name(f"{beginning}{number}")
            copy.unlink()
            log.info("Removed %s, an older copy.", copy)
