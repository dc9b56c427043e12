"""GET of one resource while log records are delivered at a rate: the 99th percentile of its latency."""

from benchmarks import delivery_bodies, delivery_pacing
from benchmarks.delivery_daemon import NAME, Receiver
from benchmarks.delivery_load import PROTOBUF
from benchmarks.delivery_pacing import Pacing
from benchmarks.figures import Figure

RATE = 50_000  # records a second
RECORDS = 1_000  # of a request: the largest stretch of work between two turns of the loop
READS = 100  # a second
LIMIT_MS, TARGET_MS = 150.0, 50.0
CONNECTIONS = 8  # of the load
LEAST_SHARE = 0.98  # of the rate: less is another measurement


def measure(receiver: Receiver, *, seconds: float) -> Figure:
    """Reads alone, then with the load beside them."""
    alone = _reads(receiver, seconds=seconds / 2).ended()
    load = _load(receiver, seconds=seconds)
    beside = _reads(receiver, seconds=seconds).ended()
    sent = load.ended()
    taken = receiver.drained()
    rate = sent.requests * RECORDS / sent.seconds
    if taken != sent.requests * RECORDS or rate < RATE * LEAST_SHARE:
        raise RuntimeError(f"{taken} records were taken, {rate:,.0f} a second were sent")
    return Figure(
        f"GET one while {RATE:,} records a second are delivered, 99th percentile",
        f"{beside.p99_ms:.1f} ms",
        f"limit {LIMIT_MS:.0f} ms; target {TARGET_MS:.0f} ms; without them {alone.p99_ms:.1f} ms",
        f"{beside.p99_ms / LIMIT_MS:.2f}",
    )


def _reads(receiver: Receiver, *, seconds: float) -> Pacing:
    path = f"/v1/resources/Destination/{NAME}"
    asked = delivery_pacing.request("GET", path, key=receiver.daemon.key)
    port, file = receiver.daemon.port, receiver.folder / "read"
    return Pacing(asked, port=port, a_second=READS, connections=1, seconds=seconds, file=file)


def _load(receiver: Receiver, *, seconds: float) -> Pacing:
    body = delivery_bodies.texts(RECORDS)
    asked = delivery_pacing.request("POST", "/v1/logs", key=receiver.keys[0], body=body, content_type=PROTOBUF)
    port, file = receiver.daemon.port, receiver.folder / "load"
    rate = RATE / RECORDS
    return Pacing(asked, port=port, a_second=rate, connections=CONNECTIONS, seconds=seconds, file=file)
