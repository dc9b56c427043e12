"""Open notifications are counted by type and severity, alerts by their target."""

from reconciler.concerns import Severity, Type
from reconciler.metrics import notifications
from reconciler.metrics.families import Sample
from reconciler.notifying.outbox import Tally


def test_each_pair_that_is_there_is_one_series() -> None:
    found = {
        (Type.DISK_LOW, Severity.CRITICAL): 1,
        (Type.DEAD_LETTERS, Severity.WARNING): 50,
        (Type.DEAD_LETTERS, Severity.ERROR): 1,
        (Type.STORE_DEGRADED, Severity.CRITICAL): 0,
    }
    assert [*notifications.steps(found)] == [
        Sample(notifications.OPEN, 1, ("DeadLetters", "error")),
        Sample(notifications.OPEN, 50, ("DeadLetters", "warning")),
        Sample(notifications.OPEN, 1, ("DiskLow", "critical")),
    ]
    assert [*notifications.steps({})] == []


def test_each_target_has_four_series() -> None:
    tallies = [Tally("pager", 7, 2, 1, 3), Tally("chat", 0, 0, 0, 0)]
    assert [*notifications.steps({}, tallies)] == [
        Sample(notifications.SENT, 0, ("chat",)),
        Sample(notifications.SENT, 7, ("pager",)),
        Sample(notifications.FAILED, 0, ("chat",)),
        Sample(notifications.FAILED, 2, ("pager",)),
        Sample(notifications.GIVEN_UP, 0, ("chat",)),
        Sample(notifications.GIVEN_UP, 1, ("pager",)),
        Sample(notifications.WAITING, 0, ("chat",)),
        Sample(notifications.WAITING, 3, ("pager",)),
    ]
