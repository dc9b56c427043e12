"""Five cron fields and a time zone: the instants that match.

    Cron.read("0 22 * * 1-5", timezone="Europe/Berlin").after(now)

The fields mean what crontab(5) says:

- Minute, hour, day of month, month, day of week: `*`, a number, a range `1-5`, a step upon either, `*/15` or `1-5/2`,
  and lists of those. Months and days of the week have names, too, `jan` and `mon`, in any case.
- The day of the week is 0 to 7, and 0 and 7 are Sunday.
- If neither the day of the month nor the day of the week begins with `*`, a day needs to match only one of them.

Fields are compared with the time zone's clock. When clocks are put back, a minute that comes twice matches twice. When
they are put forward, skipped minutes that match make one match, right after the change.

The next instant is found in a few milliseconds at most, even a leap day on a Sunday in forty years: months that cannot
match are skipped.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LONGEST = 256  # characters
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
EXAMPLE = "`0 22 * * 1-5`"

_ITEM = re.compile(
    r"(?:(?P<all>\*)|(?P<first>[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?)(?:/(?P<step>[0-9]{1,2}))?"
)
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of the months, at most
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


class Unreadable(ValueError):
    """The text is no schedule. The message is the end of a sentence: "is longer than ..."."""


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()  # of the values from `first` on


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, MONTHS),
    _Field("day of the week", 0, 7, DAYS),
)


class _Days(NamedTuple):
    """The days that a schedule names."""

    months: frozenset[int]
    dates: frozenset[int]
    weekdays: frozenset[int]  # of `date.isoweekday() % 7`
    either: bool  # a day needs to match only one of the two fields

    def first(self, start: date) -> date:
        """Return the first matching day from `start` on. There is one in every forty years."""
        day = start
        while True:
            if day.month not in self.months:
                day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
                continue
            by_date, by_weekday = day.day in self.dates, day.isoweekday() % 7 in self.weekdays
            if (by_date or by_weekday) if self.either else (by_date and by_weekday):
                return day
            day += _DAY


class Cron:
    """A schedule. Its instants are aware, in UTC."""

    def __init__(self, *, times: list[time], days: _Days, zone: ZoneInfo) -> None:
        self._times = times  # of each day, in order
        self._days = days
        self._zone = zone

    @classmethod
    def read(cls, text: str, *, timezone: str) -> "Cron":
        """Parse a schedule. Raises Unreadable."""
        return _read(text, timezone)

    def after(self, now: datetime) -> datetime:
        """Return the first matching instant after `now`."""
        wall = now.astimezone(self._zone).replace(tzinfo=None, second=0, microsecond=0)
        first, second = self._instants(wall)
        walls = self._walls(wall - (second - first))  # earlier times on the clock may repeat
        repeated: datetime | None = None
        while True:
            first, second = self._instants(next(walls))
            if first > now:
                return first if repeated is None else min(first, repeated)
            if second > now and repeated is None:
                repeated = second

    def _instants(self, wall: datetime) -> tuple[datetime, datetime]:
        """Return the two instants at which the clock shows a time; both are equal if it shows the time once. For a
        skipped time, return the minute of the change.
        """
        first, second = (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first <= second:
            return first, second
        before = second.astimezone(self._zone).utcoffset()
        while second.astimezone(self._zone).utcoffset() == before:
            second += _MINUTE
        return second, second

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Yield the times that match from `start` on, on a clock that never changes."""
        day = self._days.first(start.date())
        if day == start.date():
            place = bisect_left(self._times, start.time())
            yield from (datetime.combine(day, each) for each in self._times[place:])
            day = self._days.first(day + _DAY)
        while True:
            yield from (datetime.combine(day, each) for each in self._times)
            day = self._days.first(day + _DAY)


def wrong(text: str, *, timezone: str = "UTC") -> str | None:
    """Return why a schedule is wrong, as the end of a sentence that does not repeat it; None if it is right."""
    try:
        Cron.read(text, timezone=timezone)
    except Unreadable as unreadable:
        return str(unreadable)
    return None


@lru_cache(maxsize=1024)
def _read(text: str, timezone: str) -> Cron:
    if len(text) > LONGEST:
        raise Unreadable(f"is longer than {LONGEST} characters")
    written = text.lower().split()
    if len(written) != len(_FIELDS):
        raise Unreadable(f"must have five fields, minute, hour, day of the month, month, day of the week: {EXAMPLE}")
    minutes, hours, days, months, weekdays = map(_values, written, _FIELDS)
    by_date = any(day <= _LENGTHS[month - 1] for day in days for month in months)
    either = not written[2].startswith("*") and not written[4].startswith("*")
    if not by_date and not either:
        raise Unreadable("never happens: none of its months has such a day")
    named = _Days(months, days, frozenset(day % 7 for day in weekdays), either)
    times = [time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
    return Cron(times=times, days=named, zone=_zone(timezone))


def _values(written: str, field: _Field) -> frozenset[int]:
    """Return the values of a field."""
    return frozenset(value for item in written.split(",") for value in _item(item, field))


def _item(item: str, field: _Field) -> Iterator[int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise Unreadable(_rule(field))
    step = 1 if match["step"] is None else int(match["step"])
    if match["all"]:
        first, last = field.first, field.last
    else:
        first = _value(match["first"], field)
        last = first if match["last"] is None else _value(match["last"], field)
        if last == 0 and match["last"] == DAYS[0]:
            last = 7  # `fri-sun`
    is_single = not match["all"] and match["last"] is None
    if step < 1 or first > last or (is_single and match["step"] is not None):
        raise Unreadable(_rule(field))
    return iter(range(first, last + 1, step))


def _value(written: str, field: _Field) -> int:
    value = field.first + field.names.index(written) if written in field.names else _number(written)
    if not field.first <= value <= field.last:
        raise Unreadable(_rule(field))
    return value


def _number(written: str) -> int:
    return int(written) if written.isdecimal() else -1


def _rule(field: _Field) -> str:
    named = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
    numbers = f"numbers from {field.first} to {field.last}{named}"
    ranges = "ranges from less to more, steps from 1 on upon `*` or a range"
    return f"has a wrong {field.name}: `*`, or {numbers}, {ranges}, or lists of these"


def _zone(name: str) -> ZoneInfo:
    """Return a time zone. IANA's names begin with a capital; `localtime`, `posixrules` and `right/UTC` are other files
    in the same folder, which differ between machines.
    """
    try:
        if not name[:1].isupper():
            raise ZoneInfoNotFoundError
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Unreadable("has a time zone that this machine's database does not hold; install tzdata") from None
