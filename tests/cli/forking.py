"""Running a command of the installed program without the third of a second in which it imports its libraries.

A process that has imported them forks for each command: the process that the command gets is its own, with its own
folder, variables and streams, and runs the installed script to the end of the interpreter.

Belongs here: asking for that. Does not: what the forked process does (`forked`).
"""

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

LENGTH_BYTES = 8
STATUS_BYTES = 16
# What Python reads when it starts, and not again.
AT_START = ("PYTHON", "LC_", "LANG")
OF_ITS_OWN = {"PYTHONWARNINGS": "error"}


def can_run(environment: Mapping[str, str]) -> bool:
    """Whether a command with these variables may run so: one that starts Python otherwise needs a start."""
    given = {name: value for name, value in environment.items() if name.startswith(AT_START)}
    return given == OF_ITS_OWN


def run(
    program: Path,
    arguments: Sequence[str],
    *,
    stdin: bytes,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run does it. Raises TimeoutError."""
    with contextlib.ExitStack() as opened:
        streams = [opened.enter_context(_memory()) for _ in range(3)]
        os.write(streams[0], stdin)
        os.lseek(streams[0], 0, os.SEEK_SET)
        connection = opened.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(seconds)
        connection.connect(_address(program))
        asked = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        told = json.dumps(asked).encode()
        socket.send_fds(connection, [len(told).to_bytes(LENGTH_BYTES, "big")], streams)
        connection.sendall(told)
        status = connection.recv(STATUS_BYTES)
        out, err = (os.pread(stream, os.fstat(stream).st_size, 0) for stream in streams[1:])
    return subprocess.CompletedProcess([str(program), *arguments], int(status), out, err)


@contextlib.contextmanager
def _memory() -> Iterator[int]:
    descriptor = os.memfd_create("stream")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@functools.cache
def _address(program: Path) -> bytes:
    """Where the process listens that forks; it ends with this one."""
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
