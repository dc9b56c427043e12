"""One worker process as the service sees it: started, given jobs, ended."""

import asyncio
import contextlib
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, log_context
from reconciler.store.records import Changes
from reconciler.version import __version__
from reconciler.worker import messages

# What the reader child writes to its standard error, as log lines of the daemon.
#
# It writes there when Python or a library ends it. Passed on as it is, whatever took the child over could act on the
# operator's terminal and forge log lines. Bounded: the rest of what one child says is read and dropped.

log = logging.getLogger(__name__)

MOST_LINES = 200  # of one child
LONGEST_BYTES = 4_000  # of one line


async def log_complaint(stream: asyncio.StreamReader) -> None:
    """Log the lines of the stream until its end."""
    rest, left = b"", MOST_LINES
    while data := await stream.read(LONGEST_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        left = _log(lines, left)
        if len(rest) > LONGEST_BYTES:
            left, rest = _log([rest], left), b""
    _log([rest], left)


def _log(lines: list[bytes], left: int) -> int:
    """Log as many lines as are left; how many are left then."""
    for line in [line for line in lines if line.strip()][:left]:
        left -= 1
        more = "" if left else "; what else it says is not logged"
        log.error("The reader said: %s%s", line[:LONGEST_BYTES].decode("utf-8", "backslashreplace"), more)
    return left


# One reader child as the daemon sees it: started, given jobs, listened to, ended.
#
# It never comes back: after its end another is started, which is `client`'s business. Each job has a number; its parts
# go as they come, in bytes, where the job's caller wants them (`inflow`). A job that is begun keeps the others of its
# lane waiting until it is answered, so it has its limits whether or not its caller is still there.

STOP_SECONDS = 2.0
FILE_SECONDS = 60.0  # over one file, in a child of its own: the largest one takes some seconds
# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "import sys; from reconciler.worker.child import main; main(*sys.argv[1:])")
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")

GIBIBYTE = 2**30
CHANGE_BYTES = GIBIBYTE  # of one change, which waits in memory until it is written
TOO_LARGE = "This would change more than {} GiB at once; commit or send it in parts."

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
# one that takes a minute keeps all others from their answers.
SECONDS: Mapping[type[messages.Job], WorkerSeconds] = {
    messages.CommitJob: WorkerSeconds(run=900.0, locked=300.0, file=FILE_SECONDS),
    messages.RequestJob: WorkerSeconds(run=60.0, locked=60.0, wait=60.0),
    messages.LineageJob: WorkerSeconds(run=900.0),
    messages.RedactJob: WorkerSeconds(run=300.0, wait=60.0),
    messages.RoutesJob: WorkerSeconds(run=300.0),
    messages.ReviewJob: WorkerSeconds(run=300.0, wait=60.0, file=FILE_SECONDS),
}


class JobLock:
    """The lock that a job needs once it is `Ready`. Whoever has the job planned releases it."""

    def __init__(self, lock: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext) -> None:
        self._lock = lock
        self._held = contextlib.AsyncExitStack()

    async def acquire(self) -> None:
        """Wait for the lock. Raises what the lock raises."""
        await self._held.enter_async_context(self._lock())

    async def release(self) -> None:
        """Release the lock if it is held."""
        await self._held.aclose()


class WorkerGone(errors.Transient):
    """The child ended before it answered. `begun`: it had begun the job; `blob`: while it read this file."""

    def __init__(self, message: str, *, begun: bool = False, blob: str = "") -> None:
        super().__init__(message)
        self.begun = begun
        self.blob = blob


class Overdue(errors.Transient):
    """The job took longer than one may, and its child was ended for it; `blob`: over this file."""

    def __init__(self, message: str, *, blob: str = "") -> None:
        super().__init__(message)
        self.blob = blob


def overdue(seconds: float, blob: str = "") -> Overdue:
    """Return the error for a job, or one file in it, that took longer than so many seconds."""
    what = f"Reading the file that Git knows as {blob}" if blob else "The work"
    remedy = "mend it or take it out" if blob else "do it in parts"
    return Overdue(f"{what} took longer than {seconds:g} seconds and was given up; {remedy}.", blob=blob)


class Busy(errors.Transient):
    """The job was not begun in time: others take all there is."""

    def __init__(self) -> None:
        super().__init__("The service is busy with other requests; try again in a moment.")


@dataclass(slots=True)
class Answered:
    """A planned job and the parts of its change, in bytes. Until `locked_until`, an instant of the loop's clock, they
    may be stored; None for a job that took no lock of its own.
    """

    planned: messages.Planned
    locked_until: float | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)  # see `Part`
    routes: list[bytes] = field(default_factory=list, repr=False)  # see `RoutesPart`

    def parts(self) -> Iterator[Changes]:
        """Yield the parts, once, each decoded and forgotten when it is asked for: by the thread that writes them."""
        while self.changes:
            yield _changes.decode(self.changes.popleft())


