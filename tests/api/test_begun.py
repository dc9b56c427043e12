"""Waiting for a coroutine without a timer where it does not wait, and with one where it does."""

import asyncio
from typing import NoReturn

import pytest

from api import logs

pytestmark = pytest.mark.anyio
SECONDS = 10.0


async def test_what_does_not_wait_gives_its_result() -> None:
    async def call() -> str:
        return "there"

    assert await logs.within(call, seconds=SECONDS) == "there"


async def test_what_waits_again_and_again_gives_its_result() -> None:
    async def call() -> list[str]:
        loop = asyncio.get_running_loop()
        found = []
        for number in range(3):
            future: asyncio.Future[str] = loop.create_future()
            loop.call_soon(future.set_result, f"piece {number}")
            found.append(await future)
            await asyncio.sleep(0)
        return found

    assert await logs.within(call, seconds=SECONDS) == ["piece 0", "piece 1", "piece 2"]


@pytest.mark.parametrize("waits", [False, True])
async def test_what_it_raises_is_raised(waits: bool) -> None:
    async def call() -> NoReturn:
        if waits:
            await asyncio.sleep(0)
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        await logs.within(call, seconds=SECONDS)


async def test_what_takes_too_long_is_ended() -> None:
    ended = []

    async def call() -> None:
        try:
            await asyncio.Future()
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        await logs.within(call, seconds=0.01)
    assert ended == [True]


async def test_a_cancellation_reaches_it_and_it_may_still_wait() -> None:
    ended = []

    async def call() -> None:
        try:
            await asyncio.Future()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = asyncio.create_task(logs.within(call, seconds=SECONDS))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
