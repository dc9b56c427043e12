"""The network fails between us and the server: what was last good stays, nothing goes, and it passes by itself."""

import contextlib
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import canaries, daemons
from tests.daemons import Daemon, until
from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Remote, Upstream, mirrors, secret_file
from tests.servers import chaos, gitd, https, processes, ssh
from tests.servers.certificates import Authority
from tests.servers.chaos import Fault, Proxy

pytestmark = pytest.mark.slow

PASSWORD = "canary-password"
BOTH = {"a": 1, "b": 1}
LARGE = 3_000_000  # bytes of a push that takes a while
INTO_IT = 400_000  # bytes of the server, well into that
PATIENCE = "3s"


@dataclass
class Route:
    """A server with a proxy before it, and how it is followed through that."""

    proxy: Proxy
    url: str
    credentials: dict[str, str]


Routes = Callable[[str], contextlib.AbstractContextManager[Route]]


@pytest.fixture
def route(authority: Authority, upstream: Upstream, tmp_path: Path) -> Routes:
    """A route over one of the transports, each with credentials where it has any."""

    @contextlib.contextmanager
    def over_https() -> Iterator[Route]:
        password = secret_file(tmp_path / "password", PASSWORD)
        with (
            https.serving(upstream.served, certificate=authority.issue(), basic=("ada", PASSWORD)) as server,
            chaos.before(server.port) as proxy,
        ):
            given = {"username": "ada", "passwordFile": str(password), "caFile": str(authority.bundle)}
            yield Route(proxy, server.url(port=proxy.port), given)

    @contextlib.contextmanager
    def over_ssh() -> Iterator[Route]:
        key = ssh.make_key(tmp_path / "key", passphrase="canary-passphrase")
        passphrase = secret_file(tmp_path / "passphrase", "canary-passphrase")
        with ssh.serving(tmp_path / "sshd", authorized=[key]) as server, chaos.before(server.port) as proxy:
            hosts = server.known_hosts(tmp_path / "known_hosts", port=proxy.port)
            given = {"sshKeyFile": key.private, "sshPassphraseFile": passphrase, "knownHostsFile": hosts}
            named = {name: str(value) for name, value in given.items()}
            yield Route(proxy, server.url(upstream.bare.path, port=proxy.port), named)

    @contextlib.contextmanager
    def over_git() -> Iterator[Route]:
        with gitd.serving(upstream.served, log=tmp_path / "gitd.log") as server, chaos.before(server.port) as proxy:
            yield Route(proxy, server.url(port=proxy.port), {})

    ways = {"https": over_https, "ssh": over_ssh, "git": over_git}
    return lambda transport: ways[transport]()


TRANSPORTS = ("https", "ssh", "git")
AT_ONCE = {
    "refuse": chaos.REFUSE,
    "reset": chaos.reset(),
    "stall": chaos.stall(),
    "cut": chaos.cut(),
    "trickle": chaos.trickle(40),
}
IN_THE_MIDDLE = {
    "reset": chaos.reset(after=INTO_IT),
    "stall": chaos.stall(after=INTO_IT),
    "cut": chaos.cut(after=INTO_IT),
    "trickle": chaos.trickle(2_000, after=INTO_IT),
}


def is_swept(remote: Remote) -> bool:
    """Return True when nothing that a killed fetch leaves is in the mirrors."""
    left = [file for mirror in mirrors(remote.daemon) for file in mirror.rglob("*") if "tmp_" in file.name]
    return left == []


def fails_and_passes(remote: Remote, way: Route, *, applied: str | None, then: str) -> None:
    """Every look fails, and what was last good stays; then the network works again, and what is wanted is read."""
    remote.fails("unreachable", way.url)
    kept = BOTH if applied else {}
    assert (remote.versions(), remote.shown()["commit"]) == (kept, applied)
    way.proxy.fault = chaos.PASS
    remote.reads(then)
    assert remote.versions() == ({**BOTH, "c": 1} if applied else BOTH)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", AT_ONCE.values(), ids=AT_ONCE)
