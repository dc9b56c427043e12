"""The last hour of each destination: a sample a minute, in memory. A restart clears it. All destinations are sampled at
the same times, which are kept once. The hour of one destination takes 3 KB.
"""

from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from reconciler.delivery.lanes import Lane
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.model.clock import rfc3339

INTERVAL_SECONDS = 60
MOST = 60  # samples of a destination
SHORTEST_SECONDS = 1.0  # of the time that a rate is for, just after the start

DestinationKey: TypeAlias = tuple[str, str]
"""A project, and the name of a destination."""

COUNTED = ("taken", "delivered", "retried", "dead")
MEMBERS = (*COUNTED, "queued", "oldestSeconds")  # of a sample, in the order of their numbers
RATED = ("taken", "delivered")
NO_RATES = dict.fromkeys(RATED, 0.0)
_NONE = -1  # the age when nothing is queued


class Measurement(NamedTuple):
    """A destination at one moment: the counts since the start, the queued records, and when the oldest was accepted in
    Unix milliseconds.
    """

    counts: Mapping[str, int]
    queued: int
    oldest: int | None


def measure(lanes: Sequence[Lane]) -> Measurement:
    """Measure a destination, by its lanes."""
    total = DeliveryCounts()
    for lane in lanes:
        total.add(lane.total)
    depths = [lane.queue.depth() for lane in lanes if lane.queue is not None]
    oldest = min((depth.oldest for depth in depths if depth.oldest is not None), default=None)
    return Measurement({name: getattr(total, name) for name in COUNTED}, sum(depth.records for depth in depths), oldest)


@dataclass(eq=False, slots=True)
class _Hour:
    """The samples of a destination, one after another, and the counts at the last two."""

    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    before: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    last: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def add(self, found: Measurement, *, at: int) -> None:
        age = _NONE if found.oldest is None else max(0, at - found.oldest) // 1000
        counts = [_growth(self.last[name], found.counts[name]) for name in COUNTED]
        self.numbers.extend((*counts, found.queued, age))
        del self.numbers[: -MOST * len(MEMBERS)]
        self.before, self.last = self.last, found.counts


class DeliveryHistory:
    """The last hour of all destinations. `at` is a time in Unix milliseconds, `now` in monotonic seconds."""

    def __init__(self, *, now: float) -> None:
        self._at: deque[int] = deque(maxlen=MOST)
        self._since = (now, now)  # the times of the last two samples
        self._hours: dict[DestinationKey, _Hour] = {}

    def add(self, found: Mapping[DestinationKey, Measurement], *, at: int, now: float) -> None:
        """Take a sample of every destination. Others are forgotten."""
        self._at.append(at)
        self._since = self._since[1], now
        self._hours = {one: self._hours.get(one) or _Hour() for one in found}
        for one, hour in self._hours.items():
            hour.add(found[one], at=at)

    def samples(self, destination: DestinationKey) -> list[dict[str, Any]]:
        """Return the samples of a destination as the API shows them, oldest first. Counts are those of the minute."""
        hour = self._hours.get(destination)
        if hour is None:
            return []
        width = len(MEMBERS)
        rows = [hour.numbers[begins : begins + width] for begins in range(0, len(hour.numbers), width)]
        times = [*self._at][-len(rows) :]
        return [_shown(at, row) for at, row in zip(times, rows, strict=True)]

    def rates(self, destination: DestinationKey, counts: Mapping[str, int], *, now: float) -> dict[str, float]:
        """Return the records per second since the last sample but one, which is one to two minutes ago."""
        hour = self._hours.get(destination)
        seconds = max(now - self._since[0], SHORTEST_SECONDS)
        return {
            name: round(_growth(0 if hour is None else hour.before[name], counts[name]) / seconds, 3) for name in RATED
        }


def _growth(before: int, now: int) -> int:
    """Return the growth of a count, which begins at 0 if its destination was gone for less than a minute."""
    return now - before if now >= before else now


def _shown(at: int, row: "array[int]") -> dict[str, Any]:
    shown: dict[str, Any] = {"at": rfc3339(datetime.fromtimestamp(at / 1000, UTC))}
    shown |= zip(MEMBERS, row, strict=True)
    return shown if row[-1] != _NONE else {**shown, "oldestSeconds": None}
