"""Attacks by somebody whose key has a role that does not cover it, or is of another project."""

import contextlib
import re
import socket

from api import projects
from tests.scenarios.attacks.scene import OTHER_PROJECT, SECONDS, Scene, component, resource
from tests.scenarios.attacks.table import Attack, Attempt, Holds

MINE = resource("Destination", "mine", component("custom"))


def asking(method: str, path: str, body: object = None, *, role: str = "user", project: str | None = None) -> Attempt:
    """A request with a key of this role; `project` is asked for in the header."""
    return lambda scene: scene.ask(method, path, body, role=role, project=project)


def approving(scene: Scene) -> str:
    """Let go what is held, with a key of role user."""
    return scene.ask("POST", "/v1/repositories/pushed/approve", {"commit": scene.base})


def auditing(query: str) -> Attempt:
    """Read audit events with the key of an admin of the project: of which projects there are some."""

    def attempt(scene: Scene) -> str:
        headers = {"Authorization": f"Bearer {scene.keys['admin']}"}
        answer = scene.daemon.ask("GET", f"/v1/audit-events?{query}", None, headers)
        found = sorted({str(one.get("project", "the organization")) for one in answer.body["events"]})
        return f"{answer.status}: {', '.join(found) or 'none'}"

    return attempt


def eavesdropping(scene: Scene) -> str:
    """Read from the beginning all that there was, as a key of another project: each event, with two ids."""
    found = []
    for last in ("1", "00000000-1"):
        with contextlib.closing(_stream(scene, "other", last)) as client:
            text = b""
            while b"data:" not in text:
                text += client.recv(65_536)
        found.append(", ".join(re.findall(r"event: (.+)", text.decode())))
    return ", with an id of another process: ".join(found)


def crowding(scene: Scene) -> str:
    """Open as many streams as one key may, and one more."""
    with contextlib.ExitStack() as opened:
        for _ in range(16):
            client = opened.enter_context(contextlib.closing(_stream(scene, "viewer")))
            assert client.recv(65_536).startswith(b"HTTP/1.1 200")
        return scene.ask("GET", "/v1/events", role="viewer")


def _stream(scene: Scene, role: str, last: str = "") -> socket.socket:
    client = socket.create_connection((scene.daemon.host, scene.daemon.port), timeout=SECONDS)
    header = f"Last-Event-ID: {last}\r\n" if last else ""
    key = f"Authorization: Bearer {scene.keys[role]}\r\n"
    client.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\n{key}{header}\r\n".encode())
    return client


def takes(role: str) -> str:
    """Return what is said to whom it is not allowed."""
    return f"403 key:<id> may not do this; it takes {role}."


def _row(name: str, attempt: Attempt, answer: str) -> Attack:
    return Attack(name, Holds.KEY, attempt, answer)


MAKES_NONE = f"403 {projects.NO_KEYS_BY_KEYS}"
KEY = {"name": "mine", "project": "default", "role": "admin"}

