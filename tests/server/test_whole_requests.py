"""Which requests an application is asked to answer before they have a task, and that nobody can tell by the answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reconciler.server import serving
from reconciler.server.connections import BoundedConnection, WholeRequest

pytestmark = pytest.mark.anyio

SOON = 5.0  # seconds, the most that any of these may take
LINES = b"Host: x\r\nX-Key: a key\r\n"
LENGTH = b"Content-Length: 4\r\n"
PLAIN = b"POST /logs HTTP/1.1\r\n" + LINES + LENGTH + b"\r\nbody"
LAST = b"POST /logs HTTP/1.1\r\n" + LINES + LENGTH + b"Connection: close\r\n\r\nlast"
USUAL = b"usual POST body"
BIG = 8 << 20  # bytes, more than the buffers between the two ends have


@dataclass
class Takes:
    """Takes what it is offered while `takes`; what it took waits for `answer`."""

    method: bytes = b"POST"
    target: bytes = b"/logs"
    takes: bool = True
    offered: list[bytes] = field(default_factory=list)
    waiting: list[WholeRequest] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, request: WholeRequest) -> bool:
        self.offered.append(request.content)
        assert dict(request.headers)[b"x-key"] == b"a key"
        if self.takes:
            self.waiting.append(request)
        self.came.set()
        return self.takes

    async def answer(self) -> None:
        """Answer what comes next, or waits."""
        await self.came.wait()
        self.came.clear()
        request = self.waiting.pop(0)
        body = b"taken " + request.content
        request.answer(200, b"content-length: %d\r\n" % len(body), body)


class Application(Starlette):
    """Says what it was sent, but for what its shortcut takes."""

    def __init__(self) -> None:
        super().__init__(routes=[Route("/{path}", self.told, methods=["POST", "PUT"])])
        self.shortcut = Takes()
        self.asked: list[bytes] = []
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def told(self, request: Request) -> Response:
        await self.let_go.wait()
        self.asked.append(request.method.encode())
        if request.url.path == "/big":
            return Response(b"x" * BIG)
        return Response(b"usual %b %b" % (request.method.encode(), await request.body()))


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
    application: Application
    address: tuple[str, int]
    served: serving.Served

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
    application, listener = Application(), serving.bind("127.0.0.1", 0)
    async with serving.serve(application, listener, certificate=None, drain_seconds=1) as served:
        yield World(application, listener.getsockname(), served)


async def test_a_request_in_one_piece_is_answered_by_the_shortcut_and_the_connection_goes_on(world: World) -> None:
    shortcut = world.application.shortcut
    async with world.client() as client:
        for _ in range(2):
            client.writer.write(PLAIN)
            await shortcut.answer()
            head, body = await client.answered()
            assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"taken body")
            assert b"\r\ndate: " in head
            assert b"connection:" not in head
        assert await client.asks(PLAIN.replace(b"POST /logs", b"PUT /other")) == b"usual PUT body"
    assert shortcut.offered == [b"body"] * 2


async def test_what_the_shortcut_does_not_take_is_answered_as_if_nobody_had_asked_it(world: World) -> None:
    world.application.shortcut.takes = False
    async with world.client() as client:
        assert [await client.asks(PLAIN) for _ in range(2)] == [USUAL] * 2
    assert world.application.shortcut.offered == [b"body"] * 2


@pytest.mark.parametrize(
    "request_",
    [
        PLAIN.replace(b"POST", b"PUT"),
        PLAIN.replace(b"/logs", b"/logs?a=1"),
        PLAIN.replace(b"/logs", b"http://x/logs"),
        PLAIN.replace(b"/logs", b"/%6cogs"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0").replace(LENGTH, LENGTH + b"Connection: keep-alive\r\n"),
        PLAIN.replace(LENGTH, LENGTH + b"Connection: close\r\n"),
    ],
)
async def test_no_other_request_is_offered(world: World, request_: bytes) -> None:
    method = request_.split(b" ")[0]
    async with world.client() as client:
        assert await client.asks(request_) == b"usual %b body" % method
    assert world.application.shortcut.offered == []


OFFERS = LENGTH + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"


@pytest.mark.parametrize("at", [10, len(PLAIN.replace(LENGTH, OFFERS)) - 4, len(PLAIN.replace(LENGTH, OFFERS)) - 2])
@pytest.mark.parametrize("target", [b"/logs", b"/other"])
async def test_a_request_that_offers_another_protocol_is_answered_in_this_one(
    world: World, target: bytes, at: int
) -> None:
    world.application.shortcut.takes = False
    asked = PLAIN.replace(LENGTH, OFFERS).replace(b"/logs", target)
    async with world.client() as client:
        assert await client.asks(asked) == USUAL
        assert await client.asks(asked[:at], asked[at:]) == USUAL
        assert await client.asks(PLAIN) == USUAL
        client.writer.write(asked + LAST.replace(b"close", b"upgrade, close\r\nUpgrade: x"))
        assert [(await client.answered())[1] for _ in range(2)] == [USUAL, b"usual POST last"]
        assert await client.reader.read() == b""


@pytest.mark.parametrize(
    "asked",
    [
        PLAIN.replace(LENGTH, OFFERS).replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(LENGTH, OFFERS).replace(b"Connection: ", b"Connection: close, ") + PLAIN,
    ],
)
async def test_a_connection_ends_with_an_offer_as_with_any_other_request(world: World, asked: bytes) -> None:
    async with world.client() as client:
        assert await client.asks(asked) == USUAL
        assert await client.reader.read() == b""


async def test_offers_without_end_are_cut_like_other_requests(world: World) -> None:
    world.application.let_go.clear()
    asked = PLAIN.replace(LENGTH, OFFERS).replace(b"/logs", b"/other")
    async with world.client() as client:
        client.writer.write(asked * 1_000)
        with contextlib.suppress(ConnectionError):  # the end comes while it still sends
            assert await client.reader.read() == b""
    world.application.let_go.set()
    async with world.client() as client:
        assert await client.asks(asked) == USUAL


async def test_who_waits_to_be_told_to_continue_is_told(world: World) -> None:
    head, _, body = PLAIN.replace(LENGTH, LENGTH + b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    async with world.client() as client:
        client.writer.write(head + b"\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert await client.asks(body) == USUAL
    assert world.application.shortcut.offered == []


@pytest.mark.parametrize("at", [5, len(PLAIN) - 4, len(PLAIN) - 2])
async def test_only_a_head_and_a_body_that_end_in_one_piece_are_offered(world: World, at: int) -> None:
    is_offered = at < len(PLAIN) - 4
    world.application.shortcut.takes = False
    async with world.client() as client:
        assert await client.asks(PLAIN[:at], PLAIN[at:]) == USUAL
    assert world.application.shortcut.offered == [b"body"] * is_offered


async def test_a_body_in_chunks_is_put_together(world: World) -> None:
    head = b"POST /logs HTTP/1.1\r\n" + LINES + b"Transfer-Encoding: chunked\r\n\r\n"
    async with world.client() as client:
        client.writer.write(head + b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n")
        await world.application.shortcut.answer()
        assert (await client.answered())[1] == b"taken body"
        world.application.shortcut.takes = False
        assert await client.asks(head + b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n") == USUAL


async def test_a_body_that_is_no_http_is_refused_and_never_offered(world: World) -> None:
    async with world.client() as client:
        client.writer.write(b"POST /logs HTTP/1.1\r\n" + LINES + b"Transfer-Encoding: chunked\r\n\r\nno number\r\n")
        head, body = await client.answered()
        assert head.startswith(b"HTTP/1.1 400 ")
        assert body == b'{"errors": ["The request is not HTTP."], "codes": ANY}'
        assert await client.reader.read() == b""
    await asyncio.sleep(0)
    assert world.application.shortcut.offered == []
    assert world.application.asked == []


async def test_what_stands_behind_the_chunks_is_no_header(world: World) -> None:
    head = b"POST /logs HTTP/1.1\r\n" + LINES + b"Transfer-Encoding: chunked\r\n\r\n"
    trailers = b"X-Key: another\r\nExpect: 100-continue\r\n\r\n"
    async with world.client() as client:
        client.writer.write(head + b"4\r\nbody\r\n0\r\n" + trailers)
        await world.application.shortcut.answer()
        assert (await client.answered())[1] == b"taken body"
        world.application.shortcut.takes = False
        assert await client.asks(head + b"4\r\nbody\r\n0\r\n" + trailers) == USUAL
        assert await client.asks(head + b"4\r\nbody\r\n0\r\nConnection: close\r\n\r\n") == USUAL
        assert await client.reader.read() == b""  # the parser heeds that one
    assert world.application.shortcut.offered == [b"body"] * 2


async def test_nothing_is_taken_from_who_does_not_read_its_answers(world: World) -> None:
    async with world.client() as client:
        client.writer.write(PLAIN.replace(b"/logs", b"/big"))
        await asyncio.sleep(0.05)
        client.writer.write(PLAIN)
        await asyncio.sleep(0.05)
        assert world.application.shortcut.offered == []
        assert [len((await client.answered())[1]) for _ in range(2)] == [BIG, len(USUAL)]
    assert world.application.shortcut.offered == []


@pytest.mark.parametrize("target", [b"/logs", b"x:1"])
async def test_a_tunnel_is_no_offer(world: World, target: bytes) -> None:
    async with world.client() as client:
        client.writer.write(b"CONNECT " + target + b" HTTP/1.1\r\n" + LINES + b"\r\n")
        assert (await client.reader.readuntil(b"\r\n")).split(b" ")[1] in (b"400", b"405")


async def test_nothing_of_a_request_stays_with_an_idle_connection(world: World) -> None:
    shortcut = world.application.shortcut
    async with world.client() as client:
        client.writer.write(PLAIN)
        await shortcut.came.wait()
        request = shortcut.waiting[0]
        await shortcut.answer()
        await client.answered()
        assert request.content == b""
        connection = request._finish.__self__  # type: ignore[attr-defined]  # it is a method of the connection
        assert (type(connection), connection._data) == (BoundedConnection, b"")


async def test_pipelined_requests_wait_for_the_one_that_was_taken(world: World) -> None:
    async with world.client() as client:
        client.writer.write(PLAIN + PLAIN.replace(b"body", b"more") + LAST)
        await world.application.shortcut.answer()
        assert [(await client.answered())[1] for _ in range(3)] == [
            b"taken body",
            b"usual POST more",
            b"usual POST last",
        ]
        assert await client.reader.read() == b""
    assert world.application.shortcut.offered == [b"body"]


async def test_nothing_is_taken_behind_a_request_under_way(world: World) -> None:
    application = world.application
    application.let_go.clear()
    async with world.client() as client:
        client.writer.write(PLAIN.replace(b"/logs", b"/other"))
        client.writer.write(PLAIN)
        await asyncio.sleep(0.02)
        assert application.shortcut.offered == []
        application.let_go.set()
        assert [(await client.answered())[1] for _ in range(2)] == [USUAL] * 2
    assert application.shortcut.offered == []


async def test_a_stop_lets_what_was_taken_be_answered_and_ends_the_connection(world: World) -> None:
    async with world.client() as client:
        client.writer.write(PLAIN)
        await world.application.shortcut.came.wait()
        ending = asyncio.create_task(_ended(world.served))
        await asyncio.sleep(0.2)  # which is how often the server looks
        await world.application.shortcut.answer()
        head, body = await client.answered()
        assert body == b"taken body"
        assert b"\r\nconnection: close\r\n" in head
        assert await client.reader.read() == b""
        await ending


async def test_an_answer_to_somebody_who_is_gone_harms_nobody(world: World) -> None:
    shortcut = world.application.shortcut
    async with world.client() as client:
        client.writer.write(PLAIN)
        await shortcut.came.wait()
        client.writer.transport.abort()
        await asyncio.sleep(0.02)
        await shortcut.answer()
    async with world.client() as client:
        client.writer.write(PLAIN)
        await shortcut.answer()
        assert (await client.answered())[1] == b"taken body"


async def _ended(served: serving.Served) -> None:
    await served.end()
