"""Metrics of requests to the API.

Belongs here: their names, and where their values are. Does not: counting (`traffic`).
"""

from collections.abc import Iterator, Mapping

from reconciler.metrics import traffic
from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step
from reconciler.metrics.traffic import Traffic, TrafficSlot
from reconciler.model.histogram import Histogram

OF_ONE = ("route", "method")

REQUESTS = MetricFamily(
    "reconciler_http_requests_total",
    MetricKind.COUNTER,
    "Requests that ended, by the template of their path and the class of their status; `none` for those whose client "
    "went away before an answer.",
    (*OF_ONE, "status"),
)
SECONDS = MetricFamily(
    "reconciler_http_request_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long they took, from the end of their headers to the end of the answer.",
    OF_ONE,
)
IN_FLIGHT = MetricFamily(
    "reconciler_http_requests_in_flight",
    MetricKind.GAUGE,
    "Requests with a credential that are under way.",
)

FAMILIES = (REQUESTS, SECONDS, IN_FLIGHT)

CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")  # as `Slot.statuses` has them


def request_steps(seen: Traffic, in_flight: Mapping[str, int]) -> Iterator[Step]:
    """All of them; `in_flight` counts requests by who asks."""
    slots = seen.slots()
    for slot in slots:
        for name, number in sorted(zip(CLASSES, slot.statuses, strict=True)):
            if number:
                yield Sample(REQUESTS, number, (slot.route, slot.method, name))
    for slot in slots:
        yield Sample(SECONDS, _histogram(slot), (slot.route, slot.method))
    yield Sample(IN_FLIGHT, sum(in_flight.values()))


def _histogram(slot: TrafficSlot) -> Histogram:
    """As others show theirs; requests pay for no object more."""
    seen = Histogram(traffic.SECONDS)
    seen.counts, seen.total = slot.buckets, slot.seconds
    return seen
