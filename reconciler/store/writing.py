"""One commit, on the thread that writes: all of it in one transaction, or nothing."""

import sqlite3
from collections.abc import Iterable

from reconciler.store import connections, queries
from reconciler.store.contract import Changes, Moved, Record


def commit(connection: sqlite3.Connection, parts: Iterable[Changes], *, record: Record, planned_at: int | None) -> int:
    """Write the parts and the record; the revision afterwards. Raises `Moved`, `StoreFault`."""
    sql = queries.load()
    with connections.faults("written"), connections.transaction(connection, kind="immediate"):
        (revision,) = connection.execute(sql["revision"]).fetchone()
        if planned_at is not None and planned_at != revision:
            raise Moved("The store changed while this was planned.")
        _write_record(connection, record)
        holds_changes = record.forget_files_of is not None or record.release_repository is not None
        for part in parts:
            _write_part(connection, part)
            holds_changes = holds_changes or _is_seen(part)
        if holds_changes:
            connection.execute(sql["grow_revision"])
            revision += 1
    return int(revision)


def _is_seen(part: Changes) -> bool:
    """Whether a part changes what a plan or a reader of resources sees."""
    return any((part.versions, part.heads, part.removed, part.forgotten_files, part.files, part.wanted))


def _write_record(connection: sqlite3.Connection, record: Record) -> None:
    sql = queries.load()
    forgotten = [(name,) for name in (record.forget_files_of, record.release_repository) if name is not None]
    connection.executemany(sql["forget_wanted_of"], forgotten)
    connection.executemany(sql["forget_files_of"], forgotten)
    if record.release_repository is not None:
        connection.execute(sql["release_resources"], (record.release_repository,))
        connection.execute(sql["remove_repository"], (record.release_repository,))
    if record.run is not None:
        connection.execute(sql["insert_run"], record.run)
    if record.repository is not None:
        connection.execute(sql["put_repository"], record.repository)


def _write_part(connection: sqlite3.Connection, part: Changes) -> None:
    sql = queries.load()
    # What goes before what comes: a file that was read again replaces its rows.
    connection.executemany(sql["forget_wanted"], part.forgotten_files)
    connection.executemany(sql["forget_file"], part.forgotten_files)
    connection.executemany(sql["remove_head"], part.removed)
    connection.executemany(sql["insert_version"], part.versions)
    connection.executemany(sql["put_head"], part.heads)
    connection.executemany(sql["insert_audit"], part.audit)
    connection.executemany(sql["put_file"], part.files)
    connection.executemany(sql["put_wanted"], part.wanted)
    connection.executemany(sql["insert_run_status"], part.statuses)
