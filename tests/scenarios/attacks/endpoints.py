"""Forbidden targets of a webhook: what is said when its resource is applied, and what the client does on the wire.

Nothing delivers yet, so the second half speaks to the client itself, with servers and name servers of the attacker's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address, ip_network

from reconciler.delivery import http_client
from reconciler.delivery.http_client import (
    AnswerLimits,
    Denied,
    EgressPolicy,
    HttpClient,
    HttpRequest,
    HttpTarget,
    Listener,
    Unanswered,
    Unsendable,
)
from tests.delivery.servers import OK, Server, answers, listening, says
from tests.scenarios.attacks.scene import component, resource
from tests.scenarios.attacks.table import Attack, Attempt, Holds

METADATA = "169.254.169.254"
NUMBER = (
    "is a number that programs read as an IP address, which hides where it leads; write four decimal numbers "
    "without leading "
    "zeros, such as `192.0.2.1`"
)
NEVER = "is a cloud's metadata service; the service never connects there"
NO_NAME = (
    "must be a DNS name (labels of 1 to 63 letters, digits, `-` or `_`, with dots between them, 253 characters "
    "in all) or an IP "
    "address"
)
LIMITS = AnswerLimits(connect=5.0, total=10.0)
Sending = Callable[[Server], Awaitable[str]]


def host(name: str) -> Attempt:
    """A webhook to a host."""
    return lambda scene: scene.apply(resource("Destination", "mine", component("webhook", hostname=name)))


def headers(**values: str) -> Attempt:
    """A webhook with headers; `__` stands for `-` in a name, and NL for a line's end."""
    given = {name.replace("__", "-").replace("NL", "\r\n"): value for name, value in values.items()}
    spec = component("webhook", hostname="e.example", headers=given)
    return lambda scene: scene.apply(resource("Destination", "mine", spec))


def path(text: str) -> Attempt:
    """A webhook with a path."""
    spec = component("webhook", hostname="e.example", path=text)
    return lambda scene: scene.apply(resource("Destination", "mine", spec))


def at_a_server(sending: Sending, *said: bytes) -> Attempt:
    """The client, and a server on loopback that says this: what came of it, and how many requests arrived."""

    async def attempt() -> str:
        async with listening(says(*(said or (OK,)))) as server:
            told = await sending(server)
            shown = told.replace(str(server.port), "<port>")
            return f"{shown}; {server.connections} connections, {len(server.heads)} requests"

    return lambda _: asyncio.run(attempt())


async def send(request: HttpRequest, *, policy: EgressPolicy, led: Sequence[Sequence[str]] = ()) -> str:
    """Return what one request comes to; `led` is what names lead to, one time after the other."""
    async with HttpClient(policy=policy, resolve=answers(*led) if led else None) as client:
        try:
            answer = await client.send(http_client.checked(request), limits=LIMITS)
        except (Denied, Unsendable, Unanswered) as problem:
            return str(problem)
        return f"{answer.status}"


def to(name: str, *led: Sequence[str]) -> Sending:
    """A request to a name or address at the server's port."""

    async def sending(server: Server) -> str:
        return await send(HttpRequest(HttpTarget("http", name, server.port)), policy=EgressPolicy(), led=led)

    return sending


async def rebound(server: Server) -> str:
    """Two requests of one client to a name that leads to the server, and then to the metadata service."""
    request = HttpRequest(HttpTarget("http", "hook.example", server.port), headers=(("Connection", "close"),))
    async with HttpClient(policy=EgressPolicy(), resolve=answers(["127.0.0.1"], [METADATA])) as client:
        first = await client.send(http_client.checked(HttpRequest(request.target)), limits=LIMITS)
    return f"{first.status}, then {await send(HttpRequest(request.target), policy=EgressPolicy(), led=([METADATA],))}"


async def to_itself(server: Server) -> str:
    """A request to the service's own listener, by a name."""
    own = EgressPolicy(listeners=(Listener(ip_address("127.0.0.1"), server.port),), is_local=http_client.machine_has)
    return await send(HttpRequest(HttpTarget("http", "hook.example", server.port)), policy=own, led=[["127.0.0.1"]])


async def to_a_denied_network(server: Server) -> str:
    """A request to a network that the operator denies, by a name."""
    policy = EgressPolicy(deny=(ip_network("127.0.0.0/8"),))
    return await send(HttpRequest(HttpTarget("http", "hook.example", server.port)), policy=policy, led=[["127.0.0.1"]])


async def a_resolved_line_end(server: Server) -> str:
    """A header whose secret turned out to hold a line end."""
    request = HttpRequest(HttpTarget("http", "127.0.0.1", server.port), headers=(("A", "canary-x\r\nEvil: y"),))
    return await send(request, policy=EgressPolicy())


