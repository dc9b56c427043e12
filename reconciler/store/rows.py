"""Rows of a change: versions, heads, origins, lists, and what erasing leaves."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from zlib import crc32

import msgspec

from reconciler.model import rendering
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS
from reconciler.model.rendering import LATEST, is_source
from reconciler.model.values import Value
from reconciler.store import audit_chain, checksums, database
from reconciler.store.audit_chain import ChainedEvent, ChainHead, ChainRewrite, Content
from reconciler.store.contract import (
    AuditRow,
    ChangeRow,
    Changes,
    FileRow,
    HeadRow,
    HeldRow,
    OriginRow,
    QuoteRow,
    VersionRow,
    WantedRow,
)

# Versions and heads as rows: which number a version has in its table, whether a head's id may be somebody else's, and
# what a reader sees of them.


def write_versions(
    connection: sqlite3.Connection, rows: Sequence[VersionRow], *, since: int
) -> Mapping[tuple[object, ...], int]:
    """Write versions; their numbers in the table, by project, kind, name and version."""
    sql = database.load_queries()
    (last,) = connection.execute(sql["last_version"]).fetchone()
    numbered = list(enumerate(rows, last + 1))
    rows_of = ((number, *row, since, checksums.checksum_of(row.body, row.secrets)) for number, row in numbered)
    connection.executemany(sql["insert_version"], rows_of)
    return {row[:4]: number for number, row in numbered}


def head_rows(
    connection: sqlite3.Connection, part: Changes, *, versions: Mapping[tuple[object, ...], int], revision: int
) -> Iterator[tuple[object, ...]]:
    """The heads of a part as the statements that write them want them, with the numbers of those `versions`.

    Whether another resource has the id of one is looked up for each, unless nobody has an id in the whole range: new
    ids go by time, and a look-up costs as much as all else of a row.
    """
    may_be_taken = _may_be_taken(connection, part.heads)
    return ((*row, revision, versions.get(row[:4]), may_be_taken) for row in part.heads)


def _may_be_taken(connection: sqlite3.Connection, rows: Sequence[HeadRow]) -> bool:
    ids = {row.resource_id for row in rows}
    projects = {row.project for row in rows}
    if len(ids) < len(rows) or len(projects) != 1:
        return True
    sql = database.load_queries()
    return bool(connection.execute(sql["ids_between"], (*projects, min(ids), max(ids))).fetchone()[0])


def shown(row: tuple[Any, ...], *, damaged: Callable[[str, str, int], object]) -> bytes:
    """A resource as a reader gets it, or what stands for one that is damaged, which `damaged` is told of: kind, name
    and version. One that cannot be read never spoils the others of a list.
    """
    if is_damaged(row):
        kind, name, version = row[8:]
        damaged(kind, name, version)
        return rendering.damaged(kind, name, version=version, latest=row[1] is not None)
    return rendering.shown(row[:6])


def is_damaged(row: tuple[Any, ...]) -> bool:
    """Whether a row that a reader would see is not what was stored.

    Every resource of every list comes by here, so most of them are told by few calls.
    """
    body, status, head, tail, _, _, secrets, checksum, _, _, _ = row
    if checksum is not None and checksum != (crc32(body) if secrets is None else checksums.checksum_of(body, secrets)):
        return True
    return not (is_source(head, tail) and (status is None or status == LATEST or rendering.is_json(status)))


# Numbers: one for each list that a repository has, and one for each change that is written ahead.
#
# They come from one counter that never goes back, and that stays ahead of the revision, so that none is ever used
# twice.

INDEX, HELD = "index", "held"  # what the applied head holds, and what stays though it does not


def list_number(connection: sqlite3.Connection, repository: str, what: str) -> int:
    """The number of a repository's list; an empty one is made when there is none."""
    sql = database.load_queries()
    row = connection.execute(sql["listing"], (repository, what)).fetchone()
    if row is not None:
        return int(row[0])
    made = reserve_list(connection, distance=1)
    put_list(connection, repository, what, made)
    return made


def put_list(connection: sqlite3.Connection, repository: str, what: str, number: int) -> None:
    """Show this list of a repository in place of the one that there may be, whose rows are swept later."""
    sql = database.load_queries()
    connection.execute(sql["put_listing"], (repository, what, number))


