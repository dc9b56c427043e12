"""The certified provider: npm's oidc-provider in a process of Node (`provider.mjs`).

What is expected of the service that asks it is in the tests.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from tests.providers import found
from tests.providers.markup import Page
from tests.providers.people import Person
from tests.servers import processes

CLIENT = "reconciler"
SECRET = "canary-client-secret-at-the-certified-provider"
SCRIPT = Path(__file__).with_name("provider.mjs")


class Certified:
    """The provider, which knows one client: the service at `service`."""

    client, secret = CLIENT, SECRET

    def __init__(self, folder: Path, *, service: str, algorithm: str = "RS256") -> None:
        """`algorithm` signs its ID tokens: RS256 or ES256."""
        folder.mkdir(parents=True, exist_ok=True)
        self.port = processes.free_port()
        self.issuer = f"http://localhost:{self.port}"
        self.algorithm = algorithm
        self._folder, self._service = folder, service
        self._people: dict[str, dict[str, object]] = {}
        self._running = contextlib.ExitStack()
        self._write()

    def __enter__(self) -> "Certified":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "Certified":
        """Start it with keys that it never had, and nobody signed in."""
        settings = self._folder / "settings.json"
        settings.write_text(json.dumps(self._settings()))
        command = [str(found.node()), str(SCRIPT), str(settings)]
        log = self._folder / "log"
        self._running.enter_context(processes.listening(command, port=self.port, log=log, environment={}))
        return self

    def stop(self) -> None:
        """End it: nothing listens there."""
        self._running.close()

    def rotate(self, algorithm: str = "RS256") -> None:
        """Sign with another key from now on; the one before is gone."""
        self.algorithm = algorithm
        self.stop()
        self.start()

    def say(self, login: str, **claims: object) -> None:
        """Return what it says of somebody, whole, from their next sign-in on."""
        self._people[login] = claims
        self._write()

    def let_in(self, person: Person, page: Page, *, press: str = "yes", stop_at: str = "") -> Page:
        """Sign in at the provider, where `page` is; where that leads. `press="no"` cancels."""
        assert page.url.startswith(self.issuer), (page.url, page.text)
        form, answers = page.form("login", "password"), {"login": person.login, "password": "canary-any"}
        return person.submit(page, form, press=press, stop_at=stop_at, **answers)

    def sign_out(self, person: Person, page: Page) -> Page:
        """Say yes to its question; where that leads."""
        assert page.url.startswith(self.issuer), (page.url, page.text)
        return person.submit(page, page.form("xsrf"), press="yes")

    def _write(self) -> None:
        """Whole or not at all: it may be reading."""
        fresh = self._folder / "people.json.new"
        fresh.write_text(json.dumps(self._people))
        fresh.replace(self._folder / "people.json")

    def _settings(self) -> dict[str, Any]:
        client = {
            "client_id": CLIENT,
            "client_secret": SECRET,
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            "redirect_uris": [f"{self._service}/oidc/redirect"],
            "post_logout_redirect_uris": [f"{self._service}/signed-out"],
            "id_token_signed_response_alg": self.algorithm,
        }
        place = {"issuer": self.issuer, "port": self.port, "people": str(self._folder / "people.json")}
        return {**place, "clients": [client]}
