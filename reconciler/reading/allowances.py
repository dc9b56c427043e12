"""What one commit may take of the reader child: files, bytes, documents, ignore rules, and time of its processor.

Belongs here: the numbers, counting against them, and which files are set aside. Does not: the limits of one file
(`documents.limits`), nor what is read. Whoever may push must not be able to keep the child from everybody else's work.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.errors import Refused
from reconciler.git.faults import GitFault, State

MEBIBYTE = 2**20
ASIDE = "ended the program that reads it twice, so it is not read until it changes; mend it or take it out"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the reading of one commit may take, far above what is written by hand."""

    files: int = 250_000  # that count as documents
    bytes: int = 1024 * MEBIBYTE  # of them together; content that stands under many paths counts each time
    documents: int = 500_000
    ignore_files: int = 1_000
    patterns: int = 10_000  # of all ignore files together
    seconds: float = 300.0  # of the thread's processor time, so that a busy machine refuses nothing


COMMIT = Limits()


class Exhausted(GitFault):
    """The commit takes more than one may. The same commit will again, so that it is not worth another try."""

    def __init__(self, message: str) -> None:
        super().__init__(State.UNSUPPORTED_FORMAT, message)


def _exhausted(what: str, remedy: str) -> Exhausted:
    return Exhausted(f"the commit {what}, and nothing of it is applied; {remedy}")


class Allowance:
    """What is left to one commit. Belongs to the thread that reads it, whose time counts from here on.

    `at` is called with each file's blob before the file is read.
    """

    def __init__(
        self,
        limits: Limits = COMMIT,
        *,
        aside: frozenset[str] = frozenset(),
        at: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._limits = limits
        self.aside = aside
        self._at = at
        self._clock = clock
        self._end = clock() + limits.seconds
        self._files = self._bytes = self._documents = self._ignore_files = self._patterns = 0

    def known(self, size: int, *, files: int) -> None:
        """So many files of so many bytes together will be read, counted before any is. Raises Exhausted."""
        if files > self._limits.files:
            raise _exhausted(f"holds more than {self._limits.files:,} files to read", SMALLER)
        if size > self._limits.bytes:
            raise _exhausted(f"holds more than {self._limits.bytes // MEBIBYTE:,} MiB of files to read", SMALLER)

    def file(self, blob: str, size: int) -> None:
        """One more file is to be read. Raises Exhausted, or Refused for a file that is set aside."""
        self._files += 1
        self._bytes += size
        self.known(self._bytes, files=self._files)
        self.time()
        if blob in self.aside:
            raise Refused(ASIDE)
        if self._at is not None:
            self._at(blob)

    def documents(self, number: int) -> None:
        """So many more documents were read. Raises Exhausted."""
        self._documents += number
        if self._documents > self._limits.documents:
            raise _exhausted(f"holds more than {self._limits.documents:,} documents", SMALLER)

    def ignore_file(self, patterns: int) -> None:
        """One more ignore file, with so many patterns. Raises Exhausted."""
        self._ignore_files += 1
        self._patterns += patterns
        if self._ignore_files > self._limits.ignore_files:
            raise _exhausted(f"holds more than {self._limits.ignore_files:,} ignore files", FEWER)
        if self._patterns > self._limits.patterns:
            raise _exhausted(f"holds more than {self._limits.patterns:,} patterns in its ignore files", FEWER)

    def time(self) -> None:
        """Raises Exhausted when the processor time is used up."""
        if self._clock() > self._end:
            raise _exhausted(f"takes more than {self._limits.seconds:g} s of processor time to read", SMALLER)

    def no_file(self) -> None:
        """No file is read any more."""
        if self._at is not None:
            self._at("")


SMALLER = "configure a folder of it with `path`, leave files out with a .serviceignore, or split the repository"
FEWER = "use wildcards, and fewer ignore files"
