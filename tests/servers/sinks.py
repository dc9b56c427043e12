"""A webhook's endpoint: notes every request, and answers as a test wants, with faults too.

    with sinks.listening() as sink:
        sink.script(sinks.says(503, headers=(("Retry-After", "2"),)), sinks.reset(), sinks.says(200))
        ...
        assert [one.body for one in sink.accepted] == [b"[1]"]

Each request takes the next reply of the script; the last one stays. `choose` decides by the request instead. What comes
over one connection is answered in its order.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.servers import loops
from tests.servers.processes import ADDRESS

Headers = tuple[tuple[str, str], ...]
CHUNK = b"x" * 4096


class Received(NamedTuple):
    """One request. `path` holds the query; headers are as they came, in their order."""

    method: str
    path: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header, which must not be there twice."""
        found = [value for each, value in self.headers if each.lower() == name.lower()]
        assert len(found) < 2, f"{name} came twice"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to a request. `status` is what the reply comes to, 0 for none; `act` writes it, and says whether the
    connection goes on.
    """

    status: int
    act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


def says(status: int = 200, *, headers: Headers = (), body: bytes = b"", after: float = 0.0) -> Reply:
    """A plain answer, `after` so many seconds."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if after:
            await asyncio.sleep(after)
        writer.write(_head(status, (*headers, ("Content-Length", str(len(body))))) + body)
        await writer.drain()
        return True

    return Reply(status=status, act=act)


def redirects(to: str, *, status: int = 307) -> Reply:
    """To another place."""
    return says(status, headers=(("Location", to),))


def reset() -> Reply:
    """The connection is broken off with RST instead of an answer."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        found = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False

    return Reply(status=0, act=act)


def closes() -> Reply:
    """The connection ends in order, without an answer."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.close()
        return False

    return Reply(status=0, act=act)


def half_closes() -> Reply:
    """The server says that it will say nothing more, and reads on."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write_eof()
        await reader.read()
        return False

    return Reply(status=0, act=act)


def silent() -> Reply:
    """No answer, ever."""

    async def act(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> bool:
        await reader.read()
        return False

    return Reply(status=0, act=act)


def cut(status: int = 200, *, promised: int = 1000) -> Reply:
    """An answer whose body ends too early."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(status, (("Content-Length", str(promised)),)) + b"half")
        await writer.drain()
        writer.close()
        return False

    return Reply(status=status, act=act)


def endless(status: int = 200, *, chunk: bytes = CHUNK, every: float = 0.0) -> Reply:
    """A body without end; with `every` a chunk each so many seconds."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(_head(status, (("Content-Length", str(1 << 40)),)))
        while True:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(every)

    return Reply(status=status, act=act)


def long_head() -> Reply:
    """Headers without end."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Filler: " + CHUNK + b"\r\n")
            await writer.drain()

    return Reply(status=0, act=act)


def gibberish() -> Reply:
    """Return what is no HTTP."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"\x00\x01SSH-2.0-what\r\n\r\n")
        await writer.drain()
        writer.close()
        return False

    return Reply(status=0, act=act)


class Sink:
    """An endpoint that runs. `received` is every request, `accepted` those that got a 2xx, both in order."""

    def __init__(self, tls: ssl.SSLContext | None, address: str) -> None:
        self.received: list[Received] = []
        self.accepted: list[Received] = []
        self.connections = 0
        self.busy = 0
        self.most_busy = 0
        self.listener = loops.Listener(self._handle, tls=tls, address=address)
        self._replies: list[Reply] = [says(200)]
        self._choose: Callable[[Received], Reply] | None = None
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """Return where it listens."""
        return self.listener.port

    @property
    def records(self) -> list[Any]:
        """Every record of what was accepted, as JSON, in order; of arrays each item."""
        found: list[Any] = []
        for one in [*self.accepted]:
            value = one.json
            found.extend(value if isinstance(value, list) else [value])
        return found

    def script(self, *replies: Reply) -> None:
        """One reply for each request from now on; the last one stays."""
        with self._lock:
            self._replies = [*replies]
            self._choose = None

    def choose(self, decide: Callable[[Received], Reply]) -> None:
        """Answer each request by what it is. Called in the sink's thread."""
        self._choose = decide

    def refuse(self) -> None:
        """Take no connections, and cut those that there are."""
        self.listener.listen(False)
        self.listener.drop()

    def listen(self) -> None:
        """Take connections again."""
        self.listener.listen(True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            request = await _read(reader)
            reply = self._next(request)
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
            try:
                if not await reply.act(reader, writer):
                    return
            finally:
                self.busy -= 1

    def _next(self, request: Received) -> Reply:
        with self._lock:
            reply = self._choose(request) if self._choose else self._replies[0]
            if self._choose is None and len(self._replies) > 1:
                self._replies.pop(0)
            self.received.append(request)
            if 200 <= reply.status < 300:
                self.accepted.append(request)
            return reply


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8", "surrogateescape")
    line, *rest = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = line.split(" ")
    headers = tuple((name, value.strip()) for name, _, value in (each.partition(":") for each in rest))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Received(method, path, headers, await reader.readexactly(length))


def _head(status: int, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


@contextlib.contextmanager
def listening(*, tls: ssl.SSLContext | None = None, address: str = ADDRESS) -> Iterator[Sink]:
    """A sink on loopback for as long as the context lasts; at first it answers 200."""
    sink = Sink(tls, address)
    sink.listener.begin()
    try:
        yield sink
    finally:
        sink.listener.end()
