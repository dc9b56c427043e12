"""One worker process as the service sees it: the jobs that wait for its answers, their limits, and its end.

Other jobs of a lane wait until a job is answered, so it has its limits even if its caller is gone.
"""

import asyncio
import contextlib
import logging
import os
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, log_context
from reconciler.store.contract import StoreFault
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import messages
from reconciler.worker.messages import Exhausted, Job
from reconciler.worker.sandbox import Protections

log = logging.getLogger(__name__)

# The process gets only the variables that libraries need, because our environment contains secrets.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")
STOP_SECONDS = 2.0  # for each step of an end: to end by itself, to be killed
CHANGE_BYTES = 2**30  # of one change, which is in memory until it is written
READ_BYTES = 2**20  # of unread answers; asyncio buffers up to twice as many
TOO_LARGE = f"This would change more than {CHANGE_BYTES // 2**30} GiB at once; commit or send it in parts."

_changes = msgspec.msgpack.Decoder(Changes)


@dataclass(frozen=True, slots=True)
class WorkerSeconds:
    """The time limits of one job in seconds; None for no limit.

    `wait` lasts until the job is sent, `run` from then until it is ready for its lock or answered, `locked` from the
    moment that it has the lock until its change is stored. `file` is for one file, if the job reports which file it
    reads; then `run` starts again after the last file.
    """

    run: float
    wait: float | None = None
    file: float | None = None
    locked: float | None = None


# The processor time of a commit ends well before this, so only a job that hangs reaches the limit. Requests share one
# lane, so a slow one delays all others. The largest file takes some seconds.
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
    """The process ended before it answered. If `begun`, the job may be the cause; `blob` is the file that it read."""

    def __init__(self, message: str, *, begun: bool = False, blob: str = "") -> None:
        super().__init__(message)
        self.begun = begun
        self.blob = blob


class Overdue(errors.Transient):
    """The job, or the file `blob` in it, took longer than its limit, so its process was ended."""

    def __init__(self, seconds: float, blob: str = "") -> None:
        what = f"Reading the file that Git knows as {blob}" if blob else "The work"
        remedy = "mend it or take it out" if blob else "do it in parts"
        super().__init__(f"{what} took longer than {seconds:g} seconds and was given up; {remedy}.")
        self.blob = blob


class Busy(errors.Transient):
    """The job did not begin in time, because other jobs were before it."""

    def __init__(self) -> None:
        super().__init__("The service is busy with other requests; try again in a moment.")


Lock: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""The lock that a job needs once it is `Ready`."""


@dataclass(slots=True)
class Answered:
    """A planned job and the encoded parts of its change. They may be stored until `locked_until`, an instant of the
    loop's clock.
    """

    planned: messages.Planned
    locked_until: float | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)  # see `Part`

    def parts(self) -> Iterator[Changes]:
        """Yield each part once. It is decoded only then, on the thread that writes it, and forgotten."""
        while self.changes:
            yield _changes.decode(self.changes.popleft())


class WorkerLog:
    """Logs the worker's standard error, for example the last words of Python or of a library before a crash.

    The text is escaped and bounded: a worker under the control of a hostile file could otherwise send commands to the
    operator's terminal or forge log lines.
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


@dataclass(eq=False, slots=True)
class _Work:
    """One order in progress: a job until it is ready for its lock, or from then until its answer."""

    seconds: WorkerSeconds
    is_locked: bool  # it holds its project's lock, for a time that no file prolongs
    found: "asyncio.Future[messages.Planned | messages.Ready]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    is_wanted: bool = True  # its caller still waits
    blob: str = ""
    limit: asyncio.TimerHandle | None = None
    overdue: Overdue | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)
    size: int = 0  # of these, in bytes

    def take(self, part: messages.Part) -> None:
        """Keep a part, unless the caller is gone or the change is too large."""
        self.size += len(part.changes)
        self.changes.append(part.changes)
        if self.size > CHANGE_BYTES or not self.is_wanted:
            self.changes.clear()

    def end(self, found: messages.Planned | messages.Ready | Exception) -> None:
        """Give the result to the caller, if it still waits."""
        if self.limit is not None:
            self.limit.cancel()
        if self.size > CHANGE_BYTES:
            found = errors.Refused(TOO_LARGE)
        if isinstance(found, Exception):
            self.found.set_exception(found)
            self.found.exception()  # mark it as retrieved: without a caller, asyncio would log it
        else:
            self.found.set_result(found)


