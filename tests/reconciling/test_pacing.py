"""When a repository is looked at again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.reconciling import pacing
from reconciler.reconciling.pacing import Pace

FAR = 1e9  # seconds: everything was read just now

TABLE = [
    # Pace(interval, failures, full_due), now, randomness, expected
    (Pace(60.0, 0, FAR), 0.0, 0.0, 54.0),
    (Pace(60.0, 0, FAR), 0.0, 0.5, 60.0),
    (Pace(60.0, 0, FAR), 0.0, 0.75, 63.0),
    (Pace(60.0, 0, 1_030.0), 1_000.0, 0.5, 30.0),
    (Pace(60.0, 0, 1_000.0), 1_000.0, 0.5, 0.0),
    (Pace(60.0, 0, 900.0), 1_000.0, 0.5, 0.0),
    (Pace(0.25, 0, FAR), 0.0, 0.5, 0.25),
    (Pace(60.0, 1, FAR), 0.0, 0.0, 1.0),
    (Pace(60.0, 1, FAR), 0.0, 0.5, 0.95),
    (Pace(60.0, 2, FAR), 0.0, 0.0, 2.0),
    (Pace(60.0, 4, FAR), 0.0, 0.0, 8.0),
    (Pace(60.0, 10, FAR), 0.0, 0.0, 512.0),
    (Pace(60.0, 11, FAR), 0.0, 0.0, 600.0),
    (Pace(60.0, 11, FAR), 0.0, 0.5, 570.0),
    (Pace(60.0, 1_000_000, FAR), 0.0, 0.0, 600.0),
    (Pace(0.25, 3, FAR), 0.0, 0.0, 4.0),  # an interval shorter than the backoff does not shorten it
    (Pace(3_600.0, 1, FAR), 0.0, 0.0, 1.0),  # nor does a longer one lengthen it
    (Pace(60.0, 5, 0.0), 1_000.0, 0.0, 16.0),  # nor does a full read that is overdue
]


@pytest.mark.parametrize(("pace", "now", "randomness", "expected"), TABLE)
def test_the_delay(pace: Pace, now: float, randomness: float, expected: float) -> None:
    assert pacing.delay(pace, now=now, randomness=randomness) == pytest.approx(expected)


TIMES = st.floats(0, 1e9)
RANDOMNESS = st.floats(0, 1, exclude_max=True)


@given(st.floats(0.25, 86_400), st.integers(0, 10_000), TIMES, TIMES, RANDOMNESS)
def test_the_delay_stays_within_its_bounds(
    interval: float, failures: int, full_due: float, now: float, randomness: float
) -> None:
    delay = pacing.delay(Pace(interval=interval, failures=failures, full_due=full_due), now=now, randomness=randomness)
    if failures:
        assert 0.9 * pacing.FIRST_RETRY <= delay <= pacing.LONGEST_RETRY
    else:
        assert 0 <= delay <= 1.1 * interval
        assert delay >= min(0.9 * interval, max(0.0, full_due - now))


@given(st.integers(1, 100), RANDOMNESS)
def test_more_failures_never_mean_a_shorter_delay(failures: int, randomness: float) -> None:
    fewer, more = (
        pacing.delay(Pace(interval=60, failures=count, full_due=0), now=0, randomness=randomness)
        for count in (failures, failures + 1)
    )
    assert fewer <= more
