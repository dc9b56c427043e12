"""A first reconcile of very many files in a running daemon, and what whoever else uses the daemon notices of it.

The daemon has one stored resource, which is read and written meanwhile. The repository is followed from one moment on,
by settings that are read again, so that what is timed is from that signal to the first answer that shows what was
stored, and nothing of a start. While others read and write, somebody pushes to a repository of another project, too.
"""

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks import corpus, delivery_pacing, moving
from benchmarks.beside import Beside, Latencies
from benchmarks.daemons import Daemon, daemon, first_run, resource, until_read
from benchmarks.figures import Figure
from benchmarks.watching import Most, watching
from tests import daemons

FEW = 10_000
GROWTH_LIMIT = 1.3
BUSY_LIMIT = 2.0
MEMORY_LIMIT_MB, MEMORY_TARGET_MB = 1_073.0, 600.0  # 1 GiB
READS_A_SECOND = 100
READ_LIMIT_MS, READ_TARGET_MS = 100.0, 30.0
WRITE_PAUSE_SECONDS = 0.2
SAME_LIMIT_SECONDS, OTHER_LIMIT_SECONDS = 30.0, 20.0  # of a write to the project that the commit locks, and another
ALONE_SECONDS = 3.0
SAMPLE_SECONDS = 0.1
STORED = "stored"
OTHER = "other"  # a repository, and its project
OTHER_FILES = 100
PUSH_SECONDS = 1.0
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Read:
    """One first reconcile: how long it took, and the most that it took of the machine."""

    seconds: float
    most: Most


@dataclass(frozen=True, slots=True)
class Noticed:
    """The latencies of reads and writes beside it, and of reads without it.

    `same` are writes to its project, `other` those to another project.
    """

    alone: Latencies
    reads: Latencies
    same: Latencies
    other: Latencies


