"""An option that is an instant, as people say it: how long ago, a day, or a moment with its zone.

Belongs here: what is meant. Does not: what is asked for by it. The service takes instants alone.
"""

import re
from datetime import UTC, datetime, timedelta

import click

from reconciler.model import clock
from reconciler.settings import scalars

ALLOWED = "must be a duration such as 30m or 24h, a date such as 2026-11-21, or an instant such as 2026-11-21T08:00:00Z"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


class Instant(click.ParamType[str]):
    """An option's value as `clock.rfc3339` writes instants."""

    name = "instant"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The instant that somebody means who types this now."""
        try:
            return clock.rfc3339(meant_instant(value, now=clock.now()))
        except (ValueError, OverflowError):  # a date outside of the calendar
            return self.fail(ALLOWED, param, ctx)


def meant_instant(text: str, *, now: datetime) -> datetime:
    """A duration is before `now`, a date is its beginning in UTC. Raises ValueError, OverflowError."""
    if _INSTANT.fullmatch(text):
        return datetime.fromisoformat(text).astimezone(UTC)
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return now - timedelta(seconds=scalars.seconds(text))
