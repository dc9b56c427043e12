"""Taking what was written over out of the store's files: a secret that should not have been there, for instance.

`secure_delete` overwrites what a commit frees, and that is not all: when rows move between pages, SQLite leaves copies
of them in the unused parts of pages; and the write-ahead log has the pages as they were. So the file is written anew,
and then the log emptied. What is still to be done is a fact in the store, written by the commit that makes it so.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.store import connections, queries
from reconciler.store.contract import Traces

VACUUM, CHECKPOINT = "vacuum", "checkpoint"
WAIT_MILLISECONDS = 250  # for those who read an older revision; nothing is written meanwhile


def leave_traces(connection: sqlite3.Connection) -> None:
    """Remember that there are traces to erase; in the transaction that leaves them."""
    sql = queries.load_queries()
    connection.execute(sql["put_traces"], (VACUUM,))


def is_erasing_due(connection: sqlite3.Connection) -> bool:
    """Whether there are traces to erase. Raises `StoreFault`."""
    with connections.faults("read"):
        sql = queries.load_queries()
        return connection.execute(sql["traces"]).fetchone() is not None


def erase_traces(connection: sqlite3.Connection, *, folder: Path) -> Traces:
    """Do what is to be done, as far as readers let it. `folder` has room for a copy of the file. Raises `StoreFault`.

    Killed at any point, it is done again; writing the file anew takes seconds for each gigabyte.
    """
    sql = queries.load_queries()
    with connections.faults("cleared of traces"), _waiting_briefly(connection):
        row = connection.execute(sql["traces"]).fetchone()
        if row is None:
            return Traces.NONE
        # Whoever reads an older revision would keep the log, and all of the new file in it: not before they are gone.
        if not _empty_log(connection):
            return Traces.KEPT
        if row[0] == VACUUM:
            _write_anew(connection, folder)
            connection.execute(sql["put_traces"], (CHECKPOINT,))
            if not _empty_log(connection):
                return Traces.KEPT
        connection.execute(sql["forget_traces"])
    return Traces.ERASED


def _write_anew(connection: sqlite3.Connection, folder: Path) -> None:
    # The copy holds other secrets, and may be large: beside the store, not in a folder for everybody's files. The
    # pragma is deprecated, and a SQLite built without it takes that folder.
    quoted = str(folder).replace("'", "''")
    connection.execute(f"pragma temp_store_directory = '{quoted}'").fetchone()
    connection.execute("vacuum")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Take the log into the file and empty it; False while somebody reads an older revision."""
    (busy, *_) = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    return not busy


@contextmanager
def _waiting_briefly(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute(f"pragma busy_timeout = {WAIT_MILLISECONDS}").fetchone()
    try:
        yield
    finally:
        connection.execute(f"pragma busy_timeout = {connections.BUSY_MILLISECONDS}").fetchone()
