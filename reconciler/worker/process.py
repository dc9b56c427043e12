"""One worker process as the service sees it: the jobs that wait for its answers, their limits, and its end.

A begun job keeps the others of its lane waiting until it is answered, so it has its limits even if its caller is gone.
"""

import asyncio
import contextlib
import logging
import os
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, log_context
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import messages
from reconciler.worker.messages import Exhausted, Job

log = logging.getLogger(__name__)

# It gets only the variables that libraries need: our environment contains secrets.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")
STOP_SECONDS = 2.0  # for each step of an end: to end by itself, to be killed
GIBIBYTE = 2**30
CHANGE_BYTES = GIBIBYTE  # of one change, which waits in memory until it is written
READ_BYTES = 2**20  # of answers that wait to be read, and as many again
TOO_LARGE = "This would change more than {} GiB at once; commit or send it in parts."

_changes = msgspec.msgpack.Decoder(Changes)


@dataclass(frozen=True, slots=True)
class WorkerSeconds:
    """The limits of one job; None where there is none.

    `wait`: until it is begun. `run`: from then until it is ready for its lock, or answered. `locked`: from the moment
    that it has the lock until its change is stored. `file`: over one file, where the job says which one it reads; then
    `run` counts from the last of them.
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
    messages.RenderJob: WorkerSeconds(run=60.0),
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
    may be stored.
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
    overdue: Overdue | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)
    size: int = 0  # of these, in bytes

    def end_limit(self) -> None:
        """Stop the timer."""
        if self.limit is not None:
            self.limit.cancel()

    def take(self, part: messages.Part) -> None:
        """Keep a part, or end the job when it is one too many."""
        if self.future.done():
            return
        self.size += len(part.changes)
        self.changes.append(part.changes)
        if self.size > CHANGE_BYTES:
            self.answer(errors.Refused(TOO_LARGE.format(CHANGE_BYTES // GIBIBYTE)))

    def answer(self, found: messages.Planned | Exception) -> None:
        """Tell the caller, if it still waits."""
        if isinstance(found, Exception):
            self.changes.clear()
        if self.future.done():
            return
        if isinstance(found, Exception):
            self.future.set_exception(found)
        else:
            self.future.set_result(found)

    def over(self, found: messages.Planned | Exception) -> None:
        """End the job: the process is done with it."""
        self.end_limit()
        self.answer(found)
        self.begun.set()
        self.ready.set()


class WorkerProcess:
    """One process and the jobs that wait for it. It is never restarted: the client starts another."""

    def __init__(
        self, process: Process, *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]
    ) -> None:
        """`unasked` is called when it ends without having been told to."""
        self._process = process
        self._seconds = seconds
        self._unasked: Callable[[str], None] | None = unasked
        self._waiting: dict[int, _Waiting] = {}
        self._sending = asyncio.Lock()
        self._stop = asyncio.Event()
        # None of this is part of the request that started the process.
        self._context = log_context.unbound()
        self._life = self._task(self._live(), "worker")

    @classmethod
    async def start(
        cls, command: Sequence[str], *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]
    ) -> "WorkerProcess":
        """Start one. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            start_new_session=True,  # an interrupt at the terminal is the daemon's to handle
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=READ_BYTES,
        )
        return cls(process, seconds=seconds, unasked=unasked)

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Return True if it takes no more jobs, and its end was told if it ended by itself."""
        return self._unasked is None

    async def end(self) -> None:
        """Close its input, which ends it; kill it when that does not help. No job that is under way is to blame."""
        self._unasked = None
        self._stop.set()
        await asyncio.shield(self._life)

    async def plan(
        self, number: int, job: Job, lock: JobLock, *, aside: frozenset[str] = frozenset(), careful: bool = False
    ) -> Answered:
        """Have a job planned, with its lock from when it is ready. The lock is held when this returns. `aside` and
        `careful` are as in the envelope.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone, Overdue, Busy, and what the lock raises.
        """
        if self.has_ended:
            raise WorkerGone("The worker ended before it took the work; the work is tried again.")
        future: asyncio.Future[messages.Planned] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[number] = _Waiting(future, messages.tag_of(job), self._seconds[type(job)])
        try:
            await self._begin(waiting, messages.Envelope(number, __version__, job, aside, careful))
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
                # A job whose caller is gone is sent to its end nevertheless, since no frame may be cut. The next one
                # waits for that: if a worker reads nothing, at most one job is in our memory.
                async with self._sending:
                    await self._drain()
                    waiting.is_sent = self._send(envelope)
                    await self._drain()
                await waiting.begun.wait()
        except TimeoutError:
            raise Busy from None

    def _send(self, order: messages.Order) -> bool:
        """Send an order, unless the process has ended or is about to: then `_over` answers its jobs."""
        pipe = self._process.stdin
        assert pipe is not None
        can_be_told = not (self._stop.is_set() or pipe.is_closing()) and self._process.returncode is None
        if can_be_told:
            pipe.write(messages.framed(order))
        return can_be_told

    async def _drain(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it ends
            await self._process.stdin.drain()

    def _proceed(self, number: int, waiting: _Waiting) -> None:
        """Have the worker go on with a job that has its lock."""
        if not waiting.future.done() and self._send(messages.Proceed(number, waiting.tag)):
            waiting.is_at_work = True
            seconds = waiting.seconds.locked or waiting.seconds.run
            waiting.locked_until = asyncio.get_running_loop().time() + seconds
            self._limit(waiting, seconds)

    def _abandon(self, number: int, waiting: _Waiting) -> None:
        """Drop a job that waits for its lock: its caller is gone."""
        if self._waiting.pop(number, None) is not None:
            self._send(messages.Proceed(number, waiting.tag, is_wanted=False))

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
                    self._limit(waiting, waiting.seconds.run)
            case messages.Ready():
                waiting.end_limit()
                waiting.is_at_work = False
                waiting.ready.set()
                if waiting.future.done():
                    self._abandon(reply.number, waiting)
            case messages.At(blob=blob):
                waiting.blob = blob
                self._limit(waiting, (blob and waiting.seconds.file) or waiting.seconds.run)
            case messages.Part():
                waiting.take(answer)
            case _:
                waiting.over(_failure(answer) if isinstance(answer, messages.Failed) else answer)
                del self._waiting[reply.number]

    def _limit(self, waiting: _Waiting, seconds: float) -> None:
        """Give the job so many seconds from now."""
        waiting.end_limit()
        loop = asyncio.get_running_loop()
        waiting.limit = loop.call_later(seconds, self._give_up, waiting, seconds, context=self._context)

    def _give_up(self, waiting: _Waiting, seconds: float) -> None:
        """End the process for what one job does. The others that are under way are not to blame."""
        waiting.overdue = Overdue(seconds, waiting.blob)
        what = "a file" if waiting.blob else "a job"
        self._tell(f"The worker was ended, since {what} took longer than {seconds:g} seconds")
        self._stop.set()

    def _tell(self, told: str) -> None:
        """Tell of its end, once: a job may be overdue while the process ends by itself."""
        if self._unasked is not None:
            self._unasked(told)
        self._unasked = None

    def _task(self, work: Coroutine[None, None, object], name: str) -> "asyncio.Task[object]":
        return asyncio.create_task(work, name=name, context=self._context)

    async def _live(self) -> None:
        """Take its answers until it ends, says what is no answer, or is to end; then see that it ends."""
        answers = self._task(self._read_answers(), "worker-answers")
        others = [self._task(self._read_log(), "worker-log"), self._task(self._process.wait(), "worker-exit")]
        stop = self._task(self._stop.wait(), "worker-stop")
        every = [answers, *others]
        await asyncio.wait([answers, others[1], stop], return_when=asyncio.FIRST_COMPLETED)
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait(every, timeout=STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.wait(every, timeout=STOP_SECONDS)  # what it started may keep its pipes open
        for task in (*every, stop):
            task.cancel()
        self._over()

    async def _read_answers(self) -> None:
        output = self._process.stdout
        assert output is not None
        try:
            while True:
                (length,) = messages.LENGTH.unpack(await output.readexactly(messages.LENGTH.size))
                if length > messages.FRAME_LIMIT:
                    return
                self._take(messages.reply(await output.readexactly(length)))
        except (EOFError, msgspec.DecodeError, ValueError):
            return  # this is no answer, so nothing else that it says counts
        except Exception:  # an answer that nests too deeply, for instance
            log.exception("An answer of the worker met a fault that nobody foresaw.")

    async def _read_log(self) -> None:
        output, worker_log = self._process.stderr, WorkerLog()
        assert output is not None
        while data := await output.read(READ_BYTES):
            worker_log.feed(data)
        worker_log.feed(b"\n")

    def _over(self) -> None:
        """Tell all who wait for it that it ended."""
        code, was_asked = self._process.returncode, self._unasked is None
        how = "was killed" if code is None else f"ended with {'signal' if code < 0 else 'code'} {abs(code)}"
        self._tell(f"The worker {how}")
        told = f"The worker {how} before it answered; it is started again, and the work is tried again."
        for waiting in self._waiting.values():
            # If we ended the process, no waiting job is to blame.
            is_to_blame = waiting.is_at_work and not was_asked
            waiting.over(waiting.overdue or WorkerGone(told, begun=is_to_blame, blob=waiting.blob))
        self._waiting.clear()


def _failure(failed: messages.Failed) -> errors.ReconcilerError:
    """Raises ValueError for a state that there is not."""
    if failed.trace is not None:
        log.error("The worker met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)
