"""The client: where it connects, what reaches the wire, how much it reads; against real servers on loopback."""

import asyncio
import logging
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.delivery import http_client
from reconciler.delivery.http_client import (
    MOST_ADDRESSES,
    AnswerLimits,
    Denied,
    EgressPolicy,
    FailureCause,
    HttpAnswer,
    HttpClient,
    HttpRequest,
    HttpTarget,
    Listener,
    Unanswered,
    Unsendable,
    checked,
)
from reconciler.model import webhooks
from tests import needs
from tests.delivery.servers import OK, Server, answers, free_port, listening, says

pytestmark = pytest.mark.anyio

LIMITS = AnswerLimits(connect=5.0, total=20.0)
SHORT = AnswerLimits(connect=5.0, total=0.3)
METADATA = "169.254.169.254"
OPEN = EgressPolicy()


def target(server: Server, host: str = "127.0.0.1", path: str = "/hook") -> HttpTarget:
    return HttpTarget("http", host, server.port, path)


def own(server: Server, address: str = "127.0.0.1") -> EgressPolicy:
    """The policy of a service that listens where the server does."""
    return EgressPolicy(listeners=(Listener(ip_address(address), server.port),), is_local=http_client.machine_has)


async def send(
    request: HttpRequest, policy: EgressPolicy = OPEN, limits: AnswerLimits = LIMITS, **more: object
) -> HttpAnswer:
    async with HttpClient(policy=policy, **more) as client:  # type: ignore[arg-type]
        return await client.send(checked(request), limits=limits)


# What is sent


async def test_a_request_is_sent_as_it_was_given_and_the_answer_is_what_the_server_said() -> None:
    said = b"HTTP/1.1 202 Taken, thanks\r\nRetry-After: 5\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 4\r\n\r\ndone"
    async with listening(says(said)) as server:
        headers = (
            ("Content-Type", "application/json"),
            ("Authorization", "Bearer a\tb"),
            ("X-Ü".replace("Ü", "U"), "é"),
        )
        answer = await send(HttpRequest(target(server, path="/a%2Fb/../é?q=%20+&r"), "PUT", headers, b"[1]"))

    assert answer == HttpAnswer(
        202, "Taken, thanks", (("Retry-After", "5"), ("X-A", "1"), ("X-A", "2"), ("Content-Length", "4")), b"done"
    )
    line, *rest = server.heads[0].decode().split("\r\n")
    assert line == "PUT /a%2Fb/../%C3%A9?q=%20+&r HTTP/1.1"
    assert sorted(rest) == [
        "",
        "",
        "Accept: */*",
        "Authorization: Bearer a\tb",
        "Content-Length: 3",
        "Content-Type: application/json",
        f"Host: 127.0.0.1:{server.port}",
        "User-Agent: reconciler/0.1.0",
        "X-U: é",
    ]
    assert server.bodies == [b"[1]"]


@pytest.mark.parametrize("size", [0, 3, 100_000, 5 << 20])
async def test_the_head_is_the_same_whether_a_body_goes_with_it_or_behind_it(size: int) -> None:
    body = b"x" * size
    async with listening() as server, HttpClient(policy=OPEN) as client:
        for headers in ((), (("Content-Type", "text/plain"),)):
            request = checked(HttpRequest(target(server, path="/é?q=+&r"), "POST", headers, body))
            answer = await client.send(request, limits=LIMITS)
            assert answer == HttpAnswer(200, "OK", (("Content-Length", "2"),), b"ok")

    assert server.bodies == [body, body]
    assert server.connections == 1
    common = ["", "", "Accept: */*", f"Content-Length: {size}"]
    last = [f"Host: 127.0.0.1:{server.port}", "User-Agent: reconciler/0.1.0"]
    for head, media_type in zip(server.heads, ["application/octet-stream", "text/plain"], strict=True):
        line, *rest = head.decode().split("\r\n")
        assert line == "POST /%C3%A9?q=+&r HTTP/1.1"
        assert sorted(rest) == [*common, f"Content-Type: {media_type}", *last]


