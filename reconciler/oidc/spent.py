"""States that came back once already.

Belongs here: remembering them for as long as their sign-in lives, and no more than fit. Does not: whether a state is
the right one (`callbacks`).

A restart forgets them. What is left then is the provider's part: a code opens one token (RFC 6749, 4.1.2).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

MOST = 20_000  # some 4 MB; the oldest goes for a new one


class ReplayGuard:
    """Who comes first with a state has it."""

    def __init__(self, *, lifetime: float, monotonic: Callable[[], float], most: int = MOST) -> None:
        """`lifetime` is in seconds."""
        self._lifetime = lifetime
        self._monotonic = monotonic
        self._most = most
        self._states: OrderedDict[bytes, float] = OrderedDict()  # digest to the time when it came

    def take(self, state: str) -> bool:
        """Whether it is the first time."""
        now = self._monotonic()
        while self._states and now - next(iter(self._states.values())) > self._lifetime:
            self._states.popitem(last=False)
        digest = hashlib.sha256(state.encode()).digest()
        if digest in self._states:
            return False
        if len(self._states) >= self._most:
            self._states.popitem(last=False)
        self._states[digest] = now
        return True
