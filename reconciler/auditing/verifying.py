"""Whether the chain of the audit fits its events: the first link that does not, or what was looked at.

Belongs here: what must hold, and the sentence for what does not. Does not: what is hashed (`store.chaining`), the
statements (`store.auditing`), how it is shown (`cli.audit_verify`).

Only the file of the store is read, as of one moment, while the service runs or not. In memory is one link at a time:
its hash, and what it redacted.
"""

import itertools
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.model import errors, text
from reconciler.store import auditing, chaining, connections
from reconciler.store.auditing import Chained, ChainLink
from reconciler.store.chaining import ChainAnchor, ChainHead, Content

_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")
RESTORED = "events were cut off, or an older copy was put in the store's place"

Watched = Callable[[sqlite3.Connection], AbstractContextManager[object]]
"""What looks after a connection as long as it is read; it may end what runs on it."""


class BrokenChain(errors.Refused):
    """The chain does not fit, or misses events that should be there; the message says where first."""


@dataclass(slots=True)
class VerifiedChain:
    """What was looked at and fits. `unchecked` events are from before there was a chain."""

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
    """What the log has of a head, `NUMBER:HASH`. Raises Refused."""
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
    with connections.faults("read"), closing(connections.open_reader(path)) as connection, watched(connection):
        connection.execute("begin deferred")  # one moment, whatever is written meanwhile
        anchor = auditing.read_anchor(connection)
        if anchor is None:
            raise BrokenChain("The audit has lost its anchor, the hash that its first link follows.")
        verified = _chain(connection, VerifiedChain(anchor, anchor.head), known=known)
        stray = auditing.stray_events(connection)
        if stray is not None:
            raise BrokenChain(f"The event {stray} belongs to no link: it was added, or its link was removed.")
        _check_anchor(anchor, since)
    return verified


def _check_anchor(anchor: ChainAnchor, since: str | None) -> None:
    """Whether what went was over. What was there before the chain began has no hash, and is link 1."""
    number = anchor.head.number
    if anchor.head.hash == chaining.ZERO and number <= 1:
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
    with closing(auditing.read_links(connection)) as links, closing(auditing.chained(connection)) as found:
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
    if auditing.rewrites_in_all(connection) != verified.rewrites:
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
    """Whether a link follows the last one and fits its events; it is the last one then. Raises Broken."""
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
    elif number != 1 or link.head.hash != chaining.ZERO:
        raise BrokenChain(f"{_named(link)} says that it is not to be checked, which only the first of all may.")
    else:
        verified.unchecked = link.events
    verified.head = link.head
    verified.links += 1
    verified.first_at = verified.first_at or link.first_at
    verified.last_at = max(verified.last_at, link.last_at)


def _covered(one: Chained) -> bytes:
    """The hash of an event that its link covers. Raises Broken for one that is not as its redaction left it."""
    now = chaining.leaf(one.event, one.salt)
    if one.before is None:
        return now
    if now != one.after:
        raise BrokenChain(f"The event {one.link}-{one.event.id} was changed after it was redacted.")
    return one.before


def _check_hash(connection: sqlite3.Connection, link: ChainLink, content: Content, verified: VerifiedChain) -> None:
    rewrites = auditing.read_rewrites(connection, link.head.number)
    verified.rewrites += len(rewrites)
    for one in rewrites:
        content.rewrite(one)
    kept = link.content or content.digest()
    if content.sealed(verified.head, address=link.address) != link.head or content.digest() != kept:
        raise BrokenChain(
            f"{_named(link)} does not fit: one of its events, or a link before it, is not what it was when written."
        )
    if rewrites and len(verified.redacted) < MOST_REDACTED:
        by = auditing.redaction(connection, link.head.number)
        told = f"link {link.head.number}" if by is None else f"event {link.head.number}-{by}"
        verified.redacted.append(RedactedEvents(len(rewrites), told))
    elif rewrites:
        verified.more_redacted += 1


def _named(link: ChainLink) -> str:
    when = f" of {link.first_at}" if link.first_at else ""
    return f"Link {link.head.number}{when}"
