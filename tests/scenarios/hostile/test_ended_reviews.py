"""A proposal that ends the worker: what is told of it, and that it ends the one that all share once at most."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from reconciler.model.plan import PlanEntry
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import CommitPlanned, ReviewJob, ReviewPlanned
from reconciler.worker.process import SECONDS, Overdue, WorkerGone, WorkerSeconds
from reconciler.worker.trees import ASIDE
from tests import worlds
from tests.daemons import destination
from tests.scenarios.hostile import crashing
from tests.worlds import Following, Ran, World

pytestmark = pytest.mark.anyio

GOOD = {"good.yaml": destination("good")}
BAD = {**GOOD, "bad.yaml": destination("bad", crashing.ABORT)}


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as made:
        yield made


@contextlib.asynccontextmanager
async def reading(*, seconds: float | None = None, file: float | None = None) -> AsyncIterator[WorkerClient]:
    """A reader whose parser has faults."""
    limits = SECONDS if seconds is None else {**SECONDS, ReviewJob: WorkerSeconds(run=seconds, file=file)}
    reader = WorkerClient(command=crashing.COMMAND, seconds=limits)
    try:
        yield reader
    finally:
        await reader.stop()


async def told(reader: WorkerClient, job: ReviewJob) -> dict[str, tuple[str, str, bool]]:
    """By path what a plan says of each resource, the places of reasons left out."""
    planned = (await reader.plan(job)).planned
    assert isinstance(planned, ReviewPlanned)
    statuses = msgspec.msgpack.decode(planned.entry, type=PlanEntry).statuses
    return {
        str(one.at and one.at.path): (one.status, (one.reason or "").rpartition(": ")[2], one.existing)
        for one in statuses
    }


def ends(caplog: pytest.LogCaptureFixture) -> int:
    """How many children ended unasked, or were ended."""
    return sum("it is started again when it is needed" in record.getMessage() for record in caplog.records)


async def test_a_file_that_ends_the_reader_is_told_of_and_ends_the_shared_one_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    job = world.review_job("a", world.mirrors["a"].propose(BAD, onto=world.heads["a"]))
    async with reading() as reader:
        plan = {"good.yaml": ("created", "", False), "bad.yaml": ("invalid", ASIDE, False)}
        assert (await told(reader, job), ends(caplog)) == (plan, 1 + 2)
        assert (await told(reader, job), ends(caplog)) == (plan, 1 + 2)


async def test_a_file_that_was_set_aside_for_what_is_followed_ends_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", BAD)
    head = world.mirrors["a"].propose({**BAD, "new.yaml": destination("new")}, onto=world.heads["a"])
    async with reading() as reader:
        answered = await reader.plan(world.commit_job("a", full=True))
        assert isinstance(answered.planned, CommitPlanned)
        world.record("a", Ran(answered.planned, tuple(answered.parts())))
        ended = ends(caplog)
        assert await told(reader, world.review_job("a", head)) == {
            "bad.yaml": ("invalid", ASIDE, True),
            "new.yaml": ("created", "", False),
        }
        assert ends(caplog) == ended


async def test_what_ends_it_without_a_file_harms_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.push("a", GOOD)
    world.settle()
    mirror, base = world.mirrors["a"], world.heads["a"]
    bad = world.review_job("a", mirror.propose({"good.yaml": destination("good", crashing.PLACE)}, onto=base))
    async with reading() as reader:
        with pytest.raises(WorkerGone) as gone:
            await reader.plan(bad)
        assert (gone.value.begun, ends(caplog)) == (True, 1 + 1)
        await reader.start()
        shared = reader.process_id
        with pytest.raises(WorkerGone):
            await reader.plan(bad)
        assert (reader.process_id, ends(caplog)) == (shared, 1 + 1 + 1)
        other = world.review_job("a", mirror.propose({**GOOD, "new.yaml": destination("new")}, onto=base))
        assert await told(reader, other) == {"new.yaml": ("created", "", False)}
        assert reader.process_id == shared


async def test_what_hangs_holds_up_the_shared_one_once_whatever_it_is_merged_into(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    head = world.mirrors["a"].propose({**GOOD, "bad.yaml": destination("bad", crashing.HANG)}, onto=world.heads["a"])
    async with reading(seconds=4.0, file=1.0) as reader:
        await reader.start()
        with pytest.raises(Overdue):
            await reader.plan(world.review_job("a", head))
        assert (reader.process_id, ends(caplog)) == (None, 1)
        await reader.start()
        shared = reader.process_id
        world.push("a", {**GOOD, "later.yaml": destination("later")})
        found = await told(reader, world.review_job("a", head))
        assert found["bad.yaml"] == ("invalid", ASIDE, False)
        assert (reader.process_id, ends(caplog)) == (shared, 1 + 2)
