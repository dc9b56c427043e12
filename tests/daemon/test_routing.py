"""Which projects are read, and when."""

import asyncio

import pytest

from reconciler import errors
from reconciler.applying import Told
from reconciler.daemon.routing import Routing
from reconciler.routing.models import Routes
from tests.waiting import until

pytestmark = pytest.mark.anyio


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

    routing = Routing(read, followed)
    task = asyncio.create_task(routing.keep(["a", "b"]))
    await until(lambda: followed.routes == ["a", "b"])
    routing.heard(Told(None, project="b"))
    routing.heard(Told(None, project="b"))
    routing.heard(Told(None, project="a", changed=False))
    routing.heard(Told("repository"))
    assert routing.is_behind("b")
    assert not routing.is_behind("a")
    await until(lambda: followed.routes == ["a", "b", "b"])
    task.cancel()
    assert asked == [("a", ("of-a",)), ("b", ("of-b",)), ("b", ("of-b",))]
    assert not routing.is_behind("b")


async def test_a_change_while_a_project_is_read_reads_it_once_more() -> None:
    followed = Followed()
    begun, go = asyncio.Event(), asyncio.Event()

    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        begun.set()
        await go.wait()
        return Routes(project=project)

    routing = Routing(read, followed)
    task = asyncio.create_task(routing.keep(["a"]))
    await begun.wait()
    assert routing.is_behind("a")
    for _ in range(5):
        routing.ask("a")
    go.set()
    await until(lambda: followed.routes == ["a", "a"] and not routing.is_behind("a"))
    task.cancel()


async def test_a_project_that_cannot_be_read_keeps_its_routes_and_is_read_again() -> None:
    followed = Followed()
    fails = [True]

    async def read(project: str, _left: tuple[str, ...]) -> Routes:
        if fails:
            fails.clear()
            raise errors.Transient("The reader ended.")
        return Routes(project=project)

    routing = Routing(read, followed, again_seconds=0.01)
    task = asyncio.create_task(routing.keep(["a"]))
    await until(lambda: followed.routes == ["a"])
    task.cancel()
