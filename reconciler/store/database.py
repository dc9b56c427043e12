"""SQLite connections, named statements, numbered migrations, and the checksum of each stored version.

One connection writes, any number read. Errors of SQLite and of the disk become a `StoreFault` here, and nowhere else.
All SQL is in `queries.sql` and the migrations, here and of `ops.db` (`operations`). A migration is applied in one
transaction with its record.

The checksum is zlib's CRC-32: it finds every flipped bit, and takes less than a microsecond for a body of some
kilobytes, so every read checks it. It protects against faulty disks and memory, not against people who can write the
file.
"""

import contextlib
import functools
import logging
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from reconciler.model import errors, rendering
from reconciler.model.errors import Refused
from reconciler.model.rendering import LATEST, is_source
from reconciler.store.contract import NewerStore, StoreFault
from reconciler.store.records import DamagedVersion

log = logging.getLogger(__name__)

MOST_DAMAGED = 1_000  # damaged versions that are remembered; one more finds a disk that is to be replaced anyway


def checksum_of(body: bytes, secrets: bytes | None) -> int:
    """Return the checksum of one version."""
    return zlib.crc32(body) if secrets is None else zlib.crc32(secrets, zlib.crc32(body))


def is_damaged(body: bytes, secrets: bytes | None, checksum: int) -> bool:
    """Return True if a version differs from what was stored."""
    return checksum != checksum_of(body, secrets)


class Damage:
    """The versions that were found damaged. It is used from several threads."""

    def __init__(self) -> None:
        self._found: dict[DamagedVersion, None] = {}

    def note(self, one: DamagedVersion) -> None:
        """Record a damaged version."""
        if one in self._found or len(self._found) >= MOST_DAMAGED:
            return
        self._found[one] = None
        told = "Version %d of the %s %s of the project %s is damaged in the store: it is not what was stored."
        log.error(told, one.version, one.kind, one.name, one.project)

    def tell(self, is_damaged: Callable[[DamagedVersion], bool]) -> list[DamagedVersion]:
        """Return those that are still present and damaged."""
        for one in [each for each in self._found if not is_damaged(each)]:
            del self._found[one]
        return sorted(self._found)


def shown_row(row: tuple[Any, ...], *, damaged: Callable[[str, str, int], object]) -> bytes:
    """Return a resource as a reader gets it. For a damaged one, return a placeholder and call `damaged` with its kind,
    name and version: a damaged resource must not break a list.
    """
    if is_damaged_row(row):
        kind, name, version = row[8:]
        damaged(kind, name, version)
        return rendering.damaged(kind, name, version=version, latest=row[1] is not None)
    return rendering.shown(row[:6])


def is_damaged_row(row: tuple[Any, ...]) -> bool:
    """Return True if a row for a reader is damaged.

    Every resource of every list passes through this, so the common case needs few calls.
    """
    body, status, head, tail, _, _, secrets, checksum, _, _, _ = row
    if checksum != (zlib.crc32(body) if secrets is None else checksum_of(body, secrets)):
        return True
    return not (is_source(head, tail) and (status is None or status == LATEST or rendering.is_json(status)))


BUSY_MILLISECONDS = 5_000  # another process may hold the file for a moment, a backup for instance
WAL_LIMIT_BYTES = 64 * 1024 * 1024
MENDING = "restore a backup (docs/recovery.md)"
EXAMINED = 500  # versions in one step: a few milliseconds
STATEMENTS = 256  # prepared statements kept; there are fewer
PACKAGES = ("reconciler.store", "reconciler.store.ops_db")  # of the statements and migrations of both files

Row: TypeAlias = tuple[Any, ...]
"""A row of SQLite is a tuple of values; the caller knows the columns."""


