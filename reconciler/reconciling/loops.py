"""The loop of one repository: it waits for work, tick or stop, whichever comes first, and reconciles.

A push event, a file event and a poll all mean only "look again". The first event acts at once; what comes during a run
becomes one more look, at the newest head only.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.git import watching
from reconciler.git.watching import WatchEnded
from reconciler.reconciling import pacing
from reconciler.reconciling.pacing import Pace
from reconciler.reconciling.reconciler import Reconciler
from reconciler.reconciling.runs import Run, Trigger

log = logging.getLogger(__name__)

WATCH_AGAIN = 30.0  # seconds until watching is tried again after it failed; polling goes on meanwhile


class Loop:
    """One repository's queue of at most one run, and the tasks that serve it."""

    def __init__(self, reconciler: Reconciler, *, new_run: Callable[[Trigger, str], Run]) -> None:
        self.reconciler = reconciler
        self.queued: Run | None = None
        self.running: Run | None = None
        self.promised: list[Run] = []  # whose ids somebody holds, and that are still to be made
        self._new_run = new_run
        self._work = asyncio.Event()
        self._stop = asyncio.Event()
        self._failures = 0
        self._full_due = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._explaining: asyncio.Task[None] | None = None

    def start(self, trigger: Trigger, *, promised: Sequence[Run] = ()) -> None:
        """Begin with one look, then go on until `stop`. `promised` are runs whose ids somebody holds."""
        self.promised = list(promised)
        self._next_promised()
        self.ask(trigger, actor="system")
        name = self.reconciler.watched.name
        self._tasks = [
            asyncio.create_task(self._serve(), name=f"reconcile-{name}"),
            asyncio.create_task(self._watch(), name=f"watch-{name}"),
        ]

    def again(self, trigger: Trigger) -> "Loop":
        """The same loop once more, after it was stopped. What was stored meanwhile is anybody's guess."""
        self.reconciler.forget()
        return self.further(trigger)

    def further(self, trigger: Trigger) -> "Loop":
        """The same loop once more, after it was stopped and its reconciler has recalled what is stored."""
        loop = Loop(self.reconciler, new_run=self._new_run)
        loop.start(trigger, promised=self.kept_promises(self.reconciler.last_run))
        return loop

    def kept_promises(self, last_run: str | None) -> list[Run]:
        """The promised runs for the loop that takes this one's place: all, unless one was stored at the last moment."""
        return [run for run in self.promised if run.id != last_run]

    def _next_promised(self) -> None:
        if self.queued is None and self.promised:
            self.queued = self.promised.pop(0)
            self._work.set()

    def ask(self, trigger: Trigger, *, actor: str) -> Run:
        """The run that will cover everything up to now: the queued one, or a new one. A person's wish outranks."""
        if self._stop.is_set() and trigger is Trigger.REQUEST:
            if self.promised:
                return self.promised[-1]  # it begins after this moment, so it covers this wish too
            self.promised.append(self._new_run(trigger, actor))  # for the loop that takes this one's place
            return self.promised[-1]
        if self.queued is None:
            self.queued = self._new_run(trigger, actor)
        elif trigger is Trigger.REQUEST or (trigger is Trigger.STORE and self.queued.trigger is not Trigger.REQUEST):
            self.queued.trigger, self.queued.actor = trigger, actor
        self._work.set()
        return self.queued

    async def stop(self) -> None:
        """End both tasks; a run under way is cancelled, and what it had not committed did not happen."""
        self._stop.set()
        self._work.set()
        asked = [run for run in (self.running, self.queued) if run is not None and run.trigger is Trigger.REQUEST]
        tasks = self._tasks if self._explaining is None else [*self._tasks, self._explaining]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for run in asked:
            run.started = run.commit = None
        self.promised = asked + self.promised

    async def _serve(self) -> None:
        clock = asyncio.get_running_loop().time
        self._full_due = clock() + self.reconciler.watched.full_interval
        while not self._stop.is_set():
            await self._run_queued(full=clock() >= self._full_due)
            self._explain()
            pace = Pace(self.reconciler.watched.interval, self._failures, self._full_due)
            delay = pacing.delay(pace, now=clock(), randomness=random.random())  # noqa: S311 - spreads polls, no secret
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._work.wait(), min(delay, self.reconciler.suspension_left))
            if not self._work.is_set():
                self.ask(Trigger.RESUME if self.reconciler.suspension_is_over else Trigger.POLL, actor="system")

    def _explain(self) -> None:
        """Search for lineage beside the runs that follow, when there is some to find and no search is under way."""
        if self.reconciler.lineage.is_due and (self._explaining is None or self._explaining.done()):
            name = f"explain-{self.reconciler.watched.name}"
            self._explaining = asyncio.create_task(self.reconciler.explain(), name=name)

    async def _run_queued(self, *, full: bool) -> None:
        self._work.clear()
        self.running, self.queued = self.queued, None
        if self.running is None:
            return
        try:
            went_well = await self.reconciler.reconcile(self.running, full=full)
        finally:
            self.running = None
        self._next_promised()
        self._failures = 0 if went_well else self._failures + 1
        if full and went_well:
            spread = 1 - pacing.JITTER * random.random()  # noqa: S311 - spreads full reads, no secret
            interval = self.reconciler.watched.full_interval * spread
            self._full_due = asyncio.get_running_loop().time() + interval

    async def _watch(self) -> None:
        """Turn file events into looks. Where watching is impossible, polling alone sees changes, later."""
        path = self.reconciler.watched.local_path
        if path is None:
            return
        while not self._stop.is_set():
            try:
                async for _ in watching.events(Path(path), stop=self._stop):
                    self.ask(Trigger.WATCH, actor="system")
            except WatchEnded as fault:
                log.debug("%s: %s", self.reconciler.watched.name, fault.message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), WATCH_AGAIN)
