"""Counts of requests, and their metrics."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import itemgetter

from reconciler.model.histogram import Histogram
from reconciler.ops.metric_families import Sample, counter, gauge, histogram

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")  # of statuses
OTHER = "other"  # any other method: a client may send any text
UNMATCHED = "unmatched"  # the path is unknown, or the request was refused before the search for a route


class Traffic:
    """All requests since the start, by route and method: `statuses` by class (0: no answer), and `seconds`."""

    def __init__(self) -> None:
        self.statuses: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(CLASSES))
        self.seconds: defaultdict[tuple[str, str], Histogram] = defaultdict(lambda: Histogram(BUCKETS))

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request that ended. `route` is its path with parameters in braces, empty without a route; `status` is
        0 without an answer.
        """
        key = route or UNMATCHED, method if method in METHODS else OTHER
        self.statuses[key][status // 100] += 1
        self.seconds[key].note(seconds)


OF_ONE = ("route", "method")

REQUESTS = counter(
    "reconciler_http_requests_total",
    "Requests that ended, by path template and class of status; `none` if the client left before an answer.",
    *OF_ONE,
    "status",
)
SECONDS = histogram(
    "reconciler_http_request_duration_seconds",
    "Their duration, from the end of the headers to the end of the answer.",
    *OF_ONE,
)
IN_FLIGHT = gauge("reconciler_http_requests_in_flight", "Requests with a credential that are in progress.")


def request_steps(seen: Traffic, in_flight: Mapping[str, int]) -> Iterator[Sample]:
    """Yield the samples of requests; `in_flight` counts requests in progress by caller."""
    for names, statuses in sorted(seen.statuses.items()):
        for status, number in sorted(zip(CLASSES, statuses, strict=True)):
            if number:
                yield Sample(REQUESTS, number, (*names, status))
    for names, seconds in sorted(seen.seconds.items(), key=itemgetter(0)):
        yield Sample(SECONDS, seconds, names)
    yield Sample(IN_FLIGHT, sum(in_flight.values()))
