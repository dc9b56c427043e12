"""Outbound HTTP requests to servers that other people chose; the only module that imports aiohttp."""

import asyncio
import errno
import logging
import socket
import ssl
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from ipaddress import ip_address
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError as NotHttp
from multidict import istr
from yarl import URL

from reconciler.delivery import egress
from reconciler.delivery.egress import (
    AnswerLimits,
    Denied,
    EgressPolicy,
    FailureCause,
    Headers,
    HttpAnswer,
    HttpRequest,
    HttpTarget,
    Resolve,
    SystemNames,
    Unanswered,
    Unsendable,
    check,
    egress_refusal,
)
from reconciler.model import hosts
from reconciler.version import __version__

__all__ = ["BegunRequest", "Connector", "NotHttp", "begin_request"]

# One request on a connection, and one answer to it, of what a server sends.
#
# aiohttp parses all that comes and puts every message into a queue: any number of interim answers (1xx) before the
# answer, and of answers behind it that nobody asked for, also while a connection waits to be used again. A server that
# sends nothing else would take all of the event loop's time.

LONGEST_LINE = 8190  # bytes of an answer's status line, and of each of its headers
MOST_HEADERS = 64  # of an answer
MOST_INTERIM = 10  # answers before the answer
_PIECE = 4 << 10  # bytes that are parsed at a time; the shortest messages in them take half a millisecond


