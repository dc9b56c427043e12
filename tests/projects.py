"""A project of its own on a daemon, and small resources to put into it.

    project.apply(type_of("own", NEEDED), destination("one", needed="x")) == {"own": "created", "one": "created"}

What is expected of them is in the tests; how a daemon is started and asked, in `daemons`.
"""

import http.client
import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.daemons import ANSWER_SECONDS, Daemon

Resource: TypeAlias = dict[str, Any]


def resource(kind: str, name: str, **spec: Any) -> Resource:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def labelled(resource: Resource, **metadata: Any) -> Resource:
    """The resource with more in its metadata."""
    return {**resource, "metadata": {**resource["metadata"], **metadata}}


def type_of(name: str = "own", *definitions: Resource, kind: str = "DestinationType") -> Resource:
    return resource(kind, name, parameters=list(definitions))


def destination(name: str, type_: str = "own", **parameters: Any) -> Resource:
    given = [{"name": key, "value": value} for key, value in parameters.items()]
    return resource("Destination", name, type=type_, parameters=given)


def configuration(name: str, *destinations: str) -> Resource:
    return resource("Configuration", name, destinations=[{"name": one} for one in destinations])


NEEDED = {"name": "needed", "type": "string", "required": True}
OPTIONAL = {"name": "optional", "type": "int"}
MISSING = "/spec/parameters: `needed` is required and has no default"


def unrendered(shown: Resource) -> Resource:
    """A resource without what its status says of a rendering, which comes a moment after a change."""
    return {**shown, "status": {key: value for key, value in shown["status"].items() if key != "rendering"}}


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer with all that a client sees of it; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        """The JSON in it."""
        return json.loads(self.content)


class Project:
    """A project of its own on the daemon of this module."""

    def __init__(self, daemon: Daemon, name: str) -> None:
        self.daemon = daemon
        self.name = name

    def apply(self, *resources: Resource, query: str = "") -> dict[str, str]:
        """The status of each resource, by name, with the reason behind it if there is one."""
        return {_name(one): told(one) for one in self.updates(*resources, query=query)}

    def updates(self, *resources: Resource, query: str = "") -> list[dict[str, Any]]:
        """Apply; the updates as they come."""
        return self.daemon.apply(*resources, query=query, project=self.name)

    def delete(self, *resources: Resource) -> tuple[dict[str, str], list[str]]:
        """The status of each resource, by name; and the errors."""
        body = self.deletion(*resources)
        return {_name(one): told(one) for one in body["updates"]}, body["errors"]

    def deletion(self, *resources: Resource, query: str = "") -> dict[str, Any]:
        """Delete; the answer's body as it comes."""
        answer = self.daemon.post(f"/v1/delete{query}", list(resources), project=self.name)
        assert answer.status == 202, answer
        return dict(answer.body)

    def get(self, kind: str, name: str) -> Resource:
        """Return what is stored."""
        found = self.daemon.resource(kind, name, project=self.name)
        assert found is not None, name
        return found

    def status(self, kind: str, name: str) -> dict[str, Any]:
        """Return what the status of a stored resource says beside its source, and, of a Configuration, of delivery and
        what is rendered.
        """
        apart = ("delivery", "latest", "leftOut", "rendering", "runsOn", "source")
        return {key: value for key, value in self.get(kind, name)["status"].items() if key not in apart}

    def names(self, kind: str) -> list[str]:
        """Return what is stored of a kind; what is built in apart."""
        found = self.daemon.resources(kind, project=self.name)
        return [one["metadata"]["name"] for one in found if one["status"]["source"]["type"] != "builtin"]

    def versions(self, kind: str, name: str) -> list[int]:
        """The versions in the history, as they come."""
        found = self.daemon.history(kind, name, project=self.name)
        return [one["metadata"]["version"] for one in found]

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Response:
        """One request; `If_None_Match=...` is a header, and an empty `Authorization` leaves the key out."""
        own = {"Authorization": f"Bearer {self.daemon.key}", "X-Service-Project": self.name}
        given = own | {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body, {name: value for name, value in given.items() if value})
            answer = connection.getresponse()
            sent = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, sent, answer.read())
        finally:
            connection.close()


def told(update: dict[str, Any]) -> str:
    """The status of an update, and its reason if there is one."""
    return f"{update['status']}: {update['reason']}" if "reason" in update else str(update["status"])


def _name(update: dict[str, Any]) -> str:
    return str(update["resource"]["metadata"]["name"])
