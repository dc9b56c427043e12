"""A redaction holds the lock of its project, since runs that quote the text are recorded without a new revision."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reconciler.model.names import Key
from reconciler.reconcile.apply import Applier, ApplyRequest
from reconciler.store.records import Record
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import ApplyOptions, Job, RedactJob
from reconciler.worker.process import Answered
from tests.api.parts import DEFAULT, SERVICE, destination, started
from tests.reconcile import writers
from tests.store import rows

pytestmark = pytest.mark.anyio

SECONDS = 30.0  # what takes longer does not happen
CANARY = "canary-in-a-description"
KEY = Key("Destination", "one")
RUN = Record(run=rows.run("run", message=f"it says {CANARY}"))
REQUEST = ApplyRequest(id="a request", project=DEFAULT, actor=SERVICE)


class Interleaved(WorkerClient):
    """The worker, with the redactions that it planned, and what happens between such a plan and its commit."""

    def __init__(self, between: Callable[[], Awaitable[None]], **named: Any) -> None:
        super().__init__(**named)
        self.redactions: list[bool] = []  # whether each was a dry run
        self._between = between

    async def plan(self, job: Job) -> Answered:
        answered = await super().plan(job)
        if isinstance(job, RedactJob):
            self.redactions.append(job.dry_run)
            await self._between()
        return answered


async def described(applier: Applier, *descriptions: str) -> None:
    """A version for each description."""
    for description in descriptions:
        body = msgspec.json.encode({"resources": [destination("one", description=description)]})
        answer = await applier.apply(body, request=REQUEST, options=ApplyOptions())
        assert answer.status == 202


async def nothing() -> None:
    """Happens."""


async def test_a_redaction_waits_for_the_lock_of_its_project_and_a_dry_run_does_not(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS), started(tmp_path, worker=partial(Interleaved, nothing)) as parts:
        applier, reader = parts.services.applier, parts.reader
        assert isinstance(reader, Interleaved)
        await described(applier, CANARY, "mended")
        async with writers.writing(parts.services, DEFAULT):
            redaction = asyncio.create_task(applier.redact(KEY, CANARY, request=REQUEST, dry_run=False))
            tried = await applier.redact(KEY, CANARY, request=REQUEST, dry_run=True)
            assert (tried.versions, reader.redactions) == ((1,), [True])
        done = await redaction
        assert (done.versions, done.places, reader.redactions) == ((1,), 1, [True, False])
        left = await applier.redact(KEY, CANARY, request=REQUEST, dry_run=True)
        assert (left.versions, left.places) == ((), 0)


async def test_what_a_run_tells_without_a_plan_is_stored_before_a_redaction_is_planned_or_after_it_is_stored(
    tmp_path: Path,
) -> None:
    told: list[asyncio.Task[None]] = []

    async def between() -> None:
        told.append(asyncio.create_task(parts.services.applier.store_record(RUN, project=DEFAULT)))
        for _ in range(2):  # the second would be behind the run on the thread that writes
            await parts.services.store.touch_keys({})
        assert (await parts.services.store.remembered("telemetry", held=0)).last_run is None

    async with asyncio.timeout(SECONDS), started(tmp_path, worker=partial(Interleaved, between)) as parts:
        applier, store = parts.services.applier, parts.services.store
        await described(applier, CANARY, "mended")
        planned = await applier.redact(KEY, CANARY, request=REQUEST, dry_run=False)
        assert planned.versions == (1,)
        await told[0]
        assert (await store.remembered("telemetry", held=0)).last_run == "run"
