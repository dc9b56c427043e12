"""The loop of one repository: it waits for an event, the next poll or a stop, and reconciles.

A push event, a file event and a poll all mean only "poll now". The first event acts at once. Events during a run become
one more run, at the newest head only. While runs fail, events wait, but requests of people do not.

Failing polls are bounded twice. Each failure in a row doubles the delay of the next poll. And a WINDOW has at most MOST
failing polls, whatever triggers them (pushes, file events, rewritten files of credentials). So a failing remote gets
fewer than ten requests a minute: a poll makes three at most. A request of a person is not delayed. After a correction
(new credentials, or a hook with a valid signature) a poll comes at once, at most MOST times in a WINDOW.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from reconciler.git.faults import GitFault
from reconciler.git.remotes.watching import WatchEnded, Watcher
from reconciler.model import log_context
from reconciler.model.errors import ReconcilerError, Transient
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, Trigger
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, DiskHangs, FileIdentity
from reconciler.store.contract import LeaseLost

log = logging.getLogger(__name__)

# Times of polls: pure decisions. Times are seconds on a monotonic clock.

FIRST_RETRY = 2.0
LONGEST_RETRY = 600.0  # jitter included
JITTER = 0.1  # of a delay, so that many repositories do not try again together
MOST = 3  # failing polls in a WINDOW; each makes up to three requests
MOST_LOCAL = 4  # the same for a repository on this machine, whose polls make no requests
WINDOW = 60.0
DOUBLINGS = 20  # more make no difference, and would overflow a float


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPace:
    """The record of a repository's polls since its loop began.

    `phase` is the repository's offset within each interval, so that repositories that start together are not polled
    together.
    """

    interval: float
    full_due: float  # when everything is read again
    phase: float = 0.0
    failures: int = 0  # in a row
    may_pass: bool = True  # the last failure may end without a correction
    most: int = MOST  # failing polls in a WINDOW
    ended: tuple[float, ...] = ()  # when the last failing polls ended, at most `most`
    corrected: tuple[float, ...] = ()  # when the last corrections were acted on, at most MOST
    left_until: float = 0.0  # the time from the remote's Retry-After


def after_poll(pace: PollPace, fault: ReconcilerError | None, *, now: float, asked: bool = False) -> PollPace:
    """Return the pace after a poll that ended now; a success ends a row of failures.

    A poll that a person `asked` for does not lengthen the delay, so repeated attempts cost no waiting.
    """
    if fault is None:
        return replace(pace, failures=0, ended=(), corrected=(), left_until=0.0)
    git_fault = fault if isinstance(fault, GitFault) else None
    # To find that no fetch can get a head takes seven requests.
    counted = MOST if git_fault is not None and git_fault.of_head and pace.most == MOST else 1
    return replace(
        pace,
        failures=max(1, pace.failures + (not asked)),
        may_pass=isinstance(fault, Transient) if git_fault is None else git_fault.transient,
        ended=(*pace.ended, *[now] * counted)[-pace.most :],
        left_until=now + ((git_fault and git_fault.retry_after) or 0.0),
    )


def poll_delay(pace: PollPace, *, now: float, randomness: float) -> float:
    """Return the seconds until the next poll if nothing happens, at least 0. `randomness` is from 0 up to 1.

    After a failure that may pass, the delay doubles from two seconds to ten minutes, however short the interval. After
    one that only a person can correct, it doubles from the interval to ten minutes, or stays at a longer interval. It
    is never less than the remote asked for. Otherwise a poll comes once in each interval, or at the next full read.
    """
    if pace.failures:
        wait = max(_backoff(pace), pace.left_until - now)
        return max(wait + JITTER * randomness * min(wait, LONGEST_RETRY), event_delay(pace, now=now))
    return max(0.0, min(pace.interval - (now - pace.phase) % pace.interval, pace.full_due - now))


def event_delay(pace: PollPace, *, now: float, is_correction: bool = False) -> float:
    """Return the seconds for which an event waits: 0 unless polls fail. A person's request does not wait.

    A correction waits only for other corrections, and for as long as the remote asked.
    """
    before, most = (pace.corrected, MOST) if is_correction else (pace.ended, pace.most)
    window_ends = before[0] + WINDOW if len(before) == most else now
    return max(0.0, window_ends - now, pace.left_until - now)


def _backoff(pace: PollPace) -> float:
    first = FIRST_RETRY if pace.may_pass else max(FIRST_RETRY, pace.interval)
    longest = LONGEST_RETRY / (1 + JITTER) if pace.may_pass else max(LONGEST_RETRY / (1 + JITTER), pace.interval)
    return min(first * float(2 ** min(pace.failures - 1, DOUBLINGS)), longest)


CREDENTIALS_SECONDS = 2.0  # between two checks of the files with credentials, while runs fail
WATCH_AGAIN_SECONDS = 30.0  # until watching is tried again after it failed; polling goes on meanwhile

Identities: TypeAlias = tuple[FileIdentity | None, ...]  # None: the file is missing, or cannot be reached


class Loop:
    """The queue of runs of one repository, and its tasks. It can start again after a stop.

    The queue holds at most one run, which covers all events until it begins. After a stop it may hold several requested
    runs, because the callers have their ids.
    """

    def __init__(self, reconciler: Reconciler, *, new_run: Callable[[Trigger, str], Run], watcher: Watcher) -> None:
        self.reconciler = reconciler
        self.queue: list[Run] = []
        self.running: Run | None = None
        self._new_run = new_run
        self._watcher = watcher
        self._work = asyncio.Event()
        self._stop = asyncio.Event()
        self._pace = PollPace(interval=reconciler.watched.interval, full_due=math.inf)
        self._credentials = BoundedIO("the files with credentials")
        self._tasks: list[asyncio.Task[None]] = []
        self._is_unexplained = asyncio.Event()  # there may be lineage to search
        self._is_corrected = False  # credentials changed, or a hook came, since the last run began

    def start(self, trigger: Trigger) -> None:
        """Begin with one run, then continue until `stop`. Queued runs that are not stored yet are merged into it."""
        self._work, self._stop = asyncio.Event(), asyncio.Event()
        watched = self.reconciler.watched
        self._pace = PollPace(
            interval=watched.interval,
            full_due=self._next_full(),
            phase=_now() + watched.interval * _randomness(),
            most=MOST_LOCAL if self.reconciler.source.is_local else MOST,
        )
        self.queue = [run for run in self.queue if run.id != self.reconciler.memory.last_run]
        self.ask(trigger, actor="system")
        name = self.reconciler.watched.name
        self.reconciler.group.begin(name)  # all that start together are one change
        self._tasks = [
            asyncio.create_task(self._serve(), name=f"reconcile-{name}", context=log_context.unbound()),
            asyncio.create_task(self._watch(), name=f"watch-{name}", context=log_context.unbound()),
            asyncio.create_task(self._explain(), name=f"explain-{name}", context=log_context.unbound()),
        ]

    def ask(self, trigger: Trigger, *, actor: str) -> Run:
        """Return the run that will cover everything up to now: the queued one, or a new one. A request has priority."""
        if not self.queue:
            self.queue.append(self._new_run(trigger, actor))
        run = self.queue[-1]
        if trigger is Trigger.REQUEST or (trigger is Trigger.STORE and not run.is_requested):
            run.trigger, run.actor = trigger, actor
        self._is_corrected = self._is_corrected or trigger is Trigger.HOOK
        self._work.set()
        return run

    def join(self) -> None:
        """Begin a run at once to take part in a commit of the group, unless one is under way or runs fail."""
        is_waiting = self._tasks and not self._stop.is_set() and self.running is None
        if is_waiting and not self._pace.failures:
            self.reconciler.group.begin(self.reconciler.watched.name)
            self.ask(Trigger.POLL, actor="system")

    async def stop(self) -> None:
        """End all tasks. A run in progress is cancelled; only what it committed has happened.

        Requested runs stay in the queue, for the next start or for the loop that replaces this one.
        """
        self._stop.set()
        running = [] if self.running is None else [self.running.again()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.reconciler.group.end(self.reconciler.watched.name)
        self.queue = [run for run in running + self.queue if run.is_requested]

    @property
    def is_resting(self) -> bool:
        """True if no run is under way or queued."""
        return self.running is None and not self.queue

    async def _serve(self) -> None:
        while not self._stop.is_set():
            identities = await self._identities()  # before the run, so that no change during it is missed
            await self._run()
            if not self._stop.is_set():
                await self._rest(identities)

    async def _run(self) -> None:
        self.running = run = self.queue.pop(0)  # `start` and `_rest` leave one
        run.full = is_full_due = _now() >= self._pace.full_due
        if self._is_corrected:
            self._is_corrected = False
            self._pace = replace(self._pace, corrected=(*self._pace.corrected, _now())[-MOST:])
        try:
            with log_context.bind_run(run.id):
                await self.reconciler.reconcile(run)
            fault = run.fault
        except LeaseLost as lost:
            log.info("%s: %s", self.reconciler.watched.name, lost.message)
            self._stop.set()  # `stop` follows when this replica hears who has the lease
            return
        except Exception:
            # A bug, and no run could be recorded: the loop continues.
            fault = Transient("The run could not be recorded.")
            name = self.reconciler.watched.name
            log.exception("The end of the run %s of %s met a fault of the program.", run.id, name)
        finally:
            self.running = None
        if run.trigger is Trigger.START or (run.planned is not None and run.planned.unexplained):
            self._is_unexplained.set()
        self._pace = after_poll(self._pace, fault, now=_now(), asked=run.is_requested)
        if is_full_due and fault is None:
            self._pace = replace(self._pace, full_due=self._next_full())

    async def _rest(self, identities: Identities) -> None:
        """Wait until the next poll is due, or an event allows a run now."""
        due = _now() + poll_delay(self._pace, now=_now(), randomness=_randomness())
        if not self._pace.failures:  # the end of a suspension that could not be stored waits like every failure
            due = min(due, _now() + self.reconciler.suspension_left)
        checks_credentials = self._pace.failures > 0 and bool(identities)
        while (seconds := self._seconds_left(due)) > 0:
            with contextlib.suppress(TimeoutError):
                pause = min(seconds, CREDENTIALS_SECONDS) if checks_credentials else seconds
                async with asyncio.timeout(pause):  # `wait_for` forgets a cancellation, before Python 3.12
                    await self._work.wait()
            self._work.clear()
            if checks_credentials and await self._identities() != identities:
                checks_credentials = False  # the run asked for now covers whatever else changes until it begins
                self._is_corrected = True
                self.ask(Trigger.WATCH, actor="system")
        if not self.queue:
            self.ask(Trigger.POLL if self.reconciler.suspension_left else Trigger.RESUME, actor="system")

    def _seconds_left(self, due: float) -> float:
        if self._stop.is_set():
            return 0.0
        if not self.queue:
            return max(0.0, due - _now())
        if self.queue[0].is_requested:
            return 0.0
        return event_delay(self._pace, now=_now(), is_correction=self._is_corrected)

    async def _watch(self) -> None:
        """Turn file events into runs. If watching is impossible, only polls find changes."""
        folder = self.reconciler.source.folder
        while folder is not None:
            try:
                async for _ in self._watcher.events(folder, stop=self._stop):
                    self.ask(Trigger.WATCH, actor="system")
            except WatchEnded as fault:
                log.debug("%s: %s", self.reconciler.watched.name, fault.message)
            await asyncio.sleep(WATCH_AGAIN_SECONDS)

    async def _explain(self) -> None:
        while True:
            await self._is_unexplained.wait()
            self._is_unexplained.clear()
            await self.reconciler.explain()

    def _next_full(self) -> float:
        return _now() + self.reconciler.watched.full_interval * (1 - JITTER * _randomness())

    async def _identities(self) -> Identities:
        """Return the identities of the files with credentials and trust, to detect replacements.

        Links are followed, because Kubernetes replaces a link above the files. A disk that hangs costs some seconds
        once, and nothing more while it hangs.
        """
        signers = self.reconciler.watched.verify.signers_file
        files = self.reconciler.source.credentials.files() + (() if signers is None else (signers,))
        if not files:
            return ()
        try:
            return await self._credentials.answer(
                lambda: tuple(map(bounded_io.file_identity, files)), seconds=CREDENTIALS_SECONDS
            )
        except DiskHangs:
            return (None,) * len(files)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _randomness() -> float:
    return random.random()  # noqa: S311 - spreads polls, no secret