async def test_a_server_that_answers_before_it_has_read_all_gets_the_next_request_on_another_connection() -> None:
    heads: list[bytes] = []
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n")
        await ended.wait()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, HttpClient(policy=OPEN) as client:
        wanted = HttpRequest(
            HttpTarget("http", "127.0.0.1", server.sockets[0].getsockname()[1], "/"), body=bytes(32 << 20)
        )
        found = [(await client.send(wanted, limits=LIMITS)).status for _ in range(2)]
        ended.set()

    assert (found, len(heads)) == ([413, 413], 2)


async def test_a_connection_is_used_again_and_cookies_are_not() -> None:
    said = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with listening(says(said)) as server, HttpClient(policy=OPEN) as client:
        for _ in range(2):
            await client.send(HttpRequest(target(server)), limits=LIMITS)

        assert (server.connections, len(server.heads)) == (1, 2)
        assert b"cookie" not in server.heads[1].lower()


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as proxy, listening() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        answer = await send(HttpRequest(target(server)))

        assert (answer.status, proxy.connections) == (200, 0)


@pytest.mark.parametrize(
    "headers",
    [
        (("X-A", "1\r\nX-Evil: 1"),),
        (("X-A", "1\nX-Evil: 1"),),
        (("X-A", "1\rX-Evil: 1"),),
        (("X-A", "1\0"),),
        (("X-A", "secret "),),
        (("X-A: 1\r\nX-Evil", "1"),),
        (("X Evil", "1"),),
        (("", "1"),),
        (("Transfer-Encoding", "chunked"),),
        (("content-length", "0"),),
        (("Connection", "close"),),
        (("X-A", "1"), ("x-a", "2")),
        (("X-A", "x" * 8190),),
        tuple((f"X-{number}", "1") for number in range(65)),
        tuple((f"X-{number}", "x" * 8000) for number in range(5)),
    ],
)
async def test_no_header_adds_a_line_or_reframes_the_request(headers: tuple[tuple[str, str], ...]) -> None:
    async with listening() as server:
        with pytest.raises(Unsendable) as caught:
            await send(HttpRequest(target(server), headers=headers))

        assert (server.connections, server.heads) == (0, [])
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("127.0.0.1", "/a b"),
        ("127.0.0.1", "/a\r\nX-Evil: 1"),
        ("127.0.0.1", "a"),
        ("127.0.0.1", "@evil.example/"),
        ("127.0.0.1", "/a#b"),
        ("127.0.0.1", "/\\evil"),
        ("127.1", "/"),
        ("2130706433", "/"),
        ("0x7f.1", "/"),
        ("a@127.0.0.1", "/"),
        ("127.0.0.1/", "/"),
        ("a\r\nb", "/"),
        ("", "/"),
    ],
)
async def test_no_host_or_path_hides_where_it_leads(host: str, path: str) -> None:
    async with listening() as server:
        with pytest.raises(Unsendable):
            await send(HttpRequest(target(server, host, path)))

        assert server.connections == 0


