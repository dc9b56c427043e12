"""Metric families, the sources of their values, and the text formats."""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from reconciler.delivery.status import DeliveryFigures
from reconciler.model.histogram import Histogram
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.outbox import AlertTally
from reconciler.reconcile.repositories import Repositories
from reconciler.store.contract import Store

# Metric families and samples.


class MetricKind(StrEnum):
    """As both formats name them."""

    COUNTER = "counter"  # only grows, until the service starts again
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class MetricFamily(NamedTuple):
    """One metric. The name of a counter ends with `_total`; `says` is one line and needs no escaping."""

    name: str
    kind: MetricKind
    says: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One value of a family; `labels` are in the order of the family's. Names in them are bounded where they are given:
    no text of a stranger becomes one.
    """

    family: MetricFamily
    value: float | Histogram
    labels: tuple[str, ...] = ()


Step: TypeAlias = Sample | None
"""A source yields steps: a sample, or None for a bit of work that gave none. All samples of a family come together, in
the order of their labels. A step takes 10 microseconds at most, so that a slice of them stays short.
"""


# Metrics of notifications, and of the alerts that go out about them.

OF_A_TARGET = ("target",)

OPEN = MetricFamily(
    "reconciler_notifications_open",
    MetricKind.GAUGE,
    "Notifications whose cause is there, by type and severity. Absent where there is none.",
    ("type", "severity"),
)
SENT = MetricFamily("reconciler_alerts_sent_total", MetricKind.COUNTER, "Alerts that the target took.", OF_A_TARGET)
FAILED = MetricFamily(
    "reconciler_alerts_failed_attempts_total",
    MetricKind.COUNTER,
    "Attempts to send an alert that the target did not take.",
    OF_A_TARGET,
)
GIVEN_UP = MetricFamily(
    "reconciler_alerts_given_up_total",
    MetricKind.COUNTER,
    "Alerts that the target never got: refused, an hour old, or too many.",
    OF_A_TARGET,
)
WAITING = MetricFamily("reconciler_alerts_waiting", MetricKind.GAUGE, "Alerts that are still to be sent.", OF_A_TARGET)

FAMILIES = (OPEN, SENT, FAILED, GIVEN_UP, WAITING)


def notification_steps(
    found: Mapping[tuple[NotificationType, Severity], int], targets: Sequence[AlertTally] = ()
) -> Iterator[Step]:
    """All of them. `found` counts those that are open, by type and severity."""
    for (type_, severity), number in sorted(found.items()):
        if number:
            yield Sample(OPEN, number, (type_.value, severity.value))
    ordered = sorted(targets, key=lambda one: one.target)
    for family, values in (
        (SENT, [one.sent for one in ordered]),
        (FAILED, [one.failed for one in ordered]),
        (GIVEN_UP, [one.given_up for one in ordered]),
        (WAITING, [one.waiting for one in ordered]),
    ):
        for one, value in zip(ordered, values, strict=True):
            yield Sample(family, value, (one.target,))


# Requests, counted as they end.

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"  # any other method: a client may send what it likes
UNMATCHED = "unmatched"  # refused before it was looked for where the path leads, or it leads nowhere


class TrafficSlot:
    """The requests of one route and method: `statuses` by class, of which 0 is for those that were not answered."""

    __slots__ = ("buckets", "method", "route", "seconds", "statuses")

    def __init__(self, route: str, method: str) -> None:
        self.route = route
        self.method = method
        self.statuses = [0] * 6
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0


class Traffic:
    """All requests since the start. What leads a request to its handler stands for its route: `know` says of which."""

    __slots__ = ("_routes", "_slots", "_unmatched")

    def __init__(self) -> None:
        self._routes: dict[object, str] = {}
        self._slots: dict[tuple[object, str], TrafficSlot] = {}
        self._unmatched: dict[str, TrafficSlot] = {}

    def know(self, routes: Mapping[object, str]) -> None:
        """These lead to requests of those paths, with their parameters in braces."""
        self._routes.update(routes)

    def note(self, leads: object, method: str, status: int, seconds: float) -> None:
        """A request ended. `status` is 0 when it was not answered."""
        slot = self._slots.get((leads, method)) or self._slot(leads, method)
        slot.statuses[status // 100] += 1
        slot.buckets[bisect_left(SECONDS, seconds)] += 1
        slot.seconds += seconds

    def slots(self) -> list[TrafficSlot]:
        """By route and method, in their order."""
        every = [*self._slots.values(), *self._unmatched.values()]
        return sorted(every, key=lambda slot: (slot.route, slot.method))

    def _slot(self, leads: object, method: str) -> TrafficSlot:
        """The slot of a pair that has none yet; one for all methods that nobody knows, however many there are."""
        route, told = self._routes.get(leads), method if method in METHODS else OTHER
        if route is not None and told is not OTHER:
            return self._slots.setdefault((leads, method), TrafficSlot(route, method))
        return self._unmatched.setdefault(f"{route} {told}", TrafficSlot(route or UNMATCHED, told))


# Sources of the values.


@dataclass(frozen=True, slots=True)
class Measured:
    """The counts; `alerts` has those of each target. `more` are sources that other parts add at the start; their
    families are in `metrics.ALL_FAMILIES`.
    """

    traffic: Traffic = field(default_factory=Traffic)
    repositories: Repositories | None = None
    deliveries: Callable[[], DeliveryFigures] | None = None
    alerts: Callable[[], Sequence[AlertTally]] | None = None
    more: list[Callable[[], Iterable[Step]]] = field(default_factory=list)


class MetricSources(NamedTuple):
    """All that is looked at for one answer. `in_flight` counts requests by who asks, `open` notifications whose cause
    is there, by type and severity; `now` is in Unix milliseconds.
    """

    measured: Measured
    store: Store
    in_flight: Mapping[str, int]
    open: Mapping[tuple[NotificationType, Severity], int]
    now: int


# Samples as text, in the format that Prometheus reads and in OpenMetrics, one slice after the other.
#
# Formats: "Exposition formats" of the Prometheus documentation, text format 0.0.4; OpenMetrics 1.0.0. They differ in
# the name of a counter's family and in the last line, by which a reader of OpenMetrics sees that an answer did not
# break off.

MOST_STEPS = 50  # of a slice: a tenth of a millisecond of most, half of one where queues are looked at

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class TextFormat(Enum):
    """With its media type."""

    TEXT = b"text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"


async def text_slices(steps: Iterable[Step], *, format_: TextFormat) -> AsyncGenerator[bytes, None]:
    """All samples as text. Between two slices, the event loop has its turn."""
    lines: list[str] = []
    family, template, left = None, "", MOST_STEPS
    for step in steps:
        if step is None:
            left -= 1
        else:
            if step.family is not family:
                family = step.family
                template = _template(family)
                lines.append(_head(family, format_))
            left -= _write(lines, step, template)
        if left <= 0:
            left = MOST_STEPS
            if lines:
                yield "".join(lines).encode()
                lines.clear()
            await asyncio.sleep(0)
    if format_ is TextFormat.OPENMETRICS:
        lines.append("# EOF\n")
    yield "".join(lines).encode()


def _head(family: MetricFamily, format_: TextFormat) -> str:
    name = family.name
    if format_ is TextFormat.OPENMETRICS and family.kind is MetricKind.COUNTER:
        name = name.removesuffix("_total")
    return f"# HELP {name} {family.says}\n# TYPE {name} {family.kind}\n"


def _template(family: MetricFamily) -> str:
    """Return the text before the value, with a place for each label: made once for thousands of samples."""
    labels = ",".join(f'{label}="%s"' for label in family.labels)
    if family.kind is MetricKind.HISTOGRAM:
        return labels
    return f"{family.name}{{{labels}}} " if labels else f"{family.name} "


def _write(lines: list[str], sample: Sample, template: str) -> int:
    """Add the lines of a sample: how many."""
    _, value, labels = sample
    filled = template % tuple([_escaped(label) for label in labels])
    if isinstance(value, Histogram):
        return _write_histogram(lines, sample.family.name, value, filled)
    lines.append(f"{filled}{value}\n")
    return 1


def _write_histogram(lines: list[str], name: str, histogram: Histogram, labels: str) -> int:
    before, braced = f"{labels}," if labels else "", f"{{{labels}}}" if labels else ""
    reached = [*accumulate(histogram.counts)]
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), reached, strict=True):
        lines.append(f'{name}_bucket{{{before}le="{bound}"}} {count}\n')
    lines.append(f"{name}_sum{braced} {histogram.total}\n{name}_count{braced} {reached[-1]}\n")
    return len(reached) + 2


def _escaped(text: str) -> str:
    # Nearly no label needs it, and looking is five times as fast.
    return text.translate(_ESCAPED) if '"' in text or "\\" in text or "\n" in text else text
