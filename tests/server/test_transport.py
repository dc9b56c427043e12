"""Certificates, host names, clients' addresses and sign-ins, asked of a real daemon over real sockets."""

import base64
import contextlib
import json
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api import responses as answer_headers
from reconciler.model import errors
from reconciler.server import serving, sign_in
from tests import daemons, needs
from tests.daemons import Daemon

LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_SECONDS = 2.0  # in which the loop answers while passwords are compared; a blocked one would take longer
AT_ONCE = 20
GUESSES = 30  # more than an address has
NOT_OURS = "This service asks nobody who they are, and answers to its own host names alone: "


class Authority:
    """Certificates for this machine, each its own authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str, *kind: str) -> dict[str, str]:
        """A new certificate with its key, as the settings name them; `kind` is openssl's of the key."""
        chain, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = [needs.require("openssl"), "req", "-x509", "-newkey", *(kind or EC), *names, "-nodes", "-days", "1"]
        files = ["-keyout", str(key), "-out", str(chain)]
        subprocess.run([*command, *files], check=True, capture_output=True, timeout=30)
        return {"certFile": str(chain), "keyFile": str(key)}

    def install(self, name: str, place: Mapping[str, str]) -> None:
        """Put a certificate and its key where another pair is, as whoever renews them does."""
        for source, target in ((f"{name}.pem", place["certFile"]), (f"{name}.key", place["keyFile"])):
            (self.folder / source).rename(target)


EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA = ("rsa:2048",)


