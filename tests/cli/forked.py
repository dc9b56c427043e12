"""The program that `forking` starts: it imports the command line once, and forks for every command that it is sent.

Belongs here: becoming the process of one command, a daemon for instance. It runs by itself and imports nothing of the
tests.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from typing import Never

from api import openapi
from reconciler.cli import main

LENGTH_BYTES = 8
STREAMS = 3
LATER = (
    "httpx2",
    "httpcore2",
    "reconciler.cli.plan_static",
)  # what commands import only when they need it, and most do


def serve(listener: socket.socket, program: str) -> None:
    """Return in the process of each command; in the first one never, until its standard input ends."""
    for entry in main.ENTRIES.values():
        importlib.import_module(entry.target.partition(":")[0])
    for module in LATER:
        importlib.import_module(module)
    openapi.encoded()  # which a daemon makes once, too
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only one thread is there after a fork
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        reap()
        if sys.stdin in ready:
            sys.exit()
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                become(connection, program)
                return


def reap() -> None:
    """Take note of what has ended, so that its processor time counts as that of the tests."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def become(connection: socket.socket, program: str) -> None:
    """Return in the process of the command; the one above it tells how that ended, or ends it when nobody asks."""
    head, streams, _, _ = socket.recv_fds(connection, LENGTH_BYTES, STREAMS)
    told = connection.makefile("rb").read(int.from_bytes(head, "big"))
    process = os.fork()
    if process:
        for stream in streams:
            os.close(stream)  # a pipe of the command's ends with the command
        watch(connection, process)
    request = json.loads(told)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    kept = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # which Python sets when it starts
    os.environ.clear()
    os.environ.update({**kept, **request["environment"]})
    time.tzset()
    sys.argv = [program, *request["arguments"]]


def end(code: object) -> Never:
    """End as the interpreter does, but do not take all modules apart, which takes longer than most commands.

    What nobody holds any more is found here too: a file that was left open, of which the interpreter warns.
    """
    assert isinstance(code, int)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watch(connection: socket.socket, process: int) -> None:
    """Tell which process a command is, wait for its end, tell that, and end."""
    connection.sendall(process.to_bytes(LENGTH_BYTES, "big"))
    ended = os.pidfd_open(process)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


if __name__ == "__main__":
    script = sys.argv[2]
    sys.path[0] = os.path.dirname(script)  # noqa: PTH120 - as it is when the script is run
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        serve(listening, script)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as asked:
        code = asked.code
    end(code)
