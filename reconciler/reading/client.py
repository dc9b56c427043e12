"""The daemon's side of reading: which child a job goes to, and what becomes of it when that child ends.

Nearly always there is one child, which all jobs share. When it ends, what it had not begun goes to the next one. What
it had begun may be what ended it: that is done once more in a child of its own, where it can harm nobody, and where
its end tells whose doing it is. A file over which a child ends twice is set aside; a request has no second chance.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from reconciler.git.faults import GitFault, State
from reconciler.reading.allowances import Exhausted
from reconciler.reading.children import COMMAND, SECONDS, Answered, Busy, Child, Overdue, ReaderGone, Seconds
from reconciler.reading.deaths import Memory, Pace
from reconciler.reading.inflow import Inflow
from reconciler.reading.messages import CommitJob, Job, RequestJob

__all__ = ["Answered", "Busy", "Overdue", "Reader", "ReaderGone"]

log = logging.getLogger(__name__)

MOST_STARTS = 10  # shared children that end before they begin a job, until its caller is told
MOST_ENDS = 20  # children that one commit may end in one run: ten files are found


class Reader:
    """`start` and `stop` bracket its use; `plan` may be called by any number of tasks."""

    def __init__(self, *, command: Sequence[str] = COMMAND, seconds: Mapping[type[Job], Seconds] = SECONDS) -> None:
        self._command = command
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._child: Child | None = None  # the shared one
        self._apart: set[Child] = set()  # those that have one job
        self._starting = asyncio.Lock()
        self._turns = {CommitJob: asyncio.Lock(), RequestJob: asyncio.Lock()}  # so that there are two at most
        self._stopped = asyncio.Event()
        self._memory = Memory()
        self._pace, self._pace_apart = Pace(), Pace()

    async def start(self) -> None:
        """Start the child, so that the first job does not wait for it."""
        await self._present()

    async def plan(self, job: Job, inflow: Inflow | None = None) -> Answered:
        """Have a job planned. The parts of its change go to `inflow`, which is the caller's, or wait in memory.

        Raises GitFault, Refused, Transient as the child says, ReaderGone when the job ends its child, Overdue when it
        takes too long, Busy when others do.
        """
        inflow = inflow or Inflow()
        if isinstance(job, CommitJob):
            return await self._plan_commit(job, inflow)
        try:
            return await self._shared(job, inflow)
        except ReaderGone as gone:
            if not gone.begun or self._stopped.is_set() or not isinstance(job, RequestJob):
                raise
        async with self._turns[RequestJob], self._alone() as child:
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

    async def _plan_commit(self, job: CommitJob, inflow: Inflow) -> Answered:
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

    async def _commit(self, job: CommitJob, inflow: Inflow) -> Answered:
        if not self._memory.is_suspect(job):
            try:
                return await self._shared(self._memory.prepared(job, careful=False), inflow)
            except ReaderGone as gone:
                if not gone.begun or self._stopped.is_set():
                    raise
            self._memory.suspect(job)
        async with self._turns[CommitJob]:
            return await self._searched(job, inflow)

    async def _searched(self, job: CommitJob, inflow: Inflow) -> Answered:
        """Plan a commit that ends children, without the files that do. Raises ReaderGone when it is no file."""
        for _ in range(MOST_ENDS - 1):
            try:
                return await self._carefully(job, inflow)
            except ReaderGone as gone:
                if not gone.blob or self._stopped.is_set():
                    raise
                self._memory.ended_at(gone.blob)
        return await self._carefully(job, inflow)

    async def _carefully(self, job: CommitJob, inflow: Inflow) -> Answered:
        async with self._alone() as child:
            return await child.plan(next(self._numbers), self._memory.prepared(job, careful=True), inflow)

    async def _shared(self, job: Job, inflow: Inflow) -> Answered:
        """In the child of all, or the next one while a job was not begun."""
        for _ in range(MOST_STARTS - 1):
            try:
                return await self._in(await self._present(), job, inflow)
            except ReaderGone as gone:
                if gone.begun or self._stopped.is_set():
                    raise
        return await self._in(await self._present(), job, inflow)

    async def _in(self, child: Child, job: Job, inflow: Inflow) -> Answered:
        try:
            return await child.plan(next(self._numbers), job, inflow)
        except GitFault as fault:
            if fault.state is State.MIRROR_CORRUPT:
                # libgit2 keeps a pack that it has opened, by its path. A mirror that is made anew has the same packs at
                # the same paths: this child would go on reading the damaged ones, which are gone.
                await child.end()
            raise

    async def _present(self) -> Child:
        async with self._starting:
            if self._child is None or self._child.has_ended:
                self._child = await self._start(self._pace)
            return self._child

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[Child]:
        """A child for one job."""
        child = await self._start(self._pace_apart)
        self._apart.add(child)
        try:
            yield child
        finally:
            self._apart.discard(child)
            await child.end()

    async def _start(self, pace: Pace) -> Child:
        """Another child, not too soon after the last one's end. Raises ReaderGone when all is to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pace.pause(now=_now())):
                await self._stopped.wait()
        if self._stopped.is_set():
            raise ReaderGone("The service stops; the work is tried again when it is started again.")

        def unasked(told: str) -> None:
            pace.ended(now=_now())
            ends = self._pace.ends + self._pace_apart.ends
            log.warning("%s; it is started again when it is needed (%d so far).", told, ends, extra=_fields(ends))

        return await Child.start(self._command, seconds=self._seconds, unasked=unasked)


def _fields(ends: int) -> dict[str, dict[str, int]]:
    return {"fields": {"readerEnds": ends}}


def _now() -> float:
    return asyncio.get_running_loop().time()
