"""The lock of a project: in the order of arrival, polls behind the requests that wait, and nobody for ever."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reconciler.reconcile.apply import Locked, ProjectLock, Writer, to_its_end

pytestmark = pytest.mark.anyio

SECONDS = 20.0  # what takes longer does not happen


class Queue:
    """Writers that queue for one lock, and the order in which they got it."""

    def __init__(self) -> None:
        self.lock = ProjectLock()
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def arrive(self, name: str, writer: Writer, then: Callable[[], Awaitable[object]] | None = None) -> None:
        """A writer queues; with the lock it does `then`."""

        async def write() -> None:
            async with self.lock.hold(writer=writer):
                self.order.append(name)
                if then is not None:
                    await then()

        self.tasks[name] = asyncio.create_task(write())
        await asyncio.sleep(0)

    async def end(self) -> list[str]:
        """The order, once all are done."""
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return self.order


async def test_requests_get_it_in_the_order_of_their_arrival() -> None:
    queue = Queue()
    async with queue.lock.hold():
        for name in ("a", "b", "c"):
            await queue.arrive(name, Writer.REQUEST)
        assert queue.order == []
    assert await queue.end() == ["a", "b", "c"]


async def test_a_poll_lets_those_requests_go_first_that_wait_at_its_turn_and_no_later_ones() -> None:
    queue = Queue()
    free = asyncio.Event()
    async with queue.lock.hold():
        await queue.arrive("poll", Writer.POLL)
        await queue.arrive("first", Writer.REQUEST, free.wait)
        await queue.arrive("second", Writer.REQUEST)
        await queue.arrive("another poll", Writer.POLL)
    await asyncio.sleep(0)
    await queue.arrive("late", Writer.REQUEST)  # the poll's turn was before
    free.set()
    assert await queue.end() == ["first", "second", "poll", "late", "another poll"]


async def test_requests_that_keep_coming_do_not_starve_a_poll() -> None:
    queue = Queue()
    number = 0

    async def another() -> None:
        nonlocal number
        number += 1
        if number < 20:
            await queue.arrive(f"request {number}", Writer.REQUEST, another)

    async with queue.lock.hold():
        await queue.arrive("request 0", Writer.REQUEST, another)
        await queue.arrive("poll", Writer.POLL)
    while not all(task.done() for task in queue.tasks.values()):
        await queue.end()
    assert queue.order.index("poll") <= 2
    assert len(queue.order) == 21


async def test_who_waits_too_long_is_told_so_and_leaves_the_lock_as_it_is() -> None:
    lock = ProjectLock()
    async with lock.hold():
        until = asyncio.get_running_loop().time() + 0.05
        with pytest.raises(Locked):
            async with lock.hold(until=until):
                raise AssertionError("it is held")
    async with asyncio.timeout(SECONDS), lock.hold():
        pass


async def test_who_gives_up_waiting_keeps_nobody_from_the_lock() -> None:
    queue = Queue()
    async with queue.lock.hold():
        for name in ("a", "b", "c"):
            await queue.arrive(name, Writer.REQUEST)
        queue.tasks["a"].cancel()
        queue.tasks["b"].cancel()
    assert await queue.end() == ["c"]


async def test_a_writer_that_is_cancelled_in_the_moment_of_its_turn_passes_the_lock_on() -> None:
    queue = Queue()
    async with queue.lock.hold():
        await queue.arrive("a", Writer.REQUEST)
        await queue.arrive("b", Writer.REQUEST)
    queue.tasks["a"].cancel()  # it has its turn, and has not run since
    assert await queue.end() == ["b"]


async def test_a_writer_that_fails_releases_the_lock() -> None:
    lock = ProjectLock()
    with pytest.raises(ZeroDivisionError):
        async with lock.hold():
            raise ZeroDivisionError
    async with asyncio.timeout(SECONDS), lock.hold():
        pass


async def test_a_write_ends_although_its_caller_is_cancelled_again_and_again() -> None:
    ended = asyncio.Event()

    async def write() -> None:
        await asyncio.sleep(0.05)
        ended.set()

    task = asyncio.create_task(to_its_end(write()))
    for _ in range(3):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
