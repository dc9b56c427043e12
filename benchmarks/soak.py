"""A day compressed: commits, log records, reads, failing polls and an endpoint that restarts, against one real daemon.

`python -m benchmarks.soak` takes half an hour for 100,000 commits and 10 million records; `--minutes` shortens it at
the same rates. Branches move one by one, and what comes during a run is one more look, so that fewer runs than commits
are made: both are told. In the end every commit's content must be stored and every record delivered, or it fails.
"""

import argparse
import contextlib
import http.client
import math
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks import delivery_bodies, delivery_daemon, delivery_pacing, figures, serving_ports, sink
from benchmarks.beside import Beside, Latencies
from benchmarks.delivery_daemon import Receiver
from benchmarks.delivery_load import PROTOBUF
from benchmarks.delivery_pacing import Pacing
from benchmarks.figures import Figure
from benchmarks.soak_commits import Commits
from benchmarks.watching import Sample, Stretch, watching
from tests import daemons
from tests.daemons import Daemon

MINUTES = 30.0
COMMITS, RECORDS = 100_000, 10_000_000  # of that time
RECORDS_A_REQUEST = 100
CONNECTIONS = 8
READS_A_SECOND, LISTS_A_SECOND = 50.0, 0.5
INTERVAL = "5s"  # of what is followed; what fails is polled as often
RESTARTS = 10  # of the endpoint, at equal distances
DOWN_SECONDS = 1.0
SAMPLE_SECONDS = 1.0
DRAINED_SECONDS = 300.0
WARM, LAST = (0.15, 0.30), (0.85, 1.0)  # of the time: what is compared
GROWTH_LIMIT = 1.10
MORE_FILES = 10  # at a moment: connections, pipes of a git
WAL_LIMIT_MB = 64 * 1.048576


@dataclass(frozen=True, slots=True)
class Seen:
    """The observations of one soak."""

    seconds: float
    commits: int
    runs: int
    versions: int
    records: int
    again: int  # records that came a second time
    samples: list[Sample]
    warm: Stretch
    last: Stretch
    reads: Latencies


class Endpoint:
    """The sink, which is ended and started again now and then; what it took in all its lives."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.sink = self._stack.enter_context(sink.running(serving_ports.free()))
        self._before = 0

    def restart(self) -> None:
        """Take no more, and come back a moment later."""
        self.sink.answer(http.HTTPStatus.SERVICE_UNAVAILABLE)
        self._before += self.sink.counts().records
        port = self.sink.port
        self._stack.close()
        time.sleep(DOWN_SECONDS)
        self.sink = self._stack.enter_context(sink.running(port))

    def records(self) -> int:
        """How many it took."""
        return self._before + self.sink.counts().records

    def close(self) -> None:
        """End it."""
        self._stack.close()


def measure(*, minutes: float) -> list[Figure]:
    """The figures. Raises RuntimeError or AssertionError when something is not stored or not delivered."""
    return figures_of(soak(minutes=minutes))


def soak(*, minutes: float) -> Seen:
    """All of it."""
    seconds = minutes * 60
    total = math.ceil(COMMITS * minutes / MINUTES)
    with tempfile.TemporaryDirectory() as temporary, closing(Endpoint()) as endpoint:
        folder = Path(temporary)
        commits = Commits(folder / "repositories", total=total, a_second=total / seconds)
        with _daemon(folder, commits) as running:
            receiver = delivery_daemon.made(running, folder, endpoint.sink)
            every = min(SAMPLE_SECONDS, seconds / 60)
            begun = time.perf_counter()
            with watching(running.process.pid, running.reader(), state=running.state, every=every) as watch:
                reads, records = _loaded(running, receiver, endpoint, commits, seconds=seconds)
            ended = time.perf_counter()
            _all_stored(running, commits)
            again = _all_delivered(receiver, endpoint, records)
        runs, versions = _counted(running.state / "store.db")
    warm, last = (watch.stretch(begun + one * seconds, begun + other * seconds) for one, other in (WARM, LAST))
    return Seen(ended - begun, commits.moved, runs, versions, records, again, watch.samples, warm, last, reads)


@contextlib.contextmanager
def _daemon(folder: Path, commits: Commits) -> Iterator[Daemon]:
    """A daemon that has read everything once; two repositories more fail at every poll."""
    watched = [daemons.watched(one.name, one.path, interval=INTERVAL) for one in commits.sources]
    nobody = f"git://127.0.0.1:{serving_ports.free()}/nobody.git"
    failing: list[dict[str, object]] = [
        {"name": "gone", "url": str(folder / "gone.git"), "branch": "main", "interval": INTERVAL},
        {"name": "refused", "url": nobody, "branch": "main", "interval": INTERVAL},
    ]
    with daemons.running(folder / "daemon", repositories=[*watched, *failing], is_started=True) as running:
        for one in commits.sources:
            running.state_of(one.name, "ready")
        yield running


def _loaded(
    running: Daemon, receiver: Receiver, endpoint: Endpoint, commits: Commits, *, seconds: float
) -> tuple[Latencies, int]:
    """Commits, records, reads and restarts for so long; what reads saw, and how many records were sent."""
    with _reads(running, receiver) as reading, _lists(running, receiver) as listing:
        commits.start()
        sending = _records(receiver, seconds=seconds)
        begun, restarts = time.perf_counter(), max(1, round(RESTARTS * seconds / (MINUTES * 60)))
        for number in range(restarts):
            time.sleep(max(0.0, begun + (number + 0.5) * seconds / restarts - time.perf_counter()))
            endpoint.restart()
            print(f"{time.perf_counter() - begun:.0f} s: {commits.moved} commits", file=sys.stderr, flush=True)
        sent = sending.ended()
        commits.ended(seconds=seconds)
        listing.ended()
        return reading.ended(), sent.requests * RECORDS_A_REQUEST


def _records(receiver: Receiver, *, seconds: float) -> Pacing:
    body = delivery_bodies.texts(RECORDS_A_REQUEST)
    request = delivery_pacing.request("POST", "/v1/logs", key=receiver.keys[0], body=body, content_type=PROTOBUF)
    rate = RECORDS / (MINUTES * 60) / RECORDS_A_REQUEST
    port, file = receiver.daemon.port, receiver.folder / "load"
    return Pacing(request, port=port, a_second=rate, connections=CONNECTIONS, seconds=seconds, file=file)


def _reads(running: Daemon, receiver: Receiver) -> Beside:
    request = delivery_pacing.request("GET", "/v1/resources/Destination/r0-000", key=running.key)
    file = receiver.folder / "read"
    return Beside(request, port=running.port, every=1 / READS_A_SECOND, file=file, paced=True)


def _lists(running: Daemon, receiver: Receiver) -> Beside:
    request = delivery_pacing.request("GET", "/v1/resources/Destination", key=running.key)
    file = receiver.folder / "list"
    return Beside(request, port=running.port, every=1 / LISTS_A_SECOND, file=file, paced=False)


def _all_stored(running: Daemon, commits: Commits) -> None:
    """Wait until every branch's last commit is applied, and see what is stored."""
    for source in commits.sources:
        last = source.commits[-1] if source.commits else None

        def is_applied(name: str = source.name, last: str | None = last) -> bool:
            shown = running.repository(name)
            return shown["state"] == "ready" and last in (None, shown["commit"])

        daemons.until(is_applied, f"{source.name} is at its last commit", seconds=DRAINED_SECONDS)
    stored = {one["metadata"]["name"]: one["metadata"].get("description") for one in running.resources("Destination")}
    expected = {name: text for source in commits.sources for name, text in source.expected().items()}
    wrong = [name for name, text in expected.items() if stored.get(name) != text]
    if wrong:
        raise RuntimeError(f"{len(wrong)} resources are not as the last commits have them: {wrong[:5]}")


