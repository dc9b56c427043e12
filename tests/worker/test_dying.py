"""The worker ends at every step of a commit, hangs, or has no memory; the store cannot be written. In the end the store
holds what it would have held, and the run is recorded once.
"""

import asyncio
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reconciler.store.contract import StoreFault
from reconciler.store.records import Changes
from reconciler.store.sqlite import SqliteStore
from reconciler.worker import process
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import CommitJob
from reconciler.worker.process import SECONDS, WorkerSeconds
from tests import stores
from tests.daemons import destination
from tests.scenarios.hostile import crashing
from tests.worker import dying
from tests.worker.conftest import LARGE
from tests.worker.disturbed import Expected, source_of, until, world
from tests.worker.dying import Harm, Step
from tests.worker.stored import differences

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(stores.IS_POSTGRESQL, reason="it looks into the files of SQLite; tests/postgresql has its own"),
]


async def check(folder: Path, expected: Expected, reader: WorkerClient, *, marks: Path | None = None) -> None:
    """Both commits, with whatever the worker does meanwhile; from the second one on where `marks` is given."""
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
        *(rare(step, 1) for step in (Step.BEGUN, Step.PART, Step.END)),
    ],
)
async def test_killed_at_any_step_of_a_small_commit(tmp_path: Path, small: Expected, step: Step, number: int) -> None:
    marks = tmp_path / "marks"
    await check(tmp_path, small, WorkerClient(command=dying.command(step, number, marks=marks)), marks=marks)
    assert dying.ends(marks) == 1


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (Step.PART, 3),
        *(
            rare(*each)
            for each in [
                (Step.PLANNED, 1),
                (Step.FILE, LARGE // 2),
                (Step.READY, 1),
                (Step.PART, 1),
                (Step.PART, 5),
                (Step.END, 1),
            ]
        ),
    ],
)
async def test_killed_at_any_step_of_a_first_read(tmp_path: Path, large: Expected, step: Step, number: int) -> None:
    marks = tmp_path / "marks"
    reader = WorkerClient(command=dying.command(step, number, marks=marks))
    dying.arm(marks)
    await check(tmp_path, large, reader)
    assert dying.ends(marks) == 1


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    ("step", "number"),
    [
        (Step.BEGUN, 1),
        (Step.FILE, 100),
        (Step.READY, 1),
        *((Step.PART, part) for part in range(1, 5)),
        (Step.END, 1),
    ],
)
async def test_killed_at_any_step_of_a_change(
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


async def test_killed_under_the_lock_it_releases_it_and_who_waits_goes_first(tmp_path: Path, large: Expected) -> None:
    marks = tmp_path / "marks"
    reader = WorkerClient(command=dying.command(Step.PART, 1, marks=marks))
    dying.arm(marks)
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed, asyncio.timeout(60):
        await disturbed.follow_it(large.source)
        while not dying.ends(marks):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)
        assert await disturbed.apply("another") == "created"
        await disturbed.applied(large.first)
        assert await disturbed.outcomes() == ["succeeded"]


@pytest.mark.parametrize("size", ["small", "large"])
async def test_killed_while_the_store_writes_it_the_run_is_told_once(
    tmp_path: Path, small: Expected, large: Expected, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    expected = {"small": small, "large": large}[size]
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


async def test_a_store_that_cannot_be_written_fails_the_run_and_the_next_one_does_it(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SqliteStore.commit
    failed: list[bool] = []

    async def failing(store: SqliteStore, given: Iterable[Changes], **named: Any) -> int:
        if named["record"].forget_files_of is not None and not failed:
            failed.append(True)
            raise StoreFault("The disk is full.")
        return await commit(store, given, **named)

    monkeypatch.setattr(SqliteStore, "commit", failing)
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        await disturbed.follow_it(large.source)
        assert differences(await disturbed.applied(large.first), large.after_first) == []
        assert await disturbed.outcomes() == ["succeeded", "failed"]


async def test_a_change_that_is_too_large_is_refused_and_nothing_of_it_is_stored(
    tmp_path: Path, large: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CHANGE_BYTES", 250_000)  # its first part is smaller, the first two are not
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty) as disturbed:
        await disturbed.follow_it(large.source)

        async def is_over() -> bool:
            return await disturbed.outcomes() == ["failed"]

        await until(is_over)
        monkeypatch.undo()
        assert differences(await disturbed.applied(large.first), large.after_first) == []


@pytest.mark.parametrize(("step", "number"), [(Step.PART, 3), rare(Step.END, 1)])
async def test_a_worker_that_has_no_memory_left_goes_on_and_the_next_run_does_it(
    tmp_path: Path, large: Expected, step: Step, number: int
) -> None:
    marks = tmp_path / "marks"
    reader = WorkerClient(command=dying.command(step, number, marks=marks, harm=Harm.STARVE))
    dying.arm(marks)
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed:
        process_id = reader.process_id
        await disturbed.follow_it(large.source)
        assert differences(await disturbed.applied(large.first), large.after_first) == []
        assert await disturbed.outcomes() == ["succeeded", "failed"]
        assert reader.process_id == process_id
    assert dying.ends(marks) == 1


async def test_a_plan_that_hangs_under_the_lock_is_given_up_and_made_again_alone(
    tmp_path: Path, large: Expected
) -> None:
    marks = tmp_path / "marks"
    command = dying.command(Step.PART, 2, marks=marks, harm=Harm.HANG)
    dying.arm(marks)
    reader = WorkerClient(command=command, seconds={**SECONDS, CommitJob: WorkerSeconds(run=60.0, locked=3.0)})
    large.name(large.first)
    async with world(tmp_path / "disturbed", large.empty, reader=reader) as disturbed, asyncio.timeout(60):
        await disturbed.follow_it(large.source)
        while not dying.ends(marks):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.01)
        assert await disturbed.apply("another") == "created"
        await disturbed.applied(large.first)
        assert await disturbed.outcomes() == ["succeeded", "failed"]
    assert dying.ends(marks) == 1


async def test_a_file_that_ends_the_parser_is_set_aside_and_all_others_are_stored(
    tmp_path: Path, large: Expected
) -> None:
    source, first, second = source_of(tmp_path / "source", LARGE)
    source.git("reset", "--quiet", "--hard", first)
    source.write("3/bad.yaml", destination("bad", crashing.ABORT))
    bad = source.commit()
    Expected(source, bad, second, large.empty, {}, {}).name(bad)
    async with world(tmp_path / "disturbed", large.empty, reader=WorkerClient(command=crashing.COMMAND)) as disturbed:
        await disturbed.follow_it(source)
        found = await disturbed.applied(bad)
        assert await disturbed.outcomes() == ["partial"]
    assert sum("3/bad.yaml:1:1" in row for row in found["run_status"]) == 1
    assert len(found["run_status"]) == LARGE + 1
    assert found["audit"] == large.after_first["audit"]
