"""Headers of every answer: of the application's, and of the HTTP server's for what is no request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

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

OF_PAGES: Mapping[bytes, bytes] = MappingProxyType(
    {
        # One style sheet and one icon, both from here; forms lead here alone, and there is no script.
        b"content-security-policy": b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        b"base-uri 'none'; frame-ancestors 'none'",
        # With `no-referrer` a browser writes `Origin: null` for a form of ours (Fetch, "append a request `Origin`
        # header"), which proves nothing.
        b"referrer-policy": b"same-origin",
    }
)
"""The headers of pages, in place of those."""

OF_REFERENCE: Mapping[bytes, bytes] = MappingProxyType(
    {
        # Redoc: a script and the document, both from here. It makes its styles by itself.
        b"content-security-policy": b"default-src 'none'; script-src 'self'; connect-src 'self'; "
        b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
        b"referrer-policy": b"same-origin",
    }
)
"""The headers of the reference of the API."""

HSTS: Header = (b"strict-transport-security", b"max-age=31536000")
"""A browser that was here once comes back by https alone, for a year; other names of the host are not concerned."""


def security_headers(*, tls: bool, web_url: str) -> tuple[Header, ...]:
    """The headers of a listener. `tls` says whether it has TLS itself.

    HSTS counts for all ports of a host name, so it is sent only where people are meant to come by https (`web_url`):
    a certificate on `localhost` must not close what else is served there.
    """
    return (*SECURITY, HSTS) if tls and web_url.startswith("https:") else SECURITY


def page_headers(headers: tuple[Header, ...], *, instead: Mapping[bytes, bytes] = OF_PAGES) -> tuple[Header, ...]:
    """Return the same headers as pages for people carry them."""
    return tuple((name, instead.get(name, value)) for name, value in headers)
