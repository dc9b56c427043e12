"""Notifications for tests: causes, findings and looks at a moment that a test chooses."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import NotificationIndex
from reconciler.notifications.ledger import LedgerChanges, LedgerRoom, met, missed
from reconciler.notifications.models import Cause, Domain, Finding, Look, Notification

START = datetime(2026, 11, 22, 2, 0, 0, tzinfo=UTC)
CAUSE = Cause(NotificationType.REPOSITORY_UNREACHABLE, "telemetry", "default")
FOUND = Finding(CAUSE, Severity.ERROR, {"state": "unreachable", "message": "It does not answer"})


def at(**passed: float) -> datetime:
    """So long after the start."""
    return START + timedelta(**passed)


def look(*findings: Finding, part: str | None = None) -> Look:
    """A look at all repositories."""
    return Look(Domain.REPOSITORIES, findings, part)


def ids() -> Callable[[], str]:
    """Ids in order."""
    numbers = itertools.count(1)
    return lambda: f"N{next(numbers):04}"


class Book:
    """What is kept, after one look and the next."""

    def __init__(self) -> None:
        self.kept: dict[str, Notification] = {}
        self.new_id = ids()

    def look(self, *findings: Finding, now: datetime, part: str | None = None, room: int = 10_000) -> LedgerChanges:
        """A look; what it changes, which is kept."""
        known, domain = NotificationIndex(self.kept.values()), Domain.REPOSITORIES
        found = met(known.latest, findings, domain=domain, now=now, new_id=self.new_id, room=LedgerRoom(room))
        there = known.spoken_of(look(*findings, part=part))
        over = missed(there, {finding.cause for finding in findings}, now=now)
        changes = LedgerChanges((*found.put, *over), found.left_out)
        self.kept |= {one.id: one for one in changes.put}
        return changes

    @property
    def only(self) -> Notification:
        """The one that there is."""
        (one,) = self.kept.values()
        return one
