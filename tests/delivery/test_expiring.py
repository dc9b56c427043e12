"""A clock that is set makes nothing old."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery.exporter import Exporter
from reconciler.delivery.manager import Manager
from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.queue.queues import Queues
from reconciler.model.routes import Destination, Routes
from reconciler.server.delivering import Expiry, ExpiryMoment, believed_moment
from tests.delivery.queue import places

DAY = 86_400_000
START = ExpiryMoment(places.NOW, 5_000.0)
MAX_AGE = 30 * 86_400.0


@given(st.integers(min_value=0, max_value=400 * DAY))
def test_time_that_passes_is_believed_however_long_nobody_looked(passed: int) -> None:
    now = ExpiryMoment(START.wall + passed, START.monotonic + passed / 1000)
    assert believed_moment(START, now) == now.wall


@given(st.integers(min_value=1, max_value=9_000 * DAY), st.integers(min_value=0, max_value=400 * DAY))
def test_a_clock_that_is_set_ahead_is_not_believed_however_long_ago_it_was(jump: int, passed: int) -> None:
    now = ExpiryMoment(START.wall + jump + passed, START.monotonic + passed / 1000)
    assert believed_moment(START, now) == START.wall + passed


@given(st.integers(min_value=1, max_value=9_000 * DAY), st.integers(min_value=0, max_value=400 * DAY))
def test_a_clock_that_is_set_back_is_believed(jump: int, passed: int) -> None:
    now = ExpiryMoment(START.wall - jump + passed, START.monotonic + passed / 1000)
    assert believed_moment(START, now) == now.wall


class Clock:
    """Days that pass when a test says so, and how many the wall clock is wrong by."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wrong = 0.0

    def __call__(self) -> ExpiryMoment:
        return ExpiryMoment(
            START.wall + round((self.passed + self.wrong) * DAY), START.monotonic + self.passed * DAY / 1000
        )


@asynccontextmanager
async def keeping(folder: Path, clock: Clock) -> AsyncIterator[tuple[Expiry, Manager]]:
    """A queue that is left, with one letter that died at the start."""
    async with places.opened(folder) as queue:
        await places.fill(queue, b"one")
        (batch,) = await places.claimed(queue)
        await queue.bury(batch, [b"one"], places.FINAL_FAILURE, records=1)

    def make(_project: str, _destination: Destination, _queue: Queue | None) -> Exporter:
        raise AssertionError

    async def look_up(_project: str, _name: str) -> Destination | None:
        return None

    queues = Queues(folder, reserve=0, clock=lambda: places.NOW)
    await queues.start()
    manager = Manager(queues, make, look_up, clock=lambda: places.NOW, dead_bytes=1 << 20, chance=random.Random(1))  # noqa: S311
    await manager.change(Routes(project="shop"))
    try:
        yield Expiry(manager, max_age=MAX_AGE, now=clock), manager
    finally:
        await manager.close()


def dead(manager: Manager) -> int:
    return sum(one["deadLetters"]["batches"] for one in manager.all("shop", answers=False)["deliveries"])


@pytest.mark.anyio
async def test_after_the_clock_was_set_ahead_dead_letters_expire_when_they_would_have(tmp_path: Path) -> None:
    clock = Clock()
    async with keeping(tmp_path, clock) as (expiry, manager):
        await expiry.expire()
        clock.wrong = 365
        for _ in range(29):
            clock.passed += 1
            await expiry.expire()
            assert dead(manager) == 1
        clock.passed += 2
        await expiry.expire()
        assert dead(manager) == 0


@pytest.mark.anyio
async def test_while_the_clock_is_behind_nothing_expires_for_it(tmp_path: Path) -> None:
    clock = Clock()
    async with keeping(tmp_path, clock) as (expiry, manager):
        clock.passed, clock.wrong = 31, -365
        await expiry.expire()
        assert dead(manager) == 1
        clock.wrong = 0
        await expiry.expire()
        assert dead(manager) == 0
