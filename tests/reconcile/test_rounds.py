"""Rounds: who is overtaken ends all the same, and keeps out nobody for longer than it must."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from reconciler.reconcile.conflict_retry import ALONE, OPTIMISTIC, ConflictRetry, to_its_end
from reconciler.store.contract import Moved

pytestmark = pytest.mark.anyio

SECONDS = 5.0  # what takes longer does not happen


class Overtaken:
    """A round that is overtaken so many times, and notes how it went."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.rounds = 0

    async def __call__(self) -> str:
        self.rounds += 1
        await asyncio.sleep(0)
        if self.left:
            self.left -= 1
            raise Moved("overtaken")
        return "stored"


class Hung:
    """A round that ends when it is told to."""

    def __init__(self) -> None:
        self.is_begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> str:
        self.is_begun.set()
        await self.may_end.wait()
        return "stored"


async def settled() -> None:
    """Everybody has come as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_commit_that_is_overtaken_all_the_time_waits_for_another_and_keeps_no_request_out() -> None:
    rounds, hung, overtaken = ConflictRetry(), Hung(), Overtaken(OPTIMISTIC)
    async with asyncio.timeout(SECONDS):
        other = asyncio.create_task(rounds.of_commit("p", hung))
        await hung.is_begun.wait()
        commit = asyncio.create_task(rounds.of_commit("p", overtaken))
        await settled()
        assert (overtaken.rounds, commit.done()) == (OPTIMISTIC, False)
        assert await rounds.of_request("p", Overtaken(OPTIMISTIC)) == "stored"
        async with rounds.beside("p"), rounds.everywhere():
            pass
        hung.may_end.set()
        assert [await other, await commit] == ["stored", "stored"]
    assert overtaken.rounds == OPTIMISTIC + 1


@pytest.mark.parametrize("of", [ConflictRetry.of_commit, ConflictRetry.of_request], ids=["commit", "request"])
async def test_the_last_round_is_alone_in_its_project_and_not_in_others(
    of: Callable[[ConflictRetry, str, Callable[[], Coroutine[None, None, str]]], Coroutine[None, None, str]],
) -> None:
    rounds, hung, most = ConflictRetry(), Hung(), 2 * OPTIMISTIC if of is ConflictRetry.of_request else OPTIMISTIC
    overtaken = Overtaken(most)

    async def round_() -> str:
        await overtaken()
        return await hung()

    async with asyncio.timeout(SECONDS):
        await rounds.of_request("q", Overtaken(0))
        alone = asyncio.create_task(of(rounds, "p", round_))
        await hung.is_begun.wait()
        assert overtaken.rounds == most + 1
        beside = asyncio.create_task(rounds.of_request("p", Overtaken(0)))
        everywhere = asyncio.create_task(entered(rounds))
        await settled()
        assert not beside.done()
        assert not everywhere.done()
        for other in (rounds.of_commit, rounds.of_request):
            assert await other("q", Overtaken(OPTIMISTIC)) == "stored"
        hung.may_end.set()
        assert [await alone, await beside] == ["stored", "stored"]
        await everywhere


async def entered(rounds: ConflictRetry) -> None:
    async with rounds.everywhere():
        pass


@pytest.mark.parametrize("place", ["a", "p", "z"])
async def test_who_goes_everywhere_keeps_out_nobody_while_it_waits_for_who_is_alone(place: str) -> None:
    """Also a place that was entered first meanwhile is one that it goes to."""
    rounds, hung = ConflictRetry(), Hung()
    for other in ("b", "q"):
        await rounds.of_request(other, Overtaken(0))
    async with asyncio.timeout(SECONDS):
        alone = asyncio.create_task(rounds.alone(place, hung))
        await hung.is_begun.wait()
        may_leave, inside = asyncio.Event(), asyncio.Event()

        async def everywhere() -> None:
            async with rounds.everywhere():
                inside.set()
                await may_leave.wait()

        waiting = asyncio.create_task(everywhere())
        await settled()
        for other in ("b", "q", "new"):
            assert await rounds.of_commit(other, Overtaken(OPTIMISTIC)) == "stored"
        assert not inside.is_set()
        hung.may_end.set()
        await inside.wait()
        await alone
        news = asyncio.create_task(rounds.alone("new", Overtaken(0)))
        await settled()
        assert not news.done()
        may_leave.set()
        await waiting
        assert await news == "stored"


@pytest.mark.parametrize("of", [ConflictRetry.of_commit, ConflictRetry.of_request], ids=["commit", "request"])
async def test_who_is_overtaken_when_alone_tries_again_before_others_are_let_in(
    of: Callable[[ConflictRetry, str, Callable[[], Coroutine[None, None, str]]], Coroutine[None, None, str]],
) -> None:
    rounds, most = ConflictRetry(), 2 * OPTIMISTIC if of is ConflictRetry.of_request else OPTIMISTIC
    overtaken, others = Overtaken(most + ALONE - 1), []

    async def round_() -> str:
        if overtaken.rounds == most:
            others.append(asyncio.create_task(rounds.of_request("p", Overtaken(0))))
        await settled()
        if others:
            assert not others[0].done()
        return await overtaken()

    async with asyncio.timeout(SECONDS):
        assert await of(rounds, "p", round_) == "stored"
        assert await others[0] == "stored"
    assert overtaken.rounds == most + ALONE


async def test_who_is_overtaken_each_time_is_told() -> None:
    for of, most in ((ConflictRetry.of_commit, OPTIMISTIC + ALONE), (ConflictRetry.alone, ALONE)):
        overtaken = Overtaken(most)
        with pytest.raises(Moved):
            await of(ConflictRetry(), "p", overtaken)
        assert (overtaken.rounds, overtaken.left) == (most, 0)


async def test_who_is_alone_at_once_waits_for_the_commits_under_way_and_keeps_no_request_out_before() -> None:
    rounds, hung, alone = ConflictRetry(), Hung(), Hung()
    async with asyncio.timeout(SECONDS):
        commit = asyncio.create_task(rounds.of_commit("p", hung))
        await hung.is_begun.wait()
        tasks = [asyncio.create_task(rounds.alone("p", alone))]
        await settled()
        assert await rounds.of_request("p", Overtaken(0)) == "stored"
        assert not alone.is_begun.is_set()
        hung.may_end.set()
        assert await commit == "stored"
        await alone.is_begun.wait()
        tasks += [asyncio.create_task(of("p", Overtaken(0))) for of in (rounds.of_request, rounds.of_commit)]
        await settled()
        assert not any(task.done() for task in tasks)
        alone.may_end.set()
        assert await asyncio.gather(*tasks) == ["stored"] * 3


async def test_a_write_goes_on_to_its_end_however_often_its_caller_is_cancelled() -> None:
    hung = Hung()
    write = asyncio.create_task(to_its_end(hung()))
    await hung.is_begun.wait()
    for _ in range(3):
        write.cancel()
        await settled()
        assert not write.done()
    hung.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await write


async def test_a_write_gives_what_it_gave() -> None:
    assert await to_its_end(Overtaken(0)()) == "stored"
    with pytest.raises(Moved):
        await to_its_end(Overtaken(1)())
