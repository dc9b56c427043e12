"""Alerts that waited in a file of an earlier version wait in their notifications, and no other."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.notification_types import NotificationType
from reconciler.notifications import models
from reconciler.store import database, operations
from reconciler.store.operations import SqliteOperations

pytestmark = pytest.mark.anyio

BEFORE = 3  # steps that the earlier version had
AT, LATER = "2026-11-21T06:12:00.000Z", "2026-11-21T06:13:00.000Z"


def notification(**changed: Any) -> dict[str, Any]:
    """The body of a row, as the earlier version wrote it."""
    made = {"domain": "delivery", "type": "DeadLetters", "severity": "error", "opened": AT, "began": AT, "modified": AT}
    return {**made, "subject": "siem", "project": "acme", "facts": {"batches": 3}, "told_as": ["error"], **changed}


def alert(about: str, event: str) -> dict[str, Any]:
    return {"event": event, "notification": {"metadata": {"id": about}}}


async def test_each_waits_in_its_notification(tmp_path: Path) -> None:
    path = tmp_path / "ops.db"
    rows = {
        "N1": notification(told="open", told_to=["chat", "pager"]),  # chat took it, pager not yet
        "N2": notification(told="resolved", resolved=LATER, told_to=[]),  # pager is to be told of both
        "N3": notification(told="resolved", resolved=LATER, told_to=[]),  # chat of the end
        "N4": notification(),
    }
    alerts = [
        ("A1", "pager", alert("N1", "opened"), AT),
        ("A2", "pager", alert("N2", "opened"), AT),
        ("A3", "pager", alert("N2", "resolved"), LATER),
        ("A4", "chat", alert("N3", "resolved"), LATER),
        ("A5", "chat", alert("gone", "opened"), AT),
    ]
    with closing(sqlite3.connect(path, factory=database.Connection)) as connection:
        steps = database.migrations(operations.PACKAGE)[:BEFORE]
        database.migrate(connection, steps=steps, application_id=operations.APPLICATION_ID)
        with connection:
            connection.executemany(
                "insert into notification (id, body) values (?, ?)",
                [(name, json.dumps(body).encode()) for name, body in rows.items()],
            )
            connection.executemany(
                "insert into alert (id, target, body, made_at) values (?, ?, ?, ?)",
                [(name, target, json.dumps(body).encode(), at) for name, target, body, at in alerts],
            )
    opened = SqliteOperations(path)
    found = [*models.read_notifications((await opened.notifications()).rows)]
    await opened.close()
    assert [(one.id, [*one.waiting], sorted(one.told_to)) for one in found] == [
        ("N1", ["pager"], ["chat"]),
        ("N2", ["pager"], []),
        ("N3", [], ["chat"]),
        ("N4", [], []),
    ]
    assert {(one.cause, one.waiting.get("pager", one.opened)) for one in found} == {
        (models.Cause(NotificationType.DEAD_LETTERS, "siem", "acme"), found[0].opened)
    }
