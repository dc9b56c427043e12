"""The clock and how an instant is written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import clock

EAST = timezone(timedelta(hours=5, minutes=45))


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (datetime(2026, 11, 21, 6, 12, 0, 123_000, tzinfo=UTC), "2026-11-21T06:12:00.123Z"),
        (datetime(2026, 11, 21, 6, 12, tzinfo=UTC), "2026-11-21T06:12:00.000Z"),
        (datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "2026-12-31T23:59:59.999Z"),
        (datetime(2026, 1, 1, 5, 44, 59, tzinfo=EAST), "2025-12-31T23:59:59.000Z"),
        (datetime(7, 1, 2, 3, 4, 5, 6_000, tzinfo=UTC), "0007-01-02T03:04:05.006Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_milliseconds(instant: datetime, expected: str) -> None:
    assert clock.rfc3339(instant) == expected


def test_a_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        clock.rfc3339(datetime(2026, 11, 21))  # noqa: DTZ001  # that it is naive is the point


INSTANTS = st.datetimes(timezones=st.sampled_from([UTC, EAST]), min_value=datetime(2, 1, 1))  # noqa: DTZ001  # as asked


@given(INSTANTS, INSTANTS)
def test_texts_sort_as_their_instants_do_and_lose_less_than_a_millisecond(one: datetime, other: datetime) -> None:
    first, second = (datetime.fromisoformat(clock.rfc3339(instant)) for instant in (one, other))
    assert timedelta(0) <= one - first < timedelta(milliseconds=1)
    assert (clock.rfc3339(one) < clock.rfc3339(other)) == (first < second)


def test_now_is_aware_and_in_utc() -> None:
    assert clock.now().tzinfo is UTC
    assert clock.now() <= clock.now()
