"""One file of many changed: from the move of the ref to the first GET that shows it, the watcher included.

The repository is a path on this machine, and its commits are made beforehand, so that what is timed begins with the
rename of one small file. A client asks every two milliseconds on one connection.
"""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks import corpus, delivery_pacing, moving
from benchmarks.asking import Connection
from benchmarks.daemons import BENCH, Daemon, until_read
from benchmarks.figures import Figure
from tests import daemons

COMMITS = 100
LIMIT_MS, TARGET_MS, FLAT_LIMIT_MS = 120.0, 60.0, 450.0
GROWTH_LIMIT = 2.0  # of what the same takes with 1,000 files
FEW = 1_000
REST_SECONDS = 0.2  # between two commits: what follows a run is over by then
POLL_SECONDS = 0.002
SEEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Times:
    """Of so many commits, in milliseconds."""

    p50: float
    p95: float


def measure(*, files: int, flat_files: int) -> list[Figure]:
    """With few files and with many, and with many in one folder."""
    few, many = times(files=FEW), times(files=files)
    flat = times(files=flat_files, flat=True)
    grown = many.p95 / few.p95
    what = f"one file of {files:,} changed, from the ref's move to the GET that shows it, 95th percentile of {COMMITS}"
    return [
        _within(f"one file of {FEW:,} changed, the same", few, LIMIT_MS, f"target {TARGET_MS:.0f} ms"),
        _within(what, many, LIMIT_MS, f"target {TARGET_MS:.0f} ms; with {FEW:,} files {few.p95:.0f} ms"),
        Figure(
            f"one file of {files:,} changed, the same, beside one of {FEW:,}",
            f"{many.p95:.0f} ms",
            f"limit {GROWTH_LIMIT:g} times {few.p95:.0f} ms",
            f"{grown / GROWTH_LIMIT:.2f}",
        ),
        _within(f"one file of {flat_files:,} in one folder changed, the same", flat, FLAT_LIMIT_MS, ""),
    ]


def _within(what: str, found: Times, limit: float, more: str) -> Figure:
    beside = f"limit {limit:.0f} ms; {more}" if more else f"limit {limit:.0f} ms"
    return Figure(what, f"{found.p95:.0f} ms, median {found.p50:.0f} ms", beside, f"{found.p95 / limit:.2f}")


def times(*, files: int, flat: bool = False, settings: Mapping[str, object] | None = None) -> Times:
    """Change one file after the other of so many; `settings` are further ones of the daemon."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        repository = folder / "corpus.git"
        corpus.make(repository, files=files, flat=flat)
        numbers = [number * (files // COMMITS) for number in range(COMMITS)]
        commits = moving.prepare(repository, [(corpus.path(number, flat=flat), _changed(number)) for number in numbers])
        watched = daemons.watched(BENCH, repository, interval="1h")
        with daemons.running(folder / "daemon", repositories=[watched], settings=settings, is_started=True) as running:
            until_read(running, files=files)
            time.sleep(2 + files / 20_000)  # until what follows a first read is done: the history is searched, say
            took = [
                _shown(running, repository, commit, number) for commit, number in zip(commits, numbers, strict=True)
            ]
    return Times(*(delivery_pacing.percentile(took, share) * 1000 for share in (0.5, 0.95)))


def _shown(running: Daemon, repository: Path, commit: str, number: int) -> float:
    """Seconds from the move to the first GET that shows the second version."""
    request = delivery_pacing.request("GET", f"/v1/resources/Destination/{corpus.name(number)}", key=running.key)
    with Connection(running.port) as connection:
        connection.ask(request)
        time.sleep(REST_SECONDS)
        begun = time.perf_counter()
        moving.move(repository, commit)
        while time.perf_counter() - begun < SEEN_SECONDS:
            if b'"version":2' in connection.ask(request).body:
                return time.perf_counter() - begun
            time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the commit {commit} was not shown within {SEEN_SECONDS:g} s: {running.output()[-2000:]}")


def _changed(number: int) -> str:
    """The same resource with another scheme: `http` is none that the corpus has."""
    text = corpus.document(number, Random(number))  # noqa: S311 - a reproducible corpus, no secret
    return text.replace("value: https", "value: http")
