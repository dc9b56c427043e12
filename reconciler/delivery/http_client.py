"""Outbound HTTP requests to servers from users' settings; the only module that imports aiohttp.

    async with HttpClient(policy=EgressPolicy(listeners=(...), is_local=http_client.machine_has)) as client:
        answer = await client.send(checked(HttpRequest(target)), limits=AnswerLimits())

**Egress rules** decide if the service may connect to an address and port. aiohttp calls its `socket_factory` for every
attempt to connect, with the exact address of the connection, both for names and for literal addresses. So addresses are
judged there, and an earlier answer of the name server does not matter (DNS rebinding).

**Behind a proxy** the service connects only to the proxy, and the proxy resolves names. Then the service judges the
proxy's own address, by all rules except the operator's networks, and targets that are literal addresses. It can judge
names only by their spelling; the proxy must refuse their addresses.

**Names** are resolved in threads of our own. A user may control the name server, and one that never answers holds a
thread until the system gives up. In the loop's common threads it would block other work.
"""

import asyncio
import errno
import io
import logging
import math
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from reconciler.model import webhooks
from reconciler.model.errors import Refused, Transient
from reconciler.model.webhooks import Address, Network
from reconciler.version import __version__

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """The target of a request. `host` may have one pair of brackets; `path` is sent unchanged, with its query."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{webhooks.bracketed(self.host)}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. Headers have credentials, so its representation has neither them nor the body."""

    target: HttpTarget
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Headers = ()
    body: bytes = b""

    def __repr__(self) -> str:
        """Leave out headers and body."""
        return f"Request({self.method} {self.target})"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits of one request: seconds for the connection, seconds in all, and bytes to read of the answer's body."""

    connect: float = 5.0
    total: float = 5.0
    answer_bytes: int = 64 * 1024


class HttpAnswer(msgspec.Struct, frozen=True):
    """The answer of a server with any status. All of it is text from a stranger. `body_start` is not decompressed."""

    status: int
    reason: str
    headers: Headers
    body_start: bytes

    def __repr__(self) -> str:
        """Show only the status."""
        return f"Answer({self.status})"


class FailureCause(StrEnum):
    """The reason for a missing answer."""

    NAME = "name"  # the name did not resolve
    CONNECT = "connect"
    TLS = "tls"
    UNTRUSTED = "untrusted"  # the server's certificate
    CLIENT = "client"  # the server wants a certificate of ours, or another one
    TIME = "time"  # it took too long
    PROXY = "proxy"
    ANSWER = "answer"  # there was no answer, or it was not HTTP


class Denied(Refused):
    """The service refuses to connect there: a retry is useless until the name, the settings or the resource changes.

    `rule` is the end of a sentence, such as `is link-local`. Neither has the address of a name; the log has it.
    """

    def __init__(self, target: HttpTarget, rule: str, *, whose: str = "its") -> None:
        super().__init__(f"nothing is sent to {target}, since {whose} address {rule}; name another host")
        self.rule = rule


class Unsendable(Refused):
    """The request breaks a rule. The message names the header or part, never a value."""


class Unanswered(Transient):
    """No answer came. The request may have arrived nevertheless; try again."""

    def __init__(self, target: HttpTarget, cause: FailureCause, message: str) -> None:
        super().__init__(f"{target} {message}")
        self.cause = cause


def checked(request: HttpRequest) -> HttpRequest:
    """Return a request that may be sent, with a `User-Agent`. Raises Unsendable if a part breaks the rules of webhooks.

    Values are checked again here, because secrets are resolved only now: a newline in a file could end a header.
    """
    target = request.target
    wrong = _wrong_target(target)
    if wrong is not None:
        raise Unsendable(wrong)
    seen: set[str] = set()
    for name, value in request.headers:
        wrong = _wrong(name, value, seen)
        if wrong is not None:
            raise Unsendable(f"a header of a request to {target} {wrong}")
        seen.add(name.lower())
    wrong = webhooks.wrong_headers(request.headers)
    if wrong is not None:
        raise Unsendable(f"a request to {target} {wrong}")
    if "user-agent" in seen:
        return request
    return msgspec.structs.replace(request, headers=(*request.headers, _USER_AGENT))