class WorkerProcess:
    """One process and the jobs that wait for it. It is never restarted: the client starts another."""

    def __init__(
        self, process: Process, *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]
    ) -> None:
        """Follow a process. `unasked` is called if it ends without having been told to."""
        self._process = process
        self._seconds = seconds
        self._unasked: Callable[[str], None] | None = unasked
        self._why = ""  # it is ended
        self._lost: StoreFault | None = None  # it ends since it has no connection to the store
        self._work: dict[int, _Work] = {}  # by the numbers of jobs
        # The process does one job of each kind at a time, and gets the next one afterwards.
        self._lanes = {kind: asyncio.Lock() for kind in seconds}
        # Done when it serves; cancelled if it has ended before.
        self.protections: asyncio.Future[Protections] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        # Its log lines do not belong to the request that started the process.
        self._context = log_context.unbound()
        self._life = self._task(self._live(), "worker")

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        seconds: Mapping[type[Job], WorkerSeconds],
        unasked: Callable[[str], None],
        connect: messages.Connect | None = None,
    ) -> "WorkerProcess":
        """Start one, and give it its first message if it has to connect. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            start_new_session=True,  # only the daemon handles an interrupt at the terminal
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=READ_BYTES,
        )
        if connect is not None:
            assert process.stdin is not None
            process.stdin.write(messages.framed(connect))
        return cls(process, seconds=seconds, unasked=unasked)

    @property
    def process_id(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """True if it takes no more jobs."""
        return self._stop.is_set()

    async def end(self) -> None:
        """End the process by closing its input, and kill it if it continues. Its jobs do not count as the cause."""
        self._unasked = None
        self._stop.set()
        await asyncio.shield(self._life)

    async def plan(
        self,
        number: int,
        job: Job,
        *,
        lock: Lock,
        held: AsyncExitStack,
        aside: frozenset[str] = frozenset(),
        careful: bool = False,
    ) -> Answered:
        """Plan a job. It gets its lock when it is ready, and `held` releases the lock later. `aside` and `careful` are
        as in the envelope.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone, StoreFault, Overdue, Busy, and what the lock
        raises.
        """
        seconds, lane, tag = self._seconds[type(job)], self._lanes[type(job)], messages.tag_of(job)
        await self._enter(lane, seconds.wait)
        locked_until = None
        try:
            envelope = messages.Envelope(number, __version__, job, aside, careful)
            work = await self._follow(envelope, job, seconds.run)
            if isinstance(work.found.result(), messages.Ready):
                await held.enter_async_context(lock())
                limit, now = seconds.locked or seconds.run, asyncio.get_running_loop().time
                locked_until = now() + limit
                await self._enter(lane, limit)
                work = await self._follow(messages.Proceed(number, tag), job, locked_until - now())
            planned = work.found.result()
            assert not isinstance(planned, messages.Ready)
            return Answered(planned, locked_until, work.changes)
        except BaseException:
            self._send(messages.Proceed(number, tag, is_wanted=False))  # in case it waits for its lock, or will
            await held.aclose()
            raise

    async def _enter(self, lane: asyncio.Lock, seconds: float | None) -> None:
        """Wait for a lane's turn. Raises Busy if that takes too long."""
        # Not `wait_for`: before Python 3.12 it loses a cancellation that arrives together with the answer.
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({self.protections})
                await lane.acquire()
        except TimeoutError:
            raise Busy from None

    async def _follow(self, order: messages.Order, job: Job, limit: float) -> _Work:
        """Send an order of a job whose lane is held, and wait until it is done. Only then the lane is released, even if
        the caller is gone.
        """
        work = _Work(self._seconds[type(job)], is_locked=isinstance(order, messages.Proceed))
        work.found.add_done_callback(lambda _: self._lanes[type(job)].release())
        if self.has_ended or not self._send(order):
            work.end(self._lost or WorkerGone("The worker ended before it took the work; the work is tried again."))
        else:
            self._work[order.number] = work
            self._limit(work, limit)
        try:
            await asyncio.shield(work.found)
        except asyncio.CancelledError:
            work.is_wanted = False
            work.changes.clear()
            raise
        return work

    def _send(self, order: messages.Order) -> bool:
        """Send an order, unless the process has ended or is about to; return True if it is sent.

        It needs no wait for room in the pipe, because there is at most one job of each kind.
        """
        pipe = self._process.stdin
        assert pipe is not None
        can_be_told = not (self._stop.is_set() or pipe.is_closing()) and self._process.returncode is None
        if can_be_told:
            pipe.write(messages.framed(order))
        return can_be_told

    def _take(self, reply: messages.Reply) -> None:
        """Handle an answer. Raises ValueError if it makes no sense."""
        if isinstance(reply.answer, messages.Ready) and not self.protections.done():
            self.protections.set_result(reply.answer.protections)
        work, answer = self._work.get(reply.number), reply.answer
        if reply.number == 0 and isinstance(answer, messages.Failed):
            self._lost = StoreFault(answer.message)
            self._why = f"ended without a connection to the store ({answer.message.rstrip('.')})"
            self._stop.set()
        if work is None:
            return  # it is not about a job
        match answer:
            case messages.At(blob=blob):
                work.blob = blob
                if not work.is_locked:
                    self._limit(work, (blob and work.seconds.file) or work.seconds.run)
            case messages.Part():
                work.take(answer)
            case _:
                work.end(_failure(answer) if isinstance(answer, messages.Failed) else answer)
                del self._work[reply.number]

    def _limit(self, work: _Work, seconds: float) -> None:
        """Set the limit of the work to so many seconds from now."""
        if work.limit is not None:
            work.limit.cancel()
        loop = asyncio.get_running_loop()
        work.limit = loop.call_later(seconds, self._give_up, work, seconds, context=self._context)

    def _give_up(self, work: _Work, seconds: float) -> None:
        """End the process because of this job, although another one may be the cause: it may hold the interpreter."""
        work.overdue = Overdue(seconds, work.blob)
        self._why = f"was ended, since {'a file' if work.blob else 'a job'} took longer than {seconds:g} seconds"
        self._stop.set()

    def _task(self, work: Coroutine[None, None, object], name: str) -> "asyncio.Task[object]":
        return asyncio.create_task(work, name=name, context=self._context)

    async def _live(self) -> None:
        """Read answers until the process ends, sends an invalid one, or shall end; then make sure that it ends."""
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
        await asyncio.wait(every, timeout=STOP_SECONDS)  # a process that it started may keep its pipes open
        for task in (*every, stop):
            task.cancel()
        self._end_work()

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
            return  # the rest cannot be read after an invalid answer
        except Exception:  # for example an answer that nests too deeply
            log.exception("An answer of the worker met a fault that nobody foresaw.")

    async def _read_log(self) -> None:
        output, worker_log = self._process.stderr, WorkerLog()
        assert output is not None
        while data := await output.read(READ_BYTES):
            worker_log.feed(data)
        worker_log.feed(b"\n")

    def _end_work(self) -> None:
        """End all work with the error that the process ended."""
        self._stop.set()
        self.protections.cancel()
        code, is_to_blame = self._process.returncode, self._unasked is not None
        how = "was killed" if code is None else f"ended with {'signal' if code < 0 else 'code'} {abs(code)}"
        if self._unasked is not None:
            self._unasked(f"The worker {self._why or how}")
        told = f"The worker {how} before it answered; it is started again, and the work is tried again."
        for work in self._work.values():
            work.end(work.overdue or self._lost or WorkerGone(told, begun=is_to_blame, blob=work.blob))
        self._work.clear()


def _failure(failed: messages.Failed) -> errors.ReconcilerError:
    """Return the error of a failed job. Raises ValueError for an unknown state."""
    if failed.trace is not None:
        log.error("The worker met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.store:
        return StoreFault(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)
