"""How often somebody may try to sign in: failures are counted by name and by address, and each waits for itself.

Belongs here: counting, with the time as an argument. Does not: what a failure is.

A name alone would let anybody lock a person out; an address alone lets many addresses try one name. So each has a
bucket: it holds so many failures and empties slowly, and while it is full, nothing is compared. What succeeds empties
the bucket of its name for this address only; from there, that of the name alone does not count any more, so that many
strangers together cannot lock out whoever signed in before.
"""

from collections import OrderedDict
from dataclasses import dataclass

PER_PAIR = 5  # failures of one name from one address before waiting
PER_ADDRESS = 20  # of any names from one address
PER_NAME = 50  # of one name from any addresses
SECONDS = 30.0  # in which one failure is forgotten
LONGEST = 128  # characters of a name that tell it from others; nobody has a longer one
MOST = 10_000  # buckets kept; the longest unused go first


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class SignInAttempts:
    """The failures of the last minutes, in memory."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who signed in from where

    def wait(self, name: str, address: str, *, now: float) -> float:
        """Seconds to wait before another attempt; 0 for none. `now` is any clock that does not go back."""
        is_known = (name[:LONGEST], address) in self._known
        limits = [limit for limit in _limits(name, address) if not (is_known and limit[1] == PER_NAME)]
        over = [self._level(key, now) - (most - 1) for key, most in limits]
        return max(0.0, *over) * SECONDS if max(over) > 0 else 0.0

    def failed(self, name: str, address: str, *, now: float) -> None:
        """Count a failure."""
        for key, _ in _limits(name, address):
            level = self._level(key, now)
            self._buckets[key] = _Bucket(level + 1, now)
            self._buckets.move_to_end(key)
        while len(self._buckets) > MOST:
            self._buckets.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of this name from this address, and know it there."""
        pair = (name[:LONGEST], address)
        self._buckets.pop(pair, None)
        self._known[pair] = None
        self._known.move_to_end(pair)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def _level(self, key: tuple[str, str], now: float) -> float:
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else max(0.0, bucket.level - (now - bucket.at) / SECONDS)


def _limits(name: str, address: str) -> tuple[tuple[tuple[str, str], int], ...]:
    name = name[:LONGEST]
    return (((name, address), PER_PAIR), (("", address), PER_ADDRESS), ((name, ""), PER_NAME))
