"""Gates: whoever goes into all of them comes in at last."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from reconciler.reconcile.conflict_retry import ProjectLocks

pytestmark = pytest.mark.anyio

SECONDS = 5.0  # what takes longer does not happen


class Overlapping:
    """Two places of which one is shut at each moment: who is alone in one leaves when the other is shut."""

    def __init__(self, gates: ProjectLocks) -> None:
        self._gates = gates
        self.turns = 0

    async def _alone(self, place: str, other: str) -> None:
        while True:
            async with self._gates.of(place).exclusive():
                self.turns += 1
                for _ in range(3):
                    await asyncio.sleep(0)  # the other one sees that this is shut
                await self._shut(other)
            await asyncio.sleep(0)

    async def _shut(self, place: str) -> None:
        while not self._gates.of(place).is_shut:  # noqa: ASYNC110 - a gate tells nobody that it is shut
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._alone(*places)) for places in (("a", "z"), ("z", "a"))]
        await self._shut("a")
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def alone(gates: ProjectLocks, place: str) -> None:
    async with gates.of(place).exclusive():
        pass


async def test_who_goes_everywhere_comes_in_although_some_place_is_always_shut() -> None:
    gates, inside = ProjectLocks(), asyncio.Event()
    overlapping = Overlapping(gates)

    async def everywhere() -> None:
        async with gates.everywhere():
            inside.set()
            await asyncio.Event().wait()

    async with asyncio.timeout(SECONDS), overlapping.going_on():
        going = asyncio.create_task(everywhere())
        await asyncio.sleep(0)
        await alone(gates, "new")  # entered first while it waits, and gone into as well
        assert not inside.is_set()
        await inside.wait()
        turns, news = overlapping.turns, asyncio.create_task(alone(gates, "new"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert (overlapping.turns, news.done()) == (turns, False)
        going.cancel()
        await asyncio.gather(news, going, return_exceptions=True)
        assert not news.cancelled()


async def test_many_who_go_everywhere_at_once_all_come_in() -> None:
    gates, came = ProjectLocks(), 0

    async def everywhere() -> None:
        nonlocal came
        async with gates.everywhere():
            came += 1
            await asyncio.sleep(0)

    async with asyncio.timeout(SECONDS), Overlapping(gates).going_on():
        await asyncio.gather(*(everywhere() for _ in range(20)))
        assert came == 20


async def test_who_gives_up_going_everywhere_keeps_nobody_out() -> None:
    gates = ProjectLocks()
    async with asyncio.timeout(SECONDS):
        for turns in range(60):
            async with Overlapping(gates).going_on():
                going = asyncio.create_task(gates.everywhere().__aenter__())
                for _ in range(turns):
                    await asyncio.sleep(0)
                going.cancel()
                await asyncio.wait([going])
                if not going.cancelled():
                    break  # it was inside already
            await alone(gates, "a")
            await alone(gates, "z")
        assert turns > 10
