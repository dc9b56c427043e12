"""A proposal that ends the worker: what is told of it, and that it ends the one that all share once at most."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from reconciler.git.faults import RepositoryState
from reconciler.model.plan import PlanEntry
from reconciler.worker.client import ENDED, SECONDS, Overdue, WorkerClient, WorkerGone, WorkerSeconds
from reconciler.worker.messages import CommitPlanned, Exhausted, ReviewJob, ReviewPlanned
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


async def test_what_ends_it_without_a_file_is_not_tried_again_and_harms_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    world.settle()
    mirror, base = world.mirrors["a"], world.heads["a"]
    bad = world.review_job("a", mirror.propose({"good.yaml": destination("good", crashing.PLACE)}, onto=base))
    async with reading() as reader:
        for _ in range(2):
            with pytest.raises(Exhausted) as caught:
                await reader.plan(bad)
            assert (caught.value.message, caught.value.state) == (ENDED, RepositoryState.UNSUPPORTED_FORMAT)
            assert ends(caplog) == 1 + 1
        other = world.review_job("a", mirror.propose({**GOOD, "new.yaml": destination("new")}, onto=base))
        assert await told(reader, other) == {"new.yaml": ("created", "", False)}
        assert ends(caplog) == 1 + 1


async def test_what_would_end_it_is_refused_only_where_it_did_so_before_whatever_its_base_did(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    world.settle()
    text = destination("good", crashing.PLACE)
    bad = world.review_job("a", world.mirrors["a"].propose({"good.yaml": text}, onto=world.heads["a"]))
    async with reading() as reader:
        reader.memory.suspect(bad.commit)
        with pytest.raises(WorkerGone) as gone:
            await reader.plan(bad)
        assert (gone.value.begun, ends(caplog)) == (True, 1)
        for _ in range(2):
            with pytest.raises(Exhausted) as caught:
                await reader.plan(bad)
            assert (caught.value.message, ends(caplog)) == (ENDED, 2)


async def test_many_files_that_hang_have_the_time_of_one_proposal(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    many = {f"{name}.yaml": destination(name, crashing.HANG) for name in "bcdef"}
    bad = world.review_job("a", world.mirrors["a"].propose({**GOOD, **many}, onto=world.heads["a"]))
    async with reading(seconds=1.2, file=0.05) as reader:
        reader.memory.suspect(bad)
        with pytest.raises(Exhausted) as caught:
            await reader.plan(bad)
        assert caught.value.message == ENDED
    told = "A proposal was given up: it took longer than 1.2 seconds apart from all others."
    assert caplog.messages[-1] == told


async def test_what_hangs_holds_up_the_shared_one_once_whatever_it_is_merged_into(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.push("a", GOOD)
    head = world.mirrors["a"].propose({**GOOD, "bad.yaml": destination("bad", crashing.HANG)}, onto=world.heads["a"])
    async with reading(seconds=0.2) as reader:
        await reader.start()
        with pytest.raises(Overdue):
            await reader.plan(world.review_job("a", head))
        assert (reader.process_id, ends(caplog)) == (None, 1)
        await reader.start()
        shared = reader.process_id
        world.push("a", {**GOOD, "later.yaml": destination("later")})
        for _ in range(2):
            with pytest.raises(Exhausted, match="for an hour"):
                await reader.plan(world.review_job("a", head))
        assert (reader.process_id, ends(caplog)) == (shared, 1)
        assert caplog.messages[1:] == [
            "A proposal was given up: it took longer than 0.2 seconds apart from all others."
        ]
