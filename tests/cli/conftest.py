"""Parts of the tests of the command line: the real program in a process, and a small server with canned answers."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests import canaries
from tests.cli import forking
from tests.daemons import Daemon
from tests.repositories import Repository

PROGRAM = Path(sys.executable).parent / "reconciler"
TIME_LIMIT = 30  # seconds; a command that takes so long hangs


class Outcome(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass
class Program:
    """The installed program, in a folder of its own and with an environment of the test's alone.

    `is_started`: each command is a start of Python, which takes ten times as long; else see `forking`.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    is_started: bool = False

    def __call__(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Outcome:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ran = self._run(arguments, given, self.variables(environment))
        assert canaries.leaks(ran.stdout + ran.stderr) == []
        return Outcome(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    def _run(
        self, arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        if not self.is_started and forking.can_run(environment):
            return forking.run(
                PROGRAM, arguments, stdin=stdin, folder=self.folder, environment=environment, seconds=TIME_LIMIT
            )
        return subprocess.run(
            [str(PROGRAM), *arguments],
            input=stdin,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            timeout=TIME_LIMIT,
            check=False,
        )

    def answered(self, answer: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """A command on a terminal, where somebody types this."""
        terminal, its = os.openpty()
        try:
            os.write(terminal, answer)
            return forking.run(
                PROGRAM,
                arguments,
                stdin=its,
                folder=self.folder,
                environment=self.variables({}),
                seconds=TIME_LIMIT,
            )
        finally:
            os.close(its)
            os.close(terminal)

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONWARNINGS": "error"}
        return {**own, **self.environment, **more}

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@dataclass
class Scene:
    """A daemon that follows one repository, and the program to look at it."""

    daemon: Daemon
    source: Repository
    program: Program

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        return self.program(*arguments, stdin=stdin)


class Request(NamedTuple):
    """A request that a command sent."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Service:
    """A server with canned answers; several for the same request are given one after the other, the last for ever."""

    url: str = ""
    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    retry_after: str = ""  # a header of every answer, unless it is empty

    def answer(self, request: str, body: object, status: int = 200) -> None:
        """Return what `GET /v1/...` gets."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.setdefault(request, []).append((status, data))

    def refuse(self, request: str, *sentences: str, status: int, code: str) -> None:
        """The request gets these errors, each with the code."""
        self.answer(request, {"errors": sentences, "codes": [code] * len(sentences)}, status)

    def given(self, request: Request) -> tuple[int, bytes]:
        self.requests.append(request)
        found = self.answers.get(f"{request.method} {request.path}")
        if found is None:
            return 404, json.dumps({"errors": [f"{request.path} is not here"], "codes": ["not-found"]}).encode()
        return found.pop(0) if len(found) > 1 else found[0]


def handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(data) if data else None
            request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            status, answer = service.given(request)
            self.send_response(status)
            if service.retry_after:
                self.send_header("Retry-After", service.retry_after)
            if status != 204:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if status != 204:
                self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    return Handler


@pytest.fixture
def service() -> Iterator[Service]:
    """A server on a free port of this machine."""
    canned = Service()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(canned))
    server.daemon_threads = True
    canned.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="canned-service")
    thread.start()
    try:
        yield canned
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def alone(tmp_path: Path) -> Program:
    """The program without a server."""
    return Program(tmp_path)


@pytest.fixture
def started(tmp_path: Path) -> Program:
    """The program without a server, started anew for each command."""
    return Program(tmp_path, is_started=True)


@pytest.fixture
def program(tmp_path: Path, service: Service) -> Program:
    """The program, with the server that `service` is."""
    return Program(tmp_path, {"SERVICE_SERVER": service.url, "SERVICE_API_KEY": "k" * 32})
