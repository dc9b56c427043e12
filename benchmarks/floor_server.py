"""A server of the benchmark's own beside the daemon: the same server with the same settings, in a process of its own.

Belongs here: starting it, the free port that it prints, its end. Does not: what it answers.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import uvloop
from starlette.applications import Starlette
from starlette.routing import Route

from reconciler.server import serving


@contextlib.contextmanager
def running(module: str, *arguments: str) -> Iterator[int]:
    """Run a module of the benchmark with these arguments; yields the port that it serves."""
    with subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def serve(route: Route) -> None:
    """Serve it on a free port, which is printed, until SIGTERM."""
    uvloop.run(_serve(Starlette(routes=[route])))


async def _serve(application: Starlette) -> None:
    listener = serving.bind("127.0.0.1", 0)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with serving.serve([(application, listener)], drain_seconds=1):
        print(listener.getsockname()[1], flush=True)
        await ended.wait()
