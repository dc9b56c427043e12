"""SQLite connections and their migrations.

One connection writes, any number read. Errors of SQLite and of the disk become a `StoreFault` here, and nowhere else.
All SQL is in `queries.sql` and the migrations, here and of `ops.db` (`operations`). A migration is applied in one
transaction with its record.
"""

import contextlib
import functools
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from reconciler.model import errors
from reconciler.model.errors import Refused
from reconciler.store import statements
from reconciler.store.contract import LOST_FACT, TOO_SLOW, NewerStore, StoreFault
from reconciler.store.damage import checksum_of
from reconciler.store.statements import Migration, Row

BUSY_MILLISECONDS = 5_000  # another process may hold the file for a moment, a backup for instance
WAL_LIMIT_BYTES = 64 * 1024 * 1024
MENDING = "restore a backup (docs/recovery.md)"
STATEMENTS = 256  # prepared statements kept; there are fewer
PACKAGE = "reconciler.store"
PACKAGES = (PACKAGE, "reconciler.store.ops_db")  # of the statements and migrations of both files

DEADLINE_STEPS = 1_000  # of SQLite's virtual machine between two checks of the clock: less than a millisecond

# An argument that is a list; nothing else of this program gives one to SQLite.
sqlite3.register_adapter(list, lambda values: msgspec.json.encode(values).decode())


class Connection(sqlite3.Connection):
    """See `statements.Connection`. Raises sqlite3.Error."""

    def run(self, name: str, *arguments: object) -> int:
        return self.execute(load_queries()[name], arguments).rowcount

    def each(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        self.executemany(load_queries()[name], rows)

    def all(self, name: str, *arguments: object) -> list[Row]:
        return self.execute(load_queries()[name], arguments).fetchall()

    def first(self, name: str, *arguments: object) -> Row | None:
        row: Row | None = self.execute(load_queries()[name], arguments).fetchone()
        return row

    def value(self, name: str, *arguments: object) -> Any:
        row = self.first(name, *arguments)
        if row is None:
            raise StoreFault(LOST_FACT.format(name=name))
        return row[0]

    def stream(self, name: str, *arguments: object) -> sqlite3.Cursor:
        # An open cursor keeps the read transaction.
        return self.execute(load_queries()[name], arguments)

    def reading(self) -> AbstractContextManager[None]:
        return transaction(self, kind="deferred")

    @contextlib.contextmanager
    def writing(self, deadline: float = math.inf) -> Iterator[None]:
        with transaction(self, kind="immediate"):
            self.set_progress_handler(lambda: monotonic() >= deadline, DEADLINE_STEPS)
            try:
                yield
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                    raise StoreFault(TOO_SLOW) from fault
                raise
            finally:
                self.set_progress_handler(None, 0)  # not while it commits or rolls back

    def faults(self, done: str) -> AbstractContextManager[None]:
        return faults(done)

    def storable(self, text: str) -> str:
        return text


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
    """Return every named statement of these packages, by default of both databases."""
    return statements.load(*(packages or PACKAGES))


def migrations(package: str = PACKAGE) -> tuple[Migration, ...]:
    """Return the migrations of one of the two files, in order."""
    return statements.migrations(package)


APPLICATION_ID = 0x52434C52  # "RCLR": says in the file's header whose database it is


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


def open_migrated(path: Path, *, package: str = PACKAGE, application_id: int = APPLICATION_ID) -> Connection:
    """Open the connection that writes, and bring the file to this version. Raises StoreFault and as `migrate`."""
    connection = open_writer(path)
    try:
        with faults("migrated"):
            migrate(connection, steps=migrations(package), application_id=application_id)
    except BaseException:
        connection.close()
        raise
    return connection
