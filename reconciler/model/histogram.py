"""A histogram that every part can afford."""

from bisect import bisect_left


class Histogram:
    """How many values were at most each of `bounds`, which grow; those above the last have a place of their own.

    A value is counted in one place alone (`counts` has one more than `bounds`); `total` is the sum of all values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