ATTACKS = (
    _row("a viewer applies", asking("POST", "/v1/apply", {"resources": [MINE]}, role="viewer"), takes("the role user")),
    _row(
        "a viewer tries a dry run", asking("POST", "/v1/apply?dryRun=true", {}, role="viewer"), takes("the role user")
    ),
    _row("a viewer deletes", asking("DELETE", "/v1/resources/Destination/safe", role="viewer"), takes("the role user")),
    _row(
        "a viewer reads raw text",
        asking("GET", "/v1/resources/Configuration/fleet-wide/raw", role="viewer"),
        takes("the role user"),
    ),
    _row(
        "a viewer reads what Collectors ran before",
        asking("GET", "/v1/resources/Configuration/fleet-wide/collector.yaml?previous=true", role="viewer"),
        takes("the role user"),
    ),
    _row("approving without the role", approving, takes("the role admin")),
    _row(
        "suspending without the role",
        asking("POST", "/v1/repositories/pushed/suspend", {"reason": "x"}),
        takes("the role admin"),
    ),
    _row(
        "redacting without the role",
        asking("POST", "/v1/Destination/safe/history/redact", {"value": "abcd"}),
        takes("the role admin"),
    ),
    _row("reading the audit without the role", asking("GET", "/v1/audit-events"), takes("the role admin")),
    _row(
        "reading what dead letters hold without the role",
        asking("GET", "/v1/destinations/safe/delivery/dead-letters"),
        takes("the role admin"),
    ),
    _row(
        "replaying a dead letter without the role",
        asking("POST", "/v1/destinations/safe/delivery/replay", {"batch": "memory-1"}),
        takes("the role admin"),
    ),
    _row(
        "a dead letter whose id leads out of its queue",
        asking("POST", "/v1/destinations/hook/delivery/replay", {"batch": "../../../audit-1"}, role="admin"),
        "400 /batch: must be the `id` of a dead letter",
    ),
    _row(
        "dead letters of another project",
        asking("GET", "/v1/destinations/hook/delivery/dead-letters", role="admin", project=OTHER_PROJECT),
        "404 There is no such project.",
    ),
    _row(
        "an admin reads the audit of another project",
        asking("GET", f"/v1/audit-events?project={OTHER_PROJECT}", role="admin"),
        "404 There is no such project.",
    ),
    _row("an admin reads all of the audit", auditing("limit=1000"), "200: default"),
    _row(
        "an admin reads the audit of the organization",
        asking("GET", "/v1/audit-events?project=", role="admin"),
        "404 There is no such project.",
    ),
    _row(
        "a key that makes a key of a higher role",
        asking("POST", "/v1/api-keys", KEY),
        MAKES_NONE,
    ),
    _row(
        "a key of an admin that makes another, to stay when it is revoked",
        asking("POST", "/v1/api-keys", KEY, role="admin"),
        MAKES_NONE,
    ),
    _row(
        "a key that makes a key of the organization",
        asking("POST", "/v1/api-keys", KEY | {"project": None}, role="admin"),
        MAKES_NONE,
    ),
    _row(
        "an admin makes a person",
        asking("POST", "/v1/users", {"name": "eve"}, role="admin"),
        takes("an organization admin"),
    ),
    _row(
        "inviting an accomplice without the role",
        asking("POST", "/v1/projects/default/invitations", {"role": "admin"}),
        takes("the role admin"),
    ),
    _row(
        "inviting an accomplice to another project",
        asking("POST", "/v1/projects/default/invitations", {"role": "viewer"}, role="other"),
        "404 There is no such project.",
    ),
    _row(
        "looking for those who are invited without the role",
        asking("GET", "/v1/projects/default/invitations"),
        takes("the role admin"),
    ),
    _row(
        "a key of another project, by the header",
        asking("GET", "/v1/resources/Destination", role="other", project="default"),
        "404 There is no such project.",
    ),
    _row(
        "a search in another project",
        asking("GET", "/v1/resources?q=safe", role="other", project="default"),
        "404 There is no such project.",
    ),
    _row(
        "references of another project's resource",
        asking("GET", "/v1/resources/Destination/safe/references", role="other", project="default"),
        "404 There is no such project.",
    ),
    _row(
        "a project of another key, by the header",
        asking("GET", "/v1/resources/Destination", role="admin", project=OTHER_PROJECT),
        "404 There is no such project.",
    ),
    _row(
        "approving another project's repository",
        asking("POST", "/v1/repositories/pushed/approve", {"commit": "0" * 40}, role="other"),
        "404 There is no such repository; GET /v1/repositories lists those that are watched.",
    ),
    _row(
        "following the events of another project",
        asking("GET", "/v1/events", role="other", project="default"),
        "404 There is no such project.",
    ),
    _row(
        "following events with a key for log records",
        asking("GET", "/v1/events", role="logs"),
        takes("a key with the scope resources"),
    ),
    _row(
        "waiting for the repository of another project",
        asking("GET", "/v1/repositories/pushed?wait=60s", role="other"),
        "404 There is no such repository; GET /v1/repositories lists those that are watched.",
    ),
    _row("following everything to read another project", eavesdropping, "reset, with an id of another process: reset"),
    _row("streams without an end", crowding, "429 You follow 16 streams of events; close one."),
)
