"""Which child a job goes to, and what becomes of it when that one ends, hangs or cannot be started."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.store.contract import StoreFault
from reconciler.store.sqlite import SqliteStore
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import CommitJob, CommitPlanned, RoutesJob
from reconciler.worker.process import SECONDS, WorkerGone, WorkerSeconds
from tests.commit_jobs import commit_job
from tests.daemons import destination
from tests.repositories import Repository
from tests.scenarios.hostile import crashing

pytestmark = pytest.mark.anyio

API_VERSIONS = frozenset({"service/v1"})
AT = "2026-11-22T00:00:00Z"


async def test_a_reader_that_cannot_be_started_is_told_as_that_and_counts_as_an_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    reader = WorkerClient(command=("/nowhere/reader",))
    with pytest.raises(WorkerGone) as gone:
        await reader.start()
    why = "The worker could not be started (No such file or directory)"
    assert gone.value.message == f"{why}; look at the machine's memory, and at its limits of processes."
    assert caplog.messages == [f"{why}; it is started again when it is needed (1 so far)."]
    await reader.stop()


async def test_all_who_wait_for_a_reader_that_cannot_be_started_are_told_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = WorkerClient(command=("/nowhere/reader",))
    async with asyncio.timeout(3):  # its next start but one would have to wait, and the tenth for half a minute
        jobs = [RoutesJob(commit_job().context)] * 8
        told = await asyncio.gather(*(reader.plan(job) for job in jobs), return_exceptions=True)
        again = await asyncio.gather(reader.plan(jobs[0]), return_exceptions=True)
    assert [str(one) for one in (*told, *again)] == [
        "The worker could not be started (No such file or directory);"
        " look at the machine's memory, and at its limits of processes."
    ] * 9
    assert len(caplog.messages) == 2
    await reader.stop()


@pytest.mark.parametrize("is_suspect", [False, True], ids=["shared", "apart"])
async def test_a_reader_that_stops_while_its_child_starts_keeps_no_job_waiting_and_no_child(
    *, is_suspect: bool
) -> None:
    for steps in range(8):
        reader, job = WorkerClient(command=("sh", "-c", "cat > /dev/null")), commit_job()
        if is_suspect:
            reader.memory.suspect(job)
        async with asyncio.timeout(5):
            asked = asyncio.create_task(reader.plan(job))
            for _ in range(steps):
                await asyncio.sleep(0)
            await reader.stop()
            with pytest.raises(WorkerGone):
                await asked
        assert reader.process_id is None


async def test_a_reader_that_stops_waits_for_a_child_that_starts_although_its_caller_is_gone() -> None:
    others = asyncio.all_tasks()
    for steps in range(1, 8):
        reader = WorkerClient(command=("sh", "-c", "cat > /dev/null"))
        asked = asyncio.create_task(reader.plan(commit_job()))
        for _ in range(steps):
            await asyncio.sleep(0)
        asked.cancel()
        async with asyncio.timeout(5):
            await reader.stop()
            await asyncio.wait({asked})
        assert asyncio.all_tasks() == others
        assert reader.process_id is None


async def test_a_file_over_which_a_careful_reader_hangs_twice_is_set_aside(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    for name, text in {"a": "", "b": crashing.HANG, "c": ""}.items():
        source.write(f"{name}.yaml", destination(name, text))
    head = source.commit()
    source.pack()
    store = SqliteStore(tmp_path / "store.db")
    context = replace(
        commit_job().context, store=str(store.path), hmac_key=await store.hmac_key(), api_versions=API_VERSIONS, at=AT
    )
    job = commit_job(context=context, mirror=str(source.path / ".git"), commit=head)
    reader = WorkerClient(command=crashing.COMMAND, seconds={**SECONDS, CommitJob: WorkerSeconds(run=60.0, file=1.0)})
    reader.memory.suspect(job)  # it hung before, and nobody knew over which file
    answered = await reader.plan(job)
    assert isinstance(answered.planned, CommitPlanned)
    assert answered.planned.counts == {"created": 2, "invalid": 1}
    await reader.stop()
    await store.close()


async def test_commits_that_are_given_up_at_any_moment_keep_no_other_from_being_planned(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    head = source.commit()
    source.pack()
    store = SqliteStore(tmp_path / "store.db")
    await store.create_project("default", at=AT)
    context = replace(
        commit_job().context,
        store=str(store.path),
        hmac_key=b"k" * 32,
        api_versions=API_VERSIONS,
        at=AT,
        seed=b"s" * 16,
    )
    job = commit_job(context=context, mirror=str(source.path / ".git"), commit=head)
    free = asyncio.Lock()

    async def plan() -> CommitPlanned:
        async with reader.planned(job, lambda: free) as answered:
            assert isinstance(answered.planned, CommitPlanned)
            return answered.planned

    reader = WorkerClient()
    await reader.start()
    begun = asyncio.get_running_loop().time()
    assert (await plan()).counts == {"created": 1}
    took = asyncio.get_running_loop().time() - begun
    for number in range(40):
        given_up = asyncio.create_task(plan())
        await asyncio.sleep(took * number / 30)
        given_up.cancel()
    async with free:  # one that waits for the lock is given up, too
        given_up = asyncio.create_task(plan())
        await asyncio.sleep(took * 2)
        given_up.cancel()
    async with asyncio.timeout(20):
        assert (await plan()).counts == {"created": 1}
    await reader.stop()
    await store.close()


# Says that it has no connection, and ends; a line in a file for each start.
UNCONNECTED = """\
import sys
from reconciler.worker import messages
with open(sys.argv[1], "a") as starts:
    print("start", file=starts)
failed = messages.Failed("The worker cannot connect.", transient=True)
sys.stdout.buffer.write(messages.framed(messages.Reply(0, failed)))
"""


async def test_without_a_connection_to_the_store_nothing_is_set_aside_and_starts_are_far_between(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts, job = tmp_path / "starts", commit_job()
    reader = WorkerClient(command=(sys.executable, "-c", UNCONNECTED, str(starts)))
    begun, failed = asyncio.get_running_loop().time(), 0
    while asyncio.get_running_loop().time() < begun + 3:
        found = await asyncio.gather(*(reader.plan(job) for _ in range(4)), return_exceptions=True)
        assert {repr(one) for one in found} == {repr(StoreFault("The worker cannot connect."))}
        failed += 4
    assert len(starts.read_text().splitlines()) <= 4  # two at once, then one in two seconds
    assert (reader.memory.is_suspect(job), reader.memory.aside) == (False, frozenset())
    assert set(caplog.messages) == {
        f"The worker ended without a connection to the store (The worker cannot connect);"
        f" it is started again when it is needed ({number} so far)."
        for number in range(1, len(caplog.messages) + 1)
    }
    await reader.stop()
