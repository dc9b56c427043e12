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

from reconciler.resources import rendering
from reconciler.store import connections, events, queries
from reconciler.store.chaining import Event, Head, Rewrite
from reconciler.store.contract import AuditPlace, AuditWanted

LINKS = 200  # that go in one step
EVENTS = 500  # rows that are deleted in one step: about 10 ms
NEWEST = AuditPlace(2**62, 0)


class Found(NamedTuple):
    """One event as it was found."""

    link: int
    event: Event


class Anchor(NamedTuple):
    """The last link that went, number 0 where none did, and how many events went so far."""

    head: Head
    events: int


class Link(NamedTuple):
    """One link as it is stored. What was there before the chain began is one link that is not checked."""

    head: Head
    events: int
    first_at: str
    last_at: str
    address: str | None
    is_checked: bool


class Chained(NamedTuple):
    """An event of a link, with its salt. The two hashes are of one that was redacted, else None: what its own link
    covers, and what the last redaction left.
    """

    link: int
    event: Event
    salt: bytes | None
    before: bytes | None
    after: bytes | None


def page(connection: sqlite3.Connection, wanted: AuditWanted, *, limit: int) -> Generator[Found, None, None]:
    """The events that are wanted, the newest first. Raises sqlite3.Error."""
    sql = queries.load()
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
    )
    statement = sql["audit_events"]
    if wanted.name is not None:
        statement, arguments = sql["audit_events_of_name"], (*arguments, wanted.name)
    with closing(connection.execute(statement, arguments)) as cursor:
        for row in cursor:
            yield Found(row[0], Event(*row[1:]))


def version(connection: sqlite3.Connection, event: Event, number: int | None) -> bytes | None:
    """The version of a resource that an event refers to, as its history shows it; None when there is none."""
    if number is None:
        return None
    sql = queries.load()
    row = connection.execute(sql["version_shown"], (event.project, event.kind, event.name, number)).fetchone()
    return None if row is None else rendering.shown(row)


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
    sql = queries.load()
    span = connection.execute(sql["ended_span"]).fetchone()
    if span is None:
        return False
    link, first, last, since = span
    if connection.execute(sql["sweep_events"], (first, last, since, EVENTS)).rowcount < EVENTS:
        connection.execute(sql["remove_span"], (link, first))
    return True


def _anchor(connection: sqlite3.Connection, before: str) -> bool:
    sql = queries.load()
    oldest = connection.execute(sql["oldest_links"], (LINKS,)).fetchall()
    gone = list(itertools.takewhile(lambda link: link[3] < before, oldest))
    if not gone:
        return False
    number, hashed, *_ = gone[-1]
    (last_event,) = connection.execute(sql["last_event_until"], (number,)).fetchone()
    connection.execute(sql["put_anchor"], (number, hashed, sum(link[2] for link in gone), last_event))
    connection.execute(sql["remove_links"], (number,))
    connection.execute(sql["remove_rewrites"], (number,))
    return True


def anchor(connection: sqlite3.Connection) -> Anchor | None:
    """Where the chain begins; None when the store has lost it."""
    sql = queries.load()
    row = connection.execute(sql["audit_anchor"]).fetchone()
    return None if row is None else Anchor(Head(row[0], row[1]), row[2])


def head(connection: sqlite3.Connection) -> Head:
    """The last link. Raises sqlite3.Error."""
    return events.head(connection)


def links(connection: sqlite3.Connection) -> Generator[Link, None, None]:
    """Every link in order."""
    sql = queries.load()
    with closing(connection.execute(sql["links"])) as cursor:
        for number, hashed, events_of_it, first_at, last_at, address, checked in cursor:
            yield Link(Head(number, hashed), events_of_it, first_at, last_at, address, bool(checked))


def chained(connection: sqlite3.Connection) -> Generator[Chained, None, None]:
    """The events of every link, in order."""
    sql = queries.load()
    with closing(connection.execute(sql["chained_events"])) as cursor:
        for link, *event, salt, before, after in cursor:
            yield Chained(link, Event(*event), salt, before, after)


def rewrites(connection: sqlite3.Connection, link: int) -> list[Rewrite]:
    """What a link redacted, in order."""
    sql = queries.load()
    return [Rewrite(*row) for row in connection.execute(sql["rewrites_of_link"], (link,))]


def rewrites_in_all(connection: sqlite3.Connection) -> int:
    """How many redactions of events there are, of whatever link."""
    sql = queries.load()
    return int(connection.execute(sql["rewrites_in_all"]).fetchone()[0])


def redaction(connection: sqlite3.Connection, link: int) -> int | None:
    """The event that tells of a redaction in a link."""
    sql = queries.load()
    row = connection.execute(sql["redaction_of_link"], (link,)).fetchone()
    return None if row is None else int(row[0])


def stray(connection: sqlite3.Connection) -> int | None:
    """The first event that readers of the store see and that belongs to no link."""
    sql = queries.load()
    row = connection.execute(sql["stray_event"]).fetchone()
    return None if row is None else int(row[0])
