"""One worker process as the service sees it: started, given jobs, ended."""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import errors, log_context
from reconciler.store.contract import Changes
from reconciler.version import __version__
from reconciler.worker import messages
from reconciler.worker.change_stream import CHANGE_BYTES, GIBIBYTE, TOO_LARGE, ChangeStream
from reconciler.worker.limits import Exhausted
from reconciler.worker.messages import (
    Answer,
    At,
    Begun,
    CommitJob,
    Envelope,
    Failed,
    Job,
    LineageJob,
    Part,
    Planned,
    RedactJob,
    RequestJob,
    ReviewJob,
    RoutesJob,
    RoutesPart,
)

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
COMMAND = (sys.executable, "-I", "-c", "from reconciler.worker.child import main; main()")
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")


@dataclass(frozen=True, slots=True)
class WorkerSeconds:
    """How long one job may wait until it is begun, if that is bounded, and how long it may take then.

    `file` is how long it may take over one file, if that is bounded, where it says which one it reads.
    """

    run: float
    wait: float | None = None
    file: float | None = None


# The processor time of a commit ends well before this, so that only what hangs gets so far. Requests share one lane:
# one that takes a minute keeps all others from their answers.
SECONDS: Mapping[type[Job], WorkerSeconds] = {
    CommitJob: WorkerSeconds(run=900.0, file=FILE_SECONDS),
    RequestJob: WorkerSeconds(run=60.0, wait=60.0),
    LineageJob: WorkerSeconds(run=900.0),
    RedactJob: WorkerSeconds(run=900.0, wait=60.0),
    RoutesJob: WorkerSeconds(run=300.0),
    ReviewJob: WorkerSeconds(run=300.0, wait=60.0, file=FILE_SECONDS),
}


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
    """What took longer than so many seconds: a job, or one file in it."""
    what = f"Reading the file that Git knows as {blob}" if blob else "The work"
    remedy = "mend it or take it out" if blob else "do it in parts"
    return Overdue(f"{what} took longer than {seconds:g} seconds and was given up; {remedy}.", blob=blob)


class Busy(errors.Transient):
    """The job was not begun in time: others take all there is."""

    def __init__(self) -> None:
        super().__init__("The service is busy with other requests; try again in a moment.")


@dataclass(slots=True)
class Answered:
    """A planned job and the parts of its change."""

    planned: Planned
    inflow: ChangeStream = field(repr=False)
    routes: list[bytes] = field(default_factory=list, repr=False)  # see `RoutesPart`

    def parts(self) -> Iterator[Changes]:
        """The parts that wait in memory, once, decoded one at a time: on the thread that writes them."""
        return self.inflow.rest()


