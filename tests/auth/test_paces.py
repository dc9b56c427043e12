"""How often something may be begun from one address."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import rate_limits
from reconciler.auth.rate_limits import RateLimit, RateLimits

PACE = RateLimit(burst=3, seconds=10.0)


def test_a_burst_passes_and_then_one_each_so_many_seconds() -> None:
    found = RateLimits()
    assert [found.take("x", "a", pace=PACE, now=0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 10.0]
    assert found.take("x", "a", pace=PACE, now=5.0) == 5.0
    assert found.take("x", "a", pace=PACE, now=10.0) == 0.0
    assert found.take("x", "a", pace=PACE, now=10.0) == 10.0
    assert [found.take("x", "a", pace=PACE, now=1_000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 10.0]


def test_other_addresses_and_other_things_are_counted_apart() -> None:
    found = RateLimits()
    for _ in range(4):
        found.take("x", "a", pace=PACE, now=0.0)
    assert found.take("x", "b", pace=PACE, now=0.0) == 0.0
    assert found.take("y", "a", pace=PACE, now=0.0) == 0.0


def test_only_so_many_addresses_are_remembered() -> None:
    found = RateLimits()
    for _ in range(3):
        found.take("x", "first", pace=PACE, now=0.0)
    for number in range(rate_limits.MOST - 1):
        found.take("x", str(number), pace=PACE, now=0.0)
    assert found.take("x", "first", pace=PACE, now=0.0) > 0.0
    found.take("x", "one more", pace=PACE, now=0.0)
    assert found.take("x", "first", pace=PACE, now=0.0) == 0.0


@given(st.lists(st.floats(min_value=0.0, max_value=60.0), max_size=60))
def test_what_passes_is_never_more_than_the_burst_and_the_time_allow(gaps: list[float]) -> None:
    found, now, passed = RateLimits(), 0.0, 0
    for gap in gaps:
        now += gap
        wait = found.take("x", "a", pace=PACE, now=now)
        passed += wait == 0.0
        assert 0.0 <= wait <= PACE.seconds + 1e-6
    assert passed <= PACE.burst + now / PACE.seconds + 1e-6
