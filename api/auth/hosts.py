"""Which sites' pages may have a browser ask the service, told by the headers that no page can forge.

Two ways lead here from a page of somebody else's. It can take a name of its own and let it point to this machine (DNS
rebinding): then the browser says that name as the Host, and where nobody is asked who they are, only known names are
answered. And it can send a form across: then the browser says so (`Sec-Fetch-Site`), or at least from where (`Origin`).
What is no browser says neither.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from api import errors
from api.answers import Header

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
OWN_SITE = frozenset({b"same-origin", b"none"})  # `none`: a person typed the address
PROVEN = frozenset({b"same-origin"})


def check_host(headers: Iterable[Header], *, allowed: frozenset[str]) -> None:
    """Raise `Forbidden` unless the Host is one of these, whatever the port."""
    hosts = _values(headers, b"host")
    if len(hosts) != 1 or _name(hosts[0].decode("latin-1").lower()) not in allowed:
        raise errors.Forbidden(
            "This service asks nobody who they are, and answers to its own host names alone: localhost, 127.0.0.1, "
            "[::1], and the host of `webURL` in its settings."
        )


def refuse_several(headers: Iterable[Header]) -> None:
    """Raise `BadRequest` for two of them, of which a proxy may have looked at the other (RFC 9112, 3.2)."""
    if len(_values(headers, b"host")) > 1:
        raise errors.BadRequest("The header Host is given more than once.")


def check_origin(headers: Iterable[Header], *, web_url: str, needs_proof: bool = False) -> None:
    """Raise `Forbidden` for a write that a browser sends for a page of another site.

    A browser adds what it remembers, a password or its place in the network, to whatever a page has it send. Its own
    word on the site counts first; without it, as over plain http from another machine, the origin must be the host
    that is asked. A proxy may have changed that one, so the origin of `web_url` is right as well.

    What comes with a cookie, or begins a session, `needs_proof`: then it must say one of them, since a browser does.
    """
    headers = list(headers)
    origins = _values(headers, b"origin")
    if len(origins) == 1 and origins[0].decode("latin-1").lower() == origin_of(web_url):
        return
    sites = _values(headers, b"sec-fetch-site")
    if needs_proof and not sites and not origins:
        raise errors.Forbidden(
            "This says not of which site it comes (`Origin`), as a browser does for whoever signed in with one; "
            "programs use a key."
        )
    if sites:
        ours = len(sites) == 1 and sites[0] in (PROVEN if needs_proof else OWN_SITE)
    else:
        ours = not origins or _asked_itself(origins, _values(headers, b"host"))
        # Where people come by https, whoever is in between may put a page of their own under the same name over http.
        ours = ours and not (needs_proof and web_url.startswith("https:") and origins[0].lower().startswith(b"http:"))
    if not ours:
        raise errors.Forbidden(
            "A browser sent this for a page of another site; only pages of this service may change anything. Behind a "
            "proxy, set `webURL` to the address that people use."
        )


def allowed_hosts(web_url: str) -> frozenset[str]:
    """The names of this machine to itself, and the one that people use."""
    return LOCAL | {_name(urlsplit(web_url).netloc.lower())}


def origin_of(url: str) -> str:
    """As a browser writes it: without the port that the scheme has anyway."""
    parts = urlsplit(url.lower())
    return f"{parts.scheme}://{parts.netloc.removesuffix({'https': ':443', 'http': ':80'}.get(parts.scheme, ' '))}"


def _asked_itself(origins: list[bytes], hosts: list[bytes]) -> bool:
    _, separator, authority = origins[0].partition(b"://")
    return len(origins) == len(hosts) == 1 and bool(separator) and authority.lower() == hosts[0].lower()


def _values(headers: Iterable[Header], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _name(host: str) -> str:
    """The host of an authority: without a port, and without the dot that ends a full name."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isascii() and port.isdigit() else host).removesuffix(".")