@contextlib.contextmanager
def connected(
    daemon: Daemon, *, version: ssl.TLSVersion | None = None, ciphers: str = "ALL"
) -> Iterator[socket.socket]:
    """One connection that takes any certificate; of at most a version, and with these ciphers then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, version
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with (
        socket.create_connection((daemon.host, daemon.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=daemon.host) as client,
    ):
        yield client


def is_live(client: socket.socket) -> bool:
    """Return True when a connection is answered."""
    client.sendall(LIVE)
    received = b""
    while not received.endswith(b'{"status":"live"}'):
        piece = client.recv(1_000)
        assert piece
        received += piece
    return received.startswith(b"HTTP/1.1 200 ")


def shown(daemon: Daemon, *, version: ssl.TLSVersion | None = None, ciphers: str = "ALL") -> str:
    """The certificate that a new connection is shown, PEM."""
    with connected(daemon, version=version, ciphers=ciphers) as client:
        certificate = client.getpeercert(binary_form=True)  # type: ignore[attr-defined]
    return ssl.DER_cert_to_PEM_cert(certificate)


def pem(chain: str) -> str:
    """The certificate in a file, in the same form."""
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(Path(chain).read_text()))


def test_a_reload_shows_the_renewed_certificate_and_keeps_one_that_works(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    first = authority.make("first", *RSA)
    authority.make("second")
    other = authority.make("other")
    daemon = Daemon(tmp_path / "daemon", settings={"tls": first})
    daemon.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    daemon.tls.check_hostname, daemon.tls.verify_mode = False, ssl.CERT_NONE
    try:
        daemon.start()
        before = pem(first["certFile"])
        assert shown(daemon) == before
        with connected(daemon) as open_one:
            authority.install("second", first)  # a key of another kind, at the same place
            assert shown(daemon) == before  # nobody has told the daemon
            assert daemon.reload() == "Reloaded the settings; watching nothing."
            second = pem(first["certFile"])
            assert [shown(daemon), shown(daemon, version=ssl.TLSVersion.TLSv1_2)] == [second, second]
            with pytest.raises(ssl.SSLError):
                shown(daemon, version=ssl.TLSVersion.TLSv1_2, ciphers="aRSA")  # the old one is gone, not beside it
            assert is_live(open_one)

            Path(first["certFile"]).write_text("no certificate")
            told = (
                f"The settings were not reloaded: The certificate {first['certFile']} with the key {first['keyFile']}"
            )
            assert daemon.reload().startswith(f"{told} cannot be used (")
            assert shown(daemon) == second
            Path(first["certFile"]).write_text(Path(other["certFile"]).read_text())  # not this key's
            assert daemon.reload().startswith(f"{told} cannot be used (")
            assert shown(daemon) == second

            daemon.configure([], tls=other)
            assert daemon.reload() == "Reloaded the settings; watching nothing."
            assert shown(daemon) == pem(other["certFile"])
            assert is_live(open_one)

        assert [line for line in daemon.complaints() if line.endswith(" to take effect.")] == []
        daemon.configure([], tls={})
        assert daemon.reload() == "Reloaded the settings; watching nothing."
        told = "tls.certFile, tls.keyFile need a restart to take effect."
        daemons.until(lambda: daemon.complaints()[-1] == told, "it says that TLS stays")
        assert shown(daemon) == pem(other["certFile"])
    finally:
        daemons.end(daemon)


@pytest.mark.parametrize(
    ("chain", "key", "reason"),
    [
        ("first.pem", "second.key", "the key is not this certificate's"),
        ("text", "first.key", "one of them is not PEM, or the key has a password"),
        ("first.pem", "text", "one of them is not PEM, or the key has a password"),
        ("first.pem", "missing", "{folder}/missing: No such file or directory"),
        ("missing", "first.key", "{folder}/missing: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_told_in_words(tmp_path: Path, chain: str, key: str, reason: str) -> None:
    for name in ("first", "second"):
        Authority(tmp_path).make(name)
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(errors.Refused) as caught:
        serving.read_certificate(serving.Certificate(tmp_path / chain, tmp_path / key))
    files, why = f"{tmp_path / chain} with the key {tmp_path / key}", reason.format(folder=tmp_path)
    assert str(caught.value) == (
        f"The certificate {files} cannot be used ({why}); mend `tls.certFile` or `tls.keyFile`."
    )


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_a_certificate_is_used_old_versions_of_tls_and_plain_http_are_refused_and_browsers_told_to_stay(
    tmp_path: Path,
) -> None:
    settings = {"tls": Authority(tmp_path).make("only"), "webURL": "https://telemetry.example"}
    daemon = Daemon(tmp_path / "daemon", settings=settings)
    daemon.tls = ssl.create_default_context(cafile=settings["tls"]["certFile"])  # type: ignore[index]
    try:
        daemon.start()
        address = next(line["address"] for line in daemon.lines() if "address" in line)
        assert address == f"https://127.0.0.1:{daemon.port}"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shown(daemon, version=ssl.TLSVersion.TLSv1_1)
        with connected(daemon, version=ssl.TLSVersion.TLSv1_2) as client:
            assert client.version() == "TLSv1.2"  # type: ignore[attr-defined]
            name, _, _ = client.cipher()  # type: ignore[attr-defined]
            assert "GCM" in name or "CHACHA20" in name
        with socket.create_connection((daemon.host, daemon.port), timeout=10) as plain:
            plain.sendall(LIVE)
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")
        assert daemon.get("/v1/repositories").body == {"repositories": []}
        answer = daemon.get("/livez")
        assert answer.headers["strict-transport-security"] == answer_headers.HSTS[1].decode()
    finally:
        daemons.end(daemon)


# Without sign-in


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks nobody who they are."""
    settings = {"auth": {"type": "none"}, "webURL": "https://telemetry.example"}
    with daemons.running(tmp_path_factory.mktemp("none") / "daemon", settings=settings) as daemon:
        yield daemon


def ask(daemon: Daemon, target: str, *lines: str) -> tuple[int, str]:
    """One request with exactly these header lines: its status, and its first error."""
    head = "\r\n".join([f"{target} HTTP/1.1", *lines, "Connection: close", "", ""])
    with socket.create_connection((daemon.host, daemon.port), timeout=10) as client:
        client.sendall(head.encode("latin-1"))
        received = bytearray()
        while piece := client.recv(65_536):
            received += piece
    status, _, body = received.partition(b"\r\n\r\n")
    return int(status.split(b" ")[1]), json.loads(body).get("errors", [""])[0]


