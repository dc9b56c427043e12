"""The target of the attacks: one daemon, with victims that every row leaves as they were.

Belongs here: the victims, and the doors through which an attacker comes, each giving back all that one gets to read.
Does not: attacks.
"""

import contextlib
import http.client
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import daemons, stores
from tests.cli.conftest import Program
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository

API_KEY = "canary-api-key-0123456789-0123456789"
SECRET = "canary-stored-in-a-destination"
ENVIRONMENT = "canary-in-the-environment"
FILE_SECRET = "canary-in-a-file"
HOOK_SECRET = b"canary-secret-of-a-hook"
OTHER_PROJECT = "other"
AUTHOR = "\x1b[2J\x1b]0;evil\x07\u202eAda"  # acts on a terminal that is shown it
SECONDS = 20.0
ROLES = (("viewer", "default"), ("user", "default"), ("admin", "default"), ("admin", OTHER_PROJECT))

VAULT: dict[str, Any] = {
    "apiVersion": "service/v1",
    "kind": "DestinationType",
    "metadata": {"name": "vault"},
    "spec": {
        "parameters": [
            {"name": "address", "type": "string"},
            {"name": "note", "type": "string"},
            {"name": "size", "type": "int"},
            {"name": "token", "type": "string", "options": {"sensitive": True}},
        ]
    },
}


PASSING = (("DestinationType", "vault"), ("Destination", "twin"))  # each is as before when its row is over


def resource(kind: str, name: str, spec: object = None, **metadata: object) -> dict[str, Any]:
    """A document."""
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def component(type_: str, **parameters: object) -> dict[str, Any]:
    """The spec of a component."""
    return {"type": type_, "parameters": [{"name": name, "value": value} for name, value in parameters.items()]}


HOOK = component("webhook", hostname="logs.example.org", path="/in", headers={"Authorization": SECRET})
SAFE = component("vault", address="https://safe.example.org", note="x", token=SECRET)
NAMELESS = [
    {**component("vault", token=SECRET), "id": "first"},
    {**component("vault", token=SECRET + "-2"), "id": "second"},
]
VICTIMS = (
    VAULT,
    resource("Destination", "hook", HOOK),
    resource("Destination", "safe", SAFE, id="id-of-safe"),
    resource("Configuration", "fleet-wide", {"destinations": NAMELESS}),
)


