"""What a file does to a helper is as if it had done it to the reader child: it is found, and others do not suffer."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.worker.client import WorkerClient
from reconciler.worker.limits import ASIDE
from reconciler.worker.messages import CommitJob
from reconciler.worker.process import SECONDS, WorkerSeconds
from tests.api import parts
from tests.api.conftest import Follow, connect, until
from tests.api.parts import Parts
from tests.daemons import destination
from tests.repositories import Repository
from tests.scenarios.hostile import crashing
from tests.waiting import is_alive
from tests.worker import crews
from tests.worker.test_crew_processes import children

pytestmark = pytest.mark.anyio

FILES = 250


@pytest.fixture
def anyio_backend() -> str:
    """The reader child's pipes belong to the loop that started it."""
    return "asyncio"


def source_with(folder: Path, bad: str) -> Repository:
    """Many good files and a bad one, which comes first: a helper gets it."""
    source = Repository.init(folder / "source")
    source.write("0000.yaml", destination("bad", bad))
    for number in range(1, FILES):
        source.write(f"{number:04}.yaml", destination(f"good-{number}"))
    source.commit()
    return source


def sleeps(process: int) -> bool:
    """Whether it waits for time to pass, and not for its socket."""
    return "nanosleep" in Path(f"/proc/{process}/wchan").read_text()


@contextlib.asynccontextmanager
async def running(folder: Path, *, commit: WorkerSeconds | None = None) -> AsyncIterator[tuple[Parts, Follow]]:
    """All parts of the service, with a reader whose parser has faults, and two helpers."""
    seconds = SECONDS if commit is None else {**SECONDS, CommitJob: commit}
    async with parts.started(folder, reader=WorkerClient(command=crews.CRASHING, seconds=seconds)) as started:
        yield started, Follow(started)


async def test_a_file_that_ends_a_helper_is_found_and_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = source_with(tmp_path, crashing.ABORT)
    async with running(tmp_path) as (_, follow):
        run = await follow("one", source, project="default")
    assert (run["outcome"], run["counts"]) == ("partial", {"created": FILES - 1, "invalid": 1})
    (bad,) = [one for one in run["statuses"] if one["status"] == "invalid"]
    assert bad["reason"] == f"0000.yaml:1:1: {ASIDE}"
    told = [record.getMessage() for record in caplog.records if "started again when" in record.getMessage()]
    # With a helper, and then alone in a careful child, until the file is known.
    assert told == [
        f"The reader ended with signal 6; it is started again when it is needed ({number} so far)."
        for number in (1, 2, 3)
    ]


async def test_a_helper_that_hangs_keeps_no_request_waiting_and_ends_with_the_job(tmp_path: Path) -> None:
    source = source_with(tmp_path, crashing.HANG)
    async with (
        running(tmp_path, commit=WorkerSeconds(run=2.0)) as (started, follow),
        connect(started.services) as client,
    ):
        reader = started.reader.process_id
        assert reader is not None
        following = asyncio.create_task(follow("one", source, project="default"))
        helpers: list[int] = []

        async def hangs() -> bool:
            helpers[:] = children(reader)
            return any(map(sleeps, helpers))

        await until(hangs)
        body = json.dumps({"resources": [parts.destination("asked")]})
        assert (await client.post("/v1/apply", content=body)).status_code == 202
        assert started.reader.process_id == reader  # while the helper hangs

        async def gone() -> bool:
            return not any(is_alive(each) for each in (reader, *helpers))

        await until(gone)
        following.cancel()