class Connector(aiohttp.TCPConnector):
    """Its connections hear one answer to each request."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_handler, loop=self._loop)  # for what there is no option


def _handler(loop: AbstractEventLoop) -> ResponseHandler:
    return _OneAnswer(loop)


class _OneAnswer(ResponseHandler):
    def __init__(self, loop: AbstractEventLoop) -> None:
        super().__init__(loop)
        self._interim = 0
        self._answered = True

    def set_response_params(self, **options: Any) -> None:
        """A request is about to be sent."""
        self._interim = 0
        self._answered = False
        ResponseHandler.set_response_params(self, **options)  # here and below: `super()` costs as much as the rest

    def data_received(self, data: bytes) -> None:
        """In pieces, so that what comes too much is noticed before all of it is parsed."""
        if len(data) <= _PIECE:
            ResponseHandler.data_received(self, data)
            return
        super().data_received(data[:_PIECE])
        for start in range(_PIECE, len(data), _PIECE):
            if self.transport is None or self.transport.is_closing():
                return
            super().data_received(data[start : start + _PIECE])

    def feed_data(self, data: Any, size: int = 0) -> None:
        """A message was parsed. Interim ones tell nothing that we would heed."""
        if self._answered:
            self._end()
        elif 100 <= data[0].code < 200 and data[0].code != 101:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                self._end()
                self.set_exception(NotHttp(code=400, message="too many interim answers"))
        else:
            self._answered = True
            super().feed_data(data, size)

    def _end(self) -> None:
        self._answered = True
        self.force_close()
        if self.transport is not None:
            self.transport.abort()


class BegunRequest(msgspec.Struct, frozen=True):
    """An answer whose head came. At the end of `content` its connection is free; who wants no more calls `close`."""

    status: int
    reason: str | None
    headers: Mapping[str, str]
    content: aiohttp.StreamReader
    close: Callable[[], None]


async def begin_request(connection: Connection, head: bytes, body: bytes, *, size: int) -> BegunRequest:
    """Send a request, and wait for the head of its answer; of its body `size` bytes are buffered. Raises NotHttp,
    ClientError, OSError, and then the connection is the caller's to close.
    """
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None or transport.is_closing():
        raise aiohttp.ServerDisconnectedError
    protocol.set_response_params(
        read_until_eof=True,
        auto_decompress=False,
        read_bufsize=size,
        max_line_size=LONGEST_LINE,
        max_field_size=LONGEST_LINE,
        max_headers=MOST_HEADERS,
    )
    transport.writelines((head, body))

    def end() -> None:
        if transport.get_write_buffer_size():
            transport.abort()  # whoever answers before all of the request was taken may never take the rest
            connection.close()
        else:
            connection.release()

    message, content = await protocol.read()
    content.on_eof(end)
    return BegunRequest(message.code, message.reason, message.headers, content, connection.close)


# Outbound requests to servers that others chose; the one user of aiohttp.
#
#     async with Client(policy=Policy(listeners=(...), is_local=machine.has)) as client:
#         answer = await client.send(Request(target), limits=Limits())
#
# aiohttp calls its `socket_factory` for every attempt to connect, with the very address that the socket is then
# connected to, whether it came from a name or stood in the URL; a literal address never meets a resolver. So that is
# where addresses are judged: what a name led to a moment before plays no part (DNS rebinding).
#
# **Behind a proxy** the service connects to the proxy alone, and the proxy resolves names. Then the service judges the
# proxy's own address, by all rules but the operator's networks, and targets that are literal addresses; a name it can
# judge only by how it is written. Refusing the addresses that names lead to is then the proxy's business.

log = logging.getLogger(__name__)

MOST_ADDRESSES = 16  # of one name; aiohttp tries n of them up to n² / 2 times
WAYS = 1_024  # targets that are remembered
_USER_AGENT = ("User-Agent", f"reconciler/{__version__}")
_NOT_AN_ADDRESS = "is not an IP address"
_PATH = "".join(map(chr, range(0x21, 0x7F)))  # sent as they are; the rest is percent-encoded as UTF-8

_attempts: ContextVar[dict[str, str | None]] = ContextVar("attempts")
"""Of the request under way: each address that was tried, with the rule that refused it."""


class HttpClient:
    """Sends requests over one pool of connections; belongs to the running loop, and wants closing."""

    def __init__(
        self, *, policy: EgressPolicy, resolve: Resolve | None = None, proxy: str = "", connections: int = 100
    ) -> None:
        """`resolve` stands in for the system's; `proxy` is a URL or empty; `connections` bounds those that are open."""
        self._policy = policy
        self._proxy = proxy or None
        self.secrets = _credentials(proxy)  # that every request may send
        self._sockets = policy.for_proxy() if proxy else policy
        self._names = SystemNames()
        self._connector = Connector(
            resolver=_Resolver(resolve or self._names),
            use_dns_cache=False,
            socket_factory=self._socket,
            limit=connections,
        )
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=MOST_HEADERS,
            request_class=_Request,
        )
        # Else a PUT whose connection breaks is sent once more, which nobody counts. There is no option for it.
        self._session._retry_connection = False
        self._usual_way = lru_cache(maxsize=WAYS)(self._way)

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        await self._session.close()
        self._names.close()

    async def send(
        self, request: HttpRequest, *, limits: AnswerLimits, tls: ssl.SSLContext | None = None
    ) -> HttpAnswer:
        """The answer, whatever its status; a redirect is an answer like any other.

        `tls` is for https; None trusts the system's authorities. Raises Unsendable and Denied (nothing was sent), and
        Unanswered (it may have arrived). An answer whose head came is an answer, even when its body is cut off. Nothing
        is sent twice.
        """
        named = request.common.headers + request.headers
        if "user-agent" not in check(request):
            named += (_USER_AGENT,)
        target = request.target
        if self._proxy is not None:
            self._judge(target)  # the proxy connects; else the address is judged when a socket is made for it
        attempts: dict[str, str | None] = {}
        token = _attempts.set(attempts)
        try:
            return await self._exchange(request, named, limits=limits, tls=True if tls is None else tls)
        except (aiohttp.ClientError, NotHttp, OSError) as problem:
            rules = list(attempts.values())
            if rules and None not in rules:
                raise Denied(target, str(rules[0]), whose="its" if self._proxy is None else "the proxy's") from None
            raise _told(target, problem) from None
        finally:
            _attempts.reset(token)
            for each, refused in attempts.items():
                if refused is not None:
                    log.warning("%s led to %s, which %s; it was not connected to", target, each, refused)

    def _judge(self, target: HttpTarget) -> None:
        """Raises Denied for an address that is refused; names are the proxy's business."""
        address = hosts.literal(target.host)
        rule = None if address is None else egress_refusal(address, port=target.port, policy=self._policy)
        if rule is not None:
            log.warning("nothing is sent to %s, since its address %s", target, rule)
            raise Denied(target, rule)

    async def _exchange(
        self, request: HttpRequest, headers: Headers, *, limits: AnswerLimits, tls: ssl.SSLContext | bool
    ) -> HttpAnswer:
        until = asyncio.get_running_loop().time() + limits.total
        begin = self._begin if self._proxy is None else self._begin_by_session
        response: BegunRequest | aiohttp.ClientResponse
        async with asyncio.timeout_at(until):
            response = await begin(request, headers, limits=limits, tls=tls)
        try:
            start = await _start(response.content, size=limits.answer_bytes, until=until)
        finally:
            if not response.content.at_eof():
                response.close()  # what is left is not read to keep the connection: it may never end
        return HttpAnswer(response.status, response.reason or "", tuple(response.headers.items()), start)

    async def _begin_by_session(
        self, request: HttpRequest, headers: Headers, *, limits: AnswerLimits, tls: ssl.SSLContext | bool
    ) -> aiohttp.ClientResponse:
        """The head of the answer, by way of a proxy."""
        return await self._session.request(
            request.method,
            _url(request.target),
            data=request.body,
            headers=headers,
            allow_redirects=False,
            proxy=self._proxy,
            ssl=tls,
            timeout=_patience(limits.connect),
            read_bufsize=limits.answer_bytes,
        )

    async def _begin(
        self, request: HttpRequest, headers: Headers, *, limits: AnswerLimits, tls: ssl.SSLContext | bool
    ) -> BegunRequest:
        """The head of the answer, with aiohttp's connections and its parser alone. What its session, requests and
        answers do beyond that (cookies, redirects, authentication, timers, a task for each body) does nothing for us,
        and takes as long as all of ours.
        """
        # With a context of its own TLS costs more than this; and one that was renewed is not to be kept.
        way = self._usual_way(request.target) if tls is True else self._way(request.target, tls)
        head = egress.head(request, headers, host=way.headers[hdrs.HOST], path=way.url.raw_path_qs)
        try:
            connection = await self._connector.connect(way, traces=[], timeout=_patience(limits.connect))
        except TimeoutError as late:
            raise aiohttp.ConnectionTimeoutError from late
        try:
            return await begin_request(connection, head, request.body, size=limits.answer_bytes)
        except BaseException as problem:
            connection.close()
            if not isinstance(problem, OSError) or isinstance(problem, aiohttp.ClientError):
                raise
            if isinstance(problem, TimeoutError) and problem.errno is None:
                raise
            raise aiohttp.ClientOSError(*problem.args) from problem

    def _way(self, target: HttpTarget, tls: ssl.SSLContext | bool = True) -> aiohttp.ClientRequest:
        """What aiohttp chooses a connection by: the same for all requests to a target."""
        loop = asyncio.get_running_loop()
        return aiohttp.ClientRequest("POST", _url(target), loop=loop, session=self._session, ssl=tls)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """A socket for one attempt, unless the address of this very attempt is refused."""
        family, kind, protocol, _, (address, port, *_) = info
        rule = self._rule(address, port)
        _attempts.get()[address] = rule
        if rule is not None:
            raise PermissionError(errno.EACCES, rule)
        return socket.socket(family, kind, protocol)

    def _rule(self, address: str, port: int) -> str | None:
        try:
            return egress_refusal(ip_address(address), port=port, policy=self._sockets)
        except ValueError:
            return _NOT_AN_ADDRESS


