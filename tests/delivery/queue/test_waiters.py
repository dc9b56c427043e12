"""Waiters: everybody looks again when woken, and who gave up is forgotten."""

import asyncio

import pytest

from reconciler.delivery.queue.contract import Waiters

pytestmark = pytest.mark.anyio


async def begun(waiters: Waiters, there: list[int], number: int = 1) -> list[asyncio.Task[None]]:
    """Tasks that wait until something is there, as far as they get."""
    tasks = [asyncio.create_task(waiters.until(lambda: bool(there))) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_nobody_waits_for_what_is_there() -> None:
    waiters = Waiters()
    await waiters.until(lambda: True)

    assert len(waiters) == 0


async def test_all_are_woken_at_once() -> None:
    waiters, there = Waiters(), list[int]()
    tasks = await begun(waiters, there, 3)
    assert len(waiters) == 3

    there.append(1)
    waiters.wake()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks)

    assert len(waiters) == 0


async def test_who_finds_nothing_waits_on() -> None:
    waiters, there = Waiters(), list[int]()
    [task] = await begun(waiters, there)
    waiters.wake()
    await asyncio.sleep(0)
    assert not task.done()
    assert len(waiters) == 1

    there.append(1)
    waiters.wake()
    async with asyncio.timeout(5):
        await task


async def test_who_gave_up_is_forgotten() -> None:
    waiters, there = Waiters(), list[int]()
    first, second = await begun(waiters, there, 2)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert len(waiters) == 1

    there.append(1)
    waiters.wake()
    async with asyncio.timeout(5):
        await second


async def test_who_gives_up_when_woken_is_cancelled_all_the_same() -> None:
    waiters, there = Waiters(), list[int]()
    [task] = await begun(waiters, there)
    there.append(1)
    waiters.wake()
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(outcome, asyncio.CancelledError)
    assert len(waiters) == 0
