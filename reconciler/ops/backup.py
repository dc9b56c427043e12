"""Backup and restore."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.ops import databases
from reconciler.ops.databases import ELSEWHERE, CopiedDatabase, ProgressWatch
from reconciler.settings import bounded_io
from reconciler.store import files
from reconciler.store.contract import StoreFault
from reconciler.store.files import KINDS, OPERATIONS, STORE, DatabaseKind, DatabasePlaces
from reconciler.store.records import AuditRow
from reconciler.version import __version__

# The manifest of a backup, for people and for `reconciler restore`.

NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 1 << 20
WITHOUT = ("queues", "mirrors", "sessions", "settings", "files of secrets")


class File(msgspec.Struct, frozen=True):
    """One database: bytes, SHA-256 as hexadecimal digits, the version of its tables, how many rows each has."""

    name: str
    bytes: int
    sha256: str
    version: int
    rows: Mapping[str, int]


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """A whole backup. `program` is the version that made it, `made_at` RFC 3339 in UTC."""

    format: int
    program: str
    made_at: str
    files: tuple[File, ...]
    without: tuple[str, ...] = WITHOUT

    def of(self, kind: DatabaseKind) -> File | None:
        """Return the entry of a database; None if it is not in the backup."""
        return next((file for file in self.files if file.name == kind.file), None)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a backup. Raises Refused for a folder without one, or one from a later version."""
    path = folder / NAME
    try:
        data = bounded_io.read_file(path, limit=MOST_BYTES)
        manifest = msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError:
        raise Refused(f"{folder} is no backup: it has no {NAME}; name one that `reconciler backup` made.") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}); mend that.") from error
    except (msgspec.DecodeError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        raise Refused(f"{path} is not as `reconciler backup` wrote it; take another backup.") from None
    if manifest.format > FORMAT:
        raise Refused(
            f"{folder} is a backup of format {manifest.format}, made by version {manifest.program}, and this program "
            f"knows formats up to {FORMAT}; install that version."
        )
    return manifest


def check_manifest(folder: Path, manifest: Manifest) -> None:
    """Compare the files with their manifest. Raises Refused."""
    known = {kind.file for kind in KINDS}
    names = [file.name for file in manifest.files]
    if KINDS[0].file not in names or not known.issuperset(names):
        raise Refused(f"{folder / NAME} names other files than a backup has; take another backup.")
    for file in manifest.files:
        path = folder / file.name
        try:
            is_same = path.stat().st_size == file.bytes and databases.file_digest(path) == file.sha256
        except OSError as error:
            raise Refused(f"{path} cannot be read ({error.strerror}); take another backup.") from error
        if not is_same:
            raise Refused(f"{path} is not what was written when the backup was made; take another backup.")


# A backup: a folder with one consistent copy of each database, and a manifest. It is complete or does not exist.
#
# A process that is killed leaves a folder `.NAME.….unfinished` and nothing else.


def back_up(places: DatabasePlaces, folder: Path, *, now: datetime, watch: ProgressWatch) -> Manifest:
    """Make a backup of a service, running or not, as a new folder. Raises Refused, StoreFault; then there is none."""
    if os.path.lexists(folder):
        raise Refused(f"{folder} is there already; name a folder that is not, such as one with the date in its name.")
    if not folder.parent.is_dir():
        raise Refused(f"{folder.parent} is no folder; make it first.")
    if not places.store.exists():
        raise Refused(f"There is no store at {places.store}; {ELSEWHERE}.")
    found = [kind for kind in KINDS if places.of(kind).exists()]
    needed = sum(files.identify(places.of(kind), kind).size * (2 if kind.forgotten else 1) for kind in found)
    databases.check_room(folder.parent, needed, purpose="The backup")
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{folder.name}.", suffix=".unfinished", dir=folder.parent, ignore_cleanup_errors=True
        ) as made:
            partial = Path(made)
            copied = tuple(_copied(places.of(kind), partial / kind.file, kind=kind, watch=watch) for kind in found)
            manifest = Manifest(format=FORMAT, program=__version__, made_at=rfc3339(now), files=copied)
            text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)  # for people as well
            databases.write_new_file(partial / NAME, text + b"\n")
            databases.force_to_disk(partial)
            partial.rename(folder)
            databases.force_to_disk(folder.parent)
    except OSError as error:
        raise Refused(
            f"The backup {folder} cannot be written ({error.strerror}); mend that, or name another."
        ) from error
    return manifest


def _copied(source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch) -> File:
    copied = databases.copy_database(source, target, kind=kind, watch=watch)
    try:
        length, digest = target.stat().st_size, databases.file_digest(target)
    except OSError as error:  # an unreadable backup is none
        raise StoreFault(f"{target} cannot be read back ({error.strerror}); look at its disk.") from error
    return File(target.name, length, digest, copied.identity.version, copied.rows)


# A restore: a backup replaces the databases of a service, which are kept under another name.
#
# If the process is killed before the rename of the store, the old one is unchanged; after it, the new one counts, and
# nobody is signed in. The next restore overwrites the temporary files.

