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
    # But for pages (`OF_PAGES`), nothing here is one: whatever a browser takes an answer for, it loads, runs and
    # frames nothing of it.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

OF_PAGES: Mapping[bytes, bytes] = {
    # One style sheet and one icon, both from here; forms lead here alone, and there is no script.
    b"content-security-policy": b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    b"base-uri 'none'; frame-ancestors 'none'",
    # With `no-referrer` a browser writes `Origin: null` for a form of ours (Fetch, "append a request `Origin`
    # header"), which proves nothing.
    b"referrer-policy": b"same-origin",
}
"""The headers of pages, in place of those."""

OF_CONSOLE: Mapping[bytes, bytes] = {
    # Scripts and events from here alone; nothing inline, nothing evaluated.
    b"content-security-policy": b"default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
    b"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",
}
"""The headers of pages that update themselves."""

OF_ASSETS: Mapping[bytes, bytes] = {b"cache-control": b"public, max-age=86400"}
"""The headers of style sheet, scripts and icon. Pages name them with the version of the program."""

OF_REFERENCE: Mapping[bytes, bytes] = {
    # Redoc: a script and the document, both from here. It makes its styles by itself.
    b"content-security-policy": b"default-src 'none'; script-src 'self'; connect-src 'self'; "
    b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",
}
"""The headers of the reference of the API."""

HSTS: Header = (b"strict-transport-security", b"max-age=31536000")
"""A browser that was here once comes back by https alone, for a year; other names of the host are not concerned."""


def security_headers(*, tls: bool, web_url: str) -> tuple[Header, ...]:
    """Return the headers of a listener. `tls` says whether it has TLS itself.

    HSTS counts for all ports of a host name, so it is sent only where people are meant to come by https (`web_url`):
    a certificate on `localhost` must not close what else is served there.
    """
    return (*SECURITY, HSTS) if tls and web_url.startswith("https:") else SECURITY


def page_headers(headers: tuple[Header, ...], instead: Mapping[bytes, bytes]) -> tuple[Header, ...]:
    """Return the same headers as pages for people carry them, with some values `instead`."""
    return tuple((name, instead.get(name, value)) for name, value in headers)


JSON = b"application/json"
CONTENT_TYPE: Header = (b"content-type", JSON)


class Content(Response):
    """A body that is bytes already. It is never changed, so one may answer many requests."""

    def __init__(self, body: bytes, *, media_type: bytes, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        # Starlette's own constructor encodes names and values of every header; these are bytes from the start.
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body)), *headers]


class Json(Content):
    """A JSON body that is bytes already."""

    def __init__(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        super().__init__(body, media_type=JSON, status=status, headers=headers)


def json_answer(value: object, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Json:
    """Return a small answer. A lone surrogate, which JSON may spell, is no text that can be sent."""
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Json(body, status=status, headers=headers)


class AnswerMemory:
    """The last answers to questions that cost much, by all that they depend on, the revision of the store for one."""

    MOST = 64

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        """Return an answer that was kept, or None."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Hashable, body: bytes) -> None:
        """Keep an answer in place of the one that was not used for the longest time."""
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
    """Return a JSON object with one member, an array."""
    return b'{"%b":[%b]}' % (name, b",".join(values))


def etag_header(content: bytes) -> Header:
    """Return the ETag of an answer that is a function of `content`."""
    return b"etag", b'"%b"' % hashlib.sha256(content).hexdigest().encode()


def of_version(content: bytes, *, version: int) -> Header:
    """Return the ETag of a resource: its version, which `If-Match` compares, and a digest of all that is shown of
    it.
    """
    return b"etag", b'"%d-%b"' % (version, hashlib.sha256(content).hexdigest().encode())


# Work that ends when its client goes away. What the work is belongs to the handlers.

Result = TypeVar("Result")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, which is cancelled when the client closes the connection first.

    The request's body must have been read, or be of no interest: what arrives of it meanwhile is dropped.
    Raises `ClientDisconnect` once the work has ended.
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
        # Waited for, so that nothing of this request outlives its handler.
        await asyncio.gather(working, listening, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Answers that are sent while they are read: a page is in memory, never the whole.
#
# What is read is the handlers' business, and so is what comes before the first page and behind the last.

# Until its last page is read, an answer holds a read of the store open, and all that is written meanwhile stays in the
# store's log. So a client loses its answer when it takes nothing of it for a while, or too long for the whole.
STALL_SECONDS = 30.0
WHOLE_SECONDS = 120.0


class Streamed(Response):
    """One text that comes in pieces, JSON unless it is said. What fails before the first piece, fails the request."""

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
        # Left to the garbage collector, a generator would keep its read of the store open for a while.
        async with _gone_after(self.whole_seconds), aclosing(self.texts):
            # Read before the status is sent: what fails until here still gets an answer of its own.
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
        await asyncio.sleep(0)  # neither the store nor a fast client suspends: without this an answer holds the loop


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
    """A JSON object with one member, an array: as `json_array` makes it at once."""
    return join_parts(b'{"%b":[' % name, pages, b"]}", empty=empty)


async def join_parts(
    before: bytes, pages: AsyncGenerator[list[bytes], None], after: bytes, *, empty: Exception | None = None
) -> AsyncGenerator[bytes, None]:
    """The values of all pages with commas between them; the pages are closed before the last text is sent. Raises
    `empty`, where it is given, if there is none.
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
