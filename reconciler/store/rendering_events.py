"""Audit events as JSON, as whoever reads them gets them.

Belongs here: the members of an event. Does not: finding events (`auditing`).
"""

import sqlite3
from collections.abc import Generator, Iterable

import msgspec

from reconciler.store import auditing
from reconciler.store.auditing import Found

PAGE = 100  # events
PAGE_BYTES = 512 * 1024  # of them with their documents, which may be megabytes each


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
    detail: str = ""
    version_before: int | None = None
    version_after: int | None = None
    before: msgspec.Raw | None = None
    after: msgspec.Raw | None = None


def pages(
    connection: sqlite3.Connection, found: Iterable[Found], *, documents: bool
) -> Generator[list[bytes], None, None]:
    """Events in pages, each with the versions that it refers to when `documents` are wanted. Raises sqlite3.Error."""
    page: list[bytes] = []
    size = 0
    for one in found:
        page.append(_shown(connection, one, documents=documents))
        size += len(page[-1])
        if len(page) == PAGE or size >= PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def _shown(connection: sqlite3.Connection, found: Found, *, documents: bool) -> bytes:
    event = found.event
    before = auditing.version(connection, event, event.version_before) if documents else None
    after = auditing.version(connection, event, event.version_after) if documents else None
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
            detail=event.detail or "",
            version_before=event.version_before,
            version_after=event.version_after,
            before=None if before is None else msgspec.Raw(before),
            after=None if after is None else msgspec.Raw(after),
        )
    )
