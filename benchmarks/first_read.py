"""First read: from an empty state to every file's resource stored, beside the plain script on the same repository."""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import corpus
from benchmarks.daemons import daemon, first_run, resource
from benchmarks.figures import Figure

ROUNDS = 5
SHARE = 2.0  # times the time of the script that ours may take


def measure(*, files: int, distinct: bool = False) -> Figure:
    """Ours is from the signal by which a running daemon follows the repository to the first answer that shows what is
    stored; by turns. `distinct`: the files have no shape in common.
    """
    ours, floor = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files, distinct=distinct)
        for number in range(ROUNDS):
            place = folder / str(number)
            place.mkdir()
            floor.append(plain(folder / "corpus.git", place / "plain.db"))
            ours.append(_daemon(folder / "corpus.git", place, files=files))
    ratio = statistics.median(one / other for one, other in zip(ours, floor, strict=True))
    return Figure(
        f"first read of {files:,} files, {'no common shape' if distinct else 'one shape'}",
        f"{statistics.median(ours):.2f} s",
        f"at most {SHARE:g} times the plain script, {statistics.median(floor):.2f} s",
        f"{ratio:.2f}",
        missed=ratio > SHARE,
    )


def plain(repository: Path, database: Path) -> float:
    """The seconds that the script takes."""
    command = [sys.executable, "-m", "benchmarks.plain_script", str(repository), str(database)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _daemon(repository: Path, folder: Path, *, files: int) -> float:
    with daemon(folder, repository=None) as running:
        running.apply(resource("stored"))  # once the child has answered, all of the service has started
        return first_run(running, repository, files=files)
