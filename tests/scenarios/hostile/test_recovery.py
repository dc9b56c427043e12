"""A file that ends the worker is found and set aside, and nothing else suffers for it."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import RequestJob
from reconciler.worker.process import SECONDS, WorkerSeconds
from reconciler.worker.trees import ASIDE
from tests.api import parts
from tests.api.conftest import Follow, connect, until
from tests.api.parts import Parts
from tests.daemons import destination, statuses
from tests.repositories import Repository
from tests.scenarios.hostile import crashing

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def running(folder: Path, *, request: WorkerSeconds | None = None) -> AsyncIterator[tuple[Parts, Follow]]:
    """All parts of the service, with a reader whose parser has faults."""
    seconds = SECONDS if request is None else {**SECONDS, RequestJob: request}
    worker = partial(WorkerClient, command=crashing.COMMAND, seconds=seconds)
    async with parts.started(folder, worker=worker) as started:
        yield started, Follow(started)


def source_of(folder: Path, **files: str) -> Repository:
    source = Repository.init(folder / "source")
    for name, text in files.items():
        source.write(f"{name}.yaml", text)
    source.commit()
    return source


async def apply(client: httpx2.AsyncClient, name: str, description: str = "") -> httpx2.Response:
    resource = parts.destination(name, description=description)
    return await client.post("/v1/apply", content=json.dumps({"resources": [resource]}))


async def test_a_file_that_ends_the_reader_is_set_aside_until_it_changes(tmp_path: Path) -> None:
    source = source_of(
        tmp_path, a=destination("a"), bad=destination("bad", crashing.ABORT), c=destination("c"), d=destination("d")
    )
    async with running(tmp_path) as (started, follow), connect(started.services) as client:
        first = await follow("one", source, project="default")
        bad = {
            "kind": None,
            "name": None,
            "status": "invalid",
            "reason": f"bad.yaml:1:1: {ASIDE}",
            "path": "bad.yaml",
            "line": 1,
        }
        told = [dict(one) for one in first["statuses"]]
        assert [one for one in told if one["status"] == "invalid"] == [bad]
        assert first["counts"] == {"created": 3, "invalid": 1}
        assert (first["outcome"], f"bad.yaml:1:1: {ASIDE}" in first["message"]) == ("partial", True)

        # The next commit knows it already, and what is deleted stays while the file cannot be read.
        source.remove("d.yaml")
        source.write("a.yaml", destination("a", "edited"))
        second = await next_run(follow, source)
        assert second["counts"] == {"configured": 1, "invalid": 1}
        reader = started.reader.process_id
        assert reader is not None
        shown = (await client.get("/v1/repositories/one")).json()["repository"]
        assert shown["state"] == "prune-held"

        source.write("bad.yaml", destination("bad", "mended"))
        third = await next_run(follow, source)
        assert statuses(third) == {"bad": "created", "d": "deleted"}
        assert started.reader.process_id == reader


async def next_run(follow: Follow, source: Repository) -> dict[str, Any]:
    """The run of a new commit that told most: a file event or the request here may have begun the first one."""
    commit = source.commit()
    async with connect(follow.everything.services) as client:
        asked = (await client.post("/v1/repositories/one/reconcile")).json()["run"]
        await follow.finished(asked)
        runs = (await client.get("/v1/runs?limit=100&repository=one")).json()["runs"]
    found = [await follow.finished(run["id"]) for run in runs if run["commit"] == commit]
    return max(found, key=lambda run: len(run["statuses"]))


@pytest.mark.slow
async def test_several_such_files_are_all_found(tmp_path: Path) -> None:
    texts = {f"bad{number}": destination(f"bad{number}", crashing.KILL) for number in range(2)}
    source = source_of(tmp_path, a=destination("a"), **texts, z=destination("z"))
    async with running(tmp_path) as (_, follow):
        run = await follow("one", source, project="default")
        assert run["counts"] == {"created": 2, "invalid": 2}


async def test_a_request_that_ends_the_reader_is_answered_once_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as (started, _), connect(started.services) as client:
        others = [apply(client, f"d{number}") for number in range(5)]
        bad, *good = await asyncio.gather(apply(client, "bad", crashing.ABORT), *others)
        assert [answer.status_code for answer in good] == [202] * 5
        assert (bad.status_code, "its log has the cause" in bad.json()["errors"][0]) == (500, True)
        assert (await apply(client, "after")).status_code == 202
    told = [record.getMessage() for record in caplog.records if "started again when" in record.getMessage()]
    assert told == [
        f"The worker ended with signal 6; it is started again when it is needed ({number} so far)." for number in (1, 2)
    ]


@pytest.mark.slow
async def test_a_commit_under_way_survives_a_request_that_ends_the_reader(tmp_path: Path) -> None:
    texts = {f"many{number:04}": destination(f"many{number:04}") for number in range(500)}
    source = source_of(tmp_path, **texts)
    async with running(tmp_path) as (started, follow), connect(started.services) as client:
        reading = asyncio.create_task(follow("one", source, project="default"))
        bad = await apply(client, "bad", crashing.ABORT)
        run = await reading
        assert (bad.status_code, run["outcome"], run["counts"]) == (500, "succeeded", {"created": 500})


async def test_a_request_that_takes_too_long_is_given_up_and_told_so(tmp_path: Path) -> None:
    async with (
        running(tmp_path, request=WorkerSeconds(run=2.0, wait=60)) as (started, _),
        connect(started.services) as client,
    ):
        hanging = asyncio.create_task(apply(client, "bad", crashing.HANG))
        await asyncio.sleep(0.3)
        behind = await apply(client, "behind")
        answer = await hanging
        assert (answer.status_code, behind.status_code) == (500, 202)
        told = "The work took longer than 2 seconds and was given up; do it in parts. Its id is "
        assert answer.json()["errors"][0].startswith(told)


async def test_a_request_that_is_not_begun_in_time_may_be_tried_again(tmp_path: Path) -> None:
    async with (
        running(tmp_path, request=WorkerSeconds(run=2.0, wait=0.3)) as (started, _),
        connect(started.services) as client,
    ):
        await apply(client, "first")  # from here on the worker runs
        hanging = asyncio.create_task(apply(client, "bad", crashing.HANG))

        async def refused() -> httpx2.Response | None:
            answer = await apply(client, "behind")
            return None if answer.status_code == 202 else answer  # until the worker has begun with the other

        answer = await until(refused)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert answer.json() == {
            "errors": ["The service is busy with other requests; try again in a moment."],
            "codes": ANY,
        }
        hanging.cancel()

        async def taken() -> bool:
            return (await apply(client, "behind")).status_code == 202

        await until(taken)  # although nobody waits any more for what kept it


async def test_a_reader_that_does_not_start_is_not_started_again_and_again_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    worker = partial(WorkerClient, command=("false",))
    async with parts.started(tmp_path, worker=worker) as started, connect(started.services) as client:
        begun = time.monotonic()
        asking = asyncio.create_task(apply(client, "a"))

        async def four() -> bool:
            return sum("ended with code 1" in record.getMessage() for record in caplog.records) >= 4

        await until(four)
        assert time.monotonic() - begun > 0.25 + 0.5  # after none, none, a quarter and half a second
        asking.cancel()
