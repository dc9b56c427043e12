"""Egress rules: which addresses may be reached, and the outcome of one request."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Literal

import msgspec

from reconciler.model import hosts, webhooks
from reconciler.model.errors import Refused, Transient
from reconciler.model.hosts import Address, Network

# One request to a server that others chose, and what may come of it: an answer, or an error that says what to do next.

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where a request goes. `host` has no brackets or one pair of them; `path` is as it is sent, its query included."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"{hosts.bracketed(self.host)}:{self.port}"


class HttpRequest(msgspec.Struct, frozen=True):
    """A request. Headers carry credentials, so neither they nor the body are shown."""

    target: HttpTarget
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Headers = ()
    body: bytes = b""

    def __repr__(self) -> str:
        """Without headers and body."""
        return f"Request({self.method} {self.target})"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What one request may take: seconds for a connection, seconds in all, bytes that are read of an answer's body."""

    connect: float = 5.0
    total: float = 5.0
    answer_bytes: int = 64 * 1024


class HttpAnswer(msgspec.Struct, frozen=True):
    """What a server said, whatever the status; all of it is a stranger's text. `body_start` is not decompressed."""

    status: int
    reason: str
    headers: Headers
    body_start: bytes

    def __repr__(self) -> str:
        """The status alone."""
        return f"Answer({self.status})"


class FailureCause(StrEnum):
    """What kept an answer from coming."""

    NAME = "name"  # it did not resolve
    CONNECT = "connect"
    TLS = "tls"
    UNTRUSTED = "untrusted"  # the server's certificate
    CLIENT = "client"  # the server wants a certificate of ours, or another one
    TIME = "time"  # it took too long
    PROXY = "proxy"
    ANSWER = "answer"  # none, or none that is HTTP


class Denied(Refused):
    """The service does not connect there: no retry helps until the name, the settings or the resource changes.

    `rule` is a sentence's rest, `is link-local`. Neither says which address a name led to; the log does.
    """

    def __init__(self, target: HttpTarget, rule: str, *, whose: str = "its") -> None:
        super().__init__(f"nothing is sent to {target}, since {whose} address {rule}; name another host")
        self.rule = rule


class Unsendable(Refused):
    """The request breaks a rule of requests; the message names the header or part, never a value."""


class Unanswered(Transient):
    """No answer came; try again. The request may have arrived all the same."""

    def __init__(self, target: HttpTarget, cause: FailureCause, message: str) -> None:
        super().__init__(f"{target} {message}")
        self.cause = cause


def check(request: HttpRequest) -> Set[str]:
    """Return the names of its headers, in lower case. Raises Unsendable unless the rules of webhooks allow every part.

    Values are judged here again, because references to secrets are known only now: a file that ends in a line end would
    end a header's line.
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
    return seen


@lru_cache(maxsize=1024)
def _wrong_target(target: HttpTarget) -> str | None:
    """Remembered, since it is the same for each of thousands of requests."""
    if target.path and not target.path.startswith("/"):
        return "the path of a request must be empty or begin with `/`"
    for part, wrong in (("the host", webhooks.wrong_host(target.host)), ("the path", webhooks.wrong_path(target.path))):
        if wrong is not None:
            return f"{part} of a request {wrong}"
    return None


_wrong_name = lru_cache(maxsize=1024)(
    webhooks.wrong_header_name
)  # of values, which may be secrets, nothing is remembered


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


# Where the service may connect to on behalf of what others wrote: one pure decision about one address and port.

OWN_LISTENER = "is a listener of the service itself"
DENIED = "is denied by `delivery.egress`"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the service listens, as the bound socket says: never a name, and never port 0."""

    address: Address
    port: int


def _nowhere(_: Address) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What decides besides the address: the settings' networks, and what is this machine.

    `is_local` says whether an address is one of this machine's; it is asked only about the port of a listener on a
    wildcard address (0.0.0.0 or ::), which takes connections to all of them.
    """

    listeners: tuple[Listener, ...] = ()
    is_local: Callable[[Address], bool] = field(default=_nowhere, repr=False)
    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()

    def for_proxy(self) -> "EgressPolicy":
        """What holds for the proxy itself: the operator named it, so the operator's networks do not apply."""
        return replace(self, allow=(), deny=())


def egress_refusal(address: Address, *, port: int, policy: EgressPolicy) -> str | None:
    """Why the service must not connect there, as the rest of a sentence that does not name the address; None: it may.

    Every reading of the address is judged by every rule, so that no way to write it gets further than another.
    """
    always = hosts.refusal_reason(address)
    if always is not None:
        return always
    readings = hosts.address_readings(address)
    if any(_is_own(reading, port, policy) for reading in readings):
        return OWN_LISTENER
    if any(_is_denied(reading, policy) for reading in readings):
        return DENIED
    return None


def _is_own(address: Address, port: int, policy: EgressPolicy) -> bool:
    for listener in policy.listeners:
        if listener.port == port and (
            address == listener.address or (listener.address.is_unspecified and policy.is_local(address))
        ):
            return True
    return False


def _is_denied(address: Address, policy: EgressPolicy) -> bool:
    """The longest prefix that holds the address decides; `deny` wins a tie; without any it is allowed."""
    return _longest(address, policy.deny) >= max(_longest(address, policy.allow), 0)


def _longest(address: Address, networks: Iterable[Network]) -> int:
    """Bits of the longest prefix that holds the address; -1 for none."""
    return max((network.prefixlen for network in networks if address in network), default=-1)


# Which addresses are this machine's, asked of its kernel each time, since interfaces come and go.

_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def machine_has(address: Address) -> bool:
    """Whether a program on this machine could listen on the address; microseconds, nothing is sent.

    When the kernel refuses for any other reason (too many open files, a sandbox), the answer is yes: what asks must
    rather not connect than connect to ourselves.
    """
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as problem:
        return problem.errno not in _NOT_OURS
    return True


# Asking the system for the addresses of a name, in threads of our own.
#
# A name belongs to whoever wrote it, and so may its name server be: one that never answers holds a thread for as long
# as the system waits. In the loop's common threads it would hold up everything else that uses them.

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name for a port, best first; OSError when there are none."""

THREADS = 8


class SystemNames:
    """The system's resolver: /etc/hosts, DNS, whatever nsswitch.conf says."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="egress-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, best first (RFC 6724), of families that this machine has."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _addresses, host, port)

    def close(self) -> None:
        """Take no more names; who waits for one is cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for _, _, _, _, address in found]
