"""When to look again: a decision from what is known; waiting is elsewhere."""

from dataclasses import dataclass

FIRST_RETRY = 1.0  # seconds
LONGEST_RETRY = 600.0  # seconds
JITTER = 0.1  # of the interval, so that many repositories do not poll at once


@dataclass(frozen=True, slots=True)
class Pace:
    """How a repository has been doing. `failures` counts those in a row; times are seconds on a monotonic clock."""

    interval: float
    failures: int
    full_due: float


def delay(pace: Pace, *, now: float, randomness: float) -> float:
    """Seconds until the next look, at least 0; `randomness` is from 0 up to 1.

    After a failure the delay doubles from one second to ten minutes, however short the interval; otherwise it is the
    interval, give or take a tenth, or what is left until everything is to be read again.
    """
    if pace.failures:
        doubled = FIRST_RETRY * float(2 ** min(pace.failures - 1, 20))
        return min(doubled, LONGEST_RETRY) * (1 - JITTER * randomness)
    spread = pace.interval * (1 + JITTER * (2 * randomness - 1))
    return max(0.0, min(spread, pace.full_due - now))
