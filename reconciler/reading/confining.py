"""What the reader child may take of the machine, and what it gives up before it parses what strangers wrote.

Belongs here: limits that the kernel holds a process to. Does not: limits of what is read (`allowances`,
`documents.limits`).
"""

import ctypes
import os
import resource
import signal

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
