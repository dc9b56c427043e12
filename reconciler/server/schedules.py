"""Work at intervals, and the upkeep of the audit. The only module that imports APScheduler.

The upkeep writes refused attempts, logs the head of the chain, and removes events past their retention.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from reconciler.auth.rate_limits import RefusedAttempts
from reconciler.model import errors
from reconciler.model.audit_chain import ZERO, ChainAnchor, ChainHead
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.text import counted
from reconciler.replicas.work import ALONE, Work
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import AuditRow, ResourceChange

log = logging.getLogger(__name__)


MINUTE = 60.0
STOP_SECONDS = 5.0  # for cancelled work to come to its end


class Job(NamedTuple):
    """Work at an interval. It starts after a number of seconds."""

    name: str
    seconds: float
    work: Callable[[], Awaitable[object]]


@asynccontextmanager
async def scheduled(*jobs: Job) -> AsyncIterator[None]:
    """Do the jobs inside this context, then cancel them. A job never overlaps itself, and an error does not end it.

    Missed work is not repeated. After the clock was set back, work is due again at once.
    """
    # In UTC, since it would look for the machine's time zone otherwise. Late work is done once, however late.
    scheduler = AsyncIOScheduler(
        timezone=UTC, job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    )
    running: set[asyncio.Task[None]] = set()
    for job in jobs:
        scheduler.add_job(_do, _FromNow(timedelta(seconds=job.seconds)), args=(job, running), name=job.name)
    scheduler.start()
    mending = asyncio.create_task(_mend(scheduler, jobs), name="schedules")
    try:
        yield
    finally:
        mending.cancel()
        scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # that happens in a callback of the loop
        if running:
            await asyncio.wait(running, timeout=STOP_SECONDS)


async def _mend(scheduler: AsyncIOScheduler, jobs: Sequence[Job]) -> None:
    """Do overdue work now: APScheduler waits for times of the machine's clock, which was set back."""
    intervals = {job.name: timedelta(seconds=job.seconds) for job in jobs}
    while True:
        await asyncio.sleep(min((job.seconds for job in jobs), default=MINUTE))
        now = datetime.now(UTC)
        for one in scheduler.get_jobs():
            if one.next_run_time - now > 2 * intervals[one.name]:
                one.modify(next_run_time=now)


class _FromNow(BaseTrigger):  # type: ignore[misc] # APScheduler has no types
    """Fire an interval after the present time, however many intervals were missed.

    APScheduler's own trigger adds the interval to the previous time: after a jump of the clock it walks through every
    missed time (9 s without the event loop for 40 days at one second).
    """

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval

    def get_next_fire_time(self, _: datetime | None, now: datetime) -> datetime:
        return now + self._interval


async def _do(job: Job, running: set[asyncio.Task[None]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    running.add(task)
    task.add_done_callback(running.discard)
    try:
        await job.work()
    except errors.ReconcilerError as problem:
        log.warning("The work on %s is left until the next time: %s", job.name, problem.message)
    except Exception:
        log.exception("The work on %s met a fault of the program; it is done again the next time.", job.name)


RETENTION_SECONDS = 600.0  # between two removals of what is over
NOTHING = ChainAnchor(ChainHead(0, ZERO))  # was removed so far
PAUSE_SECONDS = 0.02  # between two steps: others write in between


class AuditUpkeep:
    """The upkeep of one store's audit."""

    def __init__(
        self, store: Store, refusals: RefusedAttempts, *, retention: float, clock: Clock, work: Work = ALONE
    ) -> None:
        """`retention` in seconds."""
        self._store = store
        self.refusals = refusals
        self._retention = retention
        self._clock = clock
        self._work = work
        self._said: ChainHead | None = None
        self._said_anchor = NOTHING
        self._writing = asyncio.Lock()
        self._ran = asyncio.Event()
        self._waiting: tuple[AuditRow, ...] = ()  # which the disk did not take

    async def keep(self) -> None:
        """Do the upkeep until cancelled; then write the remaining refused attempts."""
        try:
            async with scheduled(
                Job("audit", MINUTE, self.minute), Job("audit-retention", RETENTION_SECONDS, self.forget)
            ):
                while True:
                    await self.say()
                    await self._ran.wait()
                    self._ran.clear()
        finally:
            await self.minute()

    def heard(self, told: ResourceChange) -> None:
        """Handle a change of resources: after a run of this replica the head is logged at once."""
        if told.origin is not None and not told.is_remote:
            self._ran.set()

    async def minute(self) -> None:
        """Write refused attempts, and log the head if it changed."""
        # A write continues when its caller is cancelled: a second one would write the same again.
        await asyncio.shield(asyncio.create_task(self._write_refused(), name="refused attempts"))
        await self.say()

    async def _write_refused(self) -> None:
        async with self._writing:
            # If some wait, the counts go on, in as much memory as before.
            self._waiting = self._waiting or tuple(self.refusals.taken(self._clock()))
            if not self._waiting:
                return
            try:
                await self._store.tell(self._waiting)
            except StoreFault as fault:
                log.warning("Which attempts were refused is not in the audit yet. %s", fault.message)
            else:
                self._waiting = ()

    async def say(self) -> None:
        """Log the beginning and end of the audit if they changed. A copy of the line elsewhere proves their content."""
        try:
            anchor, head = await self._store.audit_ends()
        except StoreFault as fault:
            log.warning("The audit's head is not known: %s", fault.message)
            return
        self._say_anchor(anchor)
        if head != self._said:
            self._said = head
            fields = {"auditLink": head.number, "auditHash": head.hash.hex()}
            log.info("The audit's head is %s.", head, extra={"fields": fields})

    def _say_anchor(self, anchor: ChainAnchor) -> None:
        """Log the anchor after each move, and at a start, because a killed service may have missed the last move."""
        if anchor == self._said_anchor:
            return
        self._said_anchor = anchor
        number, hashed = anchor.head
        log.info(
            "The audit's anchor is %s: %s went so far, up to number %d, the last of %s.",
            anchor.head,
            counted(anchor.events, "event"),
            anchor.last_event,
            anchor.last_at or "an unknown time",
            extra={"fields": {"auditAnchor": number, "auditAnchorHash": hashed.hex(), "auditGone": anchor.events}},
        )

    async def forget(self) -> None:
        """Remove links past their retention, a step at a time, if it is this replica's turn. Raises StoreFault."""
        before = rfc3339(self._clock() - timedelta(seconds=self._retention))
        is_more = True
        while is_more and self._work.is_mine:
            is_more = await self._store.forget_events(before=before)
            anchor, _ = await self._store.audit_ends()
            self._say_anchor(anchor)
            await asyncio.sleep(PAUSE_SECONDS)
