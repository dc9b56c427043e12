"""The audit as rows that are read and that go: pages of events, retention, and the chain for whoever verifies it.

Belongs here: statements. Does not: writing events (`events`), what fits (`reconciler.auditing.verifying`), when events
go (`reconciler.auditing.keeping`).
"""

import itertools
import json
import sqlite3
from collections.abc import Generator
from contextlib import closing
from typing import NamedTuple

from reconciler.store import chaining, connections, events, queries, resource_rows
from reconciler.store.chaining import ChainAnchor, ChainedEvent, ChainHead, ChainHeader, ChainRewrite, Content
from reconciler.store.contract import AuditPlace, AuditWanted

LINKS = 200  # that go in one step
EVENTS = 500  # rows that are deleted in one step: about 10 ms
NEWEST = AuditPlace(2**62, 0)
FEW = 10_000  # events of one name, which are sorted for each page of them
KEY = "Key"  # the kind whose events are also found by what people call the key


class FoundEvents(NamedTuple):
    """One event as it was found."""

    link: int
    event: ChainedEvent


class ChainLink(NamedTuple):
    """One link as it is stored. What was there before the chain began is one link that is not checked."""

    head: ChainHead
    events: int
    first_at: str
    last_at: str
    address: str | None
    is_checked: bool
    content: bytes | None  # the hash of what it holds; None in one from before that was kept


class Chained(NamedTuple):
    """An event of a link, with its salt. The two hashes are of one that was redacted, else None: what its own link
    covers, and what the last redaction left.
    """

    link: int
    event: ChainedEvent
    salt: bytes | None
    before: bytes | None
    after: bytes | None


def event_page(
    connection: sqlite3.Connection, wanted: AuditWanted, *, limit: int
) -> Generator[FoundEvents, None, None]:
    """The events that are wanted, the newest first. Raises sqlite3.Error."""
    sql = queries.load_queries()
    after = wanted.after or NEWEST
    projects = None if wanted.projects is None else json.dumps(sorted(wanted.projects))
    arguments: tuple[object, ...] = (
        *after,
        wanted.since,
        wanted.until,
        projects,
        wanted.kind,
        wanted.action,
        wanted.actor,
        limit,
        wanted.name,
    )
    statement = sql["audit_events"]
    if _is_found_by_name(connection, wanted):
        statement = sql["audit_events_of_name"]
    with closing(connection.execute(statement, arguments)) as cursor:
        for row in cursor:
            yield FoundEvents(row[0], ChainedEvent(*row[1:]))


def _is_found_by_name(connection: sqlite3.Connection, wanted: AuditWanted) -> bool:
    """Of a name that many have the next events are soon met among all: so that no page has to sort them all again. What
    a key is called stands in no index.
    """
    sql = queries.load_queries()
    if wanted.name is None or wanted.kind == KEY:
        return False
    return connection.execute(sql["is_common_name"], (wanted.name, FEW)).fetchone() is None


def audited_version(connection: sqlite3.Connection, event: ChainedEvent, number: int | None) -> bytes | None:
    """The version of a resource that an event refers to, as its history shows it; None when there is none."""
    if number is None:
        return None
    sql = queries.load_queries()
    row = connection.execute(sql["version_shown"], (event.project, event.kind, event.name, number)).fetchone()
    return None if row is None else resource_rows.shown(row, damaged=lambda *_: None)


def forget(connection: sqlite3.Connection, *, before: str) -> bool:
    """One step of removing links whose events are all from before an instant, the oldest first and none behind one that
    stays; whether there may be more to do. Raises `StoreFault`.

    Links go first, so that nobody sees their events any more; the rows go a few at a time.
    """
    with (
        connections.faults("swept"),
        connections.unsynced(connection),
        connections.transaction(connection, kind="immediate"),
    ):
        return _sweep(connection) or _anchor(connection, before)


def _sweep(connection: sqlite3.Connection) -> bool:
    sql = queries.load_queries()
    span = connection.execute(sql["ended_span"]).fetchone()
    if span is None:
        return False
    link, first, last, since = span
    if connection.execute(sql["sweep_events"], (first, last, since, EVENTS)).rowcount < EVENTS:
        connection.execute(sql["remove_span"], (link, first))
    return True


