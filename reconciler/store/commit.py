"""One commit: a record and the parts of a change, written in one transaction."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from time import monotonic

from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS
from reconciler.store import audit_chain, checksums, database, records
from reconciler.store.audit_chain import ChainedEvent, ChainHead, ChainRewrite, Content
from reconciler.store.contract import Moved, StoreFault

# The next link of the audit.


def chain_head(connection: sqlite3.Connection) -> ChainHead:
    """Return the last link, or the anchor when there is none behind it. Raises sqlite3.Error."""
    sql = database.load_queries()
    row = connection.execute(sql["last_link"]).fetchone() or connection.execute(sql["audit_anchor"]).fetchone()
    return ChainHead(*row[:2])


class NextLink:
    """Inside one transaction: write events and redactions, then `close`. All methods raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = database.load_queries()
        self._before = chain_head(connection)
        self._number = self._before.number + 1
        self._content = Content()
        self._rewrites: list[ChainRewrite] = []

    def write(
        self,
        *,
        origins: Iterable[records.OriginRow] = (),
        changed: Sequence[records.ChangeRow] = (),
        audit: Sequence[records.AuditRow] = (),
    ) -> None:
        """Write events behind all that there are. `origins` hold those of `changed`."""
        if not changed and not audit:
            return
        (last,) = self._connection.execute(self._sql["last_event"]).fetchone()
        self._hash_changes(changed, origins, first=last + 1)
        rows = ((event, self._number, *row) for event, row in enumerate(changed, last + 1))
        self._connection.executemany(self._sql["insert_change"], rows)
        told = self._hash_told(audit, first=last + 1 + len(changed))
        self._connection.executemany(self._sql["insert_audit"], told)

    def redact(self, quote: records.QuoteRow) -> None:
        """Replace an event's text, and remember both hashes; nothing when the event is gone by now."""
        found = self._connection.execute(self._sql["event"], (quote.id,)).fetchone()
        if found is None:
            return
        event, salt = ChainedEvent(*found[:-1]), found[-1]
        left = event._replace(detail=quote.text)
        self._connection.execute(self._sql["rewrite_detail"], (quote.text, event.id))
        self._rewrites.append(ChainRewrite(event.id, audit_chain.leaf(event, salt), audit_chain.leaf(left, None)))

    def close(self, *, address: str | None = None) -> None:
        """Write the link, unless it is empty. `address` is where the request came from that made it."""
        if not self._content.events and not self._rewrites:
            return
        rewrites = sorted(self._rewrites)
        for one in rewrites:
            self._content.rewrite(one)
        content = self._content
        link = content.sealed(self._before, address=address)
        header = (content.events, content.first_at, content.last_at, address)
        self._connection.execute(self._sql["insert_link"], (*link, *header, content.digest()))
        rows = ((one.event, link.number, one.before, one.after) for one in rewrites)
        self._connection.executemany(self._sql["insert_rewrite"], rows)

    def _hash_changes(
        self, changed: Sequence[records.ChangeRow], origins: Iterable[records.OriginRow], *, first: int
    ) -> None:
        of = {one.id: one for one in origins}
        for number, row in enumerate(changed, first):
            origin = of[row.origin]
            event = ChainedEvent(
                number,
                origin.created_at,
                row.project,
                origin.actor,
                row.action,
                row.kind,
                row.name,
                row.version_before,
                row.version_after,
                origin.run,
                origin.request,
                None,
                None,
            )
            self._content.add(audit_chain.leaf(event, None), at=origin.created_at)

    def _hash_told(self, audit: Sequence[records.AuditRow], *, first: int) -> Iterator[tuple[object, ...]]:
        """Hash other events; yield their rows, with numbers and salts."""
        for number, row in enumerate(audit, first):
            salt = None
            if row.detail is not None:
                (salt,) = self._connection.execute(self._sql["salt"], (audit_chain.SALT_BYTES,)).fetchone()
            self._content.add(audit_chain.leaf(ChainedEvent(number, *row), salt), at=row.at)
            yield (number, self._number, *row, salt)


# All functions run on the thread that writes. Only rows are written here: rules about resources are the planner's.

DEADLINE_STEPS = 1_000  # of SQLite's machine between two looks at the clock: less than a millisecond
TOO_SLOW = "This changes too much to be stored in the time that a change has; commit or send it in parts."
BUSY = "The store was busy with other changes for too long, and nothing was changed; try again."


def commit(
    connection: sqlite3.Connection,
    coming: Iterable[records.Changes],
    *,
    record: records.Record,
    deadline: float | None = None,
) -> int:
    """Write the record, then the parts, which are taken one at a time. Return the revision afterwards.

    At `deadline`, an instant of `time.monotonic`, everything is rolled back. Raises `Moved`, `StoreFault`, and anything
    that taking a part raises.
    """
    if deadline is not None and monotonic() >= deadline:
        raise StoreFault(BUSY)
    sql = database.load_queries()
    with database.faults("written"), database.transaction(connection, kind="immediate"):
        (revision,) = connection.execute(sql["revision"]).fetchone()
        with _until(deadline, connection):
            return _write(connection, coming, record=record, revision=int(revision))


