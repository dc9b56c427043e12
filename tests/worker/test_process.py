"""One worker process: the limits of its jobs, the lock that they need, and its end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from reconciler.model.errors import Refused
from reconciler.model.principals import Actor, Role
from reconciler.store.contract import StoreFault
from reconciler.worker import messages, process
from reconciler.worker.messages import (
    Answer,
    At,
    CommitJob,
    Context,
    Envelope,
    Failed,
    Job,
    Proceed,
    Ready,
    RedactJob,
    RequestJob,
    RequestPlanned,
    ReviewJob,
    Verb,
)
from reconciler.worker.process import SECONDS, Busy, Overdue, WorkerGone, WorkerProcess, WorkerSeconds
from tests.commit_jobs import commit_job
from tests.waiting import until
from tests.worker.spoken import SpokenWorker, plan

pytestmark = pytest.mark.anyio

CONTEXT = Context("store.db", "default", b"key", frozenset(), "2026-11-22T00:00:00Z", 0, b"seed")
REDACT = RedactJob(CONTEXT, "Destination", "siem", "text", "admin", "request", dry_run=True)
PLANNED = RequestPlanned(202, b"{}")
FILE = "Reading the file that Git knows as"
LARGE = 8 * 2**20  # bytes: more than a pipe holds, and what a request may hold


@pytest.fixture
def worker(tmp_path: Path) -> SpokenWorker:
    return SpokenWorker(tmp_path)


def request(size: int = 1) -> RequestJob:
    admin = Actor("admin", Role.ADMIN)
    return RequestJob(
        context=CONTEXT, verb=Verb.APPLY, actor=admin, request="request", body=b" " * size, max_resources=1
    )


async def cancelled(task: "asyncio.Task[process.Answered]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_every_job_has_a_limit_and_nobody_who_asks_over_http_waits_without_one() -> None:
    assert set(SECONDS) == set(get_args(Job))
    assert [SECONDS[job].wait for job in (RequestJob, RedactJob)] == [60.0, 60.0]
    assert [SECONDS[job].locked for job in (RequestJob, CommitJob)] == [60.0, 300.0]
    assert [SECONDS[job].file for job in (CommitJob, ReviewJob)] == [60.0, 60.0]


@pytest.mark.parametrize("answers", [[], [Ready()], [Failed("It cannot be done.")]])
async def test_who_is_cancelled_in_the_moment_of_an_answer_is_cancelled(
    worker: SpokenWorker, answers: list[Answer]
) -> None:
    async with worker.started() as child:
        asked = await worker.asked(child, 1, request())
        worker.say(1, *answers)
        await cancelled(asked)


async def test_a_job_that_hangs_ends_its_worker_although_its_caller_is_gone(worker: SpokenWorker) -> None:
    async with worker.started({RedactJob: WorkerSeconds(run=0.2)}) as child:
        hanging = await worker.asked(child, 1, REDACT)
        behind = asyncio.create_task(plan(child, 2, REDACT))
        await cancelled(hanging)
        with pytest.raises(WorkerGone) as gone:
            await behind
        assert (gone.value.begun, child.has_ended) == (False, True)
        assert worker.told == ["The worker was ended, since a job took longer than 0.2 seconds"]
        assert [order.number for order in worker.orders() if isinstance(order, Envelope)] == [1]


async def test_a_job_that_waits_for_another_of_its_kind_is_sent_after_that(worker: SpokenWorker) -> None:
    async with worker.started() as child:
        first = await worker.asked(child, 1, REDACT)
        second = asyncio.create_task(plan(child, 2, REDACT))
        other = await worker.asked(child, 3, request())  # another kind waits for neither
        assert [order.number for order in worker.orders()] == [1, 3]
        worker.say(1, Failed("It is not done."))
        with pytest.raises(Refused):
            await first
        await until(lambda: 2 in [order.number for order in worker.orders()])
        worker.say(2, PLANNED)
        worker.say(3, PLANNED)
        assert [answered.planned for answered in await asyncio.gather(second, other)] == [PLANNED, PLANNED]


async def test_any_job_that_is_under_way_may_be_why_another_takes_too_long(worker: SpokenWorker) -> None:
    seconds: dict[type[Job], WorkerSeconds] = {RedactJob: WorkerSeconds(run=0.2), RequestJob: WorkerSeconds(run=9.0)}
    async with worker.started(seconds) as child:
        late, other = await worker.asked(child, 1, REDACT), await worker.asked(child, 2, request())
        with pytest.raises(Overdue):
            await late
        with pytest.raises(WorkerGone) as gone:
            await other
        assert gone.value.begun


async def test_a_job_that_is_answered_in_time_ends_no_worker_although_its_caller_is_gone(worker: SpokenWorker) -> None:
    seconds: dict[type[Job], WorkerSeconds] = {RedactJob: WorkerSeconds(run=0.3), RequestJob: WorkerSeconds(run=0.9)}
    async with worker.started(seconds) as child:
        left, other = await worker.asked(child, 1, REDACT), await worker.asked(child, 2, request())
        await cancelled(left)
        worker.say(1, Failed("Nobody asks for it."))
        told = r"^The work took longer than 0\.9 seconds and was given up; do it in parts\.$"
        with pytest.raises(Overdue, match=told):
            await other
        assert worker.told == ["The worker was ended, since a job took longer than 0.9 seconds"]


@pytest.mark.parametrize(
    ("read", "blob", "told"),
    [
        (["a", "b"], "b", f"{FILE} b took longer than 0.2 seconds and was given up; mend it or take it out."),
        (["a", ""], "", "The work took longer than 0.6 seconds and was given up; do it in parts."),
    ],
    ids=["in a file", "after the files"],
)
async def test_a_job_that_hangs_in_a_file_says_so_before_its_own_time_is_over(
    worker: SpokenWorker, read: list[str], blob: str, told: str
) -> None:
    async with worker.started({CommitJob: WorkerSeconds(run=0.6, file=0.2)}) as child:
        asked = await worker.asked(child, 1, commit_job())
        worker.say(1, *map(At, read))
        with pytest.raises(Overdue) as overdue:
            await asked
        assert (overdue.value.blob, overdue.value.message) == (blob, told)


async def test_each_file_of_a_job_has_a_time_of_its_own(worker: SpokenWorker) -> None:
    async with worker.started({CommitJob: WorkerSeconds(run=30.0, file=2.0)}) as child:
        asked = await worker.asked(child, 1, commit_job())
        for blob in ("a", "b", "c"):
            worker.say(1, At(blob))
            await asyncio.sleep(0.8)
        worker.say(1, Failed("It cannot be done."))
        with pytest.raises(Refused, match=r"^It cannot be done\.$"):
            await asked
        assert worker.told == []


class Lock:
    """A lock that a test gives away, and takes note of."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.seen: list[str] = []

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        self.seen.append("wanted")
        await self.free.wait()
        self.seen.append("held")
        try:
            yield
        finally:
            self.seen.append("released")

    async def wanted(self) -> None:
        """Wait until somebody wants it."""
        await until(lambda: self.seen != [])


