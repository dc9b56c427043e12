"""The daemon's side of the reader child: starts it, sends it jobs, and starts another when it ends.

Each job has a number; its parts are kept as they came, in bytes, until they are written.
"""

import asyncio
import itertools
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from reconciler import errors
from reconciler.git.faults import GitFault, State
from reconciler.reading import messages
from reconciler.reading.messages import Envelope, Failed, Job, Part, Planned
from reconciler.store.contract import Changes
from reconciler.version import __version__

log = logging.getLogger(__name__)

STOP_SECONDS = 2.0
JOB_SECONDS = 900.0  # a first read of a very large repository; over this, the child is replaced
# Isolated mode: neither the working directory nor PYTHON* variables choose what the child imports.
COMMAND = (sys.executable, "-I", "-c", "from reconciler.reading.child import main; main()")
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "HOME")

CHANGE_BYTES = 1024**3  # of one change, held in memory until it is written
TOO_LARGE = "This would change more than 1 GiB at once; commit or send it in parts."

_changes = msgspec.msgpack.Decoder(Changes)


class ReaderGone(errors.Transient):
    """The child ended before it answered."""


@dataclass(slots=True)
class Answered:
    """A planned job and the parts of its change."""

    planned: Planned
    _parts: list[bytes] = field(default_factory=list)

    def parts(self) -> Iterator[Changes]:
        """The parts, decoded one at a time: on the thread that writes them."""
        return map(_changes.decode, self._parts)


@dataclass(slots=True)
class _Waiting:
    future: "asyncio.Future[Planned]"
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def take(self, changes: bytes) -> None:
        """Keep a part, until there are more bytes than a change may have."""
        self.size += len(changes)
        if self.size > CHANGE_BYTES:
            self.parts.clear()
            self.future.set_exception(errors.Refused(TOO_LARGE))
        else:
            self.parts.append(changes)


class Reader:
    """One child at a time. `start` and `stop` bracket its use; `plan` may be called by any number of tasks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._child: _Child | None = None
        self._starting = asyncio.Lock()
        self._stopped = False

    async def start(self) -> None:
        """Start the child, so that the first job does not wait for it."""
        await self._present()

    async def plan(self, job: Job) -> Answered:
        """Have a job planned. Raises GitFault, Refused, Transient as the child says, ReaderGone when it ends twice."""
        child = await self._present()
        try:
            return await child.plan(next(self._numbers), job)
        except ReaderGone:
            if self._stopped:
                raise
        # Most often it ended while idle, or over another's job. Once more only: it may be this job that ends it.
        return await (await self._present()).plan(next(self._numbers), job)

    async def stop(self) -> None:
        """End the child; jobs under way raise ReaderGone."""
        self._stopped = True
        if self._child is not None:
            await self._child.end()

    @property
    def process_id(self) -> int | None:
        """The child's process, while there is one."""
        return None if self._child is None or self._child.has_ended else self._child.process.pid

    async def _present(self) -> "_Child":
        async with self._starting:
            if self._child is None or self._child.has_ended:
                self._child = await _Child.start()
            return self._child


class _Child:
    """One process and the jobs that wait for it. It never comes back: after its end, another is started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._waiting: dict[int, _Waiting] = {}
        self._listening = asyncio.create_task(self._listen(), name="reader-answers")

    @classmethod
    async def start(cls) -> "_Child":
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,  # an interrupt at the terminal is the daemon's to handle
        )
        return cls(process)

    @property
    def has_ended(self) -> bool:
        assert self.process.stdin is not None
        return self._listening.done() or self.process.returncode is not None or self.process.stdin.is_closing()

    async def plan(self, number: int, job: Job) -> Answered:
        assert self.process.stdin is not None
        waiting = self._waiting[number] = _Waiting(asyncio.get_running_loop().create_future())
        try:
            self.process.stdin.write(messages.frame(Envelope(number, __version__, job)))
            await self.process.stdin.drain()
            planned = await asyncio.wait_for(waiting.future, JOB_SECONDS)
        except ConnectionError as error:
            await self.end()
            raise ReaderGone("The reader ended before it took the work; the work is tried again.") from error
        except TimeoutError as error:
            await self.end()
            raise errors.Transient(
                f"The reader did not answer within {JOB_SECONDS:g} seconds and was replaced; the work is tried again."
            ) from error
        finally:
            del self._waiting[number]
        return Answered(planned, waiting.parts)

    async def end(self) -> None:
        """Close its input, which ends it; kill it when that does not help."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    async def _listen(self) -> None:
        try:
            while True:
                self._take(messages.answer(await self._frame()))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError, ValueError):
            # The end of its output, or something that is no answer: either way this child is done.
            await self.end()
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(ReaderGone(_end_message(self.process.returncode)))

    async def _frame(self) -> bytes:
        assert self.process.stdout is not None
        head = await self.process.stdout.readexactly(messages.LENGTH.size)
        (length,) = messages.LENGTH.unpack(head)
        if length > messages.FRAME_LIMIT:
            raise ValueError(f"a frame of {length} bytes")
        return await self.process.stdout.readexactly(length)

    def _take(self, answer: Part | Planned | Failed) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is None or waiting.future.done():
            return  # the caller was cancelled
        match answer:
            case Part():
                waiting.take(answer.changes)
            case Failed():
                waiting.future.set_exception(_failure(answer))
            case _:
                waiting.future.set_result(answer)


def _failure(failed: Failed) -> errors.ReconcilerError:
    if failed.trace is not None:
        log.error("The reader met a fault of its own.", extra={"fields": {"trace": failed.trace}})
    if failed.state is not None:
        return GitFault(State(failed.state), failed.message)
    return errors.Transient(failed.message) if failed.transient else errors.Refused(failed.message)


def _end_message(code: int | None) -> str:
    how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
    return f"The reader ended with {how} before it answered; it is started again, and the work is tried again."
