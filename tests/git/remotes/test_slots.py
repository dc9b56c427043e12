"""Slots: who gets the next one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reconciler.git.remotes.remote import ConcurrencyLimit

pytestmark = pytest.mark.anyio


class Calls:
    """Calls that have a slot until a test ends them, in the order in which they got it."""

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self.began: list[str] = []
        self._limit = limit
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, *, insists: bool = False) -> None:
        """Ask for a slot of the host that the name begins with."""
        self._tasks[name] = asyncio.create_task(self._call(name, insists=insists))
        await settle()

    async def end(self, name: str) -> None:
        """End a call, or its waiting."""
        self._tasks[name].cancel()
        await settle()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _call(self, name: str, *, insists: bool) -> None:
        async with self._limit.slot(name[0], insists=insists):
            self.began.append(name)
            await asyncio.Event().wait()


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def asked(limit: ConcurrencyLimit, *names: str) -> Calls:
    calls = Calls(limit)
    for name in names:
        await calls.ask(name)
    return calls


async def test_a_host_takes_no_more_than_its_share() -> None:
    calls = await asked(ConcurrencyLimit(3, each=2), "a1", "a2", "a3", "b1", "c1")
    assert calls.began == ["a1", "a2", "b1"]
    await calls.end("a1")
    assert calls.began == ["a1", "a2", "b1", "c1"]
    await calls.end("b1")
    assert calls.began == ["a1", "a2", "b1", "c1", "a3"]
    await calls.close()


async def test_a_person_takes_one_beyond_only_when_none_is_free() -> None:
    calls = await asked(ConcurrencyLimit(2, each=1, beyond=1), "a1", "a2")
    for name in ("b1", "a3", "c1"):
        await calls.ask(name, insists=True)
    assert calls.began == ["a1", "b1", "a3"]
    await calls.end("a3")
    assert calls.began == ["a1", "b1", "a3", "c1"]
    await calls.close()


@pytest.mark.parametrize("leave", [Calls.end, Calls.close])
async def test_who_leaves_waits_no_more(leave: Callable[..., Awaitable[None]]) -> None:
    limit = ConcurrencyLimit(1)
    calls = await asked(limit, "a1", "a2", "a3")
    await calls.end("a2")
    await calls.end("a1")
    assert calls.began == ["a1", "a3"]
    await leave(calls, *(["a3"] if leave is Calls.end else []))
    others = await asked(limit, "a4")
    assert others.began == ["a4"]
    await others.close()
