"""Runs of one group: which of them are one change, and what becomes of the others when one ends."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from reconciler.model.errors import Transient
from reconciler.reconcile.apply import Applier, RecordOf
from reconciler.reconcile.commit_groups import CommitGroup
from reconciler.worker.messages import CommitJob, CommitPlanned
from tests.commit_jobs import commit_job

pytestmark = pytest.mark.anyio


def planned(name: str, *, beside: tuple[CommitPlanned, ...] = ()) -> CommitPlanned:
    """Return the plan of an entry, with its name as the tree."""
    return CommitPlanned(name, False, {}, False, False, False, False, None, None, beside=beside)


class Planning:
    """In place of the applier: it notes what it plans together, and fails or waits as it is told."""

    def __init__(self) -> None:
        self.together: list[list[str]] = []
        self.fails_together = False
        self.goes_on, self.stores, self.is_asked = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for event in (self.goes_on, self.stores):
            event.set()

    async def commit(
        self, job: CommitJob, *, record: RecordOf, beside: Sequence[tuple[CommitJob, RecordOf]] = ()
    ) -> CommitPlanned:
        names = [job.rules.name, *(one.rules.name for one, _ in beside)]
        self.together.append(names)
        self.is_asked.set()
        await self.goes_on.wait()
        if beside and self.fails_together:
            raise Transient("one of them cannot be read")
        others = tuple(planned(name) for name in names[1:])
        found = planned(names[0], beside=others)
        for one, (_, record_of) in zip((found, *others), ((job, record), *beside), strict=True):
            record_of(one)
        await self.stores.wait()
        return found


def group_of(planning: Planning, *names: str) -> CommitGroup:
    """A group in which these runs are under way."""
    group = CommitGroup(cast("Applier", planning))
    for name in names:
        group.begin(name)
    return group


async def run(group: CommitGroup, name: str, **job: Any) -> str:
    """One run from where it is ready to plan; the tree that it gets."""
    try:
        found = await group.commit(commit_job(name=name, **job), record=lambda _: None)
        return found.tree
    finally:
        group.end(name)


async def test_those_with_the_same_commit_are_one_change_once_all_are_ready_or_over() -> None:
    planning = Planning()
    group = group_of(planning, "a", "b", "c", "d", "late")
    async with asyncio.TaskGroup() as tasks:
        found = [tasks.create_task(run(group, name)) for name in ("b", "a")]
        found += [tasks.create_task(run(group, "c", commit="another"))]
        await asyncio.sleep(0)
        group.end("d")
        assert planning.together == []  # one is under way
        found.append(tasks.create_task(run(group, "late")))
    assert [one.result() for one in found] == ["b", "a", "c", "late"]
    assert sorted(planning.together) == [["a", "b", "late"], ["c"]]


async def test_what_fails_together_is_tried_by_each_alone() -> None:
    planning = Planning()
    planning.fails_together = True
    group = group_of(planning, "a", "b")
    a, b = await asyncio.gather(run(group, "a"), run(group, "b"))
    assert (a, b) == ("a", "b")
    assert (planning.together[0], sorted(planning.together[1:])) == (["a", "b"], [["a"], ["b"]])


async def test_a_run_that_is_cancelled_is_no_part_of_it_and_the_others_go_on() -> None:
    planning = Planning()
    planning.goes_on.clear()
    group = group_of(planning, "a", "b", "c")
    a, b, c = (asyncio.create_task(run(group, name)) for name in "abc")
    await planning.is_asked.wait()
    b.cancel()
    planning.goes_on.set()
    assert (await a, await c) == ("a", "c")
    with pytest.raises(asyncio.CancelledError):
        await b
    assert (planning.together[0], sorted(planning.together[1:])) == (["a", "b", "c"], [["a"], ["c"]])


async def test_a_run_that_is_cancelled_while_it_is_stored_waits_for_that() -> None:
    planning = Planning()
    planning.stores.clear()
    group = group_of(planning, "a", "b")
    a, b = (asyncio.create_task(run(group, name)) for name in "ab")
    await planning.is_asked.wait()
    await asyncio.sleep(0)
    b.cancel()
    await asyncio.sleep(0)
    assert not b.done()
    planning.stores.set()
    assert await a == "a"
    with pytest.raises(asyncio.CancelledError):
        await b
    assert planning.together == [["a", "b"]]


async def test_a_run_that_is_cancelled_while_it_waits_is_waited_for_no_more() -> None:
    planning = Planning()
    group = group_of(planning, "a", "b")
    a = asyncio.create_task(run(group, "a"))
    await asyncio.sleep(0)
    a.cancel()
    with pytest.raises(asyncio.CancelledError):
        await a
    assert await run(group, "b") == "b"
    assert planning.together == [["b"]]
