"""How often something may be begun from one address, whoever it is: what costs the service or a provider work before
anybody is known.

Belongs here: counting, with the time as an argument. Does not: failures of passwords (`attempts`), what is begun.

Each address has a bucket for each thing: it holds so many, and empties slowly. Many people may share an address, an
office's for instance, so a bucket is larger than one person ever fills.
"""

from collections import OrderedDict, defaultdict
from typing import NamedTuple

MOST = 10_000  # buckets kept, for each thing; the longest unused go first, and begin anew


class RateLimit(NamedTuple):
    """So many at once, and one more each so many seconds."""

    burst: int
    seconds: float


class RateLimits:
    """What was begun in the last minutes, in memory."""

    def __init__(self) -> None:
        self._of: defaultdict[str, OrderedDict[str, tuple[float, float]]] = defaultdict(OrderedDict)  # level, and when

    def take(self, what: str, address: str, *, pace: RateLimit, now: float) -> float:
        """Count one more and return 0, or the seconds to wait first. `now` is any clock that does not go back."""
        buckets = self._of[what]
        before, at = buckets.get(address, (0.0, now))
        level = max(0.0, before - (now - at) / pace.seconds)
        if level > pace.burst - 1:
            return (level - (pace.burst - 1)) * pace.seconds
        buckets[address] = (level + 1, now)
        buckets.move_to_end(address)
        if len(buckets) > MOST:
            buckets.popitem(last=False)
        return 0.0
