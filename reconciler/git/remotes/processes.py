"""Starting a program, and bounding its time, output and files."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from reconciler.model.errors import ReconcilerError, Refused, Transient, system_reason

# Starting a program cheaply. The event loop's own way copies the tables of this process's memory for each, which costs
# several milliseconds of CPU, a third of a poll; `subprocess` shares them until the program runs (vfork).

READ_BYTES = 64 * 1024  # at a time
REAP_SECONDS = 5.0  # a process that survives SIGKILL for so long hangs in the kernel (a dead network disk)


class ChildPipe:
    """The end of a pipe that is read when somebody asks; whoever writes waits when it is full. One reads at a time.

    The loop's own transports close a descriptor that another thread may have by then: uvloop's close it, and then the
    file that it was given of it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting: asyncio.Future[None] | None = None
        os.set_blocking(file.fileno(), False)

    async def read(self, most: int = READ_BYTES) -> bytes:
        """At most so many bytes, as soon as there are some; none at the end, and once it is closed."""
        while not self._file.closed:
            with contextlib.suppress(BlockingIOError):
                return os.read(self._file.fileno(), most)
            await self._readable()
        return b""

    def close(self) -> None:
        """Read no more."""
        if self._waiting is not None:
            self._awaken(self._waiting)
        self._file.close()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        loop.add_reader(self._file.fileno(), self._awaken, waiting)
        try:
            await waiting
        finally:
            self._awaken(waiting)

    def _awaken(self, waiting: "asyncio.Future[None]") -> None:
        """End a wait, once, before the descriptor can become another file's."""
        if self._waiting is waiting:
            self._waiting = None
            asyncio.get_running_loop().remove_reader(self._file.fileno())
        if not waiting.done():
            waiting.set_result(None)


class Child:
    """A program that was started, in a process group of its own. Use it on the loop that started it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self.stdout, self.stderr = ChildPipe(process.stdout), ChildPipe(process.stderr)
        self._process = process
        self._ended = asyncio.Event()
        self._descriptor = os.pidfd_open(self.pid)  # can be read once the process has ended
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def wait(self) -> int:
        """Its exit status, negative for the number of a signal, once it has ended."""
        await self._ended.wait()
        return self._process.returncode

    def close(self) -> None:
        """Read no more, though something that it started may still hold its pipes."""
        self.stdout.close()
        self.stderr.close()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._process.wait()  # it has ended
        self._ended.set()


async def start_child(
    arguments: tuple[str, ...],
    *,
    folder: Path,
    environment: Mapping[str, str],
    descriptors: tuple[int, ...],
    stdin: int,
) -> Child:
    """Start a program with pipes for what it writes. However this fails, no process of it stays.

    Raises FileNotFoundError when there is no program of this name, or no such folder: `filename` is what is missing.
    """
    process = _started(arguments, folder=folder, environment=environment, descriptors=descriptors, stdin=stdin)
    try:
        return Child(process)
    except BaseException:  # this process has no descriptor left, for instance
        kill_group(process.pid)
        await _given_up(process)
        raise


def kill_group(process: int) -> None:
    """Kill a process that began a session, and all of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _started(
    arguments: tuple[str, ...],
    *,
    folder: Path,
    environment: Mapping[str, str],
    descriptors: tuple[int, ...],
    stdin: int,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=folder,
        env=environment,
        pass_fds=descriptors,
        start_new_session=True,  # a process group of its own, so that what it starts ends with it
    )


async def _given_up(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process that was killed, and reap it."""
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, REAP_SECONDS)


# One run of a program to its end, with its time, its output and the files it writes bounded.

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
        kill_group(process.pid)

    waiting = None if halt is None else asyncio.create_task(wait(halt), name="wait to halt a program")
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait([waiting])


async def end_process(process: asyncio.subprocess.Process | Child) -> None:
    """Kill a process that `start_new_session` began, and its group. What git leaves then, the mirror sweeps."""
    kill_group(process.pid)
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
        return await start_child(
            _bounded(command),
            folder=command.folder,
            environment=command.environment,
            descriptors=command.descriptors,
            stdin=command.stdin,
        )
    except FileNotFoundError as error:
        raise missing_program(command.arguments[0], folder=command.folder) from error
    except OSError as error:
        told = f"the program {command.arguments[0]} cannot be started ({system_reason(error)})"
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
            kill_group(process.pid)
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
                    kill_group(self._process.pid)
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
