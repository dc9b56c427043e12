"""What the headers of a request to others may be, so that nobody who writes one adds a line to it or reframes it.

Belongs here: names and values of headers, media types; pure, each a sentence about what is wrong, or None. Does not:
where they stand in a document (`webhooks`), nor sending them (`egress.client`).

No sentence repeats a value: headers carry credentials.
"""

import re
from collections.abc import Iterable

MOST = 64  # headers of one request
LONGEST = 8192  # bytes of one, name and value together
LONGEST_TOGETHER = 32768  # bytes of all

TOKEN_RULE = "must be a header's name: letters, digits and any of `!#$%&'*+-.^_`|~`"  # noqa: S105 (RFC 9110, 5.6.2)
HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)
"""What is between two machines and not for the one at the end: RFC 9110, 7.6.1, what RFC 2616, 13.5.1 named, and
`Expect`, whose answer comes before the request is complete.
"""
CONTENT_LENGTH = "content-length"
TWICE = "stands in these headers already, perhaps in other letters; keep one of them"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105
_QUOTED = r'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_NAME = re.compile(_TOKEN)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # all but the tab
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))*")


def wrong_name(name: str) -> str | None:
    """What is wrong with a header's name."""
    if not _NAME.fullmatch(name):
        return TOKEN_RULE
    if name.lower() in HOP_BY_HOP:
        return "is a header of the connection, which the service sets itself; leave it out"
    if name.lower() == CONTENT_LENGTH:
        return "is the length of the body, which the service counts itself; leave it out"
    return None


def wrong_value(value: str) -> str | None:
    """What is wrong with a header's value."""
    if _CONTROL.search(value):
        return "must not hold line ends, NUL or other control characters"
    return "must not begin or end with white space" if value != value.strip() else None


def size(name: str, value: str) -> int:
    """Bytes of a header as it counts against the limits."""
    return len(name.encode()) + len(value.encode())


def wrong_together(headers: Iterable[tuple[str, str]]) -> str | None:
    """What is wrong with all headers of one request, beyond what is wrong with one."""
    sizes = [size(name, value) for name, value in headers]
    if len(sizes) > MOST:
        return f"has more than {MOST} headers"
    return f"is longer than {LONGEST_TOGETHER} bytes in all" if sum(sizes) > LONGEST_TOGETHER else None


def wrong_media_type(text: str) -> str | None:
    """What is wrong with the value of `Content-Type`, RFC 9110, 8.3.1."""
    if len(text) <= LONGEST and _MEDIA_TYPE.fullmatch(text):
        return None
    return "must be a media type such as `application/json` or `text/plain; charset=utf-8`"
