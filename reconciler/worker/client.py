"""The client of the worker: which process gets a job, and what follows from a crash."""

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Generic, TypeVar

from msgspec.structs import replace

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.worker.messages import CommitJob, Exhausted, Job, RequestJob, ReviewJob
from reconciler.worker.process import (
    COMMAND,
    SECONDS,
    Answered,
    Busy,
    JobLock,
    Overdue,
    WorkerGone,
    WorkerProcess,
    WorkerSeconds,
    overdue,
)

__all__ = ["Answered", "Busy", "Overdue", "WorkerClient", "WorkerGone"]

# What the ends of reader children teach: which files, commits and proposals end one, and how long to wait with the
# next.

TWICE = 2  # ends of a child over one file, until the file is set aside
MOST_FILES = 1_000  # remembered, each by its blob: a file that changed is another one
MOST_COMMITS = 1_000
REFUSED_SECONDS = 3600.0  # until a commit that took more than one may is tried again, which may take minutes

WINDOW_SECONDS = 60.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 5.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Read = TypeVar("Read", bound=CommitJob | ReviewJob)

ANEW = frozenset({"context", "run", "full", "aside", "careful"})  # of a job: what each try has anew


class RecentCrashes(Generic[K, V]):
    """The latest few values by key; the oldest over `most` are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        """It is the newest from now on."""
        self._known.pop(key, None)
        self._known[key] = value
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]

    def drop(self, key: K) -> None:
        """Forget one."""
        self._known.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """All of them, the oldest first."""
        return list(self._known.items())


class CrashMemory:
    """Which files ended children, and which commits and proposals are read apart from all others for it."""

    def __init__(self) -> None:
        self._ends: RecentCrashes[str, int] = RecentCrashes(MOST_FILES)  # by blob
        self._suspects: RecentCrashes[Hashable, bool] = RecentCrashes(MOST_COMMITS)  # by what is read
        self._refused: RecentCrashes[Hashable, tuple[str, float]] = RecentCrashes(
            MOST_COMMITS
        )  # by what is read, and how

    def prepared(self, job: Read, *, careful: bool) -> Read:
        """The job, with the files that are set aside."""
        aside = frozenset(blob for blob, ends in self._ends.items() if ends >= TWICE)
        if isinstance(job, ReviewJob):
            return replace(job, commit=replace(job.commit, aside=aside, careful=careful))
        return replace(job, aside=aside, careful=careful)

    def ended_at(self, blob: str) -> None:
        """A child ended while it read this file, and nothing else was under way in it."""
        self._ends.put(blob, (self._ends.get(blob) or 0) + 1)

    def suspect(self, job: CommitJob | ReviewJob) -> None:
        """A child ended, or had to be ended, while it worked on this."""
        self._suspects.put(_head(job), True)

    def trust(self, job: CommitJob | ReviewJob) -> None:
        """It was planned to its end."""
        self._suspects.drop(_head(job))

    def is_suspect(self, job: CommitJob | ReviewJob) -> bool:
        """Return True if a worker ended, or had to be ended, while it worked on this."""
        return self._suspects.get(_head(job)) is not None

    def is_for_one_apart(self, job: CommitJob | ReviewJob) -> bool:
        """Return True if it is to be read in a worker of its own. A proposal is, too, if its base is: it holds most of
        it.
        """
        return self.is_suspect(job) or (isinstance(job, ReviewJob) and self.is_suspect(job.commit))

    def refuse(self, job: CommitJob | ReviewJob, message: str, *, now: float) -> None:
        """It took more than one may, or ends what reads it."""
        self._refused.put(_question(job), (message, now + REFUSED_SECONDS))

    def refusal(self, job: CommitJob | ReviewJob, *, now: float) -> str | None:
        """Why it need not be tried, while that is so. Read by other settings it is another question."""
        message, until = self._refused.get(_question(job)) or (None, now)
        return message if now < until else None


class RestartPace:
    """How long to wait before another child is started. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self.ends = 0
        self._latest: deque[float] = deque(maxlen=10)

    def ended(self, *, now: float) -> None:
        """A child ended unasked."""
        self.ends += 1
        self._latest.append(now)

    def pause(self, *, now: float) -> float:
        """Seconds from now: none after the first end within a minute, then a quarter, doubling up to five."""
        ends = sum(1 for end in self._latest if now - end < WINDOW_SECONDS)
        if ends < TWICE:
            return 0.0
        wait = min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** (ends - TWICE)))
        return max(0.0, self._latest[-1] + wait - now)


def _head(job: CommitJob | ReviewJob) -> Hashable:
    """Identify the commit, or the proposal whatever it is merged into."""
    if isinstance(job, ReviewJob):
        return ("proposal", job.commit.mirror, job.head, job.commit.path)
    return (job.mirror, job.commit, job.path)


