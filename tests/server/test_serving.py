"""Serving: what an HTTP client may take without a key, how long a stop lasts, and what a start clears away."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from api import responses as answer_headers
from reconciler.server import connections
from tests import daemons
from tests.daemons import Daemon, watched
from tests.repositories import Repository
from tests.servers.certificates import Authority

GROWTH_BYTES = 8 << 20  # what one flood may add to the daemon's memory
CUT_SECONDS = 5.0
DRAINED = {"delivery": {"drainTimeout": "1s"}}
BOUND_SECONDS = 6.0
CHUNK = b"x-filler: " + b"f" * 1_000 + b"\r\n"
LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
REQUEST = b"POST /v1/apply HTTP/1.1\r\nHost: x\r\n"
TOO_LARGE = {
    "errors": ["The request line and the headers are larger than 64 KiB; send fewer or shorter ones."],
    "codes": ANY,
}


# Each flood waits two seconds for the end of the connection, and both ways take the same code of ours.
@pytest.fixture(scope="module", params=["plain", pytest.param("tls", marks=pytest.mark.slow)])
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that speaks HTTP, and one that speaks it through TLS."""
    folder = tmp_path_factory.mktemp(request.param)
    authority = None if request.param == "plain" else Authority.make(folder / "authority")
    settings = {} if authority is None else {"tls": authority.issue().settings()}
    daemon = Daemon(folder / "daemon", settings=settings)
    daemon.tls = None if authority is None else ssl.create_default_context(cafile=authority.bundle)
    try:
        daemon.start()
        if authority is not None:  # the first look at the certificate loads a library of 8 MB
            daemons.until(lambda: "cryptography" in maps(daemon) or None, "the certificate was looked at")
        yield daemon
    finally:
        daemons.end(daemon)


def maps(daemon: Daemon) -> str:
    """Return the files that the daemon has mapped."""
    return Path(f"/proc/{daemon.process.pid}/maps").read_text()


@contextlib.contextmanager
def connected(daemon: Daemon) -> Iterator[socket.socket]:
    """One connection."""
    with socket.create_connection((daemon.host, daemon.port), timeout=30) as plain:
        if daemon.tls is None:
            yield plain
        else:
            with daemon.tls.wrap_socket(plain, server_hostname=daemon.host) as client:
                yield client


def rest(client: socket.socket) -> bytes:
    """All that comes until the connection ends, however it ends."""
    received = bytearray()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := client.recv(65_536):
            received += piece
    return bytes(received)


def answer(client: socket.socket) -> int:
    """Read one whole answer; its status."""
    head, _, body = client.recv(65_536).partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65_536)
    return int(head.split(b" ")[1])


def has_security(head: bytes) -> bool:
    """Return True when an answer has the headers that every answer has."""
    return all(b"\r\n" + name + b": " + value in head for name, value in answer_headers.SECURITY)


