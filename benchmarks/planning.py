"""A plan of ten changed files in ten thousand: the whole process, cold, beside the plain script on the same files."""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks import corpus
from benchmarks.figures import Figure

CHANGED = 10
BRANCH = "proposal"
PROGRAM = str(Path(sys.executable).with_name("reconciler"))


def measure(*, files: int, rounds: int = 5) -> Figure:
    """The wall time of the process, by turns with the script, which reads and parses all files and inserts nothing."""
    with tempfile.TemporaryDirectory() as place:
        repository = Path(place) / "corpus.git"
        corpus.make(repository, files=files)
        _propose(repository, files)
        plans, scripts = [], []
        for _ in range(rounds):
            scripts.append(_seconds([sys.executable, "-m", "benchmarks.plain_script", str(repository)]))
            plans.append(_seconds([PROGRAM, "plan", "--head", BRANCH, str(repository)]))
    ours, floor = statistics.median(plans), statistics.median(scripts)
    ratio = statistics.median(one / other for one, other in zip(plans, scripts, strict=True))
    return Figure(
        f"plan of {CHANGED} changed files in {files:,}, whole process",
        f"{ours:.2f} s",
        f"at most 0.9 times the plain script without insert, whole process, {floor:.2f} s",
        f"{ratio:.2f}",
        missed=ratio > 0.9,
    )


def _propose(repository: Path, files: int) -> None:
    """A branch that changes the port in ten files of different folders."""
    git = ("git", "-C", str(repository))
    lines = [f"commit refs/heads/{BRANCH}\ncommitter Bench <bench@localhost> {corpus.SECOND + 1} +0000\ndata 6\nchange"]
    lines.append("from refs/heads/main")
    for number in range(0, files, files // CHANGED):
        path = corpus.path(number)
        text = subprocess.run([*git, "show", f"main:{path}"], check=True, capture_output=True, text=True).stdout
        changed = text.replace("value: https", "value: http")
        lines.append(f"M 644 inline {path}\ndata {len(changed.encode())}\n{changed}")
    subprocess.run([*git, "fast-import", "--quiet"], input="\n".join(lines).encode() + b"\n", check=True)


def _seconds(command: list[str]) -> float:
    begun = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begun