@pytest.mark.parametrize(
    ("target", "lines", "status"),
    [
        ("GET /v1/users", ["Host: localhost:1"], 200),
        ("GET /v1/users", ["Host: telemetry.example"], 200),
        ("GET /v1/users", ["host:127.0.0.1"], 200),
        ("GET http://localhost:3001/v1/users", ["Host: attacker.example"], 200),  # that host counts which is asked
        ("GET http://[::1]:3001/v1/users", ["Host: attacker.example"], 200),
        ("GET /v1/users", ["Host: attacker.example"], 403),
        ("GET /livez", ["Host: attacker.example"], 403),
        ("GET /v1/users", [], 403),
        ("GET /v1/users", ["Host: localhost", "Host: attacker.example"], 403),
        ("GET http://attacker.example/v1/users", ["Host: localhost"], 403),
        ("GET http://attacker.example:3001/v1/users", [], 403),
        ("GET http://localhost@attacker.example/v1/users", ["Host: localhost"], 403),
        ("GET HTTP://ATTACKER.EXAMPLE/livez", ["Host: localhost"], 403),
        ("GET /v1/users", ["Host: attacker.example", "X-Forwarded-Host: localhost"], 403),
        ("DELETE /v1/users/una", ["Host: localhost", "Sec-Fetch-Site: cross-site"], 403),
        ("DELETE /v1/users/una", ["Host: localhost", "Origin: http://attacker.example"], 403),
        ("DELETE /v1/users/una", ["Host: localhost"], 404),
    ],
)
def test_without_sign_in_only_our_own_names_and_pages_are_answered(
    target: str, lines: list[str], status: int, local: Daemon
) -> None:
    found, told = ask(local, target, *lines)
    assert found == status
    if status == 403:
        assert told.startswith((NOT_OURS, "A browser sent this for a page of another site"))


def test_the_start_says_which_doors_are_open(local: Daemon) -> None:
    daemons.until(lambda: any("No repository" in message for message in local.messages()), "all is said")
    assert [message for message in local.messages() if "may do everything" in message] == [
        "SERVICE_API_KEY is set: whoever has it may do everything. Make a key for each use with "
        "`reconciler key create`, and unset it.",
        f"auth.type is none: whoever can reach http://127.0.0.1:{local.port} may do everything.",
    ]


def test_tls_that_comes_with_a_reload_waits_for_a_restart(local: Daemon, tmp_path: Path) -> None:
    local.configure([], tls=Authority(tmp_path).make("late"))
    assert local.reload() == "Reloaded the settings; watching nothing."
    told = "tls.certFile, tls.keyFile need a restart to take effect."
    daemons.until(lambda: local.complaints()[-1] == told, "it says that there is no TLS yet")
    assert local.get("/livez").status == 200


# Passwords


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def statuses(daemon: Daemon, addresses: list[str]) -> list[int]:
    """Return what wrong passwords for the admin are answered, each said to come from an address."""
    wrong = basic(sign_in.NAME, "a guess of somebody")
    return [daemon.ask("GET", "/v1/me", None, {**wrong, "X-Forwarded-For": one}).status for one in addresses]


def test_guesses_are_counted_by_the_address_that_a_trusted_proxy_says_and_by_no_other(tmp_path: Path) -> None:
    addresses = [f"192.0.2.{number}" for number in range(7)]
    with daemons.running(tmp_path / "plain") as daemon:
        assert statuses(daemon, addresses) == [401] * 5 + [429] * 2
    with daemons.running(tmp_path / "proxied", settings={"trustedProxies": ["127.0.0.1"]}) as daemon:
        assert statuses(daemon, addresses) == [401] * 7
        assert statuses(daemon, addresses[:1] * 6) == [401] * 4 + [429] * 2
        assert statuses(daemon, ["203.0.113.1, 192.0.2.0", "192.0.2.0, 203.0.113.1"]) == [429, 401]
        right = basic(sign_in.NAME, (daemon.state / sign_in.FILE).read_text().strip())
        for address, status in (("192.0.2.0", 429), ("198.51.100.1", 200)):
            answer = daemon.ask("GET", "/v1/me", None, {**right, "X-Forwarded-For": address})
            assert answer.status == status
            assert ("retry-after" in answer.headers) is (status == 429)


def test_many_sign_ins_at_once_are_answered_and_hold_up_nobody(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon, ThreadPoolExecutor(GUESSES) as threads:
        right = basic(sign_in.NAME, (daemon.state / sign_in.FILE).read_text().strip())
        wrong = [basic(f"nobody{number}", "a guess") for number in range(GUESSES)]
        for each, expected in (([right] * AT_ONCE, {200}), (wrong, {401, 429})):
            asked = [threads.submit(daemon.ask, "GET", "/v1/me", None, shown) for shown in each]
            longest = 0.0
            while not all(one.done() for one in asked):
                begun = time.monotonic()
                assert daemon.get("/livez").status == 200
                longest = max(longest, time.monotonic() - begun)
            assert {one.result().status for one in asked} == expected
            assert longest < PATIENCE_SECONDS
        assert daemon.stop(signal.SIGTERM) == 0
