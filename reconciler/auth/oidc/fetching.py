"""Bounded requests to the provider.

Each request has a client and a connection of its own: sign-ins are rare, and no connection outlives the loop.
Redirects, cookies and the environment are ignored. Nothing is decompressed, so that a small answer cannot become large.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx2

from reconciler.auth.oidc import discovery
from reconciler.auth.oidc.discovery import (
    STOPPING,
    ProviderAnswer,
    ProviderLimits,
    ProviderUnfit,
    ProviderUnreachable,
    quoted,
)
from reconciler.settings import bounded_io
from reconciler.version import __version__

MOST_AUTHORITIES = 1 << 20  # bytes of `outbound.caFile`
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"reconciler/{__version__}",
}


class ProviderClient:
    """The client of one provider; use it from one loop."""

    def __init__(self, *, proxy: str, ca_file: Path | None, limits: ProviderLimits) -> None:
        """`proxy` is a URL or empty; without `ca_file` the system's authorities are trusted."""
        self._proxy = proxy
        self._ca_file = ca_file
        self._limits = limits
        self._under_way: set[asyncio.Timeout] = set()
        self._closed = False

    def close(self) -> None:
        """Refuse further requests. Requests in progress end now with ProviderUnreachable, so that they do not delay a
        stop.
        """
        self._closed = True
        for limit in self._under_way:
            if not limit.expired():
                limit.reschedule(0)

    async def obj(self, asked: ProviderAnswer) -> Mapping[str, object]:
        """Return the JSON object at a URL. Raises ProviderUnreachable, ProviderUnfit."""
        async with self.bounded(asked) as transport, transport:
            answer = await transport.handle_async_request(httpx2.Request("GET", asked.url, headers=HEADERS))
            return discovery.json_object(answer.content)

    @contextlib.asynccontextmanager
    async def bounded(self, asked: ProviderAnswer) -> AsyncIterator[httpx2.AsyncBaseTransport]:
        """Yield a transport for one request within the limits. Raises ProviderUnreachable, ProviderUnfit for failures
        in the context.
        """
        if self._closed:
            raise ProviderUnreachable(STOPPING)
        try:
            async with asyncio.timeout(self._limits.request_seconds) as limit:
                self._under_way.add(limit)
                try:
                    proxy = None
                    if discovery.is_local(asked.url):
                        # Plain http is only for this machine, and does not use the proxy, which would see the secret.
                        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no authority, and is not used
                    else:
                        # Read again each time: the file may have been replaced.
                        trusted = await asyncio.to_thread(_trusted, self._ca_file)
                        if self._proxy:
                            context = trusted if self._proxy.startswith("https:") else None
                            proxy = httpx2.Proxy(self._proxy, ssl_context=context)
                    yield _Bounded(httpx2.AsyncHTTPTransport(verify=trusted, trust_env=False, proxy=proxy), asked)
                finally:
                    self._under_way.discard(limit)
        except TimeoutError:
            if self._closed:
                raise ProviderUnreachable(STOPPING) from None
            raise ProviderUnreachable(
                _sentence(asked, f"did not come within {self._limits.request_seconds:g} s")
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, ValueError) as problem:
            raise ProviderUnreachable(_sentence(asked, _why(problem))) from None


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport that lets only bounded JSON objects through, and only the status of their heads."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, asked: ProviderAnswer) -> None:
        self._inner = inner
        self._asked = asked

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        try:
            if response.status_code not in self._asked.statuses:
                raise ProviderUnreachable(_not_given(self._asked, response.status_code))
            told = discovery.json_object(await self._body(response))
        except discovery.NotAnObject:
            raise ProviderUnreachable(_sentence(self._asked, "is no JSON object")) from None
        finally:
            await response.aclose()
        if response.status_code != 200 and "error" not in told:  # RFC 6749, 5.2
            raise ProviderUnreachable(_not_given(self._asked, response.status_code))
        members = self._asked.members
        kept = {name: value for name, value in told.items() if members is None or name in members}
        return httpx2.Response(response.status_code, content=json.dumps(kept).encode())

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _body(self, response: httpx2.Response) -> bytes:
        """Read the body. Raises ProviderUnreachable if it is too large."""
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._asked.most_bytes:
                raise ProviderUnreachable(_sentence(self._asked, f"is larger than {self._asked.most_bytes >> 10} KiB"))
        return bytes(body)


def _sentence(asked: ProviderAnswer, why: str) -> str:
    return f"{asked.what} at {quoted(asked.url)} {why}; try again, or ask whoever runs the provider."


def _not_given(asked: ProviderAnswer, status: int) -> str:
    return _sentence(asked, f"was not given (HTTP {status})")


def _why(problem: Exception) -> str:
    """Describe a failure of the connection in our words."""
    if "CERTIFICATE_VERIFY_FAILED" in str(problem):
        return "is behind a certificate that is not trusted (`outbound.caFile` can name its authority)"
    if isinstance(problem, httpx2.ProxyError):
        return "cannot be reached through the proxy (`outbound.proxy`)"
    if isinstance(problem, httpx2.ConnectError):
        return "cannot be reached"
    return "did not come whole"


def _trusted(ca_file: Path | None) -> ssl.SSLContext:
    """Read the trusted authorities. It takes time, so call it on a thread."""
    if ca_file is None:
        return ssl.create_default_context()
    try:
        text = bounded_io.read_file(ca_file, limit=MOST_AUTHORITIES).decode()
        if not text.strip():  # for an empty text, Python would trust the system's authorities
            raise ValueError
        return ssl.create_default_context(cadata=text)
    except (OSError, ValueError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        raise ProviderUnfit(f"`outbound.caFile` holds no certificates in PEM; put them at {ca_file}.") from None
