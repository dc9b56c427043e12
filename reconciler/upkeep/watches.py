"""How long something may take that has no end of its own, and what is told meanwhile."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reconciler.model.errors import Refused

EVERY_SECONDS = 2.0  # at most one line of progress
STEPS = 100_000  # of SQLite's machine, some milliseconds, between two looks at the clock

Said = Callable[[str], None]


@dataclass
class ProgressWatch:
    """`clock` is monotonic, in seconds; `seconds` from now on all that it watches must have ended."""

    clock: Callable[[], float]
    seconds: float
    said: Said
    _begun: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self._begun = self._told = self.clock()

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.clock() - self._begun > self.seconds

    def check(self, what: str) -> None:
        """Raises Refused when the time is up."""
        if self.is_over:
            raise Refused(f"{what} took longer than {self.seconds:g} seconds and was given up; nothing was changed.")

    def tell(self, sentence: str) -> None:
        """Say how far it is, unless something was said a moment ago."""
        if self.clock() - self._told >= EVERY_SECONDS:
            self._told = self.clock()
            self.said(sentence)

    @contextmanager
    def over(self, connection: sqlite3.Connection, what: str) -> Iterator[None]:
        """End whatever statement runs meanwhile when the time is up. Raises Refused then."""

        def look() -> int:
            self.tell(f"{what} ...")
            return int(self.is_over)

        connection.set_progress_handler(look, STEPS)
        try:
            yield
        except sqlite3.OperationalError:
            self.check(what)
            raise
        finally:
            connection.set_progress_handler(None, 0)
