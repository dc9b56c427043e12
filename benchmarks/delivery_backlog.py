"""A start on a large backlog: what memory it takes, when the service listens, and when the first record arrives.

The backlog is built with the service's own queue, in the folder of a service that is stopped, of requests of 1,000
records.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks import delivery_bodies, processes, sink
from benchmarks.delivery_daemon import MOST_BATCHES, MOST_BYTES, NAME, Receiver, receiving
from benchmarks.figures import Figure
from reconciler.delivery.queue.queues import Queues
from reconciler.model.routes import Storage, Sync

RECORDS = 1_000  # of a request
TOGETHER = 100  # appends under way
MEMORY_LIMIT_MB, START_LIMIT_SECONDS, FIRST_LIMIT_SECONDS = 250.0, 2.0, 3.0
WATCHED_SECONDS = 30.0
WAIT_SECONDS = 60.0
STEP_SECONDS = 0.01
SAMPLE_SECONDS = 0.2


def measure(*, gigabytes: float) -> list[Figure]:
    """Memory is the largest that was seen while it delivers; what a start with nothing to deliver takes is beside."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sink.running() as endpoint,
        receiving(Path(folder), endpoint) as receiver,
    ):
        receiver.daemon.stop()
        empty, _ = _started(receiver)
        receiver.daemon.stop()
        asyncio.run(_build(receiver.daemon.state / "queues", int(gigabytes * 1e9)))
        listens, begun = _started(receiver)
        first = _first(receiver, begun)
        memory = _largest_memory(receiver.daemon.process.pid)
        if not receiver.delivery()["queue"]["batches"]:
            raise RuntimeError("the backlog was delivered before its memory was seen")
    name = f"backlog of {gigabytes:g} GB"
    return [
        _within(f"{name}, main process while it delivers", memory, MEMORY_LIMIT_MB, "MB", ""),
        _within(f"{name}, start", listens, START_LIMIT_SECONDS, "s", f"; with an empty queue {empty:.2f} s"),
        _within(f"{name}, from the start to the first record", first, FIRST_LIMIT_SECONDS, "s", ""),
    ]


async def _build(root: Path, size: int) -> None:
    queues = Queues(root, reserve=0, clock=lambda: time.time_ns() // 1_000_000)
    await queues.start()
    ((found,), _) = await queues.found()
    storage = Storage(directory=found.directory, max_bytes=MOST_BYTES, sync=Sync.NONE)
    queue = await queues.open(
        project=found.project, name=NAME, storage=storage, max_batches=MOST_BATCHES, dead_bytes=1 << 30
    )
    body = delivery_bodies.texts(RECORDS)
    for _ in range(size // len(body) // TOGETHER):
        await asyncio.gather(
            *(queue.append([body], records=RECORDS, at=time.time_ns() // 1_000_000) for _ in range(TOGETHER))
        )
    await queue.close()
    await queues.close()


def _started(receiver: Receiver) -> tuple[float, float]:
    """How many seconds until it listens, and when it was started."""
    begun = time.perf_counter()
    receiver.daemon.start()
    return time.perf_counter() - begun, begun


def _first(receiver: Receiver, begun: float) -> float:
    while not receiver.sink.counts().records:
        if time.perf_counter() - begun > WAIT_SECONDS:
            raise RuntimeError("nothing of the backlog is delivered")
        time.sleep(STEP_SECONDS)
    return time.perf_counter() - begun


def _largest_memory(process: int) -> float:
    end, largest = time.perf_counter() + WATCHED_SECONDS, 0.0
    while time.perf_counter() < end:
        largest = max(largest, processes.pss_mb(process))
        time.sleep(SAMPLE_SECONDS)
    return largest


def _within(what: str, value: float, limit: float, unit: str, more: str) -> Figure:
    digits = 2 if unit == "s" else 0
    return Figure(what, f"{value:.{digits}f} {unit}", f"limit {limit:.0f} {unit}{more}", f"{value / limit:.2f}")
