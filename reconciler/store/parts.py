"""One part of a change that counts as soon as its transaction ends: its rows take the place of those that count now.

Belongs here: the rows of a part. Does not: the record of a commit (`writing`), nor a part that is written ahead
(`staging`).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS
from reconciler.store import checksums, events, listing, queries, resource_rows
from reconciler.store.contract import Changes, FileRow, HeldRow, QuoteRow, WantedRow
from reconciler.store.events import EventGroup

ALWAYS = events.ALWAYS


def is_seen(part: Changes) -> bool:
    """Whether a part changes what a plan or a reader of resources sees."""
    resources = (part.versions, part.heads, part.head_statuses, part.rewritten, part.removed)
    return any((*resources, part.forgotten_files, part.files, part.wanted))


def indexed_repositories(part: Changes) -> set[str]:
    """The repositories of whose index a part says something."""
    rows: Iterator[FileRow | WantedRow] = chain(part.files, part.wanted)
    return {repository for repository, _ in part.forgotten_files} | {row.repository for row in rows}


def write_part(connection: sqlite3.Connection, part: Changes, *, revision: int, group: EventGroup) -> bool:
    """Write a part into the state of a revision, its events into a group; whether that changes what is seen."""
    # What goes before what comes: a file that was read again replaces its rows.
    _forget_files(connection, part, revision=revision)
    _write_resources(connection, part, revision=revision)
    _write_quotes(connection, part.quotes, group)
    sql = queries.load_queries()
    events.write_events(connection, group, since=ALWAYS, origins=part.origins, changed=part.changed, audit=part.audit)
    _write_files(connection, part, revision=revision)
    older = [(row.repository, row.at - PRUNE_WINDOW_MILLISECONDS) for row in part.pruned]
    connection.executemany(sql["forget_pruned"], older)
    connection.executemany(sql["insert_pruned"], part.pruned)
    connection.executemany(sql["insert_run_status"], part.statuses)
    return _write_lineages(connection, part, revision=revision) or is_seen(part)


def part_numbers(
    connection: sqlite3.Connection, what: str, rows: Iterable[FileRow | WantedRow | HeldRow]
) -> Mapping[str, int]:
    """The lists of the repositories of these rows."""
    return {name: listing.list_number(connection, name, what) for name in {row.repository for row in rows}}


def _write_resources(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = queries.load_queries()
    gone = [(*row, revision) for row in part.removed]
    connection.executemany(sql["remove_head"], gone)
    replaced = [(row.project, row.kind, row.name, revision) for row in part.versions]
    connection.executemany(sql["forget_references"], (*gone, *replaced))
    connection.executemany(sql["insert_origin"], part.origins)
    ids = resource_rows.write_versions(connection, part.versions, since=ALWAYS)
    connection.executemany(sql["insert_reference"], ((*row, ALWAYS) for row in part.references))
    heads = resource_rows.head_rows(connection, part, versions=ids, revision=revision)
    connection.executemany(sql["put_head"], heads)
    restated = ((*row[3:], *row[:3], revision) for row in part.head_statuses)
    connection.executemany(sql["put_head_status"], restated)
    for row in part.past_routes:
        if row.past is None:
            connection.execute(sql["forget_past_route"], row[:2])
        else:
            connection.execute(sql["put_past_route"], row)
    rewritten = (
        (row.body, row.secrets, checksums.checksum_of(row.body, row.secrets), *row[:4]) for row in part.rewritten
    )
    connection.executemany(sql["rewrite_version"], rewritten)


def _write_lineages(connection: sqlite3.Connection, part: Changes, *, revision: int) -> bool:
    """Whether any of them still held."""
    sql = queries.load_queries()
    filled_in = False
    for row in part.lineages:
        if connection.execute(sql["explain_head"], (row.status, *row[:4], row.status_before, revision)).rowcount:
            told = connection.execute(sql["explain_version"], (row.origin, *row[:4], row.before)).rowcount
            filled_in = filled_in or bool(told) or row.status != row.status_before
    return filled_in


def _write_quotes(connection: sqlite3.Connection, quotes: Iterable[QuoteRow], group: EventGroup) -> None:
    sql = queries.load_queries()
    statements = {"reason": sql["rewrite_reason"], "notes": sql["rewrite_notes"], "message": sql["rewrite_message"]}
    for quote in quotes:
        if quote.of == "detail":
            events.redact_events(connection, group, quote)
        else:
            place = (quote.id,) if quote.of == "message" else (quote.id, quote.ordinal)
            connection.execute(statements[quote.of], (quote.text, *place))


def _forget_files(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = queries.load_queries()
    repositories = {repository for repository, _ in part.forgotten_files}
    lists = {name: listing.list_number(connection, name, listing.INDEX) for name in repositories}
    forgotten = [(lists[repository], path, revision) for repository, path in part.forgotten_files]
    connection.executemany(sql["forget_wanted"], forgotten)
    connection.executemany(sql["forget_file"], forgotten)


def _write_files(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = queries.load_queries()
    lists = part_numbers(connection, listing.INDEX, (*part.files, *part.wanted))
    connection.executemany(sql["put_file"], ((lists[row.repository], *row[1:], revision) for row in part.files))
    connection.executemany(sql["put_wanted"], ((lists[row.repository], *row[1:], revision) for row in part.wanted))
    held = part_numbers(connection, listing.HELD, part.held)
    connection.executemany(sql["put_held"], ((held[row.repository], *row[1:]) for row in part.held))
