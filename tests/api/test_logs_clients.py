"""POST /v1/logs behind the product's own HTTP server: OpenTelemetry's exporter, and clients that mean no good."""

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression

import api.app
from api.calls import Services
from reconciler.delivery.contract import QueueFull, TakenRecords
from reconciler.delivery.otlp.models import Logs
from reconciler.server import serving
from tests import otlp_client
from tests.api import parts
from tests.api.conftest import until
from tests.api.delivering import Kept
from tests.delivery.otlp import requests

pytestmark = pytest.mark.anyio

HEAD = (
    f"POST /v1/logs HTTP/1.1\r\nHost: service\r\nX-Service-Api-Key: {parts.KEY}\r\n"
    "X-Service-Project: default\r\nContent-Type: application/x-protobuf\r\n"
)


class Server:
    """The application behind the product's own server, with a delivery that keeps what it takes."""

    def __init__(self, services: Services, kept: Kept, listener: socket.socket) -> None:
        self.services = services
        self.kept = kept
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def send(self, *bodies: str, compression: Compression = Compression.Gzip) -> bool:
        """As OpenTelemetry's exporter does, on a thread; whether it was taken."""
        batch = otlp_client.records(*bodies)
        return await asyncio.to_thread(
            otlp_client.send, self.url, batch, key=parts.KEY, project=parts.DEFAULT, compression=compression
        )

    async def say(self, *pieces: bytes, awaited: bytes | None = None) -> bytes:
        """Pieces over one connection, and all that comes until the connection ends, or this came."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        received = b""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            async with asyncio.timeout(otlp_client.SECONDS):
                while (awaited is None or awaited not in received) and (chunk := await reader.read(65_536)):
                    received += chunk
        return received


@pytest.fixture
async def server(services: Services) -> AsyncIterator[Server]:
    kept = Kept()
    served = dataclasses.replace(services, deliveries=kept, in_flight={})
    listener = serving.bind("127.0.0.1", 0)
    async with serving.serve([(api.app.build(served), listener)], drain_seconds=1):
        yield Server(served, kept, listener)
    assert (served.room.taken, served.in_flight) == (0, {})


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
async def test_what_the_exporter_sends_is_taken(server: Server, compression: Compression) -> None:
    assert await server.send("one", "two", compression=compression)
    ((project, logs),) = server.kept.taken
    assert (project, logs.records, [dict(group.attributes) for group in logs.groups]) == (
        parts.DEFAULT,
        2,
        [otlp_client.SERVICE],
    )


async def test_the_exporter_tries_again_no_sooner_than_it_is_told(server: Server) -> None:
    asked: list[float] = []

    async def taking(_project: str, _logs: Logs) -> TakenRecords:
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise QueueFull("The destination siem is full.", seconds=1.0)
        return TakenRecords()

    server.kept.taking = taking
    assert await server.send("one")
    first, second = asked
    assert 1.0 <= second - first < 5.0


async def test_the_exporter_gives_up_what_is_refused_for_good(server: Server) -> None:
    assert not await asyncio.to_thread(otlp_client.send, server.url, otlp_client.records("one"), key="canary-wrong")
    assert server.kept.taken == []


async def test_what_a_body_has_beyond_its_length_is_no_part_of_it(server: Server) -> None:
    content = requests.request(requests.group("one"))
    received = await server.say(f"{HEAD}Content-Length: {len(content)}\r\n\r\n".encode() + content + content)
    # What follows is no request: it ends the connection, whether the first one is taken and answered by then or not.
    taken = [logs.records for _, logs in server.kept.taken]
    assert taken in ([], [1])
    assert received.count(b"HTTP/1.1 200") <= len(taken)


async def test_a_chunked_body_without_an_end_is_refused_at_the_limit(server: Server) -> None:
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    head = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode()
    received = await server.say(head, *[chunk] * 21, awaited=b"\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 413")
    assert server.kept.taken == []


async def test_who_goes_away_in_the_middle_of_a_body_leaves_nothing_behind(server: Server) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"{HEAD}Content-Length: 1000\r\n\r\n".encode() + bytes(500))

    async def holds() -> bool:
        return server.services.room.taken == 1_000

    async def holds_nothing() -> bool:
        return server.services.room.taken == 0

    assert await until(holds)
    writer.close()
    assert await until(holds_nothing)


async def test_a_proxy_may_ask_whether_to_send_the_body(server: Server) -> None:
    received = await server.say(
        f"{HEAD}Content-Length: 0\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