def is_cut(client: socket.socket, piece: bytes) -> bool:
    """Return True when the other side has had enough of what is sent, before we have."""
    block = piece * (65_536 // len(piece) + 1)
    begun = time.monotonic()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while time.monotonic() - begun < CUT_SECONDS:
            client.sendall(block)
        return False
    return True


def memory(daemon: Daemon) -> int:
    """The most memory that the daemon has ever held, in bytes."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\n", CHUNK, id="headers"),
        pytest.param(b"GET /livez HTTP/1.1\r\nx-long: ", b"v" * 1_024, id="one header"),
        pytest.param(b"GET /", b"p" * 1_024, id="the request line"),
        pytest.param(b"", b"\r\n", id="empty lines"),
        pytest.param(REQUEST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", CHUNK, id="trailers"),
        pytest.param(REQUEST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"e" * 1_024, id="a chunk's extension"),
        pytest.param(b"", LIVE, id="pipelined requests"),
    ],
)
def test_a_flood_is_cut_before_it_fills_the_memory(begin: bytes, piece: bytes, daemon: Daemon) -> None:
    assert daemon.get("/livez").status == 200
    before = memory(daemon)
    with connected(daemon) as client:
        client.sendall(begin)
        assert is_cut(client, piece)
    assert memory(daemon) - before < GROWTH_BYTES
    assert daemon.get("/livez").status == 200


@pytest.mark.parametrize("size", [66_000, 100_000, 200_000])
def test_a_head_that_is_too_large_is_told_so(size: int, daemon: Daemon) -> None:
    with connected(daemon) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nx-long: " + b"v" * size)
        head, _, body = rest(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"content-type: application/json" in head
    assert has_security(head)
    assert json.loads(body) == TOO_LARGE


def test_a_whole_head_that_is_too_large_is_not_served(daemon: Daemon) -> None:
    with connected(daemon) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nx-long: " + b"v" * 70_000 + b"\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 431 ")


def test_a_body_longer_than_it_says_is_no_part_of_the_request(daemon: Daemon) -> None:
    key = b"Authorization: Bearer " + daemon.key.encode() + b"\r\n"
    body = b'{"resources": []}'
    with connected(daemon) as client:
        client.sendall(REQUEST + key + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"and more\r\n\r\n")
        statuses = [answer[:3] for answer in rest(client).split(b"HTTP/1.1 ")[1:]]
    assert statuses in ([], [b"202"], [b"202", b"400"])  # what follows is no request, so the connection ends
    assert daemon.get("/livez").status == 200


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 17\r\nContent-Length: 18\r\n",
        b"Content-Length: 17\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999\r\n",
    ],
)
def test_lengths_that_contradict_each_other_are_refused(lengths: bytes, daemon: Daemon) -> None:
    key = b"Authorization: Bearer " + daemon.key.encode() + b"\r\n"
    with connected(daemon) as client:
        client.sendall(REQUEST + key + lengths + b"\r\n" + b'{"resources": []}')
        assert rest(client).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "dryRun=true&" * 10_000,
            "The request line and the headers are larger than 64 KiB; send fewer or shorter ones.",
        ),
        ("a&" * 10_000, "The query is not at most 100 parameters in percent-encoded UTF-8."),
        ("a=" + "%41" * 20_000, "there are `acceptInvalid`, `atomic`, `dryRun`, `strict`."),
    ],
    ids=["over the head", "parameters", "a value"],
)
def test_a_long_query_is_refused(query: str, told: str, daemon: Daemon) -> None:
    answer = daemon.request("POST", f"/v1/apply?{query}", b'{"resources": []}')
    assert answer.status in {400, 431}
    assert answer.body["errors"][0].endswith(told)


def test_the_largest_body_of_open_brackets_is_refused_and_one_byte_more_is_not_read(daemon: Daemon) -> None:
    body = b"[" * 8_388_608
    answer = daemon.request("POST", "/v1/apply", body)
    assert (answer.status, answer.body) == (
        400,
        {"errors": ["body:1:103: is nested deeper than 102 levels; flatten it"], "codes": ANY},
    )
    with connected(daemon) as client:
        key = b"Authorization: Bearer " + daemon.key.encode() + b"\r\n"
        client.sendall(REQUEST + key + b"Content-Length: 8388609\r\n\r\n[")
        head = client.recv(65_536)
        assert head.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("head", [b"hello", b"GET http://[x HTTP/1.1", b"CONNECT x HTTP/1.1"])
def test_what_is_no_http_gets_errors_like_everything_else(head: bytes, daemon: Daemon) -> None:
    with connected(daemon) as client:
        client.sendall(head + b"\r\nHost: x\r\n\r\n")
        head, _, body = rest(client).partition(b"\r\n\r\n")
    assert (head[:12], json.loads(body)) == (b"HTTP/1.1 400", {"errors": ["The request is not HTTP."], "codes": ANY})
    assert has_security(head)


def test_a_head_that_is_large_is_served(daemon: Daemon) -> None:
    with connected(daemon) as client:
        client.sendall(LAST[:-2] + b"x-long: " + b"v" * 60_000 + b"\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_slow_heads_are_cut_however_they_are_sent(daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        silent, begun, lines, kept = (stack.enter_context(connected(daemon)) for _ in range(4))
        # One that does not even begin, with TLS neither.
        mute = stack.enter_context(socket.create_connection((daemon.host, daemon.port), timeout=30))
        kept.sendall(LIVE)
        assert answer(kept) == 200
        begun.sendall(LIVE[:-2])
        kept.sendall(LIVE[:-2])
        begin = time.monotonic()
        joined = stack.enter_context(connected(daemon))
        joined.sendall(LIVE + LIVE[:-2])
        assert answer(joined) == 200
        refused = stack.enter_context(connected(daemon))
        refused.sendall(REQUEST + b"Content-Length: 1000\r\n\r\n")
        assert answer(refused) == 401
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while time.monotonic() - begin < connections.HEAD_SECONDS + 5:
                lines.sendall(b"\r\n")
                time.sleep(0.5)
        ends = [rest(client) for client in (silent, begun, kept, joined, mute)]
        lasted = time.monotonic() - begin
        assert ends == [b""] * 5
        rest(refused)
        assert connections.HEAD_SECONDS - 1 < lasted < connections.HEAD_SECONDS + 4
        assert daemon.get("/livez").status == 200


def test_a_connection_is_kept_from_request_to_request(daemon: Daemon) -> None:
    with connected(daemon) as client:
        for _ in range(20):
            client.sendall(LIVE[:10])
            client.sendall(LIVE[10:])
            assert answer(client) == 200
        body = b'{"resources": []}' + b" " * 200_000
        key = b"Authorization: Bearer " + daemon.key.encode() + b"\r\n"
        client.sendall(REQUEST + key + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert answer(client) == 202
        client.sendall(LAST)
        assert rest(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("count", [2, connections.PIPELINED])
def test_pipelined_requests_are_answered_in_order(count: int, daemon: Daemon) -> None:
    missing = b"GET /missing HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(daemon) as client:
        client.sendall(missing + LIVE * (count - 2) + LAST)
        answers = rest(client).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [answers[0][:3], *[b"200"] * (count - 1)]
    assert answers[0][:1] == b"4"


@pytest.mark.slow
def test_requests_runs_and_a_reader_that_hang_end_within_the_bound_of_a_stop(tmp_path: Path) -> None:
    with (
        daemons.running(tmp_path / "daemon", settings=DRAINED, has_real_reader=True) as daemon,
        connected(daemon) as client,
    ):
        key = b"Authorization: Bearer " + daemon.key.encode() + b"\r\n"
        client.sendall(REQUEST + key + b"Content-Length: 100\r\n\r\n{")
        children = daemon.children()
        os.kill(daemon.reader(), signal.SIGSTOP)
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < BOUND_SECONDS
    assert [Path(f"/proc/{child}").exists() for child in children] == [False] * len(children)
    assert daemon.messages()[-1] == "Stopped."


@pytest.mark.slow
def test_a_stop_that_does_not_end_is_ended(tmp_path: Path, source: Repository) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)], settings=DRAINED) as daemon:
        daemon.run_of("one", source.head())
        daemon.config.unlink()
        os.mkfifo(daemon.config)  # who reads the settings now waits forever
        daemon.process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        begun = time.monotonic()
        assert daemon.stop() == 1
        assert BOUND_SECONDS - 1 < time.monotonic() - begun < BOUND_SECONDS + 2
        assert daemon.messages()[-1] == (
            "The stop took longer than 6 seconds, for work in a thread did not end; the daemon was ended."
        )
        daemon.config.unlink()
        daemon.configure([watched("one", source.path)])
        daemon.start()
        assert daemon.repository("one")["commit"] == source.head()


def test_the_end_by_force_takes_the_children_along(tmp_path: Path) -> None:
    """The loop itself hangs here."""
    numbers = tmp_path / "numbers"
    program = f"""
import asyncio, subprocess, time
from pathlib import Path
from reconciler.server import process as ending
alone = subprocess.Popen(["sleep", "60"])
leader = subprocess.Popen(["sh", "-c", "sleep 60 & echo $! > {tmp_path}/grandchild; wait"], start_new_session=True)
while not Path("{tmp_path}/grandchild").exists() or not Path("{tmp_path}/grandchild").read_text().strip():
    time.sleep(0.01)
Path("{numbers}").write_text(f"{{alone.pid}} {{leader.pid}} " + Path("{tmp_path}/grandchild").read_text())
async def hang():
    time.sleep(60)
async def main():
    bound = ending.ShutdownDeadline(seconds=0.3)
    bound.begin()
    bound.begin()
    await bound.waits("the runs under way", hang)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=30, capture_output=True, text=True, check=False)
    told = "The stop took longer than 0.3 seconds, for the runs under way did not end; the daemon was ended.\n"
    assert (done.returncode, done.stderr) == (1, told)
    processes = numbers.read_text().split()
    assert len(processes) == 3
    daemons.until(lambda: not any(_lives(number) for number in processes), "the children have ended")


