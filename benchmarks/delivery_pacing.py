"""A client that keeps to a rate: the same request at equal distances, and how long each answer took.

A process of its own (`python -m benchmarks.delivery_pacing PORT FILE A_SECOND CONNECTIONS SECONDS`), so that it neither
slows what it measures nor is slowed. The clock of a request begins when it should be sent: one that waits for a late
answer on its connection is late itself, and that counts.
"""

import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Paced:
    """How many requests were sent, in how many seconds, and the latencies of their answers."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float


class Pacing:
    """A client under way."""

    def __init__(self, request: bytes, *, port: int, a_second: float, connections: int, seconds: float, file: Path):
        """`file` is a place for the request."""
        file.write_bytes(request)
        numbers = [str(one) for one in (port, file, a_second, connections, seconds)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.delivery_pacing", *numbers], stdout=subprocess.PIPE
        )
        self._longest = seconds + 2 * TIMEOUT_SECONDS

    def ended(self) -> Paced:
        """Wait for its end. Raises RuntimeError when a request was not answered with 200."""
        told, _ = self._process.communicate(timeout=self._longest)
        if self._process.returncode:
            raise RuntimeError("a client that keeps to a rate failed")
        return Paced(**json.loads(told))


def request(
    method: str,
    path: str,
    *,
    key: str,
    body: bytes = b"",
    content_type: str = "",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """One request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}"]
    lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"] if body else []
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode() + body


def percentile(values: list[float], share: float) -> float:
    """The nearest rank."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def _keep_pace(port: int, data: bytes, times: list[float], latencies: list[float]) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
        for when in times:
            time.sleep(max(0.0, when - time.perf_counter()))
            connection.sendall(data)
            _answered(connection)
            latencies.append(time.perf_counter() - when)


def _answered(connection: socket.socket) -> None:
    answer = connection.recv(65536)
    while b"\r\n\r\n" not in answer:
        answer += _more(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
    while len(body) < length:
        body += _more(connection)


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise RuntimeError("the connection ended before its answer")
    return data


def _main(port: str, file: str, a_second: str, connections: str, seconds: str) -> None:
    data, distance = Path(file).read_bytes(), 1 / float(a_second)
    begun = time.perf_counter() + 0.1
    times = [begun + number * distance for number in range(int(float(seconds) / distance))]
    found: list[list[float]] = [[] for _ in range(int(connections))]
    threads = [
        threading.Thread(target=_keep_pace, args=(int(port), data, times[place :: len(found)], latencies))
        for place, latencies in enumerate(found)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = [one for each in found for one in each]
    if len(latencies) < len(times):
        sys.exit("not every request was answered")
    told = {"requests": len(latencies), "seconds": time.perf_counter() - begun}
    ms = {f"p{share}_ms": percentile(latencies, share / 100) * 1000 for share in (50, 99)}
    print(json.dumps({**told, **ms}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
