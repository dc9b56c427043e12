"""A TCP proxy in front of any server, which fails as networks do, and can be told otherwise while it runs.

    with chaos.before(server.port) as proxy:
        proxy.fault = chaos.cut(after=100_000)   # the server's bytes; counted for each connection

Passing on is all it does to the bytes: TLS and ssh go through it as they are.
"""

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.servers import loops
from tests.servers.processes import ADDRESS

TICK_SECONDS = 0.05  # a trickle is as many bytes as fit into its rate at each tick
NEVER = 1 << 62  # bytes


class Kind(enum.Enum):
    """The end of a connection when its time has come."""

    PASS = enum.auto()
    REFUSE = enum.auto()  # the kernel says that nobody listens
    RESET = enum.auto()  # the connection is broken off with RST
    STALL = enum.auto()  # nothing goes either way any more, and the connection stays
    TRICKLE = enum.auto()  # the server's bytes come slowly
    CUT = enum.auto()  # the server's bytes end, as if it had said all


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The treatment of each connection that begins from now on, once `after` bytes of the server have passed."""

    kind: Kind
    after: int = 0
    rate: int = 0  # bytes a second, of a trickle


PASS = Fault(kind=Kind.PASS)
REFUSE = Fault(kind=Kind.REFUSE)


def reset(*, after: int = 0) -> Fault:
    """Break the connection off; at once, or in the middle of an answer."""
    return Fault(kind=Kind.RESET, after=after)


def stall(*, after: int = 0) -> Fault:
    """Say nothing any more, and keep the connection."""
    return Fault(kind=Kind.STALL, after=after)


def trickle(rate: int, *, after: int = 0) -> Fault:
    """Let so many bytes a second through."""
    return Fault(kind=Kind.TRICKLE, after=after, rate=rate)


def cut(*, after: int = 0) -> Fault:
    """End the connection in order, too early."""
    return Fault(kind=Kind.CUT, after=after)


class Proxy:
    """A proxy that runs. `connections` counts those it took, `bytes` what of the server has passed."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.connections = 0
        self.open = 0
        self.stalled = 0
        self.bytes = 0
        self.listener = loops.Listener(self._handle)
        self._fault = PASS

    @property
    def port(self) -> int:
        """Return where it listens."""
        return self.listener.port

    @property
    def fault(self) -> Fault:
        """The fate of connections that begin now. Those that there are keep what they began with: see `drop`."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        self.listener.listen(fault.kind is not Kind.REFUSE)

    def drop(self) -> None:
        """Cut every connection that there is."""
        self.listener.drop()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self._fault
        self.connections += 1
        self.open += 1
        try:
            await self._connect(fault, reader, writer)
        finally:
            self.open -= 1

    async def _connect(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if fault.kind in {Kind.RESET, Kind.STALL, Kind.CUT} and fault.after == 0:
            await self._fail(fault, reader, writer)  # the server never hears of it
            return
        server_reader, server_writer = await asyncio.open_connection(ADDRESS, self.target)
        sending = asyncio.create_task(loops.pump(reader, server_writer))
        try:
            if await self._answer(fault, server_reader, writer):
                await _cancelled(sending)
                await self._fail(fault, reader, writer)
            else:
                await sending
        finally:
            await _cancelled(sending)
            await loops.closed(server_writer)

    async def _answer(self, fault: Fault, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> bool:
        """Pass the server's bytes on; whether the moment of the fault has come before they ended."""
        left = NEVER if fault.kind is Kind.PASS else fault.after
        slow = fault.kind is Kind.TRICKLE
        while left > 0 or slow:
            piece = loops.CHUNK_BYTES if left > 0 else max(1, int(fault.rate * TICK_SECONDS))
            chunk = await server.read(min(piece, left) if left > 0 else piece)
            if not chunk:
                client.write_eof()
                return False
            if left <= 0:
                await asyncio.sleep(TICK_SECONDS)
            client.write(chunk)
            await client.drain()
            self.bytes += len(chunk)
            left -= len(chunk)
        return True

    async def _fail(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if fault.kind is Kind.RESET:
            # Nothing lingers: closing sends RST instead of FIN.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        if fault.kind is Kind.CUT:
            writer.write_eof()
        self.stalled += fault.kind is Kind.STALL
        try:
            # Until the client gives up. What it sends is read: closing on unread bytes would be a reset.
            while await reader.read(loops.CHUNK_BYTES):
                pass
        finally:
            self.stalled -= fault.kind is Kind.STALL


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def before(target: int) -> Iterator[Proxy]:
    """A proxy in front of a port of loopback; at first it passes everything."""
    proxy = Proxy(target)
    proxy.listener.begin()
    try:
        yield proxy
    finally:
        proxy.listener.end()
