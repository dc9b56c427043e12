"""Promises of the servers to the tests, asked by git itself: each serves, fails as told, and ends whole."""

import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests import daemons
from tests.repositories import Repository
from tests.servers import chaos, forward, gitd, https, loops, processes, ssh
from tests.servers.certificates import Authority

NAME = "telemetry.git"
PASSWORD = "canary-password"


def ask(url: str, *options: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Return what `git ls-remote` says, with nothing of the machine's configuration."""
    clean = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
    }
    command = ["git", *options, "ls-remote", "--", url]
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, timeout=30, check=False)


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with one bare repository of one commit."""
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", "kind: Destination")
    source.commit()
    source.bare(tmp_path / "served" / NAME)
    return tmp_path / "served"


def left() -> tuple[list[int], int]:
    """The processes and threads that this one has started."""
    return processes.descendants(os.getpid()), threading.active_count()


@pytest.mark.slow
def test_https_serves_who_trusts_it_and_signs_in_and_notes_what_was_shown(served: Path, tmp_path: Path) -> None:
    before = left()
    authority = Authority.make(tmp_path / "authority")
    trust = ("-c", f"http.sslCAInfo={authority.bundle}")
    with https.serving(served, certificate=authority.issue(), basic=("ada", PASSWORD)) as server:
        assert ask(server.url()).returncode == 128
        assert server.requests == []
        assert ask(server.url(), *trust).returncode == 128
        inside = f"https://ada:{PASSWORD}@127.0.0.1:{server.port}/{NAME}"
        assert ask(inside, *trust).stdout.endswith(b"\trefs/heads/main\n")
        server.basic, server.bearer = None, PASSWORD
        bearer = ("-c", f"http.extraHeader=Authorization: Bearer {PASSWORD}")
        assert ask(server.url(), *trust, *bearer).stdout.endswith(b"\trefs/heads/main\n")
        assert {str(shown).partition(" ")[0] for shown in server.authorizations()} == {"None", "Basic", "Bearer"}
    assert left() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (https.Refusal(401), b"could not read Username"),
        (https.Refusal(403), b"403"),
        (https.Refusal(404), b"not found"),
        (https.too_many(seconds=7), b"429"),
        (https.too_many(status=503), b"503"),
        (https.redirect("http://127.0.0.1:1/"), b"127.0.0.1"),
    ],
)
def test_http_refuses_as_it_is_told_and_serves_again(served: Path, refusal: https.Refusal, words: bytes) -> None:
    with https.serving(served) as server:
        server.refusal = refusal
        assert words in ask(server.url()).stderr
        server.refusal = None
        assert ask(server.url()).returncode == 0
        assert server.requests[0].query == "service=git-upload-pack"


@pytest.mark.slow
@pytest.mark.parametrize("hashed", [False, True])
def test_ssh_lets_in_whom_it_is_told_to_and_shows_its_key(served: Path, tmp_path: Path, hashed: bool) -> None:
    before = left()
    key = ssh.make_key(tmp_path / "key")
    with ssh.serving(tmp_path / "sshd", authorized=[key]) as server:
        hosts = server.known_hosts(tmp_path / "known_hosts", hashed=hashed)
        options = f"-F none -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile={hosts} -i {key.private}"
        url = server.url(served / NAME)
        done = ask(url, GIT_SSH_COMMAND=f"ssh {options}")
        assert done.stdout.endswith(b"\trefs/heads/main\n"), done.stderr
        server.authorize()
        assert b"Permission denied" in ask(url, GIT_SSH_COMMAND=f"ssh {options}").stderr
        server.known_hosts(hosts, key=key)
        assert b"Host key verification failed" in ask(url, GIT_SSH_COMMAND=f"ssh {options}").stderr
        assert (server.accepted(), server.connections() >= 3) == (1, True)
    assert left() == before


@pytest.mark.slow
def test_git_daemon_serves_and_ends_with_its_child(served: Path, tmp_path: Path) -> None:
    before = left()
    with gitd.serving(served, log=tmp_path / "log") as server:
        assert ask(server.url()).stdout.endswith(b"\trefs/heads/main\n")
        assert len(processes.descendants(os.getpid())) >= len(before[0]) + 2
        assert daemons.until(lambda: server.requests() or None, "it notes the request") == 1
    assert left() == before


def receive(port: int) -> bytes:
    """All that comes on a new connection, after one byte is sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"?")
        received = b""
        while piece := client.recv(1000):
            received += piece
        return received


def test_chaos_passes_refuses_resets_stalls_trickles_and_cuts() -> None:
    before = left()
    with loops.listening(_says(b"x" * 5_000)) as listener, chaos.before(listener.port) as proxy:
        assert receive(proxy.port) == b"x" * 5_000
        proxy.fault = chaos.REFUSE
        with pytest.raises(ConnectionRefusedError):
            receive(proxy.port)
        for fault in (chaos.reset(), chaos.reset(after=100)):
            proxy.fault = fault
            with pytest.raises(ConnectionResetError):
                receive(proxy.port)
        proxy.fault = chaos.cut(after=1_234)
        assert receive(proxy.port) == b"x" * 1_234
        proxy.fault = chaos.cut()
        assert receive(proxy.port) == b""
        proxy.fault = chaos.trickle(1_000, after=4_800)
        begun = time.monotonic()
        assert receive(proxy.port) == b"x" * 5_000
        assert time.monotonic() - begun > 0.15
        proxy.fault = chaos.stall(after=10)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
            client.sendall(b"?")
            assert client.recv(1000) == b"x" * 10
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(1000)
            assert (proxy.open, proxy.stalled) == (1, 1)
        proxy.fault = chaos.PASS
        assert receive(proxy.port) == b"x" * 5_000
        assert proxy.connections == 8
    assert left() == before


def test_the_forward_proxy_connects_or_refuses_and_notes_the_targets(served: Path, tmp_path: Path) -> None:
    before = left()
    authority = Authority.make(tmp_path / "authority")
    with https.serving(served, certificate=authority.issue()) as server, forward.proxying() as proxy:
        options = ("-c", f"http.sslCAInfo={authority.bundle}", "-c", f"http.proxy={proxy.url}")
        assert ask(server.url(), *options).returncode == 0
        for status in (407, 502):
            proxy.status = status
            assert f"response {status}".encode() in ask(server.url(), *options).stderr
        assert set(proxy.targets) == {f"127.0.0.1:{server.port}"}
    assert left() == before


def _says(data: bytes) -> loops.Handler:
    async def handle(reader, writer):  # type: ignore[no-untyped-def]
        await reader.read(1)
        writer.write(data)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    return handle