class Scene:
    """A daemon, a repository that the attacker may push to, and one that belongs to somebody else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.traps = folder / "traps"  # what an attack would have the service execute leaves a file here
        self.traps.mkdir()
        (folder / "hook").write_bytes(HOOK_SECRET)
        self.platform = Repository.init(folder / "platform")
        self.platform.write("web.yaml", destination("web", id="id-of-web"))
        self.pushed = Repository.init(folder / "pushed")
        for number in range(5):
            self.pushed.write(f"own/d{number}.yaml", destination(f"d{number}"))
        self.pushed.git("add", "--all")
        self.pushed.git("commit", "--quiet", f"--author={AUTHOR} <ada@example.com>", f"--message={AUTHOR}")
        self.base = self.pushed.head()
        self.daemon = Daemon(
            folder / "daemon",
            is_started=True,  # what /proc shows of it counts
            settings={"log": {"level": "debug"}},
            environment=self._hostile_environment(),
            repositories=[
                watched("platform", self.platform.path, hook={"secretFile": str(folder / "hook")}),
                watched("pushed", self.pushed.path, interval="1s", timeout="5s"),
                watched("elsewhere", Repository.init(folder / "elsewhere").path, project=OTHER_PROJECT),
            ],
        )
        self.daemon.key = API_KEY
        self.keys: dict[str, str] = {}  # by role; `other` is an admin's of the other project
        self.head = self.platform.commit()

    def _hostile_environment(self) -> dict[str, str]:
        """A secret, and what somebody who may set variables of git would set."""
        configured = {"core.fsmonitor": self.trap("fsmonitor"), "uploadpack.packObjectsHook": self.trap("pack-objects")}
        numbered = list(enumerate(configured.items()))
        ours = self.folder / "gitconfig"
        ours.write_text(f"[uploadpack]\n\tpackObjectsHook = {self.trap('GIT_CONFIG_GLOBAL')}\n")
        return {
            "DESTINATION_DEFAULT__TOKEN": ENVIRONMENT,
            "GIT_CONFIG_GLOBAL": str(ours),
            "GIT_TRACE": str(self.traps / "GIT_TRACE"),
            "GIT_CONFIG_COUNT": str(len(configured)),
            **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered},
            **{name: self.trap(name) for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_EDITOR", "GIT_PAGER")},
            "GIT_DIR": "/nonexistent",
            "GIT_EXEC_PATH": "/nonexistent",
        }

    def trap(self, name: str) -> str:
        """A program that leaves a file when it is executed."""
        program = self.folder / f"trap-{name}"
        program.write_text(f'#!/bin/sh\ntouch "{self.traps / name}"\n')
        program.chmod(0o755)
        return str(program)

    def _secrets(self) -> None:
        """Files of secrets, one good and all else bad."""
        self.daemon.state.mkdir(mode=0o700)
        own, other = (self.daemon.state / "secrets" / project for project in ("default", OTHER_PROJECT))
        for folder in (own, other):
            folder.mkdir(mode=0o700, parents=True)
        (other / "theirs").write_text("canary-of-another-project")
        (own / "token").write_text(f"{FILE_SECRET}\n")
        (own / ".hidden").write_text("x")
        (own / "large").write_text("x" * (65 * 1024))
        (own / "link").symlink_to("/etc/passwd")
        (own / "folder").symlink_to("/etc")
        os.mkfifo(own / "pipe")
        os.link(other / "theirs", own / "hard")

    def start(self) -> "Scene":
        """Start the daemon and store the victims."""
        self._secrets()
        self.daemon.start()
        for update in self.daemon.apply(*VICTIMS):
            assert update["status"] == "created", update
        for role, project in ROLES:
            self.keys[role if project == "default" else "other"] = self._make_key(role, project)
        self.keys["logs"] = self._make_key("viewer", "default", scopes=["logs"])
        self.daemon.run_of("platform", self.head)
        self.daemon.run_of("pushed", self.base)
        return self

    def _make_key(self, role: str, project: str, **more: object) -> str:
        body = {"name": f"{role} of {project}", "project": project, "role": role, **more}
        answer = self.daemon.post("/v1/api-keys", body)
        assert answer.status == 201, answer
        return str(answer.body["apiKey"]["key"])

    # What an attack must leave as it was

    def stored(self) -> set[tuple[object, ...]]:
        """Every resource with its version, content and owner, and every version there has been.

        Less what rows change and put back, which makes versions.
        """
        with stores.sql(self.daemon.state) as store:
            resources = "select project, kind, name, version, resource_id, digest, owner from resource"
            versions = "select project, kind, name, version, '', body, 'version' from version"
            rows = store.execute(f"{resources} union all {versions}")
            return {row for row in rows if row[1:3] not in PASSING}

    def executed(self) -> list[str]:
        """The traps that were sprung."""
        return sorted(file.name for file in self.traps.iterdir())

    # Doors

    def ask(
        self, method: str, path: str, body: object = None, *, role: str = "user", project: str | None = None
    ) -> str:
        """A request with the key of a role: the status, and the errors or the statuses with their reasons."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.keys[role]}"} | ({"X-Service-Project": project} if project else {})
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            content = answer.read()
        said = told(answer.status, json.loads(content) if content else None)
        return re.sub(r"key:[0-9A-Z]{26}", "key:<id>", said)

    def send(self, body: bytes) -> str:
        """POST /v1/logs with JSON and a key for log records alone: the status, and what is said."""
        headers = {"Authorization": f"Bearer {self.keys['logs']}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/logs", body, headers)
            answer = connection.getresponse()
            said = json.loads(answer.read())
        return f"{answer.status} {said.get('message') or said}"

    def apply(self, *resources: object, query: str = "", role: str = "user") -> str:
        """POST /v1/apply."""
        return self.ask("POST", f"/v1/apply{query}", {"resources": list(resources)}, role=role)

    def raw(self, request: bytes, *, seconds: float = SECONDS) -> str:
        """Bytes on a connection: the statuses of all that is answered, and the errors of the last answer."""
        with socket.create_connection((self.daemon.host, self.daemon.port), timeout=seconds) as client:
            received = bytearray()
            with contextlib.suppress(ConnectionError, TimeoutError):
                client.sendall(request)
                while piece := client.recv(65_536):
                    received += piece
        lines = bytes(received).split(b"\r\n")
        statuses = " ".join(line.split(b" ")[1].decode() for line in lines if line.startswith(b"HTTP/1.1 "))
        body = bytes(received).rpartition(b"\r\n\r\n")[2]
        with contextlib.suppress(ValueError):
            return told(statuses, json.loads(body))
        return statuses

    def push(self, files: Mapping[str, str | bytes], message: str = "Change") -> str:
        """Files pushed on top of what there is: what the run says."""
        for path, content in files.items():
            self.pushed.write(path, content)
        return self.pushed_run(self.pushed.commit(message))

    def push_tree(self, *entries: tuple[str, bytes, str]) -> str:
        """A tree as no working tree could hold it, beside what there is: what the run says."""
        own = ("40000", b"own", self.pushed.git("rev-parse", f"{self.base}:own"))
        ordered = sorted((own, *entries), key=lambda entry: entry[1] + (b"/" if entry[0] == "40000" else b""))
        return self.pushed_run(self.pushed.commit_tree(self.pushed.tree(*ordered)))

    def push_link(self, path: str, target: str) -> str:
        """A symbolic link in place of whatever is there: what the run says."""
        (self.pushed.path / path).unlink(missing_ok=True)
        self.pushed.link(path, target)
        return self.pushed_run(self.pushed.commit())

    def pushed_run(self, commit: str) -> str:
        """The run of a commit, if it concerns the repository: outcome, state with its message, statuses. Then the
        branch is as before.
        """

        def ended() -> list[str] | None:
            is_applied = self.daemon.repository("pushed")["commit"] == commit  # before the runs: one comes with it
            runs = [run for run in self.daemon.runs("pushed", limit=5) if run["commit"] == commit]
            found = [str(run["id"]) for run in runs if run["phase"] == "finished"]
            return found if found or (is_applied and not runs) else None

        runs = [self.daemon.finished(run) for run in daemons.until(ended, f"{commit} is read")[:1]]
        repository = self.daemon.repository("pushed")
        self.pushed.rewind(self.base)
        state = f"{runs[0]['outcome'] if runs else 'no run'}, {repository['state']}"
        message = [] if repository.get("message") is None else [repository["message"]]
        return "\n".join([state, *message, *(_line(status) for run in runs for status in run["statuses"])])

    def command(self, *arguments: str) -> str:
        """All that a command of the program prints."""
        environment = {"SERVICE_SERVER": f"http://{self.daemon.host}:{self.daemon.port}", "SERVICE_API_KEY": API_KEY}
        outcome = Program(self.folder, environment)(*arguments)
        return outcome.out + outcome.err

    def resource(self, kind: str, name: str) -> str:
        """A resource as the API shows it."""
        return json.dumps(self.daemon.resource(kind, name))


def told(status: object, body: Any) -> str:
    """Return what a person reads of an answer."""
    if not isinstance(body, dict):
        return str(status)
    lines = body.get("errors") or [
        f"{one['status']}: {one['reason']}" if "reason" in one else str(one["status"])
        for one in body.get("updates", ())
    ]
    return f"{status} " + "\n".join(lines) if lines else str(status)


def _line(status: Mapping[str, Any]) -> str:
    reason = "" if status.get("reason") is None else f": {status['reason']}"
    who = f" {status['kind']}/{status['name']}" if status.get("name") else ""
    return f"{status['status']}{who}{reason}"


@contextlib.contextmanager
def standing(folder: Path) -> Iterator[Scene]:
    """A scene, for as long as the context lasts."""
    scene = Scene(folder)
    try:
        yield scene.start()
    finally:
        daemons.end(scene.daemon)
