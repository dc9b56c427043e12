"""The endpoint of a demonstration: takes what a webhook of the example repository posts, for somebody to see.

Belongs here: its address, one request and its answer. Does not: showing what arrives (`demo`).

It listens where the example says, or on any port of this machine when somebody has that: `redirect` writes that port
into a copy of the example.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from reconciler.model.errors import Refused
from reconciler.server import serving

HOST, PORT = "127.0.0.1", 8088  # as in FILE
FILE = Path("teams/orders/orders.yaml")
HEAD_BYTES = 1 << 16
BODY_BYTES = 1 << 24  # a request has 1 MiB of records or one record, and that came in a request of 8 MiB
SECONDS = 30.0  # for one request
WAITING = 10  # bodies that nobody has shown yet; more wait for their answer
ANSWER = "HTTP/1.1 {} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def listen_for_records() -> socket.socket:
    """Where the example posts to, or any port. Raises Refused when there is none."""
    try:
        return _listening(PORT)
    except (Refused, OSError):
        return _listening(0)


def _listening(port: int) -> socket.socket:
    listener = serving.bind(HOST, port)
    try:
        listener.listen()  # only now is it sure that nobody else does
    except OSError:
        listener.close()
        raise
    return listener


def redirect_records(copy: Path, listener: socket.socket) -> None:
    """Have the webhook in a copy of the example post to the listener."""
    file, (_, port) = copy / FILE, listener.getsockname()
    file.write_text(file.read_text(encoding="utf-8").replace(f"value: {PORT}\n", f"value: {port}\n"), encoding="utf-8")


class RecordReceiver:
    """Takes one request of a connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._bodies: asyncio.Queue[bytes] = asyncio.Queue(WAITING)

    @property
    def address(self) -> str:
        """Its URL, without a path."""
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    @contextlib.asynccontextmanager
    async def receiving(self) -> AsyncIterator["RecordReceiver"]:
        """Take requests for as long as the context lasts."""
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=HEAD_BYTES)
        try:
            yield self
        finally:
            server.close()  # connections end with the loop: nobody is left to wait for them

    async def next(self) -> bytes:
        """The next body."""
        return await self._bodies.get()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        try:
            with contextlib.suppress(*gone):
                async with asyncio.timeout(SECONDS):
                    writer.write(ANSWER.format(await self._take(reader)).encode())
                    await writer.drain()
        finally:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader) -> int:
        """Read a request; the status that it is answered with."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0].strip()
        if not length.isdigit():
            return 411
        if len(length) > len(str(BODY_BYTES)) or int(length) > BODY_BYTES:
            return 413
        await self._bodies.put(await reader.readexactly(int(length)))
        return 200
