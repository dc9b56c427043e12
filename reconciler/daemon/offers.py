"""Requests that offer another protocol, as RFC 9110, 7.8 lets any request do; nobody need take the offer.

Java's own client offers HTTP/2 so with the first request of each connection. Belongs here: such a request without its
offer. Does not: reading requests, or when (`connections`).
"""

from collections.abc import Iterator, Sequence

from reconciler.daemon.headers import Header

OFFER = frozenset({b"upgrade", b"http2-settings"})  # names of its headers, which `Connection` has too


def head_without_offer(line: bytes, headers: Sequence[Header]) -> bytes:
    """The head of a request once more, from its first line to the empty one, without the offer. Names of headers are in
    lower case.
    """
    kept = (b"%b: %b" % header for header in _kept(headers))
    return b"\r\n".join((line, *kept, b"", b""))


def _kept(headers: Sequence[Header]) -> Iterator[Header]:
    for name, value in headers:
        if name == b"connection":
            tokens = [token.strip() for token in value.split(b",")]
            left = b", ".join(token for token in tokens if token.lower() not in OFFER)
            if left:
                yield name, left
        elif name not in OFFER:
            yield name, value
