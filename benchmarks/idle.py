"""A daemon that has nothing to do: the memory of its two processes; and how long its command takes to start."""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import corpus, processes
from benchmarks.daemons import COMMAND, daemon
from benchmarks.figures import Figure

MAIN_LIMIT_MB = 130
CHILD_LIMIT_MB = 60
VERSION_LIMIT_MS = 150
ROUNDS = 10


def memory() -> list[Figure]:
    """Resident memory, shared pages counted by share (PSS), after a first read of the smallest repository."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=10)
        with daemon(folder, repository=folder / "corpus.git") as running:
            while not running.runs():
                time.sleep(0.1)
            time.sleep(1)
            main = processes.pss_mb(running.process.pid)
            child = max(map(processes.pss_mb, running.children()))
    return [
        _within("idle memory, main process", main, MAIN_LIMIT_MB, "MB"),
        _within("idle memory, reader child", child, CHILD_LIMIT_MB, "MB"),
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
