"""Entity tags: what a client shows to learn that nothing changed (RFC 9110, 8.8.3 and 13.1.2)."""

import hashlib
import re

from starlette.responses import Response

from api import errors
from api.answers import Empty, Header
from api.calls import Call

_TAG = re.compile(r'(?:W/)?"[!#-+\--~]*"')


def etag_header(content: bytes) -> Header:
    """The ETag of an answer that is a function of `content`."""
    return b"etag", b'"%b"' % hashlib.sha256(content).hexdigest().encode()


def of_version(content: bytes, *, version: int) -> Header:
    """The ETag of a resource: its version, which `If-Match` compares, and a digest of all that is shown of it."""
    return b"etag", b'"%d-%b"' % (version, hashlib.sha256(content).hexdigest().encode())


def matching(call: Call) -> tuple[str, ...] | None:
    """The versions and hashes that `If-Match` names: of an ETag the part before the dash. None without the header.

    What is weak matches nothing (RFC 9110, 13.1.1). Raises `BadRequest`.
    """
    if b"if-match" not in call.headers:
        return None
    named = [tag.strip() for value in call.header(b"if-match") for tag in value.decode("latin-1").split(",")]
    if named == ["*"]:
        return ("*",)
    if not all(_TAG.fullmatch(tag) for tag in named):
        raise errors.BadRequest('`If-Match` takes `*`, or versions, hashes or ETags, each in quotes, such as "3".')
    return tuple(tag[1:-1].partition("-")[0] for tag in named if tag.startswith('"'))


def not_modified(call: Call, etag: Header) -> Response | None:
    """304 when the client holds this very answer, else None."""
    if b"if-none-match" not in call.headers:
        return None
    held = [tag.strip().removeprefix(b"W/") for value in call.header(b"if-none-match") for tag in value.split(b",")]
    return Empty(status=304, headers=(etag,)) if etag[1] in held or b"*" in held else None
