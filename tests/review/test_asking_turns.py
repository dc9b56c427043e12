"""Who asks the same at once shares one answer, and those about one thing take turns."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reconciler.review.service import QuestionTurns, SharedQuestions, TooManyQuestions

pytestmark = pytest.mark.anyio


class Work:
    """Work that ends when it is told to, and counts how often it was begun and cancelled."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return number


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def started(ask: Callable[[], Awaitable[int]], *, times: int = 1) -> list["asyncio.Task[int]"]:
    async def asked() -> int:
        return await ask()

    tasks = [asyncio.create_task(asked()) for _ in range(times)]
    await settled()
    return tasks


async def test_the_same_question_at_the_same_time_is_worked_on_once() -> None:
    shared, work = SharedQuestions[int](), Work()
    tasks = await started(lambda: shared.ask("q", work), times=3)
    work.may_end.set()
    assert await asyncio.gather(*tasks) == [1, 1, 1]


async def test_another_question_is_worked_on_by_itself_and_a_later_one_anew() -> None:
    shared, work = SharedQuestions[int](), Work()
    first = await started(lambda: shared.ask("a", work))
    second = await started(lambda: shared.ask("b", work))
    work.may_end.set()
    assert await asyncio.gather(*first, *second) == [1, 2]
    assert await shared.ask("a", work) == 3


async def test_who_leaves_takes_nothing_from_those_who_stay() -> None:
    shared, work = SharedQuestions[int](), Work()
    leaving, staying = await started(lambda: shared.ask("q", work), times=2)
    leaving.cancel()
    await settled()
    work.may_end.set()
    assert await staying == 1
    assert (leaving.cancelled(), work.cancelled) == (True, 0)


async def test_the_last_who_leaves_ends_the_work_and_nobody_joins_what_ends() -> None:
    shared, work = SharedQuestions[int](), Work()
    tasks = await started(lambda: shared.ask("q", work), times=2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert work.cancelled == 1
    [again] = await started(lambda: shared.ask("q", work))
    work.may_end.set()
    assert await again == 2


async def test_all_who_share_get_the_fault() -> None:
    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    shared = SharedQuestions[int]()
    tasks = await started(lambda: shared.ask("q", fail), times=2)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [ValueError, ValueError]


async def test_one_name_is_worked_on_by_one_at_a_time_in_the_order_of_asking() -> None:
    turns, seen = QuestionTurns(most_waiting=3), list[str]()

    async def ask(what: str) -> None:
        async with turns.turn("a"):
            seen.append(f"{what} begins")
            await asyncio.sleep(0)
            seen.append(f"{what} ends")

    await asyncio.gather(*(ask(str(number)) for number in range(3)))
    assert seen == [f"{number} {what}" for number in range(3) for what in ("begins", "ends")]


async def test_only_so_many_wait_and_another_name_waits_for_none_of_them() -> None:
    turns, work = QuestionTurns(most_waiting=2), Work()

    async def ask(name: str) -> int:
        async with turns.turn(name):
            return await work()

    tasks = await started(lambda: ask("a"), times=3)
    with pytest.raises(TooManyQuestions, match="ask again"):
        await ask("a")
    tasks += await started(lambda: ask("b"))
    assert work.begun == 2
    with pytest.raises(TooManyQuestions):
        await ask("b")
    work.may_end.set()
    await asyncio.gather(*tasks)
    assert await ask("a") == 5


async def test_whoever_gives_up_waiting_leaves_its_place() -> None:
    turns, work = QuestionTurns(most_waiting=1), Work()

    async def ask() -> int:
        async with turns.turn("a"):
            return await work()

    first, waiting = await started(ask, times=2)
    waiting.cancel()
    await settled()
    [next_one] = await started(ask)
    work.may_end.set()
    assert [await first, await next_one] == [1, 2]
