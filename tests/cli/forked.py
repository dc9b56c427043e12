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
from typing import Any, Never

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
    running: dict[int, Command] = {}
    while True:
        asked = {command.connection.fileno(): command for command in running.values()}
        ready, _, _ = select.select([listener, sys.stdin, *running, *asked], [], [])
        if sys.stdin in ready:
            sys.exit()
        for gone in asked.keys() & set(ready):
            asked[gone].kill()
        for ended in running.keys() & set(ready):
            running.pop(ended).tell(ended)
        if listener in ready:
            connection, _ = listener.accept()
            head, streams, _, _ = socket.recv_fds(connection, LENGTH_BYTES, STREAMS)
            told = connection.makefile("rb").read(int.from_bytes(head, "big"))
            process = os.fork()
            if process == 0:
                for other in (listener, connection, *(command.connection for command in running.values())):
                    other.close()
                for ended in running:
                    os.close(ended)
                become(json.loads(told), streams, program)
                return
            for stream in streams:
                os.close(stream)  # a pipe of the command's ends with the command
            running[os.pidfd_open(process)] = Command(process, connection)


class Command:
    """One that runs, and who asked for it."""

    def __init__(self, process: int, connection: socket.socket) -> None:
        """Tell who asked which process it is."""
        self.process = process
        self.connection = connection
        self.answer(process.to_bytes(LENGTH_BYTES, "big"))

    def tell(self, ended: int) -> None:
        """Tell how it ended, and take note of that, so that its processor time counts as that of the tests."""
        os.close(ended)
        _, status = os.waitpid(self.process, 0)
        self.answer(str(os.waitstatus_to_exitcode(status)).encode())
        self.connection.close()

    def kill(self) -> None:
        """End it, since nobody asks any more. Before any of them is told of, or its number could be another's."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def answer(self, told: bytes) -> None:
        """Whoever asked may have gone."""
        with contextlib.suppress(BrokenPipeError):
            self.connection.sendall(told)


def become(request: dict[str, Any], streams: list[int], program: str) -> None:
    """Be the process of that command."""
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
