"""Which projects are read, and when."""

import asyncio
import gc
import weakref
from itertools import pairwise

import pytest

from reconciler.delivery.contract import Behind
from reconciler.model import errors
from reconciler.model.routes import Routes
from reconciler.server.project_following import RouteFollowing
from reconciler.store.records import ResourceChange
from tests.waiting import until

pytestmark = pytest.mark.anyio


def clock() -> float:
    """It stands still."""
    return 0.0


class Followed:
    """Notes what it is told to follow."""

    def __init__(self) -> None:
        self.routes: list[str] = []

    async def left(self, project: str) -> tuple[str, ...]:
        return (f"of-{project}",)

    async def change(self, routes: Routes) -> None:
        self.routes.append(routes.project)


async def test_every_project_is_read_at_the_start_and_again_when_it_changes() -> None:
    followed = Followed()
    asked: list[tuple[str, tuple[str, ...]]] = []

    async def read(project: str, left: tuple[str, ...]) -> Routes:
        asked.append((project, left))
        return Routes(project=project)

    routing = RouteFollowing(read, followed, monotonic=clock)
    task = asyncio.create_task(routing.keep(["a", "b"]))
    await until(lambda: followed.routes == ["a", "b"])
    routing.heard(ResourceChange(None, project="b"))
    routing.heard(ResourceChange(None, project="b"))
    routing.heard(ResourceChange(None, project="a", changed=False))
    routing.heard(ResourceChange("repository"))
    assert routing.behind("b") == Behind()
    assert routing.behind("a") is None
    await until(lambda: followed.routes == ["a", "b", "b"])
    task.cancel()
    assert asked == [("a", ("of-a",)), ("b", ("of-b",)), ("b", ("of-b",))]
    assert routing.behind("b") is None


async def test_a_change_while_a_project_is_read_reads_it_once_more() -> None:
    followed = Followed()
    begun, go = asyncio.Event(), asyncio.Event()

    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        begun.set()
        await go.wait()
        return Routes(project=project)

    routing = RouteFollowing(read, followed, monotonic=clock)
    task = asyncio.create_task(routing.keep(["a"]))
    await begun.wait()
    assert routing.behind("a") is None  # as far as anybody told
    for _ in range(5):
        routing.heard(ResourceChange(None, project="a"))
    assert routing.behind("a") == Behind()
    go.set()
    await until(lambda: followed.routes == ["a", "a"] and routing.behind("a") is None)
    task.cancel()


async def test_a_project_that_cannot_be_read_keeps_its_routes_and_is_read_again() -> None:
    followed = Followed()
    fails = [True]

    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        if fails:
            fails.clear()
            raise errors.Transient("The worker ended.")
        return Routes(project=project)

    routing = RouteFollowing(read, followed, monotonic=clock, again_seconds=0.01)
    task = asyncio.create_task(routing.keep(["a"]))
    await until(lambda: followed.routes == ["a"])
    task.cancel()


async def test_routes_are_behind_since_the_first_change_that_no_reading_saw() -> None:
    now = [10.0]
    reads: list[asyncio.Future[None]] = []

    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        reads.append(asyncio.get_running_loop().create_future())
        await reads[-1]
        return Routes(project=project)

    followed = Followed()
    routing = RouteFollowing(read, followed, monotonic=lambda: now[0], again_seconds=0.01)
    task = asyncio.create_task(routing.keep(()))
    routing.heard(ResourceChange(None, project="a", changed_endpoints=("siem",)))
    await until(lambda: len(reads) == 1)
    now[0] = 11.5
    routing.heard(ResourceChange(None, project="a", changed_endpoints=("lake",)))
    assert routing.behind("a") == Behind(changed_endpoints=frozenset({"siem", "lake"}))
    now[0] = 12.5
    assert routing.behind("a") == Behind(is_late=True, changed_endpoints=frozenset({"siem", "lake"}))
    assert routing.behind("b") is None
    reads[0].set_exception(errors.Transient("The worker ended."))
    await until(lambda: len(reads) == 2)
    assert routing.behind("a") == Behind(is_late=True, changed_endpoints=frozenset({"siem", "lake"}))
    routing.heard(ResourceChange(None, project="a"))
    reads[1].set_result(None)
    await until(lambda: len(reads) == 3)
    assert routing.behind("a") == Behind()
    reads[2].set_result(None)
    await until(lambda: routing.behind("a") is None)
    task.cancel()
    assert followed.routes == ["a", "a"]


async def test_routes_that_are_refused_stay_as_they_were_for_good() -> None:
    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        raise errors.Refused(f"{project} routes too much.")

    now = [0.0]
    routing = RouteFollowing(read, Followed(), monotonic=lambda: now[0])
    routing.heard(ResourceChange(None, project="a", changed_endpoints=("siem",)))
    now[0] = 3.0
    assert routing.behind("a") == Behind(is_late=True, changed_endpoints=frozenset({"siem"}))
    task = asyncio.create_task(routing.keep(()))
    await until(lambda: routing.behind("a") is None)
    task.cancel()


class Failing(Followed):
    """Cannot follow for these reasons, one after the other; notes when it was told to."""

    def __init__(self, *faults: str) -> None:
        super().__init__()
        self.faults = [*faults]
        self.times: list[float] = []

    async def change(self, routes: Routes) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self.faults:
            raise errors.Transient(self.faults.pop(0))
        await super().change(routes)


async def found(project: str, _left: tuple[str, ...]) -> Routes:
    return Routes(project=project)


async def test_a_fault_that_stands_is_told_once_and_tried_again_and_its_end_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    followed = Failing("The disk is full.", "The disk is full.", "The disk is full.", "The disk is gone.")
    task = asyncio.create_task(RouteFollowing(found, followed, monotonic=clock, again_seconds=0.05).keep(["a"]))
    await until(lambda: followed.routes == ["a"])
    task.cancel()
    pauses = [after - before for before, after in pairwise(followed.times)]
    assert [pause >= 0.05 for pause in pauses] == [True] * 4
    again = "What the project a routes is not followed in full, and is read again: "
    assert caplog.messages == [
        f"{again}The disk is full.",
        f"{again}The disk is gone.",
        "What the project a routes is followed in full again.",
    ]


async def test_a_project_that_changes_is_read_at_once_whatever_it_waited_for_and_then_not_again() -> None:
    async def followed_in_full() -> weakref.ref[RouteFollowing]:
        followed = Failing("The disk is full.", "The disk is full.")
        routing = RouteFollowing(found, followed, monotonic=clock, again_seconds=60.0)
        task = asyncio.create_task(routing.keep(["a"]))
        for times in (1, 2):
            await until(lambda times=times: len(followed.times) == times and routing.behind("a") is None)  # type: ignore[misc]
            routing.heard(ResourceChange(None, project="a"))
        await until(lambda: followed.routes == ["a"])
        task.cancel()
        await asyncio.wait([task])
        return weakref.ref(routing)

    left = await followed_in_full()
    gc.collect()
    assert left() is None, "a timer would read it again"
