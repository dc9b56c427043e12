"""The allowance of one commit: files, bytes, documents, ignore rules, and time of a processor."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import Refused

MEBIBYTE = 2**20
ASIDE = (
    "ended the program that reads it, or kept it for a minute, twice, so it is not read until it changes; mend it or"
    " take it out"
)


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """The limits on reading one commit, far above what people write by hand."""

    files: int = 250_000  # that count as documents
    bytes: int = 1024 * MEBIBYTE  # of them together; content that stands under many paths counts each time
    documents: int = 500_000
    ignore_files: int = 1_000
    patterns: int = 10_000  # of all ignore files together
    seconds: float = 300.0  # of the thread's processor time, so that a busy machine refuses nothing


COMMIT = CommitLimits()

CLOCKED = (
    4096  # bytes of files, and characters of paths for each pattern: asking for the time takes as long as 100 bytes
)


class Exhausted(GitFault):
    """The commit takes more than one may, or ends what reads it. The same commit will again, so that it is not worth
    another try.
    """

    def __init__(self, message: str) -> None:
        super().__init__(RepositoryState.UNSUPPORTED_FORMAT, message)


def _exhausted(what: str, remedy: str) -> Exhausted:
    return Exhausted(f"the commit {what}, and nothing of it is applied; {remedy}")


class Allowance:
    """The rest of one commit's limits. It belongs to the thread that reads the commit; its time counts from here on.

    `at` is called with each file's blob before the file is read.
    """

    def __init__(
        self,
        limits: CommitLimits = COMMIT,
        *,
        aside: frozenset[str] = frozenset(),
        at: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.limits = limits
        self.aside = aside
        self._at = at
        self._clock = clock
        self._end = clock() + limits.seconds
        self._files = self._bytes = self._documents = 0
        self._ignore_files = self._patterns = 0
        self._unclocked = 0  # what was done since the time was asked for, in bytes and characters

    def beside(self) -> "Allowance":
        """The same once more, for what may be read several times: what is counted there is not counted here."""
        return copy.copy(self)

    def known(self, size: int, *, files: int) -> None:
        """So many files of so many bytes together will be read, counted before any is. Raises Exhausted."""
        if files > self.limits.files:
            raise _exhausted(f"holds more than {self.limits.files:,} files to read", SMALLER)
        if size > self.limits.bytes:
            raise _exhausted(f"holds more than {self.limits.bytes // MEBIBYTE:,} MiB of files to read", SMALLER)

    def file(self, blob: str, size: int) -> None:
        """One more file is to be read. Raises Exhausted, or Refused for a file that is set aside."""
        self._files += 1
        self._bytes += size
        self.known(self._bytes, files=self._files)
        self._done(size)
        if blob in self.aside:
            raise Refused(ASIDE)
        if self._at is not None:
            self._at(blob)

    def documents(self, number: int) -> None:
        """So many more documents were read. Raises Exhausted."""
        self._documents += number
        if self._documents > self.limits.documents:
            raise _exhausted(f"holds more than {self.limits.documents:,} documents", SMALLER)

    def ignore_file(self, patterns: int) -> None:
        """One more ignore file, with so many patterns. Raises Exhausted."""
        self._ignore_files += 1
        self._patterns += patterns
        if self._ignore_files > self.limits.ignore_files:
            raise _exhausted(f"holds more than {self.limits.ignore_files:,} ignore files", FEWER)
        if self._patterns > self.limits.patterns:
            raise _exhausted(f"holds more than {self.limits.patterns:,} patterns in its ignore files", FEWER)

    def path(self, path: str) -> None:
        """A path is to be held against all patterns. Raises Exhausted."""
        self._done(len(path) * (1 + self._patterns))

    def _done(self, size: int) -> None:
        self._unclocked += size
        if self._unclocked >= CLOCKED:
            self.time()

    def time(self) -> None:
        """Raises Exhausted when the processor time is used up."""
        self._unclocked = 0
        if self._clock() > self._end:
            raise _exhausted(f"takes more than {self.limits.seconds:g} s of processor time to read", SMALLER)

    def no_file(self) -> None:
        """No file is read any more."""
        if self._at is not None:
            self._at("")


SMALLER = (
    "configure a folder of it with `path`, leave files out with `include`, `exclude` or a .serviceignore, or split the"
    " repository"
)
FEWER = "use wildcards, and fewer ignore files"
