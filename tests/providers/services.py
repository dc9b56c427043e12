"""The service as a process, with `auth.type: oidc` or `local`, and where it is.

Providers are in `certified` and `second`; how any daemon is started is in `tests.daemons`.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests import daemons
from tests.daemons import Daemon
from tests.providers.markup import Page
from tests.providers.people import Person


class Client(Protocol):
    """The client that the service is at any provider."""

    issuer: str
    client: str
    secret: str


class Provider(Client, Protocol):
    """The calls that the tests make to either of the first two providers."""

    def say(self, login: str, *, name: str = "", email: str = "", **claims: object) -> None:
        """Return what it says of somebody, whole, from their next sign-in on."""

    def let_in(self, person: Person, page: Page) -> Page:
        """Sign in at the provider, where `page` is; where that leads."""

    def sign_out(self, person: Person, page: Page) -> Page:
        """Say yes to its question; where that leads."""


class Service:
    """A running service, and where browsers find it."""

    def __init__(self, daemon: Daemon, url: str) -> None:
        self.daemon = daemon
        self.url = url

    def make_projects(self, *names: str) -> None:
        """Make projects, with the key of the environment."""
        for name in names:
            answer = self.daemon.post("/v1/projects", {"name": name})
            assert answer.status in {201, 202}, answer

    def sign_in(self, person: Person, provider: Provider) -> Page:
        """Come without a session, sign in at the provider, and where that ends."""
        return provider.let_in(person, person.visit(f"{self.url}/account"))


def auth(provider: Client, **more: object) -> dict[str, object]:
    """The topic `auth` of the settings for this provider; `more` of its `oidc`."""
    client = {"oauth2ClientID": provider.client, "oauth2ClientSecret": provider.secret}
    return {"type": "oidc", "oidc": {"issuer": provider.issuer, **client, **more}}


@contextlib.contextmanager
def running(
    folder: Path, url: str, auth: Mapping[str, Any], *, projects: Sequence[str] = (), **settings: object
) -> Iterator[Service]:
    """The service at this URL, for as long as the context lasts."""
    listen = url.partition("//")[2]
    chosen = {"webURL": url, "listen": listen, "auth": auth, **settings}
    with daemons.running(folder, settings=chosen) as daemon:
        service = Service(daemon, url)
        service.make_projects(*projects)
        yield service


class Starting(Protocol):
    """Starts the service of a test, at the address that the providers know."""

    def __call__(self, provider: Client | None, *projects: str, **oidc: object) -> Service:
        """With these projects and settings of `auth.oidc`; without a provider people have passwords."""


def said(login: str, **more: object) -> dict[str, Any]:
    """Return what a provider says of anybody."""
    return {"name": login.title(), "email": f"{login}@example.test", "email_verified": True, **more}
