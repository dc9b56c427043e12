"""The upkeep of the audit: its head is said once for each change, and what is over goes."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from reconciler.auth.rate_limits import RefusedAttempt, RefusedAttempts
from reconciler.replicas.work import Work
from reconciler.server.schedules import AuditUpkeep
from reconciler.store.contract import Store
from reconciler.store.records import AuditRow, ResourceChange
from tests.store import rows
from tests.store.conftest import empty, engine, store  # noqa: F401 - fixtures
from tests.store.contract_audit import names

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 11, 21, 6, 13, 0, 1_000, tzinfo=UTC)
MINUTE = 60.0


def keeping(store: Store, refusals: RefusedAttempts | None = None, *, retention: float = MINUTE) -> AuditUpkeep:  # noqa: F811
    return AuditUpkeep(store, refusals or RefusedAttempts(), retention=retention, clock=lambda: NOW)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.message.startswith("The audit's head")]


async def test_the_head_is_said_once_for_each_change(
    store: Store,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    upkeep = keeping(store)
    await upkeep.minute()
    await store.tell([rows.audit("a")])
    await upkeep.minute()
    await upkeep.minute()
    head = (await store.audit_ends())[1]
    assert said(caplog)[1:] == [f"The audit's head is {head}."]
    fields = caplog.records[-1].__dict__["fields"]
    assert fields == {"auditLink": head.number, "auditHash": head.hash.hex()}


async def test_after_a_run_it_is_said_at_once_and_the_end_writes_what_was_refused(
    store: Store,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    refusals = RefusedAttempts()
    upkeep = keeping(store, refusals)
    task = asyncio.create_task(upkeep.keep())
    await _until(lambda: len(said(caplog)) == 1)
    await store.tell([rows.audit("a")])
    upkeep.heard(ResourceChange(None))
    upkeep.heard(ResourceChange("telemetry"))
    await _until(lambda: len(said(caplog)) == 2)
    refusals.note(RefusedAttempt(401, "unknown", "192.0.2.1", ""))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await names(store) == ["401", "a"]


async def test_a_write_that_is_under_way_when_the_service_stops_is_not_made_twice(
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, tell = asyncio.Event(), store.tell

    async def told(rows: Sequence[AuditRow]) -> None:
        began.set()
        await tell(rows)

    monkeypatch.setattr(store, "tell", told)
    refusals = RefusedAttempts()
    upkeep = keeping(store, refusals)
    refusals.note(RefusedAttempt(403, "key:K1", "192.0.2.1", "/v1/apply"))
    minute = asyncio.create_task(upkeep.minute())
    await began.wait()
    minute.cancel()
    refusals.note(RefusedAttempt(401, "unknown", "192.0.2.1", ""))
    await upkeep.minute()
    with pytest.raises(asyncio.CancelledError):
        await minute
    assert await names(store) == ["401", "403"]


async def test_what_is_older_than_the_retention_goes(store: Store) -> None:  # noqa: F811
    await store.tell([rows.audit("old")])
    await store.tell([rows.audit("new")._replace(at="2026-11-21T06:12:00.001Z")])
    await keeping(store, retention=2 * MINUTE).forget()
    assert await names(store) == ["new", "old"]
    await keeping(store).forget()
    assert await names(store) == ["new"]


async def test_a_replica_whose_turn_it_is_not_removes_nothing(store: Store) -> None:  # noqa: F811
    class NoLeases:
        def holds(self, name: str) -> bool:
            return not name

    await store.tell([rows.audit("old")])
    upkeep = AuditUpkeep(store, RefusedAttempts(), retention=0.0, clock=lambda: NOW, work=Work(NoLeases()))
    before = await store.audit_ends()
    await upkeep.forget()
    assert await store.audit_ends() == before


async def test_each_move_of_the_anchor_is_said_and_at_a_start_the_last_one(
    store: Store,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    upkeep = keeping(store)
    await store.tell([rows.audit("old")])
    await store.tell([rows.audit("older")])
    await store.tell([rows.audit("new")._replace(at="2026-11-21T06:12:00.001Z")])
    await upkeep.say()
    assert anchors(caplog) == []
    await upkeep.forget()
    await upkeep.forget()
    await keeping(store).say()
    anchor = (await store.audit_ends())[0]
    assert (anchor.head.number, anchor.events, anchor.last_event, anchor.last_at) == (2, 2, 2, rows.AT)
    sentence = f"The audit's anchor is {anchor.head}: 2 events went so far, up to number 2, the last of {rows.AT}."
    assert [record.message for record in anchors(caplog)] == [sentence, sentence]
    fields = anchors(caplog)[0].__dict__["fields"]
    assert fields == {"auditAnchor": 2, "auditAnchorHash": anchor.head.hash.hex(), "auditGone": 2}


def anchors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message.startswith("The audit's anchor")]


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while True:
            if is_so():
                return
            await asyncio.sleep(0)