async def test_a_job_goes_on_when_its_lock_is_held_which_its_caller_releases(worker: SpokenWorker) -> None:
    lock = Lock()
    async with worker.started() as child:
        held = contextlib.AsyncExitStack()
        asked = await worker.asked(child, 1, request(), lock=lock.hold, held=held)
        worker.say(1, Ready())
        await lock.wanted()
        assert [type(order) for order in worker.orders()] == [Envelope]
        lock.free.set()
        await until(lambda: worker.orders()[1:] == [Proceed(1, "request")])
        worker.say(1, PLANNED)
        assert (await asked).planned == PLANNED
        assert lock.seen == ["wanted", "held"]
        await held.aclose()
        assert lock.seen == ["wanted", "held", "released"]


async def test_a_job_that_waits_for_its_lock_has_no_limit_of_its_own_and_is_not_to_blame_for_an_end(
    worker: SpokenWorker,
) -> None:
    lock = Lock()
    async with worker.started({RequestJob: WorkerSeconds(run=0.2, locked=0.2)}) as child:
        asked = await worker.asked(child, 1, request(), lock=lock.hold)
        worker.say(1, Ready())
        await lock.wanted()
        await asyncio.sleep(0.5)
        assert worker.told == []
        os.kill(child.process_id, signal.SIGKILL)
        await until(lambda: child.has_ended)
        lock.free.set()
        with pytest.raises(WorkerGone) as gone:
            await asked
        assert (gone.value.begun, lock.seen) == (False, ["wanted", "held", "released"])


