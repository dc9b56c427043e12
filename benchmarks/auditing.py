"""The cost of the audit in a first reconcile: its rows, their index and their chain, written into a store of their own
as the reconcile writes them, beside the whole run in a real daemon. And verifying the chain.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import corpus
from benchmarks.daemons import daemon, first_run, resource
from benchmarks.figures import Figure
from reconciler.store import audit
from reconciler.store.records import AuditRow, Changes, Record
from reconciler.store.sqlite import SqliteStore
from tests.store import rows

ROUNDS = 5
SHARE_LIMIT = 0.10  # of the run without it
PART = 500  # resources in one part, about as many as the child sends


def measure(*, files: int) -> list[Figure]:
    """By turns, so that a machine that slows down slows both."""
    runs, audits, verified = [], [], 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files)
        for number in range(ROUNDS):
            place = folder / str(number)
            place.mkdir()
            with daemon(place, repository=None) as running:
                running.apply(resource("stored"))
                runs.append(first_run(running, folder / "corpus.git", files=files))
            audits.append(asyncio.run(_audited(place / "audit.db", files=files)))
        begun = time.perf_counter()
        audit.verify(folder / "0" / "audit.db")
        verified = time.perf_counter() - begun
    return [_share(runs, audits, files=files), _of_verifying(verified, files=files)]


def _share(runs: list[float], audits: list[float], *, files: int) -> Figure:
    run, audit = statistics.median(runs), statistics.median(audits)
    share = audit / (run - audit)
    return Figure(
        f"the audit of a first reconcile of {files:,} files: rows, index and chain",
        f"{audit * 1e3:.0f} ms, {share:.1%}",
        f"limit {SHARE_LIMIT:.0%} of the run without it, {run - audit:.2f} s",
        f"{share / SHARE_LIMIT:.2f}",
    )


def _of_verifying(seconds: float, *, files: int) -> Figure:
    each = f"{seconds / files * 1e6:.0f} µs for each"
    return Figure(f"verifying a chain of {files:,} events", f"{seconds * 1e3:.0f} ms", each, "-")


async def _audited(path: Path, *, files: int) -> float:
    """Seconds that the events of a large change take."""
    store = SqliteStore(path)
    await store.create_project(rows.PROJECT, at=rows.AT)
    parts = list(_parts(files))
    begun = time.perf_counter()
    await store.commit(parts, record=Record(run=rows.run("R1")))
    seconds = time.perf_counter() - begun
    await store.close()
    return seconds


def _parts(files: int) -> Iterator[Changes]:
    actor = rows.origin().actor
    for start in range(0, files, PART):
        names = (f"destination-{number:06d}" for number in range(start, min(start + PART, files)))
        made = (rows.AT, rows.PROJECT, actor, "created", rows.KIND)
        yield Changes(audit=[AuditRow(*made, name, None, 1, "R1") for name in names])
