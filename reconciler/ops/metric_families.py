"""Metric families, their samples, and the two text formats."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from enum import Enum, StrEnum
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from reconciler.model.histogram import Histogram

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
