"""The reader child is killed at every step of a commit: the store is what it would have been, nothing of what was given
up is left in it, and the run is told once.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reconciler.store.contract import Changes
from reconciler.store.sqlite import SqliteStore
from reconciler.worker.client import WorkerClient
from tests.worker import dying
from tests.worker.conftest import LARGE
from tests.worker.disturbed import Expected, Streams, world
from tests.worker.dying import Step
from tests.worker.stored import differences

pytestmark = pytest.mark.anyio


async def check(folder: Path, expected: Expected, reader: WorkerClient, *, marks: Path | None = None) -> None:
    """Both commits, with whatever the reader does meanwhile; from the second one on where `marks` is given."""
    expected.name(expected.first)
    async with world(folder / "disturbed", expected.empty, reader=reader) as disturbed:
        await disturbed.follow_it(expected.source)
        assert differences(await disturbed.applied(expected.first), expected.after_first) == []
        if marks is not None:
            dying.arm(marks)
            expected.name(expected.second)
            assert differences(await disturbed.applied(expected.second), expected.after_second) == []
        assert set(await disturbed.outcomes()) == {"succeeded"}


def rare(step: Step, number: int) -> Any:
    """One that differs from another in little but the moment."""
    return pytest.param(step, number, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (Step.FILE, 2),
        (Step.PLANNED, 1),
        *(rare(step, 1) for step in (Step.WAITING, Step.BEGUN, Step.PART, Step.END)),
    ],
)
async def test_killed_at_any_step_of_a_small_commit(tmp_path: Path, small: Expected, step: Step, number: int) -> None:
    marks = tmp_path / "marks"
    await check(tmp_path, small, WorkerClient(command=dying.command(step, number, marks=marks)), marks=marks)
    assert dying.ends(marks) == 1


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize(
    ("step", "number"),
    [
        (Step.PART, 3),
        *(
            rare(*each)
            for each in [(Step.PLANNED, 1), (Step.FILE, LARGE // 2), (Step.PART, 1), (Step.PART, 5), (Step.END, 1)]
        ),
    ],
)
async def test_killed_at_any_step_of_a_streamed_first_read(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch, step: Step, number: int
) -> None:
    marks = tmp_path / "marks"
    streams = Streams(monkeypatch)
    reader = WorkerClient(command=dying.command(step, number, marks=marks))
    dying.arm(marks)
    await check(tmp_path, large, reader)
    assert dying.ends(marks) == 1
    assert streams.writes > 1
    assert streams.dropped == streams.begun - 1  # all but the one that is stored


@pytest.mark.slow
@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("step", "number"),
    [(Step.WAITING, 1), (Step.BEGUN, 1), (Step.FILE, 100), *((Step.PART, part) for part in range(1, 5)), (Step.END, 1)],
)
async def test_killed_at_any_step_of_a_streamed_change(
    tmp_path: Path, large: Expected, step: Step, number: int, times: int
) -> None:
    """Killed twice, the run fails, and the next one does it."""
    marks = tmp_path / "marks"
    reader = WorkerClient(command=dying.command(step, number, marks=marks, times=times))
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed:
        await disturbed.follow_it(large.source)
        await disturbed.applied(large.first)
        dying.arm(marks)
        large.name(large.second)
        assert differences(await disturbed.applied(large.second), large.after_second) == []
        assert (await disturbed.outcomes()).count("succeeded") == 2
    assert dying.ends(marks) == times


@pytest.mark.slow
@pytest.mark.parametrize("step", [Step.PART, Step.END])
async def test_killed_in_a_change_that_is_large_by_the_product_s_own_measure(
    tmp_path: Path, many: Expected, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    marks = tmp_path / "marks"
    streams = Streams(monkeypatch)
    reader = WorkerClient(command=dying.command(step, 11 if step is Step.PART else 1, marks=marks))
    dying.arm(marks)
    await check(tmp_path, many, reader)
    assert (dying.ends(marks), streams.begun, streams.dropped) == (1, 2, 1)


@pytest.mark.usefixtures("streamed")
@pytest.mark.parametrize("after", [2, pytest.param(1, marks=pytest.mark.slow)])
async def test_killed_after_parts_of_it_were_written_ahead(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """What was written counts for nothing, however much of it there is."""
    reader = WorkerClient()
    told: list[int] = []

    async def wrote(number: int) -> None:
        if number == after:
            assert reader.process_id is not None
            os.kill(reader.process_id, signal.SIGKILL)
            told.append(number)

    streams = Streams(monkeypatch, wrote)
    await check(tmp_path, large, reader)
    assert told == [after]
    assert streams.begun - streams.dropped == 1


@pytest.mark.parametrize("size", ["small", "large"])
async def test_killed_while_the_store_shows_it_the_run_is_told_once(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    expected: Expected = request.getfixturevalue(size)
    if size == "large":
        request.getfixturevalue("streamed")
    reader = WorkerClient()
    commit = SqliteStore.commit
    killed: list[int] = []

    async def killing(store: SqliteStore, given: Iterable[Changes], **named: Any) -> int:
        if named["record"].run is not None and reader.process_id is not None:
            killed.append(reader.process_id)
            os.kill(reader.process_id, signal.SIGKILL)
        return await commit(store, given, **named)

    monkeypatch.setattr(SqliteStore, "commit", killing)
    expected.name(expected.first)
    async with world(tmp_path / "disturbed", expected.empty, reader=reader) as disturbed:
        await disturbed.follow_it(expected.source)
        assert differences(await disturbed.applied(expected.first), expected.after_first) == []
        assert await disturbed.outcomes() == ["succeeded"]
    assert len(killed) == 1