@lru_cache(maxsize=1024)
def _wrong_target(target: HttpTarget) -> str | None:
    """Return why a target is wrong; cached, because thousands of requests have the same target."""
    if target.path and not target.path.startswith("/"):
        return "the path of a request must be empty or begin with `/`"
    for part, wrong in (("the host", webhooks.wrong_host(target.host)), ("the path", webhooks.wrong_path(target.path))):
        if wrong is not None:
            return f"{part} of a request {wrong}"
    return None


_wrong_name = lru_cache(maxsize=1024)(webhooks.wrong_header_name)  # not cached for values, which may be secrets


def _wrong(name: str, value: str, seen: set[str]) -> str | None:
    wrong = _wrong_name(name)
    if wrong is not None:
        return wrong
    if name.lower() in seen:
        return f"(`{name}`) {webhooks.TWICE}"
    if webhooks.header_size(name, value) > webhooks.LONGEST_HEADER:
        return f"is longer than {webhooks.LONGEST_HEADER} bytes"
    about = webhooks.wrong_header_value(value)
    return None if about is None else f"(`{name}`) {about}"


OWN_LISTENER = "is a listener of the service itself"
DENIED_BY_SETTINGS = "is denied by `delivery.egress`"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address at which the service listens, from the bound socket: never a name, and never port 0."""

    address: Address
    port: int


def _nowhere(_: Address) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The networks of the settings, and the addresses of this machine and of the service.

    `is_local` returns True for an address of this machine. It is called only for the port of a listener on a wildcard
    address (0.0.0.0 or ::), which accepts connections to all of them.
    """

    listeners: tuple[Listener, ...] = ()
    is_local: Callable[[Address], bool] = field(default=_nowhere, repr=False)
    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()

    def for_proxy(self) -> "EgressPolicy":
        """Return the policy for the proxy itself. The operator chose it, so the operator's networks do not apply."""
        return replace(self, allow=(), deny=())


def egress_refusal(address: Address, *, port: int, policy: EgressPolicy) -> str | None:
    """Return why the service must not connect there, as the end of a sentence without the address; None if it may.

    Every rule is applied to every form of the address, so that no spelling evades a rule.
    """
    always = webhooks.refusal_reason(address)
    if always is not None:
        return always
    readings = webhooks.address_readings(address)
    if any(_is_own(reading, port, policy) for reading in readings):
        return OWN_LISTENER
    if any(_is_denied(reading, policy) for reading in readings):
        return DENIED_BY_SETTINGS
    return None


def _is_own(address: Address, port: int, policy: EgressPolicy) -> bool:
    for listener in policy.listeners:
        if listener.port == port and (
            address == listener.address or (listener.address.is_unspecified and policy.is_local(address))
        ):
            return True
    return False


def _is_denied(address: Address, policy: EgressPolicy) -> bool:
    """Decide by the longest prefix that contains the address. `deny` wins a tie; without a match it is allowed."""
    return _longest_prefix(address, policy.deny) >= max(_longest_prefix(address, policy.allow), 0)


def _longest_prefix(address: Address, networks: Iterable[Network]) -> int:
    """Return the bits of the longest prefix that contains the address; -1 for none."""
    return max((network.prefixlen for network in networks if address in network), default=-1)


