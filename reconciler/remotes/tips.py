"""Where refs were when somebody last looked, so that asking whether they moved costs a remote next to nothing.

Belongs here: what is remembered, for how long, and when to ask again. Does not: asking (`proposing`).
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

SECONDS = 30.0  # between two looks for this alone, and how long what was seen counts
MOST = 256  # refs that are remembered and asked for in one look


class RefTip(NamedTuple):
    """Where a ref was; `commit` is None when it was not there. `at`: when the look began."""

    at: float
    commit: str | None


class RefCache:
    """Of one remote. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, RefTip] = {}  # those that were asked for last come last
        self._asked = float("-inf")

    def note(self, ref: str, commit: str | None, *, at: float) -> None:
        """Somebody looked."""
        known = self._known.get(ref)
        if known is None or known.at <= at:
            self._known[ref] = RefTip(at, commit)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def are_due(self, wanted: Collection[str]) -> bool:
        """Whether to look again on behalf of these."""
        now = self._clock()
        is_old = any(ref not in self._known or now - self._known[ref].at >= SECONDS for ref in wanted)
        return is_old and now - self._asked >= SECONDS

    def begin(self, wanted: Collection[str]) -> list[str]:
        """A look begins now: the refs that it is to ask for, these and as many of all others as fit."""
        self._asked = self._clock()
        newest = [ref for ref in reversed(self._known) if ref not in wanted]
        return sorted([*sorted(wanted), *newest][:MOST])

    def told(self, wanted: Collection[str]) -> dict[str, str | None]:
        """Where they were, in the order of their names; without those of which nothing is known."""
        found = {ref: self._known.pop(ref) for ref in sorted(wanted) if ref in self._known}
        self._known |= found  # as the newest
        return {ref: tip.commit for ref, tip in found.items()}
