"""Running a command of the installed program without the second in which it imports its libraries.

A process that has imported them forks for each command: the process that the command gets is its own, with its own
folder, variables and streams, and runs the installed script to the end of the interpreter.

Belongs here: asking for that. Does not: what the forked process does (`forked`).
"""

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LENGTH_BYTES = 8
STATUS_BYTES = 16
STREAMS = 3
# What Python reads when it starts, and not again.
AT_START = ("PYTHON", "LC_", "LANG")
OF_ITS_OWN = {"PYTHONWARNINGS": "error"}


def can_run(environment: Mapping[str, str]) -> bool:
    """Return True when a command with these variables may run so: one that starts Python otherwise needs a start."""
    return _at_start(environment) == OF_ITS_OWN


def without_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with which a command may run so: these, and no others that Python reads when it starts."""
    return {name: value for name, value in environment.items() if not name.startswith(AT_START)} | OF_ITS_OWN


class Process:
    """A command that runs: as much of subprocess.Popen as the tests use."""

    def __init__(
        self,
        program: Path,
        arguments: Sequence[str],
        *,
        streams: Sequence[int],
        folder: Path,
        environment: Mapping[str, str],
        has_forked_reader: bool = False,
    ) -> None:
        """Start it. `streams`: its standard input, output and error.

        `has_forked_reader`: a command that runs the daemon gets a worker that was forked, too (see `forked`).
        """
        self.args = [str(program), *arguments]
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address(program))
        asked = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
            "has_forked_reader": has_forked_reader,
        }
        told = json.dumps(asked).encode()
        socket.send_fds(self._connection, [len(told).to_bytes(LENGTH_BYTES, "big")], streams)
        self._connection.sendall(told)
        self.pid = int.from_bytes(self._connection.recv(LENGTH_BYTES, socket.MSG_WAITALL), "big")

    def poll(self) -> int | None:
        """How it ended, if it has: its exit code, or the number of a signal below zero."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended. Raises TimeoutExpired after so many seconds."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status = self._connection.recv(STATUS_BYTES)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._connection.close()
            self.returncode = int(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is known to have ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # another signal ended it in this moment
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Forget it; if it still runs, that ends it."""
        self._connection.close()


def run(
    program: Path,
    arguments: Sequence[str],
    *,
    stdin: bytes | int,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    has_forked_reader: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run does it; `stdin` is what is to be read, or a descriptor. Raises TimeoutExpired."""
    with contextlib.ExitStack() as opened:
        streams = [opened.enter_context(_memory()) for _ in range(STREAMS)]
        if isinstance(stdin, int):
            os.dup2(stdin, streams[0])
        else:
            os.write(streams[0], stdin)
            os.lseek(streams[0], 0, os.SEEK_SET)
        process = Process(
            program,
            arguments,
            streams=streams,
            folder=folder,
            environment=environment,
            has_forked_reader=has_forked_reader,
        )
        opened.callback(process.close)
        status = process.wait(seconds)
        out, err = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams[1:])
    return subprocess.CompletedProcess(process.args, status, out, err)


def stand_in(program: Path, folder: Path) -> None:
    """Put a program of the same name into a folder, whose commands run so: for scripts that look for it."""
    written = folder / program.name
    written.write_text(
        f"#!{sys.executable} -IS\n"
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.cli import forking\n"
        f"forking._address = lambda _: {_address(program)!r}\n"
        f"started = forking.Process(forking.Path({str(program)!r}), sys.argv[1:], streams=(0, 1, 2),\n"
        "    folder=os.getcwd(), environment=forking.without_start(os.environ))\n"
        "sys.exit(started.wait())\n",
        encoding="utf-8",
    )
    written.chmod(0o755)


@contextlib.contextmanager
def _memory() -> Iterator[int]:
    descriptor = os.memfd_create("stream")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


@functools.cache
def _address(program: Path) -> bytes:
    """Return where the process listens that forks; it ends with this one."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # a name of the kernel's choice
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("forked.py"), str(listener.fileno()), str(program)],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={"PATH": os.environ["PATH"], **OF_ITS_OWN},
            cwd="/",
        )
        atexit.register(process.communicate)
        return bytes(listener.getsockname())