_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def machine_has(address: Address) -> bool:
    """Return True if a program on this machine could listen on the address. It takes microseconds and sends nothing.

    If the kernel refuses for another reason (too many open files, a sandbox), the answer is True, so that the service
    never connects to itself.
    """
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as problem:
        return problem.errno not in _NOT_OURS
    return True


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name for a port, best first; OSError when there are none."""

RESOLVER_THREADS = 8


log = logging.getLogger(__name__)

MOST_ADDRESSES = 16  # of one name; aiohttp tries n of them up to n² / 2 times
LONGEST_LINE = 8190  # bytes of an answer's status line, and of each of its headers
MOST_HEADERS = 64  # of an answer
# Seconds for which an idle connection is kept. Meanwhile a server may send unrequested bytes, which aiohttp keeps until
# the connection is closed.
KEPT_SECONDS = 2.0
_AT_ONCE = 1 << 20  # bytes of a body that are given to the socket in one piece
_USUAL = ("Accept-Encoding",)  # headers of aiohttp that are not sent: no answer is decompressed
_USER_AGENT = ("User-Agent", f"reconciler/{__version__}")
_NOT_AN_ADDRESS = "is not an IP address"
_PATH = "".join(map(chr, range(0x21, 0x7F)))  # sent as they are; the rest is percent-encoded as UTF-8

_attempts: ContextVar[dict[str, str | None]] = ContextVar("attempts")
"""For the request in progress: each address that was tried, with the rule that refused it."""


class HttpClient:
    """Sends requests over one pool of connections. It belongs to the running loop, and must be closed."""

    def __init__(
        self, *, policy: EgressPolicy, resolve: Resolve | None = None, proxy: str = "", connections: int = 100
    ) -> None:
        """Open a pool of at most so many `connections`. `resolve` replaces the resolver; `proxy` is a URL or empty."""
        self._policy = policy
        self._proxy = proxy or None
        self.secrets = _credentials(proxy)  # the proxy's credentials, which every request may send
        self._sockets = policy.for_proxy() if proxy else policy
        self._resolver = _Resolver(resolve)
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            socket_factory=self._socket,
            limit=connections,
            keepalive_timeout=KEPT_SECONDS,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=MOST_HEADERS,
            skip_auto_headers=_USUAL,
        )

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests in progress fail."""
        await self._session.close()
        await self._resolver.close()

    async def send(
        self, request: HttpRequest, *, limits: AnswerLimits, tls: ssl.SSLContext | None = None
    ) -> HttpAnswer:
        """Send a `checked` request and return the answer, with any status, even a redirect.

        `tls` is for https; None trusts the system's authorities. Raises Denied (nothing was sent), and Unanswered (it
        may have arrived). An answer counts when its head has arrived, even if its body is cut off. Nothing is sent
        twice.
        """
        target = request.target
        if self._proxy is not None:
            self._judge(target)  # the proxy connects; else the address is judged when a socket is made for it
        attempts: dict[str, str | None] = {}
        token = _attempts.set(attempts)
        try:
            return await self._exchange(request, limits=limits, tls=True if tls is None else tls)
        except (aiohttp.ClientError, OSError) as problem:
            rules = list(attempts.values())
            if rules and None not in rules:
                raise Denied(target, str(rules[0]), whose="its" if self._proxy is None else "the proxy's") from None
            raise _described_failure(target, problem) from None
        finally:
            _attempts.reset(token)
            for each, refused in attempts.items():
                if refused is not None:
                    log.warning("%s led to %s, which %s; it was not connected to", target, each, refused)

    def _judge(self, target: HttpTarget) -> None:
        """Raise Denied for a refused literal address. The proxy judges the addresses of names."""
        address = webhooks.literal(target.host)
        rule = None if address is None else egress_refusal(address, port=target.port, policy=self._policy)
        if rule is not None:
            log.warning("nothing is sent to %s, since its address %s", target, rule)
            raise Denied(target, rule)

    async def _exchange(self, request: HttpRequest, *, limits: AnswerLimits, tls: ssl.SSLContext | bool) -> HttpAnswer:
        response = await self._session.request(
            request.method,
            _url(request.target),
            data=request.body if len(request.body) <= _AT_ONCE else io.BytesIO(request.body),
            headers=request.headers,
            allow_redirects=False,
            proxy=self._proxy,
            ssl=tls,
            timeout=_patience(limits),
            read_bufsize=limits.answer_bytes,
            middlewares=(_Once(),) if request.method == "PUT" else None,
        )
        try:
            start = await _start(response.content, size=limits.answer_bytes)
        finally:
            if not response.content.at_eof():
                response.close()  # the rest is not read to keep the connection, because it may never end
        return HttpAnswer(response.status, response.reason or "", tuple(response.headers.items()), start)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for one attempt, unless its address is refused."""
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


class _Once:
    """Prevents aiohttp from sending a PUT again after its connection broke, because nobody would count that."""

    def __init__(self) -> None:
        self._is_sent = False

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._is_sent:
            raise aiohttp.ServerDisconnectedError
        self._is_sent = True
        return await handler(request)


class _Resolver(AbstractResolver):
    """The system's resolver (/etc/hosts, DNS, as in nsswitch.conf), or a function in its place.

    It applies no rules, and limits the number of addresses.
    """

    def __init__(self, resolve: Resolve | None) -> None:
        self._resolve = resolve or self._system
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="egress-names")

    async def _system(self, host: str, port: int) -> Sequence[str]:
        """Return addresses of families that this machine has, the best first (RFC 6724)."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)

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
        """Refuse further names, and cancel pending ones."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for _, _, _, _, address in found]


def _credentials(proxy: str) -> tuple[str, ...]:
    """Return the user and password of a proxy's URL as they are sent, and the password."""
    url = URL(proxy)
    return () if url.password is None else (f"{url.user or ''}:{url.password}", url.password)


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@lru_cache(maxsize=1024)
def _url(target: HttpTarget) -> URL:
    """Return the URL exactly as it is sent. aiohttp would decode and encode the path, which breaks signatures."""
    path = quote(target.path, safe=_PATH) or "/"
    url = URL(f"{target.scheme}://{webhooks.bracketed(target.host)}:{target.port}{path}", encoded=True)
    if url.explicit_port != target.port or url.user is not None:
        raise Unsendable(f"a request to {target} cannot be written as a URL")
    return url


