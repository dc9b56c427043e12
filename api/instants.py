"""Instants in bodies: when something ends, as a duration from now or as a point in time."""

import re
from datetime import datetime, timedelta

from api.objects import Members
from reconciler.model.clock import rfc3339
from reconciler.model.values import Value
from reconciler.settings import scalars

INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
LONGEST = timedelta(seconds=scalars.LONGEST)  # a year: beyond it an expiry is a mistake
READ = 1e9  # seconds, some thirty years: a longer duration is read, so that its mistake can be named


def expiry(body: Members, *, now: datetime, longest: timedelta = LONGEST) -> datetime | None:
    """The instant that the member `expiry` means; None when it is not given, or noted as a mistake."""
    try:
        return _until(body.value["expiry"], now=now, longest=longest) if "expiry" in body.value else None
    except ValueError as mistake:
        body.mistake("expiry", str(mistake))
        return None


def instant_text(instant: datetime | None) -> str | None:
    """As it is kept and shown."""
    return None if instant is None else rfc3339(instant)


def _until(value: Value, *, now: datetime, longest: timedelta) -> datetime:
    """The instant that an expiry means; raises ValueError with what it should be."""
    allowed = "must be a duration such as 30m or 2h, or an instant with a zone such as 2026-11-21T08:00:00Z"
    if isinstance(value, str) and INSTANT.fullmatch(value):
        try:
            until = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(allowed) from None
    else:
        try:
            until = now + timedelta(seconds=scalars.seconds(value, longest=READ))
        except ValueError:
            raise ValueError(allowed) from None
    if not now < until <= now + longest:
        away = "a year" if longest == LONGEST else f"{longest.days} days"
        raise ValueError(f"must be in the future, and at most {away} away")
    return until
