"""Open notifications are counted by type and severity."""

from datetime import UTC, datetime

from reconciler.metrics import notifications
from reconciler.metrics.families import Sample
from reconciler.notifications.models import NO_FACTS, Cause, Domain, Notification, Severity, Type

AT = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)


def notification(number: int, type_: Type, severity: Severity) -> Notification:
    cause = Cause(type_, subject=f"canary-{number}", project="shop")
    return Notification(f"N{number}", Domain.DELIVERY, cause, severity, NO_FACTS, opened=AT, began=AT, modified=AT)


def test_however_many_there_are_each_pair_is_one_series_and_no_subject_is_a_label() -> None:
    found = [notification(number, Type.DEAD_LETTERS, Severity.WARNING) for number in range(50)]
    found.append(notification(50, Type.DISK_LOW, Severity.CRITICAL))
    found.append(notification(51, Type.DEAD_LETTERS, Severity.ERROR))
    steps = [*notifications.steps(found)]
    assert [one for one in steps if one is not None] == [
        Sample(notifications.OPEN, 1, ("DeadLetters", "error")),
        Sample(notifications.OPEN, 50, ("DeadLetters", "warning")),
        Sample(notifications.OPEN, 1, ("DiskLow", "critical")),
    ]
    assert steps.count(None) == 3
    assert [*notifications.steps([])] == []