def _lives(number: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_start_removes_what_belongs_to_no_repository(tmp_path: Path, source: Repository) -> None:
    sources = {"one": source, "two": source.bare(tmp_path / "two")}
    two = [watched(name, each.path, project=name) for name, each in sources.items()]
    with daemons.running(tmp_path / "daemon", repositories=two) as daemon:
        for name in sources:
            daemon.run_of(name, source.head())
        mirrors, homes = daemon.state / "mirrors", daemon.state / "git"
        kept = [name for folder in (mirrors, homes) for name in _names(folder) if name.startswith("source-")]
        assert len(kept) == 2
        daemon.stop()
        (mirrors / ".two-0123456789ab.git.new").mkdir()
        (mirrors / ".three-0123456789ab.git.0.gone").mkdir()
        (mirrors / "notes").mkdir()
        daemon.configure(two[:1])
        daemon.start()
        daemons.until(lambda: len(_names(mirrors) + _names(homes)) == 3, "the rest is removed")
        assert sorted(_names(mirrors) + _names(homes)) == sorted([*kept, "notes"])
        daemon.follow(two[1])
        daemon.run_of("two", source.head())
        assert daemon.complaints() == []


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _records(daemon: Daemon, *more: bytes, version: bytes = b"1.1") -> bytes:
    """A request with no log records."""
    lines = [b"POST /v1/logs HTTP/" + version, b"Host: x", b"Content-Type: application/json", b"Content-Length: 2"]
    return b"\r\n".join((*lines, b"Authorization: Bearer " + daemon.key.encode(), *more, b"", b"{}"))


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param((b"", b"", b"Connection: close"), id="one after the other"),
        pytest.param((b"Expect: 100-continue", b"Connection: close"), id="expecting"),
    ],
)
def test_an_answer_in_one_piece_is_one_like_any_other(requests: tuple[bytes, ...], daemon: Daemon) -> None:
    daemons.until(lambda: b" 200 " in _asked(daemon, _records(daemon, b"Connection: close")), "records are taken")
    each = [_records(daemon, *filter(None, (one,))) for one in requests]
    with connected(daemon) as client:
        for request in each[:-1]:
            client.sendall(request)
            received = b""
            while not received.endswith(b"\r\n\r\n{}"):
                received += client.recv(65_536)
            head, _, body = received.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").partition(b"\r\n\r\n")
            assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"{}")
            assert has_security(head)
            assert all(b"\r\n" + name in head for name in (b"date: ", b"x-request-id: ", b"content-length: 2"))
        client.sendall(each[-1])
        last = rest(client)
    pipelined = _asked(daemon, b"".join(each))
    assert last.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert b"\r\nconnection: close\r\n" in last
    assert pipelined.count(b"HTTP/1.1 200 OK\r\n") == len(each)
    assert pipelined.count(b"\r\n\r\n{}") == len(each)


def test_an_old_client_gets_its_answer_and_the_end_of_the_connection(daemon: Daemon) -> None:
    daemons.until(lambda: b" 200 " in _asked(daemon, _records(daemon, version=b"1.0")), "records are taken")
    assert b"\r\nconnection: close\r\n" in _asked(daemon, _records(daemon, version=b"1.0"))


def _asked(daemon: Daemon, request: bytes) -> bytes:
    with connected(daemon) as client:
        client.sendall(request)
        return rest(client)