def _key(name: str, attempt: Attempt, reason: str, at: str = "0/value") -> Attack:
    return Attack(name, Holds.KEY, attempt, f"202 invalid: /spec/parameters/{at}: {reason}")


def _wire(name: str, attempt: Attempt, answer: str) -> Attack:
    return Attack(name, Holds.ENDPOINT, attempt, answer)


def denied(name: str, rule: str) -> str:
    """Return what is said of an address that is refused: never which address a name led to."""
    return f"nothing is sent to {name}:<port>, since its address {rule}; name another host; 0 connections, 0 requests"


IS_METADATA = "is a cloud's metadata service"

_HOSTS = (
    _key("the metadata service", host(METADATA), NEVER),
    _key("the metadata service in decimal", host("2852039166"), NUMBER),
    _key("the metadata service in octal", host("0251.0376.0251.0376"), NUMBER),
    _key("the metadata service in hexadecimal", host("0xa9fea9fe"), NUMBER),
    _key("the metadata service as an IPv6-mapped address", host("[::ffff:169.254.169.254]"), NEVER),
    _key("the metadata service as an IPv6-mapped address in hexadecimal", host("[::ffff:a9fe:a9fe]"), NEVER),
    _key("the metadata service behind NAT64", host("[64:ff9b::a9fe:a9fe]"), NEVER),
    _key("loopback as 127.1", host("127.1"), NUMBER),
    _key("a host with a user before it", host("hook.example@evil.example"), NO_NAME),
    _key("a host with a path behind it", host("evil.example/hook.example"), NO_NAME),
    _key("a host with a line end", host("a\r\nX: y"), NO_NAME),
)

_HEADERS = (
    _key(
        "a line end in a header's value",
        headers(X="a\r\nEvil: y"),
        "must not hold line ends, NUL or other control characters",
        "1/value/X",
    ),
    _key(
        "a line end in a header's name",
        headers(XNLEvil="y"),
        "must be a header's name: letters, digits and any of `!#$%&'*+-.^_`|~`",
        "1/value/X\\r\\nEvil",
    ),
    _key(
        "Transfer-Encoding as a header",
        headers(Transfer__Encoding="chunked"),
        "is a header of the connection, which the service sets itself; leave it out",
        "1/value/Transfer-Encoding",
    ),
    _key(
        "Content-Length as a header",
        headers(Content__Length="0"),
        "is the length of the body, which the service counts itself; leave it out",
        "1/value/Content-Length",
    ),
)

_WIRE = (
    _wire(
        "a literal metadata address at the client",
        at_a_server(to(METADATA)),
        f"the host of a request {NEVER}; 0 connections, 0 requests",
    ),
    _wire(
        "a name that leads to the metadata service",
        at_a_server(to("hook.example", [METADATA])),
        denied("hook.example", IS_METADATA),
    ),
    _wire(
        "a name that leads to it IPv6-mapped",
        at_a_server(to("hook.example", [f"::ffff:{METADATA}"])),
        denied("hook.example", IS_METADATA),
    ),
    _wire(
        "rebinding: a name that leads elsewhere the second time",
        at_a_server(rebound),
        f"200, then nothing is sent to hook.example:<port>, since its address {IS_METADATA}; name another host; "
        f"1 connections, 1 requests",
    ),
    _wire(
        "a redirect to loopback is not followed",
        at_a_server(
            to("127.0.0.1"), b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
        ),
        "307; 1 connections, 1 requests",
    ),
    _wire(
        "a name that leads to the service itself",
        at_a_server(to_itself),
        denied("hook.example", "is a listener of the service itself"),
    ),
    _wire(
        "a name that leads to a denied network",
        at_a_server(to_a_denied_network),
        denied("hook.example", "is denied by `delivery.egress`"),
    ),
    _wire(
        "a flood of interim answers before the answer",
        at_a_server(to("127.0.0.1"), b"HTTP/1.1 103 Early Hints\r\n\r\n" * 200_000 + OK),  # bounded by time
        "200; 1 connections, 1 requests",
    ),
    _wire(
        "a flood of answers behind the answer",
        at_a_server(to("127.0.0.1"), OK * 100_000),
        "200; 1 connections, 1 requests",
    ),
    _wire(
        "a secret with a line end in a header",
        at_a_server(a_resolved_line_end),
        "a header of a request to 127.0.0.1:<port> (`A`) must not hold line ends, NUL or other control "
        "characters; 0 connections, 0 requests",
    ),
)

ATTACKS = (*_HOSTS, *_HEADERS, *_WIRE)
