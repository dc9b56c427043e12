"""A daemon that delivers to a webhook on this machine: what is applied, a key that may send, and asking about it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests import daemons
from tests.daemons import Answer, Daemon

NAME = "siem"
PATH = f"/v1/destinations/{NAME}/delivery"


def deliver(daemon: Daemon, port: int, **parameters: object) -> str:
    """Have every record of the project go to a port of this machine; a key that may send."""
    endpoint = {"scheme": "http", "hostname": "127.0.0.1", "port": port}
    given = [{"name": name, "value": value} for name, value in {**endpoint, **parameters}.items()]
    configuration = {"sources": [{"type": "otlp"}], "destinations": [{"name": NAME}], "selector": {"matchLabels": {}}}
    updates = daemon.apply(
        _resource("Destination", NAME, {"type": "webhook", "parameters": given}),
        _resource("Configuration", "all", configuration),
    )
    assert [update["status"] for update in updates] == ["created", "created"], updates
    daemons.until(lambda: (shown(daemon) or {}).get("configurations") or None, "the Destination is delivered to")
    made = daemon.post("/v1/api-keys", {"name": "sender", "role": "user", "scopes": ["logs"]}, project="default")
    return str(made.body["apiKey"]["key"])


def post(daemon: Daemon, key: str, bodies: Sequence[Mapping[str, object]]) -> Answer:
    """Send records whose bodies are these values of OTLP, as JSON."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return daemon.ask("POST", "/v1/logs", request(bodies), headers)


def request(bodies: Sequence[Mapping[str, object]]) -> bytes:
    """An export request in JSON."""
    records = [{"body": body} for body in bodies]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def shown(daemon: Daemon) -> dict[str, Any] | None:
    """Return the delivery as the service shows it; None while it reads its routes."""
    answer = daemon.get(PATH)
    return dict(answer.body["delivery"]) if answer.status == 200 else None


def delivery(daemon: Daemon) -> dict[str, Any]:
    """The same, once there is something to say."""
    return daemons.until(lambda: shown(daemon), "the routes are read")


def _resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
