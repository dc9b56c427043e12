"""An HTTP proxy for CONNECT, as companies have one between their networks and the world; it notes where to."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.servers import loops

HEAD_SECONDS = 30.0
SENTENCES = {403: "Forbidden", 407: "Proxy Authentication Required", 502: "Bad Gateway"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the target as it was written, and the headers, their names small."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass
class Forward:
    """A proxy that runs. `status`: what it answers instead of connecting; None: it connects."""

    status: int | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """The proxy as settings name it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def targets(self) -> list[str]:
        """The `host:port` of every request, in order."""
        return [one.target for one in self.asked]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, then bytes both ways."""
        async with asyncio.timeout(HEAD_SECONDS):
            asked = _request(await reader.readuntil(b"\r\n\r\n"))
        self.asked.append(asked)
        status = self.status if asked.method == "CONNECT" else 405
        if status is not None:
            await _refuse(writer, status)
            return
        host, _, port = asked.target.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _both(reader, writer, server_reader, server_writer)


def _request(head: bytes) -> Asked:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    return Asked(method, target, {name.lower(): value.strip() for name, _, value in pairs})


async def _refuse(writer: asyncio.StreamWriter, status: int) -> None:
    asks = 'Proxy-Authenticate: Basic realm="proxy"\r\n' if status == 407 else ""
    sentence = SENTENCES.get(status, "Refused")
    writer.write(f"HTTP/1.1 {status} {sentence}\r\n{asks}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def _both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    server_reader: asyncio.StreamReader,
    server_writer: asyncio.StreamWriter,
) -> None:
    """Pass bytes both ways until both ends have said all."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(loops.pump(reader, server_writer))
            group.create_task(loops.pump(server_reader, writer))
    except* ConnectionError:
        pass
    finally:
        await loops.closed(server_writer)


@contextlib.contextmanager
def proxying(*, status: int | None = None) -> Iterator[Forward]:
    """A proxy for as long as the context lasts."""
    forward = Forward(status=status)
    with loops.listening(forward.handle) as listener:
        forward.port = listener.port
        yield forward
