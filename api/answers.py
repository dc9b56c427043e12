"""Answers that are JSON bytes already: the store and the applier hand over bytes, and nothing is encoded twice.

How an exception becomes an answer is in `errors`; what is sent while it is read is in `streams`.
"""

from collections.abc import Iterable
from typing import TypeAlias

from starlette.responses import Response

Header: TypeAlias = tuple[bytes, bytes]

JSON = b"application/json"
CONTENT_TYPE: Header = (b"content-type", JSON)


class Json(Response):
    """A JSON body that is bytes already."""

    def __init__(self, body: bytes, *, status: int = 200, headers: tuple[Header, ...] = ()) -> None:
        # Starlette's own constructor encodes names and values of every header; these are bytes from the start.
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *headers]


class Empty(Response):
    """An answer without a body: 204, or 304."""

    def __init__(self, *, status: int, headers: tuple[Header, ...] = ()) -> None:
        self.status_code = status
        self.body = b""
        self.background = None
        self.raw_headers = list(headers)


def json_member(name: bytes, value: bytes) -> bytes:
    """A JSON object with one member."""
    return b'{"%b":%b}' % (name, value)


def json_array(name: bytes, values: Iterable[bytes]) -> bytes:
    """A JSON object with one member, an array."""
    return b'{"%b":[%b]}' % (name, b",".join(values))
