"""One commit in one transaction."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from reconciler.model.outcomes import EVERYTHING
from reconciler.store import database, rows, staging
from reconciler.store.conflict_detection import CommitTouches, RecentCommits
from reconciler.store.contract import ApprovalRow, Changes, Moved, Record, Traces
from reconciler.store.rows import EventGroup
from reconciler.store.staging import Staged

# Taking what was written over out of the store's files: a secret that should not have been there, for instance.
#
# `secure_delete` overwrites what a commit frees, and that is not all: when rows move between pages, SQLite leaves
# copies of them in the unused parts of pages; and the write-ahead log has the pages as they were. So the file is
# written anew, and then the log emptied. What is still to be done is a fact in the store, written by the commit that
# makes it so.

VACUUM, CHECKPOINT = "vacuum", "checkpoint"
WAIT_MILLISECONDS = 250  # for those who read an older revision; nothing is written meanwhile


def leave_traces(connection: sqlite3.Connection) -> None:
    """Remember that there are traces to erase; in the transaction that leaves them."""
    sql = database.load_queries()
    connection.execute(sql["put_traces"], (VACUUM,))


def is_erasing_due(connection: sqlite3.Connection) -> bool:
    """Whether there are traces to erase. Raises `StoreFault`."""
    with database.faults("read"):
        sql = database.load_queries()
        return connection.execute(sql["traces"]).fetchone() is not None


def erase_traces(connection: sqlite3.Connection, *, folder: Path) -> Traces:
    """Do what is to be done, as far as readers let it. `folder` has room for a copy of the file. Raises `StoreFault`.

    Killed at any point, it is done again; writing the file anew takes seconds for each gigabyte.
    """
    sql = database.load_queries()
    with database.faults("cleared of traces"), _waiting_briefly(connection):
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
        connection.execute(f"pragma busy_timeout = {database.BUSY_MILLISECONDS}").fetchone()


# One commit, on the thread that writes: all of it in one transaction, or nothing.


def commit(
    connection: sqlite3.Connection,
    coming: Iterable[Changes],
    *,
    record: Record,
    planned_at: int | None,
    recent: RecentCommits,
    footprint: bytes = EVERYTHING,
    ahead: Staged | None = None,
) -> int:
    """Write the record and the parts, behind those that were written `ahead`; the revision afterwards.

    `recent` knows what the commits before this one touched, and learns what this one does. Raises `Moved`,
    `StoreFault`.
    """
    staged = Staged() if ahead is None else ahead
    sql = database.load_queries()
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        (revision,) = connection.execute(sql["revision"]).fetchone()
        if planned_at is not None and not recent.holds(footprint, planned_at=planned_at, revision=revision):
            raise Moved("The store changed while this was planned.")
        if staged.refused is not None and planned_at == revision:
            raise staged.refused
        touching = CommitTouches(connection, record, is_ahead=staged.number is not None)
        told = touching.told(chain(staged.kept, coming))
        after = _write(connection, told, record=record, staged=staged, revision=revision)
        touched = touching.footprint()
        if after != revision:
            connection.execute(sql["put_revision"], (after,))
            if touched == EVERYTHING:
                # The plan of whatever is under way meets it, so that its commit would raise.
                staging.mark_others(connection, staged.number)
    if after != revision:
        recent.note(touched, whole=touching.whole(), before=revision, revision=after)
    return after


def _write(
    connection: sqlite3.Connection, coming: Iterable[Changes], *, record: Record, staged: Staged, revision: int
) -> int:
    """Write all of it; the revision that it makes."""
    beside = staging.Overtaking(connection, own=staged.number, revision=revision)
    beside.record(record)
    # From here on, what is written ahead is the state that is changed.
    present = staging.show_staged(connection, staged, revision=revision)
    _write_record(connection, record, revision=present, group=staged.group)
    staging.show_staged_lists(connection, staged, record)
    seen = (record.forget_files_of, record.release_repository, record.approval, record.suspension, record.resume)
    holds_changes = record.redacts or any(one is not None for one in seen)
    rewrites = record.redacts
    for part in coming:
        beside.part(part)
        holds_changes = rows.write_part(connection, part, revision=present, group=staged.group) or holds_changes
        rewrites = rewrites or bool(part.rewritten)
    if rewrites:
        leave_traces(connection)
        # What is written ahead may hold what is to be erased, and goes before that.
        staging.mark_others(connection, staged.number)
    rows.close_events(connection, staged.group, address=record.address)
    return present if present != revision else revision + int(holds_changes)


def _write_record(connection: sqlite3.Connection, record: Record, *, revision: int, group: EventGroup) -> None:
    sql = database.load_queries()
    for name in (record.forget_files_of, record.release_repository):
        if name is not None:
            rows.forget_list(connection, name, rows.INDEX)
    if record.release_repository is not None:
        connection.execute(sql["release_resources"], (record.release_repository, revision))
        connection.execute(sql["forget_ledger"], (record.release_repository,))
        connection.execute(sql["remove_repository"], (record.release_repository,))
    _write_hold(connection, record)
    _write_suspension(connection, record)
    rows.write_events(connection, group, since=rows.ALWAYS, audit=record.audit)
    if record.run is not None:
        connection.execute(sql["insert_run"], record.run)
    if record.repository is not None:
        connection.execute(sql["put_repository"], record.repository)


def _write_hold(connection: sqlite3.Connection, record: Record) -> None:
    """What is held is forgotten before the parts say it anew; an approval takes it over as it is."""
    for name in (record.forget_held_of, record.release_repository):
        if name is not None:
            rows.forget_list(connection, name, rows.HELD)
    for name in (record.forget_approval_of, record.release_repository):
        if name is not None:
            _forget_approval(connection, name)
    if record.approval is not None:
        _write_approval(connection, record.approval)


def _write_suspension(connection: sqlite3.Connection, record: Record) -> None:
    sql = database.load_queries()
    if record.resume is not None:
        connection.execute(sql["forget_suspension"], (record.resume,))
    if record.suspension is not None:
        connection.execute(sql["put_suspension"], record.suspension)


def _forget_approval(connection: sqlite3.Connection, repository: str) -> None:
    sql = database.load_queries()
    connection.execute(sql["forget_approval"], (repository,))
    connection.execute(sql["forget_approved"], (repository,))


def _write_approval(connection: sqlite3.Connection, approval: ApprovalRow) -> None:
    sql = database.load_queries()
    (can,) = connection.execute(sql["can_approve"], (approval.repository, approval.commit)).fetchone()
    if not can:
        raise Moved("What is held changed while it was approved.")
    _forget_approval(connection, approval.repository)
    connection.execute(sql["put_approval"], approval)
    connection.execute(sql["approve_held"], (approval.repository,))
