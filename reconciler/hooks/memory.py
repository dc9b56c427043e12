"""What is remembered between deliveries, all of it bounded and in memory alone."""

from dataclasses import dataclass, field

from reconciler.hooks.deliveries import Deliveries
from reconciler.hooks.refusals import Refusals


@dataclass(frozen=True, slots=True)
class Memory:
    """One for the whole service."""

    deliveries: Deliveries = field(default_factory=Deliveries)
    refusals: Refusals = field(default_factory=Refusals)
