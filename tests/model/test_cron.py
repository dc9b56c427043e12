"""Cron texts: what they name, held against a walk through all minutes; what is wrong with others; changes of clocks."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.model import cron
from reconciler.model.cron import Cron, Unreadable

MINUTE = timedelta(minutes=1)
SATURDAY = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def following(text: str, *, zone: str = "UTC", start: datetime = SATURDAY, count: int = 3) -> list[str]:
    """The next instants, as the clocks of the zone show them."""
    found = []
    schedule = Cron.read(text, timezone=zone)
    for _ in range(count):
        start = schedule.after(start)
        found.append(start.astimezone(ZoneInfo(zone)).strftime("%a %d %b %H:%M"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", ["Sat 21 Nov 12:01", "Sat 21 Nov 12:02", "Sat 21 Nov 12:03"]),
        ("0 22 * * 1-5", ["Mon 23 Nov 22:00", "Tue 24 Nov 22:00", "Wed 25 Nov 22:00"]),
        ("0 22 * * mon-fri", ["Mon 23 Nov 22:00", "Tue 24 Nov 22:00", "Wed 25 Nov 22:00"]),
        ("0 0 * * 0", ["Sun 22 Nov 00:00", "Sun 29 Nov 00:00", "Sun 06 Dec 00:00"]),
        ("0 0 * * 7", ["Sun 22 Nov 00:00", "Sun 29 Nov 00:00", "Sun 06 Dec 00:00"]),
        ("0 0 * * SUN", ["Sun 22 Nov 00:00", "Sun 29 Nov 00:00", "Sun 06 Dec 00:00"]),
        ("0 0 * * fri-sun", ["Sun 22 Nov 00:00", "Fri 27 Nov 00:00", "Sat 28 Nov 00:00"]),
        ("0 0 * * 5-7", ["Sun 22 Nov 00:00", "Fri 27 Nov 00:00", "Sat 28 Nov 00:00"]),
        ("0 0 * * */3", ["Sun 22 Nov 00:00", "Wed 25 Nov 00:00", "Sat 28 Nov 00:00"]),
        ("*/20 13 * * *", ["Sat 21 Nov 13:00", "Sat 21 Nov 13:20", "Sat 21 Nov 13:40"]),
        ("5,10-12/2 14 * * *", ["Sat 21 Nov 14:05", "Sat 21 Nov 14:10", "Sat 21 Nov 14:12"]),
        ("0 0 1 jan,Mar *", ["Fri 01 Jan 00:00", "Mon 01 Mar 00:00", "Sat 01 Jan 00:00"]),
        ("0 0 31 * *", ["Thu 31 Dec 00:00", "Sun 31 Jan 00:00", "Wed 31 Mar 00:00"]),
        ("0 0 29 2 *", ["Tue 29 Feb 00:00", "Sun 29 Feb 00:00", "Fri 29 Feb 00:00"]),
        ("  0   0 1 1\t* ", ["Fri 01 Jan 00:00", "Sat 01 Jan 00:00", "Mon 01 Jan 00:00"]),
        # Both days are restricted: either will do.
        ("0 0 25 * 2", ["Tue 24 Nov 00:00", "Wed 25 Nov 00:00", "Tue 01 Dec 00:00"]),
        ("0 0 31 2 1", ["Mon 01 Feb 00:00", "Mon 08 Feb 00:00", "Mon 15 Feb 00:00"]),
        # What begins with a star is no restriction: both must do.
        ("0 0 */2 * 2", ["Tue 01 Dec 00:00", "Tue 15 Dec 00:00", "Tue 29 Dec 00:00"]),
        ("0 0 13 * */7", ["Sun 13 Dec 00:00", "Sun 13 Jun 00:00", "Sun 13 Feb 00:00"]),
    ],
)
def test_the_fields_mean_what_they_mean_in_cron(text: str, expected: list[str]) -> None:
    assert following(text) == expected


def test_what_is_named_is_later_than_now_whatever_the_seconds() -> None:
    hourly = Cron.read("0 * * * *", timezone="UTC")
    at = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    assert hourly.after(at - timedelta(microseconds=1)) == at
    assert hourly.after(at) == at + timedelta(hours=1)
    assert hourly.after(at + timedelta(seconds=59)) == at + timedelta(hours=1)


FIVE = "must have five fields, minute, hour, day of the month, month, day of the week: `0 22 * * 1-5`"


def rule(field: str, numbers: str) -> str:
    return (
        f"has a wrong {field}: `*`, or numbers from {numbers}, ranges from less to more, steps from 1 on upon `*` or a "
        "range, or lists of these"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", FIVE),
        ("0 22 * *", FIVE),
        ("0 0 22 * * 1-5", FIVE),
        ("@daily", FIVE),
        ("60 * * * *", rule("minute", "0 to 59")),
        ("-1 * * * *", rule("minute", "0 to 59")),
        ("1,,2 * * * *", rule("minute", "0 to 59")),
        ("mon * * * *", rule("minute", "0 to 59")),
        ("*/0 * * * *", rule("minute", "0 to 59")),
        ("9-5 * * * *", rule("minute", "0 to 59")),
        ("\u0661 * * * *", rule("minute", "0 to 59")),
        ("0 24 * * *", rule("hour", "0 to 23")),
        ("0 0 0 * *", rule("day of the month", "1 to 31")),
        ("0 0 last * *", rule("day of the month", "1 to 31")),
        ("0 0 * 13 *", rule("month", "1 to 12, or jan to dec")),
        ("0 0 * january *", rule("month", "1 to 12, or jan to dec")),
        ("0 0 * * 8", rule("day of the week", "0 to 7, or sun to sat")),
        ("0 0 * * sat-mon", rule("day of the week", "0 to 7, or sun to sat")),
        ("5/2 * * * *", rule("minute", "0 to 59")),
        ("0 0 30 2 *", "never happens: none of its months has such a day"),
        ("0 0 31 4,6 *", "never happens: none of its months has such a day"),
        ("0 " * 200, "is longer than 256 characters"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_of_the_text(text: str, told: str) -> None:
    assert cron.wrong(text) == told


@pytest.mark.parametrize(
    "zone", ["Nowhere/None", "", "../../etc/passwd", "Europe", "posixrules", "localtime", "right/UTC"]
)
def test_a_time_zone_that_the_machine_does_not_know_is_told(zone: str) -> None:
    with pytest.raises(Unreadable, match="a time zone that this machine's database does not hold; install tzdata"):
        Cron.read("0 0 * * *", timezone=zone)


BERLIN = "Europe/Berlin"
FORWARD = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # 02:00 becomes 03:00
BACK = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)  # 03:00 becomes 02:00


def between(text: str, change: datetime) -> list[str]:
    """Return what is named from two hours before a change of clocks until two hours after it, in UTC."""
    schedule, at = Cron.read(text, timezone=BERLIN), change - timedelta(hours=2)
    found = []
    while (at := schedule.after(at)) < change + timedelta(hours=2):
        found.append(at.strftime("%H:%M"))
    return found


def test_what_clocks_skip_happens_once_as_soon_as_they_were_put_forward() -> None:
    assert between("30 2 * * *", FORWARD) == ["01:00"]
    assert between("*/20 2 * * *", FORWARD) == ["01:00"]
    assert between("30 1-3 * * *", FORWARD) == ["00:30", "01:00", "01:30"]
    assert between("0 * * * *", FORWARD) == ["00:00", "01:00", "02:00"]
    assert between("30 2 28 3 *", FORWARD) == []


def test_it_happens_so_too_when_it_is_asked_in_the_minute_before() -> None:
    nightly = Cron.read("30 2 * * *", timezone=BERLIN)
    assert nightly.after(FORWARD - MINUTE) == FORWARD
    assert nightly.after(FORWARD - timedelta(seconds=1)) == FORWARD
    assert nightly.after(FORWARD) == FORWARD + timedelta(hours=23, minutes=30)


def test_what_comes_twice_happens_twice() -> None:
    assert between("30 2 * * *", BACK) == ["00:30", "01:30"]
    assert between("0 3 * * *", BACK) == ["02:00"]
    assert between("0 * * * *", BACK) == ["00:00", "01:00", "02:00"]


NAMES = {"mon": 1, "sun": 0}


def named(field: str, first: int, last: int) -> set[int]:
    """The values of a field, read by other means."""
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        low, _, high = (f"{first}-{last}" if span == "*" else span).partition("-")
        numbers = [int(NAMES.get(one, one)) for one in (low, high or low)]
        found |= set(range(numbers[0], numbers[1] + 1, int(step or 1)))
    return found


def matches(text: str, wall: datetime) -> bool:
    minutes, hours, days, months, weekdays = text.split()
    is_day = wall.day in named(days, 1, 31)
    is_weekday = wall.isoweekday() % 7 in {day % 7 for day in named(weekdays, 0, 7)}
    either = not days.startswith("*") and not weekdays.startswith("*")
    return (
        wall.minute in named(minutes, 0, 59)
        and wall.hour in named(hours, 0, 23)
        and wall.month in named(months, 1, 12)
        and (is_day or is_weekday if either else is_day and is_weekday)
    )


def walked(text: str, zone: str, start: datetime, end: datetime) -> Iterator[datetime]:
    """Every minute in turn, and every minute that clocks skip in it."""
    before = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    at = start
    while (at := at + MINUTE) <= end:
        wall = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        skipped = int((wall - before) / MINUTE)
        if any(matches(text, before + MINUTE * (one + 1)) for one in range(max(skipped, 1) - 1)) or matches(text, wall):
            yield at
        before = wall


def item(first: int, last: int) -> st.SearchStrategy[str]:
    numbers = st.integers(first, last)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.tuples(st.one_of(ranges, st.just("*")), st.integers(1, 9)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(st.just("*"), numbers.map(str), ranges, steps)


def field(first: int, last: int) -> st.SearchStrategy[str]:
    return st.lists(item(first, last), min_size=1, max_size=3).map(",".join)


TEXTS = st.tuples(field(0, 59), field(0, 23), field(1, 31), st.just("*"), field(0, 7)).map(" ".join)
ZONES = ["UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]
# Around changes of clocks in these zones.
STARTS = [FORWARD, BACK, datetime(2026, 4, 4, 14, 0, tzinfo=UTC), datetime(2026, 10, 3, 14, 0, tzinfo=UTC)]


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.sampled_from(ZONES), st.sampled_from(STARTS), st.integers(0, 1440))
@example("30 2 * * *", BERLIN, FORWARD, 60)
@example("15 2 * * *", "Australia/Lord_Howe", datetime(2026, 10, 3, 14, 0, tzinfo=UTC), 60)
@example("45 1 * * *", "Australia/Lord_Howe", datetime(2026, 4, 4, 14, 0, tzinfo=UTC), 60)
def test_it_names_what_a_walk_through_all_minutes_finds(text: str, zone: str, near: datetime, before: int) -> None:
    start = near - MINUTE * before
    end = start + timedelta(days=1, hours=2)
    schedule, at, found = Cron.read(text, timezone=zone), start, []
    while (at := schedule.after(at)) <= end:
        found.append(at)
    assert found == [*walked(text, zone, start, end)]


FAR = [
    ("0 0 29 2 *", "UTC"),
    ("30 2 29 2 *", BERLIN),
    ("0 0 29 2 */7", "Asia/Gaza"),
    ("30 2 29 2 */7", "Africa/Casablanca"),
    ("30 2 29 2 1", BERLIN),
    ("30 2 31 3 */7", BERLIN),  # clocks are changed on such a day
    ("59 23 31 12 *", "Australia/Lord_Howe"),
    ("* * 1 1 *", "America/St_Johns"),
]


def first_in_years(text: str, zone: str, start: datetime) -> datetime:
    """The minutes of the days that are named, on the zone's clocks."""
    minute, hour = (0 if one == "*" else int(one) for one in text.split()[:2])
    day = start - timedelta(days=1)
    while True:
        if matches(text, day.astimezone(ZoneInfo(zone)).replace(hour=hour, minute=minute)):
            around = [at for at in walked(text, zone, day - timedelta(days=1), day + timedelta(days=1)) if at > start]
            if around:
                return around[0]
        day += timedelta(days=1)


@pytest.mark.parametrize(("text", "zone"), FAR)
@pytest.mark.parametrize(
    "start", [SATURDAY, datetime(2084, 3, 1, tzinfo=UTC), datetime(2096, 2, 29, 23, 58, tzinfo=UTC)]
)
def test_what_is_years_away_is_found_without_walking_there(text: str, zone: str, start: datetime) -> None:
    schedule = Cron.read(text, timezone=zone)
    before = time.thread_time()
    found = schedule.after(start)
    assert time.thread_time() - before < 0.005  # seconds of processor time; ten times what it takes
    assert found == first_in_years(text, zone, start)
