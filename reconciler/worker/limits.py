"""Limits of the worker: what one commit may take, and what the process gives up before it parses."""

import ctypes
import gc
import os
import resource
import signal
import time
from collections.abc import Callable, Set
from dataclasses import dataclass

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import Refused
from reconciler.model.names import Key

# What one commit may take of the reader child: files, bytes, documents, ignore rules, and time of its processor.

MEBIBYTE = 2**20
ASIDE = (
    "ended the program that reads it, or kept it for a minute, twice, so it is not read until it changes; mend it or"
    " take it out"
)


@dataclass(frozen=True, slots=True)
class CommitLimits:
    """What the reading of one commit may take, far above what is written by hand."""

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


@dataclass(frozen=True, slots=True)
class UsedAllowance:
    """What the reading of one commit took, or a part of it; the seconds are of processors."""

    files: int = 0
    bytes: int = 0
    documents: int = 0
    seconds: float = 0.0

    def less(self, before: "UsedAllowance") -> "UsedAllowance":
        """What was taken since."""
        return UsedAllowance(
            self.files - before.files,
            self.bytes - before.bytes,
            self.documents - before.documents,
            self.seconds - before.seconds,
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
    """What is left to one commit. Belongs to the thread that reads it, whose time counts from here on.

    `at` is called with each file's blob before the file is read. `used` was taken before.
    """

    def __init__(
        self,
        limits: CommitLimits = COMMIT,
        *,
        aside: frozenset[str] = frozenset(),
        at: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.thread_time,
        used: UsedAllowance = UsedAllowance(),
    ) -> None:
        self.limits = limits
        self.aside = aside
        self._at = at
        self._clock = clock
        self._end = clock() + limits.seconds - used.seconds
        self._files, self._bytes, self._documents = used.files, used.bytes, used.documents
        self._ignore_files = self._patterns = 0
        self._unclocked = 0  # what was done since the time was asked for, in bytes and characters

    @property
    def used(self) -> UsedAllowance:
        """What was taken so far."""
        seconds = self.limits.seconds - (self._end - self._clock())
        return UsedAllowance(self._files, self._bytes, self._documents, seconds)

    def beside(self) -> "Allowance":
        """The same once more, for what may be read several times: what is counted there is not counted here."""
        return Allowance(self.limits, aside=self.aside, at=self._at, clock=self._clock, used=self.used)

    def add(self, used: UsedAllowance) -> None:
        """Others read for this commit, and took so much. Raises Exhausted."""
        self._files += used.files
        self._bytes += used.bytes
        self._end -= used.seconds
        self.known(self._bytes, files=self._files)
        self.documents(used.documents)
        self.time()

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


# On which terms a commit is planned: with the service's secrets and store, or without them, of part of its files.


@dataclass(frozen=True, slots=True)
class PlanMode:
    """`only` these files are looked at; None for all. `elsewhere` is how many others there are. `assumed` is taken to
    be there, since nobody can say.

    `live`: the store is the service's, and so are the secrets that may be referred to. Otherwise the store is made for
    this plan alone; who changed what, and which secrets there are, nobody asks. `lenient`: a service may have stored it
    before there were recent rules, so these do not count.
    """

    only: Set[str] | None = None
    assumed: Set[Key] = frozenset()
    elsewhere: int = 0
    live: bool = True
    lenient: bool = False


RECONCILE = PlanMode()


# What the reader child may take of the machine, and what it gives up before it parses what strangers wrote.

ADDRESS_SPACE_BYTES = 4 * 1024**3  # a parser gone wild ends here, not with the machine's memory
OPEN_FILES = 256
UMASK = 0o077

# From linux/prctl.h, which no module of Python's has.
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def limit_process() -> None:
    """Before anything is read. What a limit stops raises OSError or MemoryError, or ends the process."""
    os.umask(UMASK)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, ADDRESS_SPACE_BYTES)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    # No file grows: the store is read, and Python ignores the signal, so that a write raises EFBIG.
    _limit(resource.RLIMIT_FSIZE, 0)
    # Ends with the daemon, even while a library holds the interpreter and the end of the input is not seen.
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    _control(PR_SET_NO_NEW_PRIVS, 1)


def end_with_parent(parent: int) -> None:
    """For a process that was forked, which has the other limits: it ends with its parent, or is over already."""
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def close_files() -> None:
    """Once all threads are there: no thread or process is started from here on. Root is not held to it."""
    _limit(resource.RLIMIT_NPROC, 0)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # who started us may allow less
    resource.setrlimit(what, (most, most))


def _control(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


# The memory of the reader child and its helpers: what stays out of the garbage collector's sight, what is given back.

# Objects that came, less those that went, until cycles are looked for among them. Reading keeps what it makes, and
# makes next to no cycles: at Python's own 700, a twelfth of the time of a first read went into looking.
COLLECT_AFTER = 10_000


def settle_memory() -> None:
    """Once all is imported: that is never looked through again. Its pages stay shared with what is forked, too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def give_back_memory() -> None:
    """What was freed, to the machine, since allocators keep it. Where the C library cannot be asked, they do.

    Takes some milliseconds, in most of which the interpreter is free.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)
