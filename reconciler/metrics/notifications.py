"""Metrics of notifications, and of the alerts that go out about them.

Belongs here: their names, and where their values are. Does not: counting (`notifying.board`, `notifying.outbox`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step
from reconciler.model.notification_types import NotificationType, Severity

OF_A_TARGET = ("target",)

OPEN = MetricFamily(
    "reconciler_notifications_open",
    MetricKind.GAUGE,
    "Notifications whose cause is there, by type and severity. Absent where there is none.",
    ("type", "severity"),
)
SENT = MetricFamily("reconciler_alerts_sent_total", MetricKind.COUNTER, "Alerts that the target took.", OF_A_TARGET)
FAILED = MetricFamily(
    "reconciler_alerts_failed_attempts_total",
    MetricKind.COUNTER,
    "Attempts to send an alert that the target did not take.",
    OF_A_TARGET,
)
GIVEN_UP = MetricFamily(
    "reconciler_alerts_given_up_total",
    MetricKind.COUNTER,
    "Alerts that the target never got: refused, an hour old, or too many.",
    OF_A_TARGET,
)
WAITING = MetricFamily("reconciler_alerts_waiting", MetricKind.GAUGE, "Alerts that are still to be sent.", OF_A_TARGET)

FAMILIES = (OPEN, SENT, FAILED, GIVEN_UP, WAITING)


class NotificationTally(Protocol):
    """What is counted of one target of alerts."""

    @property
    def target(self) -> str:
        """Its name in the settings."""

    @property
    def sent(self) -> int:
        """Alerts that it took."""

    @property
    def failed(self) -> int:
        """Attempts."""

    @property
    def given_up(self) -> int:
        """Alerts."""

    @property
    def waiting(self) -> int:
        """Alerts."""


def notification_steps(
    found: Mapping[tuple[NotificationType, Severity], int], targets: Sequence[NotificationTally] = ()
) -> Iterator[Step]:
    """All of them. `found` counts those that are open, by type and severity."""
    for (type_, severity), number in sorted(found.items()):
        if number:
            yield Sample(OPEN, number, (type_.value, severity.value))
    ordered = sorted(targets, key=lambda one: one.target)
    for family, values in (
        (SENT, [one.sent for one in ordered]),
        (FAILED, [one.failed for one in ordered]),
        (GIVEN_UP, [one.given_up for one in ordered]),
        (WAITING, [one.waiting for one in ordered]),
    ):
        for one, value in zip(ordered, values, strict=True):
            yield Sample(family, value, (one.target,))
