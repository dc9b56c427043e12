"""Entity tags: what a client shows to learn that nothing changed (RFC 9110, 8.8.3 and 13.1.2)."""

import hashlib

from starlette.responses import Response

from api.answers import Empty, Header
from api.calls import Call


def header(content: bytes) -> Header:
    """The ETag of an answer that is a function of `content`."""
    return b"etag", b'"%b"' % hashlib.sha256(content).hexdigest().encode()


def not_modified(call: Call, etag: Header) -> Response | None:
    """304 when the client holds this very answer, else None."""
    if b"if-none-match" not in call.headers:
        return None
    held = [tag.strip().removeprefix(b"W/") for value in call.header(b"if-none-match") for tag in value.split(b",")]
    return Empty(status=304, headers=(etag,)) if etag[1] in held or b"*" in held else None
