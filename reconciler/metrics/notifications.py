"""Metrics of notifications.

Belongs here: their names, and counting those that are open. Does not: what a notification is (`notifications`), keeping
them (`notifying.board`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.metrics.families import Family, Kind, Sample, Step
from reconciler.notifications.models import Notification

A_STEP = 20  # notifications

OPEN = Family(
    "reconciler_notifications_open",
    Kind.GAUGE,
    "Notifications whose cause is there, by type and severity. Absent where there is none.",
    ("type", "severity"),
)

FAMILIES = (OPEN,)


def steps(found: Sequence[Notification]) -> Iterator[Step]:
    """All of them. `found` are those that are open."""
    counts: Counter[tuple[str, str]] = Counter()
    for start in range(0, len(found), A_STEP):
        counts.update((one.cause.type.value, one.severity.value) for one in found[start : start + A_STEP])
        yield None
    for labels, number in sorted(counts.items()):
        yield Sample(OPEN, number, labels)
