"""A stream of events, read from the application without a connection in between."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

SECONDS = 10.0  # what takes longer does not come


class Told(NamedTuple):
    """One message. A comment has no event."""

    id: str
    event: str
    data: dict[str, Any]


class Stream:
    """An open stream, or the answer to a request for one that was refused."""

    def __init__(self, head: Message, messages: "asyncio.Queue[Message]") -> None:
        self.status: int = head["status"]
        self.headers: dict[bytes, bytes] = dict(head["headers"])
        self._messages = messages
        self._text = ""

    async def next(self) -> Told | None:
        """Return the next message; None at the end of the stream."""
        async with asyncio.timeout(SECONDS):
            while "\n\n" not in self._text:
                message = await self._messages.get()
                if not message.get("more_body"):
                    return None
                self._text += message["body"].decode()
        text, _, self._text = self._text.partition("\n\n")
        fields = {name: value for name, _, value in (line.partition(": ") for line in text.split("\n"))}
        return Told(fields.get("id", ""), fields.get("event", ""), json.loads(fields.get("data", "{}")))

    async def events(self, number: int) -> list[Told]:
        """Return this many events; comments do not count."""
        found: list[Told] = []
        while len(found) < number:
            told = await self.next()
            assert told is not None, "the stream ended"
            found += [told] if told.event else []
        return found

    async def ended(self) -> None:
        """Wait for the end."""
        while await self.next() is not None:
            pass


@asynccontextmanager
async def following(
    app: ASGIApp, *headers: tuple[str, str], query: str = "", begins: bool = True
) -> AsyncIterator[Stream]:
    """Follow the events. If it `begins`, the first message, which says that it is open, is read."""
    messages: asyncio.Queue[Message] = asyncio.Queue()
    gone = asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def ask() -> None:
        await app(_scope(headers, query), receive, messages.put)

    asking = asyncio.create_task(ask())
    try:
        async with asyncio.timeout(SECONDS):
            stream = Stream(await messages.get(), messages)
        if begins:
            assert stream.status == 200
            await stream.next()
        yield stream
    finally:
        gone.set()
        async with asyncio.timeout(SECONDS):
            await asking


def _scope(headers: Sequence[tuple[str, str]], query: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/v1/events",
        "raw_path": b"/v1/events",
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": ("192.0.2.1", 40_000),
    }
