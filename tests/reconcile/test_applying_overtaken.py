"""Requests that are overtaken again and again do not wait for a large commit that is being planned."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from reconciler.model.principals import Actor, Role
from reconciler.model.secret_references import NO_SECRETS
from reconciler.reconcile.apply import Applier, ApplyLimits, ApplyOptions, ApplyRequest
from reconciler.store.contract import Record
from reconciler.store.sqlite import SqliteStore
from reconciler.worker.change_stream import ChangeStream
from reconciler.worker.client import Answered, WorkerClient
from reconciler.worker.messages import CommitJob, CommitPlanned, Job
from tests import worlds
from tests.commit_jobs import commit_job
from tests.daemons import destination
from tests.projects import resource
from tests.store import rows
from tests.worlds import BEGIN, PROJECT, Mirror

pytestmark = pytest.mark.anyio

SECONDS = 30.0  # what takes longer does not happen


class Interleaved(WorkerClient):
    """The reader, with what happens between a plan and its commit."""

    def __init__(self, between: Callable[[Job], Awaitable[None]]) -> None:
        super().__init__()
        self._between = between

    async def plan(self, job: Job, inflow: ChangeStream | None = None) -> Answered:
        answered = await super().plan(job, inflow)
        await self._between(job)
        return answered


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    await opened.create_project(PROJECT, at=rows.AT)
    yield opened
    await opened.close()


async def test_a_request_that_is_overtaken_twice_waits_for_no_commit(tmp_path: Path, store: SqliteStore) -> None:
    is_planned, may_go_on = asyncio.Event(), asyncio.Event()
    overtaken = 0

    async def between(job: Job) -> None:
        nonlocal overtaken
        if isinstance(job, CommitJob):
            is_planned.set()
            await may_go_on.wait()
        elif overtaken < 2:
            overtaken += 1
            await store.commit((), record=Record(redacts=True), planned_at=None)  # concerns every plan

    reader = Interleaved(between)
    await reader.start()
    applier = Applier(
        store,
        reader,
        store_path=str(store.path),
        limits=ApplyLimits(api_versions=worlds.API_VERSIONS, max_resources=10),
        secrets=lambda _: NO_SECRETS,
        clock=lambda: BEGIN,
    )
    mirror = Mirror(tmp_path / "a.git")
    head = mirror.commit({"a.yaml": destination("large")})
    async with asyncio.timeout(SECONDS):
        commit = asyncio.create_task(
            applier.commit(
                lambda context: commit_job(context=context, repository="a", mirror=str(mirror.path), commit=head),
                project=PROJECT,
                origin="a",
                record=lambda _: Record(),
            )
        )
        await is_planned.wait()
        body = msgspec.json.encode({"resources": [resource("Destination", "small", type="otlp")]})
        asked = ApplyRequest(id="a request", project=PROJECT, actor=Actor(name="key:test", role=Role.ADMIN))
        answer = await applier.apply(body, request=asked, options=ApplyOptions())
        assert (answer.status, overtaken, commit.done()) == (202, 2, False)
        may_go_on.set()
        planned = await commit
    await reader.stop()
    assert isinstance(planned, CommitPlanned)
    assert planned.counts == {"created": 1}
    assert [await store.get(PROJECT, rows.key(name)) is not None for name in ("small", "large")] == [True, True]
