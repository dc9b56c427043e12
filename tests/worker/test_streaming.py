"""A large change is written ahead while it is planned. Whatever keeps it from being stored leaves nothing of it, and
what is stored in the end is what one transaction would have stored.
"""

import asyncio
import time
from pathlib import Path

import pytest

from reconciler.reconcile.conflict_retry import OPTIMISTIC
from reconciler.store.contract import StoreFault
from reconciler.worker import change_stream
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import CommitJob
from reconciler.worker.process import SECONDS, WorkerSeconds
from tests.daemons import destination
from tests.scenarios.hostile import crashing
from tests.worker import dying
from tests.worker.conftest import LARGE
from tests.worker.disturbed import Expected, Streams, World, source_of, until, world
from tests.worker.dying import Harm, Step
from tests.worker.stored import Stored, differences, unshown

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("streamed")]

WANTED = ("d0001", "d0002", "d0003")  # what the repository wants, too
STOP_SECONDS = 5.0


async def first_of(disturbed: World, expected: Expected) -> Stored:
    """What is stored once the first commit is applied."""
    expected.name(expected.first)
    await disturbed.follow_it(expected.source)
    return await disturbed.applied(expected.first)


async def test_what_is_streamed_is_what_one_transaction_stores(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    async with world(tmp_path / "streamed", large.empty) as undisturbed:
        assert differences(await first_of(undisturbed, large), large.after_first) == []
        large.name(large.second)
        assert differences(await undisturbed.applied(large.second), large.after_second) == []
    assert (streams.begun, streams.dropped) == (2, 0)
    assert streams.writes > 2


def resources(found: Stored) -> list[str]:
    """Without where they came from."""
    return [one.partition('"status":')[0] for one in found["default Destination"]]


async def straight(folder: Path, expected: Expected, names: tuple[str, ...]) -> Stored:
    """What is stored when all writes of the API were before the commit was looked at."""
    async with world(folder / "straight", expected.empty) as undisturbed:
        for name in names:
            assert await undisturbed.apply(name) == "created"
        return await first_of(undisturbed, expected)


async def test_a_write_that_a_streamed_plan_meets_has_it_made_again(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await straight(tmp_path, large, WANTED[:1])

    async def wrote(number: int) -> None:
        if number == 1:
            assert await disturbed.apply(WANTED[0]) == "created"  # while the child goes on to plan

    streams = Streams(monkeypatch, wrote)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        assert differences(await first_of(disturbed, large), expected) == []
        assert len(await disturbed.outcomes()) == 1
    assert streams.begun == 2


async def test_writes_that_meet_it_again_and_again_wait_at_last(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, last = WANTED[:OPTIMISTIC], WANTED[OPTIMISTIC]
    expected = await straight(tmp_path, large, before)
    late: list[asyncio.Task[str]] = []
    met: set[int] = set()

    async def wrote(_: int) -> None:
        turn = streams.begun
        if turn in met:
            return
        met.add(turn)
        if turn <= OPTIMISTIC:
            assert await disturbed.apply(WANTED[turn - 1]) == "created"
        else:
            late.append(asyncio.create_task(disturbed.apply(last)))

    streams = Streams(monkeypatch, wrote)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        found = await first_of(disturbed, large)
        assert [await task for task in late] == ["forbidden"]
        assert differences(found, expected) == []
    assert streams.begun == OPTIMISTIC + 1


async def test_a_store_that_cannot_be_written_fails_the_run_and_the_next_one_does_it(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrote(number: int) -> None:
        if number == 2:
            raise StoreFault("The disk is full.")

    streams = Streams(monkeypatch, wrote)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        assert differences(await first_of(disturbed, large), large.after_first) == []
        assert await disturbed.outcomes() == ["succeeded", "failed"]
    assert (streams.begun, streams.dropped) == (2, 1)


async def test_a_change_that_is_too_large_is_given_up_and_nothing_of_it_stays(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    monkeypatch.setattr(change_stream, "LARGE_PARTS", 0)
    monkeypatch.setattr(change_stream, "WHOLE_BYTES", 250_000)  # its first part is smaller, the first two are not
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        large.name(large.first)
        await disturbed.follow_it(large.source)

        async def is_over() -> bool:
            return await disturbed.outcomes() == ["failed"] and not unshown(disturbed.store.path)

        await until(is_over)
        assert streams.dropped == streams.begun > 0
        monkeypatch.setattr(change_stream, "WHOLE_BYTES", change_stream.CHANGE_BYTES)
        assert differences(await disturbed.applied(large.first), large.after_first) == []


async def test_stopped_while_it_is_streamed_it_ends_soon_and_the_next_start_does_it(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def wrote(_: int) -> None:
        begun.set()

    Streams(monkeypatch, wrote)
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        await disturbed.follow_it(large.source)
        await begun.wait()
        since = time.monotonic()
    assert time.monotonic() - since < STOP_SECONDS
    async with world(tmp_path / "disturbed", None) as again:
        assert await again.outcomes() == []
        assert differences(await first_of(again, large), large.after_first) == []


@pytest.mark.parametrize(("step", "number"), [(Step.PART, 3), pytest.param(Step.END, 1, marks=pytest.mark.slow)])
async def test_a_reader_that_has_no_memory_left_goes_on_and_the_next_run_does_it(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch, step: Step, number: int
) -> None:
    marks = tmp_path / "marks"
    reader = WorkerClient(command=dying.command(step, number, marks=marks, harm=Harm.STARVE))
    dying.arm(marks)
    streams = Streams(monkeypatch)
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed:
        process = reader.process_id
        assert differences(await first_of(disturbed, large), large.after_first) == []
        assert await disturbed.outcomes() == ["succeeded", "failed"]
        assert reader.process_id == process
    assert dying.ends(marks) == 1
    assert streams.dropped == streams.begun - 1


@pytest.mark.slow
async def test_a_plan_that_takes_too_long_while_it_is_streamed_is_given_up_and_made_again(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = tmp_path / "marks"
    command = dying.command(Step.PART, 4, marks=marks, harm=Harm.HANG)
    dying.arm(marks)
    streams = Streams(monkeypatch)
    reader = WorkerClient(command=command, seconds={**SECONDS, CommitJob: WorkerSeconds(run=8.0)})
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed:
        assert differences(await first_of(disturbed, large), large.after_first) == []
        assert await disturbed.outcomes() == ["succeeded", "failed"]
    assert (dying.ends(marks), streams.begun, streams.dropped) == (1, 2, 1)


async def test_a_file_that_ends_the_parser_is_set_aside_and_all_others_are_streamed(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, first, second = source_of(tmp_path / "source", LARGE)
    source.git("reset", "--quiet", "--hard", first)
    source.write("3/bad.yaml", destination("bad", crashing.ABORT))
    bad = source.commit()
    expected = Expected(source, bad, second, large.empty, {}, {})
    streams = Streams(monkeypatch)
    async with world(tmp_path / "disturbed", large.empty, reader=WorkerClient(command=crashing.COMMAND)) as disturbed:
        found = await first_of(disturbed, expected)
        assert await disturbed.outcomes() == ["partial"]
    assert resources(found) == resources(large.after_first)
    assert sum("3/bad.yaml:1:1" in row for row in found["run_status"]) == 1
    assert len(found["run_status"]) == LARGE + 1
    assert found["audit"] == large.after_first["audit"]
    assert streams.begun - streams.dropped == 1
