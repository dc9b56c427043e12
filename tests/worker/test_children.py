"""How long jobs may take, and their end when nobody waits for them any more."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from reconciler.model.errors import Refused
from reconciler.worker import messages, process, reviews
from reconciler.worker.change_stream import ChangeStream
from reconciler.worker.messages import (
    Answer,
    At,
    Begun,
    CommitJob,
    Context,
    Envelope,
    Failed,
    Job,
    RedactJob,
    RequestJob,
    ReviewJob,
    Verb,
)
from reconciler.worker.process import SECONDS, Busy, Overdue, WorkerGone, WorkerProcess, WorkerSeconds
from tests.commit_jobs import commit_job

CONTEXT = Context("store.db", "default", b"key", frozenset(), "2026-11-22T00:00:00Z", 0, b"seed")
REDACT = RedactJob(CONTEXT, "Destination", "siem", "text", "admin", "request", dry_run=True)
# Takes what it is sent, answers nothing, and ends with its input: what it answers, each test says for it.
SILENT = ("sh", "-c", "cat > /dev/null")
FILE = "Reading the file that Git knows as"
LARGE = 8 * 2**20  # bytes: more than a pipe holds, and what a request may hold


@contextlib.asynccontextmanager
async def started(
    *, seconds: Mapping[type[Job], WorkerSeconds] = SECONDS, command: Sequence[str] = SILENT
) -> AsyncIterator[tuple[WorkerProcess, list[str]]]:
    """A child, and what is told of its end."""
    told: list[str] = []
    child = await WorkerProcess.start(command, seconds=seconds, unasked=told.append)
    try:
        yield child, told
    finally:
        await child.end()


async def begun(child: WorkerProcess, number: int, job: Job) -> "asyncio.Task[process.Answered]":
    """A job that the child says that it has begun."""
    asked = await asking(child, number, job)
    child._take(Begun(number))
    return asked


async def asking(child: WorkerProcess, number: int, job: Job) -> "asyncio.Task[process.Answered]":
    """A job that is handed over, as far as the child takes it."""
    asked = asyncio.create_task(child.plan(number, job, ChangeStream()))
    for _ in range(10):
        await asyncio.sleep(0)  # it comes to wait for the next answer
    return asked


def request(size: int) -> RequestJob:
    return RequestJob(CONTEXT, Verb.APPLY, "admin", "admin", "request", b" " * size, 1, atomic=False, dry_run=False)


def test_every_job_has_a_limit_and_nobody_who_asks_over_http_waits_without_one() -> None:
    assert set(SECONDS) == set(get_args(Job))
    assert [SECONDS[job].wait for job in (RequestJob, RedactJob)] == [60.0, 60.0]
    assert [SECONDS[job].file for job in (CommitJob, ReviewJob)] == [60.0, 60.0]
    # What a proposal rests for others must not end the child that all share.
    assert SECONDS[ReviewJob].run >= reviews.MOST_RESTS_SECONDS * 5


@pytest.mark.anyio
@pytest.mark.parametrize("answers", [[Begun(1)], [Begun(1), Failed(1, "It cannot be done.")]], ids=["begun", "over"])
async def test_who_is_cancelled_in_the_moment_of_an_answer_is_cancelled(answers: list[Answer]) -> None:
    async with started() as (child, _):
        asked = asyncio.create_task(child.plan(1, REDACT, ChangeStream()))
        for answer in answers:
            for _ in range(10):
                await asyncio.sleep(0)  # it comes to wait for the next answer
            child._take(answer)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await asked


@pytest.mark.anyio
@pytest.mark.parametrize("is_begun", [True, False], ids=["begun before", "begun later"])
async def test_a_job_that_hangs_ends_its_child_although_its_caller_is_gone(is_begun: bool) -> None:
    async with started(seconds={RedactJob: WorkerSeconds(run=0.1)}) as (child, told), asyncio.timeout(5):
        hanging, behind = await asking(child, 1, REDACT), await asking(child, 2, REDACT)
        if is_begun:
            child._take(Begun(1))
        hanging.cancel()
        await asyncio.wait({hanging})
        if not is_begun:
            child._take(Begun(1))
        with pytest.raises(WorkerGone) as gone:
            await behind
        assert (gone.value.begun, child.has_ended) == (False, True)
        assert told == ["The reader was ended, since a job took longer than 0.1 seconds"]


@pytest.mark.anyio
async def test_a_job_that_is_answered_in_time_ends_no_child_although_its_caller_is_gone() -> None:
    seconds: dict[type[Job], WorkerSeconds] = {RedactJob: WorkerSeconds(run=0.1), RequestJob: WorkerSeconds(run=0.3)}
    async with started(seconds=seconds) as (child, told), asyncio.timeout(5):
        left = await begun(child, 1, REDACT)
        left.cancel()
        await asyncio.wait({left})
        other = await begun(child, 2, request(1))
        child._take(Failed(1, "Nobody asks for it."))
        with pytest.raises(
            Overdue, match=r"^The work took longer than 0\.3 seconds and was given up; do it in parts\.$"
        ):
            await other
        assert told == ["The reader was ended, since a job took longer than 0.3 seconds"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("read", "blob", "told"),
    [
        (["a", "b"], "b", f"{FILE} b took longer than 0.1 seconds and was given up; mend it or take it out."),
        (["a", ""], "", "The work took longer than 0.3 seconds and was given up; do it in parts."),
    ],
    ids=["in a file", "after the files"],
)
async def test_a_job_that_hangs_in_a_file_says_so_before_its_own_time_is_over(
    read: list[str], blob: str, told: str
) -> None:
    async with started(seconds={CommitJob: WorkerSeconds(run=0.3, file=0.1)}) as (child, _), asyncio.timeout(5):
        asked = await begun(child, 1, commit_job(careful=True))
        for one in read:
            child._take(At(1, one))
        with pytest.raises(Overdue) as overdue:
            await asked
        assert (overdue.value.blob, overdue.value.message) == (blob, told)


@pytest.mark.anyio
async def test_each_file_of_a_job_has_a_time_of_its_own() -> None:
    async with started(seconds={CommitJob: WorkerSeconds(run=0.3, file=0.1)}) as (child, told), asyncio.timeout(5):
        asked = await begun(child, 1, commit_job(careful=True))
        answers: list[Answer] = [At(1, "a"), At(1, "b"), At(1, "c"), Failed(1, "It cannot be done.")]
        for number, answer in enumerate(answers):
            asyncio.get_running_loop().call_later(number * 0.07, child._take, answer)
        with pytest.raises(Refused, match=r"^It cannot be done\.$"):
            await asked
        assert told == []


@pytest.mark.anyio
async def test_a_job_whose_answer_makes_no_sense_is_told_of_the_end_of_its_child(tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    answers.write_bytes(messages.framed(Begun(1)) + messages.framed(Failed(1, "It is odd.", state="odd")))
    command = ("sh", "-c", f"head -c 1 > /dev/null; cat {answers}; cat > /dev/null")
    async with started(command=command) as (child, told), asyncio.timeout(5):
        with pytest.raises(WorkerGone) as gone:
            await child.plan(1, REDACT, ChangeStream())
        assert (gone.value.begun, child._waiting, told) == (True, {}, ["The reader ended with code 0"])


@pytest.mark.anyio
async def test_a_job_whose_answer_nests_too_deeply_is_told_of_the_end_of_its_child(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = msgspec.msgpack.encode({"type": "at", "number": 1, "blob": ""})
    # A field more than there are: an array that holds an array, and so on.
    answer = bytes([known[0] + 1]) + known[1:] + b"\xa4more" + b"\x91" * 100_000 + b"\xc0"
    answers = tmp_path / "answers"
    answers.write_bytes(messages.LENGTH.pack(len(answer)) + answer)
    command = ("sh", "-c", f"head -c 1 > /dev/null; cat {answers}; cat > /dev/null")
    async with started(command=command) as (child, told), asyncio.timeout(5):
        with pytest.raises(WorkerGone):
            await child.plan(1, REDACT, ChangeStream())
        assert (child.has_ended, child._waiting, told) == (True, {}, ["The reader ended with code 0"])
    assert caplog.messages == ["An answer of the reader met a fault that nobody foresaw."]


@pytest.mark.anyio
@pytest.mark.parametrize("is_asked", [True, False], ids=["ended", "overdue"])
@pytest.mark.parametrize("last", ["cat > /dev/null", "sleep 6"], ids=["ends", "is killed"])
async def test_nobody_waits_for_a_pipe_that_what_a_child_started_holds_open(
    is_asked: bool, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 0.1)
    command = ("sh", "-c", f"sleep 6 & {last}")
    async with (
        started(seconds={RedactJob: WorkerSeconds(run=0.1)}, command=command) as (child, told),
        asyncio.timeout(5),
    ):
        hanging, behind = await asking(child, 1, REDACT), await asking(child, 2, REDACT)
        if is_asked:
            await child.end()
            assert child._waiting == {}
        else:
            child._take(Begun(1))
        with pytest.raises(WorkerGone if is_asked else Overdue):
            await hanging
        with pytest.raises(WorkerGone) as gone:
            await behind
        assert (gone.value.begun, child.has_ended) == (False, True)
        assert told == ([] if is_asked else ["The reader was ended, since a job took longer than 0.1 seconds"])


@pytest.mark.anyio
async def test_the_end_of_a_child_is_told_once_although_a_job_is_overdue_in_the_same_moment() -> None:
    async with started() as (child, told), asyncio.timeout(5):
        asked = await begun(child, 1, REDACT)
        waiting = child._waiting[1]
        child.process.kill()
        with pytest.raises(WorkerGone):
            await asked
        child._give_up(waiting, 0.1)
        assert child._replacing is not None
        await child._replacing
        assert told == ["The reader ended with signal 9"]


@pytest.mark.anyio
async def test_a_child_that_is_ended_makes_no_job_suspect_and_one_that_ends_does() -> None:
    found = []
    for is_asked in (True, False):
        async with started() as (child, _), asyncio.timeout(5):
            asked = await begun(child, 1, REDACT)
            if is_asked:
                await child.end()
            else:
                child.process.kill()
            with pytest.raises(WorkerGone) as gone:
                await asked
            found.append(gone.value.begun)
    assert found == [False, True]


@pytest.mark.anyio
async def test_who_waits_to_hand_a_job_over_waits_no_longer_and_no_job_is_cut_or_piled_up(tmp_path: Path) -> None:
    start, came = tmp_path / "start", tmp_path / "came"
    os.mkfifo(start)
    command = ("sh", "-c", f"read line < {start}; cat > {came}")
    # A request cannot be begun in time, since the child takes nothing yet; the commit waits.
    seconds: dict[type[Job], WorkerSeconds] = {
        RequestJob: WorkerSeconds(run=5.0, wait=0.1),
        CommitJob: WorkerSeconds(run=5.0),
    }
    async with started(seconds=seconds, command=command) as (child, _), asyncio.timeout(5):
        for number in (1, 2):
            with pytest.raises(Busy):
                await child.plan(number, request(LARGE), ChangeStream())
        commit = await asking(child, 3, commit_job())
        assert child.process.stdin is not None
        assert child.process.stdin.transport.get_write_buffer_size() < LARGE + 1_000
        await asyncio.to_thread(start.write_text, "go\n")
        while not child._waiting[3].is_handed_over:  # noqa: ASYNC110 - it takes what is before, and sets no event
            await asyncio.sleep(0.01)
        await child.end()
        with pytest.raises(WorkerGone):
            await commit
    assert numbers(came.read_bytes()) == [1, 3]


def numbers(sent: bytes) -> list[int]:
    """Of the jobs that a child was sent, each of which came whole."""
    found = []
    while sent:
        (length,) = messages.LENGTH.unpack(sent[: messages.LENGTH.size])
        payload, sent = sent[messages.LENGTH.size :][:length], sent[messages.LENGTH.size + length :]
        found.append(msgspec.msgpack.decode(payload, type=Envelope).number)
    return found
