"""What a metric is: its name, its kind, what it says, and the labels that tell its samples apart.

Belongs here: the form of all of them. Does not: which there are (`collecting` lists them), nor how they are written
(`exposition`).
"""

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from reconciler.model.histogram import Histogram


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
"""What a source yields: a sample, or None for a bit of work that gave none. All samples of a family come together, in
the order of their labels. A step takes 10 microseconds at most, so that a slice of them stays short.
"""
