"""Servers on loopback that note what reaches them: the bytes as they came, and whatever a test wants as the answer."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ssl import SSLContext

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Server:
    """A server that takes connections on one port of an address."""

    port: int
    heads: list[bytes] = field(default_factory=list)  # of each request, to the empty line
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0


def says(*parts: bytes) -> Reply:
    """The parts, then the end of the connection's patience: the server reads on."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
        await writer.drain()

    return reply


@asynccontextmanager
async def listening(
    reply: Reply | None = None, *, host: str = "127.0.0.1", tls: SSLContext | None = None
) -> AsyncIterator[Server]:
    """Answer every request so; the default is a plain 200."""
    noted = Server(port=0)
    answer = says(OK) if reply is None else reply

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        noted.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    noted.heads.append(head)
                    noted.bodies.append(await reader.readexactly(length(head)))
                    await answer(writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    noted.port = server.sockets[0].getsockname()[1]
    try:
        yield noted
    finally:
        server.close()
        for task in filter(None, serving):
            task.cancel()
        await asyncio.gather(*filter(None, serving), return_exceptions=True)


def length(head: bytes) -> int:
    """Return the value of `Content-Length`."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def answers(*rounds: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that gives each of these answers in turn, and the last one from then on."""
    left = list(rounds)

    async def resolve(host: str, port: int) -> Sequence[str]:  # noqa: ARG001
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