KEPT = "replaced"
INCOMING = ".restoring"  # the end of a temporary name


@dataclass(frozen=True, slots=True)
class GivenBackup:
    """A verified backup, or a copy of only the store; then `made_at` is empty."""

    path: Path
    made_at: str
    sources: Mapping[DatabaseKind, Path]


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """The restored files. `made_at` is empty for a copy of a store without a manifest; `kept` are the replaced files
    under their new names.
    """

    made_at: str
    version: int
    kept: tuple[Path, ...]


def read_backup(path: Path) -> GivenBackup:
    """Return the verified backup at a path. Raises Refused if there is none, or it was changed, and NewerStore."""
    if not path.is_dir():
        if not path.exists():
            raise Refused(f"{path} is not there; name a folder that `reconciler backup` made.")
        return GivenBackup(path, "", {STORE: path})
    manifest = read_manifest(path)
    for kind in KINDS:
        if (file := manifest.of(kind)) is not None:
            files.check_version(file.version, kind, path / file.name)
    check_manifest(path, manifest)
    return GivenBackup(
        path, manifest.made_at, {kind: path / kind.file for kind in KINDS if manifest.of(kind) is not None}
    )


def restore(
    backup: GivenBackup, places: DatabasePlaces, *, by: str, now: datetime, watch: ProgressWatch
) -> RestoredBackup:
    """Replace the databases by a backup. No process may use them. `by` is the actor for the audit.

    Raises Refused, NewerStore, StoreFault; then the former databases are unchanged.
    """
    sources = backup.sources
    needed = sum(files.identify(path, kind).size for kind, path in sources.items())
    # Both may be on one disk, and the old files stay.
    databases.check_room(places.store.parent, needed, purpose="To restore this backup")
    try:
        with contextlib.ExitStack() as stack:
            incoming = {kind: stack.enter_context(_incoming(places.of(kind))) for kind in sources}
            copied = {kind: _copied_backup(path, incoming[kind], kind, watch) for kind, path in sources.items()}
            _record_restore(incoming[STORE], copied[STORE], backup, by=by, now=now)
            stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            kept = _put(places, incoming, stamp=stamp)
    except OSError as error:
        raise Refused(f"The backup cannot be put at {error.filename} ({error.strerror}); mend that.") from error
    return RestoredBackup(backup.made_at, copied[STORE].identity.version, kept)


@contextlib.contextmanager
def _incoming(target: Path) -> Iterator[Path]:
    """Yield the temporary name under which a file is made."""
    path = target.with_name(f"{target.name}{INCOMING}")
    try:
        yield path
    finally:
        databases.remove_database(path)


def _copied_backup(source: Path, incoming: Path, kind: DatabaseKind, watch: ProgressWatch) -> CopiedDatabase:
    databases.remove_database(incoming)
    copied = databases.copy_database(source, incoming, kind=kind, watch=watch)
    databases.give_to_owner(incoming, like=incoming.parent)
    databases.force_to_disk(incoming)
    return copied


def _record_restore(incoming: Path, copied: CopiedDatabase, backup: GivenBackup, *, by: str, now: datetime) -> None:
    """Record the restore in the audit of the restored store. A store of an older version is not changed, so that its
    program can still use it.
    """
    if copied.identity.version != STORE.latest:
        return
    detail = {"backup": visible(str(backup.path)), "madeAt": backup.made_at or None}
    event = AuditRow(
        at=rfc3339(now),
        project="",
        actor=by,
        action="restored",
        kind="Store",
        name=STORE.file,
        detail=json.dumps(detail, ensure_ascii=False),
    )
    files.tell(incoming, [event])
    databases.force_to_disk(incoming)


def _put(places: DatabasePlaces, incoming: dict[DatabaseKind, Path], *, stamp: str) -> tuple[Path, ...]:
    """Put the files in place. Sessions are removed first, so that none is valid with another store; then one rename
    replaces the store.
    """
    kept = [*_keep(places.operations, stamp, stays=False), *_keep(places.store, stamp, stays=True)]
    incoming[STORE].rename(places.store)
    databases.force_to_disk(places.store.parent)
    if OPERATIONS in incoming:
        incoming[OPERATIONS].rename(places.operations)
        databases.force_to_disk(places.operations.parent)
    return tuple(kept)


def _keep(path: Path, stamp: str, *, stays: bool) -> list[Path]:
    """Keep a present file under another name, besides its own if it `stays`. Remove the logs beside it, which SQLite
    would use for the new file.
    """
    if not path.exists():
        return []
    files.settle(path)
    kept = path.with_name(f"{path.name}.{KEPT}-{stamp}")
    if stays:
        databases.keep_copy(path, kept)
    for log, other in zip(files.beside(path)[1:], files.beside(kept)[1:], strict=True):
        with contextlib.suppress(FileNotFoundError):
            log.rename(other)
    databases.force_to_disk(path.parent)
    if not stays:
        path.rename(kept)
        databases.force_to_disk(path.parent)
    return [kept]