def _anchor(connection: sqlite3.Connection, before: str) -> bool:
    sql = queries.load_queries()
    with closing(_links(connection, sql["oldest_links"], LINKS)) as oldest:
        gone = list(itertools.takewhile(lambda link: link.last_at < before, oldest))
    if not gone:
        return False
    last = gone[-1]
    (last_event,) = connection.execute(sql["last_event_until"], (last.head.number,)).fetchone()
    behind = gone[-2].head if len(gone) > 1 else ChainHead(*connection.execute(sql["audit_anchor"]).fetchone()[:2])
    moved = (*last.head, sum(link.events for link in gone), last_event, _proof(connection, behind, last))
    connection.execute(sql["put_anchor"], moved)
    connection.execute(sql["remove_links"], (last.head.number,))
    connection.execute(sql["remove_rewrites"], (last.head.number,))
    return True


def _proof(connection: sqlite3.Connection, before: ChainHead, link: ChainLink) -> bytes | None:
    if not link.is_checked:
        return None
    header = ChainHeader(link.head.number, link.events, link.first_at, link.last_at, link.address)
    return chaining.proof(before.hash, header, link.content or _content(connection, link.head.number))


def _content(connection: sqlite3.Connection, link: int) -> bytes:
    """The hash of what a link holds, from before that was kept: by its events, which are there until it goes."""
    content = Content()
    with closing(chained(connection, link=link)) as found:
        for one in found:
            content.add(one.before or chaining.leaf(one.event, one.salt), at=one.event.at)
    for rewrite in read_rewrites(connection, link):
        content.rewrite(rewrite)
    return content.digest()


def read_anchor(connection: sqlite3.Connection) -> ChainAnchor | None:
    """Where the chain begins; None when the store has lost it."""
    sql = queries.load_queries()
    row = connection.execute(sql["audit_anchor"]).fetchone()
    return None if row is None else ChainAnchor(ChainHead(row[0], row[1]), *row[2:])


def chain_head(connection: sqlite3.Connection) -> ChainHead:
    """The last link. Raises sqlite3.Error."""
    return events.event_head(connection)


def read_links(connection: sqlite3.Connection) -> Generator[ChainLink, None, None]:
    """Every link in order."""
    sql = queries.load_queries()
    return _links(connection, sql["links"])


def _links(connection: sqlite3.Connection, statement: str, *arguments: object) -> Generator[ChainLink, None, None]:
    with closing(connection.execute(statement, arguments)) as cursor:
        for number, hashed, events_of_it, first_at, last_at, address, checked, content in cursor:
            yield ChainLink(ChainHead(number, hashed), events_of_it, first_at, last_at, address, bool(checked), content)


def chained(connection: sqlite3.Connection, *, link: int | None = None) -> Generator[Chained, None, None]:
    """The events of a link, or of every one, in order."""
    sql = queries.load_queries()
    with closing(connection.execute(sql["chained_events"], (link,))) as cursor:
        for number, *event, salt, before, after in cursor:
            yield Chained(number, ChainedEvent(*event), salt, before, after)


def read_rewrites(connection: sqlite3.Connection, link: int) -> list[ChainRewrite]:
    """What a link redacted, in order."""
    sql = queries.load_queries()
    return [ChainRewrite(*row) for row in connection.execute(sql["rewrites_of_link"], (link,))]


def rewrites_in_all(connection: sqlite3.Connection) -> int:
    """How many redactions of events there are, of whatever link."""
    sql = queries.load_queries()
    return int(connection.execute(sql["rewrites_in_all"]).fetchone()[0])


def redaction(connection: sqlite3.Connection, link: int) -> int | None:
    """The event that tells of a redaction in a link."""
    sql = queries.load_queries()
    row = connection.execute(sql["redaction_of_link"], (link,)).fetchone()
    return None if row is None else int(row[0])


def stray_events(connection: sqlite3.Connection) -> int | None:
    """The first event that readers of the store see and that belongs to no link."""
    sql = queries.load_queries()
    row = connection.execute(sql["stray_event"]).fetchone()
    return None if row is None else int(row[0])
