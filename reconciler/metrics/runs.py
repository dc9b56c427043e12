"""Metrics of repositories and their runs.

Belongs here: their names, and where their values are. Does not: counting (`reconciling.tallies`).
"""

from collections.abc import Iterator

from reconciler.git.faults import RepositoryState
from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step
from reconciler.reconcile.repositories import Repositories

OF_ONE = ("project", "repository")

RUNS = MetricFamily(
    "reconciler_runs_total",
    MetricKind.COUNTER,
    "Runs that were recorded, by outcome; a look that finds nothing new is none.",
    ("outcome",),
)
SECONDS = MetricFamily("reconciler_run_duration_seconds", MetricKind.HISTOGRAM, "How long these runs took.")
STATE = MetricFamily(
    "reconciler_repository_state",
    MetricKind.GAUGE,
    "1 for the state that a repository is in; it has no sample for any other state.",
    (*OF_ONE, "state"),
)
FAILING = MetricFamily(
    "reconciler_repository_failing",
    MetricKind.GAUGE,
    "1 while the last look at a repository failed, 0 otherwise. Counts also what could not be written to the store.",
    OF_ONE,
)
SUCCEEDED = MetricFamily(
    "reconciler_repository_last_success_timestamp_seconds",
    MetricKind.GAUGE,
    "When a look last ended without a fault, with the repository ready. Absent until the first such look.",
    OF_ONE,
)
RESOURCES = MetricFamily(
    "reconciler_repository_resources",
    MetricKind.GAUGE,
    "Resources of the last run that read something, by kind and status. Absent until the first such run.",
    (*OF_ONE, "kind", "status"),
)

FAMILIES = (RUNS, SECONDS, STATE, FAILING, SUCCEEDED, RESOURCES)


def run_steps(repositories: Repositories) -> Iterator[Step]:
    """All of them."""
    for outcome, number in repositories.tally.runs.items():
        yield Sample(RUNS, number, (outcome,))
    yield Sample(SECONDS, repositories.tally.seconds)
    every = [((one.watched.project, one.watched.name), one) for one in repositories.reconcilers()]
    every.sort(key=lambda pair: pair[0])
    for names, one in every:
        row = one.told
        yield Sample(STATE, 1, (*names, RepositoryState.NEVER_READ if row is None else row.state))
    for names, one in every:
        yield Sample(FAILING, int(one.fault is not None), names)
    for names, one in every:
        if one.tallied.succeeded is not None:
            yield Sample(SUCCEEDED, one.tallied.succeeded.timestamp(), names)
    for names, one in every:
        for kind, statuses in one.tallied.planned.items():
            for status, number in statuses.items():
                yield Sample(RESOURCES, number, (*names, kind, status))
