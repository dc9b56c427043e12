"""A daemon that has nothing to do: the memory of its processes, its CPU; and how long its command takes to start."""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import corpus, processes
from benchmarks.daemons import COMMAND, daemon, until_read
from benchmarks.figures import Figure
from tests import daemons

MAIN_LIMIT_MB = 130
CHILD_LIMIT_MB = 60
CPU_LIMIT_PERCENT = 4.0  # of one core
REPOSITORIES, INTERVAL = 20, "60s"
SETTLE_SECONDS = 10.0
VERSION_LIMIT_MS = 150
ROUNDS = 10


def memory() -> list[Figure]:
    """Resident memory, shared pages counted by share (PSS), after a first read of the smallest repository."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=10)
        with daemon(folder, repository=folder / "corpus.git") as running:
            until_read(running, files=10)
            time.sleep(1)
            main = processes.pss_mb(running.process.pid)
            child = processes.pss_mb(running.reader())
    return [
        _within("idle memory, main process", main, MAIN_LIMIT_MB, "MB"),
        _within("idle memory, worker", child, CHILD_LIMIT_MB, "MB"),
    ]


def following(*, seconds: float) -> list[Figure]:
    """Measure a daemon that follows twenty repositories, polled once a minute, while nothing happens to them."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        names = [f"r{number:02d}" for number in range(REPOSITORIES)]
        for name in names:
            corpus.make(folder / f"{name}.git", files=10)
        watched = [
            daemons.watched(name, folder / f"{name}.git", interval=INTERVAL, project=f"p-{name}") for name in names
        ]
        with daemons.running(folder / "daemon", repositories=watched, is_started=True) as running:
            for name in names:
                until_read(running, name, files=10)
            time.sleep(SETTLE_SECONDS)
            process = running.process.pid
            used, begun = processes.cpu_seconds(process), time.monotonic()
            time.sleep(seconds)
            percent = 100 * (processes.cpu_seconds(process) - used) / (time.monotonic() - begun)
            main = processes.pss_mb(process)
            child = processes.pss_mb(running.reader())
    what = f"idle with {REPOSITORIES} repositories at {INTERVAL}"
    return [
        _within(f"{what}, main process", main, MAIN_LIMIT_MB, "MB"),
        _within(f"{what}, worker", child, CHILD_LIMIT_MB, "MB"),
        Figure(
            f"{what}, CPU over {seconds:.0f} s",
            f"{percent:.2f} % of a core",
            f"limit {CPU_LIMIT_PERCENT:g} %",
            f"{percent / CPU_LIMIT_PERCENT:.2f}",
        ),
    ]


def version() -> Figure:
    """Wall time of `reconciler version`, the whole process."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        subprocess.run([COMMAND, "version"], check=True, capture_output=True)
        times.append((time.perf_counter() - begun) * 1000)
    return _within("`reconciler version`", statistics.median(times), VERSION_LIMIT_MS, "ms")


def _within(what: str, value: float, limit: float, unit: str) -> Figure:
    return Figure(what, f"{value:.0f} {unit}", f"limit {limit:.0f} {unit}", f"{value / limit:.2f}")
