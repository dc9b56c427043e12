"""The client of the worker in the service: it chooses the process for each job, and handles crashes.

Usually all jobs share one process. When it ends, the jobs that it had not begun go to the next one. A job that it had
begun may have crashed it. This job is repeated in a process of its own, where it cannot harm others, and where a crash
shows the cause. A file that crashes a process twice is set aside. A commit or a proposal that crashed a process gets
its own process until it is planned. Restarts are delayed after several crashes within a minute.
"""

import asyncio
import contextlib
import itertools
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.worker.messages import CommitJob, Connect, Job, ReviewJob, tag_of
from reconciler.worker.process import SECONDS, Answered, Lock, Overdue, WorkerGone, WorkerProcess, WorkerSeconds
from reconciler.worker.sandbox import Protections

log = logging.getLogger(__name__)

# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "import sys; from reconciler.worker.child import main; main(*sys.argv[1:])")
STOPS = "The service stops; the work is tried again when it is started again."
TWICE = 2  # crashes by one file until it is set aside
MOST_REMEMBERED = 1_000  # files, each by its blob; commits and proposals
MOST_STARTS = 10  # shared processes that end before they begin a job; then its caller gets the error
MOST_ENDS = 20  # crashes by one commit in one run: enough to find ten files
WINDOW_SECONDS = 60.0
PAUSE_SECONDS = 2.0  # before the next start, after a second end within a WINDOW


class CrashMemory:
    """The files that crashed processes, and the commits and proposals that get a process of their own for that."""

    def __init__(self) -> None:
        self._ends: dict[Hashable, int] = {}  # of processes, by blob
        self._suspects: dict[Hashable, int] = {}  # the same, by `_head`

    @property
    def aside(self) -> frozenset[str]:
        """The files that are set aside."""
        return frozenset(str(blob) for blob, ends in self._ends.items() if ends >= TWICE)

    def ended_at(self, blob: str) -> None:
        """Record that a process ended while it read this file and did nothing else."""
        self._count(self._ends, blob)

    def suspect(self, job: Job) -> None:
        """Record that a process crashed, or was stopped at a time limit, during this job."""
        if isinstance(job, CommitJob | ReviewJob):
            self._count(self._suspects, _head(job))

    def _count(self, ends: dict[Hashable, int], key: Hashable) -> None:
        """Add one, and forget the oldest entry above the limit."""
        ends[key] = ends.pop(key, 0) + 1
        if len(ends) > MOST_REMEMBERED:
            del ends[next(iter(ends))]

    def trust(self, job: Job) -> None:
        """Forget the crashes of a job that is planned now."""
        self._suspects.pop(_head(job), None)

    def is_suspect(self, job: Job) -> bool:
        """Return True if a process crashed, or was stopped at a time limit, during this job."""
        return _head(job) in self._suspects


def _head(job: Job) -> Hashable:
    """Return the identity of the job's commit or proposal; None for other jobs, which are not remembered.

    The base of a proposal does not matter.
    """
    if isinstance(job, ReviewJob):
        return ("proposal", job.commit.mirror, job.head, job.commit.rules.path)
    return (job.mirror, job.commit, job.rules.path) if isinstance(job, CommitJob) else None


