"""Notifications for tests: causes, findings and looks at a moment that a test chooses."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.models import Cause, Domain, Finding, Notification, Observation
from reconciler.settings.models import AlertTarget

START = datetime(2026, 11, 22, 2, 0, 0, tzinfo=UTC)
CAUSE = Cause(NotificationType.REPOSITORY_UNREACHABLE, "telemetry", "default")
FOUND = Finding(CAUSE, Severity.ERROR, "The repository telemetry cannot be read", "It does not answer.")


def at(**passed: float) -> datetime:
    """So long after the start."""
    return START + timedelta(**passed)


def ids() -> Callable[[], str]:
    """Ids in order."""
    numbers = itertools.count(1)
    return lambda: f"N{next(numbers):04}"


class Book:
    """The kept notifications, after one look and the next."""

    def __init__(self, *targets: AlertTarget) -> None:
        self.kept: dict[str, Notification] = {}
        self.new_id = ids()
        self.targets = targets

    def observe(
        self, *findings: Finding, now: datetime, part: str | None = None, most: int = 10_000
    ) -> list[Notification]:
        """A look at all repositories, or those of one project; what it changes, which is kept."""
        look = Observation(Domain.REPOSITORIES, findings, None if part is None else frozenset({part}))
        changes = ledger.changes(self.kept.values(), look, now=now, new_id=self.new_id, targets=self.targets, most=most)
        self.kept |= {one.id: one for one in changes}
        return changes

    @property
    def only(self) -> Notification:
        """The one that there is."""
        (one,) = self.kept.values()
        return one
