"""The two database files of a service on SQLite: their paths, headers, copies and damage.

It is for the start, backup, restore, upgrades and the doctor, with or without a running service. Other modules read
rows.
"""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

from reconciler.model.errors import Refused
from reconciler.store import commit as commits
from reconciler.store import damage as checksums
from reconciler.store import database, operations
from reconciler.store.contract import NewerStore, StoreFault
from reconciler.store.database import Connection
from reconciler.store.records import AuditRow, DamagedVersion, NotificationRow

log = logging.getLogger(__name__)

SCHEME = "sqlite:///"
PAGES = 2048  # copied in one step, 8 MiB
PAUSE_SECONDS = 0.05  # when the file is locked for a moment
SETTLE_MILLISECONDS = 5_000
LOGS = ("-wal", "-shm", "-journal")  # how names end of what SQLite makes beside a database
DAMAGED = "damaged"  # in the name of a database that was set aside
STEPS = 100_000  # of SQLite's machine, some milliseconds, between two checks of the time


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """One of the two files: its name, what people call it, the number in its header, its newest version here.

    `forgotten` are the statements that run in every copy of it.
    """

    file: str
    name: str
    application_id: int
    latest: int
    forgotten: tuple[str, ...] = ()


STORE = DatabaseKind("store.db", "store", database.APPLICATION_ID, database.migrations()[-1].number)
OPERATIONS = DatabaseKind(
    "ops.db",
    "database of sessions and notifications",
    operations.APPLICATION_ID,
    database.migrations(operations.PACKAGE)[-1].number,
    forgotten=("forget_sessions", "forget_flow_key"),
)
KINDS = (STORE, OPERATIONS)


class DatabasePlaces(NamedTuple):
    """The paths of both files."""

    store: Path
    operations: Path

    def of(self, kind: DatabaseKind) -> Path:
        """Return the path of one of them."""
        return self.store if kind is STORE else self.operations


def places(url: str, state_directory: Path) -> DatabasePlaces:
    """Return the paths of `store.db` from `store.url`, which may be anywhere, and of `ops.db` in `stateDir`."""
    return DatabasePlaces(Path(url.removeprefix(SCHEME)), state_directory / OPERATIONS.file)


class DatabaseIdentity(NamedTuple):
    """The header of a file and its size. `application_id` is 0 if no program set it."""

    application_id: int
    version: int
    pages: int
    page_bytes: int

    @property
    def size(self) -> int:
        """Bytes, all pages together."""
        return self.pages * self.page_bytes


class Watch(Protocol):
    """The time limit and the progress of a long operation."""

    @property
    def is_over(self) -> bool:
        """True when the time is up."""

    def check(self, what: str) -> None:
        """Raise Refused when the time is up."""

    def tell(self, sentence: str) -> None:
        """Report the progress."""


@contextmanager
def watched(connection: Connection, watch: Watch, what: str) -> Iterator[None]:
    """Interrupt statements inside this context when the time is up. Raises Refused then."""

    def look() -> int:
        watch.tell(f"{what} ...")
        return int(watch.is_over)

    connection.set_progress_handler(look, STEPS)
    try:
        yield
    except sqlite3.OperationalError:
        watch.check(what)
        raise
    finally:
        connection.set_progress_handler(None, 0)


def identify(path: Path, kind: DatabaseKind) -> DatabaseIdentity:
    """Return the identity of a file that this program may use.

    Raises Refused for a file of another program, NewerStore for one that a later version wrote, StoreFault.
    """
    with _reading(path, kind) as connection:
        return _identity(connection, kind, path)


def check_version(version: int, kind: DatabaseKind, path: Path) -> None:
    """Raise NewerStore for a version that this program does not know."""
    if version > kind.latest:
        raise NewerStore(
            f"The {kind.name} in {path} is of version {version}, and this program knows versions up to {kind.latest}: "
            "a later version of the program wrote it; install that one."
        )


