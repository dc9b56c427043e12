"""Answers that are sent while they are read: a page is in memory, never the whole.

What is read is the handlers' business, and so is what comes before the first page and behind the last.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api import disconnects
from api.answers import CONTENT_TYPE, Header

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
        whole_seconds: float = WHOLE_SECONDS,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = [content_type, *headers]
        self.texts = texts
        self.stall_seconds = stall_seconds
        self.whole_seconds = whole_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await disconnects.unless_gone(receive, self._in_time(send, whole=scope["method"] != "HEAD"))

    async def _in_time(self, send: Send, *, whole: bool) -> None:
        limit = asyncio.timeout(self.whole_seconds)
        try:
            # Left to the garbage collector, a generator would keep its read of the store open for a while.
            async with limit, aclosing(self.texts):
                await self._stream(send, whole=whole)
        except TimeoutError:
            if limit.expired():
                raise ClientDisconnect from None
            raise

    async def _stream(self, send: Send, *, whole: bool) -> None:
        # Read before the status is sent: what fails until here still gets an answer of its own.
        first = await anext(self.texts)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if whole:
            await self._send_text(send, first)
            async for text in self.texts:
                await self._send_text(send, text)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_text(self, send: Send, text: bytes) -> None:
        message: Message = {"type": "http.response.body", "body": text, "more_body": True}
        limit = asyncio.timeout(self.stall_seconds)
        try:
            async with limit:
                await send(message)
        except TimeoutError:
            if limit.expired():
                raise ClientDisconnect from None
            raise
        await asyncio.sleep(0)  # neither the store nor a fast client suspends: without this an answer holds the loop


def stream_array(name: bytes, pages: AsyncGenerator[list[bytes], None]) -> AsyncGenerator[bytes, None]:
    """A JSON object with one member, an array: as `answers.array` makes it at once."""
    return join_parts(b'{"%b":[' % name, pages, b"]}")


async def join_parts(
    before: bytes, pages: AsyncGenerator[list[bytes], None], after: bytes
) -> AsyncGenerator[bytes, None]:
    """The values of all pages with commas between them; the pages are closed before the last text is sent."""
    between = before
    async with aclosing(pages):
        async for page in pages:
            if page:
                yield between + b",".join(page)
                between = b","
    yield after if between == b"," else before + after