@dataclass(slots=True)
class _Waiting:
    """A job that is not answered. When its future is done nobody waits for it any more."""

    future: "asyncio.Future[messages.Planned]"
    tag: str
    seconds: WorkerSeconds
    is_handed_over: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # it is begun, or over
    stopped: asyncio.Event = field(default_factory=asyncio.Event)  # it is ready for its lock, or over
    begun: bool = False
    locked_until: float | None = None
    at_work: bool = False  # the worker may end by its doing: it is begun, and does not wait for its lock
    is_ready: bool = False
    blob: str = ""
    limit: asyncio.TimerHandle | None = None
    file_limit: asyncio.TimerHandle | None = None
    overdue: Overdue | None = None
    changes: deque[bytes] = field(default_factory=deque, repr=False)
    routes: list[bytes] = field(default_factory=list, repr=False)
    size: int = 0  # of both, in bytes

    def end_limits(self) -> None:
        """Stop the timers."""
        for limit in (self.limit, self.file_limit):
            if limit is not None:
                limit.cancel()

    def take(self, part: messages.Part | messages.RoutesPart) -> None:
        """Keep a part, or end the job when it is one too many."""
        if self.future.done():
            return
        kept, content = (self.changes, part.changes) if isinstance(part, messages.Part) else (self.routes, part.routes)
        self.size += len(content)
        if self.size > CHANGE_BYTES:
            self.forget()
            self.future.set_exception(errors.Refused(TOO_LARGE.format(CHANGE_BYTES // GIBIBYTE)))
        else:
            kept.append(content)

    def forget(self) -> None:
        """Drop the parts."""
        self.changes.clear()
        self.routes.clear()

    def over(self) -> None:
        """Wake whoever waits for it."""
        self.end_limits()
        self.moved.set()
        self.stopped.set()


class WorkerProcess:
    """One process and the jobs that wait for it. `unasked` is called when it ends without having been told to."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        seconds: Mapping[type[messages.Job], WorkerSeconds],
        unasked: Callable[[str], None],
    ) -> None:
        self.process = process
        self._seconds = seconds
        self._unasked = unasked
        self._is_asked = False
        self._is_told = False  # of its end
        self._waiting: dict[int, _Waiting] = {}
        self._handing_over = asyncio.Lock()
        self._replacing: asyncio.Task[None] | None = None
        self._listening = asyncio.create_task(self._listen(), name="reader-answers", context=log_context.unbound())
        assert process.stderr is not None
        self._complaining = asyncio.create_task(
            log_complaint(process.stderr), name="reader-complaints", context=log_context.unbound()
        )

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        seconds: Mapping[type[messages.Job], WorkerSeconds],
        unasked: Callable[[str], None],
    ) -> "WorkerProcess":
        """Start one. Nothing of our environment reaches it but what the libraries need: it holds secrets."""
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # an interrupt at the terminal is the daemon's to handle
        )
        return cls(process, seconds=seconds, unasked=unasked)

    @property
    def has_ended(self) -> bool:
        """Return True if it takes no more jobs."""
        assert self.process.stdin is not None
        return self._listening.done() or self.process.returncode is not None or self.process.stdin.is_closing()

    async def plan(self, number: int, job: messages.Job, lock: JobLock) -> Answered:
        """Have a job planned, with its lock from when it is ready. The lock is held when this returns.

        Raises GitFault, Refused, Transient as the worker says, WorkerGone, Overdue, Busy, and what the lock raises.
        """
        future: asyncio.Future[messages.Planned] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[number] = _Waiting(future, messages.tag_of(job), self._seconds[type(job)])
        planned: messages.Planned | None = None
        try:
            await self._begun(waiting, messages.Envelope(number, __version__, job))
            await waiting.stopped.wait()
            if waiting.is_ready and not future.done():
                await self._proceed(number, waiting, lock)
            planned = await future
        except ConnectionError as error:
            await self._end()
            await self._listen_out()
            raise self._gone(waiting, "The worker ended before it took the work; the work is tried again.") from error
        finally:
            if not waiting.is_handed_over:
                self._waiting.pop(number, None)  # the worker never heard of it
            if planned is None:
                waiting.forget()
                if waiting.is_ready and not waiting.at_work:
                    self._abandon(number, waiting)
                await lock.release()
            if not future.cancel() and not future.cancelled():
                future.exception()  # nobody else may ask for it, and asyncio would complain of that
        return Answered(planned, waiting.locked_until, waiting.changes, waiting.routes)

    async def _proceed(self, number: int, waiting: _Waiting, lock: JobLock) -> None:
        """Wait for the lock, then have the worker go on. Raises what the lock raises, ConnectionError."""
        await lock.acquire()
        # The worker may have ended meanwhile, or be ending: then nothing can be sent, and `_over` says so.
        if not waiting.future.done() and not self.has_ended:
            waiting.at_work = True
            seconds = waiting.seconds.locked or waiting.seconds.run
            waiting.locked_until = _now() + seconds
            self._limit(waiting, seconds)
            self._send(messages.Proceed(number, waiting.tag))

    def _abandon(self, number: int, waiting: _Waiting) -> None:
        """Nobody waits any more for a job that waits for its lock."""
        if not self.has_ended and self._waiting.pop(number, None) is not None:
            self._send(messages.Abandon(number, waiting.tag))

    def _send(self, order: messages.Order) -> None:
        """Send an order of a few bytes, which need not wait for room in the pipe."""
        assert self.process.stdin is not None
        self.process.stdin.write(messages.framed(order))

    async def _begun(self, waiting: _Waiting, envelope: messages.Envelope) -> None:
        """Hand a job over, and wait until it is begun or over. Raises Busy, ConnectionError."""
        # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the answer.
        try:
            async with asyncio.timeout(waiting.seconds.wait):
                await self._hand_over(waiting, envelope)
                await waiting.moved.wait()
        except TimeoutError:
            raise Busy from None

    async def _hand_over(self, waiting: _Waiting, envelope: messages.Envelope) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        async with self._handing_over:
            # A job that is given up while it is sent goes on its way all the same, since no frame may be cut. Whoever
            # comes next waits for that, so that a child that takes nothing has one job at most in our memory.
            await stdin.drain()
            stdin.write(messages.framed(envelope))
            waiting.is_handed_over = True
            await stdin.drain()

    async def end(self) -> None:
        """Close its input, which ends it; kill it when that does not help. No job that is under way is to blame."""
        self._is_asked = True
        await self._end()
        await self._listen_out()

    async def _listen_out(self) -> None:
        """Wait for the end of its output, but not for ever: whatever it started may hold the pipe."""
        await asyncio.wait({self._listening}, timeout=STOP_SECONDS)
        self._listening.cancel()
        self._over()
        # The pipes that are held would stay open here too, and there is no public way to close them.
        self.process._transport.close()  # type: ignore[attr-defined]

    async def _end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self._wait()
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may end in the same moment
                self.process.kill()
            await self._wait()
        await asyncio.wait({self._complaining}, timeout=STOP_SECONDS)
        self._complaining.cancel()  # whatever it started may hold the pipe

    async def _wait(self) -> None:
        """Wait for its end, but not for ever: asyncio waits for the end of its pipes as well."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()

    def _give_up(self, waiting: _Waiting, seconds: float, blob: str = "") -> None:
        """A job is not over in time, or is not done with a file."""
        waiting.overdue = overdue(seconds, blob)
        if self._replacing is None:
            what = "a file" if blob else "a job"
            why = f"{what} took longer than {seconds:g} seconds"
            self._replacing = asyncio.create_task(
                self._replace(why), name="reader-replacing", context=log_context.unbound()
            )

    async def _replace(self, why: str) -> None:
        """End it for what one job does: the others that are under way are not to blame."""
        self._tell(f"The reader was ended, since {why}")
        await self.end()

    async def _listen(self) -> None:
        try:
            while True:
                self._take(messages.answer(await self._frame()))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError, ValueError):
            pass  # the end of its output, or something that is no answer: either way this child is done
        except Exception:  # an answer that nests too deeply, for instance
            log.exception("An answer of the reader met a fault that nobody foresaw.")
        await self._end()
        self._over()

    def _over(self) -> None:
        """Tell all who wait for it that it ended."""
        how = _how(self.process.returncode)
        self._tell(f"The reader {how}")
        told = f"The reader {how} before it answered; it is started again, and the work is tried again."
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(waiting.overdue or self._gone(waiting, told))
            waiting.over()
        self._waiting.clear()

    def _tell(self, unasked: str) -> None:
        """Its end, once: a job may be overdue while it ends by itself."""
        if not self._is_asked and not self._is_told:
            self._is_told = True
            self._unasked(unasked)

    def _gone(self, waiting: _Waiting, told: str) -> WorkerGone:
        """Its end as one job meets it. Where we ended it, that was no doing of whoever still waits."""
        return WorkerGone(told, begun=waiting.at_work and not self._is_asked, blob=waiting.blob)

    async def _frame(self) -> bytes:
        assert self.process.stdout is not None
        head = await self.process.stdout.readexactly(messages.LENGTH.size)
        (length,) = messages.LENGTH.unpack(head)
        if length > messages.FRAME_LIMIT:
            raise ValueError(f"a frame of {length} bytes")
        return await self.process.stdout.readexactly(length)

    def _take(self, answer: messages.Answer) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is None:
            return  # it is answered already
        match answer:
            case messages.Begun():
                self._begin(waiting)
            case messages.Ready():
                waiting.end_limits()
                waiting.at_work, waiting.is_ready = False, True
                waiting.stopped.set()
                if waiting.future.done():
                    self._abandon(answer.number, waiting)
            case messages.At():
                self._read_on(waiting, answer.blob)
            case messages.Part() | messages.RoutesPart():
                waiting.take(answer)
            case _:
                _answer(waiting, answer)
                del self._waiting[answer.number]  # not before: an answer that makes no sense ends the child

    def _begin(self, waiting: _Waiting) -> None:
        if waiting.begun:
            return  # saying so again gives it no more time
        waiting.begun = waiting.at_work = True
        waiting.moved.set()
        self._limit(waiting, waiting.seconds.run)

    def _limit(self, waiting: _Waiting, seconds: float) -> None:
        waiting.limit = asyncio.get_running_loop().call_later(seconds, self._give_up, waiting, seconds)

    def _read_on(self, waiting: _Waiting, blob: str) -> None:
        waiting.blob = blob
        if waiting.file_limit is not None:
            waiting.file_limit.cancel()
        seconds = waiting.seconds.file
        if blob and seconds is not None:
            waiting.file_limit = asyncio.get_running_loop().call_later(seconds, self._give_up, waiting, seconds, blob)


def _answer(waiting: _Waiting, answer: messages.Planned | messages.Failed) -> None:
    """Raises ValueError for an answer that makes no sense."""
    found = _failure(answer) if isinstance(answer, messages.Failed) else answer
    if not waiting.future.done():  # the caller may be gone
        if isinstance(found, errors.ReconcilerError):
            waiting.future.set_exception(found)
        else:
            waiting.future.set_result(found)
    waiting.over()


def _failure(failed: messages.Failed) -> errors.ReconcilerError:
    if failed.trace is not None:
        log.error("The reader met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return messages.Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _how(code: int | None) -> str:
    """None: it was killed, and has not ended yet."""
    return "was killed" if code is None else f"ended with {'signal' if code < 0 else 'code'} {abs(code)}"