@lru_cache(maxsize=256)
def _patience(limits: AnswerLimits) -> aiohttp.ClientTimeout:
    # Without this threshold, aiohttp would round long timeouts up to whole seconds.
    return aiohttp.ClientTimeout(total=limits.total, sock_connect=limits.connect, ceil_threshold=math.inf)


async def _start(content: aiohttp.StreamReader, *, size: int) -> bytes:
    """Read the first bytes of a body."""
    if content.at_eof():
        return b""
    start = bytearray()
    try:
        while len(start) < size and (part := await content.read(size - len(start))):
            start += part
    except (aiohttp.ClientError, OSError):
        pass  # the head of the answer already decides the outcome
    return bytes(start)


def _described_failure(target: HttpTarget, problem: Exception) -> Unanswered:
    """Describe the failure in our words, because those of the library contain the address of a name."""
    if isinstance(problem, aiohttp.ClientHttpProxyError):
        return Unanswered(target, FailureCause.PROXY, f"cannot be reached: the proxy answered {problem.status}")
    alert = problem.__cause__ if isinstance(problem.__cause__, ssl.SSLError) else problem
    if isinstance(alert, ssl.SSLError) and alert.reason in _OF_OUR_CERTIFICATE:
        return Unanswered(target, FailureCause.CLIENT, "does not take our client certificate, or misses one")
    if isinstance(problem, aiohttp.ClientConnectorError) and isinstance(problem.os_error, ConnectionResetError):
        return Unanswered(target, FailureCause.ANSWER, _CLOSED)  # closed during the TLS handshake
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
"""TLS alerts of a server about the client's certificate or its absence, by OpenSSL's names. In TLS 1.3 they come after
the handshake, so aiohttp reports them like any other error of an open connection.
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
"""The first match counts, so a subclass comes before its base class."""
