"""How much may be written before the disk is down to its reserve.

Belongs here: asking the file system, seldom. Does not: the limits of a queue (`disk`).
"""

import os
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 1.0  # between two looks at the disk
PLENTY = 1 << 62


class Space:
    """The room of the file system that a folder is on. In between two looks, what was taken is counted."""

    def __init__(self, folder: Path, *, reserve: int, monotonic: Callable[[], float]) -> None:
        """`reserve` is in bytes."""
        self._folder = folder
        self._reserve = reserve
        self._monotonic = monotonic
        self._spare = 0
        self._looked_at: float | None = None

    def spare(self) -> int:
        """Bytes; below zero when the disk is beyond its reserve."""
        now = self._monotonic()
        if self._looked_at is None or now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            try:
                found = os.statvfs(self._folder)
            except OSError:  # the append will say what is wrong
                self._spare = PLENTY
            else:
                self._spare = found.f_bavail * found.f_frsize - self._reserve
        return self._spare

    def look_again(self) -> None:
        """Something was given back: the next one who asks hears of it."""
        self._looked_at = None

    def take(self, size: int) -> None:
        """So much is about to be written."""
        self._spare -= size
