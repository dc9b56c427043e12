"""`git http-backend` behind HTTPS or plain HTTP: the smart protocol as forges speak it, with sign-in and refusals.

    with https.serving(folder, certificate=authority.issue(), basic=("ada", "canary-password")) as server:
        server.url("telemetry.git")              # https://127.0.0.1:<port>/telemetry.git
        server.refusal = https.too_many(seconds=3)   # from the next request on
        server.requests[-1].headers["authorization"]

Everything may be changed while it runs: `basic`, `bearer`, `refusal`. Each connection has a thread, which ends with it.
"""

import base64
import contextlib
import gzip
import http.client
import http.server
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import IO, Any

from tests import needs
from tests.servers.certificates import Certificate
from tests.servers.processes import ADDRESS

IDLE_SECONDS = 60.0  # a connection on which nothing comes for so long is closed
CHUNK_BYTES = 64 * 1024
GZIP = b"\x1f\x8b"
COMMAND = re.compile(rb"command=([a-z-]+)")


@dataclass(frozen=True, slots=True)
class Request:
    """A request; the names of headers are small. `at`: on the monotonic clock, in seconds."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    at: float
    body: bytes = field(default=b"", repr=False)  # as it came, mostly compressed when it is long

    @property
    def command(self) -> str:
        """Return what the second version of git's protocol calls it: `ls-refs` or `fetch`; empty for anything else."""
        found = COMMAND.search(gzip.decompress(self.body) if self.body.startswith(GZIP) else self.body)
        return found[1].decode() if found else ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer instead of the repository's. `only`: to requests in whose target this occurs, and of these to each
    second, fourth and so on with `every` 2.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    only: str = ""
    every: int = 1


def too_many(*, seconds: int | None = None, until: datetime | None = None, status: int = 429) -> Refusal:
    """429 (or 503) with `Retry-After` in seconds, as a date, or without it. The date is in UTC."""
    if seconds is not None:
        return Refusal(status, {"Retry-After": str(seconds)})
    return Refusal(status, {} if until is None else {"Retry-After": format_datetime(until, usegmt=True)})


def redirect(location: str, *, status: int = 302) -> Refusal:
    """Send the client elsewhere."""
    return Refusal(status, {"Location": location})


@dataclass
class Server:
    """A server that runs. Who may read: anybody, who signs in with `basic` (name, password), who shows `bearer`."""

    folder: Path
    scheme: str
    basic: tuple[str, str] | None = None
    bearer: str | None = None
    refusal: Refusal | None = None
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    def url(self, name: str = "telemetry.git", *, host: str = ADDRESS, port: int | None = None) -> str:
        """The URL of a repository beneath the folder; `port` is that of a proxy before the server."""
        return f"{self.scheme}://{host}:{self.port if port is None else port}/{name}"

    def refuses(self, target: str) -> bool:
        """Return True when the request that was noted last gets the refusal."""
        refusal = self.refusal
        if refusal is None or refusal.only not in target:
            return False
        matching = sum(refusal.only in f"{one.path}?{one.query}" for one in self.requests)
        return matching % refusal.every == 0

    def admits(self, authorization: str | None) -> bool:
        """Return True when who shows this header may read."""
        if self.bearer is not None:
            return authorization == f"Bearer {self.bearer}"
        if self.basic is not None:
            return authorization == "Basic " + base64.b64encode(":".join(self.basic).encode()).decode()
        return True

    def fetches(self) -> int:
        """How often objects were asked for, as opposed to what there is."""
        return sum(request.command == "fetch" for request in self.requests)

    def authorizations(self) -> list[str | None]:
        """Return what each request showed, in order."""
        return [request.headers.get("authorization") for request in self.requests]


class _Listening(http.server.ThreadingHTTPServer):
    """The listening socket and its connections. The handshake is each connection's own matter: one that never ends
    keeps nobody else waiting.
    """

    daemon_threads = False
    block_on_close = True  # no thread is left when it is closed
    request_queue_size = 256

    def __init__(self, server: Server, context: ssl.SSLContext | None) -> None:
        super().__init__((ADDRESS, 0), _Handler)
        self.described = server
        self._context = context
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        connection: socket.socket = request
        if self._context is not None:
            connection = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        connection.settimeout(IDLE_SECONDS)
        with self._lock:
            self._connections.add(connection)
        try:
            if self._shaken(connection):
                _Handler(connection, client_address, self)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no error of ours."""

    def server_close(self) -> None:
        """Cut what is connected, and wait for the threads."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def _shaken(self, connection: socket.socket) -> bool:
        """Return True when the client takes our certificate; without one there is nothing to take."""
        if not isinstance(connection, ssl.SSLSocket):
            return True
        try:
            connection.do_handshake()
        except OSError:
            return False
        return True


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, many requests."""

    protocol_version = "HTTP/1.1"
    server: _Listening

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is the library's
        """Nothing: what came is in `requests`."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        server = self.server.described
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        path, _, query = self.path.partition("?")
        server.requests.append(Request(self.command, path, query, headers, time.monotonic(), body))
        refusal = server.refusal
        if refusal is not None and server.refuses(self.path):
            self._refuse(refusal)
        elif server.admits(headers.get("authorization")):
            self._serve(server, path, query, body)
        else:
            scheme = "Basic" if server.bearer is None else "Bearer"
            self._refuse(Refusal(401, {"WWW-Authenticate": f'{scheme} realm="git"'}))

    def _refuse(self, refusal: Refusal) -> None:
        self.send_response(refusal.status)
        for name, value in refusal.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(refusal.body)))
        self.end_headers()
        self.wfile.write(refusal.body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _serve(self, server: Server, path: str, query: str, body: bytes) -> None:
        """Let git answer, and pass that on as it comes."""
        environment = _environment(server.folder) | {
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        command = [needs.require("git"), "http-backend"]
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as backend:
            assert backend.stdin is not None
            assert backend.stdout is not None
            try:
                with contextlib.suppress(BrokenPipeError):
                    backend.stdin.write(body)
                    backend.stdin.close()
                self._pass_on(backend.stdout)
            finally:
                backend.kill()

    def _pass_on(self, answer: IO[bytes]) -> None:
        headers = http.client.parse_headers(answer)
        self.send_response(int(headers.get("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            if name not in {"Status", "Content-Length"}:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while chunk := answer.read(CHUNK_BYTES):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")


def _environment(folder: Path) -> dict[str, str]:
    """Git of the server reads no configuration of whoever runs the tests."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
    }


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    certificate: Certificate | None = None,
    basic: tuple[str, str] | None = None,
    bearer: str | None = None,
) -> Iterator[Server]:
    """Serve the bare repositories beneath a folder; over plain HTTP when there is no certificate."""
    server = Server(folder, "http" if certificate is None else "https", basic=basic, bearer=bearer)
    listening = _Listening(server, None if certificate is None else certificate.context())
    server.port = int(listening.server_address[1])
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), name="https server")
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
