"""Starting a program cheaply. The event loop's own way copies the tables of this process's memory for each, which costs
several milliseconds of CPU, a third of a poll; `subprocess` shares them until the program runs (vfork).

Belongs here: the start, the pipes, the end. Does not: limits, and when to kill (`processes`).
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

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
