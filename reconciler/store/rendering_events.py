"""Audit events as JSON, as whoever reads them gets them.

Belongs here: the members of an event. Does not: finding events (`auditing`).
"""

import sqlite3
from contextlib import closing

import msgspec

from reconciler.store import auditing, connections
from reconciler.store.auditing import FoundEvents
from reconciler.store.chaining import ChainedEvent
from reconciler.store.contract import AuditPlace, AuditWanted

PAGE = 1000  # events, which one answer in JSON has at most: one moment, then
PAGE_BYTES = 512 * 1024  # of them with their documents, which may be megabytes each
REASONED = frozenset({"suspended", "resumed"})  # what a person wrote, which may be anything


class _Shown(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What does not concern an event is left out."""

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
        connections.transaction(connection, kind="deferred"),
        closing(auditing.event_page(connection, wanted, limit=most)) as events,
    ):
        for one in events:
            shown.append(_shown(connection, one, documents=documents))
            size += len(shown[-1])
            if len(shown) == most or size >= PAGE_BYTES:
                return shown, AuditPlace(one.link, one.event.id)
    return shown, None


def _shown(connection: sqlite3.Connection, found: FoundEvents, *, documents: bool) -> bytes:
    event = found.event
    before = auditing.audited_version(connection, event, event.version_before) if documents else None
    after = auditing.audited_version(connection, event, event.version_after) if documents else None
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
    """What is told of an event, always an object: a sentence is one with a single member."""
    if event.detail is None:
        return None
    if event.action in REASONED:
        return {"reason": event.detail}
    try:
        return msgspec.json.decode(event.detail, type=dict[str, object])
    except msgspec.DecodeError:
        return {"text": event.detail}