@pytest.mark.parametrize("end", ["overdue", "crash"])
async def test_a_job_that_hangs_or_crashes_under_its_lock_releases_it(worker: SpokenWorker, end: str) -> None:
    lock = Lock()
    lock.free.set()
    async with worker.started({RequestJob: WorkerSeconds(run=8.0, locked=0.2 if end == "overdue" else 8.0)}) as child:
        asked = await worker.asked(child, 1, request(), lock=lock.hold)
        worker.say(1, Ready())
        await until(lambda: Proceed(1, "request") in worker.orders())
        if end == "crash":
            os.kill(child.process_id, signal.SIGKILL)
        with pytest.raises(Overdue if end == "overdue" else WorkerGone) as raised:
            await asked
        assert lock.seen == ["wanted", "held", "released"]
        assert getattr(raised.value, "begun", True)


@pytest.mark.parametrize("moment", ["before it is ready", "while it waits"])
async def test_a_job_whose_caller_is_gone_is_abandoned_where_it_would_need_its_lock(
    worker: SpokenWorker, moment: str
) -> None:
    lock = Lock()
    async with worker.started() as child:
        asked = await worker.asked(child, 1, request(), lock=lock.hold)
        if moment == "while it waits":
            worker.say(1, Ready())
            await lock.wanted()
        await cancelled(asked)
        if moment != "while it waits":
            worker.say(1, Ready())
        await until(lambda: worker.orders()[1:] == [Proceed(1, "request", is_wanted=False)])
        assert "held" not in lock.seen


async def test_a_job_whose_lock_is_refused_is_abandoned(worker: SpokenWorker) -> None:
    @contextlib.asynccontextmanager
    async def refused() -> AsyncIterator[None]:
        raise Busy
        yield

    async with worker.started() as child:
        asked = await worker.asked(child, 1, request(), lock=refused)
        worker.say(1, Ready())
        with pytest.raises(Busy):
            await asked
        await until(lambda: worker.orders()[1:] == [Proceed(1, "request", is_wanted=False)])


async def test_a_job_whose_answer_makes_no_sense_is_told_of_the_end_of_its_worker(worker: SpokenWorker) -> None:
    async with worker.started() as child:
        asked = await worker.asked(child, 1, REDACT)
        worker.say(1, Failed("It is odd.", state="odd"))
        with pytest.raises(WorkerGone) as gone:
            await asked
        assert (gone.value.begun, worker.told) == (True, ["The worker ended with code 0"])


async def test_a_job_whose_answer_nests_too_deeply_is_told_of_the_end_of_its_worker(
    worker: SpokenWorker, caplog: pytest.LogCaptureFixture
) -> None:
    known = msgspec.msgpack.encode({"number": 1, "answer": {"type": "ready"}})
    # A field more than there are: an array that holds an array, and so on.
    answer = bytes([known[0] + 1]) + known[1:] + b"\xa4more" + b"\x91" * 50_000 + b"\xc0"
    async with worker.started() as child:
        asked = await worker.asked(child, 1, REDACT)
        worker.say_bytes(messages.LENGTH.pack(len(answer)) + answer)
        with pytest.raises(WorkerGone):
            await asked
        assert (child.has_ended, worker.told) == (True, ["The worker ended with code 0"])
    assert caplog.messages == ["An answer of the worker met a fault that nobody foresaw."]


