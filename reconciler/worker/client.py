"""The client of the worker in the service: which process does a job, and the consequences of a crash.

Usually all jobs share one process. When it ends, the jobs that it had not begun go to the next one. A job that it had
begun may have ended it: that job is done once more in a process of its own, where it can harm no other, and where an
end shows its cause. A file over which a process ends twice is set aside. A commit or a proposal that ended a process is
read in one of its own until it is planned. Restarts are delayed after several ends within a minute.
"""

import asyncio
import contextlib
import itertools
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.worker.messages import CommitJob, Job, ReviewJob
from reconciler.worker.process import SECONDS, Answered, Lock, Overdue, WorkerGone, WorkerProcess, WorkerSeconds

log = logging.getLogger(__name__)

# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "import sys; from reconciler.worker.child import main; main(*sys.argv[1:])")
STOPS = "The service stops; the work is tried again when it is started again."
TWICE = 2  # ends of a process over one file, until the file is set aside
MOST_REMEMBERED = 1_000  # files, each by its blob; commits and proposals
MOST_STARTS = 10  # shared processes that end before they begin a job, until its caller is told
MOST_ENDS = 20  # processes that one commit may end in one run: ten files are found
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 2.0  # before the next start, after a second end within a WINDOW


class CrashMemory:
    """The files that ended processes, and the commits and proposals that are read apart from all others for it."""

    def __init__(self) -> None:
        self._ends: dict[Hashable, int] = {}  # of processes, by blob
        self._suspects: dict[Hashable, int] = {}  # the same, by `_head`

    @property
    def aside(self) -> frozenset[str]:
        """The files that are set aside."""
        return frozenset(str(blob) for blob, ends in self._ends.items() if ends >= TWICE)

    def ended_at(self, blob: str) -> None:
        """A process ended while it read this file, and nothing else was under way in it."""
        self._count(self._ends, blob)

    def suspect(self, job: Job) -> None:
        """A process ended, or had to be ended, while it worked on this."""
        if isinstance(job, CommitJob | ReviewJob):
            self._count(self._suspects, _head(job))

    def _count(self, ends: dict[Hashable, int], key: Hashable) -> None:
        """Count one more; the oldest over the limit is forgotten."""
        ends[key] = ends.pop(key, 0) + 1
        if len(ends) > MOST_REMEMBERED:
            del ends[next(iter(ends))]

    def trust(self, job: Job) -> None:
        """It was planned to its end."""
        self._suspects.pop(_head(job), None)

    def is_suspect(self, job: Job) -> bool:
        """Return True if a process ended, or had to be ended, while it worked on this."""
        return _head(job) in self._suspects


def _head(job: Job) -> Hashable:
    """Identify the commit, or the proposal whatever it is merged into. Other jobs are not remembered."""
    if isinstance(job, ReviewJob):
        return ("proposal", job.commit.mirror, job.head, job.commit.rules.path)
    return (job.mirror, job.commit, job.rules.path) if isinstance(job, CommitJob) else None


