"""The client of the worker in the service: the processes, the limits of their jobs, and the consequences of a crash.

Usually all jobs share one process. When it ends, the jobs that it had not begun go to the next one. A job that it had
begun may have ended it: that job is done once more in a process of its own, where it can harm no other, and where an
end shows its cause. A file over which a process ends twice is set aside. A request gets no further attempt. A proposal
that ended a process before, and ends one of its own, is refused for a while. Restarts are delayed after several ends
within a minute.

A begun job keeps the others of its lane waiting until it is answered, so it has its limits even if its caller is gone.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, log_context
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import messages
from reconciler.worker.messages import CommitJob, Exhausted, Job, RequestJob, ReviewJob

log = logging.getLogger(__name__)

# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "import sys; from reconciler.worker.child import main; main(*sys.argv[1:])")
# It gets only the variables that libraries need: our environment contains secrets.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")
STOP_SECONDS = 2.0  # for each step of an end: to end by itself, to be killed
GIBIBYTE = 2**30
CHANGE_BYTES = GIBIBYTE  # of one change, which waits in memory until it is written
TOO_LARGE = "This would change more than {} GiB at once; commit or send it in parts."
STOPS = "The service stops; the work is tried again when it is started again."

_changes = msgspec.msgpack.Decoder(Changes)


@dataclass(frozen=True, slots=True)
class WorkerSeconds:
    """The limits of one job; None where there is none.

    `wait`: until it is begun. `run`: from then until it is ready for its lock, or answered. `locked`: from the moment
    that it has the lock until its change is stored. `file`: over one file, where the job says which one it reads.
    """

    run: float
    wait: float | None = None
    file: float | None = None
    locked: float | None = None


# The processor time of a commit ends well before this, so that only what hangs gets so far. Requests share one lane:
# one that takes a minute keeps all others from their answers. The largest file takes some seconds.
SECONDS: Mapping[type[Job], WorkerSeconds] = {
    messages.CommitJob: WorkerSeconds(run=900.0, locked=300.0, file=60.0),
    messages.RequestJob: WorkerSeconds(run=60.0, locked=60.0, wait=60.0),
    messages.LineageJob: WorkerSeconds(run=900.0),
    messages.RedactJob: WorkerSeconds(run=300.0, wait=60.0),
    messages.RoutesJob: WorkerSeconds(run=300.0),
    messages.ReviewJob: WorkerSeconds(run=300.0, wait=60.0, file=60.0),
    messages.CompareJob: WorkerSeconds(run=60.0, wait=60.0),
}


class WorkerGone(errors.Transient):
    """The process ended before it answered. `begun`: it had begun the job; `blob`: while it read this file."""

    def __init__(self, message: str, *, begun: bool = False, blob: str = "") -> None:
        super().__init__(message)
        self.begun = begun
        self.blob = blob


class Overdue(errors.Transient):
    """The job, or the file `blob` in it, took longer than so many seconds, and its process was ended for it."""

    def __init__(self, seconds: float, blob: str = "") -> None:
        what = f"Reading the file that Git knows as {blob}" if blob else "The work"
        remedy = "mend it or take it out" if blob else "do it in parts"
        super().__init__(f"{what} took longer than {seconds:g} seconds and was given up; {remedy}.")
        self.blob = blob


class Busy(errors.Transient):
    """The job was not begun in time: others take all there is."""

    def __init__(self) -> None:
        super().__init__("The service is busy with other requests; try again in a moment.")


class JobLock:
    """The lock that a job needs once it is `Ready`. The caller of the plan releases it."""

    def __init__(self, lock: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext) -> None:
        self._lock = lock
        self._held = contextlib.AsyncExitStack()

    async def acquire(self) -> None:
        """Wait for the lock. Raises what the lock raises."""
        await self._held.enter_async_context(self._lock())

    async def release(self) -> None:
        """Release the lock if it is held."""
        await self._held.aclose()


@dataclass(slots=True)
class Answered:
    """A planned job and the parts of its change, in bytes. Until `locked_until`, an instant of the loop's clock, they
    may be stored; None for a job that took no lock of its own.
    """

    planned: messages.Planned
    locked_until: float | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)  # see `Part`

    def parts(self) -> Iterator[Changes]:
        """Yield the parts, once, each decoded and forgotten when it is asked for: by the thread that writes them."""
        while self.changes:
            yield _changes.decode(self.changes.popleft())


class WorkerLog:
    """Logs what the worker writes to standard error, as Python or a library does when it ends the process.

    It is escaped and bounded: a worker that was taken over could otherwise act on the operator's terminal, or forge log
    lines.
    """

    MOST_LINES = 200
    LONGEST_BYTES = 4_000  # of one line

    def __init__(self) -> None:
        self._rest = b""
        self._left = self.MOST_LINES

    def feed(self, data: bytes) -> None:
        """Log the lines that end in this piece of text."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.LONGEST_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in [line for line in lines if line.strip()][: self._left]:
            self._left -= 1
            more = "" if self._left else "; what else it says is not logged"
            told = line[: self.LONGEST_BYTES].decode("utf-8", "backslashreplace")
            log.error("The worker said: %s%s", told, more)


