"""The client of other replicas: the only part that calls `replica.url`.

The operator sets these addresses, and replicas are often in one private network. So the rules for addresses of users
(`delivery.http_client`) do not apply here, and no proxy is used. A redirect is no answer.
"""

import asyncio
import io
import ssl
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

import aiohttp
from yarl import URL

from reconciler.model import log_context
from reconciler.model.principals import Principal
from reconciler.replicas import tokens
from reconciler.replicas.peers import MOST_BYTES, SECONDS, Header, Peer, PeerAnswer, PeerGone
from reconciler.replicas.tokens import PeerTokens

CONNECT_SECONDS = 2.0
CONNECTIONS = 256  # to all replicas together; a read may wait for a minute
KEPT_SECONDS = 10.0  # for which an idle connection is kept


class CalledPeers:
    """The other replicas, called over HTTP. It belongs to the running loop, and must be closed."""

    def __init__(
        self,
        name: str,
        *,
        signing: PeerTokens,
        others: Callable[[], Sequence[Peer]],
        known: Callable[[], Iterable[str]] = tuple,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`others` returns the living replicas, `known` the names of all that did not leave. With `tls` None, the
        system's authorities are trusted.
        """
        self._name = name
        self._signing = signing
        self._others = others
        self._known = known
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS, keepalive_timeout=KEPT_SECONDS, ssl=True if tls is None else tls
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "User-Agent", "Content-Type"),
        )

    async def __aenter__(self) -> "CalledPeers":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; calls in progress fail."""
        await self._session.close()

    @property
    def name(self) -> str:
        """The name of this replica."""
        return self._name

    def others(self) -> list[Peer]:
        """Return the other living replicas that can be called, by name."""
        return sorted(one for one in self._others() if one.url and one.name != self._name)

    def missing(self) -> list[str]:
        """As `Peers.missing`."""
        living = {one.name for one in self._others() if one.url}
        return sorted({*self._known(), *(one.name for one in self._others())} - living - {self._name})

    async def call(
        self,
        peer: Peer,
        method: str,
        path: str,
        *,
        principal: Principal,
        body: bytes = b"",
        seconds: float = SECONDS,
        headers: Sequence[Header] = (),
    ) -> PeerAnswer:
        """As `Peers.call`."""
        token = self._signing.sign(
            method,
            path,
            to=peer.process,
            principal=principal,
            body=body,
            headers=headers,
            sender=self._name,
            request=log_context.REQUEST.get(),
            address=log_context.request_address(),
        )
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange(peer, method, path, body=body, token=token)
        except (aiohttp.ClientError, OSError, ValueError) as problem:  # TimeoutError is an OSError
            why = "did not answer in time" if isinstance(problem, TimeoutError) else "does not answer"
            raise PeerGone(f"The replica {peer.name} {why}; try again in some seconds.") from problem
        if any(name == tokens.REFUSED for name, _ in answer.headers):
            raise PeerGone(f"The replica {peer.name} was started again a moment ago; try again in some seconds.")
        return answer

    async def _exchange(self, peer: Peer, method: str, path: str, *, body: bytes, token: str) -> PeerAnswer:
        response = await self._session.request(
            method,
            URL(f"{peer.url.rstrip('/')}{path}", encoded=True),
            data=io.BytesIO(body) if body else None,  # bytes of more than a MiB would be written in one step
            headers={tokens.HEADER.decode(): token},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
            middlewares=(_Once(),),
        )
        found = bytearray()
        try:
            async for piece in response.content.iter_any():
                found += piece
                if len(found) > MOST_BYTES:
                    raise ValueError("the answer is too long")
        finally:
            if not response.content.at_eof():
                response.close()
        told = tuple((name.lower(), value) for name, value in response.raw_headers)
        return PeerAnswer(response.status, bytes(found), told)


class _Once:
    """Prevents aiohttp from sending a request again after its connection broke: the token is used up, and the call may
    have been done.
    """

    def __init__(self) -> None:
        self._is_sent = False

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._is_sent:
            raise aiohttp.ServerDisconnectedError
        self._is_sent = True
        return await handler(request)
