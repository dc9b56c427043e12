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

READ_BYTES = 64 * 1024  # so much of what it wrote is kept for whoever reads; then it waits
REAP_SECONDS = 5.0  # a process that survives SIGKILL for so long hangs in the kernel (a dead network disk)


class Child:
    """A program that was started, in a process group of its own. Use it on the loop that started it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.stdout = asyncio.StreamReader(limit=READ_BYTES)
        self.stderr = asyncio.StreamReader(limit=READ_BYTES)
        self._process = process
        self._ended = asyncio.Event()
        self._pipes: list[asyncio.ReadTransport] = []
        self._descriptor = os.pidfd_open(self.pid)  # can be read once the process has ended
        asyncio.get_running_loop().add_reader(self._descriptor, self._reap)

    async def open(self) -> None:
        """Read its pipes from now on."""
        for pipe, reader in zip(_pipes(self._process), (self.stdout, self.stderr), strict=True):
            self._pipes.append(await _connected(pipe, reader))

    async def wait(self) -> int:
        """Its exit status, negative for the number of a signal, once it has ended."""
        await self._ended.wait()
        return self._process.returncode

    @property
    def connected(self) -> int:
        """How many of its pipes, the first ones, belong to the event loop."""
        return len(self._pipes)

    def close(self) -> None:
        """Read no more, though something that it started may still hold its pipes."""
        for pipe in self._pipes:
            pipe.close()

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._process.wait()  # it has ended
        self._ended.set()


async def start(
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
    child: Child | None = None
    try:
        child = Child(process)
        await child.open()
    except BaseException:  # this process has no descriptor left, for instance
        kill_group(process.pid)
        await _given_up(process, child)
        raise
    return child


def kill_group(process: int) -> None:
    """Kill a process that began a session, and all of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


async def _given_up(process: subprocess.Popen[bytes], child: Child | None) -> None:
    """Close the pipes of a process that was killed, and reap it."""
    for pipe in _pipes(process)[0 if child is None else child.connected :]:
        pipe.close()
    with contextlib.suppress(TimeoutError, subprocess.TimeoutExpired):
        if child is None:
            await asyncio.to_thread(process.wait, REAP_SECONDS)
            return
        child.close()
        async with asyncio.timeout(REAP_SECONDS):
            await child.wait()


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


async def _connected(pipe: IO[bytes], reader: asyncio.StreamReader) -> asyncio.ReadTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return transport


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout, process.stderr