@contextmanager
def _until(deadline: float | None, connection: sqlite3.Connection) -> Iterator[None]:
    """Interrupt whatever runs on the connection at the deadline; committing and rolling back are outside."""
    if deadline is None:
        yield
        return
    connection.set_progress_handler(lambda: monotonic() >= deadline, DEADLINE_STEPS)
    try:
        yield
    except sqlite3.OperationalError as fault:
        if fault.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise StoreFault(TOO_SLOW) from fault
        raise
    finally:
        connection.set_progress_handler(None, 0)


def _write(
    connection: sqlite3.Connection, coming: Iterable[records.Changes], *, record: records.Record, revision: int
) -> int:
    """Write all of it; return the revision that it makes."""
    sql = database.load_queries()
    link = NextLink(connection)
    projects = _projects_of_record(connection, record)
    _write_record(connection, record, link)
    seen = (record.forget_files_of, record.release_repository, record.approval, record.suspension, record.resume)
    is_seen = record.redacts or any(one is not None for one in seen)
    rewrites = record.redacts
    for part in coming:
        projects |= _projects_of_part(part)
        is_seen = _write_part(connection, part, link) or is_seen
        rewrites = rewrites or bool(part.rewritten)
    link.close(address=record.address)
    if rewrites:
        leave_traces(connection)
    if not is_seen:
        return revision
    connection.execute(sql["put_revision"], (revision + 1,))
    connection.executemany(sql["put_changed"], ((revision + 1, project) for project in sorted(projects)))
    return revision + 1


# The projects that a commit changes: a plan for another one stays what it is.


def _projects_of_record(connection: sqlite3.Connection, record: records.Record) -> set[str]:
    """Name the projects before anything is written, since releasing a repository removes whose it was."""
    sql = database.load_queries()
    repositories = {record.release_repository, record.resume}
    repositories |= {one.repository for one in (record.suspension, record.approval) if one is not None}
    projects = {row.project for row in (record.run, record.repository, *record.audit) if row is not None}
    for name in repositories - {None}:
        projects |= {project for (project,) in connection.execute(sql["projects_of_repository"], (name,))}
    return projects


def _projects_of_part(part: records.Changes) -> set[str]:
    rows: Iterator[
        records.VersionRow
        | records.HeadRow
        | records.HeadStatusRow
        | records.RewrittenRow
        | records.KeyRow
        | records.LineageRow
    ] = chain(part.versions, part.heads, part.head_statuses, part.rewritten, part.removed, part.lineages)
    return {row.project for row in rows}


# The record: a run's end, and what is remembered of a repository.


def _write_record(connection: sqlite3.Connection, record: records.Record, link: NextLink) -> None:
    sql = database.load_queries()
    for name in (record.forget_files_of, record.release_repository):
        if name is not None:
            connection.execute(sql["forget_files"], (name,))
            connection.execute(sql["forget_all_wanted"], (name,))
    # The parts say what is held anew; an approval takes over what is held as it is.
    for name in (record.forget_held_of, record.release_repository):
        if name is not None:
            connection.execute(sql["forget_held"], (name,))
    for name in (record.forget_approval_of, record.release_repository):
        if name is not None:
            _forget_approval(connection, name)
    if record.release_repository is not None:
        connection.execute(sql["release_resources"], (record.release_repository,))
        connection.execute(sql["forget_ledger"], (record.release_repository,))
        connection.execute(sql["remove_repository"], (record.release_repository,))
    if record.approval is not None:
        _write_approval(connection, record.approval)
    if record.resume is not None:
        connection.execute(sql["forget_suspension"], (record.resume,))
    if record.suspension is not None:
        connection.execute(sql["put_suspension"], record.suspension)
    link.write(audit=record.audit)
    if record.run is not None:
        connection.execute(sql["insert_run"], record.run)
    if record.repository is not None:
        connection.execute(sql["put_repository"], record.repository)


def _forget_approval(connection: sqlite3.Connection, repository: str) -> None:
    sql = database.load_queries()
    connection.execute(sql["forget_approval"], (repository,))
    connection.execute(sql["forget_approved"], (repository,))


def _write_approval(connection: sqlite3.Connection, approval: records.ApprovalRow) -> None:
    sql = database.load_queries()
    (can,) = connection.execute(sql["can_approve"], (approval.repository, approval.commit)).fetchone()
    if not can:
        raise Moved("What is held changed while it was approved.")
    _forget_approval(connection, approval.repository)
    connection.execute(sql["put_approval"], approval)
    connection.execute(sql["approve_held"], (approval.repository,))


# A part of a change.


