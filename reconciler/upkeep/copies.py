"""A database copied while others write to it, by SQLite's backup API: one moment of it, verified, and on the disk.

Belongs here: one file. Does not: which files, under which names, and what people are told (`backing_up`, `restoring`,
`upgrading`).
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.model.errors import Refused
from reconciler.store import database
from reconciler.upkeep import databases, files
from reconciler.upkeep.databases import DatabaseIdentity, DatabaseKind
from reconciler.upkeep.watches import ProgressWatch

PAGES = 2048  # copied at a step, 8 MiB
PAUSE_SECONDS = 0.05  # when the file is locked for a moment


@dataclass(frozen=True, slots=True)
class CopiedDatabase:
    """What is in a copy."""

    identity: DatabaseIdentity
    rows: Mapping[str, int]


def look_at_copy(path: Path, kind: DatabaseKind) -> DatabaseIdentity:
    """What a file is that this program may have. Raises Refused, NewerStore, StoreFault."""
    with _reading(path) as connection, database.faults("read", of=kind.name):
        found = databases.database_identity(connection)
    databases.check_database(found, kind, path)
    return found


def copy_database(
    source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch, is_quick: bool = False
) -> CopiedDatabase:
    """Copy a database to a new file, in which it is whole and alone: without a log beside it, for its owner.

    `is_quick`: verified by `quick_check`, which does not hold indexes against their tables. What fails leaves no file.
    Raises Refused, NewerStore, StoreFault.
    """
    try:
        with database.faults("copied", OSError, of=kind.name):
            files.make_private_file(target)
            before = _copy(source, target, kind=kind, watch=watch)
            copied = _verified(target, before, kind=kind, watch=watch, is_quick=is_quick)
            files.force_to_disk(target)
    except BaseException:
        files.remove_database(target)
        raise
    return copied


def _copy(source: Path, target: Path, *, kind: DatabaseKind, watch: ProgressWatch) -> DatabaseIdentity:
    with _reading(source) as reader, _writing(target) as writer:
        # One moment of it, for as long as this transaction lasts: else each write of another process would begin the
        # copy anew.
        reader.execute("begin")
        before = databases.database_identity(reader)
        databases.check_database(before, kind, source)

        def step(_status: int, remaining: int, total: int) -> None:
            watch.check(f"The copy of {source}")
            if remaining:
                watch.tell(f"{source.name}: {(total - remaining) * 100 // total} % copied")

        reader.backup(writer, pages=PAGES, progress=step, sleep=PAUSE_SECONDS)
        writer.execute("pragma journal_mode = delete").fetchone()
        _forget(writer, kind)
    return before


def _forget(writer: sqlite3.Connection, kind: DatabaseKind) -> None:
    """Leave out what must not come alive again, also from pages that are not used any more."""
    tables = databases.count_rows(writer) if kind.forgotten else {}
    if "session" not in tables:
        return
    sql = database.load_queries(databases.PACKAGE)
    for name in kind.forgotten:
        writer.execute(sql[name])
    writer.execute("vacuum")


def _verified(
    path: Path, before: DatabaseIdentity, *, kind: DatabaseKind, watch: ProgressWatch, is_quick: bool
) -> CopiedDatabase:
    with _reading(path) as connection:
        found = databases.database_identity(connection)
        told = copy_verdict(connection, name=kind.file, watch=watch, is_quick=is_quick)
        with watch.over(connection, f"{kind.file}: counting"):
            rows = databases.count_rows(connection)
    is_same = (found.application_id, found.version) == (before.application_id, before.version)
    is_whole = kind.forgotten != () or found.pages == before.pages
    if told != "ok" or not is_same or not is_whole:
        wrong = told if told != "ok" else "a copy of it is another one"
        raise Refused(
            f"The {kind.name} is damaged ({wrong}), so that no copy of it is worth anything; restore a backup."
        )
    return CopiedDatabase(found, rows)


def copy_verdict(connection: sqlite3.Connection, *, name: str, watch: ProgressWatch, is_quick: bool) -> str:
    """`ok`, or the first thing that SQLite finds wrong with a file. Raises Refused when the time is up."""
    pragma = "quick_check(1)" if is_quick else "integrity_check(1)"
    with watch.over(connection, f"{name}: checking"):
        return str(connection.execute(f"pragma {pragma}").fetchone()[0]).partition("\n")[0]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(database.open_reader(path)) as connection:
        yield connection


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a copy: a crash may take it all, since it counts only when it is whole."""
    uri = f"{path.as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        for pragma in ("journal_mode = off", "synchronous = off"):
            connection.execute(f"pragma {pragma}").fetchone()
        yield connection
