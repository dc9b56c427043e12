"""A backup put in the place of what a service has. What was there stays under another name.

Belongs here: the order, in which nothing is ever half there. Does not: the lock, without which this must not be called
(`reconciler.daemon.locking`), the command (`reconciler.cli.restore`).

Killed at any point: before the rename of the store the old one counts, as it was; after it the new one, and nobody is
signed in. What was written by then under names of its own is written over by the next restore.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.store import database, directory_rows
from reconciler.store.contract import AuditRow
from reconciler.upkeep import copies, databases, files, manifests
from reconciler.upkeep.copies import CopiedDatabase
from reconciler.upkeep.databases import KINDS, OPERATIONS, STORE, DatabaseKind, DatabasePlaces
from reconciler.upkeep.watches import ProgressWatch

SETTLE_MILLISECONDS = 5_000
KEPT = "replaced"
INCOMING = ".restoring"  # how the name ends of what does not count yet


@dataclass(frozen=True, slots=True)
class GivenBackup:
    """A backup that is what was written, or a copy of the store alone; then `made_at` is empty."""

    path: Path
    made_at: str
    sources: Mapping[DatabaseKind, Path]


@dataclass(frozen=True, slots=True)
class RestoredBackup:
    """What is there now. `made_at` is empty for a copy of a store without a manifest; `kept` is what was there."""

    made_at: str
    version: int
    kept: tuple[Path, ...]


def read_backup(path: Path) -> GivenBackup:
    """The backup at a path. Raises Refused for none, and for one that is not what was written, NewerStore."""
    if not path.is_dir():
        if not path.exists():
            raise Refused(f"{path} is not there; name a folder that `reconciler backup` made.")
        return GivenBackup(path, "", {STORE: path})
    manifest = manifests.read_manifest(path)
    for kind in KINDS:
        if (file := manifest.of(kind)) is not None:
            databases.check_version(file.version, kind, path / file.name)
    manifests.check_manifest(path, manifest)
    return GivenBackup(
        path, manifest.made_at, {kind: path / kind.file for kind in KINDS if manifest.of(kind) is not None}
    )


def restore(
    backup: GivenBackup, places: DatabasePlaces, *, by: str, now: datetime, watch: ProgressWatch
) -> RestoredBackup:
    """Put a backup in the place of what is there. Nobody may use that meanwhile. `by` is whom its audit names.

    Raises Refused, NewerStore, StoreFault; then what was there counts, as it was.
    """
    sources = backup.sources
    needed = sum(copies.look_at_copy(path, kind).size for kind, path in sources.items())
    # Both may be on one disk; what was there stays.
    files.check_room(places.store.parent, needed, purpose="To restore this backup")
    try:
        with contextlib.ExitStack() as stack:
            incoming = {kind: stack.enter_context(_incoming(places.of(kind))) for kind in sources}
            copied = {kind: _copied_backup(path, incoming[kind], kind, watch) for kind, path in sources.items()}
            _tell(incoming[STORE], copied[STORE], backup, by=by, now=now)
            stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            kept = _put(places, incoming, stamp=stamp)
    except OSError as error:
        raise Refused(f"The backup cannot be put at {error.filename} ({error.strerror}); mend that.") from error
    return RestoredBackup(backup.made_at, copied[STORE].identity.version, kept)


@contextlib.contextmanager
def _incoming(target: Path) -> Iterator[Path]:
    """The name under which a file is made before it counts."""
    path = target.with_name(f"{target.name}{INCOMING}")
    try:
        yield path
    finally:
        files.remove_database(path)


def _copied_backup(source: Path, incoming: Path, kind: DatabaseKind, watch: ProgressWatch) -> CopiedDatabase:
    files.remove_database(incoming)
    copied = copies.copy_database(source, incoming, kind=kind, watch=watch)
    files.give_to_owner(incoming, like=incoming.parent)
    files.force_to_disk(incoming)
    return copied


def _tell(incoming: Path, copied: CopiedDatabase, backup: GivenBackup, *, by: str, now: datetime) -> None:
    """Have the audit of the restored store say so. One of an older version stays as it is, for a program of its own."""
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
        version_before=None,
        version_after=None,
        run=None,
        request=None,
        detail=json.dumps(detail, ensure_ascii=False),
    )
    with database.faults("written"), contextlib.closing(database.open_writer(incoming)) as connection:
        directory_rows.tell(connection, [event])
        connection.execute("pragma journal_mode = delete").fetchone()  # one file, without a log beside it
    files.force_to_disk(incoming)


def _put(places: DatabasePlaces, incoming: dict[DatabaseKind, Path], *, stamp: str) -> tuple[Path, ...]:
    """Sessions go first, so that none counts beside another store; then the store changes with one rename."""
    kept = [*_aside(places.operations, stamp), *_kept(places.store, stamp)]
    incoming[STORE].rename(places.store)
    files.force_to_disk(places.store.parent)
    if OPERATIONS in incoming:
        incoming[OPERATIONS].rename(places.operations)
        files.force_to_disk(places.operations.parent)
    return tuple(kept)


def _aside(path: Path, stamp: str) -> list[Path]:
    """Have nothing under this name, and what was there under another."""
    if not path.exists():
        return []
    _settle(path)
    kept = _name(path, stamp)
    _logs_aside(path, kept)
    path.rename(kept)
    files.force_to_disk(path.parent)
    return [kept]


def _kept(path: Path, stamp: str) -> list[Path]:
    """Have what is there under another name besides, and no log that SQLite would take for one of the new file."""
    if not path.exists():
        return []
    _settle(path)
    kept = _name(path, stamp)
    files.keep_copy(path, kept)
    _logs_aside(path, kept)
    return [kept]


def _settle(path: Path) -> None:
    """Take a log that a killed process left into its file, so that the file alone is all there is. A file that is too
    damaged for that keeps its log, which goes where the file goes.
    """
    uri = f"{path.as_uri()}?mode=rw"
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute(f"pragma busy_timeout = {SETTLE_MILLISECONDS}")
        connection.execute("pragma wal_checkpoint(truncate)").fetchone()


def _logs_aside(path: Path, kept: Path) -> None:
    for log, other in zip(files.beside(path)[1:], files.beside(kept)[1:], strict=True):
        with contextlib.suppress(FileNotFoundError):
            log.rename(other)
    files.force_to_disk(path.parent)


def _name(path: Path, stamp: str) -> Path:
    return path.with_name(f"{path.name}.{KEPT}-{stamp}")
