"""A clock that is set makes nothing old."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery.expiring import MOST_MILLISECONDS, Moment, has_jumped

DAY = 86_400_000
START = Moment(1_800_000_000_000, 5_000.0)


@given(st.integers(min_value=0, max_value=400 * DAY))
def test_time_that_passes_is_no_jump_however_long_nobody_looked(passed: int) -> None:
    assert not has_jumped(START, Moment(START.wall + passed, START.monotonic + passed / 1000))


@given(st.integers(min_value=2 * MOST_MILLISECONDS, max_value=9_000 * DAY), st.booleans())
def test_a_clock_that_is_set_is_one(jump: int, is_back: bool) -> None:
    wall = START.wall + 600_000 + (-jump if is_back else jump)
    assert has_jumped(START, Moment(wall, START.monotonic + 600))
