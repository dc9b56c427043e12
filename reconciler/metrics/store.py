"""Metrics of the store.

Belongs here: their names, and where their values are. Does not: counting (`store.figures`).
"""

from collections.abc import Iterator

from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step
from reconciler.store.contract import StoreFigures

SECONDS = MetricFamily(
    "reconciler_store_commit_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long commits took, waiting for those before them included.",
)
FAILURES = MetricFamily(
    "reconciler_store_commit_failures_total",
    MetricKind.COUNTER,
    "Commits that stored nothing: `moved` are planned again, `fault` is the disk's or the file's.",
    ("reason",),
)
REVISION = MetricFamily(
    "reconciler_store_revision", MetricKind.GAUGE, "The revision of the store. Absent while the store cannot be read."
)
FILE = MetricFamily("reconciler_store_file_bytes", MetricKind.GAUGE, "Size of the store's file.")
LOG = MetricFamily("reconciler_store_wal_bytes", MetricKind.GAUGE, "Size of its write-ahead log.")

FAMILIES = (SECONDS, FAILURES, REVISION, FILE, LOG)


def store_steps(figures: StoreFigures, revision: int | None) -> Iterator[Step]:
    """All of them. `revision` is None when it could not be read."""
    yield Sample(SECONDS, figures.commits.seconds)
    yield Sample(FAILURES, figures.commits.failed, ("fault",))
    yield Sample(FAILURES, figures.commits.moved, ("moved",))
    for family, value in ((REVISION, revision), (FILE, figures.file), (LOG, figures.log)):
        if value is not None:
            yield Sample(family, value)
