"""Where the values of metrics are, besides the store and the requests under way: what the daemon hands to whoever shows
them.

Belongs here: the shape alone, so that a service that nobody scrapes loads nothing more. Does not: reading it
(`collecting`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from reconciler.delivery.status import DeliveryFigures
from reconciler.metrics.families import Step
from reconciler.metrics.notifications import NotificationTally
from reconciler.metrics.traffic import Traffic
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.reconcile.repositories import Repositories
from reconciler.store import contract


class MeasuredStore(Protocol):
    """What is asked of the store."""

    async def revision(self) -> int:
        """Raises StoreFault."""

    def figures(self) -> contract.StoreFigures:
        """What it counts of itself."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is counted; `alerts` tells it of each target. `more` are sources that other parts add at the start; their
    families stand in `collecting.FAMILIES`.
    """

    traffic: Traffic = field(default_factory=Traffic)
    repositories: Repositories | None = None
    deliveries: Callable[[], DeliveryFigures] | None = None
    alerts: Callable[[], Sequence[NotificationTally]] | None = None
    more: list[Callable[[], Iterable[Step]]] = field(default_factory=list)


class MetricSources(NamedTuple):
    """All that is looked at for one answer. `in_flight` counts requests by who asks, `open` notifications whose cause
    is there, by type and severity; `now` is in Unix milliseconds.
    """

    measured: Measured
    store: MeasuredStore
    in_flight: Mapping[str, int]
    open: Mapping[tuple[NotificationType, Severity], int]
    now: int
