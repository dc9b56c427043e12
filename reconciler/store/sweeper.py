"""Sweeping in the background, and giving checksums to what has none: short jobs on the thread that writes, between
which others have their turn.

Belongs here: when the next step is taken, and what becomes of one that fails. Does not: what is swept (`sweeping`),
what a checksum is (`checksums`).
"""

import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Executor

from reconciler.store import checksums, sweeping
from reconciler.store.contract import StoreFault

log = logging.getLogger(__name__)


class Sweeper:
    """All but `end` is called on the thread that writes."""

    def __init__(self, connection: sqlite3.Connection, thread: Executor) -> None:
        self._connection = connection
        self._thread = thread
        self._steps: Iterator[None] | None = None
        self._is_again = False  # there is something new since it began
        self._is_ended = False

    def begin(self) -> None:
        """Sweep what there is, soon."""
        self._is_again = True
        if self._steps is None:
            self._steps = self._all()
            self._next()

    def end(self) -> None:
        """Leave the rest to the next start."""
        self._is_ended = True

    def _all(self) -> Iterator[None]:
        while self._is_again:
            self._is_again = False
            yield from sweeping.sweep_everything(self._connection)
            yield from checksums.judge_all(self._connection)

    def _next(self) -> None:
        if not self._is_ended:
            try:
                self._thread.submit(self._step)
            except RuntimeError:  # the thread was ended just now
                self._is_ended = True

    def _step(self) -> None:
        assert self._steps is not None
        if self._is_ended:
            return
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except StoreFault as fault:
            # Nobody sees what is left; whatever is swept next, or the next start, takes it along.
            log.warning("%s", fault)
            self._steps = None
        except Exception:
            # A fault of ours, which nobody waits for here: what comes later is swept all the same.
            log.exception("Sweeping the store failed.")
            self._steps = None
        else:
            self._next()