@pytest.mark.parametrize("last", ["cat > /dev/null", "sleep 1"], ids=["ends", "is killed"])
async def test_nobody_waits_for_a_pipe_that_what_a_worker_started_holds_open(
    last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    told: list[str] = []
    child = await WorkerProcess.start(("sh", "-c", f"sleep 1 & {last}"), seconds=SECONDS, unasked=told.append)
    hanging = asyncio.create_task(plan(child, 1, REDACT))
    await asyncio.sleep(0.1)
    await child.end()
    with pytest.raises(WorkerGone) as gone:
        await hanging
    assert (gone.value.begun, child.has_ended, told) == (False, True, [])
    await asyncio.sleep(1.2)  # its pipes are closed when what it started ends


async def test_a_worker_that_is_ended_makes_no_job_suspect_and_one_that_ends_does(tmp_path: Path) -> None:
    found = []
    for is_asked in (True, False):
        folder = tmp_path / str(is_asked)
        folder.mkdir()
        worker = SpokenWorker(folder)
        async with worker.started() as child:
            asked = await worker.asked(child, 1, REDACT)
            if is_asked:
                await child.end()
            else:
                os.kill(child.process_id, signal.SIGKILL)
            with pytest.raises(WorkerGone) as gone:
                await asked
            found.append(gone.value.begun)
    assert found == [False, True]


async def test_no_job_is_cut_or_piled_up_before_a_worker_that_takes_none(tmp_path: Path) -> None:
    ready, start, came = tmp_path / "ready", tmp_path / "start", tmp_path / "came"
    ready.write_bytes(messages.framed(messages.Reply(0, Ready())))
    os.mkfifo(start)
    command = ("sh", "-c", f"cat {ready}; read line < {start}; cat > {came}")
    seconds: dict[type[Job], WorkerSeconds] = {
        RequestJob: WorkerSeconds(run=9.0, wait=0.5),
        CommitJob: WorkerSeconds(run=9.0),
    }
    child = await WorkerProcess.start(command, seconds=seconds, unasked=lambda _: None)
    first = asyncio.create_task(plan(child, 1, request(LARGE)))
    await asyncio.sleep(0.2)  # it is sent
    with pytest.raises(Busy):
        await plan(child, 2, request(LARGE))
    commit = asyncio.create_task(plan(child, 3, commit_job()))
    await cancelled(first)
    await asyncio.to_thread(start.write_text, "go\n")
    await until(lambda: came.exists() and came.stat().st_size > LARGE)
    await child.end()
    with pytest.raises(WorkerGone):
        await commit
    assert sorted(set(numbers(came.read_bytes()))) == [1, 3]


def numbers(sent: bytes) -> list[int]:
    """Of the orders that a worker was sent, each of which came whole."""
    found = []
    while sent:
        (length,) = messages.LENGTH.unpack(sent[: messages.LENGTH.size])
        payload, sent = sent[messages.LENGTH.size :][:length], sent[messages.LENGTH.size + length :]
        found.append(messages.order(payload).number)
    return found


LOST = "The worker lost its connection."


async def test_a_process_without_a_connection_to_the_store_blames_no_job_and_no_file(worker: SpokenWorker) -> None:
    async with worker.started() as child:
        reading, other = await worker.asked(child, 1, commit_job()), await worker.asked(child, 2, request())
        worker.say(1, At("0" * 40))
        worker.say(0, Failed(LOST, transient=True))
        for asked in (reading, other, asyncio.create_task(plan(child, 3, REDACT))):
            with pytest.raises(StoreFault, match=LOST):
                await asked
        assert child.has_ended
        assert worker.told == [f"The worker ended without a connection to the store ({LOST[:-1]})"]


async def test_the_first_message_says_how_to_connect_and_is_shown_nowhere(tmp_path: Path) -> None:
    connect = messages.Connect("postgresql://worker:canary-of-a-url@db/store", ("commit", "request"))
    command = ("sh", "-c", f"head -c {len(messages.framed(connect))} > {tmp_path / 'first'}; exec cat")
    child = await WorkerProcess.start(command, seconds=SECONDS, unasked=print, connect=connect)
    await until(lambda: (tmp_path / "first").exists() and (tmp_path / "first").read_bytes() != b"")
    process = f"/proc/{child.process_id}"
    shown = [await asyncio.to_thread(Path(process, name).read_bytes) for name in ("cmdline", "environ")]
    assert b"canary" not in b"".join(shown)
    await child.end()
    first = (tmp_path / "first").read_bytes()
    assert messages.connect(first[messages.LENGTH.size :]) == connect
    assert "canary" not in repr(connect)


async def test_a_store_that_a_job_cannot_read_is_told_as_that(worker: SpokenWorker) -> None:
    async with worker.started() as child:
        asked = await worker.asked(child, 1, request())
        worker.say(1, Failed("The store could not be read.", store=True, transient=True))
        with pytest.raises(StoreFault, match="could not be read"):
            await asked
        assert not child.has_ended
