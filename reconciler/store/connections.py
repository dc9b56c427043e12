"""Opening the store's file: one connection that writes, any number that read.

What SQLite and the disk raise becomes a `StoreFault` here, and nowhere else.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from reconciler.store.contract import StoreFault

BUSY_MILLISECONDS = 5_000  # another process may hold the file for a moment, a backup for instance
WAL_LIMIT_BYTES = 64 * 1024 * 1024
STATEMENTS = 256  # prepared statements kept; there are fewer


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes; it makes the file when there is none.

    Only its owner may read the file, since it holds secrets.
    """
    with faults("opened", OSError):
        # Only a file that nobody has open yet: closing any descriptor of a database drops SQLite's own locks on it.
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return _connect(
            f"{path.as_uri()}?mode=rw",
            "journal_mode = wal",
            # FULL, since an answer of 202 promises that the change survives a power cut.
            "synchronous = full",
            "foreign_keys = on",
            # What is written over is gone from the file as well: it may be a secret that should not have been there.
            "secure_delete = on",
            f"journal_size_limit = {WAL_LIMIT_BYTES}",
        )


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    with faults("opened"):
        return _connect(f"{path.as_uri()}?mode=ro", "query_only = on")


def _connect(uri: str, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS
    )
    try:
        for pragma in (f"busy_timeout = {BUSY_MILLISECONDS}", *pragmas):
            connection.execute(f"pragma {pragma}").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def faults(done: str, *others: type[Exception], of: str = "store") -> Iterator[None]:
    """Turn what SQLite raises into a `StoreFault` that says what could not be done, and of what, and `others` too.

    Not every OSError: where a caller's own code runs inside, a broken pipe is no fault of the store.
    """
    kinds: tuple[type[Exception], ...] = (sqlite3.Error, *others)
    try:
        yield
    except kinds as cause:
        raise fault(done, cause, of=of) from cause


def fault(done: str, cause: Exception, *, of: str = "store") -> StoreFault:
    """The `StoreFault` for what SQLite or the disk raised."""
    why = f"The {of} could not be {done} ({str(cause).rstrip('.')})"
    if _is_damage(cause):
        return StoreFault(f"{why}: its file is damaged, or is something else; restore a backup (docs/recovery.md).")
    return StoreFault(f"{why}; nothing was changed: look at the disk's space and permissions.")


def _is_damage(cause: Exception) -> bool:
    # What the module itself raises has no code. The lower byte is the kind of fault, the others say more of it.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextlib.contextmanager
def unsynced(connection: sqlite3.Connection) -> Iterator[None]:
    """What is committed meanwhile nobody waits for: the next commit that is waited for has the disk take it as well.

    Outside of transactions.
    """
    connection.execute("pragma synchronous = normal")
    try:
        yield
    finally:
        connection.execute("pragma synchronous = full")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, *, kind: str) -> Iterator[None]:
    """`begin` of a kind (`deferred`, `immediate`), then commit; on any exception roll back."""
    connection.execute(f"begin {kind}")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        # A full disk may have rolled back already, and then there is nothing to roll back.
        if connection.in_transaction:
            connection.execute("rollback")
        raise