class WorkerClient:
    """Plans jobs in worker processes. Call `start` first and `stop` last; many tasks may call `plan` at once."""

    def __init__(
        self,
        *,
        granted: Sequence[str] = (),
        connection: str = "",
        command: Sequence[str] = COMMAND,
        seconds: Mapping[type[Job], WorkerSeconds] = SECONDS,
        confined: Callable[[Protections], object] = bool,
    ) -> None:
        """Set it up. `granted` are the arguments of `child.main`, which say what a process may open. `connection` is
        how a process connects to a store on a server. `confined` is called with the protections of each process.
        """
        self.memory = CrashMemory()
        self._command = (*command, *granted)
        self._connection = connection
        self._seconds = seconds
        self._confined = confined
        self._numbers = itertools.count(1)
        self._ends = 0  # of processes that were not told to end
        self._latest_ends: deque[float] = deque(maxlen=TWICE)  # instants of the loop's clock
        self._shared: WorkerProcess | None = None
        self._starting: asyncio.Task[WorkerProcess] | None = None  # the shared one
        self._apart: set[WorkerProcess] = set()  # those that have one job
        # One job of each kind at a time has a process of its own.
        self._turns = {kind: asyncio.Lock() for kind in self._seconds}
        # A commit takes much memory and time, so they are planned one at a time.
        self._commits = asyncio.Lock()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Start the shared process, so that the first job does not wait for it."""
        await self._present()

    async def stop(self) -> None:
        """End the processes; jobs in progress raise WorkerGone."""
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
        """Plan a job that needs no lock, or whose lock the caller holds. Raises what `planned` raises."""
        async with AsyncExitStack() as held:
            return await self._plan(job, contextlib.nullcontext, held)

    @contextlib.asynccontextmanager
    async def planned(self, job: Job, lock: Lock) -> AsyncIterator[Answered]:
        """Plan a job. It takes `lock` when it has read everything that needs no lock, and holds it until the context
        ends. If the worker crashes, the lock is released and the job starts again.

        Raises GitFault, Refused and Transient as the worker says, WorkerGone if the job crashes its worker, StoreFault
        if the worker has no connection to the store, Overdue if it takes too long, Busy if other jobs do, and what the
        lock raises.
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
            answered = await self._plan_apart(job, lock, held)
        self.memory.trust(job)
        return answered

    async def _plan_apart(self, job: Job, lock: Lock, held: AsyncExitStack) -> Answered:
        """Plan a job in a process of its own, without the files that crash it. Raises Overdue, and WorkerGone for a
        crash that no file caused.
        """
        ends = 0
        while True:
            child = await self._start([type(job)])
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
        """Plan a job in the shared process, or in the next one if the first ended before it began the job."""
        starts = 0
        while True:
            child = await self._present()  # if this fails, another attempt would fail too
            starts += 1
            try:
                return await child.plan(next(self._numbers), job, lock=lock, held=held, aside=self.memory.aside)
            except WorkerGone as gone:
                if gone.begun or self._stopped.is_set() or starts == MOST_STARTS:
                    raise
                await asyncio.sleep(0.1)  # a process that is ending is the present one for a moment
            except GitFault as fault:
                if fault.state is RepositoryState.MIRROR_CORRUPT:
                    # libgit2 keeps opened packs by their paths, and a mirror that is made again has the same paths. So
                    # this process would continue to read the damaged packs. Other jobs in it are repeated by the next
                    # process.
                    await child.end()
                raise

    async def _present(self) -> WorkerProcess:
        """Return the shared process, and start it if there is none. All who wait for a start get its WorkerGone."""
        if self._shared is not None and not self._shared.has_ended:
            return self._shared
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_shared(), name="worker-shared")
        return await asyncio.shield(self._starting)

    async def _start_shared(self) -> WorkerProcess:
        self._shared = await self._start(list(self._seconds))
        return self._shared

    async def _start(self, jobs: Sequence[type[Job]]) -> WorkerProcess:
        """Start a process for these kinds of jobs, after a pause if others ended. Raises WorkerGone if that fails or
        the client stops.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._next_start()):
                await self._stopped.wait()
        if self._stopped.is_set():
            raise WorkerGone(STOPS)
        connect = Connect(self._connection, tuple(map(tag_of, jobs))) if self._connection else None
        try:
            child = await WorkerProcess.start(
                self._command, seconds=self._seconds, unasked=self._ended, connect=connect
            )
        except OSError as error:
            told = f"The worker could not be started ({error.strerror or error})"
            self._ended(told)
            raise WorkerGone(f"{told}; look at the machine's memory, and at its limits of processes.") from error
        child.protections.add_done_callback(lambda told: told.cancelled() or self._confined(told.result()))
        if self._stopped.is_set():  # during the start, so that `stop` did not know of this process
            await child.end()
            raise WorkerGone(STOPS)
        return child

    def _next_start(self) -> float:
        """Return when another process may start: at once, or after a pause if two ended within a minute."""
        is_often = len(self._latest_ends) == TWICE and self._latest_ends[0] + WINDOW_SECONDS > _now()
        return self._latest_ends[-1] + PAUSE_SECONDS if is_often else _now()

    def _ended(self, told: str) -> None:
        """Count and log a process that ended without having been told to."""
        self._ends += 1
        self._latest_ends.append(_now())
        fields = {"fields": {"readerEnds": self._ends}}
        log.warning("%s; it is started again when it is needed (%d so far).", told, self._ends, extra=fields)


def _now() -> float:
    return asyncio.get_running_loop().time()
