"""Work at intervals, on a real loop: it never overlaps itself, and neither its faults nor the clock end it."""

import asyncio
import itertools
import logging
from datetime import datetime, timedelta, tzinfo

import pytest
from apscheduler.schedulers import base

from reconciler.model import errors
from reconciler.server import schedules
from reconciler.server.schedules import Job, scheduled

pytestmark = pytest.mark.anyio

SOON = 0.01  # seconds
PATIENCE = 20.0  # seconds, until a test is given up
FAR = timedelta(days=40)


class Often:
    """Work that counts how often it was begun, and does something else each time."""

    def __init__(self, *ends: Exception | None) -> None:
        self.begun = 0
        self._ends = ends
        self._moved = asyncio.Condition()

    async def __call__(self) -> None:
        async with self._moved:
            self.begun += 1
            self._moved.notify_all()
        end = self._ends[self.begun - 1] if self.begun <= len(self._ends) else None
        if end is not None:
            raise end

    async def times(self, number: int) -> None:
        async with self._moved:
            async with asyncio.timeout(PATIENCE):
                await self._moved.wait_for(lambda: self.begun >= number)


class Clock(datetime):
    """The clock of the machine, which somebody sets."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "Clock":
        return super().now(tz) + cls.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "ahead", timedelta())
    for one in (base, schedules):
        monkeypatch.setattr(one, "datetime", Clock)
    return Clock


async def test_work_is_done_at_its_interval_until_it_is_cancelled() -> None:
    work = Often()
    async with scheduled(Job("work", SOON, work)):
        assert work.begun == 0
        await work.times(3)
    begun = work.begun
    await asyncio.sleep(5 * SOON)
    assert work.begun == begun


async def test_a_clock_that_jumps_forward_stops_neither_the_loop_nor_the_work(clock: type[Clock]) -> None:
    work = Often()
    loop = asyncio.get_running_loop()
    async with scheduled(Job("work", 1.0, work)):
        clock.ahead = FAR
        turns = [loop.time()]
        while work.begun < 2:
            await asyncio.sleep(SOON)
            turns.append(loop.time())
    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) < 5.0
    assert turns[-1] - turns[0] < PATIENCE


async def test_a_clock_that_is_set_back_delays_no_work(clock: type[Clock]) -> None:
    work = Often()
    async with scheduled(Job("work", SOON, work)):
        clock.ahead = FAR
        await work.times(2)
        clock.ahead = timedelta()
        begun = work.begun
        await work.times(begun + 3)


async def test_work_that_fails_is_logged_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    work = Often(errors.Transient("The disk is full."), RuntimeError("odd"))
    with caplog.at_level(logging.INFO):
        async with scheduled(Job("dead-letters", SOON, work)):
            await work.times(4)
    told = [record for record in caplog.records if record.name.startswith("reconciler")]
    assert [(record.levelname, record.getMessage()) for record in told] == [
        ("WARNING", "The work on dead-letters is left until the next time: The disk is full."),
        ("ERROR", "The work on dead-letters met a fault of the program; it is done again the next time."),
    ]


async def test_work_never_overlaps_itself_and_is_cancelled_by_the_end() -> None:
    begun, cancelled = 0, 0
    other = Often()

    async def slow() -> None:
        nonlocal begun, cancelled
        begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise

    async with scheduled(Job("slow", SOON, slow), Job("other", SOON, other)):
        await other.times(10)
        assert (begun, cancelled) == (1, 0)
    assert (begun, cancelled) == (1, 1)