def _write_part(connection: sqlite3.Connection, part: records.Changes, link: NextLink) -> bool:
    """Tell if the part changes what a plan or a reader of resources sees."""
    sql = database.load_queries()
    # A file that was read again replaces its rows.
    connection.executemany(sql["forget_wanted"], part.forgotten_files)
    connection.executemany(sql["forget_file"], part.forgotten_files)
    _write_resources(connection, part)
    _write_quotes(connection, part.quotes, link)
    link.write(origins=part.origins, changed=part.changed, audit=part.audit)
    connection.executemany(sql["put_file"], part.files)
    connection.executemany(sql["put_wanted"], part.wanted)
    connection.executemany(sql["put_held"], part.held)
    older = [(row.repository, row.at - PRUNE_WINDOW_MILLISECONDS) for row in part.pruned]
    connection.executemany(sql["forget_pruned"], older)
    connection.executemany(sql["insert_pruned"], part.pruned)
    connection.executemany(sql["insert_run_status"], part.statuses)
    resources = (part.versions, part.heads, part.head_statuses, part.rewritten, part.removed)
    is_seen = any((*resources, part.forgotten_files, part.files, part.wanted))
    return _write_lineages(connection, part) or is_seen


def _write_resources(connection: sqlite3.Connection, part: records.Changes) -> None:
    sql = database.load_queries()
    connection.executemany(sql["remove_head"], part.removed)
    replaced = ((row.project, row.kind, row.name) for row in part.versions)
    connection.executemany(sql["forget_references"], chain(part.removed, replaced))
    connection.executemany(sql["insert_origin"], part.origins)
    numbers = _write_versions(connection, part.versions)
    connection.executemany(sql["insert_reference"], part.references)
    connection.executemany(sql["put_head"], ((*row, numbers.get(row[:4])) for row in part.heads))
    connection.executemany(sql["put_head_status"], ((*row[3:], *row[:3]) for row in part.head_statuses))
    for row in part.past_routes:
        if row.past is None:
            connection.execute(sql["forget_past_route"], row[:2])
        else:
            connection.execute(sql["put_past_route"], row)
    rewritten = (
        (row.body, row.secrets, checksums.checksum_of(row.body, row.secrets), *row[:4]) for row in part.rewritten
    )
    connection.executemany(sql["rewrite_version"], rewritten)


def _write_versions(
    connection: sqlite3.Connection, rows: Iterable[records.VersionRow]
) -> dict[tuple[object, ...], int]:
    """Return the numbers of the versions in their table, by project, kind, name and version."""
    sql = database.load_queries()
    (last,) = connection.execute(sql["last_version"]).fetchone()
    numbered = list(enumerate(rows, last + 1))
    connection.executemany(
        sql["insert_version"],
        ((number, *row, checksums.checksum_of(row.body, row.secrets)) for number, row in numbered),
    )
    return {row[:4]: number for number, row in numbered}


def _write_lineages(connection: sqlite3.Connection, part: records.Changes) -> bool:
    """Tell if any of them still held."""
    sql = database.load_queries()
    filled_in = False
    for row in part.lineages:
        if connection.execute(sql["explain_head"], (row.status, *row[:4], row.status_before)).rowcount:
            told = connection.execute(sql["explain_version"], (row.origin, *row[:4], row.before)).rowcount
            filled_in = filled_in or bool(told) or row.status != row.status_before
    return filled_in


def _write_quotes(connection: sqlite3.Connection, quotes: Iterable[records.QuoteRow], link: NextLink) -> None:
    sql = database.load_queries()
    statements = {"reason": sql["rewrite_reason"], "notes": sql["rewrite_notes"], "message": sql["rewrite_message"]}
    for quote in quotes:
        if quote.of == "detail":
            link.redact(quote)
        else:
            place = (quote.id,) if quote.of == "message" else (quote.id, quote.ordinal)
            connection.execute(statements[quote.of], (quote.text, *place))


# Traces of what a commit wrote over, and erasing them from the files.

# A commit may write over a secret that should not have been there. `secure_delete` overwrites what a commit frees, but
# when rows move between pages, SQLite leaves copies of them in the unused parts of pages, and the log has the pages as
# they were. So the file is written anew, and then the log is emptied. The next step is a fact in the store, which the
# commit writes: it survives a crash.

VACUUM, CHECKPOINT = "vacuum", "checkpoint"
WAIT_MILLISECONDS = 250  # for those who read an older revision; nothing is written meanwhile


def leave_traces(connection: sqlite3.Connection) -> None:
    """Remember that there are traces to erase; in the transaction that leaves them."""
    sql = database.load_queries()
    connection.execute(sql["put_traces"], (VACUUM,))


def erase_traces(connection: sqlite3.Connection, *, folder: Path) -> records.Traces:
    """Erase the traces, as far as readers let it. `folder` has room for a copy of the file. Raises `StoreFault`.

    If the process is killed, the next call starts again. Writing the file anew takes seconds for each gigabyte.
    """
    sql = database.load_queries()
    with database.faults("cleared of traces"), _waiting_briefly(connection):
        row = connection.execute(sql["traces"]).fetchone()
        if row is None:
            return records.Traces.NONE
        # A reader of an older revision would keep the log, and all of the new file in it: wait until it is gone.
        if not _empty_log(connection):
            return records.Traces.KEPT
        if row[0] == VACUUM:
            _write_anew(connection, folder)
            connection.execute(sql["put_traces"], (CHECKPOINT,))
            if not _empty_log(connection):
                return records.Traces.KEPT
        connection.execute(sql["forget_traces"])
    return records.Traces.ERASED


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
