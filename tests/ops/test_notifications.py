"""Open notifications are counted by type and severity, alerts by their target."""

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.outbox import AlertTally
from reconciler.ops import metrics
from reconciler.ops.metric_families import Sample


def test_each_pair_that_is_there_is_one_series() -> None:
    found = {
        (NotificationType.DISK_LOW, Severity.CRITICAL): 1,
        (NotificationType.DEAD_LETTERS, Severity.WARNING): 50,
        (NotificationType.DEAD_LETTERS, Severity.ERROR): 1,
        (NotificationType.STORE_DEGRADED, Severity.CRITICAL): 0,
    }
    assert [*metrics.notification_steps(found)] == [
        Sample(metrics.OPEN_NOTIFICATIONS, 1, ("DeadLetters", "error")),
        Sample(metrics.OPEN_NOTIFICATIONS, 50, ("DeadLetters", "warning")),
        Sample(metrics.OPEN_NOTIFICATIONS, 1, ("DiskLow", "critical")),
    ]
    assert [*metrics.notification_steps({})] == []


def test_each_target_has_four_series() -> None:
    tallies = [AlertTally("pager", 7, 2, 1, 3), AlertTally("chat", 0, 0, 0, 0)]
    assert [*metrics.notification_steps({}, tallies)] == [
        Sample(metrics.ALERTS_SENT, 0, ("chat",)),
        Sample(metrics.ALERTS_SENT, 7, ("pager",)),
        Sample(metrics.ALERTS_FAILED, 0, ("chat",)),
        Sample(metrics.ALERTS_FAILED, 2, ("pager",)),
        Sample(metrics.ALERTS_GIVEN_UP, 0, ("chat",)),
        Sample(metrics.ALERTS_GIVEN_UP, 1, ("pager",)),
        Sample(metrics.ALERTS_WAITING, 0, ("chat",)),
        Sample(metrics.ALERTS_WAITING, 3, ("pager",)),
    ]