class _Request(aiohttp.ClientRequest):
    """Asks for no compression, since no answer is decompressed."""

    DEFAULT_HEADERS: ClassVar[dict[istr, str]] = {hdrs.ACCEPT: "*/*"}  # type: ignore[misc]  # aiohttp says no ClassVar


class _Resolver(AbstractResolver):
    """A function from names to addresses as aiohttp takes one. It judges nothing; the number of answers is bounded."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 (addresses of both families are wanted)
    ) -> list[ResolveResult]:
        found: Sequence[str] = list(dict.fromkeys(await self._resolve(host, port)))[:MOST_ADDRESSES]
        if not found:
            raise OSError(errno.EADDRNOTAVAIL, "the name has no address")
        return [
            ResolveResult(hostname=host, host=each, port=port, family=_family(each), proto=0, flags=0) for each in found
        ]

    async def close(self) -> None:
        """Nothing is held here."""


def _credentials(proxy: str) -> tuple[str, ...]:
    """The user and password of a proxy's URL, as they are sent, and the password alone."""
    url = URL(proxy)
    return () if url.password is None else (f"{url.user or ''}:{url.password}", url.password)


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@lru_cache(maxsize=1024)
def _url(target: HttpTarget) -> URL:
    """The URL as it is sent: aiohttp would otherwise decode and encode the path, which breaks signatures of it."""
    path = quote(target.path, safe=_PATH) or "/"
    url = URL(f"{target.scheme}://{hosts.bracketed(target.host)}:{target.port}{path}", encoded=True)
    if url.explicit_port != target.port or url.user is not None:
        raise Unsendable(f"a request to {target} cannot be written as a URL")
    return url


