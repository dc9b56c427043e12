"""The bound on the daemon's end: what does not end by itself in time is ended, children first.

On a thread, since what hangs may be the event loop itself, or the end of the interpreter, which waits for the threads
of executors. What ends, and in which order, is the daemon's to say.
"""

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable
from pathlib import Path

log = logging.getLogger(__name__)

LOG_SECONDS = 1.0  # a reader of our log that hangs must not hold up the end
FAILED = 1  # the exit code


class ShutdownDeadline:
    """Begun once, when the daemon is told to stop; it lasts until the process has ended."""

    def __init__(self, *, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._begun = False
        self._waits: list[str] = []

    def begin(self) -> None:
        """From now on there is a deadline. A second call changes nothing."""
        if not self._begun:
            self._begun = True
            self._timer.start()

    async def waits(self, what: str, work: Awaitable[None]) -> None:
        """Wait for a part's end, which is named if it is not reached."""
        self._waits.append(what)
        try:
            await work
        finally:
            self._waits.remove(what)

    def _end(self) -> None:
        # A store write under way did not happen: SQLite rolls it back at the next start.
        saying = threading.Thread(target=self._say, name="last-words", daemon=True)
        saying.start()
        saying.join(LOG_SECONDS)
        for child in child_processes():
            _kill(child)
        os._exit(FAILED)

    def _say(self) -> None:
        late = " and ".join(self._waits) or "work in a thread"
        log.error(
            "The stop took longer than %g seconds, for %s did not end; the daemon was ended.", self._seconds, late
        )


def child_processes() -> list[int]:
    """The processes that this one has started, where the kernel tells (Linux)."""
    found: list[int] = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # that thread has ended meanwhile
            found += [int(number) for number in tasks.read_text().split()]
    return sorted(found)


def _kill(child: int) -> None:
    """With its whole group where it leads one, as git and the reader do: git has children of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(child) == child:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)
