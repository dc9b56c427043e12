"""The program that `forking` starts: it imports the command line once, and forks for every command that it is sent.

The worker of a daemon that was forked is forked here as well, not in the daemon, which has threads. The daemon
starts a small process in its place (`STAND_IN`), which asks for it and ends with it.

Belongs here: becoming the process of one command, a daemon for instance, or of a worker. It runs by itself and
imports nothing of the tests.
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
import traceback
import warnings
from typing import Any, Never

from api import openapi
from reconciler.cli import main
from reconciler.model import builtins, names, validators

LENGTH_BYTES = 8
STREAMS = 3
# What commands import only when they need it, and most do.
LATER = (
    "httpx2",
    "httpcore2",
    "encodings.idna",
    "pkgutil",
    "argon2",
    "uvicorn.lifespan.off",
    "reconciler.review.static",
    "rich.cells",
    "reconciler.worker.child",
)
READER_STREAMS = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(STREAMS))
# Runs in a Python of its own, as the real one, so that the daemon starts, hears and ends a child as ever; with nothing
# imported that is not built in, since its start is what this saves. It ends as the worker that stands behind it does;
# when it is killed, the worker is.
STAND_IN = """\
import _socket, posix, sys  # for reconciler.worker.child
told = {told!r} + b"".join(b"\\0" + one.encode("utf-8", "surrogateescape") for one in sys.argv[1:])
asked = _socket.socket(_socket.AF_UNIX)
asked.connect({address!r})
asked.sendmsg([len(told).to_bytes({length}, "big") + told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, {streams!r})])
posix.closerange(0, {number})
asked.recv({length}, _socket.MSG_WAITALL)
code = int(asked.recv(16) or 1)
if code < 0:
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


def serve(listener: socket.socket, program: str) -> None:
    """Return in the process of each command; in the first one never, until its standard input ends."""
    prepare()
    assert len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only one thread is there after a fork
    address = bytes(listener.getsockname())
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
            if not streams:  # whoever asks was killed meanwhile
                connection.close()
                continue
            told, *more = connection.makefile("rb").read(int.from_bytes(head, "big")).split(b"\0")
            process = os.fork()
            if process == 0:
                for other in (listener, connection, *(command.connection for command in running.values())):
                    other.close()
                for ended in running:
                    os.close(ended)
                request = json.loads(told)
                request["arguments"] += [os.fsdecode(one) for one in more]  # of a reader
                become(request, streams, program, address=address)
                return
            for stream in streams:
                os.close(stream)  # a pipe of the command's ends with the command
            running[os.pidfd_open(process)] = Command(process, connection)


def prepare() -> None:
    """Import what commands need, and make what each of them makes once."""
    for entry in main.ENTRIES.values():
        importlib.import_module(entry.target.partition(":")[0])
    for module in LATER:
        importlib.import_module(module)
    openapi.encoded()
    builtins.shown()
    for kind in (None, *names.KINDS):
        validators.violations(kind, {})
    gc.collect()
    gc.freeze()


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
        """Answer a client that may have gone."""
        with contextlib.suppress(BrokenPipeError):
            self.connection.sendall(told)


def become(request: dict[str, Any], streams: list[int], program: str, *, address: bytes) -> None:
    """Be the process of that command; never returns in that of a worker."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # The one that is there took note whether it can seek, in which a file and a pipe differ.
        old = getattr(sys, name)
        fresh = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115 - it stays open
        fresh.reconfigure(line_buffering=old.line_buffering)
        setattr(sys, name, fresh)
    os.chdir(request["folder"])
    kept = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # which Python sets when it starts
    os.environ.clear()
    os.environ.update({**kept, **request["environment"]})
    time.tzset()
    sys.argv = [program, *request["arguments"]]
    if request.get("is_reader"):
        read(*request["arguments"])
    if request.get("has_forked_reader"):
        let_readers_be_forked(address)


def let_readers_be_forked(address: bytes) -> None:
    """In the process of a daemon: its readers are asked for at this address."""
    from reconciler.worker import client, process  # noqa: PLC0415 - a part of the service, which not every command is

    environment = {name: os.environ[name] for name in process.ENVIRONMENT if name in os.environ}
    request = {"is_reader": True, "arguments": [], "folder": os.getcwd(), "environment": environment}  # noqa: PTH109
    told = json.dumps(request).encode()
    program = STAND_IN.format(
        address=address,
        told=told,
        streams=READER_STREAMS,
        number=STREAMS,
        length=LENGTH_BYTES,
    )
    defaults = client.WorkerClient.__init__.__kwdefaults__
    assert defaults is not None
    defaults["command"] = (sys.executable, "-I", "-S", "-c", program)


def read(*granted: str) -> Never:
    """Be a worker."""
    from reconciler.worker import child  # noqa: PLC0415 - as above

    try:
        os.setsid()
        warnings.resetwarnings()  # it is told of none by variables
        child.main(*granted)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


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
