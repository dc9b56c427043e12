"""`reconciler validate` of as many files as a commit changes at most: how long somebody waits before each commit."""

import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import corpus
from benchmarks.daemons import COMMAND
from benchmarks.figures import Figure

FILES = 25
LIMIT_MS = 400
ROUNDS = 10


def measure() -> Figure:
    """Wall time of the whole process, the start of Python included."""
    with tempfile.TemporaryDirectory() as temporary:
        paths = _files(Path(temporary))
        times = [_once(paths) for _ in range(ROUNDS)]
    median = statistics.median(times)
    return Figure(
        f"`reconciler validate` of {FILES} files",
        f"{median:.0f} ms",
        f"limit {LIMIT_MS} ms",
        f"{median / LIMIT_MS:.2f}",
    )


def _files(folder: Path) -> list[str]:
    source = random.Random(1)  # noqa: S311 - a reproducible corpus, no secret
    paths = [folder / f"destination-{number}.yaml" for number in range(FILES)]
    for number, path in enumerate(paths):
        path.write_text(corpus.document(number, source), encoding="utf-8")
    return [str(path) for path in paths]


def _once(paths: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run([COMMAND, "validate", *paths], check=True, capture_output=True)
    return (time.perf_counter() - begun) * 1000
