"""Whether what failed is tried again, and when; pure.

Belongs here: intervals, the longest time, `Retry-After`. Does not: what a failure is (`verdicts`), the endpoint as a
whole (`breaker`), timers.

Times are seconds. What counts against `max_elapsed` is what a batch's requests took and the waits between them. What
the endpoint asked for with `Retry-After` does not count, nor does time behind an open breaker or a closed window: who
waits for those is never given up for it.
"""

import random
from typing import NamedTuple

from reconciler.model.routes import Retry

MULTIPLIER = 1.5
SPREAD = 0.5  # an interval is multiplied by anything from 1 - SPREAD to 1 + SPREAD
LONGEST_RETRY_AFTER = 3600.0
_MOST_DOUBLINGS = 100  # 1.5 ** 100 is longer than any interval, and no overflow


class RetryDecision(NamedTuple):
    """Try again after `delay` seconds, when `spent` of the longest time will have been used."""

    delay: float
    spent: float


def retry_interval(retry: Retry, *, attempts: int, chance: random.Random) -> float:
    """The wait after so many attempts, at least one: grown, then randomised, then cut."""
    grown = retry.initial_interval * MULTIPLIER ** min(attempts - 1, _MOST_DOUBLINGS)
    return min(grown * chance.uniform(1 - SPREAD, 1 + SPREAD), retry.max_interval)


def decide_retry(
    retry: Retry, *, attempts: int, spent: float, retry_after: float, chance: random.Random
) -> RetryDecision | None:
    """What becomes of something after its `attempts`-th failure, when `spent` of the longest time was used. None: it is
    given up. The longest time may be used to its very end, as what is used is at most that.
    """
    if not retry.enabled:
        return None
    own = retry_interval(retry, attempts=attempts, chance=chance)
    asked = clamped_retry(retry_after)
    after = spent + max(own - asked, 0.0)
    if retry.max_elapsed and after > retry.max_elapsed:
        return None
    return RetryDecision(max(own, asked), after)


def clamped_retry(retry_after: float) -> float:
    """What is honoured of a `Retry-After`."""
    return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)
