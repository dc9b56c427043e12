"""Delivery windows, held against a walk through all minutes."""

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.delivery.breaker import DeliveryWindow, delivery_window
from reconciler.model import cron
from reconciler.model.cron import Cron
from reconciler.model.routes import Schedule

MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-{text}:00+00:00")


NIGHTLY = Schedule(cron="0 22 * * *", window=90)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("03-02T21:59", DeliveryWindow(open=False, until=None, next=at("03-02T22:00"))),
        ("03-02T22:00", DeliveryWindow(open=True, until=at("03-02T23:30"), next=at("03-03T22:00"))),
        ("03-02T23:29", DeliveryWindow(open=True, until=at("03-02T23:30"), next=at("03-03T22:00"))),
        ("03-02T23:30", DeliveryWindow(open=False, until=None, next=at("03-03T22:00"))),
    ],
)
def test_a_window_opens_when_the_schedule_says_and_lasts_so_many_minutes(now: str, expected: DeliveryWindow) -> None:
    assert delivery_window(NIGHTLY, at(now)) == expected


def test_a_clock_that_is_put_back_is_believed() -> None:
    assert delivery_window(NIGHTLY, at("03-05T22:10")).open
    assert delivery_window(NIGHTLY, at("03-02T21:00")) == DeliveryWindow(open=False, until=None, next=at("03-02T22:00"))


def test_of_windows_that_overlap_or_meet_the_next_is_open_when_the_first_ends() -> None:
    for window, end in ((75, "03-02T09:15"), (60, "03-02T09:00")):
        seen = delivery_window(Schedule(cron="0 8-10 * * *", window=window), at("03-02T08:30"))
        assert seen == DeliveryWindow(open=True, until=at(end), next=at(end))
        assert delivery_window(Schedule(cron="0 8-10 * * *", window=window), at(end)).open
    apart = Schedule(cron="0 8-10 * * *", window=59)
    assert delivery_window(apart, at("03-02T08:30")) == DeliveryWindow(
        open=True, until=at("03-02T08:59"), next=at("03-02T09:00")
    )


def test_an_hour_lasts_an_hour_when_clocks_are_changed() -> None:
    schedule = Schedule(cron="30 1 * * *", window=60, timezone="Europe/Berlin")
    forward = delivery_window(schedule, at("03-29T00:30"))
    assert forward.until == at("03-29T01:30")
    skipped = Schedule(cron="30 2 * * *", window=60, timezone="Europe/Berlin")
    assert delivery_window(skipped, at("03-29T00:59")).next == at("03-29T01:00")


def test_a_schedule_that_nobody_checked_is_unreadable() -> None:
    with pytest.raises(cron.Unreadable):
        delivery_window(Schedule(cron="soon"), at("03-02T08:30"))


CRONS = st.sampled_from(
    [
        "0 22 * * 1-5", "*/10 8-12 * * *", "0 * * * *", "30 2 * * *", "0 0 1 * *", "5,55 */3 * * sun,wed", "0 0 13 * 5",
        "* 3 * * *", "59 23 * * *",
    ]
)  # fmt: skip
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
STARTS = st.sampled_from([at("03-28T18:00"), at("10-24T18:00"), at("04-04T10:00"), at("06-12T22:00")])


@settings(max_examples=40, deadline=None)
@given(CRONS, ZONES, st.sampled_from([1, 9, 10, 59, 60, 90, 1440, 10_080]), STARTS, st.integers(0, 1000))
@example("0 * * * *", "UTC", 60, at("03-28T18:00"), 0)
def test_it_is_open_in_the_minutes_in_which_one_of_all_windows_is(
    text: str, zone: str, length: int, near: datetime, minutes: int
) -> None:
    schedule, now = Schedule(cron=text, window=length, timezone=zone), near + MINUTE * minutes
    began, begins = now - MINUTE * length, set()
    named, end = Cron.read(text, timezone=zone), now + timedelta(days=2)
    while (began := named.after(began)) <= end:
        begins.add(began)

    def is_open(minute: datetime) -> bool:
        return any(begin <= minute < begin + MINUTE * length for begin in begins)

    seen = delivery_window(schedule, now)
    assert seen.open == is_open(now)
    edge = min(seen.until or seen.next, end)
    walk = now
    while walk < edge:
        assert is_open(walk) == seen.open
        assert delivery_window(schedule, walk).open == seen.open
        walk += MINUTE
    if edge < end and not (seen.open and seen.until == seen.next):
        assert is_open(edge) != seen.open
    if seen.open and seen.until is not None and seen.until < seen.next:
        assert not any(seen.until <= begin < seen.next for begin in begins)
        assert seen.next > end or seen.next in begins
