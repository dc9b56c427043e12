"""The audit as rows: pages, retention, events as JSON, and the verification of its chain.

The verification reads only the store's file, at one revision, while the service runs or not. It keeps one link in
memory at a time, and finds the first one that does not fit its events.
"""

import itertools
import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.model import audit_chain, errors, text
from reconciler.model.audit_chain import ChainAnchor, ChainHead, ChainHeader, ChainRewrite, Content
from reconciler.store import commit, damage, database
from reconciler.store.records import AuditPlace, AuditRow, AuditWanted
from reconciler.store.statements import Connection

LINKS = 20  # removed in one step; most have few events
EVERY_LINK = -1
NEWEST = AuditPlace(2**62, 0)


class ChainLink(NamedTuple):
    """One link as it is stored. The events from before the chain began are one link that is not checked."""

    header: ChainHeader
    hash: bytes
    is_checked: int
    content: bytes | None  # the hash of its content; None in a link of an earlier version, which did not store it

    @property
    def head(self) -> ChainHead:
        """Its number and hash."""
        return ChainHead(self.header.number, self.hash)


def forget(connection: Connection, *, before: str) -> bool:
    """Remove some of the oldest links whose events are all from before an instant, up to the first that stays. Return
    True if there may be more. It is part of a transaction. Raises errors of the engine.
    """
    with closing(read_links(connection, LINKS)) as oldest:
        gone = list(itertools.takewhile(lambda link: link.header.last_at < before, oldest))
    if not gone:
        return False
    last = gone[-1]
    number = last.header.number
    previous = gone[-2].hash if len(gone) > 1 else connection.all("audit_anchor")[0][1]
    proof = None
    if last.is_checked:
        # If the hash of its content is not stored, it is computed from the events.
        content = last.content or _content(connection, number, is_verified=False).digest()
        proof = audit_chain.proof(previous, last.header, content)
    events, last_event = sum(link.header.events for link in gone), connection.value("last_event_until", number)
    connection.run("put_anchor", *last.head, events, last_event, proof)
    connection.run("remove_links", number)
    connection.run("remove_events", number)
    connection.run("remove_rewrites", number)
    return True


def read_links(connection: Connection, limit: int = EVERY_LINK) -> Generator[ChainLink, None, None]:
    """Yield the links in order, the oldest first."""
    with closing(connection.stream("links", limit)) as rows:
        for row in rows:
            yield ChainLink(ChainHeader(*row[:5]), *row[5:])


def _content(connection: Connection, link: int, *, is_verified: bool) -> Content:
    """Return the content of a link: the hashes of its events, then its redactions. With `is_verified` it raises
    BrokenChain for an event that changed after its redaction.
    """
    content = Content()
    with closing(connection.stream("chained_events", link)) as rows:
        for number, *values, salt, before, after in rows:
            event = AuditRow(*values)
            leaf = audit_chain.leaf(number, event, salt)
            if is_verified and before is not None and leaf != after:
                raise BrokenChain(f"The event {link}-{number} was changed after it was redacted.")
            content.add(before or leaf, at=event.at)
    for rewrite in connection.all("rewrites_of_link", link):
        content.rewrite(ChainRewrite(*rewrite))
    return content


PAGE = 1000  # events; an answer in JSON has at most as many, so it is of one moment
PAGE_BYTES = 512 * 1024  # of events with documents, which may be megabytes each
SHOWN_AS = {"version_before": "versionBefore", "version_after": "versionAfter"}
ALWAYS = frozenset({"id", "at", "action", "kind", "name", "actor"})  # the fields of every event
REASONED = frozenset({"suspended", "resumed"})  # their detail is the text of a person, never JSON


def render_event_page(
    connection: Connection, wanted: AuditWanted, *, limit: int, documents: bool
) -> tuple[list[bytes], AuditPlace | None]:
    """Return the next events, newest first, and the position after which the next page begins; None at the end. With
    `documents` each event has the versions that it refers to. Raises errors of the engine.
    """
    projects, *others, after = wanted
    within = None if projects is None else sorted(projects)
    shown: list[bytes] = []
    size, most = 0, min(limit, PAGE)
    with connection.reading():
        found = connection.stream("audit_events", *(after or NEWEST), within, *others, most)
        with closing(found):
            for link, number, *event in found:
                place = AuditPlace(link, number)
                shown.append(_render_event(connection, place, AuditRow(*event), documents=documents))
                size += len(shown[-1])
                if len(shown) == most or size >= PAGE_BYTES:
                    return shown, place
    return shown, None


def _render_event(connection: Connection, place: AuditPlace, event: AuditRow, *, documents: bool) -> bytes:
    """Return an event as JSON. Fields that do not concern it are left out."""
    shown: dict[str, object] = {"id": f"{place.link}-{place.event}"}
    shown |= {SHOWN_AS.get(name, name): value for name, value in event._asdict().items()}
    shown["detail"] = _detail(event)
    if documents:
        shown["before"] = _version(connection, event, event.version_before)
        shown["after"] = _version(connection, event, event.version_after)
    return msgspec.json.encode(
        {name: value for name, value in shown.items() if name in ALWAYS or (value is not None and value != "")}
    )


def _version(connection: Connection, event: AuditRow, number: int | None) -> msgspec.Raw | None:
    """Return the version that an event refers to, as in the resource's history; None if there is none."""
    row = connection.first("version_shown", event.project, event.kind, event.name, number)
    return None if row is None else msgspec.Raw(damage.shown_row(row, damaged=lambda *_: None))


