"""Watch a daemon's use of memory, descriptors and log space from outside, for as long as something lasts.

Belongs here: looking again and again, in a thread of whoever measures, which costs the daemon nothing but its page
tables; the most of what was seen, and the medians of a stretch of it, since a moment may have a request or a git more.
Does not: what it may take.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes


@dataclass(frozen=True, slots=True)
class Sample:
    """At one moment: PSS in MB, of the worker; open files; the size of the log (WAL) in MB.

    `all_mb` is of all processes that there are, every git too.
    """

    at: float
    all_mb: float
    main_mb: float
    child_mb: float
    main_files: int
    child_files: int
    wal_mb: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """The medians of a while."""

    main_mb: float
    child_mb: float
    main_files: float
    child_files: float


@dataclass(frozen=True, slots=True)
class Most:
    """The most of all samples."""

    all_mb: float
    wal_mb: float


class Watch:
    """Return the observations so far."""

    def __init__(self, main: int, child: int, *, state: Path) -> None:
        self.samples: list[Sample] = []
        self._main, self._child = main, child
        self._wal = state / "store.db-wal"

    def look(self) -> None:
        """Once more. Raises OSError when one of the two processes has ended."""
        others = [one for one in processes.family(self._main) if one not in (self._main, self._child)]
        main_mb = processes.pss_mb(self._main)
        child_mb = processes.pss_mb(self._child)
        sample = Sample(
            at=time.perf_counter(),
            all_mb=main_mb + child_mb + processes.pss_mb_of_all(others),
            main_mb=main_mb,
            child_mb=child_mb,
            main_files=processes.descriptors(self._main),
            child_files=processes.descriptors(self._child),
            wal_mb=size_mb(self._wal),
        )
        self.samples.append(sample)

    def most(self) -> Most:
        """Of everything that was seen. Raises ValueError when nothing was."""
        return Most(all_mb=max(one.all_mb for one in self.samples), wal_mb=max(one.wal_mb for one in self.samples))

    def stretch(self, begin: float, end: float) -> Stretch:
        """The medians between two instants of `time.perf_counter`, of whatever was seen last when nothing was."""
        chosen = [one for one in self.samples if begin <= one.at <= end] or self.samples[-1:]
        return Stretch(
            main_mb=statistics.median(one.main_mb for one in chosen),
            child_mb=statistics.median(one.child_mb for one in chosen),
            main_files=statistics.median(one.main_files for one in chosen),
            child_files=statistics.median(one.child_files for one in chosen),
        )


@contextlib.contextmanager
def watching(main: int, child: int, *, state: Path, every: float) -> Iterator[Watch]:
    """Look at a daemon, its worker and the store in its state directory, every so many seconds.

    Raises OSError at the end when one of the two processes had ended before.
    """
    watch, end = Watch(main, child, state=state), threading.Event()
    failures: list[OSError] = []

    def look() -> None:
        try:
            while not end.wait(every):
                watch.look()
        except OSError as failure:
            failures.append(failure)

    thread = threading.Thread(target=look, name="watch a daemon")
    thread.start()
    try:
        yield watch
    finally:
        end.set()
        thread.join()
    if failures:
        raise failures[0]


def size_mb(file: Path) -> float:
    """How large a file is, 0 where there is none."""
    try:
        return file.stat().st_size / 1e6
    except OSError:
        return 0.0
