"""The program that `forking` starts: it imports the command line once, and forks for every command that it is sent.

Belongs here: becoming the process of one command. It runs by itself and imports nothing of the tests.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time

from reconciler.cli import main

LENGTH_BYTES = 8
STREAMS = 3


def serve(listener: socket.socket, program: str) -> None:
    """Return in the process of each command; in the first one never, until its standard input ends."""
    for entry in main.ENTRIES.values():
        importlib.import_module(entry.target.partition(":")[0])
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only one thread is there after a fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            sys.exit()
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                become(connection, program)
                return


def become(connection: socket.socket, program: str) -> None:
    """Return in the process of the command; the one above it tells how that ended, or ends it when nobody asks."""
    head, streams, _, _ = socket.recv_fds(connection, LENGTH_BYTES, STREAMS)
    told = connection.makefile("rb").read(int.from_bytes(head, "big"))
    process = os.fork()
    if process:
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


def watch(connection: socket.socket, process: int) -> None:
    """Wait for the end of a command, tell it, and end."""
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
    runpy.run_path(script, run_name="__main__")
