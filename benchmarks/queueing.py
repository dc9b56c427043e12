"""The throughput of a queue on disk, beside a loop that only writes and syncs to the same disk."""

import asyncio
import os
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.queues import Queues
from reconciler.model.routes import Storage

SENDERS = 64
SMALL_BYTES = 250  # of one record, as OTLP
LARGE_BYTES = 250_000  # of a thousand
MOST_RECORDS = 1_000  # of a claim
MOST_BYTES = 1 << 20
BACKLOG_BATCH_BYTES = 1 << 20


def measure(*, appends: int, backlog: int = 0) -> list[Figure]:
    """Appends by 64 senders, claims, and how long a backlog of so many bytes keeps a start waiting."""
    with tempfile.TemporaryDirectory(prefix="queueing-") as folder:
        figures = asyncio.run(_through(Path(folder), appends))
    if backlog:
        with tempfile.TemporaryDirectory(prefix="queueing-") as folder:
            asyncio.run(_fill(Path(folder), backlog))
            figures.append(asyncio.run(_started(Path(folder), backlog)))
    return figures


async def _opened(root: Path) -> tuple[Queues, DiskQueue]:
    queues = Queues(root, reserve=0, clock=_milliseconds)
    await queues.start()
    storage = Storage(directory="benchmark", max_bytes=1 << 50)
    queue = await queues.open(
        project="benchmark", name="sink", storage=storage, max_batches=1 << 50, dead_bytes=1 << 50
    )
    return queues, queue


async def _through(root: Path, appends: int) -> list[Figure]:
    queues, queue = await _opened(root)
    figures = []
    for size, count, words in ((SMALL_BYTES, appends, "small"), (LARGE_BYTES, appends // 10, "250 KB")):
        ours = count / await _append(queue, size, count)
        floor = _floor(root, size, count)
        what = f"append {words} batches, {SENDERS} senders, on disk before the answer"
        figures.append(_figure(what, ours, floor, size))
        taken, read = await _deliver(queue)
        figures.append(
            Figure(f"claim, read and deliver {words} batches", f"{taken:,.0f}/s, {read / 1e6:,.0f} MB/s", "", "")
        )
    await queues.close()
    return figures


def _figure(what: str, ours: float, floor: float, size: int) -> Figure:
    beside = f"floor {floor:,.0f}/s: one write and fdatasync for each {SENDERS}"
    return Figure(what, f"{ours:,.0f}/s, {ours * size / 1e6:,.0f} MB/s", beside, f"{ours / floor:.2f}")


async def _append(queue: DiskQueue, size: int, count: int) -> float:
    left = count
    payload = b"x" * size

    async def send() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await queue.append([payload], records=1, at=_milliseconds())

    begins = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(SENDERS)))
    return time.perf_counter() - begins


def _floor(root: Path, size: int, count: int) -> float:
    """Appends a second of a loop without a queue, in one thread, as many together as there are senders."""
    path = root / "floor"
    pieces = [b"x" * size] * SENDERS
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    begins = time.perf_counter()
    offset = 0
    for _ in range(count // SENDERS):
        offset += os.pwritev(descriptor, pieces, offset)
        os.fdatasync(descriptor)
    elapsed = time.perf_counter() - begins
    os.close(descriptor)
    path.unlink()
    return count // SENDERS * SENDERS / elapsed


async def _deliver(queue: DiskQueue) -> tuple[float, float]:
    """Batches and bytes a second, until the queue is empty."""
    begins, count, size = time.perf_counter(), 0, 0
    while queue.depth().batches:
        batches = queue.claim(most_records=MOST_RECORDS, most_bytes=MOST_BYTES)
        if not batches:
            await queue.wait()
        for batch in batches:
            size += len(await queue.payload(batch) or b"")
        queue.delivered(batches)
        count += len(batches)
        await asyncio.sleep(0)
    elapsed = time.perf_counter() - begins
    return count / elapsed, size / elapsed


async def _fill(root: Path, backlog: int) -> None:
    queues, queue = await _opened(root)
    await _append(queue, BACKLOG_BATCH_BYTES, backlog // BACKLOG_BATCH_BYTES)
    await queues.close()


async def _started(root: Path, backlog: int) -> Figure:
    """From nothing to the first payload."""
    begins = time.perf_counter()
    queues, queue = await _opened(root)
    opened = time.perf_counter() - begins
    await queue.wait()
    [batch] = queue.claim(most_records=1, most_bytes=1)
    assert await queue.payload(batch) is not None
    first = time.perf_counter() - begins
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    batches = queue.depth().batches
    await queues.close()
    return Figure(
        f"open a backlog of {backlog / 1e9:.0f} GB ({batches:,} batches)",
        f"{opened * 1000:.0f} ms, first bytes after {first * 1000:.0f} ms, the process {memory:.0f} MB at most",
        "limit 2 s",
        f"{first / 2:.3f}",
    )


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
