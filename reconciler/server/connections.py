"""Limits on HTTP connections before a credential is known: their number, their heads, and slow clients.

This module alone subclasses uvicorn's protocol, whose version is pinned.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Sequence
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from time import monotonic
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from api.responses import SECURITY, Header
from reconciler.model import error_codes
from reconciler.model.error_codes import ErrorCode

# Requests that offer another protocol (RFC 9110, 7.8). A server may ignore the offer.
#
# Java's own client offers HTTP/2 so with the first request of each connection.

OFFER = frozenset({b"upgrade", b"http2-settings"})  # names of its headers, which `Connection` has too


def head_without_offer(line: bytes, headers: Sequence[Header]) -> bytes:
    """Return the head of a request, from its first line to the empty one, without the offer. Names of headers are in
    lower case.
    """
    kept = [line]
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            left = b", ".join(token for token in tokens if token.lower() not in OFFER)
            kept += [b"%b: %b" % (name, left)] if left else []
        elif name not in OFFER:
            kept.append(b"%b: %b" % (name, value))
    return b"\r\n".join((*kept, b"", b""))


log = logging.getLogger(__name__)

HEAD_BYTES = 64 * 1024  # the request line and all headers together; also the trailers after a chunked body
HEAD_SECONDS = 10.0  # for a whole head, from the opening of the connection or from the head's first byte
STALLED_SECONDS = 60.0  # a client that takes nothing of its answer for so long is gone
CONNECTIONS = 500  # half of the 1,024 files that a process may commonly open: git and the store need some too
OF_ONE_ADDRESS = CONNECTIONS // 2  # connections without a request in progress, unless it is a trusted proxy
PIPELINED = 64  # requests that wait on one connection for the answer to an earlier one
WARN_SECONDS = 60.0  # between two lines about too many connections
LINE_BYTES = 4  # the `: ` and the line's end, around each header


class ConnectionState(Enum):
    """The progress of a connection's request."""

    IDLE = auto()  # none: before the first head is complete, and between requests
    RECEIVING = auto()  # its head is complete, its body is not
    ANSWERING = auto()
    ENDED = auto()


class Place:
    """The place of one connection in the pool. `close` ends the connection at once."""

    __slots__ = ("address", "close", "pool", "state")

    def __init__(self, pool: "ConnectionPool", address: str, close: Callable[[], object]) -> None:
        self.pool = pool
        self.address = address
        self.close = close
        self.state = ConnectionState.ENDED  # until the pool has it

    def change(self, state: ConnectionState) -> None:
        """Note the progress of the connection's request."""
        if self.state is not state and self.state is not ConnectionState.ENDED:
            self.pool.move(self, state)

    def leave(self) -> None:
        """Free the place, once; the connection has ended."""
        self.change(ConnectionState.ENDED)

    def end(self) -> None:
        """Free the place and close the connection."""
        self.leave()
        self.close()


class ConnectionPool:
    """All open connections of the HTTP server. Silent ones must never block others.

    A connection without a request in progress is closed, the oldest first, when its address has too many of them or
    when all places are taken. If every connection has a request, the oldest whose body has not arrived is closed. So a
    new connection is refused only while the service answers `CONNECTIONS` requests.
    """

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._trusted = trusted
        self._open: dict[Place, None] = {}  # in the order in which the connections came into their states
        self._idle: dict[str, int] = {}  # how many, by address
        self._warned_at = float("-inf")

    def admit(self, address: str, *, close: Callable[[], object]) -> Place | None:
        """Return a place for a new connection, or None. `close` must end it at once."""
        unanswered = (ConnectionState.IDLE, ConnectionState.RECEIVING)
        if len(self._open) >= CONNECTIONS and not any(map(self._close_oldest, unanswered)):
            self._warn()
            return None
        place = Place(self, self._counted(address), close)
        self.move(place, ConnectionState.IDLE)
        return place

    def move(self, place: Place, state: ConnectionState) -> None:
        """Change the state of a connection."""
        idle = self._idle
        if place.state is ConnectionState.IDLE:
            idle[place.address] -= 1
            if not idle[place.address]:
                del idle[place.address]
        self._open.pop(place, None)
        place.state = state
        if state is not ConnectionState.ENDED:
            self._open[place] = None
        if state is ConnectionState.IDLE:
            idle[place.address] = idle.get(place.address, 0) + 1
            if place.address and idle[place.address] > OF_ONE_ADDRESS:
                self._close_oldest(state, place.address)

    def _counted(self, address: str) -> str:
        """Return the address that the connection counts for; empty for a trusted proxy."""
        try:
            peer = ip_address(address)
        except ValueError:
            return ""  # a listener of another kind has no addresses
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped  # a listener on `[::]` takes IPv4 too
        return "" if any(peer in network for network in self._trusted) else address

    def _close_oldest(self, state: ConnectionState, address: str = "") -> bool:
        """Close the oldest connection in this state, of one address or of any; False if there is none."""
        found = (one for one in self._open if one.state is state and address in ("", one.address))
        oldest = next(found, None)
        if oldest is not None:
            oldest.end()
        return oldest is not None

    def _warn(self) -> None:
        now = monotonic()
        if now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            log.warning("%d HTTP requests are in progress; new connections are closed until some end.", CONNECTIONS)


class _Refusal(Exception):
    """Ends the parsing of a client's bytes. The parser turns it into an error of its own."""


