"""One run of a program to its end, with limits on its time, output, memory and files.

Each run has a thread of its own. `subprocess` starts a program with vfork; the event loop would copy the page tables of
this process, which takes several milliseconds of CPU. Only this thread closes its pipes, so it never closes a file that
another thread opened under the same number.
"""

import asyncio
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.model.errors import Refused, Transient, system_reason
from reconciler.settings import bounded_io

CHUNK_BYTES = 64 * 1024
STDERR_BYTES = 64 * 1024
ULIMIT_BLOCK_BYTES = 512  # the unit of `ulimit -f` in a POSIX shell
ULIMIT_DATA_BYTES = 1024  # the unit of `ulimit -d`
NOT_FOUND = 127  # the status of a shell that found no such program
REAP_SECONDS = 5.0  # a process that survives SIGKILL for so long hangs in the kernel (a dead network disk)
WAKE_SECONDS = 1.0  # how often a thread checks whether its program was killed, though something keeps its pipes open

Watch = Callable[[bytes], str | None]


class Finished(NamedTuple):
    """The end of a program.

    `truncated`: it wrote more than its limit and was stopped; `stdout` is the beginning. `errors` is the end of its
    standard error, in whole lines. `stopped` is the reason if `watch` stopped it.
    """

    status: int
    stdout: bytes
    truncated: bool
    errors: bytes
    stopped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments. It and its children inherit only these `descriptors`.

    `watch` gets all of its standard error, piece by piece, in another thread, and may stop it by returning a reason.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    stdin: int = subprocess.DEVNULL  # a descriptor that it reads from its present position
    seconds: float
    output_bytes: int
    file_bytes: int | None = None
    data_bytes: int | None = None  # of memory, for each process; files that it maps do not count
    watch: Watch | None = None


def environment(home: Path) -> dict[str, str]:
    """Return the variables of every program. Only the search path for programs is inherited."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C"}


async def run_command(command: Command) -> Finished:
    """Run a program to its end.

    Raises TimeoutError if it takes longer than its limit, Refused if there is no such program, Transient if it cannot
    be started now. In every case, no process of it remains.
    """
    run = _Run(command)
    ended = bounded_io.on_thread(run.finish)
    try:
        async with asyncio.timeout(command.seconds):
            return await asyncio.shield(ended)
    finally:
        run.kill()
        if not ended.done():
            await _reaped(ended)


async def _reaped(ended: "asyncio.Future[Finished]") -> None:
    """Wait until a killed program has ended, even if the caller is cancelled again, since it takes only a moment."""
    loop = asyncio.get_running_loop()
    end = loop.time() + REAP_SECONDS + WAKE_SECONDS
    while not ended.done() and loop.time() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({ended}, timeout=end - loop.time())
    if ended.done() and not ended.cancelled():
        ended.exception()  # nobody waits for it any more


class _Run:
    """A program and the thread that reads its output."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._lock = threading.Lock()  # so that no number is killed that may be another process's by then
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._stdout = bytearray()
        self._truncated = False
        self._stderr = bytearray()
        self._is_cut = False
        self._stopped: str | None = None

    def kill(self) -> None:
        """Kill the program and its process group, unless it has ended."""
        with self._lock:
            self._is_over = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def finish(self) -> Finished:
        """Start the program, and read its output until it has ended."""
        with self._lock:
            if self._is_over:
                raise Transient("the program was not started, since nobody waits for it")
            process = self._process = _started(self._command)
        try:
            self._read(process)
        finally:
            self._reap(process)
        status = process.returncode
        if status == NOT_FOUND:  # which the shell only says
            _check_program(self._command)
        errors = bytes(self._stderr)
        if self._is_cut:  # of a part of a line nobody could tell whose it is, nor whether a part of a secret is in it
            errors = errors.partition(b"\n")[2]
        return Finished(status, bytes(self._stdout), self._truncated, errors, self._stopped)

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Read both pipes to their ends, or until it is killed."""
        with selectors.DefaultSelector() as selector:
            for pipe, take in ((process.stdout, self._take_output), (process.stderr, self._take_error)):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, take)
            while selector.get_map() and not self._is_over:
                for key, _ in selector.select(WAKE_SECONDS):
                    if chunk := os.read(key.fd, CHUNK_BYTES):
                        key.data(chunk)
                    else:
                        selector.unregister(key.fileobj)

    def _reap(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for its end. It is near, because the program closed its pipes or was killed."""
        while not self._is_over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(WAKE_SECONDS)
                break
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(REAP_SECONDS)
        with self._lock:
            process.poll()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if process.returncode is None:
            raise Transient(f"the program {self._command.arguments[0]} hangs in the kernel; it is tried again")

    def _take_output(self, chunk: bytes) -> None:
        room = self._command.output_bytes - len(self._stdout)
        self._stdout += chunk[:room]
        if len(chunk) > room:
            self._truncated = True
            self.kill()

    def _take_error(self, chunk: bytes) -> None:
        if self._command.watch is not None and self._stopped is None:
            self._stopped = self._command.watch(chunk)
            if self._stopped is not None:
                self.kill()
        self._stderr += chunk
        if len(self._stderr) > STDERR_BYTES:
            self._is_cut = True
            del self._stderr[:-STDERR_BYTES]


def _started(command: Command) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            _bounded(command),
            stdin=command.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=command.folder,
            env=command.environment,
            pass_fds=command.descriptors,
            start_new_session=True,  # a process group of its own, so that what it starts ends with it
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError):  # of the program, or of the folder to run it in
            _check_program(command)
        told = f"the program {command.arguments[0]} cannot be started ({system_reason(error)})"
        raise Transient(f"{told}; it is tried again") from error


def _check_program(command: Command) -> None:
    if shutil.which(command.arguments[0], path=command.environment.get("PATH")) is None:
        raise Refused(f"the program {command.arguments[0]} is not on PATH; install it")


def _bounded(command: Command) -> tuple[str, ...]:
    """Return the command with its limits. The shell sets them, because after the start it would be too late."""
    limits = []
    if command.file_bytes is not None:
        # The signal is ignored, so that git says "File too large" instead of ending without a word.
        limits += ["trap '' XFSZ", f"ulimit -f {-(-command.file_bytes // ULIMIT_BLOCK_BYTES)}"]
    if command.data_bytes is not None:
        limits += [f"ulimit -d {-(-command.data_bytes // ULIMIT_DATA_BYTES)}"]
    if not limits:
        return command.arguments
    return ("/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command.arguments)
