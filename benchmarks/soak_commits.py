"""The commits of a soak: repositories whose commits are all made beforehand, and their branches moved on, one by one.

Belongs here: making them, moving them at a rate, taking one repository away for a moment now and then, and what must be
stored in the end. Does not: who follows them.
"""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import corpus, moving
from tests import daemons

REPOSITORIES = 10
FILES = 50  # of each
AWAY_EVERY, AWAY_SECONDS = 60.0, 1.0  # the first repository is not there for a moment, once a minute
BATCH = 10_000  # commits that are made at a time


@dataclass(slots=True)
class Source:
    """One repository, its upcoming commits, and how many of them its branch has passed."""

    name: str
    path: Path
    commits: list[str] = field(default_factory=list)
    moved: int = 0

    def expected(self) -> dict[str, str]:
        """The description of each resource once all commits are applied."""
        newest = {self.resource(number): "first" for number in range(FILES)}
        return newest | {self.resource(number % FILES): str(number) for number in range(self.moved)}

    def resource(self, number: int) -> str:
        """The name of the resource in a file."""
        return f"{self.name}-{number:03d}"


class Commits:
    """Ten repositories that get `total` commits together, `a_second`, one after the other."""

    def __init__(self, folder: Path, *, total: int, a_second: float) -> None:
        folder.mkdir()
        self.sources = [Source(f"r{number}", folder / f"r{number}.git") for number in range(REPOSITORIES)]
        self._distance = 1 / a_second
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="commits")
        for number, source in enumerate(self.sources):
            _make(source, commits=total // REPOSITORIES + (number < total % REPOSITORIES))

    @property
    def total(self) -> int:
        """How many there are in all."""
        return sum(len(source.commits) for source in self.sources)

    @property
    def moved(self) -> int:
        """How many were committed until now."""
        return sum(source.moved for source in self.sources)

    def start(self) -> None:
        """Begin to move."""
        self._thread.start()

    def ended(self, *, seconds: float) -> None:
        """Wait until every branch is at its last commit."""
        self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure
        if self._thread.is_alive():
            raise TimeoutError(f"{self.moved} of {self.total} commits were made in time")

    def _run(self) -> None:
        try:
            self._move_all()
        except BaseException as failure:  # whoever waits for the end is to know
            self._failure = failure

    def _move_all(self) -> None:
        begun = time.perf_counter()
        away_due, gone = begun + AWAY_EVERY / 2, None
        for number in range(self.total):
            now = _sleep_until(begun + number * self._distance)
            if gone is not None and now >= away_due + AWAY_SECONDS:
                gone.rename(self.sources[0].path)
                away_due, gone = now + AWAY_EVERY, None
            elif gone is None and now >= away_due:
                gone = self.sources[0].path.rename(self.sources[0].path.with_suffix(".away"))
                away_due = now
            source = self.sources[number % REPOSITORIES]
            source.moved += 1
            if gone is None or source is not self.sources[0]:  # the next one makes up for what is left out
                moving.move(source.path, source.commits[source.moved - 1])
        if gone is not None:
            gone.rename(self.sources[0].path)
        if self.sources[0].commits:
            moving.move(self.sources[0].path, self.sources[0].commits[-1])  # should the last have been skipped


def _sleep_until(due: float) -> float:
    time.sleep(max(0.0, due - time.perf_counter()))
    return time.perf_counter()


def _make(source: Source, *, commits: int) -> None:
    corpus.empty(source.path)
    head = f"commit {moving.REF}\ncommitter Bench <bench@localhost> {corpus.SECOND} +0000\ndata 5\nfirst\n"
    files = (corpus.written(_file(number), _text(source, number, "first")) for number in range(FILES))
    corpus.imported(source.path, head.encode() + b"".join(files))
    for start in range(0, commits, BATCH):
        numbers = range(start, min(start + BATCH, commits))
        changes = [(_file(number % FILES), _text(source, number % FILES, str(number))) for number in numbers]
        source.commits += moving.prepare(source.path, changes, after=source.commits[-1] if source.commits else None)


def _file(number: int) -> str:
    return f"team-{number % 5}/destination-{number:03d}.yaml"


def _text(source: Source, number: int, description: str) -> str:
    return daemons.destination(source.resource(number), description)