def _all_delivered(receiver: Receiver, endpoint: Endpoint, sent: int) -> int:
    """Wait until nothing is queued; how many records came twice, since an endpoint ended before its answer was read."""

    def drained() -> dict[str, int] | None:
        shown = receiver.delivery()
        return None if shown["queue"]["batches"] else dict(shown["counts"])

    counts = daemons.until(drained, "the queue is empty", seconds=DRAINED_SECONDS)
    came = endpoint.records()
    if (
        not sent == counts["taken"] == counts["delivered"]
        or came < sent
        or receiver.delivery()["deadLetters"]["batches"]
    ):
        raise RuntimeError(f"{sent} records were sent, {came} came; the service tells {counts}")
    return came - sent


def _counted(store: Path) -> tuple[int, int]:
    """Runs and versions that are stored."""
    with closing(sqlite3.connect(store)) as connection:
        (runs,) = connection.execute("select count(*) from run").fetchone()
        (versions,) = connection.execute("select count(*) from version").fetchone()
    return int(runs), int(versions)


def figures_of(seen: Seen) -> list[Figure]:
    """Return the figures of a soak."""
    warm, last = seen.warm, seen.last
    what = f"soak of {seen.seconds / 60:.1f} minutes"
    wal = max(one.wal_mb for one in seen.samples)
    return [
        Figure(
            f"{what}, {seen.commits:,} commits in {seen.runs:,} runs",
            f"{seen.versions:,} versions",
            "all that the last commits hold is stored",
            "-",
        ),
        Figure(f"{what}, {seen.records:,} records", "all delivered", f"{seen.again:,} twice", "-"),
        _grown(f"{what}, main process", warm.main_mb, last.main_mb),
        _grown(f"{what}, worker", warm.child_mb, last.child_mb),
        _flat(f"{what}, open files of the main process", warm.main_files, last.main_files),
        _flat(f"{what}, open files of the worker", warm.child_files, last.child_files),
        Figure(f"{what}, the store's log (WAL)", f"{wal:.0f} MB", "limit 64 MiB", f"{wal / WAL_LIMIT_MB:.2f}"),
        Figure(
            f"{what}, GET one, {seen.reads.requests:,} times",
            f"99th percentile {seen.reads.p99_ms:.1f} ms",
            f"the slowest {seen.reads.worst_ms:.0f} ms",
            "-",
        ),
    ]


def _grown(what: str, warm: float, last: float) -> Figure:
    beside = f"limit {GROWTH_LIMIT:g} times {warm:.0f} MB when warm"
    return Figure(what, f"{last:.0f} MB", beside, f"{last / (warm * GROWTH_LIMIT):.2f}")


def _flat(what: str, warm: float, last: float) -> Figure:
    beside = f"limit {warm:.0f} when warm and {MORE_FILES} more"
    return Figure(what, f"{last:.0f}", beside, f"{last / (warm + MORE_FILES):.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long (default: %(default)g)")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles what it imports
    print(figures.machine(), end="\n\n", flush=True)
    found = measure(minutes=arguments.minutes)
    print(figures.table(found))
    if missed := figures.over(found):
        sys.exit(f"over the limit: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
