"""The third provider: dex, in Go, which Kubernetes clusters put before other providers.

It differs from the others usefully: it gives the claim `groups` only to whoever asks for that scope, offers no
sign-out, and makes new keys at each start. Its connector for tests signs everybody in at once as one person.
"""

import contextlib
import json
from pathlib import Path

from tests.providers import found
from tests.servers import processes

CLIENT = "reconciler"
SECRET = "canary-client-secret-at-dex"
GROUPS = ["authors"]  # of the one person that its connector `mockCallback` knows
EMAIL = "kilgore@kilgore.trout"


class Dex:
    """The provider, which knows one client: the service at `service`."""

    client, secret = CLIENT, SECRET

    def __init__(self, folder: Path, *, service: str) -> None:
        self.port = processes.free_port()
        self.issuer = f"http://127.0.0.1:{self.port}/dex"
        self._folder = folder
        self._running = contextlib.ExitStack()
        client = {
            "id": CLIENT,
            "secret": SECRET,
            "name": "The service",
            "redirectURIs": [f"{service}/oidc/redirect"],
        }
        configuration = {
            "issuer": self.issuer,
            "storage": {"type": "memory"},
            "web": {"http": f"127.0.0.1:{self.port}"},
            "logger": {"level": "error"},
            "oauth2": {"skipApprovalScreen": True},
            "connectors": [{"type": "mockCallback", "id": "mock", "name": "Mock"}],
            "staticClients": [client],
        }
        (folder / "configuration.json").write_text(json.dumps(configuration))

    def start(self) -> "Dex":
        """Start it with keys that it never had."""
        command = [str(found.dex()), "serve", str(self._folder / "configuration.json")]
        log = self._folder / "log"
        self._running.enter_context(processes.listening(command, port=self.port, log=log, environment={}))
        return self

    def stop(self) -> None:
        """End it: nothing listens there."""
        self._running.close()