class Connection(sqlite3.Connection):
    """A connection that runs the statements of `queries.sql` by name. Raises sqlite3.Error."""

    def run(self, name: str, *arguments: object) -> sqlite3.Cursor:
        """Run a statement; its rows are read one at a time. An open cursor keeps the read transaction."""
        return self.execute(load_queries()[name], arguments)

    def all(self, name: str, *arguments: object) -> list[Row]:
        """Run a statement and return its rows."""
        return self.run(name, *arguments).fetchall()

    def first(self, name: str, *arguments: object) -> Row | None:
        """Run a statement and return its first row; None when there is none."""
        row: Row | None = self.run(name, *arguments).fetchone()
        return row

    def value(self, name: str, *arguments: object) -> Any:
        """Run a statement that always has a row, and return its first column. Raises `StoreFault` when it has none."""
        row = self.first(name, *arguments)
        if row is None:
            raise StoreFault(f"The store has lost its fact `{name}`: restore a backup.")
        return row[0]

    def each(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each of these rows of arguments."""
        self.executemany(load_queries()[name], rows)


def open_writer(path: Path) -> Connection:
    """Open the connection that writes, and make the file if there is none.

    Only its owner may read the file, since it contains secrets.
    """
    with faults("opened", OSError):
        # Only a file that nobody has open yet: closing any descriptor of a database drops SQLite's own locks on it.
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = _connect(
            f"{path.as_uri()}?mode=rw",
            "journal_mode = wal",
            # FULL, since an answer of 202 promises that the change survives a power cut.
            "synchronous = full",
            "foreign_keys = on",
            # What is written over is gone from the file as well: it may be a secret that should not have been there.
            "secure_delete = on",
            f"journal_size_limit = {WAL_LIMIT_BYTES}",
        )
        connection.create_function("checksum_of", 2, checksum_of, deterministic=True)  # for a migration
        return connection


def open_reader(path: Path) -> Connection:
    """Open a connection that cannot write."""
    with faults("opened"):
        return _connect(f"{path.as_uri()}?mode=ro", "query_only = on")


def damaged_versions(connection: Connection, *, after: int) -> tuple[list[DamagedVersion], int]:
    """Read the next versions after the one with this number. Return the damaged ones and the number of the last one;
    at the end that is `after`. Raises sqlite3.Error.
    """
    found, last = [], after
    for last, project, kind, name, version, *held in connection.run("examined", after, EXAMINED):  # noqa: B007
        if is_damaged(*held):
            found.append(DamagedVersion(project, kind, name, version))
    return found, last


def _connect(uri: str, *pragmas: str) -> Connection:
    connection = sqlite3.connect(
        uri,
        uri=True,
        factory=Connection,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
    )
    try:
        for pragma in (f"busy_timeout = {BUSY_MILLISECONDS}", *pragmas):
            connection.execute(f"pragma {pragma}").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def faults(done: str, *others: type[Exception], of: str = "store", mending: str = MENDING) -> Iterator[None]:
    """Turn errors of SQLite, and `others`, into a `StoreFault` that says what could not be done.

    It does not turn every OSError: the caller's code may run inside, and its broken pipe is no fault of the store.
    """
    kinds: tuple[type[Exception], ...] = (sqlite3.Error, *others)
    try:
        yield
    except kinds as cause:
        raise fault(done, cause, of=of, mending=mending) from cause


def fault(done: str, cause: Exception, *, of: str = "store", mending: str = MENDING) -> StoreFault:
    """Return the `StoreFault` for an error of SQLite or the disk; `mending` says what to do about a damaged file."""
    if _lacks_descriptors(cause):
        return StoreFault(f"The {of} could not be {done}; nothing was changed: {errors.OPEN_FILES}.")
    why = f"The {of} could not be {done} ({str(cause).rstrip('.')})"
    if is_damage(cause):
        return StoreFault(f"{why}: its file is damaged, or is something else; {mending}.")
    return StoreFault(f"{why}; nothing was changed: look at the disk's space and permissions.")


def _lacks_descriptors(cause: Exception) -> bool:
    """Return True if too many files are open. SQLite only says that a file cannot be opened, so this opens one."""
    if getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_CANTOPEN:
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as problem:
            return errors.is_open_files(problem)
    return errors.is_open_files(cause)


def is_damage(cause: Exception) -> bool:
    """Return True if SQLite says that the file itself is damaged."""
    # What the module itself raises has no code. The lower byte is the kind of fault, the others say more of it.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, *, kind: str) -> Iterator[None]:
    """`begin` of a kind (`deferred`, `immediate`), then commit; on any exception roll back."""
    connection.execute(f"begin {kind}")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        # On a full disk, SQLite may have rolled back already.
        if connection.in_transaction:
            connection.execute("rollback")
        raise


@functools.cache
def load_queries(*packages: str) -> Mapping[str, str]:
    """Return every named statement of these packages, by default of both databases. All names differ.

    A statement follows a line `-- name: <name>` and ends at its semicolon.
    """
    found = [resources.files(package) / "queries.sql" for package in packages or PACKAGES]
    text = "\n".join(file.read_text(encoding="utf-8") for file in found)
    return dict(re.findall(r"^-- name: (\w+)\n(.*?);$", text, flags=re.MULTILINE | re.DOTALL))


APPLICATION_ID = 0x52434C52  # "RCLR": says in the file's header whose database it is


class Migration(NamedTuple):
    """One migration; its number is the store's version after it."""

    number: int
    sql: str


def migrations(package: str = "reconciler.store") -> tuple[Migration, ...]:
    """Return the migrations of a package, in order."""
    folder = resources.files(package) / "migrations"
    found = (
        Migration(number=int(match[1]), sql=entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if (match := re.fullmatch(r"([0-9]{4})_\w+\.sql", entry.name))
    )
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(
    connection: sqlite3.Connection, *, steps: tuple[Migration, ...], application_id: int = APPLICATION_ID
) -> None:
    """Apply the migrations that the store lacks. Raises `NewerStore` if it has more than this version knows, Refused if
    the file is no store.

    A crash leaves the store as it was.
    """
    # Another program's database is refused. Ours is empty when new, and says whose it is from the first step on.
    (application,) = connection.execute("pragma application_id").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
    if tables and application != application_id:
        raise Refused("The store's file is another program's database; name another with `store.url`.")
    (present,) = connection.execute("pragma user_version").fetchone()
    latest = steps[-1].number
    if present > latest:
        raise NewerStore(
            f"The store is of version {present}, and this program knows versions up to {latest}: "
            "it was written by a later version; install that one, or restore a backup made before the upgrade."
        )
    if present == latest:
        return
    script = "\n".join(step.sql for step in steps if step.number > present)
    record = f"pragma user_version = {latest}; pragma application_id = {application_id};"
    try:
        # Together: for each transaction the disk is waited for, and a new store has all steps before it.
        connection.executescript(f"begin immediate;\n{script}\n{record}\ncommit;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.rollback()
        # Another process that opened the store at the same moment may have taken these steps first.
        if connection.execute("pragma user_version").fetchone()[0] < latest:
            raise


def open_migrated(path: Path, *, package: str = "reconciler.store", application_id: int = APPLICATION_ID) -> Connection:
    """Open the connection that writes, and bring the file to this version. Raises StoreFault and as `migrate`."""
    connection = open_writer(path)
    try:
        with faults("migrated"):
            migrate(connection, steps=migrations(package), application_id=application_id)
    except BaseException:
        connection.close()
        raise
    return connection
