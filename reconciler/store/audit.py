"""The audit as rows: pages, retention, events as JSON, and the verification of its chain."""

import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.model import errors, text
from reconciler.store import audit_chain, checksums, database
from reconciler.store.audit_chain import ChainAnchor, ChainedEvent, ChainHead, ChainHeader, ChainRewrite, Content
from reconciler.store.records import AuditPlace, AuditWanted

# The audit as rows that are read and that go: pages of events, retention, and the chain for whoever verifies it.

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
    sql = database.load_queries()
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
    sql = database.load_queries()
    if wanted.name is None or wanted.kind == KEY:
        return False
    return connection.execute(sql["is_common_name"], (wanted.name, FEW)).fetchone() is None


def audited_version(connection: sqlite3.Connection, event: ChainedEvent, number: int | None) -> bytes | None:
    """The version of a resource that an event refers to, as its history shows it; None when there is none."""
    if number is None:
        return None
    sql = database.load_queries()
    row = connection.execute(sql["version_shown"], (event.project, event.kind, event.name, number)).fetchone()
    return None if row is None else checksums.shown_row(row, damaged=lambda *_: None)


def forget(connection: sqlite3.Connection, *, before: str) -> bool:
    """One step of removing links whose events are all from before an instant, the oldest first and none behind one that
    stays; whether there may be more to do. Raises `StoreFault`.

    Links go first, so that nobody sees their events any more; the rows go a few at a time.
    """
    with (
        database.faults("swept"),
        database.unsynced(connection),
        database.transaction(connection, kind="immediate"),
    ):
        return _sweep(connection) or _anchor(connection, before)


def _sweep(connection: sqlite3.Connection) -> bool:
    sql = database.load_queries()
    return connection.execute(sql["sweep_events"], (EVENTS,)).rowcount > 0


def _anchor(connection: sqlite3.Connection, before: str) -> bool:
    sql = database.load_queries()
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
    return audit_chain.proof(before.hash, header, link.content or _content(connection, link.head.number))


def _content(connection: sqlite3.Connection, link: int) -> bytes:
    """The hash of what a link holds, from before that was kept: by its events, which are there until it goes."""
    content = Content()
    with closing(chained(connection, link=link)) as found:
        for one in found:
            content.add(one.before or audit_chain.leaf(one.event, one.salt), at=one.event.at)
    for rewrite in read_rewrites(connection, link):
        content.rewrite(rewrite)
    return content.digest()


def read_anchor(connection: sqlite3.Connection) -> ChainAnchor | None:
    """Return the start of the chain; None if the store has lost it."""
    sql = database.load_queries()
    row = connection.execute(sql["audit_anchor"]).fetchone()
    return None if row is None else ChainAnchor(ChainHead(row[0], row[1]), *row[2:])


def read_links(connection: sqlite3.Connection) -> Generator[ChainLink, None, None]:
    """Every link in order."""
    sql = database.load_queries()
    return _links(connection, sql["links"])


def _links(connection: sqlite3.Connection, statement: str, *arguments: object) -> Generator[ChainLink, None, None]:
    with closing(connection.execute(statement, arguments)) as cursor:
        for number, hashed, events_of_it, first_at, last_at, address, checked, content in cursor:
            yield ChainLink(ChainHead(number, hashed), events_of_it, first_at, last_at, address, bool(checked), content)


def chained(connection: sqlite3.Connection, *, link: int | None = None) -> Generator[Chained, None, None]:
    """The events of a link, or of every one, in order."""
    sql = database.load_queries()
    with closing(connection.execute(sql["chained_events"], (link,))) as cursor:
        for number, *event, salt, before, after in cursor:
            yield Chained(number, ChainedEvent(*event), salt, before, after)


def read_rewrites(connection: sqlite3.Connection, link: int) -> list[ChainRewrite]:
    """Return the redactions of a link, in order."""
    sql = database.load_queries()
    return [ChainRewrite(*row) for row in connection.execute(sql["rewrites_of_link"], (link,))]


