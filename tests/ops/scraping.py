"""Reading /metrics of a daemon as Prometheus does, and finding values in it."""

import http.client
from dataclasses import dataclass

from prometheus_client import parser

from reconciler.ops import delivery_metrics, metrics, traffic
from reconciler.ops.metric_families import MetricFamily
from tests.daemons import Daemon

FAMILIES = [
    one
    for module in (metrics, traffic, delivery_metrics)
    for one in vars(module).values()
    if isinstance(one, MetricFamily)
]
TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Scraped:
    """One answer."""

    status: int
    content_type: str
    text: str

    def values(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """The samples of that name whose labels have these values, by their other labels, sorted by name."""
        found = {}
        for family in parser.text_string_to_metric_families(self.text):
            for one in family.samples:
                if one.name == name and labels.items() <= one.labels.items():
                    rest = tuple(one.labels[label] for label in sorted(one.labels.keys() - labels.keys()))
                    found[rest] = one.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """The only such sample, or None."""
        found = self.values(name, **labels)
        assert len(found) <= 1, found
        return next(iter(found.values()), None)


def scrape(daemon: Daemon, *, key: str | None = None) -> Scraped:
    """GET /metrics."""
    connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=30)
    try:
        headers = {"Authorization": f"Bearer {key or daemon.key}"}
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        return Scraped(answer.status, answer.headers["content-type"], answer.read().decode())
    finally:
        connection.close()