@dataclass(slots=True)
class _Waiting:
    """An unanswered job. When its future is done, its caller does not wait any more."""

    future: "asyncio.Future[messages.Planned]"
    tag: str
    seconds: WorkerSeconds
    is_sent: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # or over
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # for its lock, or over
    is_at_work: bool = False  # the process may end by its doing: it is begun, and does not wait for its lock
    locked_until: float | None = None
    blob: str = ""
    limit: asyncio.TimerHandle | None = None
    file_limit: asyncio.TimerHandle | None = None
    overdue: Overdue | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)
    size: int = 0  # of these, in bytes

    def end_limits(self) -> None:
        """Stop the timers."""
        for limit in (self.limit, self.file_limit):
            if limit is not None:
                limit.cancel()

    def take(self, part: messages.Part) -> None:
        """Keep a part, or end the job when it is one too many."""
        if self.future.done():
            return
        self.size += len(part.changes)
        if self.size > CHANGE_BYTES:
            self.fail(errors.Refused(TOO_LARGE.format(CHANGE_BYTES // GIBIBYTE)))
        else:
            self.changes.append(part.changes)

    def fail(self, fault: Exception) -> None:
        """Tell the caller, if it still waits."""
        self.changes.clear()
        if not self.future.done():
            self.future.set_exception(fault)

    def over(self, found: messages.Planned | Exception) -> None:
        """End the job: the process is done with it."""
        self.end_limits()
        if isinstance(found, Exception):
            self.fail(found)
        elif not self.future.done():
            self.future.set_result(found)
        self.begun.set()
        self.ready.set()


class WorkerProcess(asyncio.SubprocessProtocol):
    """One process and the jobs that wait for it. It is never restarted: the client starts another."""

    def __init__(self, *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]) -> None:
        """`unasked` is called when it ends without having been told to."""
        self._seconds = seconds
        self._unasked: Callable[[str], None] | None = unasked
        self._is_asked = False
        self._is_over = False
        self._waiting: dict[int, _Waiting] = {}
        self._received = bytearray()  # the beginning of an answer
        self._log = WorkerLog()
        self._context = log_context.unbound()
        self._sending = asyncio.Lock()
        self._has_room, self._is_closed = asyncio.Event(), asyncio.Event()
        self._has_room.set()
        self._ending: asyncio.Task[None] | None = None
        self._transport: asyncio.SubprocessTransport

    @classmethod
    async def start(
        cls, command: Sequence[str], *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]
    ) -> "WorkerProcess":
        """Start one. Raises OSError."""
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        child = cls(seconds=seconds, unasked=unasked)
        await asyncio.get_running_loop().subprocess_exec(
            lambda: child,
            *command,
            env=environment,
            start_new_session=True,  # an interrupt at the terminal is the daemon's to handle
        )
        return child

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._transport.get_pid()

    @property
    def has_ended(self) -> bool:
        """Return True if it takes no more jobs, and its end was told if it ended by itself."""
        return self._is_asked or self._is_over

    @property
    def _can_be_told(self) -> bool:
        return not self._input.is_closing() and self._transport.get_returncode() is None

    @property
    def _input(self) -> asyncio.WriteTransport:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop when the process is started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pause_writing(self) -> None:
        """Called by the loop when the pipe is full."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        """Called by the loop when the pipe has room again."""
        self._has_room.set()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take answers from standard output, and log standard error."""
        # Neither is part of the request that started the process.
        self._context.run(self._log.feed if fd == 2 else self._feed, data)

    def _feed(self, data: bytes) -> None:
        self._received += data
        try:
            while not self._is_over and (frame := messages.take_frame(self._received)) is not None:
                self._take(messages.reply(frame))
        except (msgspec.DecodeError, ValueError):
            self._end_soon()  # this is no answer, so nothing else that it says counts
        except Exception:  # an answer that nests too deeply, for instance
            log.exception("An answer of the worker met a fault that nobody foresaw.")
            self._end_soon()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """End the process when it takes no more orders, or gives no more answers."""
        if fd == 2:
            self._context.run(self._log.feed, b"\n")
        else:
            self._end_soon()

    def process_exited(self) -> None:
        """Called by the loop when the process has ended; what it started may keep its pipes open."""
        self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by the loop when the process has ended and all its output was read."""
        self._is_closed.set()

    async def plan(self, number: int, job: Job, lock: JobLock) -> Answered:
        """Have a job planned, with its lock from when it is ready. The lock is held when this returns.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone, Overdue, Busy, and what the lock raises.
        """
        if self.has_ended:
            raise WorkerGone("The worker ended before it took the work; the work is tried again.")
        future: asyncio.Future[messages.Planned] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[number] = _Waiting(future, messages.tag_of(job), self._seconds[type(job)])
        try:
            await self._begin(waiting, messages.Envelope(number, __version__, job))
            await waiting.ready.wait()
            if not future.done():
                await lock.acquire()
                self._proceed(number, waiting)
            return Answered(await future, waiting.locked_until, waiting.changes)
        except BaseException:
            waiting.changes.clear()
            if not waiting.is_sent:
                self._waiting.pop(number, None)
            elif waiting.ready.is_set() and not waiting.is_at_work:
                self._abandon(number, waiting)
            await lock.release()
            raise
        finally:
            if not future.cancel() and not future.cancelled():
                future.exception()  # nobody else may ask for it, and asyncio would complain of that

    async def _begin(self, waiting: _Waiting, envelope: messages.Envelope) -> None:
        """Send a job, and wait until it is begun or over. Raises Busy."""
        # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the answer.
        try:
            async with asyncio.timeout(waiting.seconds.wait):
                async with self._sending:
                    # A job whose caller is gone is sent to its end nevertheless, since no frame may be cut. The next
                    # one waits for that: if a worker reads nothing, at most one job is in our memory.
                    await self._has_room.wait()
                    if self._can_be_told:
                        waiting.is_sent = True
                        self._input.write(messages.framed(envelope))
                        await self._has_room.wait()
                await waiting.begun.wait()
        except TimeoutError:
            raise Busy from None

    def _proceed(self, number: int, waiting: _Waiting) -> None:
        """Have the worker go on with a job that has its lock."""
        # The worker may have ended meanwhile, or be ending: then nothing can be sent, and `_over` says so.
        if not waiting.future.done() and self._can_be_told:
            waiting.is_at_work = True
            seconds = waiting.seconds.locked or waiting.seconds.run
            waiting.locked_until = _now() + seconds
            waiting.limit = self._limit(waiting, seconds)
            self._input.write(messages.framed(messages.Proceed(number, waiting.tag)))

    def _abandon(self, number: int, waiting: _Waiting) -> None:
        """Drop a job that waits for its lock: its caller is gone."""
        if self._can_be_told and self._waiting.pop(number, None) is not None:
            self._input.write(messages.framed(messages.Abandon(number, waiting.tag)))

    def _take(self, reply: messages.Reply) -> None:
        """Take an answer. Raises ValueError if it makes no sense."""
        waiting, answer = self._waiting.get(reply.number), reply.answer
        if waiting is None:
            return  # it is answered already
        match answer:
            case messages.Begun():
                if not waiting.begun.is_set():  # saying so again gives it no more time
                    waiting.is_at_work = True
                    waiting.begun.set()
                    waiting.limit = self._limit(waiting, waiting.seconds.run)
            case messages.Ready():
                waiting.end_limits()
                waiting.is_at_work = False
                waiting.ready.set()
                if waiting.future.done():
                    self._abandon(reply.number, waiting)
            case messages.At(blob=blob):
                waiting.blob = blob
                if waiting.file_limit is not None:
                    waiting.file_limit.cancel()
                if blob and waiting.seconds.file is not None:
                    waiting.file_limit = self._limit(waiting, waiting.seconds.file, blob)
            case messages.Part():
                waiting.take(answer)
            case _:
                waiting.over(_failure(answer) if isinstance(answer, messages.Failed) else answer)
                del self._waiting[reply.number]

    def _limit(self, waiting: _Waiting, seconds: float, blob: str = "") -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, self._give_up, waiting, seconds, blob, context=self._context)

    def _give_up(self, waiting: _Waiting, seconds: float, blob: str) -> None:
        """End the process for what one job does. The others that are under way are not to blame."""
        waiting.overdue = Overdue(seconds, blob)
        self._tell(f"The worker was ended, since {'a file' if blob else 'a job'} took longer than {seconds:g} seconds")
        self._is_asked = True
        self._end_soon()

    async def end(self) -> None:
        """Close its input, which ends it; kill it when that does not help. No job that is under way is to blame."""
        self._is_asked = True
        await asyncio.shield(self._end_soon())

    def _end_soon(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._input.close()
            self._ending = asyncio.create_task(self._end(), name="worker-end", context=log_context.unbound())
        return self._ending

    async def _end(self) -> None:
        await self._closed_soon()
        if not self._is_closed.is_set():
            with contextlib.suppress(ProcessLookupError):  # it may have ended, and what it started keeps the pipes open
                self._transport.kill()
            await self._closed_soon()
        self._over()
        self._transport.close()

    async def _closed_soon(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._is_closed.wait()

    def _over(self) -> None:
        """Tell all who wait for it that it ended."""
        code = self._transport.get_returncode()
        how = "was killed" if code is None else f"ended with {'signal' if code < 0 else 'code'} {abs(code)}"
        self._tell(f"The worker {how}")
        told = f"The worker {how} before it answered; it is started again, and the work is tried again."
        for waiting in self._waiting.values():
            # If we ended the process, no waiting job is to blame.
            is_to_blame = waiting.is_at_work and not self._is_asked
            waiting.over(waiting.overdue or WorkerGone(told, begun=is_to_blame, blob=waiting.blob))
        self._waiting.clear()
        self._is_over = True
        self._has_room.set()

    def _tell(self, told: str) -> None:
        """Tell of its end, once: a job may be overdue while the process ends by itself."""
        if self._unasked is not None and not self._is_asked:
            self._unasked(told)
        self._unasked = None


def _failure(failed: messages.Failed) -> errors.ReconcilerError:
    """Raises ValueError for a state that there is not."""
    if failed.trace is not None:
        log.error("The worker met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)


TWICE = 2  # ends of a process over one file, until the file is set aside
MOST_REMEMBERED = 1_000  # files, each by its blob; commits and proposals
REFUSED_SECONDS = 3600.0  # until a commit that took more than one may is tried again, which may take minutes
ANEW = frozenset({"context", "run", "full", "aside", "careful", "beside"})  # of a job: each try has these anew

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Read = TypeVar("Read", bound=CommitJob | ReviewJob)


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Make a value the newest one; the oldest over the limit is forgotten."""
    known.pop(key, None)
    known[key] = value
    if len(known) > MOST_REMEMBERED:
        del known[next(iter(known))]


class CrashMemory:
    """The files that ended processes, and the commits and proposals that are read apart from all others for it."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}  # by blob
        self._suspects: dict[Hashable, bool] = {}  # by `_head`
        self._refused: dict[Hashable, tuple[str, float]] = {}  # by `_question`

    def prepared(self, job: Read, *, careful: bool) -> Read:
        """The job, with the files that are set aside."""
        aside = frozenset(blob for blob, ends in self._ends.items() if ends >= TWICE)
        if isinstance(job, ReviewJob):
            return replace(job, commit=replace(job.commit, aside=aside, careful=careful))
        return replace(job, aside=aside, careful=careful)

    def ended_at(self, blob: str) -> None:
        """A process ended while it read this file, and nothing else was under way in it."""
        remember(self._ends, blob, self._ends.get(blob, 0) + 1)

    def suspect(self, job: CommitJob | ReviewJob) -> None:
        """A process ended, or had to be ended, while it worked on this."""
        remember(self._suspects, _head(job), value=True)

    def trust(self, job: CommitJob | ReviewJob) -> None:
        """It was planned to its end."""
        self._suspects.pop(_head(job), None)

    def is_suspect(self, job: CommitJob | ReviewJob) -> bool:
        """Return True if a process ended, or had to be ended, while it worked on this."""
        return _head(job) in self._suspects

    def is_for_one_apart(self, job: CommitJob | ReviewJob) -> bool:
        """Return True if it is read in a process of its own. A proposal is, too, if its base is: it has most of it."""
        return self.is_suspect(job) or (isinstance(job, ReviewJob) and self.is_suspect(job.commit))

    def refuse(self, job: CommitJob | ReviewJob, message: str, *, now: float) -> None:
        """It took more than one may, or ends what reads it."""
        remember(self._refused, _question(job), (message, now + REFUSED_SECONDS))

    def refusal(self, job: CommitJob | ReviewJob, *, now: float) -> str | None:
        """Why it need not be tried, while that is so. Read by other settings it is another question."""
        message, until = self._refused.get(_question(job), (None, now))
        return message if now < until else None


def _head(job: CommitJob | ReviewJob) -> Hashable:
    """Identify the commit, or the proposal whatever it is merged into."""
    if isinstance(job, ReviewJob):
        return ("proposal", job.commit.mirror, job.head, job.commit.rules.path)
    return (job.mirror, job.commit, job.rules.path)


def _question(job: CommitJob | ReviewJob) -> Hashable:
    """Identify what decides how much the job takes: the commit or proposal, the settings, and a proposal's base if all
    of it is read. It is read whole where a person chose it, or where it was read with other settings.
    """
    commit = job.commit if isinstance(job, ReviewJob) else job
    whole = (job.followed, commit.full) if isinstance(job, ReviewJob) else ()
    beside = tuple(map(_question, commit.beside))
    own = (getattr(commit, name) for name in commit.__struct_fields__ if name not in ANEW)
    return (_head(job), *whole, *own, beside)


WINDOW_SECONDS = 60.0
FIRST_PAUSE = 0.25  # seconds
LONGEST_PAUSE = 5.0  # seconds


class RestartPace:
    """The time until another process is started. Times are seconds on a monotonic clock."""

    def __init__(self) -> None:
        self.ends = 0
        self._latest: deque[float] = deque(maxlen=10)

    def ended(self, *, now: float) -> None:
        """A process ended unasked."""
        self.ends += 1
        self._latest.append(now)

    def pause(self, *, now: float) -> float:
        """Seconds from now: none after the first end within a minute, then a quarter, doubling up to five."""
        ends = sum(1 for end in self._latest if now - end < WINDOW_SECONDS)
        if ends < TWICE:
            return 0.0
        wait = min(LONGEST_PAUSE, FIRST_PAUSE * float(2 ** (ends - TWICE)))
        return max(0.0, self._latest[-1] + wait - now)


MOST_STARTS = 10  # shared processes that end before they begin a job, until its caller is told
MOST_ENDS = 20  # processes that one commit may end in one run: ten files are found
ENDED = (
    "planning this ended the program that reads it, or kept it too long, also alone, and is not tried again for an"
    " hour; propose another commit, in smaller parts, and look in the service's log for what ended it"
)


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
        self.pace = RestartPace()
        self._command = (*command, *granted)
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._shared: WorkerProcess | None = None
        self._starting: asyncio.Task[WorkerProcess] | None = None  # the shared one
        self._apart: set[WorkerProcess] = set()  # those that have one job
        # One job of a sort at a time has a process of its own, so that there are three at most.
        self._turns: dict[type[Job], asyncio.Lock] = {
            sort: asyncio.Lock() for sort in (CommitJob, RequestJob, ReviewJob)
        }
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
            return await self._plan_shared(job, lock)
        except WorkerGone as gone:
            if not self._is_to_blame(gone) or not isinstance(job, RequestJob):
                raise
        async with self._turn(RequestJob):
            return await self._plan_apart(job, lock)

    async def _plan_commit(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        """Plan a commit or a proposal, and remember its end. Raises Exhausted for one that is refused for a while."""
        refusal = self.memory.refusal(job, now=_now())
        if refusal is not None:
            raise Exhausted(refusal)
        was_suspect = self.memory.is_suspect(job)
        is_apart = self.memory.is_for_one_apart(job)
        try:
            if not is_apart:
                try:
                    async with self._commits if isinstance(job, CommitJob) else contextlib.nullcontext():
                        answered = await self._plan_shared(self.memory.prepared(job, careful=False), lock)
                except WorkerGone as gone:
                    if not self._is_to_blame(gone):
                        raise
                    self.memory.suspect(job)
                    was_suspect = is_apart = True
            if is_apart:
                async with self._turn(type(job)):
                    answered = await self._search(job, lock)
        except (Overdue, WorkerGone) as end:
            if isinstance(end, Overdue) or self._is_to_blame(end):
                self.memory.suspect(job)
                if is_apart and was_suspect and isinstance(job, ReviewJob) and not self._stopped.is_set():
                    self.memory.refuse(job, ENDED, now=_now())
                    raise Exhausted(ENDED) from end
            raise
        except Exhausted as exhausted:
            self.memory.refuse(job, exhausted.message, now=_now())
            raise
        self.memory.trust(job)
        return answered

    def _is_to_blame(self, gone: WorkerGone) -> bool:
        return gone.begun and not self._stopped.is_set()

    async def _search(self, job: CommitJob | ReviewJob, lock: JobLock) -> Answered:
        """Plan a commit apart from all others, without the files that end the process. One proposal has the time of
        one, whatever it ends. Raises WorkerGone when it is no file, Overdue.
        """
        seconds = self._seconds[ReviewJob].run if isinstance(job, ReviewJob) else None
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MOST_ENDS - 1):
                    try:
                        return await self._plan_apart(self.memory.prepared(job, careful=True), lock)
                    except (WorkerGone, Overdue) as end:
                        if not end.blob or self._stopped.is_set():
                            raise
                        self.memory.ended_at(end.blob)
                return await self._plan_apart(self.memory.prepared(job, careful=True), lock)
        except TimeoutError:
            assert seconds is not None
            log.warning("A proposal was given up: it took longer than %g seconds apart from all others.", seconds)
            raise Overdue(seconds) from None

    @contextlib.asynccontextmanager
    async def _turn(self, sort: type[Job]) -> AsyncIterator[None]:
        """Wait for the turn of a job to have a process of its own. Raises Busy."""
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

    async def _plan_apart(self, job: Job, lock: JobLock) -> Answered:
        """Plan a job in a process of its own."""
        child = await self._start()
        self._apart.add(child)
        try:
            return await child.plan(next(self._numbers), job, lock)
        finally:
            self._apart.discard(child)
            await child.end()

    async def _plan_shared(self, job: Job, lock: JobLock) -> Answered:
        """Plan a job in the shared process, or in the next one while it was not begun."""
        starts = 0
        while True:
            child = await self._present()  # where none starts, the next will not either
            starts += 1
            try:
                return await child.plan(next(self._numbers), job, lock)
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
            async with asyncio.timeout(self.pace.pause(now=_now())):
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

    def _ended(self, told: str) -> None:
        """Note a process that ended and was not asked to."""
        self.pace.ended(now=_now())
        fields = {"fields": {"readerEnds": self.pace.ends}}
        log.warning("%s; it is started again when it is needed (%d so far).", told, self.pace.ends, extra=fields)


def _now() -> float:
    return asyncio.get_running_loop().time()
