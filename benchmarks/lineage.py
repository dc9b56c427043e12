"""Lineage: which commit changed each file, for files of a history; beside the log of git, which tells the same."""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import corpus
from benchmarks.figures import Figure
from reconciler.git.snapshots import Snapshot

ROUNDS = 3


def measure(*, commits: int, files: int) -> list[Figure]:
    """Of ten files, beside ten logs that end at the first commit; and of all, beside one log of everything."""
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "corpus.git"
        corpus.make(repository, files=files, commits=commits)
        head = _git(repository, "rev-parse", "main").strip()
        few = _seconds(lambda: _walk(repository, head, [corpus.path(number * files // 10) for number in range(10)]))
        logs = _seconds(lambda: _logs(repository, [corpus.path(number * files // 10) for number in range(10)]))
        every = _seconds(lambda: _walk(repository, head, [corpus.path(number) for number in range(files)]))
        whole = _seconds(lambda: _git(repository, "log", "--format=%H", "--name-only", "main"))
    return [
        _figure(f"lineage of 10 of {files:,} files, {commits:,} commits", few, "git log -1, ten times,", logs),
        _figure(f"lineage of {files:,} files, {commits:,} commits", every, "git log --name-only", whole),
    ]


def _walk(repository: Path, head: str, paths: list[str]) -> None:
    with Snapshot.open(repository, head) as snapshot:
        found = snapshot.last_changes(paths, go_on=lambda: True)
    if found.keys() != set(paths):
        raise RuntimeError("the walk has not found the commit of every file")


def _logs(repository: Path, paths: list[str]) -> None:
    for path in paths:
        _git(repository, "log", "-1", "--format=%H", "main", "--", path)


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _figure(what: str, ours: float, floor: str, theirs: float) -> Figure:
    return Figure(what, f"{ours:.2f} s", f"{floor} {theirs:.2f} s", f"{ours / theirs:.2f}")
