"""Real daemons: the console script as a process, in a folder of its own, on a port of its own.

    with daemons.running(folder, repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        assert daemon.get("/v1/version").status == 200

What is expected of a daemon is in the tests; how long one is measured, in benchmarks.
"""

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests import canaries, stores
from tests.cli import forking
from tests.repositories import Repository

COMMAND = Path(sys.executable).with_name("reconciler")
OF_EVERY_START = ("SERVICE_API_KEY is set: ", "There was no organization admin: ")
KEY = "canary-key-for-tests-that-nobody-guesses-0123456789"
START_SECONDS = 30.0
STOP_SECONDS = 30.0
ANSWER_SECONDS = 60.0
WAIT_SECONDS = 30.0  # what takes longer does not happen; nearly everything takes a fraction of a second
STEP_SECONDS = 0.01
LONGEST_STEP_SECONDS = 0.05  # each look takes processor time from what is waited for

LATEST_RUNS = 20  # among which one is that a test waits for: it looks often, and all of them are written each time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer; `body` is the JSON in it, None when there is none, and the names of headers are small."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


class Daemon:
    """A daemon's folder, settings and, between `start` and `stop`, its process."""

    def __init__(
        self,
        folder: Path,
        *,
        repositories: Sequence[Mapping[str, object]] = (),
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str | Path] = (),
        program: Path = COMMAND,
        is_started: bool = False,
        has_real_reader: bool = False,
    ) -> None:
        """`prefix` is a command that runs the daemon's, in other mounts for instance; `program` the console script,
        which may be that of another installation.

        `is_started`: each process is a start of Python, which takes a second longer; else see `forking`.
        `has_real_reader`: `reader` is the process that reads, which a test may stop or look into; else it may kill it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.json"
        self.log = folder / "log"
        self.state = folder / "state"
        self.key = KEY
        self.host, self.port = "127.0.0.1", 0
        self.tls: ssl.SSLContext | None = None
        self.options: tuple[str, ...] = ()  # of the command, at the next start
        self.process: subprocess.Popen[bytes] | forking.Process
        self._is_started = is_started or bool(prefix) or program != COMMAND
        self._has_real_reader = has_real_reader
        self._command = (*prefix, program)
        self._environment = environment or {}
        own = {"stateDir": str(self.state), "listen": "127.0.0.1:0", **stores.settings(self.state)}
        self._settings: dict[str, object] = {**own, **(settings or {})}
        self.configure(repositories)

    # The process

    def configure(self, repositories: Sequence[Mapping[str, object]], **settings: object) -> None:
        """Write the settings file; a running daemon reads it at SIGHUP."""
        self.repositories = {str(one["name"]): one for one in repositories}
        self._settings |= {"repositories": list(repositories), **settings}
        self.config.write_text(json.dumps(self._settings))

    def launch(self) -> None:
        """Start the process, and do not wait."""
        arguments = ["serve", "--config", str(self.config), *self.options]
        environment = {**os.environ, "SERVICE_API_KEY": self.key, **self._environment}
        with self.log.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            if self._is_started:
                command = [*self._command, *arguments]
                self.process = subprocess.Popen(command, env=environment, stdin=nothing, stderr=log, stdout=log)
            else:
                self.process = forking.Process(
                    COMMAND,
                    arguments,
                    streams=[nothing.fileno(), log.fileno(), log.fileno()],
                    folder=Path.cwd(),
                    environment=forking.without_start(environment),
                    has_forked_reader=not self._has_real_reader,
                )

    def start(self) -> "Daemon":
        """Start it and wait until it listens."""
        known = len(self.lines())
        self.launch()
        address = until(lambda: self._address(known), "the daemon listens", seconds=START_SECONDS)
        self.port = int(address.rpartition(":")[2])
        return self

    def stop(self, number: int = signal.SIGTERM, *, seconds: float = STOP_SECONDS) -> int:
        """Send a signal and wait for the end; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.stop(signal.SIGKILL)

    def restart(self) -> "Daemon":
        """Stop it and start it again on what it stored."""
        self.stop()
        return self.start()

    def reload(self) -> str:
        """Let it read its settings again; what it says about them."""
        known = len(self.lines())
        self.process.send_signal(signal.SIGHUP)

        def told() -> str | None:
            fresh = (str(line["message"]) for line in self.lines()[known:])
            return next((message for message in fresh if "reloaded" in message.lower()), None)

        return until(told, "the settings are read again")

    def follow_nothing(self) -> None:
        """Follow nothing that is looked at. One repository stays, since a reload that would leave none is refused."""
        self.configure([{"name": "idle", "url": "/nowhere", "suspend": True}])
        assert self.reload().startswith("Reloaded the settings")

    def follow(self, repository: Mapping[str, object]) -> None:
        """Add a repository to the settings of the running daemon, or change it there."""
        self.configure([*({**self.repositories, str(repository["name"]): repository}).values()])
        assert self.reload().startswith("Reloaded the settings")

    def children(self) -> list[int]:
        """The processes that the daemon has started, on whatever thread, and that still run."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread may end meanwhile
                found += map(int, (task / "children").read_text().split())
        return found

    def reader(self) -> int:
        """The process that reads for it, or that stands in for that (see `has_real_reader`)."""

        def found() -> int | None:
            readers = [child for child in self.children() if b"reconciler.worker.child" in _command(child)]
            return readers[0] if readers else None

        return until(found, "there is a worker")

    def lines(self) -> list[dict[str, Any]]:
        """Return what it logged, every line a JSON object; what is not fails."""
        text = self.log.read_text() if self.log.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def messages(self) -> list[str]:
        """The sentences that it logged."""
        return [str(line["message"]) for line in self.lines()]

    def complaints(self) -> list[str]:
        """The warnings and errors that it logged, without what each of these daemons is told at its start: that there
        is a key in its environment, and that there was no user.
        """
        found = (str(line["message"]) for line in self.lines() if line["level"] != "info")
        return [message for message in found if not message.startswith(OF_EVERY_START)]

    def output(self) -> str:
        """Return what it wrote, whatever that is."""
        return self.log.read_text()

    def _address(self, known: int) -> str | None:
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}: {self.output()}")
        return next((str(line["address"]) for line in self.lines()[known:] if "address" in line), None)

    # HTTP

    def request(self, method: str, path: str, body: bytes | None = None, *, project: str | None = None) -> Answer:
        """One request with the key, on a connection of its own."""
        headers = {"Authorization": f"Bearer {self.key}"} | ({} if project is None else {"X-Service-Project": project})
        return self.ask(method, path, body, headers)

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """One request with exactly these headers, on a connection of its own."""
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, json.loads(content) if content else None, found)
        finally:
            connection.close()

    def status(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> int:
        """The status alone, whatever stands in the answer."""
        connection = self._connection()
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS)
        return http.client.HTTPSConnection(self.host, self.port, timeout=ANSWER_SECONDS, context=self.tls)

    def get(self, path: str, *, project: str | None = None) -> Answer:
        """GET."""
        return self.request("GET", path, project=project)

    def post(self, path: str, body: object = None, *, project: str | None = None) -> Answer:
        """POST a value as JSON."""
        return self.request("POST", path, json.dumps(body).encode(), project=project)

    def delete(self, path: str, *, project: str | None = None) -> Answer:
        """DELETE."""
        return self.request("DELETE", path, project=project)

    # What the API says, less the envelopes

    def apply(self, *resources: object, query: str = "", project: str | None = None) -> list[dict[str, Any]]:
        """Apply resources; the updates."""
        answer = self.post(f"/v1/apply{query}", {"resources": list(resources)}, project=project)
        assert answer.status == 202, answer
        return list(answer.body["updates"])

    def resource(self, kind: str, name: str, *, project: str | None = None) -> dict[str, Any] | None:
        """A resource, or None."""
        answer = self.get(f"/v1/resources/{kind}/{name}", project=project)
        return None if answer.status == 404 else dict(answer.body["resource"])

    def resources(self, kind: str, *, project: str | None = None) -> list[dict[str, Any]]:
        """Every resource of a kind."""
        return list(self.get(f"/v1/resources/{kind}", project=project).body["resources"])

    def opened(self) -> list[str]:
        """The types of the notifications whose cause is there."""
        found = self.get("/v1/api/notifications").body["notifications"]
        is_open = [one for one in found if one["metadata"]["labels"]["service/state"] == "open"]
        return [one["spec"]["notificationType"] for one in is_open]

    def history(self, kind: str, name: str, *, project: str | None = None) -> list[dict[str, Any]]:
        """The versions of a resource, newest first."""
        answer = self.get(f"/v1/{kind}/{name}/history", project=project)
        return [] if answer.status == 404 else list(answer.body["versions"])

    def repository(self, name: str) -> dict[str, Any]:
        """One repository."""
        answer = self.get(f"/v1/repositories/{name}")
        assert answer.status == 200, answer
        return dict(answer.body["repository"])

    def run(self, run: str) -> dict[str, Any]:
        """One run with its statuses."""
        answer = self.get(f"/v1/runs/{run}")
        assert answer.status == 200, answer
        return dict(answer.body["run"])

    def runs(self, repository: str | None = None, *, limit: int = 100) -> list[dict[str, Any]]:
        """The latest runs, newest first."""
        chosen = "" if repository is None else f"&repository={repository}"
        return list(self.get(f"/v1/runs?limit={limit}{chosen}").body["runs"])

    def reconcile(self, repository: str) -> dict[str, Any]:
        """Ask for a run and wait for its end."""
        answer = self.post(f"/v1/repositories/{repository}/reconcile")
        assert answer.status == 202, answer
        return self.finished(answer.body["run"])

    # Waiting for what will be

    def finished(self, run: str) -> dict[str, Any]:
        """A run, once it has ended."""

        def ended() -> dict[str, Any] | None:
            found = self.run(run)
            return found if found["phase"] == "finished" else None

        return until(ended, f"the run {run} ends")

    def run_of(self, repository: str, commit: str) -> dict[str, Any]:
        """The newest finished run of a repository that read this commit, with its statuses."""

        def found() -> str | None:
            ended = (run for run in self.runs(repository, limit=LATEST_RUNS) if run["phase"] == "finished")
            return next((str(run["id"]) for run in ended if run["commit"] == commit), None)

        return self.finished(until(found, f"a run of {repository} at {commit}", seconds=ANSWER_SECONDS))

    def applied(self, repository: str, commit: str) -> dict[str, Any]:
        """A repository, once it has applied this commit, for which there may be no run."""

        def there() -> dict[str, Any] | None:
            found = self.repository(repository)
            return found if found["commit"] == commit else None

        return until(there, f"{repository} has applied {commit}")

    def state_of(self, repository: str, state: str) -> dict[str, Any]:
        """A repository, once it is in this state."""

        def there() -> dict[str, Any] | None:
            found = self.repository(repository)
            return found if found["state"] == state else None

        return until(there, f"{repository} is {state}")


def until(look: Callable[[], T | None], what: str, *, seconds: float = WAIT_SECONDS) -> T:
    """Return what a look finds, tried again and again until it is something."""
    end, step = time.monotonic() + seconds, STEP_SECONDS
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < end, f"it did not come to this within {seconds:g} seconds: {what}"
        time.sleep(step)
        step = min(step * 1.2, LONGEST_STEP_SECONDS)


def watched(name: str, url: Path, **settings: object) -> dict[str, object]:
    """One entry of `repositories` in the settings."""
    return {"name": name, "url": str(url), "branch": "main", **settings}


class Followed:
    """A repository that a daemon follows, alone in a project of its own."""

    def __init__(self, daemon: Daemon, source: Repository, *, name: str, **settings: object) -> None:
        """Add it to the daemon; what it holds by now is read when this returns."""
        self.daemon = daemon
        self.source = source
        self.name = name
        self.project = name
        self.change(**settings)

    def change(self, **settings: object) -> None:
        """Follow it with other settings."""
        self.daemon.follow(watched(self.name, self.source.path, **{"project": self.project, **settings}))

    def write(self, path: str, *documents: str) -> None:
        """Write a file of documents."""
        self.source.write(path, "---\n".join(documents))

    def commit(self) -> dict[str, Any]:
        """Commit what was written, and wait for the run."""
        return self.daemon.run_of(self.name, self.source.commit())

    def head(self) -> dict[str, Any]:
        """The run of the present head."""
        return self.daemon.run_of(self.name, self.source.head())

    def approve(self) -> dict[str, Any]:
        """Let go what is held at the head, and wait for the run."""
        answer = self.daemon.post(f"/v1/repositories/{self.name}/approve", {"commit": self.source.head()})
        assert answer.status == 202, answer
        return self.daemon.finished(answer.body["run"])

    def state(self) -> dict[str, Any]:
        """The repository as the API shows it."""
        return self.daemon.repository(self.name)

    def destination(self, name: str) -> dict[str, Any] | None:
        """A Destination of its project, or None."""
        return self.daemon.resource("Destination", name, project=self.project)

    def names(self) -> list[str]:
        """The names of the Destinations of its project."""
        found = self.daemon.resources("Destination", project=self.project)
        return [str(one["metadata"]["name"]) for one in found]

    def versions(self) -> dict[str, int]:
        """The versions of the Destinations of its project."""
        found = self.daemon.resources("Destination", project=self.project)
        return {str(one["metadata"]["name"]): int(one["metadata"]["version"]) for one in found}


def destination(name: str, description: str = "", **metadata: object) -> str:
    """A document: six lines of YAML."""
    rest = "".join(f", {key}: {json.dumps(value)}" for key, value in metadata.items())
    return (
        "apiVersion: service/v1\n"
        "kind: Destination\n"
        "metadata:\n"
        f"  {{name: {name}, description: {json.dumps(description)}{rest}}}\n"
        "spec:\n"
        "  type: otlp\n"
    )


def asked(name: str, description: str = "", **spec: object) -> dict[str, Any]:
    """The resource that `destination` writes, for the API."""
    return {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": name, "description": description},
        "spec": {"type": "otlp", **spec},
    }


def statuses(run: Mapping[str, Any]) -> dict[str, str]:
    """The statuses of a run by name."""
    return {str(status["name"]): str(status["status"]) for status in run["statuses"]}


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    repositories: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str | Path] = (),
    program: Path = COMMAND,
    is_started: bool = False,
    has_real_reader: bool = False,
) -> Iterator[Daemon]:
    """A daemon that answers, for as long as the context lasts."""
    daemon = Daemon(
        folder,
        repositories=repositories,
        settings=settings,
        environment=environment,
        prefix=prefix,
        program=program,
        is_started=is_started,
        has_real_reader=has_real_reader,
    )
    try:
        yield daemon.start()
    finally:
        end(daemon)


def end(daemon: Daemon) -> None:
    """Stop a daemon in whatever state it is in, so that no test leaves a process behind; and see what it wrote."""
    with contextlib.suppress(AttributeError):  # it was never launched
        try:
            daemon.stop()
        except subprocess.TimeoutExpired:
            daemon.kill()
    if daemon.log.exists():
        assert canaries.leaks(daemon.log.read_bytes()) == []


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