def forget_list(connection: sqlite3.Connection, repository: str, what: str) -> None:
    """Nobody sees a repository's list any more; its rows are swept later."""
    sql = database.load_queries()
    connection.execute(sql["forget_listing"], (repository, what))


def reserve_list(connection: sqlite3.Connection, *, distance: int) -> int:
    """Set a number aside that is so far above the revision and all that were set aside before."""
    sql = database.load_queries()
    (last,) = connection.execute(sql["reserved"]).fetchone()
    connection.execute(sql["put_reserved"], (last + distance,))
    return int(last) + distance


# Where versions come from: what is the same for many is one row, which they share.

ID_BYTES = 8

_encode = msgspec.msgpack.Encoder().encode


def origin_row(
    source: Mapping[str, Value], *, actor: str, run: str | None, request: str | None, created_at: str
) -> OriginRow:
    """The row of what these say, with the id that is made of them. `source` has no `path` and `line`.

    A run's or a request's id cannot be foreseen, so that nobody prepares two rows that have the same id. Should it
    happen all the same, the store refuses the second, and the next run or request makes another.
    """
    said = (*rendering.frame(source), actor, run, request, created_at)
    digest = hashlib.blake2b(_encode(said), digest_size=ID_BYTES).digest()
    return OriginRow(int.from_bytes(digest, "big") >> 1, *said)  # SQLite's integers have a sign


# The events of one transaction, written with the link that chains them.

ALWAYS = 0  # the revision from which an event counts that no change wrote ahead


@dataclass(slots=True)
class EventGroup:
    """What one link will hold. Of a change that is written ahead it grows over many transactions."""

    content: Content = field(default_factory=Content)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)  # by `since`: the first and the last number
    rewrites: list[ChainRewrite] = field(default_factory=list)


def write_events(
    connection: sqlite3.Connection,
    group: EventGroup,
    *,
    since: int,
    origins: Iterable[OriginRow] = (),
    changed: Sequence[ChangeRow] = (),
    audit: Sequence[AuditRow] = (),
) -> None:
    """Write events, behind all that there are. `origins` hold those of what is `changed`."""
    if not changed and not audit:
        return
    sql = database.load_queries()
    (last,) = connection.execute(sql["last_event"]).fetchone()
    first = group.spans.get(since, (last + 1, last))[0]
    group.spans[since] = (first, last + len(changed) + len(audit))
    _hash_changes(group, changed, origins, first=last + 1)
    rows = ((number, *row, since) for number, row in enumerate(changed, last + 1))
    connection.executemany(sql["insert_change"], rows)
    told = _hash_told(connection, group, audit, first=last + 1 + len(changed))
    connection.executemany(sql["insert_audit"], ((*row, since) for row in told))


def _hash_changes(group: EventGroup, changed: Sequence[ChangeRow], origins: Iterable[OriginRow], *, first: int) -> None:
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
        group.content.add(audit_chain.leaf(event, None), at=origin.created_at)


def _hash_told(
    connection: sqlite3.Connection, group: EventGroup, audit: Sequence[AuditRow], *, first: int
) -> Iterator[tuple[object, ...]]:
    """The rows of other events, with their numbers and salts."""
    sql = database.load_queries()
    for number, row in enumerate(audit, first):
        salt = None
        if row.detail is not None:
            (salt,) = connection.execute(sql["salt"], (audit_chain.SALT_BYTES,)).fetchone()
        group.content.add(audit_chain.leaf(ChainedEvent(number, *row), salt), at=row.at)
        yield (number, *row, salt)


def redact_events(connection: sqlite3.Connection, group: EventGroup, quote: QuoteRow) -> None:
    """Put another text in place of an event's, and remember both hashes; nothing when the event is gone by now."""
    sql = database.load_queries()
    found = connection.execute(sql["event"], (quote.id,)).fetchone()
    if found is None:
        return
    event, salt = ChainedEvent(*found[:-1]), found[-1]
    left = event._replace(detail=quote.text)
    connection.execute(sql["rewrite_detail"], (quote.text, event.id))
    group.rewrites.append(ChainRewrite(event.id, audit_chain.leaf(event, salt), audit_chain.leaf(left, None)))


