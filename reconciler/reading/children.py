"""One reader child as the daemon sees it: started, given jobs, listened to, ended.

It never comes back: after its end another is started, which is `client`'s business. Each job has a number; its parts
go as they come, in bytes, where the job's caller wants them (`inflow`).
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from reconciler import belonging, errors
from reconciler.git.faults import GitFault, State
from reconciler.reading import complaints, messages
from reconciler.reading.allowances import Exhausted
from reconciler.reading.inflow import CHANGE_BYTES, GIBIBYTE, TOO_LARGE, Inflow
from reconciler.reading.messages import (
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
from reconciler.store.contract import Changes
from reconciler.version import __version__

log = logging.getLogger(__name__)

STOP_SECONDS = 2.0
# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "from reconciler.reading.child import main; main()")
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long one job may wait until it is begun, if that is bounded, and how long it may take then."""

    run: float
    wait: float | None = None


# The processor time of a commit ends well before this, so that only what hangs gets so far. Requests share one lane:
# one that takes a minute keeps all others from their answers.
SECONDS: Mapping[type[Job], Seconds] = {
    CommitJob: Seconds(run=900.0),
    RequestJob: Seconds(run=60.0, wait=60.0),
    LineageJob: Seconds(run=900.0),
    RedactJob: Seconds(run=900.0, wait=60.0),
    RoutesJob: Seconds(run=300.0),
    ReviewJob: Seconds(run=300.0, wait=60.0),
}


class ReaderGone(errors.Transient):
    """The child ended before it answered. `begun`: it had begun the job; `blob`: while it read this file."""

    def __init__(self, message: str, *, begun: bool = False, blob: str = "") -> None:
        super().__init__(message)
        self.begun = begun
        self.blob = blob


class Overdue(errors.Transient):
    """The job took longer than one may, and its child was ended for it."""


class Busy(errors.Transient):
    """The job was not begun in time: others take all there is."""


@dataclass(slots=True)
class Answered:
    """A planned job and the parts of its change."""

    planned: Planned
    inflow: Inflow = field(repr=False)
    routes: list[bytes] = field(default_factory=list, repr=False)  # see `RoutesPart`

    def parts(self) -> Iterator[Changes]:
        """The parts that wait in memory, once, decoded one at a time: on the thread that writes them."""
        return self.inflow.rest()


@dataclass(slots=True)
class _Waiting:
    future: "asyncio.Future[Planned]"
    inflow: Inflow
    moved: asyncio.Event = field(default_factory=asyncio.Event)  # it is begun, or over
    begun: bool = False
    blob: str = ""
    routes: list[bytes] = field(default_factory=list, repr=False)
    routes_size: int = 0

    def take(self, part: Part | RoutesPart) -> None:
        """Keep a part, or end the job when it is one too many, or one before it could not be written."""
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


class Child:
    """One process and the jobs that wait for it. `unasked` is called when it ends without having been told to."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        seconds: Mapping[type[Job], Seconds],
        unasked: Callable[[str], None],
    ) -> None:
        self.process = process
        self._seconds = seconds
        self._unasked = unasked
        self._is_asked = False
        self._waiting: dict[int, _Waiting] = {}
        self._listening = asyncio.create_task(self._listen(), name="reader-answers", context=belonging.nobodys())
        assert process.stderr is not None
        self._complaining = asyncio.create_task(
            complaints.told(process.stderr), name="reader-complaints", context=belonging.nobodys()
        )

    @classmethod
    async def start(
        cls, command: Sequence[str], *, seconds: Mapping[type[Job], Seconds], unasked: Callable[[str], None]
    ) -> "Child":
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

    async def plan(self, number: int, job: Job, inflow: Inflow) -> Answered:
        """Have a job planned, whose parts go to `inflow`; it forgets them when this fails.

        Raises GitFault, Refused, Transient as the child says; ReaderGone, Overdue, Busy; StoreFault for what could not
        be written ahead.
        """
        assert self.process.stdin is not None
        waiting = self._waiting[number] = _Waiting(asyncio.get_running_loop().create_future(), inflow)
        seconds = self._seconds[type(job)]
        planned: Planned | None = None
        try:
            self.process.stdin.write(messages.frame(Envelope(number, __version__, job)))
            await self.process.stdin.drain()
            await _begun(waiting, seconds)
            # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the answer.
            async with asyncio.timeout(seconds.run):
                planned = await waiting.future
        except ConnectionError as error:
            await self._end()
            await asyncio.wait({self._listening}, timeout=STOP_SECONDS)  # until its end is told
            told = "The reader ended before it took the work; the work is tried again."
            raise ReaderGone(told, begun=waiting.begun, blob=waiting.blob) from error
        except TimeoutError as error:
            await self._replace(f"a job took longer than {seconds.run:g} seconds")
            raise Overdue(
                f"The work took longer than {seconds.run:g} seconds and was given up; do it in parts."
            ) from error
        finally:
            if planned is None:
                inflow.forget()  # at once, so that others may write ahead while this one is tried again
            if not waiting.future.cancel() and not waiting.future.cancelled():
                waiting.future.exception()  # nobody else may ask for it, and asyncio would complain of that
            del self._waiting[number]
        return Answered(planned, inflow, waiting.routes)

    async def end(self) -> None:
        """Close its input, which ends it; kill it when that does not help."""
        self._is_asked = True
        await self._end()

    async def _end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.wait({self._complaining}, timeout=STOP_SECONDS)
        self._complaining.cancel()  # whatever it started may hold the pipe

    async def _replace(self, why: str) -> None:
        """End it for what one job does: the others that are under way are not to blame."""
        if not self._is_asked:
            self._is_asked = True
            for waiting in self._waiting.values():
                waiting.begun = False
            self._unasked(f"The reader was ended, since {why}")
        await self._end()

    async def _listen(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError, ValueError):
            while True:
                self._take(messages.answer(await self._frame()))
        # The end of its output, or something that is no answer: either way this child is done.
        await self._end()
        how = _how(self.process.returncode)
        if not self._is_asked:
            self._unasked(f"The reader ended with {how}")
        for waiting in self._waiting.values():
            if not waiting.future.done():
                told = (
                    f"The reader ended with {how} before it answered; it is started again, and the work is tried again."
                )
                waiting.future.set_exception(ReaderGone(told, begun=waiting.begun, blob=waiting.blob))
            waiting.moved.set()

    async def _frame(self) -> bytes:
        assert self.process.stdout is not None
        head = await self.process.stdout.readexactly(messages.LENGTH.size)
        (length,) = messages.LENGTH.unpack(head)
        if length > messages.FRAME_LIMIT:
            raise ValueError(f"a frame of {length} bytes")
        return await self.process.stdout.readexactly(length)

    def _take(self, answer: Answer) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is None or waiting.future.done():
            return  # the caller was cancelled
        match answer:
            case Begun():
                waiting.begun = True
                waiting.moved.set()
            case At():
                waiting.blob = answer.blob
            case Part() | RoutesPart():
                waiting.take(answer)
            case Failed():
                waiting.future.set_exception(_failure(answer))
            case _:
                waiting.future.set_result(answer)


async def _begun(waiting: _Waiting, seconds: Seconds) -> None:
    try:
        async with asyncio.timeout(seconds.wait):
            await waiting.moved.wait()
    except TimeoutError:
        raise Busy("The service is busy with other requests; try again in a moment.") from None


def _failure(failed: Failed) -> errors.ReconcilerError:
    if failed.trace is not None:
        log.error("The reader met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.lasting:
        return Exhausted(failed.message)
    if failed.state is not None:
        return GitFault(State(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"code {code}"
