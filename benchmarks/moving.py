"""Commits that are there before anybody looks, and a ref that moves from one to the next as git moves it.

Belongs here: making them, and the move, which costs whoever measures nothing but a file. Does not: what sees it.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from benchmarks import corpus

REF = "refs/heads/main"
UPCOMING = "refs/upcoming/main"  # which nobody follows


def prepare(repository: Path, changes: Iterable[tuple[str, str]], *, after: str | None = None) -> list[str]:
    """A commit for each change of a file (its path, and its text), one upon the other, behind the branch or `after`
    another commit; their ids.

    The branch stays where it is.
    """
    first = f"from {after or f'{REF}^0'}\n".encode()
    marks = repository / "upcoming-marks"
    lines = [f"feature export-marks={marks}\n".encode()]
    for number, (path, text) in enumerate(changes, start=1):
        second = corpus.SECOND + number
        head = f"commit {UPCOMING}\nmark :{number}\ncommitter Bench <bench@localhost> {second} +0000\ndata 4\nnext\n"
        lines.append(head.encode() + (first if number == 1 else b"") + corpus.written(path, text))
    command = ["git", "-C", str(repository), "fast-import", "--quiet", "--allow-unsafe-features"]
    subprocess.run(command, input=b"".join(lines), check=True)
    found = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    return [found[f":{number}"] for number in range(1, len(found) + 1)]


def move(repository: Path, commit: str, *, ref: str = REF) -> None:
    """The branch leads to a commit from now on: a file beside it that takes its place, as git does it."""
    file = repository / ref
    lock = file.with_name(f"{file.name}.lock")
    lock.write_text(f"{commit}\n")
    lock.rename(file)
