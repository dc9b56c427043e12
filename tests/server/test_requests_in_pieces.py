"""Requests that come in pieces, in chunks, pipelined, or with an offer of another protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.server import serving

pytestmark = pytest.mark.anyio

SOON = 20.0  # seconds, the most that any of these may take
LINES = b"Host: x\r\nX-Key: a key\r\n"
LENGTH = b"Content-Length: 4\r\n"
PLAIN = b"POST /logs HTTP/1.1\r\n" + LINES + LENGTH + b"\r\nbody"
LAST = b"POST /logs HTTP/1.1\r\n" + LINES + LENGTH + b"Connection: close\r\n\r\nlast"
CHUNKED = b"POST /logs HTTP/1.1\r\n" + LINES + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWER = b"POST body"


@dataclass
class Told:
    """An application that says what it was sent, as soon as it may."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    async def answer(self, request: Request) -> Response:
        await self.may_answer.wait()
        assert request.headers["x-key"] == "a key"
        with contextlib.suppress(ClientDisconnect):
            body = await request.body()
            self.asked += 1
            return Response(b"%b %b" % (request.method.encode(), body))
        return Response()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answered(self) -> tuple[bytes, bytes]:
        """The next answer: its head and its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head, await self.reader.readexactly(length)

    async def asks(self, *pieces: bytes) -> bytes:
        """Send a request in these pieces, each of which comes alone; the body of the answer."""
        for piece in pieces:
            self.writer.write(piece)
            await asyncio.sleep(0.02 if len(pieces) > 1 else 0)
        return (await self.answered())[1]


@dataclass
class World:
    told: Told
    address: tuple[str, int]

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A connection to it."""
        async with asyncio.timeout(SOON):
            reader, writer = await asyncio.open_connection(*self.address)
            try:
                yield Client(reader, writer)
            finally:
                writer.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    told, listener = Told(), serving.bind("127.0.0.1", 0)
    told.may_answer.set()
    application = Starlette(routes=[Route("/{path}", told.answer, methods=["POST"])])
    async with serving.serve([(application, listener)], drain_seconds=1):
        yield World(told, listener.getsockname())


@pytest.mark.parametrize("at", [5, len(PLAIN) - 4, len(PLAIN) - 2])
async def test_a_request_in_two_pieces_is_answered(world: World, at: int) -> None:
    async with world.client() as client:
        assert await client.asks(PLAIN[:at], PLAIN[at:]) == ANSWER
        assert await client.asks(PLAIN) == ANSWER


OFFERS = LENGTH + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
OFFERED = PLAIN.replace(LENGTH, OFFERS)


@pytest.mark.parametrize("at", [10, len(OFFERED) - 4, len(OFFERED) - 2])
async def test_a_request_that_offers_another_protocol_is_answered_in_this_one(world: World, at: int) -> None:
    async with world.client() as client:
        assert await client.asks(OFFERED) == ANSWER
        assert await client.asks(OFFERED[:at], OFFERED[at:]) == ANSWER
        assert await client.asks(PLAIN) == ANSWER
        client.writer.write(OFFERED + LAST.replace(b"close", b"upgrade, close\r\nUpgrade: x"))
        assert [(await client.answered())[1] for _ in range(2)] == [ANSWER, b"POST last"]
        assert await client.reader.read() == b""


@pytest.mark.parametrize(
    "asked",
    [
        OFFERED.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OFFERED.replace(b"Connection: ", b"Connection: close, ") + PLAIN,
    ],
)
async def test_a_connection_ends_with_an_offer_as_with_any_other_request(world: World, asked: bytes) -> None:
    async with world.client() as client:
        assert await client.asks(asked) == ANSWER
        assert await client.reader.read() == b""


async def test_offers_without_end_are_cut_like_other_requests(world: World) -> None:
    world.told.may_answer.clear()
    async with world.client() as client:
        client.writer.write(OFFERED * 1_000)
        with contextlib.suppress(ConnectionError):  # the end comes while it still sends
            assert await client.reader.read() == b""
    world.told.may_answer.set()
    async with world.client() as client:
        assert await client.asks(OFFERED) == ANSWER


@pytest.mark.parametrize("target", [b"/logs", b"x:1"])
async def test_a_tunnel_is_no_offer(world: World, target: bytes) -> None:
    async with world.client() as client:
        client.writer.write(b"CONNECT " + target + b" HTTP/1.1\r\n" + LINES + b"\r\n")
        assert (await client.reader.readuntil(b"\r\n")).split(b" ")[1] in (b"400", b"405")


async def test_a_client_that_waits_to_be_told_to_continue_is_told(world: World) -> None:
    head, _, body = PLAIN.replace(LENGTH, LENGTH + b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    async with world.client() as client:
        client.writer.write(head + b"\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await client.asks(body) == ANSWER


async def test_a_body_in_chunks_that_are_no_http_ends_the_connection(world: World) -> None:
    async with world.client() as client:
        client.writer.write(CHUNKED + b"no number\r\n")
        assert await client.reader.read() == b""
    assert world.told.asked == 0


async def test_trailers_after_the_chunks_are_no_headers(world: World) -> None:
    async with world.client() as client:
        assert await client.asks(CHUNKED + b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n") == ANSWER
        trailers = b"X-Key: another\r\nExpect: 100-continue\r\n\r\n"
        assert await client.asks(CHUNKED + b"4\r\nbody\r\n0\r\n" + trailers) == ANSWER
        assert await client.asks(PLAIN) == ANSWER


async def test_pipelined_requests_are_answered_in_their_order(world: World) -> None:
    async with world.client() as client:
        client.writer.write(PLAIN + PLAIN.replace(b"body", b"more") + LAST)
        assert [(await client.answered())[1] for _ in range(3)] == [ANSWER, b"POST more", b"POST last"]
        assert await client.reader.read() == b""
    assert world.told.asked == 3