def rewrites_in_all(connection: sqlite3.Connection) -> int:
    """How many redactions of events there are, of whatever link."""
    sql = database.load_queries()
    return int(connection.execute(sql["rewrites_in_all"]).fetchone()[0])


def redaction(connection: sqlite3.Connection, link: int) -> int | None:
    """The event that tells of a redaction in a link."""
    sql = database.load_queries()
    row = connection.execute(sql["redaction_of_link"], (link,)).fetchone()
    return None if row is None else int(row[0])


def stray_events(connection: sqlite3.Connection) -> int | None:
    """An event that belongs to no link, or to one that was gone before it was written."""
    sql = database.load_queries()
    row = connection.execute(sql["stray_event"]).fetchone()
    return None if row is None else int(row[0])


# Audit events as JSON, as whoever reads them gets them.

PAGE = 1000  # events, which one answer in JSON has at most: one moment, then
PAGE_BYTES = 512 * 1024  # of them with their documents, which may be megabytes each
REASONED = frozenset({"suspended", "resumed"})  # what a person wrote, which may be anything


class _Shown(msgspec.Struct, omit_defaults=True, rename="camel"):
    """An audit event. Fields that do not concern it are left out."""

    id: str
    at: str
    action: str
    kind: str
    name: str
    actor: str
    project: str = ""
    address: str = ""
    run: str = ""
    request: str = ""
    detail: dict[str, object] | None = None
    version_before: int | None = None
    version_after: int | None = None
    before: msgspec.Raw | None = None
    after: msgspec.Raw | None = None


def render_event_page(
    connection: sqlite3.Connection, wanted: AuditWanted, *, limit: int, documents: bool
) -> tuple[list[bytes], AuditPlace | None]:
    """The next events as of this moment, each with the versions that it refers to when `documents` are wanted, and
    behind which one to go on; None at the end. Raises sqlite3.Error.
    """
    shown: list[bytes] = []
    size, most = 0, min(limit, PAGE)
    with (
        database.transaction(connection, kind="deferred"),
        closing(event_page(connection, wanted, limit=most)) as events,
    ):
        for one in events:
            shown.append(_shown(connection, one, documents=documents))
            size += len(shown[-1])
            if len(shown) == most or size >= PAGE_BYTES:
                return shown, AuditPlace(one.link, one.event.id)
    return shown, None


def _shown(connection: sqlite3.Connection, found: FoundEvents, *, documents: bool) -> bytes:
    event = found.event
    before = audited_version(connection, event, event.version_before) if documents else None
    after = audited_version(connection, event, event.version_after) if documents else None
    return msgspec.json.encode(
        _Shown(
            id=f"{found.link}-{event.id}",
            at=event.at,
            action=event.action,
            kind=event.kind,
            name=event.name,
            actor=event.actor,
            project=event.project,
            address=event.address or "",
            run=event.run or "",
            request=event.request or "",
            detail=_detail(event),
            version_before=event.version_before,
            version_after=event.version_after,
            before=None if before is None else msgspec.Raw(before),
            after=None if after is None else msgspec.Raw(after),
        )
    )


def _detail(event: ChainedEvent) -> dict[str, object] | None:
    """Return the detail of an event, always as an object: a sentence becomes the only member of one."""
    if event.detail is None:
        return None
    if event.action in REASONED:
        return {"reason": event.detail}
    try:
        return msgspec.json.decode(event.detail, type=dict[str, object])
    except msgspec.DecodeError:
        return {"text": event.detail}


# Whether the chain of the audit fits its events: the first link that does not, or what was looked at.
#
# Only the file of the store is read, as of one moment, while the service runs or not. In memory is one link at a time:
# its hash, and what it redacted.

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
RESTORED = "events were cut off, or an older copy was put in the store's place"

Watched = Callable[[sqlite3.Connection], AbstractContextManager[object]]
"""Watch a connection while it is read; may interrupt it."""


