"""A store with a small chain of every sort of link, and hands that tamper with its file."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from reconciler.store.records import AuditRow, Changes, QuoteRow, Record
from reconciler.store.sqlite import SqliteStore
from tests.store import rows

SECRET = "canary-in-the-audit"


def told(name: str, *, at: str = rows.AT, detail: str | None = "why", address: str | None = None) -> AuditRow:
    """An event that says something of itself."""
    return AuditRow(
        at=at,
        project=rows.PROJECT,
        actor="user:ana",
        action="suspended",
        kind="Repository",
        name=name,
        version_before=None,
        version_after=None,
        run=None,
        request="a request",
        detail=detail,
        address=address,
    )


def changed(*names: str) -> Changes:
    """A part that stores these, with the events of a change."""
    made = rows.origin()
    events = [
        AuditRow(rows.AT, rows.PROJECT, made.actor, "created", rows.KIND, name, None, 1, made.run) for name in names
    ]
    return replace(rows.stored(*names), audit=events)


async def made(path: Path) -> None:
    """Five links: two events of a request, one without resources, four of a change of three parts, two without
    resources, a redaction of one of them.
    """
    store = SqliteStore(path)
    await store.create_project(rows.PROJECT, at=rows.AT)
    await store.commit([changed("a", "b")], record=Record(address="192.0.2.1"))
    await store.tell([told("between")])
    record = Record(run=rows.run("R1"), audit=(told("early"),))
    await store.commit([changed("c", "d"), rows.stored("e")], record=record)
    await store.tell([told("kept", address="192.0.2.2"), told("quoting", detail=f"it was {SECRET}")])
    await redact(store)
    await store.close()


async def redact(store: SqliteStore, *, of: str = "quoting", by: str = "redacted") -> None:
    """Take the text out of the events of a name."""
    with closing(sqlite3.connect(store.path)) as connection:
        found = connection.execute("select cast(id as text) from audit where name = ? order by id", (of,)).fetchall()
    quotes = [QuoteRow("detail", number, 0, f"it was ({by})") for (number,) in found]
    event = rows.audit("a", action="redacted")
    await store.commit([Changes(quotes=quotes, audit=[event])], record=Record())


def tamper(path: Path, *statements: str) -> None:
    """Return what somebody with the file does to it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