@dataclass(slots=True)
class _Waiting:
    """A job that is not answered. When its future is done nobody waits for it any more."""

    future: "asyncio.Future[Planned]"
    inflow: ChangeStream
    seconds: WorkerSeconds
    is_handed_over: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # it is begun, or over
    begun: bool = False
    blob: str = ""
    limit: asyncio.TimerHandle | None = None
    file_limit: asyncio.TimerHandle | None = None
    overdue: Overdue | None = None
    routes: list[bytes] = field(default_factory=list, repr=False)
    routes_size: int = 0

    def end_limits(self) -> None:
        """It is over."""
        for limit in (self.limit, self.file_limit):
            if limit is not None:
                limit.cancel()

    def take(self, part: Part | RoutesPart) -> None:
        """Keep a part, or end the job when it is one too many, or one before it could not be written."""
        if self.future.done():
            return
        try:
            if isinstance(part, Part):
                self.inflow.take(part.changes)
            else:
                self._take_routes(part.routes)
        except Exception as fault:  # a part that holds no rows, even: whoever waits gets to know
            self.future.set_exception(fault)

    def _take_routes(self, routes: bytes) -> None:
        self.routes_size += len(routes)
        if self.routes_size > CHANGE_BYTES:
            self.routes.clear()
            raise errors.Refused(TOO_LARGE.format(CHANGE_BYTES // GIBIBYTE))
        self.routes.append(routes)


class WorkerProcess:
    """One process and the jobs that wait for it. `unasked` is called when it ends without having been told to."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        seconds: Mapping[type[Job], WorkerSeconds],
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
        cls, command: Sequence[str], *, seconds: Mapping[type[Job], WorkerSeconds], unasked: Callable[[str], None]
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
        """Whether it takes no jobs any more."""
        assert self.process.stdin is not None
        return self._listening.done() or self.process.returncode is not None or self.process.stdin.is_closing()

    async def plan(self, number: int, job: Job, inflow: ChangeStream) -> Answered:
        """Have a job planned, whose parts go to `inflow`; it forgets them when this fails.

        Raises GitFault, Refused, Transient as the child says; ReaderGone, Overdue, Busy; StoreFault for what could not
        be written ahead.
        """
        future: asyncio.Future[Planned] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[number] = _Waiting(future, inflow, self._seconds[type(job)])
        planned: Planned | None = None
        try:
            await self._begun(waiting, Envelope(number, __version__, job))
            planned = await future
        except ConnectionError as error:
            await self._end()
            await self._listen_out()
            raise self._gone(waiting, "The reader ended before it took the work; the work is tried again.") from error
        finally:
            if not waiting.is_handed_over:
                self._waiting.pop(number, None)  # the child never heard of it
            if planned is None:
                inflow.forget()  # at once, so that others may write ahead while this one is tried again
                waiting.routes.clear()
            if not future.cancel() and not future.cancelled():
                future.exception()  # nobody else may ask for it, and asyncio would complain of that
        return Answered(planned, inflow, waiting.routes)

    async def _begun(self, waiting: _Waiting, envelope: Envelope) -> None:
        """Hand a job over, and wait until it is begun or over. Raises Busy, ConnectionError."""
        # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the answer.
        try:
            async with asyncio.timeout(waiting.seconds.wait):
                await self._hand_over(waiting, envelope)
                await waiting.moved.wait()
        except TimeoutError:
            raise Busy from None

    async def _hand_over(self, waiting: _Waiting, envelope: Envelope) -> None:
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
        """Whoever waits for it is told that it ended."""
        how = _how(self.process.returncode)
        self._tell(f"The reader {how}")
        told = f"The reader {how} before it answered; it is started again, and the work is tried again."
        for waiting in self._waiting.values():
            waiting.end_limits()
            if not waiting.future.done():
                waiting.future.set_exception(waiting.overdue or self._gone(waiting, told))
            waiting.moved.set()
        self._waiting.clear()

    def _tell(self, unasked: str) -> None:
        """Its end, once: a job may be overdue while it ends by itself."""
        if not self._is_asked and not self._is_told:
            self._is_told = True
            self._unasked(unasked)

    def _gone(self, waiting: _Waiting, told: str) -> WorkerGone:
        """Its end as one job meets it. Where we ended it, that was no doing of whoever still waits."""
        return WorkerGone(told, begun=waiting.begun and not self._is_asked, blob=waiting.blob)

    async def _frame(self) -> bytes:
        assert self.process.stdout is not None
        head = await self.process.stdout.readexactly(messages.LENGTH.size)
        (length,) = messages.LENGTH.unpack(head)
        if length > messages.FRAME_LIMIT:
            raise ValueError(f"a frame of {length} bytes")
        return await self.process.stdout.readexactly(length)

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is None:
            return  # it is answered already
        match answer:
            case Begun():
                self._begin(waiting)
            case At():
                self._read_on(waiting, answer.blob)
            case Part() | RoutesPart():
                waiting.take(answer)
            case _:
                _answer(waiting, answer)
                del self._waiting[answer.number]  # not before: an answer that makes no sense ends the child

    def _begin(self, waiting: _Waiting) -> None:
        if waiting.begun:
            return  # saying so again gives it no more time
        waiting.begun = True
        waiting.moved.set()
        seconds = waiting.seconds.run
        waiting.limit = asyncio.get_running_loop().call_later(seconds, self._give_up, waiting, seconds)

    def _read_on(self, waiting: _Waiting, blob: str) -> None:
        waiting.blob = blob
        if waiting.file_limit is not None:
            waiting.file_limit.cancel()
        seconds = waiting.seconds.file
        if blob and seconds is not None:
            waiting.file_limit = asyncio.get_running_loop().call_later(seconds, self._give_up, waiting, seconds, blob)


def _answer(waiting: _Waiting, answer: Planned | Failed) -> None:
    """Raises ValueError for an answer that makes no sense."""
    found = _failure(answer) if isinstance(answer, Failed) else answer
    waiting.end_limits()
    waiting.moved.set()
    if waiting.future.done():
        return  # the caller was cancelled
    if isinstance(found, errors.ReconcilerError):
        waiting.future.set_exception(found)
    else:
        waiting.future.set_result(found)


def _failure(failed: Failed) -> errors.ReconcilerError:
    if failed.trace is not None:
        log.error("The reader met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(RepositoryState(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)


def _how(code: int | None) -> str:
    """None: it was killed, and has not ended yet."""
    return "was killed" if code is None else f"ended with {'signal' if code < 0 else 'code'} {abs(code)}"
