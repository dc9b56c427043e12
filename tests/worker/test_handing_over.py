"""A resource that a repository drops passes to another one by the index alone: no mirror of another is read."""

from collections.abc import Iterator

import msgspec
import pytest

from reconciler.git.snapshots import Snapshot
from reconciler.worker import commits
from reconciler.worker.messages import CommitPlanned
from reconciler.worker.trees import Allowance
from tests import worlds
from tests.commit_jobs import finished
from tests.daemons import destination
from tests.worlds import Following, World

OWN, SHARED, MORE = ({f"{name}.yaml": destination(name)} for name in ("own", "shared", "more"))


@pytest.fixture
def world() -> Iterator[World]:
    """The first repository drops two resources that the second defines; nobody has polled yet."""
    with worlds.world({"a": Following(), "b": Following()}) as made:
        made.push("a", {**OWN, **SHARED, **MORE})
        made.settle()
        made.push("b", {**SHARED, **MORE})
        made.settle()
        made.push("a", {**OWN, "own.yaml": destination("own", "edited")})
        yield made


def planned(world: World, *, beside: bool = False) -> tuple[CommitPlanned, list[str]]:
    """The plan of the first repository, and what it read; `beside`: the other's job is a part of the change."""
    job, read = world.commit_job("a", full=False), list[str]()
    if beside:
        other = msgspec.structs.replace(job, rules=world.commit_job("b", full=False).rules, run="other")
        job = msgspec.structs.replace(job, beside=(other,))
    mirror = world.mirrors["a"].path
    with Snapshot.open(mirror, job.commit) as snapshot:
        allowance = Allowance(at=read.append)
        steps = commits.plan_commit(job, snapshot, world.view, emit=lambda _: None, allowance=allowance)
        return finished(steps), read


def test_no_file_of_the_other_is_read(world: World) -> None:
    with Snapshot.open(world.mirrors["a"].path, world.heads["a"]) as snapshot:
        blobs = [file.blob for file in snapshot.files("")]
    ended, read = planned(world)
    assert read == [*blobs, ""]
    assert ended.note == "Destination more, Destination shared passed to the repository b."
    assert ended.touched == ("b",)


def test_one_that_is_judged_with_it_has_what_its_commit_says(world: World) -> None:
    """The other entry finds the same commit, in which it does not define them any more."""
    ended, _ = planned(world, beside=True)
    assert ended.counts["deleted"] == 2
