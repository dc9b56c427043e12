"""One request on a connection, and one answer to it, of what a server sends.

Belongs here: writing a request, and how many messages aiohttp takes from a connection, which without this has no bound.
Does not: lengths of heads (aiohttp's own limits), reading bodies (`client`).

aiohttp parses all that comes and puts every message into a queue: any number of interim answers (1xx) before the
answer, and of answers behind it that nobody asked for, also while a connection waits to be used again. A server that
sends nothing else would take all of the event loop's time.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError as NotHttp

__all__ = ["BegunRequest", "Connector", "NotHttp", "begin_request"]

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
