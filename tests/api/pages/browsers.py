"""A browser without a screen: it keeps cookies, says where a form comes from, and goes where it is sent.

Belongs here: one person's browser, with a provider that signs everybody in. Does not: what is expected of a page.

It reaches the service at its `webURL`, and the connection goes to where the daemon listens, as through a proxy.
"""

import contextlib
import http.client
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import urlencode, urlsplit

from tests import daemons
from tests.api.pages.documents import Document
from tests.auth.oidc import hostile
from tests.daemons import Daemon

WEB_URL = "http://127.0.0.1:3001"
PROXY = "127.0.0.1"  # as which browsers pass on where they are
_NUMBERS = itertools.count(1)
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer; names of headers are small."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: str = field(repr=False)

    def header(self, name: str) -> str:
        """A header that is there once at most; empty when it is not."""
        values = [value for each, value in self.headers if each == name]
        assert len(values) <= 1
        return values[0] if values else ""

    @property
    def cookies(self) -> list[str]:
        """Return what the browser is given to keep, each with its attributes."""
        return [value for each, value in self.headers if each == "set-cookie"]

    @property
    def location(self) -> str:
        """Return where it leads on."""
        return self.header("location")

    @property
    def page(self) -> Document:
        """The page in it."""
        assert self.header("content-type") == "text/html; charset=utf-8"
        return Document(self.body)

    @property
    def onwards(self) -> str:
        """Return where its page leads on by itself."""
        refresh = [meta for meta in self.page.all("meta") if meta.attributes.get("http-equiv") == "refresh"]
        return refresh[0].attributes["content"].removeprefix("0; url=") if refresh else ""


class Browser:
    """One person's."""

    def __init__(self, daemon: Daemon, *, web_url: str = WEB_URL) -> None:
        self.daemon = daemon
        self.web_url = web_url
        self.jar: dict[str, str] = {}
        number = next(_NUMBERS)
        self.address = f"198.18.{number // 256}.{number % 256}"

    def get(self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET") -> Seen:
        """Go to a page; a redirect is not followed."""
        return self._ask(method, path, b"", headers or {})

    def post(self, path: str, fields: object = (), headers: Mapping[str, str] | None = None) -> Seen:
        """Send a form from a page of the service."""
        told = {"Content-Type": FORM, "Origin": self.web_url, "Sec-Fetch-Site": "same-origin", **(headers or {})}
        return self._ask("POST", path, urlencode(fields, doseq=True).encode(), told)  # type: ignore[arg-type]

    def make_key(self, fields: Mapping[str, object]) -> Seen:
        """Fill in the form for a key."""
        return self.post("/account/keys", fields)

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Seen:
        """Exactly this, with the cookies."""
        return self._ask(method, path, body, headers or {})

    def sign_in(self, path: str = "/account") -> Seen:
        """Go to a page and through the provider: what it shows in the end."""
        return self.finish(self.come_back(self.get(path)))

    def come_back(self, seen: Seen) -> str:
        """Through the provider: the path with its parameters to which it sends the browser back."""
        back = urlsplit(hostile.visited(seen.location or seen.onwards))
        return f"{back.path}?{back.query}"

    def finish(self, path: str) -> Seen:
        """Go to a path and on from there, as long as it is one of the service."""
        seen = self.get(path)
        for _ in range(5):
            if not seen.location.startswith("/"):
                break
            seen = self.get(seen.location)
        return seen

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Seen:
        sent = {"Host": urlsplit(self.web_url).netloc, "X-Forwarded-For": self.address, **headers}
        if self.jar and "Cookie" not in sent:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=daemons.ANSWER_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body or None, sent)
            answer = connection.getresponse()
            seen = Seen(
                answer.status,
                [(name.lower(), value) for name, value in answer.getheaders()],
                answer.read().decode("utf-8"),
            )
        for cookie in seen.cookies:
            self._keep(cookie)
        return seen

    def _keep(self, cookie: str) -> None:
        for name, morsel in SimpleCookie(cookie).items():
            if morsel["max-age"] == "0":
                self.jar.pop(name, None)
            else:
                self.jar[name] = morsel.value
