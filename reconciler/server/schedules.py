"""Scheduled jobs, and the upkeep of the audit; the only module that imports APScheduler."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from typing import Protocol, TypeAlias

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from reconciler.auth.rate_limits import RefusedAttempts
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.text import counted
from reconciler.store.audit_chain import ZERO, ChainAnchor, ChainHead
from reconciler.store.contract import AuditRow, Store, StoreFault

# Work that comes round: dead letters that expire, what is kept for a time. The one door of APScheduler's scheduler.
#
#     schedules = Schedules()
#     schedules.every(600.0, expire, name="dead-letters")
#     schedules.start()
#     ...
#     await schedules.stop()
#
# What a process missed while it was not running is not made up for: whoever adds work has it done once by hand if that
# matters.

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


# What the audit needs beside the transactions that write it: refused attempts written down, the head said in the log,
# and the end of what is kept.

MINUTE = 60.0
RETENTION_SECONDS = 600.0  # between two looks for what is over
NOTHING = ChainAnchor(ChainHead(0, ZERO))  # went so far
PAUSE_SECONDS = 0.02  # between two steps: others write in between


class AuditTold(Protocol):
    """What is told of a change of resources: which repository's run it was; None for a request."""

    @property
    def origin(self) -> str | None: ...


class AuditUpkeep:
    """The upkeep of one store's audit."""

    def __init__(self, store: Store, refusals: RefusedAttempts, *, retention: float, clock: Clock) -> None:
        """`retention` in seconds."""
        self._store = store
        self.refusals = refusals
        self._retention = retention
        self._clock = clock
        self._said: ChainHead | None = None
        self._said_anchor = NOTHING
        self._writing = asyncio.Lock()
        self._ran = asyncio.Event()
        self._waiting: tuple[AuditRow, ...] = ()  # which the disk did not take

    async def keep(self) -> None:
        """All of it, until cancelled; what was refused until then is written."""
        schedules = Schedules()
        schedules.every(MINUTE, self.minute, name="audit")
        schedules.every(RETENTION_SECONDS, self.forget, name="audit-retention")
        schedules.start()
        try:
            while True:
                await self.say()
                await self._ran.wait()
                self._ran.clear()
        finally:
            await schedules.stop()
            await self.minute()

    def heard(self, told: AuditTold) -> None:
        """Resources changed: after a run the head is said at once."""
        if told.origin is not None:
            self._ran.set()

    async def minute(self) -> None:
        """Write the attempts that were refused, and say the head where it is another one."""
        # Whoever is cancelled leaves a write that goes on: one that is begun anew would write the same once more.
        await asyncio.shield(asyncio.create_task(self._write_refused(), name="refused attempts"))
        await self.say()

    async def _write_refused(self) -> None:
        async with self._writing:
            if not self._waiting:  # else the counts go on, in as much memory as before
                self._waiting = tuple(self.refusals.taken(self._clock()))
            if not self._waiting:
                return
            try:
                await self._store.tell(self._waiting)
            except StoreFault as fault:
                log.warning("Which attempts were refused is not in the audit yet. %s", fault.message)
            else:
                self._waiting = ()

    async def say(self) -> None:
        """Say in the log where the audit begins and ends, when that changed since: kept elsewhere, it proves what the
        store held.
        """
        try:
            anchor, head = await self._store.audit_anchor(), await self._store.audit_head()
        except StoreFault as fault:
            log.warning("The audit's head is not known: %s", fault.message)
            return
        self._say_anchor(anchor)
        if head != self._said:
            self._said = head
            fields = {"auditLink": head.number, "auditHash": head.hash.hex()}
            log.info("The audit's head is %s.", head, extra={"fields": fields})

    def _say_anchor(self, anchor: ChainAnchor) -> None:
        """After each move, and at a start: a service that was killed may have said nothing of the last one."""
        if anchor == self._said_anchor:
            return
        self._said_anchor = anchor
        number, hashed = anchor.head
        fields = {"auditAnchor": number, "auditAnchorHash": hashed.hex(), "auditGone": anchor.events}
        log.info(
            "The audit's anchor is %s: %s went so far, up to number %d, the last of %s.",
            anchor.head,
            counted(anchor.events, "event"),
            anchor.last_event,
            anchor.last_at or "an unknown time",
            extra={"fields": fields},
        )

    async def forget(self) -> None:
        """Remove the oldest links whose time is over, a step at a time. Raises StoreFault."""
        before = rfc3339(self._clock() - timedelta(seconds=self._retention))
        is_more = True
        while is_more:
            is_more = await self._store.forget_events(before=before)
            self._say_anchor(await self._store.audit_anchor())
            await asyncio.sleep(PAUSE_SECONDS)