def event_head(connection: sqlite3.Connection) -> ChainHead:
    """The last link, or the anchor when there is none behind it."""
    sql = database.load_queries()
    row = connection.execute(sql["last_link"]).fetchone() or connection.execute(sql["audit_anchor"]).fetchone()
    return ChainHead(*row[:2])


def close_events(connection: sqlite3.Connection, group: EventGroup, *, address: str | None = None) -> None:
    """Chain the group, in the transaction that shows it; nothing for an empty one. `address` is where the request came
    from that made it.
    """
    content = group.content
    if not content.events and not group.rewrites:
        return
    sql = database.load_queries()
    rewrites = sorted(group.rewrites)
    for one in rewrites:
        content.rewrite(one)
    link = content.sealed(event_head(connection), address=address)
    of_it = (content.events, content.first_at, content.last_at, address, content.digest())
    connection.execute(sql["insert_link"], (*link, *of_it))
    connection.executemany(
        sql["insert_span"], ((link.number, *span, since) for since, span in sorted(group.spans.items()))
    )
    connection.executemany(sql["insert_rewrite"], ((one.event, link.number, one.before, one.after) for one in rewrites))


# One part of a change that counts as soon as its transaction ends: its rows take the place of those that count now.

PART_ALWAYS = ALWAYS


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
    sql = database.load_queries()
    write_events(connection, group, since=PART_ALWAYS, origins=part.origins, changed=part.changed, audit=part.audit)
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
    return {name: list_number(connection, name, what) for name in {row.repository for row in rows}}


def _write_resources(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = database.load_queries()
    gone = [(*row, revision) for row in part.removed]
    connection.executemany(sql["remove_head"], gone)
    replaced = [(row.project, row.kind, row.name, revision) for row in part.versions]
    connection.executemany(sql["forget_references"], (*gone, *replaced))
    connection.executemany(sql["insert_origin"], part.origins)
    ids = write_versions(connection, part.versions, since=PART_ALWAYS)
    connection.executemany(sql["insert_reference"], ((*row, PART_ALWAYS) for row in part.references))
    heads = head_rows(connection, part, versions=ids, revision=revision)
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
    sql = database.load_queries()
    filled_in = False
    for row in part.lineages:
        if connection.execute(sql["explain_head"], (row.status, *row[:4], row.status_before, revision)).rowcount:
            told = connection.execute(sql["explain_version"], (row.origin, *row[:4], row.before)).rowcount
            filled_in = filled_in or bool(told) or row.status != row.status_before
    return filled_in


def _write_quotes(connection: sqlite3.Connection, quotes: Iterable[QuoteRow], group: EventGroup) -> None:
    sql = database.load_queries()
    statements = {"reason": sql["rewrite_reason"], "notes": sql["rewrite_notes"], "message": sql["rewrite_message"]}
    for quote in quotes:
        if quote.of == "detail":
            redact_events(connection, group, quote)
        else:
            place = (quote.id,) if quote.of == "message" else (quote.id, quote.ordinal)
            connection.execute(statements[quote.of], (quote.text, *place))


def _forget_files(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = database.load_queries()
    repositories = {repository for repository, _ in part.forgotten_files}
    lists = {name: list_number(connection, name, INDEX) for name in repositories}
    forgotten = [(lists[repository], path, revision) for repository, path in part.forgotten_files]
    connection.executemany(sql["forget_wanted"], forgotten)
    connection.executemany(sql["forget_file"], forgotten)


def _write_files(connection: sqlite3.Connection, part: Changes, *, revision: int) -> None:
    sql = database.load_queries()
    lists = part_numbers(connection, INDEX, (*part.files, *part.wanted))
    connection.executemany(sql["put_file"], ((lists[row.repository], *row[1:], revision) for row in part.files))
    connection.executemany(sql["put_wanted"], ((lists[row.repository], *row[1:], revision) for row in part.wanted))
    held = part_numbers(connection, HELD, part.held)
    connection.executemany(sql["put_held"], ((held[row.repository], *row[1:]) for row in part.held))