def measure(*, files: int) -> list[Figure]:
    """By turns with few files and with many, then with many while others read and write."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        few, many = folder / "few.git", folder / "many.git"
        corpus.make(few, files=FEW)
        corpus.make(many, files=files)
        quiet_few = [_quiet(folder / f"few-{number}", few, FEW) for number in range(2)]
        quiet = _quiet(folder / "many", many, files)
        busy, noticed = _busy(folder / "busy", many, files)
    seconds = sum(one.seconds for one in quiet_few) / len(quiet_few)
    return [*_sizes(files, seconds, quiet, busy), *_noticed(files, noticed)]


def _sizes(files: int, few_seconds: float, quiet: Read, busy: Read) -> list[Figure]:
    what = f"first reconcile of {files:,} files"
    each, few_each = quiet.seconds / files, few_seconds / FEW
    growth = each / few_each
    memory = max(quiet.most.all_mb, busy.most.all_mb)
    wal = max(quiet.most.wal_mb, busy.most.wal_mb)
    return [
        Figure(
            f"{what}, time of each",
            f"{each * 1e6:.0f} µs, {quiet.seconds:.1f} s in all",
            f"limit {GROWTH_LIMIT:g} times that of {FEW:,}, {few_each * 1e6:.0f} µs",
            f"{growth / GROWTH_LIMIT:.2f}",
        ),
        Figure(
            f"{what} while others read, write and push",
            f"{busy.seconds:.1f} s",
            f"limit {BUSY_LIMIT:g} times that alone",
            f"{busy.seconds / quiet.seconds / BUSY_LIMIT:.2f}",
        ),
        Figure(
            f"{what}, memory of all processes",
            f"{memory:.0f} MB",
            f"limit {MEMORY_LIMIT_MB:.0f} MB; target {MEMORY_TARGET_MB:.0f} MB",
            f"{memory / MEMORY_LIMIT_MB:.2f}",
        ),
        Figure(
            f"{what}, the store's log (WAL)",
            f"{wal:.0f} MB",
            "no limit: it is one transaction",
            "-",
        ),
    ]


def _noticed(files: int, noticed: Noticed) -> list[Figure]:
    reads, alone = noticed.reads, noticed.alone
    what = f"during the first reconcile of {files:,} files"
    return [
        Figure(
            f"GET one, {READS_A_SECOND} a second, {what}, 99th percentile of {reads.requests}",
            f"{reads.p99_ms:.1f} ms",
            f"limit {READ_LIMIT_MS:.0f} ms; target {READ_TARGET_MS:.0f} ms; without it {alone.p99_ms:.1f} ms",
            f"{reads.p99_ms / READ_LIMIT_MS:.2f}",
        ),
        _written(f"a small write {what}, same project", noticed.same, SAME_LIMIT_SECONDS),
        _written(f"a small write {what}, another project", noticed.other, OTHER_LIMIT_SECONDS),
    ]


def _written(what: str, writes: Latencies, limit: float) -> Figure:
    worst = writes.worst_ms / 1000
    return Figure(
        f"{what}, the slowest of {writes.requests}",
        f"{worst:.2f} s",
        f"limit {limit:.0f} s; median {writes.p50_ms:.0f} ms",
        f"{worst / limit:.2f}",
    )


def _quiet(folder: Path, repository: Path, files: int) -> Read:
    with _running(folder) as running:
        return _read(running, repository, files)


def _busy(folder: Path, repository: Path, files: int) -> tuple[Read, Noticed]:
    with _running(folder) as running:
        with _reads(running, folder) as alone:
            time.sleep(ALONE_SECONDS)
            quiet = alone.ended()
        with (
            _pushes(running, folder),
            _reads(running, folder) as reading,
            _writes(running, folder, project=None) as same,
            _writes(running, folder, project=OTHER) as other,
        ):
            read = _read(running, repository, files)
            return read, Noticed(alone=quiet, reads=reading.ended(), same=same.ended(), other=other.ended())


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Daemon]:
    with daemon(folder, repository=None) as running:
        updates = running.apply(resource(STORED, "0"))
        if updates[0]["status"] != "created":
            raise RuntimeError(f"the resource was not stored: {updates}")
        running.reader()  # it is there
        yield running


def _read(running: Daemon, repository: Path, files: int) -> Read:
    child = running.reader()
    with watching(running.process.pid, child, state=running.state, every=SAMPLE_SECONDS) as watch:
        seconds = first_run(running, repository, files=files)
    return Read(seconds, watch.most())


def _reads(running: Daemon, folder: Path) -> Beside:
    asked = delivery_pacing.request("GET", f"/v1/resources/Destination/{STORED}", key=running.key)
    return Beside(asked, port=running.port, every=1 / READS_A_SECOND, file=folder / "read", paced=True)


def _writes(running: Daemon, folder: Path, *, project: str | None) -> Beside:
    body = json.dumps({"resources": [resource("written", "@@@@@@@@")]}).encode()
    headers = {} if project is None else {"X-Service-Project": project}
    asked = delivery_pacing.request("POST", "/v1/apply", key=running.key, body=body, content_type=JSON, headers=headers)
    file = folder / f"write-{project}"
    return Beside(asked, port=running.port, every=WRITE_PAUSE_SECONDS, file=file, paced=False)


@contextlib.contextmanager
def _pushes(running: Daemon, folder: Path) -> Iterator[None]:
    """Push one small change after another to a repository of another project."""
    repository = folder / f"{OTHER}.git"
    corpus.make(repository, files=OTHER_FILES)
    commits = moving.prepare(repository, [(corpus.path(number), _changed(number)) for number in range(OTHER_FILES)])
    running.follow(daemons.watched(OTHER, repository, project=OTHER, interval="1h"))
    until_read(running, OTHER, files=OTHER_FILES)
    ended = threading.Event()

    def push() -> None:
        for commit in commits:
            moving.move(repository, commit)
            if ended.wait(PUSH_SECONDS):
                return

    thread = threading.Thread(target=push)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _changed(number: int) -> str:
    """The same resource with another scheme: `http` is none that the corpus has."""
    text = corpus.document(number, Random(number))  # noqa: S311 - a reproducible corpus, no secret
    return text.replace("value: https", "value: http")