def test_a_first_look_that_fails_is_told_and_made_again(
    *, route: Routes, upstream: Upstream, follow: Follow, transport: str, fault: Fault
) -> None:
    with route(transport) as way:
        way.proxy.fault = fault
        remote = follow(way.url, credentials=way.credentials, timeout=PATIENCE)
        fails_and_passes(remote, way, applied=None, then=upstream.source.head())


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", AT_ONCE.values(), ids=AT_ONCE)
def test_a_later_look_that_fails_leaves_what_was_last_good_and_passes(
    *, route: Routes, upstream: Upstream, follow: Follow, transport: str, fault: Fault
) -> None:
    with route(transport) as way:
        remote = follow(way.url, credentials=way.credentials, timeout=PATIENCE)
        first = upstream.source.head()
        remote.reads(first)
        way.proxy.fault = fault
        fails_and_passes(remote, way, applied=first, then=upstream.push())


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("fault", IN_THE_MIDDLE.values(), ids=IN_THE_MIDDLE)
def test_a_fetch_that_breaks_off_leaves_what_was_last_good_and_is_made_again(
    *, route: Routes, upstream: Upstream, follow: Follow, transport: str, fault: Fault
) -> None:
    with route(transport) as way:
        remote = follow(way.url, credentials=way.credentials, timeout=PATIENCE)
        first = upstream.source.head()
        remote.reads(first)
        way.proxy.fault = fault
        passed = way.proxy.bytes
        pushed = upstream.push(size=LARGE)
        remote.fails("unreachable", way.url)
        assert way.proxy.bytes - passed > INTO_IT / 2  # it was in the middle
        assert (remote.versions(), remote.shown()["commit"]) == (BOTH, first)
        assert is_swept(remote)
        way.proxy.fault = chaos.PASS
        remote.reads(pushed)
        assert remote.versions() == {**BOTH, "c": 1}
        assert is_swept(remote)


def test_a_slow_network_is_no_fault_as_long_as_it_is_in_time(
    *, route: Routes, upstream: Upstream, follow: Follow
) -> None:
    with route("https") as way:
        way.proxy.fault = chaos.trickle(20_000)
        remote = follow(way.url, credentials=way.credentials)
        remote.reads(upstream.source.head())


# What can be seen of a look while it lasts


