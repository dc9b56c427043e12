"""From a sender through a daemon to an endpoint: what tests of delivery as a whole are made of.

Each line has a destination, a Configuration and a label of its own, so that many share one daemon.
"""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests import daemons
from tests.daemons import Answer, Daemon
from tests.servers.sinks import Sink

_names = itertools.count(1)

FAST = {
    "retry_on_failure_initial_interval": 1,
    "retry_on_failure_max_interval": 1,
}


@dataclass
class Line:
    """One destination and the Configuration that routes to it what has the label `line` with its name."""

    daemon: Daemon
    sink: Sink
    name: str = field(default_factory=lambda: f"line-{next(_names)}")
    parameters: dict[str, object] = field(default_factory=dict)

    def set(self, sink: Sink | None = None, **parameters: object) -> None:
        """Apply the destination, with other parameters than before."""
        self.sink = sink or self.sink
        self.parameters |= parameters
        where = {"scheme": "http", "hostname": "127.0.0.1", "port": self.sink.port, **FAST}
        given = [{"name": name, "value": value} for name, value in {**where, **self.parameters}.items()]
        apply(self.daemon, resource("Destination", self.name, {"type": "webhook", "parameters": given}))

    def route(self, *names: str) -> None:
        """Apply the Configuration; without names it goes to its own destination."""
        spec = {
            "sources": [{"type": "otlp"}],
            "destinations": [{"name": name} for name in names or (self.name,)],
            "selector": {"matchLabels": {"line": self.name}},
        }
        apply(self.daemon, resource("Configuration", self.name, spec))

    def begin(self, **parameters: object) -> "Line":
        """Both, and wait until records are taken."""
        self.set(None, **parameters)
        self.route()
        self.becomes(lambda found: found["configurations"] == [self.name], "it is routed to")
        return self

    def send(self, *texts: str, label: str | None = None) -> Answer:
        """Log records with these bodies."""
        return send(self.daemon, *texts, label=label or self.name)

    def answered(self, *texts: str, label: str | None = None) -> Answer:
        """The same; after a change, the answer once the routes are read."""

        def said() -> Answer | None:
            answer = self.send(*texts, label=label)
            is_reading = answer.status == 503 and "reading the project's Configurations" in answer.body["message"]
            return None if is_reading else answer

        return daemons.until(said, f"{texts} are answered when the routes are read")

    def sent(self, *texts: str) -> None:
        """The same, which are taken."""
        answer = self.answered(*texts)
        assert (answer.status, answer.body) == (200, {}), answer

    def shown(self) -> dict[str, Any] | None:
        """The destination's delivery."""
        answer = self.daemon.get(f"/v1/destinations/{self.name}/delivery")
        return dict(answer.body["delivery"]) if answer.status == 200 else None

    def becomes(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until a condition holds for the shown delivery, and return it."""

        def look() -> dict[str, Any] | None:
            found = self.shown()
            return found if found is not None and holds(found) else None

        return daemons.until(look, f"{self.name}: {what}")

    def arrives(self, *texts: str, at: Sink | None = None) -> None:
        """Wait until exactly these bodies came to the endpoint and were taken, in any order."""
        sink = at or self.sink

        def came() -> bool | None:
            return sorted(sink.records) == sorted(texts) or None

        daemons.until(came, f"{texts} arrive at {self.name}, where there is {sink.records}")


def send(daemon: Daemon, *texts: str, label: str, key: str | None = None) -> Answer:
    """Log records of a resource with a label `line`; `key` is another than the daemon's own."""
    records = [{"body": {"stringValue": text}} for text in texts]
    attributes = [{"key": "line", "value": {"stringValue": label}}]
    body = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": records}]}]}
    headers = {"Authorization": f"Bearer {key or daemon.key}", "Content-Type": "application/json"}
    return daemon.ask("POST", "/v1/logs", json.dumps(body).encode(), headers)


def resource(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A resource."""
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def apply(daemon: Daemon, *resources: dict[str, Any]) -> None:
    """Apply what is accepted."""
    updates = daemon.apply(*resources)
    assert all(update["status"] in ("created", "configured", "unchanged") for update in updates), updates
