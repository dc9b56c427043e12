"""Open notifications are counted by type and severity, alerts by their target."""

from reconciler.metrics import notifications
from reconciler.metrics.families import Sample
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.outbox import AlertTally


def test_each_pair_that_is_there_is_one_series() -> None:
    found = {
        (NotificationType.DISK_LOW, Severity.CRITICAL): 1,
        (NotificationType.DEAD_LETTERS, Severity.WARNING): 50,
        (NotificationType.DEAD_LETTERS, Severity.ERROR): 1,
        (NotificationType.STORE_DEGRADED, Severity.CRITICAL): 0,
    }
    assert [*notifications.notification_steps(found)] == [
        Sample(notifications.OPEN, 1, ("DeadLetters", "error")),
        Sample(notifications.OPEN, 50, ("DeadLetters", "warning")),
        Sample(notifications.OPEN, 1, ("DiskLow", "critical")),
    ]
    assert [*notifications.notification_steps({})] == []


def test_each_target_has_four_series() -> None:
    tallies = [AlertTally("pager", 7, 2, 1, 3), AlertTally("chat", 0, 0, 0, 0)]
    assert [*notifications.notification_steps({}, tallies)] == [
        Sample(notifications.SENT, 0, ("chat",)),
        Sample(notifications.SENT, 7, ("pager",)),
        Sample(notifications.FAILED, 0, ("chat",)),
        Sample(notifications.FAILED, 2, ("pager",)),
        Sample(notifications.GIVEN_UP, 0, ("chat",)),
        Sample(notifications.GIVEN_UP, 1, ("pager",)),
        Sample(notifications.WAITING, 0, ("chat",)),
        Sample(notifications.WAITING, 3, ("pager",)),
    ]