@pytest.mark.parametrize(
    ("host", "header"),
    [
        ("SIEM.Example.com", "siem.example.com"),
        ("siem.example.com.", "siem.example.com"),
        ("my_service", "my_service"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
        ("::ffff:7f00:1", "[::ffff:7f00:1]"),
    ],
)
async def test_the_server_learns_the_host_as_it_was_written(host: str, header: str) -> None:
    async with listening() as server:
        await send(HttpRequest(target(server, host)), resolve=answers(["127.0.0.1"]))

        [line] = [line for line in server.heads[0].decode().split("\r\n") if line.startswith("Host: ")]
        assert line.lower() == f"host: {header}:{server.port}"


# Half of what is drawn may be sent, and the rest is what somebody would try.
TEXT = st.one_of(st.text("ab~!é\t", max_size=9), st.text(st.sampled_from("ab:% \r\n\0\x0b\x85\u2028#\\é"), max_size=9))
NAME = st.one_of(st.text("ab-!~", max_size=9), st.text(st.sampled_from("ab: \r\n\0é"), max_size=9))


@given(TEXT, st.dictionaries(NAME, TEXT, max_size=2))
@settings(max_examples=60, deadline=None)
def test_what_reaches_the_wire_is_what_was_given_line_by_line_or_nothing(path: str, headers: dict[str, str]) -> None:
    async def run() -> None:
        async with listening() as server:
            given_ = tuple((f"X{name}", value) for name, value in headers.items())
            try:
                await send(HttpRequest(target(server, path=f"/{path}"), headers=given_))
            except Unsendable:
                assert server.connections == 0
                return
            line, *rest = server.heads[0].decode().removesuffix("\r\n\r\n").split("\r\n")
            assert unquote(line) == f"POST /{unquote(path)} HTTP/1.1"
            ours = ("Host: ", "User-Agent: ", "Accept: ", "Content-Length: ", "Content-Type: ")
            assert [one for one in rest if not one.startswith(ours)] == [f"{name}: {value}" for name, value in given_]
            assert len(rest) == len(ours) + len(given_)

    asyncio.run(run())


# Where it connects


async def test_a_redirect_is_an_answer_and_nobody_follows_it() -> None:
    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{other.port}/stolen")

    application = web.Application()
    application.router.add_route("*", "/hook", elsewhere)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with listening() as other:
            answer = await send(HttpRequest(HttpTarget("http", "127.0.0.1", port, "/hook")))

            assert answer.status == 307
            assert dict(answer.headers)["Location"] == f"http://127.0.0.1:{other.port}/stolen"
            assert other.connections == 0
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1", "[::ffff:7f00:1]", "localhost", "hook.example"])
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0", "::"])  # noqa: S104
async def test_the_services_own_listener_is_refused_by_every_name(host: str, bound: str) -> None:
    async with listening() as server:
        with pytest.raises(Denied) as caught:
            await send(HttpRequest(target(server, host)), own(server, bound), resolve=answers(["127.0.0.1"]))

        assert caught.value.rule == http_client.OWN_LISTENER
        assert server.connections == 0


async def test_a_listener_on_every_address_is_refused_at_the_machines_own() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, and says which address would
        except OSError:
            needs.lacking("an address besides loopback")
        mine = str(probe.getsockname()[0])
    async with listening(host=mine) as server:
        with pytest.raises(Denied, match="listener of the service itself"):
            await send(HttpRequest(target(server, mine)), own(server, "0.0.0.0"))  # noqa: S104

        assert server.connections == 0


async def test_a_listener_on_loopback_of_the_other_family_is_refused_too() -> None:
    async with listening(host="::1") as server:
        for host in ("::1", "[::1]", "0:0:0:0:0:0:0:1", "localhost"):
            with pytest.raises(Denied, match="listener of the service itself"):
                await send(HttpRequest(target(server, host)), own(server, "::1"), resolve=answers(["::1"]))

        assert server.connections == 0


async def test_what_else_listens_on_this_machine_may_be_reached() -> None:
    async with listening() as api, listening() as server:
        assert (await send(HttpRequest(target(server)), own(api, "0.0.0.0"))).status == 200  # noqa: S104


@pytest.mark.parametrize("then", [METADATA, "own"])
async def test_a_name_that_leads_elsewhere_the_next_time_is_judged_the_next_time(then: str) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with listening(says(said)) as server, listening(host="127.0.0.2") as api:
        policy = EgressPolicy(listeners=(Listener(ip_address("127.0.0.2"), server.port),))
        resolve = answers(["127.0.0.1"], ["127.0.0.2" if then == "own" else then])
        async with HttpClient(policy=policy, resolve=resolve) as client:
            request = HttpRequest(target(server, "rebinding.example"))
            assert (await client.send(request, limits=LIMITS)).status == 200
            with pytest.raises(Denied) as caught:
                await client.send(request, limits=LIMITS)

        assert caught.value.rule == (http_client.OWN_LISTENER if then == "own" else webhooks.METADATA)
        assert (len(server.heads), api.connections) == (1, 0)


@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
def test_of_several_addresses_the_refused_ones_are_skipped(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with listening() as server:
            resolve = answers([METADATA, "::ffff:169.254.170.2", "fe80::1%lo", "127.0.0.1"])
            with caplog.at_level(logging.WARNING):
                answer = await send(HttpRequest(target(server, "mixed.example")), resolve=resolve)

            assert (answer.status, len(server.heads)) == (200, 1)
            told = [
                record.getMessage() for record in caplog.records if record.name == "reconciler.delivery.http_client"
            ]
            assert (
                f"mixed.example:{server.port} led to {METADATA}, which {webhooks.METADATA}; it was not connected to"
                in (told)
            )

    import uvloop  # noqa: PLC0415

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if backend == "uvloop" else None) as runner:
        runner.run(run())


async def test_a_name_with_refused_addresses_alone_says_which_rule_and_not_which_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(Denied) as caught:
        await send(HttpRequest(HttpTarget("http", "bad.example", 80)), resolve=answers(["10.1.2.3", "fd00::7"]),
                   policy=EgressPolicy(deny=(ip_network("10.0.0.0/8"), ip_network("fd00::/8"))))  # fmt: skip

    assert caught.value.message == (
        "nothing is sent to bad.example:80, since its address is denied by `delivery.egress`; name another host"
    )
    assert [record.getMessage() for record in caplog.records if record.name == "reconciler.delivery.http_client"] == [
        f"bad.example:80 led to {address}, which is denied by `delivery.egress`; it was not connected to"
        for address in ("10.1.2.3", "fd00::7")
    ]


async def test_a_refused_address_beside_a_silent_one_may_be_tried_again() -> None:
    with pytest.raises(Unanswered) as caught:
        await send(
            HttpRequest(HttpTarget("http", "down.example", free_port())), resolve=answers([METADATA, "127.0.0.1"])
        )

    assert caught.value.cause is FailureCause.CONNECT
    assert "127.0.0.1" not in caught.value.message


@pytest.mark.parametrize(
    "host", [METADATA, "::ffff:169.254.169.254", "[64:ff9b::a9fe:a9fe]", "0.1.2.3", "::", "ff02::1"]
)
async def test_no_literal_address_gets_past_the_rules_of_every_machine(host: str) -> None:
    with pytest.raises(Unsendable, match="the service never connects there"):
        await send(HttpRequest(HttpTarget("http", host, 80)))


async def test_no_more_addresses_of_a_name_are_tried_than_the_limit() -> None:
    many = [f"127.1.{number}.1" for number in range(200)]
    tried: list[str] = []

    def note(address: webhooks.Address) -> bool:
        tried.append(str(address))
        return True

    policy = EgressPolicy(listeners=(Listener(ip_address("0.0.0.0"), 80),), is_local=note)  # noqa: S104
    with pytest.raises(Denied):
        await send(HttpRequest(HttpTarget("http", "many.example", 80)), policy, resolve=answers(many))

    assert list(dict.fromkeys(tried)) == many[:MOST_ADDRESSES]


async def test_a_name_that_does_not_resolve_or_resolves_to_nothing_may_be_tried_again() -> None:
    for resolve in (answers([]), failing):
        with pytest.raises(Unanswered) as caught:
            await send(HttpRequest(HttpTarget("http", "gone.example", 80)), resolve=resolve)

        assert caught.value.cause is FailureCause.NAME
        assert caught.value.message == "gone.example:80 has no address: the name does not resolve"


async def failing(host: str, port: int) -> Sequence[str]:  # noqa: ARG001
    raise socket.gaierror(socket.EAI_NONAME, "canary")


async def test_the_systems_resolver_knows_localhost() -> None:
    async with listening() as server:
        assert (await send(HttpRequest(target(server, "localhost")))).status == 200


# Behind a proxy


async def test_behind_a_proxy_everything_goes_to_the_proxy_and_literals_are_judged_before() -> None:
    async with listening() as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        closed = EgressPolicy(deny=(ip_network("0.0.0.0/0"), ip_network("::/0")))
        answer = await send(
            HttpRequest(HttpTarget("http", "name.example", 80, "/a")), closed, proxy=url, resolve=failing
        )

        assert answer.status == 200
        assert proxy.heads[0].startswith(b"POST http://name.example/a HTTP/1.1\r\n")
        with pytest.raises(Denied, match="denied"):
            await send(HttpRequest(HttpTarget("http", "192.0.2.1", 80)), closed, proxy=url)
        assert len(proxy.heads) == 1


async def test_a_proxy_that_is_the_service_itself_is_refused() -> None:
    async with listening() as proxy:
        with pytest.raises(Denied, match="since the proxy's address is a listener of the service itself"):
            await send(
                HttpRequest(HttpTarget("http", "name.example", 80)), own(proxy), proxy=f"http://127.0.0.1:{proxy.port}"
            )

        assert proxy.connections == 0


async def test_a_proxy_that_opens_no_tunnel_is_named() -> None:
    async with listening(says(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")) as proxy:
        with pytest.raises(Unanswered) as caught:
            await send(HttpRequest(HttpTarget("https", "name.example", 443)), proxy=f"http://127.0.0.1:{proxy.port}")

        assert proxy.heads[0].startswith(b"CONNECT name.example:443 HTTP/1.1\r\n")
        assert caught.value.message == "name.example:443 cannot be reached: the proxy answered 403"


# How much is read, and how long


async def silence(writer: asyncio.StreamWriter) -> None:  # noqa: ARG001
    await asyncio.Event().wait()


def endless(head: bytes, part: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    return reply


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (silence, FailureCause.TIME),
        (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), FailureCause.TIME),
        (endless(b"HTTP/1.1 200 ", b"x" * 1000), FailureCause.ANSWER),
        (endless(b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n"), FailureCause.ANSWER),
        (endless(b"HTTP/1.1 200 OK\r\nX-A: ", b"x" * 1000), FailureCause.ANSWER),
        (says(b"SSH-2.0-OpenSSH\r\n"), FailureCause.ANSWER),
        (says(b"HTTP/1.1 200 OK\r\nX-A\r\n\r\n"), FailureCause.ANSWER),
    ],
)
async def test_an_answer_without_an_end_to_its_head_is_none(
    reply: Callable[[asyncio.StreamWriter], Awaitable[None]], cause: FailureCause
) -> None:
    async with listening(reply) as server:
        with pytest.raises(Unanswered) as caught:
            await send(HttpRequest(target(server)), limits=SHORT if cause is FailureCause.TIME else LIMITS)

    assert caught.value.cause is cause


async def test_interim_answers_come_before_the_answer() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 4 + b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 6
    async with listening(says(interim, OK)) as server, HttpClient(policy=OPEN) as client:
        for _ in range(3):  # ten for each request, also on a connection that is used again
            answer = await client.send(HttpRequest(target(server)), limits=LIMITS)
            assert (answer.status, answer.body_start) == (200, b"ok")

        assert server.connections == 1


@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
def test_a_flood_of_answers_holds_nobody_up(backend: str) -> None:
    flood = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * (4 << 20 >> 5)

    async def run() -> float:
        async with listening(says(flood)) as server, HttpClient(policy=OPEN) as client:
            before = time.thread_time()
            for _ in range(3):
                with suppress(Unanswered):
                    assert (await client.send(HttpRequest(target(server)), limits=LIMITS)).status == 200
            return time.thread_time() - before

    import uvloop  # noqa: PLC0415

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if backend == "uvloop" else None) as runner:
        assert runner.run(run()) < 0.2  # seconds of processor time; what all of it takes is thirty times that


async def test_what_a_server_sends_without_being_asked_ends_its_connection() -> None:
    idle, ended = asyncio.Event(), asyncio.Event()

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        if server.connections > 1:
            return
        await idle.wait()
        try:
            await endless(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake")(writer)
        finally:
            ended.set()

    async with listening(reply) as server, HttpClient(policy=OPEN) as client:
        for _ in range(2):
            assert (await client.send(HttpRequest(target(server)), limits=LIMITS)).body_start == b"ok"
            idle.set()
            async with asyncio.timeout(10):
                await ended.wait()
        assert server.connections == 2


async def test_a_body_without_an_end_is_cut_and_its_connection_closed() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with (
        listening(endless(head, b"1000\r\n" + b"x" * 4096 + b"\r\n")) as server,
        HttpClient(policy=OPEN) as client,
    ):
        for _ in range(2):
            answer = await client.send(HttpRequest(target(server)), limits=AnswerLimits(total=20.0, answer_bytes=5000))
            assert (answer.status, answer.body_start) == (200, b"x" * 5000)

        assert server.connections == 2


async def test_a_body_that_does_not_come_in_time_is_what_came_of_it() -> None:
    head = b"HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nabc"
    async with listening(says(head)) as server:
        answer = await send(HttpRequest(target(server)), limits=SHORT)

    assert (answer.status, answer.body_start) == (500, b"abc")


async def test_a_body_is_not_decompressed() -> None:
    bomb = b"\x1f\x8b not really"
    said = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(bomb), bomb)
    async with listening(says(said)) as server:
        assert (await send(HttpRequest(target(server)))).body_start == bomb


async def test_a_server_that_hangs_up_may_be_tried_again() -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(hang_up) as server:
        with pytest.raises(Unanswered) as caught:
            await send(HttpRequest(target(server)))

    assert caught.value.cause is FailureCause.ANSWER


@pytest.mark.parametrize("is_behind_a_proxy", [False, True], ids=["straight", "behind a proxy"])
async def test_a_put_whose_connection_breaks_is_not_sent_once_more(is_behind_a_proxy: bool) -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with listening(hang_up) as server:
        proxy = f"http://127.0.0.1:{server.port}" if is_behind_a_proxy else ""
        to = HttpTarget("http", "name.example", 80) if is_behind_a_proxy else target(server)
        with pytest.raises(Unanswered) as caught:
            await send(HttpRequest(to, "PUT", (), b"[1]"), proxy=proxy)

    assert (caught.value.cause, server.bodies) == (FailureCause.ANSWER, [b"[1]"])


# TLS


def certificate_for_localhost(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [needs.require("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    return certificate, key


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[tuple[Server, ssl.SSLContext]]:
    """A server with a certificate for localhost, and a context that trusts it."""
    certificate, key = certificate_for_localhost(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with listening(says(OK), tls=context) as server:
        yield server, ssl.create_default_context(cafile=str(certificate))


async def test_a_certificate_is_verified_against_the_given_authorities(tmp_path: Path) -> None:
    async with (
        secured(tmp_path) as (server, trusting),
        HttpClient(policy=OPEN, resolve=answers(["127.0.0.1"])) as client,
    ):
        request = HttpRequest(HttpTarget("https", "localhost", server.port))
        with pytest.raises(Unanswered) as caught:
            await client.send(request, limits=LIMITS)
        assert caught.value.message == f"localhost:{server.port} shows a certificate that is not trusted"
        assert (await client.send(request, limits=LIMITS, tls=trusting)).status == 200
        with pytest.raises(Unanswered) as caught:
            await client.send(
                HttpRequest(HttpTarget("https", "other.example", server.port)), limits=LIMITS, tls=trusting
            )
        assert caught.value.cause is FailureCause.UNTRUSTED
