"""A change is stored under the lock of its project, within its time, and whoever follows the store hears of it."""

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from reconciler.model.clock import rfc3339
from reconciler.reconcile import apply
from reconciler.reconcile.apply import ApplyRequest, Locked
from reconciler.store.records import Record, ResourceChange
from reconciler.store.repository_records import SuspensionRow
from reconciler.worker.messages import ApplyOptions
from tests.api.parts import DEFAULT, SERVICE, Parts, destination, started, watched
from tests.reconcile import writers

pytestmark = pytest.mark.anyio

SECONDS = 30.0  # what takes longer does not happen
NOW = rfc3339(datetime(2026, 11, 21, tzinfo=UTC))
SUSPENSION = Record(suspension=SuspensionRow("telemetry", reason="", actor="an admin", since=NOW, until=None))


async def applied(parts: Parts, name: str = "one") -> int:
    """Apply a Destination; the status of the answer."""
    request = ApplyRequest(id="a request", project=DEFAULT, actor=SERVICE)
    body = msgspec.json.encode({"resources": [destination(name)]})
    return (await parts.services.applier.apply(body, request=request, options=ApplyOptions())).status


async def test_what_follows_the_store_hears_of_a_change_whose_caller_is_gone(tmp_path: Path) -> None:
    heard: list[ResourceChange] = []
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        parts.services.store.subscribe(ResourceChange, heard.append)
        with writers.next_commit(parts.services) as held:
            caller = asyncio.create_task(applied(parts))
            await held.begun.wait()
            caller.cancel()
            held.end.set()
            with contextlib.suppress(asyncio.CancelledError):
                await caller
        assert heard == [ResourceChange(None, project=DEFAULT)]


async def test_a_request_may_be_stored_in_what_its_plan_left_of_its_minute(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        with writers.next_commit(parts.services) as held:
            caller = asyncio.create_task(applied(parts))
            await held.begun.wait()
            held.end.set()
            assert await caller == 202
        assert held.seconds is not None
        assert 0.0 < held.seconds < 60.0


@pytest.mark.parametrize("is_request", [True, False])
async def test_a_person_who_suspends_waits_as_long_as_every_request_and_a_run_as_long_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_request: bool
) -> None:
    monkeypatch.setattr(apply, "LOCK_SECONDS", 0.1)
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        applier = parts.services.applier
        async with writers.writing(parts.services, DEFAULT):
            suspending = asyncio.create_task(applier.store_record(SUSPENSION, project=DEFAULT, is_request=is_request))
            await asyncio.wait({suspending}, timeout=0.5)
            assert suspending.done() is is_request
        if is_request:
            with pytest.raises(Locked):
                await suspending
        else:
            await suspending


async def test_what_the_settings_watch_is_written_under_the_lock_of_its_project(tmp_path: Path) -> None:
    one = watched("telemetry", tmp_path / "nowhere", project=DEFAULT, suspend=True)
    async with asyncio.timeout(SECONDS), started(tmp_path) as parts:
        async with writers.writing(parts.services, DEFAULT):
            starting = asyncio.create_task(parts.repositories.start([one]))
            await asyncio.wait({starting}, timeout=0.5)
            assert not starting.done()
            assert await parts.services.store.repositories() == []
        await starting
        assert [row.name for row in await parts.services.store.repositories()] == ["telemetry"]
