"""Cookies: reading ours out of a request, and the header that gives one to a browser or takes it back.

Over https a name begins with `__Host-`: a browser takes such a cookie from this very host alone, over https and for
every path (RFC 6265bis, 4.1.3.2), so that neither a neighbouring host nor a page over http can put one of its own in.
Belongs here: the form. Does not: what the values mean (`browsers`, `api.pages`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from api.answers import Header

PREFIX = "__Host-"
MOST = 100  # cookies in a request: other services of the same host name may have theirs, ports are not told apart
LONGEST = 4_096  # bytes of a value of ours, as browsers keep it


@dataclass(frozen=True, slots=True)
class Cookies:
    """Our cookies, as people reach the service: `is_secure` when that is by https."""

    is_secure: bool

    @property
    def session(self) -> str:
        """The name of the one that says who is signed in."""
        return self._named("reconciler")

    @property
    def flow(self) -> str:
        """The name of the one that carries a sign-in through the provider."""
        return self._named("reconciler-flow")

    def given(self, name: str, value: str, *, seconds: int | None = None) -> Header:
        """Have the browser keep one, for so long, or until it is closed."""
        lasting = "" if seconds is None else f"; Max-Age={seconds}"
        # Lax: a page elsewhere may lead here, as a provider does, and its forms and scripts come without the cookie.
        secure = "; Secure" if self.is_secure else ""
        return b"set-cookie", f"{name}={value}; Path=/{lasting}{secure}; HttpOnly; SameSite=Lax".encode("ascii")

    def taken(self, name: str) -> Header:
        """Have the browser forget one."""
        return self.given(name, "", seconds=0)

    def _named(self, name: str) -> str:
        return f"{PREFIX}{name}" if self.is_secure else name


def cookies_of(web_url: str, *, has_tls: bool) -> Cookies:
    """Ours, where people reach the service at this URL, and its listener has TLS or not."""
    return Cookies(is_secure=has_tls or web_url.lower().startswith("https:"))


def read_cookie(headers: Iterable[Header], name: str) -> str:
    """The value of one of our cookies; empty when it is not there, or there is doubt which one it is.

    Two of a name are doubt: a browser sends those of a neighbouring host or another path as well, in an order that
    whoever set them chooses (RFC 6265, 4.2.2).
    """
    wanted = name.encode("ascii")
    found = [value for each, value in _pairs(headers) if each == wanted]
    if len(found) != 1 or len(found[0]) > LONGEST or not found[0].isascii():
        return ""
    return found[0].decode("ascii")


def _pairs(headers: Iterable[Header]) -> Iterator[tuple[bytes, bytes]]:
    """Every cookie, of all headers together (RFC 6265, 4.2.1); none where there are too many."""
    pieces = b";".join(value for name, value in headers if name == b"cookie").split(b";", MOST)
    if len(pieces) <= MOST:
        for piece in pieces:
            name, _, value = piece.partition(b"=")
            yield name.strip(b" \t"), value.strip(b" \t")
