"""Work that comes round: dead letters that expire, what is kept for a time. The one door of APScheduler's scheduler.

    schedules = Schedules()
    schedules.every(600.0, expire, name="dead-letters")
    schedules.start()
    ...
    await schedules.stop()

Belongs here: when work is done, and that it neither overlaps itself nor ends the rest. Does not: the work; looking at
repositories and trying a delivery again, which wait for more than a time.

What a process missed while it was not running is not made up for: whoever adds work has it done once by hand if that
matters.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import TypeAlias

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from reconciler.model import errors

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0  # for work that was cancelled to come to its end

Work: TypeAlias = Callable[[], Awaitable[object]]


class Schedules:
    """Used from one event loop; work may be added before and after the start."""

    def __init__(self) -> None:
        # In UTC, since it would look for the machine's time zone otherwise. Late work is done once, however late.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        )
        self._running: dict[str, asyncio.Task[None]] = {}

    def every(self, seconds: float, work: Work, *, name: str) -> None:
        """Do something again and again, for the first time after so many seconds. Of one name the last one counts."""

        async def run() -> None:
            if name not in self._running:
                task = self._running[name] = asyncio.create_task(_done(work, name), name=name)
                task.add_done_callback(lambda _: self._running.pop(name))

        trigger = IntervalTrigger(seconds=seconds, timezone=UTC)
        self._scheduler.add_job(run, trigger, id=name, name=name, replace_existing=True)

    def start(self) -> None:
        """Begin, on the running loop."""
        self._scheduler.start()

    async def stop(self) -> None:
        """Begin nothing more, and cancel what runs."""
        self._scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # that happens in a callback of the loop
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=STOP_SECONDS)


async def _done(work: Work, name: str) -> None:
    try:
        await work()
    except errors.ReconcilerError as problem:
        log.warning("The work on %s is left until the next time: %s", name, problem.message)
    except Exception:
        log.exception("The work on %s met a fault of the program; it is done again the next time.", name)
