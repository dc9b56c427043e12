"""First read: from an empty state to every resource stored, beside the plain script on the same repository."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import corpus
from benchmarks.daemons import daemon
from benchmarks.figures import Figure

ROUNDS = 3


def measure(*, files: int) -> Figure:
    """Ours is the run's own duration, from the look at the repository to the commit of the store."""
    ours, floor = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files)
        for number in range(ROUNDS):
            place = folder / str(number)
            place.mkdir()
            floor.append(_plain(folder / "corpus.git", place / "plain.db"))
            ours.append(_daemon(folder / "corpus.git", place, files=files))
    mine, theirs = statistics.median(ours), statistics.median(floor)
    return Figure(
        f"first read of {files:,} files", f"{mine:.2f} s", f"plain script {theirs:.2f} s", f"{mine / theirs:.2f}"
    )


def _plain(repository: Path, database: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.plain_script", str(repository), str(database)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _daemon(repository: Path, folder: Path, *, files: int) -> float:
    with daemon(folder, repository=repository) as running:
        until = time.monotonic() + 600
        while time.monotonic() < until:
            runs = running.runs()
            if runs:
                if runs[0]["counts"] != {"created": files}:
                    raise RuntimeError(f"the run did something else: {runs[0]}")
                return float(runs[0]["durationMs"]) / 1000
            time.sleep(0.2)
    raise TimeoutError("no run within ten minutes")