class BoundedConnection(HttpToolsProtocol):
    """One client's connection. `_received` counts bytes since the parser last completed a part of a request.

    The parser gets whole pieces from the socket (at most 256 KiB), so a limit is exceeded by at most one piece.
    """

    # Slots for what is added: with over thirty attributes in its dictionary, every access to an object is slower.
    __slots__ = (
        "_data",
        "_head_timer",
        "_in_head",
        "_piece",
        "_place",
        "_received",
        "_refused",
        "_stall_timer",
    )

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], *, place: Place) -> None:
        super().__init__(config, server_state, app_state)
        self._place = place
        self._in_head = True  # between requests too
        self._received = 0
        self._piece = 0
        self._refused = (400, ErrorCode.INVALID_REQUEST, "The request is not HTTP.")
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._place.close = transport.abort
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._place.leave()
        self._unlimit_time()
        self._forget_stall()

    # Every request passes through the next ones: nothing slow (`super()` is), no timer for a head that is one piece.

    def data_received(self, data: bytes) -> None:
        self._data = data
        self._piece = piece = len(data)
        self._received += piece
        HttpToolsProtocol.data_received(self, data)
        self._data = b""  # nothing of it stays with a connection that says no more
        # The scope is made at a head's first byte, the cycle at its last: this head began in the piece that ended the
        # request before it.
        if self._received or self.cycle is None or self.scope is not self.cycle.scope:
            self._bound()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what a body in chunks has behind it is no header of the request (RFC 9110, 6.5.1)
            HttpToolsProtocol.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        if self._is_offer():
            return  # the parser stops here, and `_unsupported_upgrade_warning` goes on
        if (self._piece > HEAD_BYTES or self._received > HEAD_BYTES) and _size(self.url, self.headers) > HEAD_BYTES:
            raise self._too_large()
        if len(self.pipeline) >= PIPELINED:
            raise _Refusal
        if self.url[:1] != b"/":
            _take_host(self.url, self.headers)
        HttpToolsProtocol.on_headers_complete(self)  # raises for a target that is no URL: the head is not complete then
        self._in_head = False
        self._received = 0
        if self._head_timer is not None:
            self._unlimit_time()
        self._place.change(ConnectionState.RECEIVING)

    def on_body(self, body: bytes) -> None:
        self._received = 0
        HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        if self._is_offer():
            return
        self._in_head = True
        self._received = 0
        if self._head_timer is not None:
            self._unlimit_time()
        HttpToolsProtocol.on_message_complete(self)
        if self._is_answering():
            self._place.change(ConnectionState.ANSWERING)

    # A request that offers another protocol is read once more, without the offer.

    def _is_offer(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore an offered protocol. uvicorn calls this while it handles the parser's exception, which has the end of
        the head. The parser would not read the rest as HTTP, so a new parser replaces it.
        """
        stopped, parser = sys.exc_info()[1], self.parser
        if stopped is None or not self._is_offer():
            return
        line = b"%b %b HTTP/%b" % (parser.get_method(), self.url, parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the server has it
        self._data = head_without_offer(line, self.headers) + self._data[stopped.args[0] :]
        HttpToolsProtocol.data_received(self, self._data)

    # What the answering side calls

    def on_response_complete(self) -> None:
        HttpToolsProtocol.on_response_complete(self)
        if not self._is_answering():
            self._place.change(ConnectionState.IDLE)
        if not self._in_head and self._head_timer is None and not self.transport.is_closing():
            self._limit_time()  # the answer came first, as a refusal does: the rest of the body must not trickle on

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - its text is replaced
        """Answer a request that the parser refused, or that exceeded our limits."""
        if self._is_answering():
            self.transport.close()  # an answer now would stand in the middle of another
            return
        status, code, sentence = self._refused
        body = json.dumps(error_codes.body([sentence], code)).encode()
        headers = (*self.server_state.default_headers, *SECURITY)
        common = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        kind = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + common + kind + body)
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._forget_stall()
        self._stall_timer = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stall()
        super().resume_writing()

    # The bounds

    def _bound(self) -> None:
        """Limit the size and the time of an incomplete part of a request."""
        if self.transport.is_closing():
            return
        if self._received > HEAD_BYTES:
            self._too_large()
            self.send_400_response("")
        elif self._in_head and self._head_timer is None:
            self._unset_keepalive_if_required()
            self._limit_time()

    def _too_large(self) -> _Refusal:
        limit = f"{HEAD_BYTES // 1024} KiB"
        sentence = f"The request line and the headers are larger than {limit}; send fewer or shorter ones."
        self._refused = (431, ErrorCode.TOO_LARGE, sentence)
        return _Refusal()

    def _limit_time(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._overdue)

    def _unlimit_time(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _overdue(self) -> None:
        if self._is_answering():
            self._limit_time()  # a pipelined request's head may wait for as long as the answer before it takes
        else:
            self._head_timer = None
            self.transport.abort()

    def _forget_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def _take_host(url: bytes, headers: list[Header]) -> None:
    """Replace the `Host` header by the host of the target, if it has one: `GET http://host/path`.

    RFC 9112, 3.2.2 requires it: otherwise a proxy and our code could use different hosts.
    """
    parsed = httptools.parse_url(url)  # raises for what is no URL
    if parsed.host is not None:
        name = b"[%s]" % parsed.host if b":" in parsed.host else parsed.host
        host = name if parsed.port is None else b"%s:%d" % (name, parsed.port)
        headers[:] = [(name, value) for name, value in headers if name != b"host"] + [(b"host", host)]


def _size(url: bytes, headers: list[Header]) -> int:
    return len(url) + sum(len(name) + len(value) + LINE_BYTES for name, value in headers)
