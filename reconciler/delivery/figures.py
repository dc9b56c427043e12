"""What delivery counts, for whoever looks at the service from outside.

Belongs here: its shape. Does not: counting (`lanes`, `sending.reporting`), names of metrics (`metrics.delivery`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.delivery import lanes
from reconciler.delivery.lanes import Lane
from reconciler.queueing.contract import Depth
from reconciler.sending import reporting


@dataclass(slots=True)
class PastFigures:
    """What was counted of destinations that are gone: a count of all destinations never shrinks."""

    taken: lanes.LaneCounts = field(default_factory=lanes.LaneCounts)
    sent: reporting.SendCounts = field(default_factory=reporting.SendCounts)


class DeliveryFigures(NamedTuple):
    """One moment. `unrouted` are records that no Configuration took, by project; `spare` is how many bytes may be
    written before queues are down to what they leave free on the disk, below zero when they are beyond that; `faults`
    how often the disk failed what was written for them, or did not answer.
    """

    lanes: Sequence[Lane]
    past: PastFigures
    unrouted: Mapping[str, int]
    spare: int
    faults: int


def fullness(lane: Lane, depth: Depth) -> float:
    """Of its full batches or bytes on disk, whichever is more; 0 for a lane without limits, or that takes nothing."""
    if lane.destination is None or lane.queue is None or lane.leaving:
        return 0.0
    buffering = lane.destination.buffering
    by_bytes = 0.0 if buffering.storage is None else depth.limited / max(buffering.storage.max_bytes, 1)
    return max(depth.load / max(buffering.max_batches, 1), by_bytes)
