"""GET of one resource, beside a constant route on the same server: requests per second of the server's own CPU time."""

import socket
import statistics
import tempfile
from pathlib import Path

from benchmarks import corpus
from benchmarks.daemons import Daemon, daemon, until_read
from benchmarks.figures import Figure

FILES = 1_000
REQUESTS = 5_000
ROUNDS = 9
CONSTANT = "/v1/version"
SHARE, TARGET = 0.5, 0.75


def measure() -> Figure:
    """All by turns, on one kept-alive connection each time."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=FILES)
        with daemon(folder, repository=folder / "corpus.git") as running:
            until_read(running, files=FILES)
            ours, constant = [], []
            for _ in range(ROUNDS):
                constant.append(_rate(running, CONSTANT))
                ours.append(_rate(running, "/v1/resources/Destination/destination-000500"))
    mine, floor = statistics.median(ours), statistics.median(constant)
    ratio = statistics.median(one / other for one, other in zip(ours, constant, strict=True))
    return Figure(
        "GET one, per CPU second of the server",
        f"{mine:,.0f} requests",
        f"at least {SHARE:g} of a constant route, {floor:,.0f} requests; target {TARGET:g}",
        f"{ratio:.2f}",
        missed=ratio < SHARE,
    )


def _rate(running: Daemon, path: str) -> float:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {running.key}\r\n\r\n".encode()
    with socket.create_connection((running.host, running.port)) as connection:
        _ask(connection, request, times=200)
        before = _cpu_seconds(running.process.pid)
        _ask(connection, request, times=REQUESTS)
        return REQUESTS / (_cpu_seconds(running.process.pid) - before)


def _ask(connection: socket.socket, request: bytes, *, times: int) -> None:
    for _ in range(times):
        connection.sendall(request)
        answer = connection.recv(65536)
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += connection.recv(65536)


def _cpu_seconds(process: int) -> float:
    """The time on a processor of the server's main thread, which runs its event loop, to the nanosecond."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
