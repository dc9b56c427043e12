"""A resource that a repository drops and another holds is read out of that one, and counts as if the commit held it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.model.errors import Transient
from reconciler.model.values import Value
from reconciler.worker import commits, messages
from reconciler.worker.messages import CommitJob, CommitPlanned
from reconciler.worker.trees import ASIDE, SMALLER, Allowance, CommitLimits
from tests import worlds
from tests.daemons import destination
from tests.worlds import Following, World

OWN, SHARED, MORE = ({f"{name}.yaml": destination(name)} for name in ("own", "shared", "more"))


@pytest.fixture
def world() -> Iterator[World]:
    """The first repository lets go of two resources that the second holds; nobody has looked yet."""
    with worlds.world({"a": Following(), "b": Following()}) as made:
        made.push("a", {**OWN, **SHARED, **MORE})
        made.settle()
        made.push("b", {**SHARED, **MORE})
        made.settle()
        made.push("a", {**OWN, "own.yaml": destination("own", "edited")})
        yield made


def planned(world: World, job: CommitJob, *, most: int = 3, read: list[str] | None = None) -> CommitPlanned:
    """The plan of a job that may read so many files."""
    at = None if read is None else read.append
    allowance = Allowance(CommitLimits(files=most), aside=job.aside, at=at)
    with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
        steps = commits.plan_commit(job, snapshot, world.view, emit=lambda _: None, allowance=allowance)
        return messages.finished(steps)


def blobs(world: World, repository: str) -> list[str]:
    """Return what its head holds, by path."""
    with Snapshot.open(world.mirrors[repository].path, world.heads[repository]) as snapshot:
        return [file.blob for file in snapshot.files("")]


def test_each_file_of_the_other_is_named_before_it_is_read(world: World) -> None:
    read: list[str] = []
    ended = planned(world, world.commit_job("a", full=False), read=read)
    assert read == [*blobs(world, "a"), "", *blobs(world, "b"), ""]
    assert ended.note == "Destination more, Destination shared passed to the repository b."


def test_more_than_one_commit_may_read_is_refused_but_not_for_a_while(world: World) -> None:
    with pytest.raises(GitFault) as caught:
        planned(world, world.commit_job("a", full=False), most=2)
    # Its next commit may hold less: nothing is remembered of the one that lets go.
    assert (type(caught.value), caught.value.state) == (GitFault, RepositoryState.UNSUPPORTED_FORMAT)
    assert caught.value.message == (
        "with what would pass to the repository b, the commit holds more than 2 files to read, and nothing of it is"
        f" applied; {SMALLER}; or let go of it in several commits"
    )


def test_what_is_read_again_since_the_store_moved_counts_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "edge"}, "spec": {}}
    search = commits.lineage_of_run

    def slow(snapshot: Snapshot, paths: Iterable[str], *, is_first: bool) -> dict[str, Value]:
        assert world.apply([fleet]).statuses == ["created"]
        return search(snapshot, paths, is_first=is_first)

    monkeypatch.setattr(commits, "lineage_of_run", slow)
    read: list[str] = []
    planned(world, world.commit_job("a", full=False), read=read)
    assert read == [*blobs(world, "a"), "", *blobs(world, "b"), "", "", *blobs(world, "b"), ""]


def test_a_file_of_the_other_that_is_set_aside_is_no_deletion(world: World) -> None:
    aside = frozenset(blobs(world, "b"))
    with pytest.raises(Transient) as caught:
        planned(world, msgspec.structs.replace(world.commit_job("a", full=False), aside=aside))
    assert caught.value.message == (
        f"what would pass to the repository b cannot be read ({ASIDE}); nothing is done until it can, or that"
        " repository is followed no more"
    )
