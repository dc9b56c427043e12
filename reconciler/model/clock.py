"""The clock, and instants as text. Decisions take the time as an argument."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def rfc3339(instant: datetime) -> str:
    """Return an instant as RFC 3339 text in UTC with milliseconds, `2026-11-21T06:12:00.123Z`.

    Raises ValueError for a naive datetime: its zone would be a guess.
    """
    if instant.tzinfo is None:
        raise ValueError("the datetime has no time zone")
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