def _detail(event: AuditRow) -> dict[str, object] | None:
    """Return the detail of an event as an object; a sentence becomes its only member."""
    if event.detail is None:
        return None
    if event.action in REASONED:
        return {"reason": event.detail}
    try:
        return msgspec.json.decode(event.detail, type=dict[str, object])
    except msgspec.DecodeError:
        return {"text": event.detail}


_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
RESTORED = "events were cut off, or an older copy was put in the store's place"

Watched = Callable[[database.Connection], AbstractContextManager[object]]
"""Watch a connection while it is read; may interrupt it."""


class BrokenChain(errors.Refused):
    """The chain does not fit its events, or misses events; the message names the first place."""


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
    rewrites: int = 0  # events that were redacted, once for each time


@dataclass(frozen=True, slots=True)
class RedactedEvents:
    """A number of events that were redacted; `by` is the event that reports the redaction."""

    events: int
    by: str


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
    """Verify all of a store's audit: its chain, that the link `known` is in it, and that nothing was removed that
    happened at the instant `since` or later, as `clock.rfc3339` writes it. Raises BrokenChain, StoreFault, and what
    `watched` does.
    """
    with database.faults("read"), closing(database.open_reader(path)) as connection, watched(connection):
        return verify_chain(connection, known=known, since=since)


def verify_chain(connection: Connection, *, known: ChainHead | None, since: str | None) -> VerifiedChain:
    """As `verify`, of the store of a connection. Raises BrokenChain and errors of the engine."""
    with connection.reading():
        anchor = commit.read_anchor(connection)
        if anchor is None:
            raise BrokenChain("The audit has lost its anchor, the hash that its first link follows.")
        verified = VerifiedChain(anchor, anchor.head)
        _check_chain(connection, verified)
        if known is not None:
            _check_known(connection, verified, known)
        stray = connection.first("stray_event")
        if stray is not None:
            raise BrokenChain(f"The event {stray[0]} belongs to no link: it was added, or its link was removed.")
        _check_anchor(anchor, since)
    return verified


def _check_anchor(anchor: ChainAnchor, since: str | None) -> None:
    """Check that the removed events were past their retention. Events from before the chain have no hash, and are
    link 1. Raises BrokenChain.
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


def _check_chain(connection: Connection, verified: VerifiedChain) -> None:
    """Check every link, and that there is nothing behind the last one. Raises BrokenChain."""
    with closing(read_links(connection)) as links:
        for link in links:
            _check(connection, link, verified)
    unlinked = connection.first("first_link_of_events_after", verified.head.number)
    if unlinked is not None:
        raise BrokenChain(f"Link {unlinked[0]} is missing, and its events are there.")
    if connection.value("rewrites_in_all") != verified.rewrites:
        # A false rewrite could hide any change of an event.
        raise BrokenChain("A redaction is told of that no link holds.")


def _check_known(connection: Connection, verified: VerifiedChain, known: ChainHead) -> None:
    """Check that a link is in the chain. Raises BrokenChain."""
    anchor, last = verified.anchor.head, verified.head.number
    if known.number > last:
        raise BrokenChain(f"The audit ends at link {last}, before the given link {known.number}: {RESTORED}.")
    if known.number < anchor.number:
        raise BrokenChain(
            f"The given link {known.number} is older than the anchor, link {anchor.number}, and was removed when its "
            "time was over; give a later one."
        )
    is_anchor = known.number == anchor.number
    found = anchor.hash if is_anchor else connection.value("link_hash", known.number)
    if found != known.hash:
        which = f"The anchor, link {anchor.number}," if is_anchor else f"Link {known.number}"
        raise BrokenChain(f"{which} has another hash than the given one: the audit was written anew.")


def _check(connection: Connection, link: ChainLink, verified: VerifiedChain) -> None:
    """Check that a link follows the last one and fits its events; it is the last one then. Raises BrokenChain."""
    header, named = link.header, f"Link {link.header.number}"
    named += f" of {header.first_at}" if header.first_at else ""
    if header.number != verified.head.number + 1:
        raise BrokenChain(
            f"Link {verified.head.number + 1} is missing: behind link {verified.head.number} comes {header.number}."
        )
    content = _content(connection, header.number, is_verified=True)
    if content.events != header.events:
        raise BrokenChain(f"{named} has {content.events} of its {text.counted(header.events, 'event')}.")
    if (content.first_at, content.last_at) != (header.first_at, header.last_at):
        raise BrokenChain(f"{named} says when its events were, and they were at another time.")
    if link.is_checked:
        kept = link.content or content.digest()
        if content.sealed(verified.head, address=header.address) != link.head or content.digest() != kept:
            raise BrokenChain(
                f"{named} does not fit: one of its events, or a link before it, is not what it was when written."
            )
        verified.events += header.events
    elif header.number != 1 or link.hash != audit_chain.ZERO:
        raise BrokenChain(f"{named} says that it is not to be checked, which only the first of all may.")
    else:
        verified.unchecked = header.events
    if content.rewrites:
        by = connection.first("redaction_of_link", header.number)
        told = f"link {header.number}" if by is None else f"event {header.number}-{by[0]}"
        verified.redacted.append(RedactedEvents(content.rewrites, told))
    verified.rewrites += content.rewrites
    verified.head = link.head
    verified.links += 1
    verified.first_at = verified.first_at or header.first_at
    verified.last_at = max(verified.last_at, header.last_at)
