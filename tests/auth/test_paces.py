"""How often something may be begun from one address."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth import rate_limits
from reconciler.auth.rate_limits import Buckets

MOST, SECONDS = 3, 10.0


def test_a_burst_passes_and_then_one_each_so_many_seconds() -> None:
    found = Buckets(SECONDS)
    assert [found.take("a", MOST, now=0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 10.0]
    assert found.take("a", MOST, now=5.0) == 5.0
    assert found.take("a", MOST, now=10.0) == 0.0
    assert found.take("a", MOST, now=10.0) == 10.0
    assert [found.take("a", MOST, now=1_000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 10.0]


def test_other_addresses_are_counted_apart() -> None:
    found = Buckets(SECONDS)
    for _ in range(4):
        found.take("a", MOST, now=0.0)
    assert found.take("b", MOST, now=0.0) == 0.0


def test_only_so_many_addresses_are_remembered() -> None:
    found = Buckets(SECONDS)
    for _ in range(3):
        found.take("first", MOST, now=0.0)
    for number in range(rate_limits.MOST - 1):
        found.take(str(number), MOST, now=0.0)
    assert found.take("first", MOST, now=0.0) > 0.0
    found.take("one more", MOST, now=0.0)
    assert found.take("first", MOST, now=0.0) == 0.0


@given(st.lists(st.floats(min_value=0.0, max_value=60.0), max_size=60))
def test_what_passes_is_never_more_than_the_burst_and_the_time_allow(gaps: list[float]) -> None:
    found, now, passed = Buckets(SECONDS), 0.0, 0
    for gap in gaps:
        now += gap
        wait = found.take("a", MOST, now=now)
        passed += wait == 0.0
        assert 0.0 <= wait <= SECONDS + 1e-6
    assert passed <= MOST + now / SECONDS + 1e-6
