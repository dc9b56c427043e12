"""Exceptions of the product, named by what the caller does next.

    ReconcilerError
    ├── Refused     give up and tell a person: the same input gives the same answer
    └── Transient   try again, with backoff

The raiser decides which it is; one place obeys. Exceptions with more to say (a position, a state) are subclasses in
the module that raises them. Every message is one sentence for a person: it names the resource or file and what to do,
and holds no secret. What it quotes is visible (`text.visible`): messages go to logs, terminals, answers and the store.
"""

import errno

from reconciler.model import text

OPEN_FILES = "too many files are open: raise `LimitNOFILE` in the service's unit, or `ulimit -n` where it is started"


class ReconcilerError(Exception):
    """Any failure that the product foresees."""

    def __init__(self, message: str) -> None:
        self.message = text.visible_lines(message)
        super().__init__(self.message)


class Refused(ReconcilerError):
    """The input, the settings or a permission is wrong; only a person can change that."""


class Transient(ReconcilerError):
    """Something outside failed (disk, network, process); retry with backoff."""


def is_open_files(problem: BaseException | None) -> bool:
    """Return True when the process, or the machine, may open no more files."""
    return isinstance(problem, OSError) and problem.errno in (errno.EMFILE, errno.ENFILE)


def system_reason(problem: OSError) -> str:
    """Return why the system refused something, as a part of a sentence; of open files, what to do too."""
    return OPEN_FILES if is_open_files(problem) else problem.strerror or str(problem)
