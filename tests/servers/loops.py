"""An asyncio server in a thread of its own, for tests that are not asynchronous.

What is served is the caller's; here is the thread, and that nothing stays when it ends.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TypeVar

from tests.servers.processes import ADDRESS

CALL_SECONDS = 10.0
CHUNK_BYTES = 64 * 1024

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """A port whose connections a handler gets, each in a task; it may stop listening and begin again, unnoticed by
    anybody who would like to have the port.
    """

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext | None = None, address: str = ADDRESS) -> None:
        self._handler = handler
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()  # of the connections that are not closed yet
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test server")
        self._server: asyncio.Server | None = None
        self._address = address
        # Bound and never listening: it keeps the port for us while we refuse connections.
        self._keeper = _bound(address, 0)
        self.port = int(self._keeper.getsockname()[1])

    def begin(self) -> None:
        """Start the thread and listen."""
        self._thread.start()
        self.call(self._listen())

    def end(self) -> None:
        """Stop listening, cut what is connected, and end the thread."""
        self.call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()
        self._keeper.close()

    def listen(self, wanted: bool) -> None:
        """Take connections, or have the kernel refuse them."""
        self.call(self._listen() if wanted else self._deafen())

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Return what a coroutine gives, from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)

    def drop(self) -> None:
        """Cut every connection that there is."""
        self.call(self._drop())

    async def _listen(self) -> None:
        if self._server is None:
            bound = _bound(self._address, self.port)
            self._server = await asyncio.start_server(self._accept, sock=bound, backlog=256, ssl=self._tls)

    async def _deafen(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _close(self) -> None:
        """End every task and close every connection, also one that came at the very end: the loop ends after this."""
        await self._deafen()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        for writer in list(self._writers):
            await closed(writer)

    async def _drop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = self._loop.create_task(self._handle(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._handler(reader, writer)
        finally:
            await closed(writer)
            self._writers.discard(writer)


@contextlib.contextmanager
def listening(handler: Handler) -> Iterator[Listener]:
    """A listener for as long as the context lasts."""
    listener = Listener(handler)
    listener.begin()
    try:
        yield listener
    finally:
        listener.end()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Cut a connection, and wait until its socket is closed."""
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except OSError:
        pass
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        await asyncio.sleep(0)  # a task that waited too was cancelled, and with it what all wait for; it closes now


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass everything on, and then the end."""
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _bound(address: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((address, port))
    return bound
