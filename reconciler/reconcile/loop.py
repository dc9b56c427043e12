"""The loop of one repository: it waits for work, tick or stop."""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from reconciler.git.remotes.watching import WatchEnded, Watcher
from reconciler.model import log_context
from reconciler.reconcile import watched
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, Trigger
from reconciler.reconcile.watched import PollFailure, PollPace, WatchedRepository
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, DiskHangs, FileIdentity

# Whether a file with credentials changed since a repository was looked at: then a look that failed may succeed now.

LOOK_AGAIN_SECONDS = 2.0  # between two looks at the files

Facts: TypeAlias = tuple[FileIdentity | None, ...]  # None: it is not there, or cannot be reached


def credential_files(watched: WatchedRepository) -> tuple[Path, ...]:
    """Every file that decides whether the remote lets this service in, and whether it trusts what it gets."""
    signers = () if watched.signers_file is None else (watched.signers_file,)
    return watched.credentials.files() + signers


def file_facts(paths: Iterable[Path]) -> Facts:
    """What tells each file from any that takes its place. Links are followed: Kubernetes swaps one above the files."""
    return tuple(map(bounded_io.file_identity, paths))


class CredentialFiles:
    """Some files, which may stand on a disk that hangs."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths
        self._asking = BoundedIO("the files with credentials")

    async def facts(self) -> Facts:
        """The facts, within some seconds; those of files that cannot be reached when it takes longer, and at once as
        long as the disk hangs.
        """
        if not self.paths:
            return ()
        try:
            return await self._asking.answer(partial(file_facts, self.paths), seconds=LOOK_AGAIN_SECONDS)
        except DiskHangs:
            return (None,) * len(self.paths)


# The loop of one repository: it waits for work, tick or stop, whichever comes first, and reconciles.
#
# A push event, a file event and a poll all mean only "look again". The first event acts at once; what comes during a
# run becomes one more look, at the newest head only. While looks fail, events wait as `watched` says, and a person does
# not.

log = logging.getLogger(__name__)

WATCH_AGAIN_SECONDS = 30.0  # until watching is tried again after it failed; polling goes on meanwhile


class Loop:
    """One repository's queue of at most one run, and the tasks that serve it."""

    def __init__(self, reconciler: Reconciler, *, new_run: Callable[[Trigger, str], Run], watcher: Watcher) -> None:
        self.reconciler = reconciler
        self.queued: Run | None = None
        self.running: Run | None = None
        self.promised: list[Run] = []  # whose ids somebody holds, and that are still to be made
        self._new_run = new_run
        self._watcher = watcher
        self._work = asyncio.Event()
        self._stop = asyncio.Event()
        self._pace = PollPace(interval=reconciler.watched.interval, full_due=math.inf)
        self._due = 0.0  # when the next look is made if nothing happens
        self._files = CredentialFiles(credential_files(reconciler.watched))
        self._tasks: list[asyncio.Task[None]] = []
        self._explaining: asyncio.Task[None] | None = None

    def start(self, trigger: Trigger, *, promised: Sequence[Run] = ()) -> None:
        """Begin with one look, then go on until `stop`. `promised` are runs whose ids somebody holds."""
        self.promised = list(promised)
        self._next_promised()
        self.ask(trigger, actor="system")
        name = self.reconciler.watched.name
        self._tasks = [
            asyncio.create_task(self._serve(), name=f"reconcile-{name}", context=log_context.unbound()),
            asyncio.create_task(self._watch(), name=f"watch-{name}", context=log_context.unbound()),
        ]

    def again(self, trigger: Trigger) -> "Loop":
        """The same loop once more, after it was stopped. What was stored meanwhile is anybody's guess."""
        self.reconciler.forget()
        return self.further(trigger)

    def further(self, trigger: Trigger) -> "Loop":
        """The same loop once more, after it was stopped and its reconciler has recalled what is stored."""
        loop = Loop(self.reconciler, new_run=self._new_run, watcher=self._watcher)
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
        self._pace = replace(self._pace, full_due=self._next_full())
        while not self._stop.is_set():
            facts = await self._files.facts()  # before the look, so that no change during it is missed
            await self._run_queued(full=_now() >= self._pace.full_due)
            self._explain()
            await self._rest(facts)

    async def _rest(self, facts: Facts) -> None:
        """Wait until the next look is due, or something happens for which one may be made now."""
        delay = watched.poll_delay(self._pace, now=_now(), randomness=_randomness())
        # A suspension ends on time, but one whose end could not be stored waits like every failure.
        left = math.inf if self._pace.failures else self.reconciler.suspension_left
        self._due = _now() + min(delay, left)
        files = self._files if self._pace.failures and self._files.paths else None
        while (seconds := self._seconds_left()) > 0:
            with contextlib.suppress(TimeoutError):
                pause = seconds if files is None else min(seconds, LOOK_AGAIN_SECONDS)
                async with asyncio.timeout(pause):  # `wait_for` forgets a cancellation, before Python 3.12
                    await self._work.wait()
            self._work.clear()
            if files is not None and await files.facts() != facts:
                files = None  # the look that is asked for now covers whatever else changes until it begins
                self.ask(Trigger.WATCH, actor="system")
        if self.queued is None:
            self._pace = watched.at_poll(self._pace)
            self.ask(Trigger.RESUME if self.reconciler.suspension_is_over else Trigger.POLL, actor="system")

    def _seconds_left(self) -> float:
        """Until the next look, as far as is known; 0 when it is time, or to stop."""
        if self._stop.is_set():
            return 0.0
        if self.queued is None:
            return max(0.0, self._due - _now())
        return 0.0 if self.queued.trigger is Trigger.REQUEST else watched.held_delay(self._pace, now=_now())

    def _explain(self) -> None:
        """Search for lineage beside the runs that follow, when there is some to find and no search is under way."""
        if self.reconciler.lineage.is_due and (self._explaining is None or self._explaining.done()):
            name = f"explain-{self.reconciler.watched.name}"
            self._explaining = asyncio.create_task(self.reconciler.explain(), name=name)

    async def _run_queued(self, *, full: bool) -> None:
        self.running, self.queued = self.queued, None
        run = self.running
        if run is None:
            return
        try:
            with log_context.bind_run(run.id):
                failure = await self._reconcile(run, full=full)
        finally:
            self.running = None
        self._next_promised()
        asked = run.trigger is Trigger.REQUEST
        self._pace = watched.after_poll(self._pace, failure, now=_now(), asked=asked)
        if full and failure is None:
            self._pace = replace(self._pace, full_due=self._next_full())

    async def _reconcile(self, run: Run, *, full: bool) -> PollFailure | None:
        try:
            return await self.reconciler.reconcile(run, full=full)
        except Exception:
            # Nobody foresaw it, where not even a run can be recorded: the looks go on.
            log.exception(
                "The end of the run %s of %s met a fault of the program.", run.id, self.reconciler.watched.name
            )
            return PollFailure(may_pass=True)

    def _next_full(self) -> float:
        return _now() + self.reconciler.watched.full_interval * (1 - watched.JITTER * _randomness())

    async def _watch(self) -> None:
        """Turn file events into looks. Where watching is impossible, polling alone sees changes, later."""
        folder = self.reconciler.watched.source.folder
        if folder is None:
            return
        while not self._stop.is_set():
            try:
                async for _ in self._watcher.events(folder, stop=self._stop):
                    self.ask(Trigger.WATCH, actor="system")
            except WatchEnded as fault:
                log.debug("%s: %s", self.reconciler.watched.name, fault.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_AGAIN_SECONDS):
                    await self._stop.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _randomness() -> float:
    return random.random()  # noqa: S311 - spreads looks, no secret
