"""One commit, on the thread that writes: all of it in one transaction, or nothing."""

import sqlite3
from collections.abc import Iterable

from reconciler.planning.pruning import WINDOW_MILLISECONDS
from reconciler.store import connections, erasing, queries
from reconciler.store.contract import ApprovalRow, Changes, Moved, QuoteRow, Record


def commit(connection: sqlite3.Connection, parts: Iterable[Changes], *, record: Record, planned_at: int | None) -> int:
    """Write the parts and the record; the revision afterwards. Raises `Moved`, `StoreFault`."""
    sql = queries.load()
    with connections.faults("written"), connections.transaction(connection, kind="immediate"):
        (revision,) = connection.execute(sql["revision"]).fetchone()
        if planned_at is not None and planned_at != revision:
            raise Moved("The store changed while this was planned.")
        _write_record(connection, record)
        seen = (record.forget_files_of, record.release_repository, record.approval, record.suspension, record.resume)
        holds_changes = record.redacts or any(one is not None for one in seen)
        rewrites = record.redacts
        for part in parts:
            _write_part(connection, part)
            filled_in = _write_lineages(connection, part)
            holds_changes = holds_changes or filled_in or _is_seen(part)
            rewrites = rewrites or bool(part.rewritten)
        if holds_changes:
            connection.execute(sql["grow_revision"])
            revision += 1
        if rewrites:
            erasing.leave(connection)
    return int(revision)


def _is_seen(part: Changes) -> bool:
    """Whether a part changes what a plan or a reader of resources sees."""
    resources = (part.versions, part.heads, part.head_statuses, part.rewritten, part.removed)
    return any((*resources, part.forgotten_files, part.files, part.wanted))


def _write_record(connection: sqlite3.Connection, record: Record) -> None:
    sql = queries.load()
    forgotten = [(name,) for name in (record.forget_files_of, record.release_repository) if name is not None]
    connection.executemany(sql["forget_wanted_of"], forgotten)
    connection.executemany(sql["forget_files_of"], forgotten)
    if record.release_repository is not None:
        connection.execute(sql["release_resources"], (record.release_repository,))
        connection.execute(sql["forget_ledger"], (record.release_repository,))
        connection.execute(sql["remove_repository"], (record.release_repository,))
    _write_hold(connection, record)
    _write_suspension(connection, record)
    connection.executemany(sql["insert_audit"], record.audit)
    if record.run is not None:
        connection.execute(sql["insert_run"], record.run)
    if record.repository is not None:
        connection.execute(sql["put_repository"], record.repository)


def _write_hold(connection: sqlite3.Connection, record: Record) -> None:
    """What is held is forgotten before the parts say it anew; an approval takes it over as it is."""
    sql = queries.load()
    held = [(name,) for name in (record.forget_held_of, record.release_repository) if name is not None]
    connection.executemany(sql["forget_held"], held)
    for name in (record.forget_approval_of, record.release_repository):
        if name is not None:
            _forget_approval(connection, name)
    if record.approval is not None:
        _write_approval(connection, record.approval)


def _write_suspension(connection: sqlite3.Connection, record: Record) -> None:
    sql = queries.load()
    if record.resume is not None:
        connection.execute(sql["forget_suspension"], (record.resume,))
    if record.suspension is not None:
        connection.execute(sql["put_suspension"], record.suspension)


def _forget_approval(connection: sqlite3.Connection, repository: str) -> None:
    sql = queries.load()
    connection.execute(sql["forget_approval"], (repository,))
    connection.execute(sql["forget_approved"], (repository,))


def _write_approval(connection: sqlite3.Connection, approval: ApprovalRow) -> None:
    sql = queries.load()
    (can,) = connection.execute(sql["can_approve"], (approval.repository, approval.commit)).fetchone()
    if not can:
        raise Moved("What is held changed while it was approved.")
    _forget_approval(connection, approval.repository)
    connection.execute(sql["put_approval"], approval)
    connection.execute(sql["approve_held"], (approval.repository,))


def _write_lineages(connection: sqlite3.Connection, part: Changes) -> bool:
    """Whether any of them still held."""
    sql = queries.load()
    filled_in = False
    for row in part.lineages:
        if connection.execute(sql["fill_in_status"], (row.status, *row[:4], row.status_before)).rowcount:
            connection.execute(sql["fill_in_source"], (row.source, *row[:4], row.source_before))
            filled_in = True
    return filled_in


def _write_quotes(connection: sqlite3.Connection, quotes: Iterable[QuoteRow]) -> None:
    sql = queries.load()
    statements = {"reason": sql["rewrite_reason"], "message": sql["rewrite_message"], "detail": sql["rewrite_detail"]}
    for quote in quotes:
        place = (quote.id, quote.ordinal) if quote.of == "reason" else (quote.id,)
        connection.execute(statements[quote.of], (quote.text, *place))


def _write_part(connection: sqlite3.Connection, part: Changes) -> None:
    sql = queries.load()
    # What goes before what comes: a file that was read again replaces its rows.
    connection.executemany(sql["forget_wanted"], part.forgotten_files)
    connection.executemany(sql["forget_file"], part.forgotten_files)
    connection.executemany(sql["remove_head"], part.removed)
    replaced = [(version.project, version.kind, version.name) for version in part.versions]
    connection.executemany(sql["forget_references"], (*part.removed, *replaced))
    connection.executemany(sql["insert_version"], part.versions)
    connection.executemany(sql["insert_reference"], part.references)
    connection.executemany(sql["put_head"], part.heads)
    connection.executemany(sql["put_head_status"], ((row[3], row[4], *row[:3]) for row in part.head_statuses))
    connection.executemany(sql["rewrite_version"], ((*row[4:], *row[:4]) for row in part.rewritten))
    _write_quotes(connection, part.quotes)
    connection.executemany(sql["insert_audit"], part.audit)
    connection.executemany(sql["put_file"], part.files)
    connection.executemany(sql["put_wanted"], part.wanted)
    older = [(row.repository, row.at - WINDOW_MILLISECONDS) for row in part.pruned]
    connection.executemany(sql["forget_pruned"], older)
    connection.executemany(sql["insert_pruned"], part.pruned)
    connection.executemany(sql["put_held"], part.held)
    connection.executemany(sql["insert_run_status"], part.statuses)
