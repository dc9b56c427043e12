"""A daemon and the provider through which people sign in to it.

Belongs here: the two together, and what is settled in them before a test. Does not: what is expected.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import daemons
from tests.api.pages.browsers import PROXY, WEB_URL, Browser
from tests.auth.oidc import hostile
from tests.auth.oidc.hostile import Behaviour, Provider
from tests.daemons import Daemon

FIRST = "first-person"


@dataclass(frozen=True, slots=True)
class World:
    """The two."""

    daemon: Daemon
    provider: Provider
    web_url: str = WEB_URL

    def browser(self) -> Browser:
        """A browser of somebody at an address of their own."""
        return Browser(self.daemon, web_url=self.web_url)

    def as_(self, subject: str, **claims: object) -> Browser:
        """A browser, and whoever comes to the provider from now on is this."""
        self.provider.behaviour = Behaviour(subject=subject, claims=claims)
        return self.browser()

    def member(self, subject: str, project: str = "default", role: str = "user") -> Browser:
        """Somebody with a role who is signed in."""
        browser = self.as_(subject, service_projects=f"{role}:{project}", name=f"The {subject}")
        seen = browser.sign_in()
        assert (seen.status, seen.page.words("h1")) == (200, ["Your account"]), seen.page.text
        return browser

    def code(self, project: str = "default", role: str = "viewer") -> str:
        """An invitation's code."""
        answer = self.daemon.post(f"/v1/projects/{project}/invitations", {"role": role})
        assert answer.status == 201, answer
        return str(answer.body["invitation"]["code"])

    def people(self) -> list[dict[str, Any]]:
        """Everybody, as an organization admin sees them."""
        return list(self.daemon.get("/v1/users").body["users"])


def auth(provider: Provider, **more: object) -> dict[str, Any]:
    """The settings of sign-in through a provider."""
    oidc = {"issuer": provider.issuer, "oauth2ClientID": hostile.CLIENT_ID, "oauth2ClientSecret": hostile.CLIENT_SECRET}
    return {"type": "oidc", "oidc": {**oidc, **more}}


@contextlib.contextmanager
def standing(
    folder: Path,
    *,
    settings: Mapping[str, object] | None = None,
    document: Mapping[str, object] | None = None,
    has_first: bool = True,
    **oidc: object,
) -> Iterator[World]:
    """Both, for as long as the context lasts; with the first person in, unless that is what is looked at.

    `document` has changes to what the provider says of itself.
    """
    with hostile.providing() as provider:
        provider.behaviour.document = document or {}
        provider.published()  # its keys are made now, since RSA takes long to make
        told = {"auth": auth(provider, **oidc), "trustedProxies": [PROXY], "webURL": WEB_URL, **(settings or {})}
        with daemons.running(folder / "daemon", settings=told) as daemon:
            world = World(daemon, provider, str(told["webURL"]))
            if has_first:
                seen = world.as_(FIRST, preferred_username="first").sign_in()
                assert seen.status == 200, seen.page.text
            yield world
