"""/metrics of a real daemon with many destinations, each with a queue on disk: how long an answer takes, and what a GET
of one resource waits for it, asked for at a rate while one scrape follows the other.
"""

import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks import delivery_pacing
from benchmarks.beside import Beside, Latencies
from benchmarks.daemons import Daemon, daemon
from benchmarks.figures import Figure
from tests.daemons import until

SCRAPE_LIMIT_MS = 120.0
READ_LIMIT_MS = 20.0
READS = 200  # a second
WARM = 200  # scrapes before: the first round of the garbage collector over all that was just made is not theirs
OF_ONE_CONFIGURATION = 50  # destinations
AT_ONCE = 500  # resources of one request
SERIES = 5  # of a destination
UNUSED = 9  # a port where nobody listens; nothing is sent there

T = TypeVar("T")


def measure(*, destinations: int, seconds: float) -> list[Figure]:
    """Reads alone, then with scrapes beside them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with daemon(folder, repository=None) as running:
            deliver_to(running, destinations)
            for _ in range(WARM):
                _scrape(running)
            with _reads(running, folder) as alone:
                time.sleep(seconds / 2)
                before = alone.ended()
            with _reads(running, folder) as reads:
                scrapes, size = _scrapes(running, destinations, seconds=seconds)
                beside = reads.ended()
    return [_of_scrapes(scrapes, size, destinations=destinations), _of_reads(beside, before)]


def deliver_to(running: Daemon, destinations: int) -> None:
    """Apply them, and wait until each has its queue."""
    names = [f"destination-{number:05d}" for number in range(destinations)]
    parameters = {"scheme": "http", "hostname": "127.0.0.1", "port": UNUSED, "persistent_queue_storage": "bench"}
    given = [{"name": name, "value": value} for name, value in parameters.items()]
    resources = [_resource("Extension", "bench", {"type": "file_storage"})]
    resources += [_resource("Destination", name, {"type": "webhook", "parameters": given}) for name in names]
    for number, some in enumerate(_parts(names, OF_ONE_CONFIGURATION)):
        to = [{"name": name} for name in some]
        spec = {"sources": [{"type": "otlp"}], "destinations": to, "selector": {"matchLabels": {"part": str(number)}}}
        resources.append(_resource("Configuration", f"configuration-{number:05d}", spec))
    for part in _parts(resources, AT_ONCE):
        updates = running.apply(*part)
        if wrong := [one for one in updates if one["status"] != "created"]:
            raise RuntimeError(f"the resources were not stored: {wrong[:3]}")
    until(lambda: _series(_scrape(running)) == destinations * SERIES or None, "each has its queue", seconds=120)


def _reads(running: Daemon, folder: Path) -> Beside:
    request = delivery_pacing.request("GET", "/v1/resources/Destination/destination-00000", key=running.key)
    return Beside(request, port=running.port, every=1 / READS, file=folder / "read", paced=True)


def _scrapes(running: Daemon, destinations: int, *, seconds: float) -> tuple[list[float], int]:
    """How long each took, in seconds, and the bytes of the last."""
    took: list[float] = []
    text = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.perf_counter()
        text = _scrape(running)
        took.append(time.perf_counter() - begun)
    if _series(text) != destinations * SERIES:
        raise RuntimeError("an answer lacked destinations")
    return took, len(text)


def _scrape(running: Daemon) -> bytes:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=30)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {running.key}"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {text.decode()}")
    return text


def _series(text: bytes) -> int:
    return text.count(b'destination="destination-')


def _of_scrapes(took: list[float], size: int, *, destinations: int) -> Figure:
    found = statistics.median(took) * 1000
    p99 = delivery_pacing.percentile(took, 0.99) * 1000
    return Figure(
        f"/metrics with {destinations:,} destinations, median of {len(took)}",
        f"{found:.0f} ms",
        f"limit {SCRAPE_LIMIT_MS:.0f} ms; 99th percentile {p99:.0f} ms; {size / 1024:.0f} KiB",
        f"{found / SCRAPE_LIMIT_MS:.2f}",
    )


def _of_reads(beside: Latencies, alone: Latencies) -> Figure:
    return Figure(
        f"GET one, {READS} a second while one scrape follows the other, 99th percentile",
        f"{beside.p99_ms:.1f} ms",
        f"limit {READ_LIMIT_MS:.0f} ms; without them {alone.p99_ms:.1f} ms; worst {beside.worst_ms:.1f} ms",
        f"{beside.p99_ms / READ_LIMIT_MS:.2f}",
    )


def _resource(kind: str, name: str, spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _parts(values: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), most):
        yield values[start : start + most]