class BrokenChain(errors.Refused):
    """The chain does not fit, or misses events that should be there; the message says where first."""


@dataclass(slots=True)
class VerifiedChain:
    """The counts of a verified chain. `unchecked` events are from before there was a chain."""

    anchor: ChainAnchor
    head: ChainHead
    links: int = 0
    events: int = 0
    unchecked: int = 0
    first_at: str = ""
    last_at: str = ""
    redacted: list["RedactedEvents"] = field(default_factory=list)
    more_redacted: int = 0  # links that redacted something, beyond those that are named
    rewrites: int = 0  # events that were redacted, once for each time


@dataclass(frozen=True, slots=True)
class RedactedEvents:
    """So many events were redacted; `by` is the event that tells of it."""

    events: int
    by: str


MOST_REDACTED = 100  # links of which it is told by name


def head(text: str) -> ChainHead:
    """Parse a head as the log shows it, `NUMBER:HASH`. Raises Refused."""
    match = _HEAD.fullmatch(text.strip().lower())
    if match is None:
        raise errors.Refused(
            "A head is its number, a colon and 64 hexadecimal digits, as the service's log has it: `17:9f86d0…`."
        )
    return ChainHead(int(match[1]), bytes.fromhex(match[2]))


def verify(
    path: Path, *, known: ChainHead | None = None, since: str | None = None, watched: Watched = nullcontext
) -> VerifiedChain:
    """Look at all of a store's audit, whether the link `known` is in it, and whether nothing went that happened at the
    instant `since` or later, as `clock.rfc3339` writes it. Raises Broken, StoreFault, and what `watched` does.
    """
    with database.faults("read"), closing(database.open_reader(path)) as connection, watched(connection):
        connection.execute("begin deferred")  # one moment, whatever is written meanwhile
        anchor = read_anchor(connection)
        if anchor is None:
            raise BrokenChain("The audit has lost its anchor, the hash that its first link follows.")
        verified = _chain(connection, VerifiedChain(anchor, anchor.head), known=known)
        stray = stray_events(connection)
        if stray is not None:
            raise BrokenChain(f"The event {stray} belongs to no link: it was added, or its link was removed.")
        _check_anchor(anchor, since)
    return verified


def _check_anchor(anchor: ChainAnchor, since: str | None) -> None:
    """Return True if the removed events were past their retention. Events from before the chain have no hash, and are
    link 1.
    """
    number = anchor.head.number
    if anchor.head.hash == audit_chain.ZERO and number <= 1:
        return
    if anchor.last_at is None:
        raise BrokenChain(
            f"The anchor, link {number}, does not show when its events were: something else than the service put it "
            "there, and removed what was before it."
        )
    if since is not None and anchor.last_at >= since:
        raise BrokenChain(
            f"Removed early: the events up to link {number}, of {anchor.last_at}, are gone, and `audit.retention` "
            f"keeps all since {since}. If it was shorter until lately, say so with --retention."
        )


def _chain(connection: sqlite3.Connection, verified: VerifiedChain, *, known: ChainHead | None) -> VerifiedChain:
    is_met = known is None or known == verified.head
    with closing(read_links(connection)) as links, closing(chained(connection)) as found:
        groups = _Groups(found)
        for link in links:
            _check(connection, link, verified, groups)
            is_met = is_met or link.head == known
            if known is not None and link.head.number == known.number and not is_met:
                raise BrokenChain(
                    f"Link {known.number} has another hash than the given one: the audit was written anew."
                )
        if groups.next is not None:
            raise BrokenChain(f"Link {groups.next} is missing, and its events are there.")
    if rewrites_in_all(connection) != verified.rewrites:
        # One of them would excuse whatever was done to an event.
        raise BrokenChain("A redaction is told of that no link holds.")
    if not is_met:
        assert known is not None
        raise BrokenChain(_not_met(known, verified))
    return verified


