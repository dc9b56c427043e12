"""A value that many want is fetched by one of them, for all."""

import asyncio
from collections.abc import Callable

import pytest

from reconciler.auth.oidc.discovery import STOPPING, ProviderLimits
from reconciler.auth.oidc.provider import CachedFetch, ProviderUnfit, ProviderUnreachable

pytestmark = pytest.mark.anyio


class Source:
    """Numbers, one after the other, each when it is let go; or what is raised instead."""

    def __init__(self) -> None:
        self.fetched = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.problem: Callable[[], Exception] | None = None
        self.now = 0.0
        self.kept = CachedFetch(self.fetch, name="number", limits=ProviderLimits(), monotonic=lambda: self.now)

    async def fetch(self) -> int:
        self.fetched += 1
        number = self.fetched
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem()
        return number


async def test_whoever_asked_first_may_go_away() -> None:
    source = Source()
    source.gate.clear()
    first, second = (asyncio.create_task(source.kept.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    source.gate.set()
    assert (await second, source.fetched) == (1, 1)


async def test_what_everybody_left_is_kept_all_the_same() -> None:
    source = Source()
    source.gate.clear()
    only = asyncio.create_task(source.kept.get())
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait([only])
    source.gate.set()
    assert (await source.kept.get(), source.fetched) == (1, 1)


async def test_a_failure_that_everybody_left_disturbs_nobody() -> None:
    source = Source()
    source.problem = lambda: ProviderUnreachable("The provider is down; try again.")
    source.gate.clear()
    only = asyncio.create_task(source.kept.get())
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait([only])
    source.gate.set()
    with pytest.raises(ProviderUnreachable):
        await source.kept.get()
    assert source.fetched == 1


async def test_an_old_value_serves_for_one_that_is_out_of_reach_but_not_for_one_that_is_unfit() -> None:
    source = Source()
    assert await source.kept.get() == 1
    source.now = 3600
    source.problem = lambda: ProviderUnreachable("The provider is down; try again.")
    assert await source.kept.get() == 1
    source.now += 1
    source.problem = lambda: ProviderUnfit("The provider is another one; correct it.")
    with pytest.raises(ProviderUnfit):
        await source.kept.get()
    assert source.kept.at_hand == 1


async def test_who_finds_a_value_wanting_gets_what_another_fetched_meanwhile() -> None:
    source = Source()
    first = await source.kept.get()
    assert await asyncio.gather(*(source.kept.newer(first) for _ in range(10))) == [2] * 10
    assert await source.kept.newer(first) == 2
    assert source.fetched == 2


async def test_a_failure_a_moment_ago_does_not_use_up_the_turn_to_fetch_at_once() -> None:
    source = Source()
    value = await source.kept.get()
    source.problem = lambda: ProviderUnreachable("The provider is down; try again.")
    source.now = 3600
    assert await source.kept.get() == value
    with pytest.raises(ProviderUnreachable):
        await source.kept.newer(value)
    assert source.fetched == 2
    source.problem = None
    source.now += 1
    assert await source.kept.newer(value) == 3


async def test_closing_ends_what_is_under_way_tells_whoever_waits_and_may_come_twice() -> None:
    source = Source()
    source.gate.clear()
    waiting = [asyncio.create_task(source.kept.get()) for _ in range(2)]
    await asyncio.sleep(0)
    await source.kept.close()
    await source.kept.close()
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [(type(end), str(end)) for end in ends] == [(ProviderUnreachable, STOPPING)] * 2