def _question(job: CommitJob | ReviewJob) -> Hashable:
    """Identify what decides how much the job takes: the commit or proposal, the settings, and a proposal's base if all
    of it is read. It is read whole where a person chose it, or where it was read with other settings.
    """
    commit = job.commit if isinstance(job, ReviewJob) else job
    whole = (job.followed, commit.full) if isinstance(job, ReviewJob) else ()
    return (_head(job), *whole, *(getattr(commit, name) for name in commit.__struct_fields__ if name not in ANEW))


# The daemon's side of reading: which child a job goes to, and what becomes of it when that child ends.
#
# Nearly always there is one child, which all jobs share. When it ends, what it had not begun goes to the next one. What
# it had begun may be what ended it: that is done once more in a child of its own, where it can harm nobody, and where
# its end tells whose doing it is. A file over which a child ends twice is set aside; a request has no second chance,
# and a proposal that ended a child before and ends one of its own all the same is not planned for a while.

log = logging.getLogger(__name__)

MOST_STARTS = 10  # shared children that end before they begin a job, until its caller is told
MOST_ENDS = 20  # children that one commit may end in one run: ten files are found
ENDED = (
    "planning this ended the program that reads it, or kept it too long, also alone, and is not tried again for an"
    " hour; propose another commit, in smaller parts, and look in the service's log for what ended it"
)
STOPS = "The service stops; the work is tried again when it is started again."


