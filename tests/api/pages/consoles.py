"""A daemon with something of everything that the console shows, and people of each role.

Two repositories: `telemetry` with a flow that delivers, one that does not and a mistake; `edge` whose deletion is held.
The endpoint takes records, or refuses them for good, as a test says.
"""

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import daemons
from tests.api.pages.browsers import PROXY, WEB_URL, Browser
from tests.daemons import Daemon, watched
from tests.repositories import Repository

PASSWORD = "canary-correct-horse-battery"
ROLES = {"vera": "viewer", "uma": "user", "ana": "admin"}
SECRET = "canary-secret-of-the-endpoint"
EVIL = "<img src=x onerror=alert(1)>\u202egnp"


class Endpoint:
    """A webhook on loopback. `status` is what it answers, with `refusal` from 400 on."""

    def __init__(self, *, refusal: bytes = b"field <b>host</b> is missing") -> None:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                body = refusal if endpoint.status >= 400 else b""
                self.send_response(endpoint.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.status = 200
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self.server.shutdown()
        self.server.server_close()


def resource(kind: str, name: str, spec: Mapping[str, Any], **metadata: object) -> str:
    """A document of a file."""
    value = {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return json.dumps(value)


def webhook(port: int, path: str = "/in") -> dict[str, Any]:
    """The spec of a Destination that the service delivers to, with a secret."""
    given: dict[str, Any] = {
        "scheme": "http",
        "hostname": "127.0.0.1",
        "port": port,
        "path": path,
        "headers": {"X-Key": SECRET},
    }
    given["retry_on_failure_enabled"] = False
    return {"type": "webhook", "parameters": [{"name": name, "value": value} for name, value in given.items()]}


@dataclass
class ConsoleWorld:
    """The daemon, its sources and its endpoint."""

    daemon: Daemon
    telemetry: Repository
    edge: Repository
    endpoint: Endpoint
    web_url: str = WEB_URL
    changes: int = 0

    def browser(self, name: str) -> Browser:
        """Return the browser of somebody who is signed in."""
        browser = Browser(self.daemon, web_url=self.web_url)
        seen = browser.post("/sign-in", {"name": name, "password": PASSWORD, "back": "/"})
        assert (seen.status, seen.location) == (303, "/"), seen
        return browser

    def send(self, records: int = 1, body: str = "hello") -> None:
        """Send log records in, to `siem`."""
        attributes = [{"key": "service.name", "value": {"stringValue": "orders"}}]
        entries = [{"body": {"stringValue": body}} for _ in range(records)]
        logs = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": entries}]}]}
        headers = {"Authorization": f"Bearer {self.daemon.key}", "Content-Type": "application/json"}
        answer = self.daemon.ask("POST", "/v1/logs", json.dumps(logs).encode(), headers)
        assert answer.status == 200, answer

    def delivery(self) -> dict[str, Any]:
        """The delivery to `siem`."""
        found: dict[str, Any] = self.daemon.get("/v1/destinations/siem/delivery").body["delivery"]
        return found

    def lasting_notification(self) -> str:
        """The id of the notification of the mistake in `telemetry`, which nothing ends; empty before it opens."""
        found = self.daemon.get("/v1/api/notifications").body["notifications"]
        ids = [one["metadata"]["id"] for one in found if one["spec"]["notificationType"] == "ResourcesInvalid"]
        return ids[0] if ids else ""

    def change(self) -> str:
        """Commit a change of `siem` that succeeds, and wait for all that is told of it; the commit."""
        self.changes += 1
        spec = webhook(self.endpoint.port, f"/next-{self.changes}")
        self.telemetry.write("siem.yaml", resource("Destination", "siem", spec, labels={"team": "orders"}))
        commit = self.telemetry.commit("Move the endpoint")
        self.daemon.applied("telemetry", commit)
        daemons.until(lambda: self.daemon.repository("telemetry")["applied"], "its subject is read")
        return commit


def fill(telemetry: Repository, edge: Repository, endpoint: Endpoint) -> None:
    """Commit what both repositories hold at first."""
    otlp, at_siem = [{"type": "otlp"}], [{"name": "siem"}]
    orders = {"sources": otlp, "destinations": at_siem, "selector": {"matchLabels": {"service.name": "orders"}}}
    stuck = {**orders, "processors": [{"type": "batch"}]}
    hosts = {"sources": [{"type": "hostmetrics"}], "destinations": [{"type": "debug"}]}
    telemetry.write("siem.yaml", resource("Destination", "siem", webhook(endpoint.port), labels={"team": "orders"}))
    telemetry.write("orders.yaml", resource("Configuration", "orders", orders, labels={"team": "orders"}))
    telemetry.write("stuck.yaml", resource("Configuration", "stuck", stuck))
    telemetry.write("hosts.yaml", resource("Configuration", "hosts", hosts))
    telemetry.write("bad.yaml", resource("Source", "bad", {"type": 3}))
    telemetry.commit(f"Send the orders {EVIL}")
    for number in range(6):
        edge.write(f"edge-{number}.yaml", resource("Destination", f"edge-{number}", {"type": "otlp"}))
    edge.commit("Six destinations")


def hold(daemon: Daemon, edge: Repository) -> None:
    """Commit a deletion that is held."""
    for number in range(1, 6):
        edge.remove(f"edge-{number}.yaml")
    edge.commit("Remove five")
    daemons.until(lambda: daemon.repository("edge")["held"], "the deletion is held")


def people(daemon: Daemon) -> None:
    """Make a person of each role, and one organization admin."""
    assert daemon.post("/v1/users", {"name": "root", "password": PASSWORD, "organizationAdmin": True}).status == 201
    assert daemon.post("/v1/projects", {"name": "other"}).status in {201, 202}
    for name, role in ROLES.items():
        assert daemon.post("/v1/users", {"name": name, "password": PASSWORD}).status == 201
        body = json.dumps({"role": role}).encode()
        assert daemon.request("PUT", f"/v1/projects/default/members/{name}", body).status == 200


@contextlib.contextmanager
def standing(folder: Path, **settings: object) -> Iterator[ConsoleWorld]:
    """All of it, for as long as the context lasts."""
    endpoint = Endpoint()
    telemetry, edge = Repository.init(folder / "telemetry"), Repository.init(folder / "edge")
    fill(telemetry, edge, endpoint)
    told = {"trustedProxies": [PROXY], "webURL": WEB_URL, **settings}
    repositories = [
        watched("telemetry", telemetry.path, webURL="https://github.com/example/telemetry"),
        watched("edge", edge.path),
    ]
    try:
        with daemons.running(folder / "daemon", repositories=repositories, settings=told) as daemon:
            people(daemon)
            daemon.applied("telemetry", telemetry.head())
            daemon.applied("edge", edge.head())
            hold(daemon, edge)
            yield ConsoleWorld(daemon, telemetry, edge, endpoint, str(told["webURL"]))
    finally:
        endpoint.close()