def _not_met(known: ChainHead, verified: VerifiedChain) -> str:
    anchor = verified.anchor.head
    if known.number > verified.head.number:
        return f"The audit ends at link {verified.head.number}, before the given link {known.number}: {RESTORED}."
    if known.number == anchor.number:
        return f"The anchor, link {anchor.number}, has another hash than the given one: the audit was written anew."
    return (
        f"The given link {known.number} is older than the anchor, link {anchor.number}, and was removed when its time "
        "was over; give a later one."
    )


class _Groups:
    """Events as they come, link by link."""

    def __init__(self, found: Iterator[Chained]) -> None:
        self._groups = itertools.groupby(found, key=lambda one: one.link)
        self._current: tuple[int, Iterator[Chained]] | None = None
        self._advance()

    @property
    def next(self) -> int | None:
        """The link of the events that come next; None behind the last."""
        return None if self._current is None else self._current[0]

    def of(self, link: int) -> Iterator[Chained]:
        """The events of a link, which may be none. They are read before those of the next are asked for."""
        if self._current is not None and self._current[0] == link:
            yield from self._current[1]
            self._advance()

    def _advance(self) -> None:
        self._current = next(self._groups, None)


def _check(connection: sqlite3.Connection, link: ChainLink, verified: VerifiedChain, groups: _Groups) -> None:
    """Return True if a link follows the last one and fits its events; it is the last one then. Raises Broken."""
    number = link.head.number
    if number != verified.head.number + 1:
        raise BrokenChain(
            f"Link {verified.head.number + 1} is missing: behind link {verified.head.number} comes {number}."
        )
    if groups.next is not None and groups.next < number:
        raise BrokenChain(f"There are events of link {groups.next}, which is not there.")
    content = Content()
    for one in groups.of(number):
        content.add(_covered(one), at=one.event.at)
    if content.events != link.events:
        raise BrokenChain(f"{_named(link)} has {content.events} of its {text.counted(link.events, 'event')}.")
    if (content.first_at, content.last_at) != (link.first_at, link.last_at):
        raise BrokenChain(f"{_named(link)} says when its events were, and they were at another time.")
    if link.is_checked:
        _check_hash(connection, link, content, verified)
        verified.events += link.events
    elif number != 1 or link.head.hash != audit_chain.ZERO:
        raise BrokenChain(f"{_named(link)} says that it is not to be checked, which only the first of all may.")
    else:
        verified.unchecked = link.events
    verified.head = link.head
    verified.links += 1
    verified.first_at = verified.first_at or link.first_at
    verified.last_at = max(verified.last_at, link.last_at)


def _covered(one: Chained) -> bytes:
    """The hash of an event that its link covers. Raises Broken for one that is not as its redaction left it."""
    now = audit_chain.leaf(one.event, one.salt)
    if one.before is None:
        return now
    if now != one.after:
        raise BrokenChain(f"The event {one.link}-{one.event.id} was changed after it was redacted.")
    return one.before


def _check_hash(connection: sqlite3.Connection, link: ChainLink, content: Content, verified: VerifiedChain) -> None:
    rewrites = read_rewrites(connection, link.head.number)
    verified.rewrites += len(rewrites)
    for one in rewrites:
        content.rewrite(one)
    kept = link.content or content.digest()
    if content.sealed(verified.head, address=link.address) != link.head or content.digest() != kept:
        raise BrokenChain(
            f"{_named(link)} does not fit: one of its events, or a link before it, is not what it was when written."
        )
    if rewrites and len(verified.redacted) < MOST_REDACTED:
        by = redaction(connection, link.head.number)
        told = f"link {link.head.number}" if by is None else f"event {link.head.number}-{by}"
        verified.redacted.append(RedactedEvents(len(rewrites), told))
    elif rewrites:
        verified.more_redacted += 1


def _named(link: ChainLink) -> str:
    when = f" of {link.first_at}" if link.first_at else ""
    return f"Link {link.head.number}{when}"