class WorkerClient:
    """`start` and `stop` bracket its use; `plan` may be called by any number of tasks."""

    def __init__(
        self,
        *,
        granted: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
        seconds: Mapping[type[Job], WorkerSeconds] = SECONDS,
    ) -> None:
        """`granted`: the arguments of `child.main`, by which a child can open nothing else."""
        self._command = (*command, *granted)
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._child: WorkerProcess | None = None  # the shared one
        self._apart: set[WorkerProcess] = set()  # those that have one job
        self._starting = asyncio.Lock()
        self._unstarted: WorkerGone | None = None  # the latest start of the shared one that failed
        # So that there are three at most.
        self._turns: dict[type[Job], asyncio.Lock] = {
            sort: asyncio.Lock() for sort in (CommitJob, RequestJob, ReviewJob)
        }
        self._stopped = asyncio.Event()
        self._memory = CrashMemory()
        self._pace, self._pace_apart = RestartPace(), RestartPace()

    async def start(self) -> None:
        """Start the child, so that the first job does not wait for it."""
        await self._present()

    async def plan(self, job: Job) -> Answered:
        """Have a job planned that needs no lock, or whose lock the caller holds. Raises what `planned` raises."""
        return await self._plan(job, JobLock())

    @contextlib.asynccontextmanager
    async def planned(
        self, job: CommitJob | RequestJob, lock: Callable[[], AbstractAsyncContextManager[None]]
    ) -> AsyncIterator[Answered]:
        """Have a job planned. `lock` is taken when all is read that can be read without it, and held until the context
        ends. A worker that ends meanwhile releases it; the job is then begun anew.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone when the job ends its worker, Overdue when it
        takes too long, Busy when others do, and what the lock raises.
        """
        held = JobLock(lock)
        answered = await self._plan(job, held)
        try:
            yield answered
        finally:
            await held.release()

    async def _plan(self, job: Job, lock: JobLock) -> Answered:
        if isinstance(job, CommitJob | ReviewJob):
            return await self._plan_commit(job, lock)
        try:
            return await self._shared(job, lock)
        except WorkerGone as gone:
            if not gone.begun or self._stopped.is_set() or not isinstance(job, RequestJob):
                raise
        async with self._turn(RequestJob), self._alone() as child:
            return await child.plan(next(self._numbers), job, lock)

    async def stop(self) -> None:
        """End the children; jobs under way raise ReaderGone."""
        self._stopped.set()
        children = [*self._apart, *([] if self._child is None else [self._child])]
        await asyncio.gather(*(child.end() for child in children))

    @property
    def process_id(self) -> int | None:
        """The shared child's process, while there is one."""
        return None if self._child is None or self._child.has_ended else self._child.process.pid

    async def _plan_commit(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        refusal = self._memory.refusal(job, now=_now())
        if refusal is not None:
            raise Exhausted(refusal)
        try:
            answered = await self._commit(job, lock)
        except Overdue:
            self._memory.suspect(job)
            raise
        except Exhausted as exhausted:
            self._memory.refuse(job, exhausted.message, now=_now())
            raise
        self._memory.trust(job)
        return answered

    async def _commit(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        if not self._memory.is_for_one_apart(job):
            try:
                return await self._shared(self._memory.prepared(job, careful=False), lock)
            except WorkerGone as gone:
                if not gone.begun or self._stopped.is_set():
                    raise
            self._memory.suspect(job)
        async with self._turn(type(job)):
            return await (self._review(job, lock) if isinstance(job, ReviewJob) else self._searched(job, lock))

    async def _review(self, job: ReviewJob, lock: JobLock) -> Answered:
        """Plan a proposal apart. Raises Exhausted where it ended a child before, not only what it is merged into."""
        was_suspect = self._memory.is_suspect(job)
        try:
            return await self._in_time(job, lock)
        except (Overdue, WorkerGone) as end:
            if self._stopped.is_set() or (isinstance(end, WorkerGone) and not end.begun):
                raise
            self._memory.suspect(job)
            if was_suspect:
                raise Exhausted(ENDED) from end
            raise

    async def _in_time(self, job: ReviewJob, lock: JobLock) -> Answered:
        """As `_searched`; whatever it ends, one proposal has the time of one. Raises Overdue."""
        seconds = self._seconds[ReviewJob].run
        try:
            async with asyncio.timeout(seconds):
                return await self._searched(job, lock)
        except TimeoutError:
            log.warning("A proposal was given up: it took longer than %g seconds apart from all others.", seconds)
            raise overdue(seconds) from None

    @contextlib.asynccontextmanager
    async def _turn(self, sort: type[Job]) -> AsyncIterator[None]:
        """One job of a sort at a time has a child of its own. Raises Busy."""
        turn = self._turns[sort]
        try:
            async with asyncio.timeout(self._seconds[sort].wait):
                await turn.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            yield
        finally:
            turn.release()

    async def _searched(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        """Plan a commit that ends children, without the files that do. Raises ReaderGone when it is no file."""
        for _ in range(MOST_ENDS - 1):
            try:
                return await self._carefully(job, lock)
            except (WorkerGone, Overdue) as end:
                if not end.blob or self._stopped.is_set():
                    raise
                self._memory.ended_at(end.blob)
        return await self._carefully(job, lock)

    async def _carefully(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        async with self._alone() as child:
            return await child.plan(next(self._numbers), self._memory.prepared(job, careful=True), lock)

    async def _shared(self, job: Job, lock: JobLock) -> Answered:
        """In the child of all, or the next one while a job was not begun."""
        for _ in range(MOST_STARTS - 1):
            child = await self._present()  # where none starts, the next will not either
            try:
                return await self._in(child, job, lock)
            except WorkerGone as gone:
                if gone.begun or self._stopped.is_set():
                    raise
        return await self._in(await self._present(), job, lock)

    async def _in(self, child: WorkerProcess, job: Job, lock: JobLock) -> Answered:
        try:
            return await child.plan(next(self._numbers), job, lock)
        except GitFault as fault:
            if fault.state is RepositoryState.MIRROR_CORRUPT:
                # libgit2 keeps a pack that it has opened, by its path. A mirror that is made anew has the same packs at
                # the same paths: this child would go on reading the damaged ones, which are gone. What others have
                # under way there is done by the next child, as if it were not begun.
                await child.end()
            raise

    async def _present(self) -> WorkerProcess:
        """The shared child, or the next one. Raises ReaderGone, to all who wait for one start of it."""
        before = self._unstarted
        async with self._starting:
            if self._child is None or self._child.has_ended:
                if self._unstarted is not None and self._unstarted is not before:
                    raise WorkerGone(self._unstarted.message)
                try:
                    self._child = await self._start(self._pace)
                except WorkerGone as gone:
                    self._unstarted = WorkerGone(gone.message)
                    raise
            return self._child

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[WorkerProcess]:
        """A child for one job."""
        child = await self._start(self._pace_apart)
        self._apart.add(child)
        try:
            yield child
        finally:
            self._apart.discard(child)
            await child.end()

    async def _start(self, pace: RestartPace) -> WorkerProcess:
        """Another child, not too soon after the last one's end. Raises ReaderGone when there is none, or all stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pace.pause(now=_now())):
                await self._stopped.wait()
        if self._stopped.is_set():
            raise WorkerGone(STOPS)
        try:
            child = await WorkerProcess.start(self._command, seconds=self._seconds, unasked=partial(self._ended, pace))
        except OSError as error:
            why = error.strerror or str(error)
            self._ended(pace, f"The reader could not be started ({why})")
            remedy = "look at the machine's memory, and at its limits of processes"
            raise WorkerGone(f"The reader could not be started ({why}); {remedy}.") from error
        if self._stopped.is_set():  # by `stop`, which knows of this one only now
            await child.end()
            raise WorkerGone(STOPS)
        return child

    def _ended(self, pace: RestartPace, told: str) -> None:
        """A child ended and was not asked to."""
        pace.ended(now=_now())
        ends = self._pace.ends + self._pace_apart.ends
        log.warning("%s; it is started again when it is needed (%d so far).", told, ends, extra=_fields(ends))


def _fields(ends: int) -> dict[str, dict[str, int]]:
    return {"fields": {"readerEnds": ends}}


def _now() -> float:
    return asyncio.get_running_loop().time()