def variables(process: int) -> dict[str, str]:
    """The environment that a process was started with."""
    pairs = (entry.partition(b"=") for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0") if entry)
    return {name.decode(): value.decode("utf-8", "replace") for name, _, value in pairs}


def own(daemon: Daemon) -> list[int]:
    """The processes of a look: all that came of the daemon, less its reader."""
    return [one for one in processes.descendants(daemon.process.pid) if one != daemon.reader()]


def asking(daemon: Daemon, command: bytes) -> list[int]:
    """The processes of looks that have this command of git among their arguments."""
    return [one for one in own(daemon) if command in _bytes(f"/proc/{one}/cmdline").split(b"\0")]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_look_shows_no_secret_to_who_lists_processes_and_has_an_environment_of_its_own(
    *, daemon: Daemon, route: Routes, upstream: Upstream, follow: Follow, transport: str
) -> None:
    with route(transport) as way:
        way.proxy.fault = chaos.stall(after=0 if transport == "git" else 500)
        remote = follow(way.url, credentials=way.credentials)
        until(lambda: way.proxy.stalled or None, "a look hangs")
        running = own(daemon)
        lines = [line for one in running for line in _bytes(f"/proc/{one}/cmdline").split(b"\0\0")]
        assert [line for line in lines if canaries.leaks(line)] == []
        assert [one for one in running if canaries.leaks(_bytes(f"/proc/{one}/environ"))] == []
        seen = variables(asking(daemon, b"ls-remote")[0])
        expected = {
            "GIT_ALLOW_PROTOCOL": transport,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        assert expected.items() <= seen.items()
        assert Path(seen["GIT_CONFIG_GLOBAL"]).is_relative_to(daemon.state)
        assert Path(seen["HOME"]).is_relative_to(daemon.state)
        assert [name for name in seen if name.startswith(("SERVICE_", "PYTHON", "SSH_AUTH_SOCK_"))] == []
        assert not {"SERVICE_API_KEY", "http_proxy", "https_proxy", "XDG_CONFIG_HOME"} & seen.keys()
        if transport == "ssh":
            _says_no_more_than_ssh_must_know(lines)
        way.proxy.fault = chaos.PASS
        way.proxy.drop()
        remote.reads(upstream.source.head())
        until(lambda: not asking(daemon, b"ls-remote") or None, "the look has ended")


def _says_no_more_than_ssh_must_know(lines: list[bytes]) -> None:
    [client] = [line.split(b"\0") for line in lines if line.split(b"\0")[0].endswith(b"ssh")]
    options = {option.decode() for option in client}
    assert client[client.index(b"-F") + 1] == b"none"
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ClearAllForwardings=yes"} <= options
    assert "ForwardAgent=yes" not in options


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_fetch_may_write_no_file_without_end(
    *, daemon: Daemon, route: Routes, upstream: Upstream, follow: Follow, transport: str
) -> None:
    with route(transport) as way:
        remote = follow(way.url, credentials=way.credentials)
        remote.reads(upstream.source.head())
        way.proxy.fault = chaos.stall(after=INTO_IT)
        pushed = upstream.push(size=LARGE)
        until(lambda: way.proxy.stalled or None, "a fetch hangs")
        writing = until(lambda: asking(daemon, b"index-pack") or None, "what arrived is written")
        limits = {resource.prlimit(one, resource.RLIMIT_FSIZE)[0] for one in writing}
        assert len(limits) == 1
        assert 0 < limits.pop() <= 4 << 30
        way.proxy.fault = chaos.PASS
        way.proxy.drop()
        remote.reads(pushed)


# The end of the daemon in the middle of a look


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_daemon_that_ends_in_the_middle_of_a_fetch_leaves_no_process_and_converges_later(
    *, route: Routes, upstream: Upstream, tmp_path: Path, transport: str, number: signal.Signals
) -> None:
    with route(transport) as way:
        entry = {"name": "one", "url": way.url, "branch": "main", "interval": "1s", "credentials": way.credentials}
        with daemons.running(tmp_path / "daemon", repositories=[entry]) as daemon:
            daemon.run_of("one", upstream.source.head())
            way.proxy.fault = chaos.stall(after=INTO_IT)
            pushed = upstream.push(size=LARGE)
            until(lambda: way.proxy.stalled or None, "a fetch hangs")
            running = processes.descendants(daemon.process.pid)
            begun = time.monotonic()
            daemon.stop(number)
            assert time.monotonic() - begun < 15
            if number is signal.SIGKILL:
                way.proxy.drop()  # a killed daemon cannot end what it started: that ends with its connection
            until(lambda: not [one for one in running if Path(f"/proc/{one}/stat").exists()] or None, "all have ended")
            way.proxy.fault = chaos.PASS
            daemon.start()
            assert daemon.run_of("one", pushed)["outcome"] == "succeeded"
            assert daemon.repository("one")["state"] == "ready"


def test_repositories_that_hang_keep_the_others_and_the_api_waiting_for_nothing(
    *, daemon: Daemon, route: Routes, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    with route("git") as way, gitd.serving(upstream.served, log=tmp_path / "other.log") as other:
        way.proxy.fault = chaos.stall()
        stuck = [follow(way.url, timeout="30s", path=f"p{number}") for number in range(5)]
        healthy = follow(other.url())
        healthy.reads(upstream.source.head())
        begun = time.monotonic()
        healthy.reads(upstream.push())
        assert daemon.get("/livez").status == 200
        assert time.monotonic() - begun < 10
        assert {remote.shown()["state"] for remote in stuck} == {"never-read"}


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