def copy_into(source: Path, target: Path, *, kind: DatabaseKind, watch: Watch) -> DatabaseIdentity:
    """Copy one moment of a database into an empty file, while others write to it; return what was copied.

    The copy has no log beside it. It is not synced: after a crash it may be damaged. Raises Refused, NewerStore,
    StoreFault.
    """
    uri = f"{target.as_uri()}?mode=rw"
    with (
        database.faults("copied", of=kind.name),
        closing(database.open_reader(source)) as reader,
        closing(sqlite3.connect(uri, uri=True, factory=Connection, isolation_level=None)) as writer,
    ):
        for pragma in ("journal_mode = off", "synchronous = off"):
            writer.execute(f"pragma {pragma}").fetchone()
        # This transaction keeps one revision: otherwise each write of another process would restart the copy.
        reader.execute("begin")
        found = _identity(reader, kind, source)

        def step(_status: int, remaining: int, total: int) -> None:
            watch.check(f"The copy of {source}")
            if remaining:
                watch.tell(f"{source.name}: {(total - remaining) * 100 // total} % copied")

        reader.backup(writer, pages=PAGES, progress=step, sleep=PAUSE_SECONDS)
        writer.execute("pragma journal_mode = delete").fetchone()
        if kind.forgotten and "session" in _tables(writer):
            for name in kind.forgotten:
                writer.run(name)
            writer.execute("vacuum")  # unused pages still have the deleted rows
    return found


def count_rows(path: Path, kind: DatabaseKind, *, watch: Watch) -> Mapping[str, int]:
    """Return the number of rows of each table, sorted by name. Raises Refused when the time is up, StoreFault."""
    with _reading(path, kind) as connection, watched(connection, watch, f"{kind.file}: counting"):
        return {
            name: connection.execute(f"select count(*) from {_quoted(name)}").fetchone()[0]  # noqa: S608 - a name of the schema, quoted
            for name in _tables(connection)
        }


def verdict(path: Path, kind: DatabaseKind, *, watch: Watch, is_quick: bool) -> str:
    """Return `ok`, or the first thing that SQLite finds wrong with a file. Raises Refused when the time is up,
    StoreFault.

    `is_quick`: indexes are not compared with their tables.
    """
    pragma = "quick_check(1)" if is_quick else "integrity_check(1)"
    with _reading(path, kind) as connection, watched(connection, watch, f"{kind.file}: checking"):
        return _first_fault(connection, pragma)


def _first_fault(connection: Connection, pragma: str) -> str:
    """Return one line, without the line that SQLite puts above faults of pages; `ok` if there is no fault."""
    (found,) = connection.execute(f"pragma {pragma}").fetchone()
    return str(found).removeprefix("*** in database main ***\n").partition("\n")[0]


def notifications(path: Path) -> list[NotificationRow]:
    """Return all notifications of an `ops.db`. Raises StoreFault."""
    with _reading(path, OPERATIONS) as connection:
        return [NotificationRow(*row) for row in connection.all("all_notifications")]


def damaged_versions(path: Path, *, watch: Watch) -> list[DamagedVersion]:
    """Return every stored version that does not match its checksum. Raises Refused when the time is up, StoreFault."""
    found: list[DamagedVersion] = []
    last, before = 0, -1
    with _reading(path, STORE) as connection:
        while last != before:
            before = last
            step, last = checksums.damaged_versions(connection, after=before)
            found += step
            watch.check(f"The look through {path}")
    return found


def settle(path: Path) -> None:
    """Move the log of a killed process into its database file, so that the file is complete. A file that is too damaged
    for that keeps its log.
    """
    uri = f"{path.as_uri()}?mode=rw"
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute(f"pragma busy_timeout = {SETTLE_MILLISECONDS}")
        connection.execute("pragma wal_checkpoint(truncate)").fetchone()


