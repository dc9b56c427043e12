"""A value that many want is fetched by one of them, for all."""

import asyncio
from collections.abc import Callable

import pytest

from reconciler.auth.oidc.discovery import ProviderLimits
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
        self.kept = CachedFetch(self.fetch, limits=ProviderLimits(), monotonic=lambda: self.now)

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
    assert await second == await source.kept.get()


async def test_many_share_one_fetch_and_one_failure() -> None:
    source = Source()
    source.problem = lambda: ProviderUnreachable("The provider is down; try again.")
    ends = await asyncio.gather(*(source.kept.get() for _ in range(5)), return_exceptions=True)
    assert ({type(end) for end in ends}, source.fetched) == ({ProviderUnreachable}, 1)
    source.now, source.problem = 1, None
    assert (await asyncio.gather(*(source.kept.get() for _ in range(5))), source.fetched) == ([2] * 5, 2)


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