@lru_cache(maxsize=256)
def _patience(connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect)


async def _start(content: aiohttp.StreamReader, *, size: int, until: float) -> bytes:
    """The first bytes of a body, as many as came in time and fit."""
    if content.at_eof():
        return b""
    start = bytearray()
    try:
        async with asyncio.timeout_at(until):
            while len(start) < size:
                part = await content.read(size - len(start))
                if not part:
                    break
                start += part
    except (aiohttp.ClientError, OSError):
        pass  # the head of the answer says what became of the request
    return bytes(start)


def _told(target: HttpTarget, problem: Exception) -> Unanswered:
    """What happened in our words; those of the library hold the address that a name led to."""
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return Unanswered(target, FailureCause.PROXY, f"cannot be reached: the proxy answered {problem.status}")
    alert = problem.__cause__ if isinstance(problem.__cause__, ssl.SSLError) else problem
    if isinstance(alert, ssl.SSLError) and alert.reason in _OF_OUR_CERTIFICATE:
        return Unanswered(target, FailureCause.CLIENT, "does not take our client certificate, or misses one")
    if isinstance(problem, aiohttp.ClientConnectorError) and isinstance(problem.os_error, ConnectionResetError):
        return Unanswered(target, FailureCause.ANSWER, _CLOSED)  # in the middle of the handshake of TLS
    for kinds, cause, message in _WORDS:
        if isinstance(problem, kinds):
            return Unanswered(target, cause, message)
    return Unanswered(target, FailureCause.ANSWER, "did not answer in HTTP, or at too great length")


_CLOSED = "closed the connection without an answer"
_OF_OUR_CERTIFICATE = frozenset(
    {
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    }
)
"""Alerts of TLS that a server sends about a client's certificate, or for want of one, as OpenSSL calls them. In TLS 1.3
they come after the handshake, so that to aiohttp they are an error like any other of an open connection.
"""

_WORDS: tuple[tuple[tuple[type[Exception], ...], FailureCause, str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), FailureCause.NAME, "has no address: the name does not resolve"),
    ((aiohttp.ClientProxyConnectionError,), FailureCause.PROXY, "cannot be reached: the proxy takes no connection"),
    ((aiohttp.ClientConnectorCertificateError,), FailureCause.UNTRUSTED, "shows a certificate that is not trusted"),
    ((aiohttp.ClientSSLError, ssl.SSLError), FailureCause.TLS, "does not agree on TLS"),
    ((TimeoutError,), FailureCause.TIME, "did not answer in time"),
    ((aiohttp.ClientConnectorError,), FailureCause.CONNECT, "takes no connection"),
    ((aiohttp.ServerDisconnectedError, aiohttp.ClientOSError), FailureCause.ANSWER, _CLOSED),
)
"""The first that fits; a kind stands before those it is a kind of."""
