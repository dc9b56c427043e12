"""One run of a program to its end, with its time, its output and the files it writes bounded.

Belongs here: starting, reading, killing the whole group; the variables that every program has. Does not: what the
program is, the variables of its own, and its words.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.model.errors import ReconcilerError, Refused, Transient
from reconciler.remotes import spawning
from reconciler.remotes.spawning import REAP_SECONDS, Child, ChildPipe

CHUNK_BYTES = 64 * 1024
STDERR_BYTES = 64 * 1024
ULIMIT_BLOCK_BYTES = 512  # the unit of `ulimit -f` in a POSIX shell
ULIMIT_DATA_BYTES = 1024  # the unit of `ulimit -d`
NOT_FOUND = 127  # with which a shell ends that found no such program

Watch = Callable[[bytes], str | None]


class FolderGone(Transient):
    """The folder in which a program was to run is not there any more."""


class Finished(NamedTuple):
    """How a program ended.

    `truncated`: it wrote more than its limit and was stopped; `stdout` is the beginning. `stderr` is the beginning and
    the end of what it wrote there, which are `errors` and `last_errors` when something in between was thrown away.
    `stopped`: why `watch` had it stopped.
    """

    status: int
    stdout: bytes
    truncated: bool
    errors: bytes
    last_errors: bytes | None
    stopped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments. `descriptors` are open in it and in what it starts; nothing else of ours is.

    `watch` gets all of its standard error, piece by piece, and may have it stopped by giving a reason.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    stdin: int = asyncio.subprocess.DEVNULL  # a descriptor that it reads from where that stands
    seconds: float
    output_bytes: int
    file_bytes: int | None = None
    data_bytes: int | None = None  # of memory, for each process; files that it maps do not count
    watch: Watch | None = None
    halt: asyncio.Event | None = None  # once it is set, the program is killed


def environment(home: Path) -> dict[str, str]:
    """The variables that every program has; nothing is inherited but the search path for programs."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C"}


async def run_command(command: Command) -> Finished:
    """Run a program to its end.

    Raises TimeoutError when it takes longer than its limit, Refused when there is no such program, FolderGone when
    there is no such folder, Transient when it cannot be started now. However this call ends, no process of it stays.
    """
    process = await _start(command)
    ended = False
    try:
        async with asyncio.timeout(command.seconds):
            kept = _StandardError(process, command.watch)
            async with _halting(process, command.halt):
                (stdout, truncated), _ = await asyncio.gather(
                    _read(process, limit=command.output_bytes), kept.read(process.stderr)
                )
                status = await process.wait()
            ended = not truncated and kept.stopped is None
    finally:
        try:
            if not ended:
                await end_process(process)
        finally:  # whoever is cancelled while it ends leaves no pipe either
            process.close()
    if status == NOT_FOUND and _is_missing(command):  # which the shell only says
        raise missing_program(command.arguments[0], folder=command.folder)
    return Finished(status, stdout, truncated, *kept.parts(), kept.stopped)


@asynccontextmanager
async def _halting(process: Child, halt: asyncio.Event | None) -> AsyncIterator[None]:
    """Kill the process, and its group, when the event comes first."""

    async def wait(event: asyncio.Event) -> None:
        await event.wait()
        spawning.kill_group(process.pid)

    waiting = None if halt is None else asyncio.create_task(wait(halt), name="wait to halt a program")
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait([waiting])


async def end_process(process: asyncio.subprocess.Process | Child) -> None:
    """Kill a process that `start_new_session` began, and its group. What git leaves then, the mirror sweeps."""
    spawning.kill_group(process.pid)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await process.wait()


async def _start(command: Command) -> Child:
    """The process. A caller who is cancelled meanwhile leaves none: asyncio would end it alone, not its group."""
    starting = asyncio.create_task(_execute(command), name=f"start {command.arguments[0]}")
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():  # it takes a moment, and whoever is cancelled twice must not forget it
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({starting})
        with contextlib.suppress(Refused, Transient):
            process = starting.result()
            try:
                await end_process(process)
            finally:
                process.close()
        raise


async def _execute(command: Command) -> Child:
    try:
        return await spawning.start_child(
            _bounded(command),
            folder=command.folder,
            environment=command.environment,
            descriptors=command.descriptors,
            stdin=command.stdin,
        )
    except FileNotFoundError as error:
        raise missing_program(command.arguments[0], folder=command.folder) from error
    except OSError as error:
        told = f"the program {command.arguments[0]} cannot be started ({os.strerror(error.errno or 0)})"
        raise Transient(f"{told}; it is tried again") from error


def missing_program(program: str, *, folder: Path) -> ReconcilerError:
    """Why a program was not found: the system says the same of the folder in which it was to run."""
    if not folder.is_dir():
        return FolderGone(f"the folder {folder} is gone; it is made again")
    return Refused(f"the program {program} is not on PATH; install it")


def _is_missing(command: Command) -> bool:
    return shutil.which(command.arguments[0], path=command.environment.get("PATH")) is None


def _bounded(command: Command) -> tuple[str, ...]:
    """The command under its limits: by the shell, since a limit set after the start comes too late."""
    limits = []
    if command.file_bytes is not None:
        # The signal is ignored, so that git says "File too large" instead of ending without a word.
        limits += ["trap '' XFSZ", f"ulimit -f {-(-command.file_bytes // ULIMIT_BLOCK_BYTES)}"]
    if command.data_bytes is not None:
        limits += [f"ulimit -d {-(-command.data_bytes // ULIMIT_DATA_BYTES)}"]
    if not limits:
        return command.arguments
    return ("/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command.arguments)


async def _read(process: Child, *, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of the output. More than that stops the process."""
    kept = bytearray()
    truncated = False
    while chunk := await process.stdout.read(CHUNK_BYTES):
        room = limit - len(kept)
        kept += chunk[:room]
        if len(chunk) > room and not truncated:
            truncated = True
            spawning.kill_group(process.pid)
    return bytes(kept), truncated


class _StandardError:
    """What a process writes to its standard error: the beginning, with the cause, and the end, with the result."""

    def __init__(self, process: Child, watch: Watch | None) -> None:
        self.stopped: str | None = None
        self._process = process
        self._watch = watch
        self._first = bytearray()
        self._last = bytearray()
        self._cut = False

    async def read(self, stream: ChildPipe) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            if self._watch is not None and self.stopped is None:
                self.stopped = self._watch(chunk)
                if self.stopped is not None:
                    spawning.kill_group(self._process.pid)
            room = STDERR_BYTES // 2 - len(self._first)
            self._first += chunk[:room]
            self._last += chunk[room:]
            if len(self._last) > STDERR_BYTES // 2:
                self._cut = True
                del self._last[: -(STDERR_BYTES // 2)]

    def parts(self) -> tuple[bytes, bytes | None]:
        """The beginning, and the end when there is something between them that was thrown away."""
        if self._cut:
            return bytes(self._first), bytes(self._last)
        return bytes(self._first + self._last), None
