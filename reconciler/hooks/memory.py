"""What is remembered between deliveries, all of it bounded and in memory alone."""

from dataclasses import dataclass, field

from reconciler.hooks.deliveries import RecentDeliveries
from reconciler.hooks.refusals import LoggedRefusals


@dataclass(frozen=True, slots=True)
class HookMemory:
    """One for the whole service."""

    deliveries: RecentDeliveries = field(default_factory=RecentDeliveries)
    refusals: LoggedRefusals = field(default_factory=LoggedRefusals)
