"""The events of one transaction, written with the link that chains them.

Belongs here: their rows. Does not: what is hashed of them (`chaining`), which transaction they are of (`writing`,
`staging`, `access`).
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.store import chaining, queries
from reconciler.store.chaining import ChainedEvent, ChainHead, ChainRewrite, Content
from reconciler.store.contract import AuditRow, ChangeRow, OriginRow, QuoteRow

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
    sql = queries.load_queries()
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
        group.content.add(chaining.leaf(event, None), at=origin.created_at)


def _hash_told(
    connection: sqlite3.Connection, group: EventGroup, audit: Sequence[AuditRow], *, first: int
) -> Iterator[tuple[object, ...]]:
    """The rows of other events, with their numbers and salts."""
    sql = queries.load_queries()
    for number, row in enumerate(audit, first):
        salt = None
        if row.detail is not None:
            (salt,) = connection.execute(sql["salt"], (chaining.SALT_BYTES,)).fetchone()
        group.content.add(chaining.leaf(ChainedEvent(number, *row), salt), at=row.at)
        yield (number, *row, salt)


def redact_events(connection: sqlite3.Connection, group: EventGroup, quote: QuoteRow) -> None:
    """Put another text in place of an event's, and remember both hashes; nothing when the event is gone by now."""
    sql = queries.load_queries()
    found = connection.execute(sql["event"], (quote.id,)).fetchone()
    if found is None:
        return
    event, salt = ChainedEvent(*found[:-1]), found[-1]
    left = event._replace(detail=quote.text)
    connection.execute(sql["rewrite_detail"], (quote.text, event.id))
    group.rewrites.append(ChainRewrite(event.id, chaining.leaf(event, salt), chaining.leaf(left, None)))


def event_head(connection: sqlite3.Connection) -> ChainHead:
    """The last link, or the anchor when there is none behind it."""
    sql = queries.load_queries()
    row = connection.execute(sql["last_link"]).fetchone() or connection.execute(sql["audit_anchor"]).fetchone()
    return ChainHead(*row[:2])


def close_events(connection: sqlite3.Connection, group: EventGroup, *, address: str | None = None) -> None:
    """Chain the group, in the transaction that shows it; nothing for an empty one. `address` is where the request came
    from that made it.
    """
    content = group.content
    if not content.events and not group.rewrites:
        return
    sql = queries.load_queries()
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