class WorkerClient:
    """`start` and `stop` bracket its use; `plan` may be called by any number of tasks."""

    def __init__(
        self,
        *,
        granted: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
        seconds: Mapping[type[Job], WorkerSeconds] = SECONDS,
    ) -> None:
        """`granted`: the arguments of `child.main`, by which a process can open nothing else."""
        self.memory = CrashMemory()
        self._command = (*command, *granted)
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._ends = 0  # of processes that were not asked to
        self._latest_ends: deque[float] = deque(maxlen=TWICE)  # instants of the loop's clock
        self._shared: WorkerProcess | None = None
        self._starting: asyncio.Task[WorkerProcess] | None = None  # the shared one
        self._apart: set[WorkerProcess] = set()  # those that have one job
        # One job of a sort at a time has a process of its own.
        self._turns = {sort: asyncio.Lock() for sort in self._seconds}
        # A commit takes much memory and time: the next one is read when its plan is made.
        self._commits = asyncio.Lock()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Start the shared process, so that the first job does not wait for it."""
        await self._present()

    async def stop(self) -> None:
        """End the processes; jobs under way raise WorkerGone."""
        self._stopped.set()
        children = [*self._apart, *([] if self._shared is None else [self._shared])]
        await asyncio.gather(*(child.end() for child in children))
        if self._starting is not None:
            await asyncio.wait({self._starting})  # it ends a process that it starts meanwhile

    @property
    def process_id(self) -> int | None:
        """The id of the shared process, while there is one."""
        return None if self._shared is None or self._shared.has_ended else self._shared.process_id

    async def plan(self, job: Job) -> Answered:
        """Have a job planned that needs no lock, or whose lock the caller holds. Raises what `planned` raises."""
        async with AsyncExitStack() as held:
            return await self._plan(job, contextlib.nullcontext, held)

    @contextlib.asynccontextmanager
    async def planned(self, job: Job, lock: Lock) -> AsyncIterator[Answered]:
        """Have a job planned. `lock` is taken when all is read that can be read without it, and held until the context
        ends. A worker that ends meanwhile releases it; the job is then begun anew.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone when the job ends its worker, Overdue when it
        takes too long, Busy when others do, and what the lock raises.
        """
        async with AsyncExitStack() as held:
            yield await self._plan(job, lock, held)

    async def _plan(self, job: Job, lock: Lock, held: AsyncExitStack) -> Answered:
        if not self.memory.is_suspect(job):
            try:
                async with self._commits if isinstance(job, CommitJob) else contextlib.nullcontext():
                    return await self._plan_shared(job, lock, held)
            except Overdue:
                self.memory.suspect(job)
                raise
            except WorkerGone as gone:
                if not gone.begun or self._stopped.is_set():
                    raise
                self.memory.suspect(job)
        async with self._turns[type(job)]:
            answered = await self._search(job, lock, held)
        self.memory.trust(job)
        return answered

    async def _search(self, job: Job, lock: Lock, held: AsyncExitStack) -> Answered:
        """Plan a job apart from all others, without the files that end the process. Raises WorkerGone when it is no
        file, Overdue.
        """
        ends = 0
        while True:
            child = await self._start()
            self._apart.add(child)
            try:
                number, aside = next(self._numbers), self.memory.aside
                return await child.plan(number, job, lock=lock, held=held, aside=aside, careful=True)
            except (WorkerGone, Overdue) as end:
                ends += 1
                if not end.blob or ends == MOST_ENDS or self._stopped.is_set():
                    raise
                self.memory.ended_at(end.blob)
            finally:
                self._apart.discard(child)
                await child.end()

    async def _plan_shared(self, job: Job, lock: Lock, held: AsyncExitStack) -> Answered:
        """Plan a job in the shared process, or in the next one while it was not begun."""
        starts = 0
        while True:
            child = await self._present()  # where none starts, the next will not either
            starts += 1
            try:
                return await child.plan(next(self._numbers), job, lock=lock, held=held, aside=self.memory.aside)
            except WorkerGone as gone:
                if gone.begun or self._stopped.is_set() or starts == MOST_STARTS:
                    raise
            except GitFault as fault:
                if fault.state is RepositoryState.MIRROR_CORRUPT:
                    # libgit2 keeps a pack that it has opened, by its path. A mirror that is made anew has the same
                    # packs at the same paths: this process would go on reading the damaged ones, which are gone. What
                    # others have under way there is done by the next one, as if it were not begun.
                    await child.end()
                raise

    async def _present(self) -> WorkerProcess:
        """Return the shared process, or the next one. Raises WorkerGone, to all who wait for one start of it."""
        if self._shared is not None and not self._shared.has_ended:
            return self._shared
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_shared(), name="worker-shared")
        return await asyncio.shield(self._starting)

    async def _start_shared(self) -> WorkerProcess:
        self._shared = await self._start()
        return self._shared

    async def _start(self) -> WorkerProcess:
        """Start another process, not too soon after the last one's end. Raises WorkerGone if it fails, or all stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_start()):
                await self._stopped.wait()
        if self._stopped.is_set():
            raise WorkerGone(STOPS)
        try:
            child = await WorkerProcess.start(self._command, seconds=self._seconds, unasked=self._ended)
        except OSError as error:
            told = f"The worker could not be started ({error.strerror or error})"
            self._ended(told)
            raise WorkerGone(f"{told}; look at the machine's memory, and at its limits of processes.") from error
        if self._stopped.is_set():  # by `stop`, which knows of this one only now
            await child.end()
            raise WorkerGone(STOPS)
        return child

    def _next_start(self) -> float:
        """Return when another process may be started: at once after the first end within a minute."""
        is_often = len(self._latest_ends) == TWICE and self._latest_ends[0] + WINDOW_SECONDS > _now()
        return self._latest_ends[-1] + PAUSE_SECONDS if is_often else _now()

    def _ended(self, told: str) -> None:
        """Note a process that ended and was not asked to."""
        self._ends += 1
        self._latest_ends.append(_now())
        fields = {"fields": {"readerEnds": self._ends}}
        log.warning("%s; it is started again when it is needed (%d so far).", told, self._ends, extra=fields)


def _now() -> float:
    return asyncio.get_running_loop().time()
