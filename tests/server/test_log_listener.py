"""`delivery.otlpListen`: a second listener, that takes log records in and does nothing else."""

import json
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import daemons, otlp_client
from tests.daemons import Answer, Daemon
from tests.delivery.otlp import requests
from tests.servers.certificates import Authority

PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Second:
    """A daemon's listener for log records, to ask as one asks a daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.address = address(daemon)
        self.port = int(self.address.rpartition(":")[2])

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request with the daemon's key."""
        main = self.daemon.port
        self.daemon.port = self.port
        try:
            key = {"Authorization": f"Bearer {self.daemon.key}", "Content-Type": "application/json"}
            return self.daemon.ask(method, path, body, {**key, **headers})
        finally:
            self.daemon.port = main


def address(daemon: Daemon) -> str:
    """Return where it listens for log records, as its log says."""
    return str(next(line["logAddress"] for line in reversed(daemon.lines()) if "logAddress" in line))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Second]:
    settings = {"delivery": {"otlpListen": "127.0.0.1:0", "drainTimeout": "2s"}}
    with daemons.running(tmp_path_factory.mktemp("listener"), settings=settings) as daemon:
        yield Second(daemon)


def test_its_address_is_logged(second: Second) -> None:
    said = [str(line["message"]) for line in second.daemon.lines()]
    assert f"Listening for log records on {second.address}." in said
    assert second.address == f"http://127.0.0.1:{second.port}"
    assert second.port != second.daemon.port


def test_it_takes_log_records_and_serves_nothing_else(second: Second) -> None:
    record = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "a line"}}]}]}]}
    body = json.dumps(record).encode()

    def taken() -> Answer | None:
        answer = second.ask("POST", "/v1/logs", body)
        return None if answer.status == 503 else answer  # until what the project routes is read

    answer = daemons.until(taken, "log records are taken in")
    assert (answer.status, answer.body["partialSuccess"]["rejectedLogRecords"]) == (200, "1")
    assert second.ask("GET", "/livez").status == 200
    for method, path in (
        ("GET", "/v1/me"),
        ("GET", "/readyz"),
        ("GET", "/v1/resources/Destination"),
        ("POST", "/v1/apply"),
    ):
        assert second.ask(method, path, b"{}").status == 404
    assert second.ask("POST", "/v1/logs", b"{}", Authorization="Bearer canary-wrong").status == 401


def test_both_listeners_take_log_records(second: Second) -> None:
    batch = otlp_client.records("one", "two")
    for url in (second.address, f"http://127.0.0.1:{second.daemon.port}"):
        assert otlp_client.send(url, batch, key=second.daemon.key)


def test_nothing_of_a_body_or_a_header_is_in_the_log(second: Second) -> None:
    line = "canary-of-a-body"
    body = requests.request(requests.group(line, service="canary-of-a-resource"))
    headers = {**PROTOBUF, "X-Something": "canary-of-a-header"}
    for content in (body, body[:-1], body.replace(b"of", b"\xff\xff"), b"canary-" * 1_000):
        with socket.create_connection(("127.0.0.1", second.port), timeout=10) as client:
            named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nX-Service-Api-Key: {second.daemon.key}\r\n{named}"
            client.sendall(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
            status = client.recv(65_536).split(b" ")[1]
            assert status in (b"200", b"400")
    assert b"canary-of" not in second.daemon.log.read_bytes()


def test_an_address_that_is_taken_refuses_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = Daemon(tmp_path / "daemon", settings={"delivery": {"otlpListen": at}})
        daemon.launch()
        try:
            assert daemon.process.wait(daemons.STOP_SECONDS) != 0
        finally:
            daemons.end(daemon)
    sentence = f"annot listen on {at} (Address already in use); choose another address with `delivery.otlpListen`"
    assert sentence in daemon.output()


def test_it_shows_the_certificate_and_after_a_reload_another_one(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    first = authority.issue(name="first")
    settings: dict[str, Any] = {
        "delivery": {"otlpListen": "127.0.0.1:0"},
        "tls": {"certFile": str(first.chain), "keyFile": str(first.key)},
    }
    daemon = Daemon(tmp_path / "daemon", settings=settings)
    daemon.tls = ssl.create_default_context(cafile=authority.bundle)
    try:
        daemon.start()
        port = int(address(daemon).rpartition(":")[2])
        assert address(daemon).startswith("https://")
        assert _shown(port, daemon.tls) == _shown(daemon.port, daemon.tls)
        before = _shown(port, daemon.tls)
        authority.issue(name="first")
        assert daemon.reload().startswith("Reloaded the settings")
        assert _shown(port, daemon.tls) == _shown(daemon.port, daemon.tls) != before
    finally:
        daemons.end(daemon)


def _shown(port: int, tls: ssl.SSLContext) -> bytes | None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        tls.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        return client.getpeercert(binary_form=True)


def test_a_stop_lets_what_it_is_taking_in_end(tmp_path: Path) -> None:
    content = requests.request(requests.group("one"))
    settings = {"delivery": {"otlpListen": "127.0.0.1:0", "drainTimeout": "10s"}}
    with daemons.running(tmp_path / "daemon", settings=settings) as daemon:
        with socket.create_connection(("127.0.0.1", int(address(daemon).rpartition(":")[2])), timeout=10) as client:
            head = f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nX-Service-Api-Key: {daemon.key}\r\n"
            kind = f"Content-Type: {PROTOBUF['Content-Type']}\r\nContent-Length: {len(content)}\r\n\r\n"
            client.sendall(f"{head}{kind}".encode() + content[:10])
            _until_it_is_asked(daemon)
            stopping = threading.Thread(target=daemon.stop, args=(signal.SIGTERM,))
            stopping.start()
            daemons.until(lambda: _says(daemon, "Stopping."), "the stop has begun")
            client.sendall(content[10:])
            # Answered, by a delivery that is ending itself: what it takes no more, the sender keeps.
            assert client.recv(65_536).split(b" ")[1] in (b"200", b"503")
        stopping.join(daemons.STOP_SECONDS)
        assert daemon.process.returncode == 0


def _until_it_is_asked(daemon: Daemon) -> None:
    """The request that was begun before this one is under way when this one is answered."""
    assert daemon.get("/v1/version").status == 200


def _says(daemon: Daemon, message: str) -> bool:
    return any(line.get("message") == message for line in daemon.lines())
