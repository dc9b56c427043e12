"""The daemon's side of reading: which child a job goes to, and what becomes of it when that child ends.

Nearly always there is one child, which all jobs share. When it ends, what it had not begun goes to the next one. What
it had begun may be what ended it: that is done once more in a child of its own, where it can harm nobody, and where
its end tells whose doing it is. A file over which a child ends twice is set aside; a request has no second chance, and
a proposal that ended a child before and ends one of its own all the same is not planned for a while.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.reading.allowances import Exhausted
from reconciler.reading.children import (
    COMMAND,
    SECONDS,
    Answered,
    Busy,
    Overdue,
    WorkerGone,
    WorkerProcess,
    WorkerSeconds,
    overdue,
)
from reconciler.reading.deaths import CrashMemory, RestartPace
from reconciler.reading.inflow import ChangeStream
from reconciler.reading.messages import CommitJob, Job, RequestJob, ReviewJob

__all__ = ["Answered", "Busy", "Overdue", "WorkerClient", "WorkerGone"]

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
        self, *, command: Sequence[str] = COMMAND, seconds: Mapping[type[Job], WorkerSeconds] = SECONDS
    ) -> None:
        self._command = command
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

    async def plan(self, job: Job, inflow: ChangeStream | None = None) -> Answered:
        """Have a job planned. The parts of its change go to `inflow`, which is the caller's, or wait in memory.

        Raises GitFault, Refused, Transient as the child says, ReaderGone when the job ends its child, Overdue when it
        takes too long, Busy when others do.
        """
        inflow = inflow or ChangeStream()
        if isinstance(job, CommitJob | ReviewJob):
            return await self._plan_commit(job, inflow)
        try:
            return await self._shared(job, inflow)
        except WorkerGone as gone:
            if not gone.begun or self._stopped.is_set() or not isinstance(job, RequestJob):
                raise
        async with self._turn(RequestJob), self._alone() as child:
            return await child.plan(next(self._numbers), job, inflow)

    async def stop(self) -> None:
        """End the children; jobs under way raise ReaderGone."""
        self._stopped.set()
        children = [*self._apart, *([] if self._child is None else [self._child])]
        await asyncio.gather(*(child.end() for child in children))

    @property
    def process_id(self) -> int | None:
        """The shared child's process, while there is one."""
        return None if self._child is None or self._child.has_ended else self._child.process.pid

    async def _plan_commit(self, job: CommitJob | ReviewJob, inflow: ChangeStream) -> Answered:
        refusal = self._memory.refusal(job, now=_now())
        if refusal is not None:
            raise Exhausted(refusal)
        try:
            answered = await self._commit(job, inflow)
        except Overdue:
            self._memory.suspect(job)
            raise
        except Exhausted as exhausted:
            self._memory.refuse(job, exhausted.message, now=_now())
            raise
        self._memory.trust(job)
        return answered

    async def _commit(self, job: CommitJob | ReviewJob, inflow: ChangeStream) -> Answered:
        if not self._memory.is_for_one_apart(job):
            try:
                return await self._shared(self._memory.prepared(job, careful=False), inflow)
            except WorkerGone as gone:
                if not gone.begun or self._stopped.is_set():
                    raise
            self._memory.suspect(job)
        async with self._turn(type(job)):
            return await (self._review(job, inflow) if isinstance(job, ReviewJob) else self._searched(job, inflow))

    async def _review(self, job: ReviewJob, inflow: ChangeStream) -> Answered:
        """Plan a proposal apart. Raises Exhausted where it ended a child before, not only what it is merged into."""
        was_suspect = self._memory.is_suspect(job)
        try:
            return await self._in_time(job, inflow)
        except (Overdue, WorkerGone) as end:
            if self._stopped.is_set() or (isinstance(end, WorkerGone) and not end.begun):
                raise
            self._memory.suspect(job)
            if was_suspect:
                raise Exhausted(ENDED) from end
            raise

    async def _in_time(self, job: ReviewJob, inflow: ChangeStream) -> Answered:
        """As `_searched`; whatever it ends, one proposal has the time of one. Raises Overdue."""
        seconds = self._seconds[ReviewJob].run
        try:
            async with asyncio.timeout(seconds):
                return await self._searched(job, inflow)
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

    async def _searched(self, job: CommitJob | ReviewJob, inflow: ChangeStream) -> Answered:
        """Plan a commit that ends children, without the files that do. Raises ReaderGone when it is no file."""
        for _ in range(MOST_ENDS - 1):
            try:
                return await self._carefully(job, inflow)
            except (WorkerGone, Overdue) as end:
                if not end.blob or self._stopped.is_set():
                    raise
                self._memory.ended_at(end.blob)
        return await self._carefully(job, inflow)

    async def _carefully(self, job: CommitJob | ReviewJob, inflow: ChangeStream) -> Answered:
        async with self._alone() as child:
            return await child.plan(next(self._numbers), self._memory.prepared(job, careful=True), inflow)

    async def _shared(self, job: Job, inflow: ChangeStream) -> Answered:
        """In the child of all, or the next one while a job was not begun."""
        for _ in range(MOST_STARTS - 1):
            child = await self._present()  # where none starts, the next will not either
            try:
                return await self._in(child, job, inflow)
            except WorkerGone as gone:
                if gone.begun or self._stopped.is_set():
                    raise
        return await self._in(await self._present(), job, inflow)

    async def _in(self, child: WorkerProcess, job: Job, inflow: ChangeStream) -> Answered:
        try:
            return await child.plan(next(self._numbers), job, inflow)
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
