"""A histogram that is cheap to update."""

from bisect import bisect_left


class Histogram:
    """Counts of values by ascending `bounds`, each an inclusive upper bound. The last count is for values above all
    bounds.

    A value is counted once (`counts` has one more than `bounds`). `total` is the sum of all values.
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
