"""One commit, on the thread that writes: all of it in one transaction, or nothing."""

import sqlite3
from collections.abc import Iterable
from itertools import chain

from reconciler.model.outcomes import EVERYTHING
from reconciler.store import connections, erasing, events, listing, overtaking, parts, queries, staging
from reconciler.store.contract import ApprovalRow, Changes, Moved, Record
from reconciler.store.events import EventGroup
from reconciler.store.moving import CommitTouches, RecentCommits
from reconciler.store.staging import Staged


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
    sql = queries.load_queries()
    with connections.faults("written"), connections.transaction(connection, kind="immediate"):
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
                overtaking.mark_others(connection, staged.number)
    if after != revision:
        recent.note(touched, whole=touching.whole(), before=revision, revision=after)
    return after


def _write(
    connection: sqlite3.Connection, coming: Iterable[Changes], *, record: Record, staged: Staged, revision: int
) -> int:
    """Write all of it; the revision that it makes."""
    beside = overtaking.Overtaking(connection, own=staged.number, revision=revision)
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
        holds_changes = parts.write_part(connection, part, revision=present, group=staged.group) or holds_changes
        rewrites = rewrites or bool(part.rewritten)
    if rewrites:
        erasing.leave_traces(connection)
        # What is written ahead may hold what is to be erased, and goes before that.
        overtaking.mark_others(connection, staged.number)
    events.close_events(connection, staged.group, address=record.address)
    return present if present != revision else revision + int(holds_changes)


def _write_record(connection: sqlite3.Connection, record: Record, *, revision: int, group: EventGroup) -> None:
    sql = queries.load_queries()
    for name in (record.forget_files_of, record.release_repository):
        if name is not None:
            listing.forget_list(connection, name, listing.INDEX)
    if record.release_repository is not None:
        connection.execute(sql["release_resources"], (record.release_repository, revision))
        connection.execute(sql["forget_ledger"], (record.release_repository,))
        connection.execute(sql["remove_repository"], (record.release_repository,))
    _write_hold(connection, record)
    _write_suspension(connection, record)
    events.write_events(connection, group, since=events.ALWAYS, audit=record.audit)
    if record.run is not None:
        connection.execute(sql["insert_run"], record.run)
    if record.repository is not None:
        connection.execute(sql["put_repository"], record.repository)


def _write_hold(connection: sqlite3.Connection, record: Record) -> None:
    """What is held is forgotten before the parts say it anew; an approval takes it over as it is."""
    for name in (record.forget_held_of, record.release_repository):
        if name is not None:
            listing.forget_list(connection, name, listing.HELD)
    for name in (record.forget_approval_of, record.release_repository):
        if name is not None:
            _forget_approval(connection, name)
    if record.approval is not None:
        _write_approval(connection, record.approval)


def _write_suspension(connection: sqlite3.Connection, record: Record) -> None:
    sql = queries.load_queries()
    if record.resume is not None:
        connection.execute(sql["forget_suspension"], (record.resume,))
    if record.suspension is not None:
        connection.execute(sql["put_suspension"], record.suspension)


def _forget_approval(connection: sqlite3.Connection, repository: str) -> None:
    sql = queries.load_queries()
    connection.execute(sql["forget_approval"], (repository,))
    connection.execute(sql["forget_approved"], (repository,))


def _write_approval(connection: sqlite3.Connection, approval: ApprovalRow) -> None:
    sql = queries.load_queries()
    (can,) = connection.execute(sql["can_approve"], (approval.repository, approval.commit)).fetchone()
    if not can:
        raise Moved("What is held changed while it was approved.")
    _forget_approval(connection, approval.repository)
    connection.execute(sql["put_approval"], approval)
    connection.execute(sql["approve_held"], (approval.repository,))