def tell(path: Path, events: Sequence[AuditRow]) -> None:
    """Write audit events to a store that no process uses. Afterwards it has no log beside it. Raises StoreFault."""
    with database.faults("written"), closing(database.open_writer(path)) as connection:
        with database.transaction(connection, kind="immediate"):
            commits.tell(connection, events)
        connection.execute("pragma journal_mode = delete").fetchone()


def finish(path: Path) -> None:
    """Have a database that no process uses in its one file, on the disk. Raises StoreFault."""
    with database.faults("written"), closing(database.open_writer(path)) as connection:
        connection.execute("pragma journal_mode = delete").fetchone()


def beside(path: Path) -> tuple[Path, ...]:
    """Return a database's file and the files that SQLite makes beside it."""
    return tuple(path.with_name(path.name + suffix) for suffix in ("", *LOGS))


def damage(path: Path) -> str:
    """Return the damage of `ops.db` as text; empty if it is sound or missing.

    A database of another program or of a later version, and a file that cannot be opened now, are not damaged: opening
    them is refused.
    """
    if not path.is_file() or path.stat().st_size == 0:
        return ""
    try:
        with database.faults("read", of="database"), closing(database.open_reader(path)) as connection:
            return _damage(connection)
    except StoreFault as fault:
        cause = fault.__cause__
        return str(cause) if isinstance(cause, Exception) and database.is_damage(cause) else ""


def _damage(connection: Connection) -> str:
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    tables = connection.all("tables")
    if tables and application != operations.APPLICATION_ID:
        return ""
    if (fault := _first_fault(connection, "quick_check(1)")) != "ok":
        return fault
    if bool(tables) != bool(version):
        return "it has tables and no version" if tables else "it has a version and no tables"
    return ""


def set_aside_damaged(path: Path, *, at: datetime) -> Path | None:
    """Rename a damaged `ops.db` and its logs, so that a new one can be made; return the new path.

    No other process may use the file. Return None for a sound one. Raises Refused if it cannot be renamed.
    """
    why = damage(path)
    if not why:
        return None
    while (kept := path.with_name(f"{path.name}.{DAMAGED}-{at.astimezone(UTC):%Y%m%dT%H%M%S%fZ}")).exists():
        at += timedelta(microseconds=1)
    try:
        # The logs first: SQLite would use a remaining log for the new file.
        for file, other in reversed([*zip(beside(path), beside(kept), strict=True)]):
            with contextlib.suppress(FileNotFoundError):
                file.rename(other)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise Refused(
            f"{path} is damaged ({why}) and could not be set aside ({problem.strerror}); move it away, with what is "
            "called so with `-wal` and `-shm`: everybody signs in again, and what is wrong is notified anew."
        ) from problem
    log.error(
        "%s is damaged (%s): it is %s now, and a new one takes its place. Everybody signs in again, and what is wrong "
        "is notified anew.",
        path,
        why,
        kept,
    )
    return kept


def damaged_copies(path: Path) -> list[Path]:
    """Return the damaged copies of a database that were set aside, sorted."""
    found = path.parent.glob(f"{path.name}.{DAMAGED}-*")
    return sorted(one for one in found if not one.name.endswith(LOGS))


@contextmanager
def _reading(path: Path, kind: DatabaseKind) -> Iterator[Connection]:
    with database.faults("read", of=kind.name), closing(database.open_reader(path)) as connection:
        yield connection


def _identity(connection: Connection, kind: DatabaseKind, path: Path) -> DatabaseIdentity:
    names = ("application_id", "user_version", "page_count", "page_size")
    found = DatabaseIdentity(*(int(connection.execute(f"pragma {name}").fetchone()[0]) for name in names))
    if found.application_id != kind.application_id:
        raise Refused(f"{path} is not the {kind.name} of this program; name another file.")
    check_version(found.version, kind, path)
    return found


def _tables(connection: Connection) -> list[str]:
    return [name for (name,) in connection.all("tables")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
