"""Responses: their headers, bodies that are bytes already or are streamed, and entity tags."""

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Hashable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Header: TypeAlias = tuple[bytes, bytes]

SECURITY: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    # Answers that are not pages (`OF_PAGES`): even if a browser takes one for a page, it must load, run and frame
    # nothing.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

OF_PAGES: Mapping[bytes, bytes] = {
    # One style sheet and one icon, both from this service. Forms lead only to this service, and there is no script.
    b"content-security-policy": b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'",
    # With `no-referrer` a browser writes `Origin: null` for a form of ours (Fetch, "append a request `Origin`
    # header"), which proves nothing.
    b"referrer-policy": b"same-origin",
}
"""The headers of pages, in place of the usual ones."""

OF_CONSOLE: Mapping[bytes, bytes] = {
    # Scripts and events only from this service; nothing inline, nothing evaluated.
    b"content-security-policy": b"default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    b"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",
}
"""The headers of pages that update themselves."""

OF_ASSETS: Mapping[bytes, bytes] = {b"cache-control": b"public, max-age=86400"}
"""The headers of style sheet, scripts and icon. Pages name them with the version of the program."""

OF_REFERENCE: Mapping[bytes, bytes] = {
    # Redoc: a script and the document, both from this service. It makes its styles by itself.
    b"content-security-policy": b"default-src 'none'; script-src 'self'; connect-src 'self'; "
    b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",
}
"""The headers of the reference of the API."""

HSTS: Header = (b"strict-transport-security", b"max-age=31536000")
"""For a year, a browser that was here uses only https for this host name; subdomains are not affected."""


def security_headers(*, tls: bool, web_url: str) -> tuple[Header, ...]:
    """Return the headers for every answer of a listener. `tls`: the listener itself has TLS.

    HSTS applies to all ports of a host name, so it is sent only if `web_url` is https: otherwise a certificate on
    `localhost` would block other services there.
    """
    return (*SECURITY, HSTS) if tls and web_url.startswith("https:") else SECURITY


def page_headers(headers: tuple[Header, ...], instead: Mapping[bytes, bytes]) -> tuple[Header, ...]:
    """Return the headers for pages, with some values replaced by `instead`."""
    return tuple((name, instead.get(name, value)) for name, value in headers)


JSON = b"application/json"
CONTENT_TYPE: Header = (b"content-type", JSON)


class Content(Response):
    """A response whose body is bytes. It is immutable, so one object may answer many requests."""

    def __init__(self, body: bytes, *, media_type: bytes, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        # Starlette's constructor would encode the names and values of all headers; these are bytes already.
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body)), *headers]


class Json(Content):
    """A response whose body is JSON in bytes."""

    def __init__(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(body, media_type=JSON, status=status, headers=headers)


def json_answer(value: object, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Json:
    """Encode a small answer. A lone surrogate, which JSON can contain, is replaced, because UTF-8 cannot encode it."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Json(body, status=status, headers=headers)


class AnswerMemory:
    """A cache of the last answers to expensive reads. The key has everything that an answer depends on, including the
    store's revision.
    """

    MOST = 64

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return a cached answer, or None."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Hashable, body: bytes) -> None:
        """Cache an answer, and drop the least recently used one."""
        self._kept[key] = body
        while len(self._kept) > self.MOST:
            self._kept.popitem(last=False)


class Empty(Response):
    """An answer without a body: 204, 303 or 304."""

    def __init__(self, *, status: int, headers: tuple[Header, ...] = ()) -> None:
        self.status_code = status
        self.body = b""
        self.background = None
        self.raw_headers = list(headers)


def json_member(name: bytes, value: bytes) -> bytes:
    """Return a JSON object with one member."""
    return b'{"%b":%b}' % (name, value)


def json_array(name: bytes, values: Iterable[bytes]) -> bytes:
    """Return a JSON object whose only member is an array."""
    return b'{"%b":[%b]}' % (name, b",".join(values))


def etag_header(content: bytes) -> Header:
    """Return the ETag of an answer that is a function of `content`."""
    return b"etag", b'"%b"' % hashlib.sha256(content).hexdigest().encode()


def of_version(content: bytes, *, version: int) -> Header:
    """Return the ETag of a resource: its version, which `If-Match` compares, and a digest of the whole answer."""
    return b"etag", b'"%d-%b"' % (version, hashlib.sha256(content).hexdigest().encode())


# Work that ends when its client goes away.

Result = TypeVar("Result")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`. If the client closes the connection before, `work` is cancelled.

    Read the request's body before, if it matters: the rest of it is dropped meanwhile. Raises `ClientDisconnect` once
    the work has ended.
    """
    working = asyncio.create_task(work, name="api-work")
    listening = asyncio.create_task(_gone(receive), name="api-disconnect")
    try:
        await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        listening.cancel()
        # Wait for its end, so that nothing of this request outlives its handler.
        await asyncio.gather(working, listening, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Answers that are sent while they are read: only a page is in memory, never the whole.
#
# The handlers choose what is read, and the text before the first page and after the last.

# Until its last page is read, an answer keeps a read of the store open, and everything written meanwhile stays in the
# store's log. So an answer is cut off if the client takes nothing for a while, or takes too long for the whole.
STALL_SECONDS = 30.0
WHOLE_SECONDS = 120.0


class Streamed(Response):
    """A response whose text is sent in pieces, by default JSON. An error before the first piece fails the request."""

    def __init__(
        self,
        texts: AsyncGenerator[bytes, None],
        *,
        headers: tuple[Header, ...] = (),
        content_type: Header = CONTENT_TYPE,
        stall_seconds: float = STALL_SECONDS,
        whole_seconds: float | None = WHOLE_SECONDS,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = [content_type, *headers]
        self.texts = texts
        self.stall_seconds = stall_seconds
        self.whole_seconds = whole_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await unless_gone(receive, self._in_time(send, whole=scope["method"] != "HEAD"))

    async def _in_time(self, send: Send, *, whole: bool) -> None:
        # Close it now: until garbage collection, the generator would keep its read of the store open.
        async with _gone_after(self.whole_seconds), aclosing(self.texts):
            # The first piece is read before the status is sent, so that an error until here gets its own answer.
            first = await anext(self.texts)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if whole:
                await self._send_text(send, first)
                async for text in self.texts:
                    await self._send_text(send, text)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_text(self, send: Send, text: bytes) -> None:
        async with _gone_after(self.stall_seconds):
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await asyncio.sleep(0)  # neither the store nor a fast client suspends: this answer would block the loop


@asynccontextmanager
async def _gone_after(seconds: float | None) -> AsyncIterator[None]:
    """Give up a client that is too slow. Raises `ClientDisconnect`."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise ClientDisconnect from None
        raise


def stream_array(
    name: bytes, pages: AsyncGenerator[list[bytes], None], *, empty: Exception | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield a JSON object whose only member is an array, as `json_array` returns it whole."""
    return join_parts(b'{"%b":[' % name, pages, b"]}", empty=empty)


async def join_parts(
    before: bytes, pages: AsyncGenerator[list[bytes], None], after: bytes, *, empty: Exception | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the values of all pages, separated by commas. The pages are closed before the last text is sent. Raises
    `empty`, if given, when there is no value.
    """
    between = before
    async with aclosing(pages):
        async for page in pages:
            if page:
                yield between + b",".join(page)
                between = b","
    if between == before and empty is not None:
        raise empty
    yield after if between == b"," else before + after
