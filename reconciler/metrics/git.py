"""Metrics of what is asked of remotes.

Belongs here: their names, and where their values are. Does not: counting (`remotes.tallies`).
"""

from collections.abc import Iterator

from reconciler.git.faults import RepositoryState
from reconciler.git.remotes.concurrency import RemoteCall, RemoteTally
from reconciler.metrics.families import MetricFamily, MetricKind, Sample, Step

LOOKS = MetricFamily(
    "reconciler_git_looks_total", MetricKind.COUNTER, "Times that a remote was asked where something is."
)
FETCHES = MetricFamily(
    "reconciler_git_fetches_total", MetricKind.COUNTER, "Times that something new was to be brought from one."
)
FAILURES = MetricFamily(
    "reconciler_git_failures_total",
    MetricKind.COUNTER,
    "Looks and fetches that failed, by the state that this puts a repository in; `other` if none.",
    ("call", "state"),
)

SETTLED = frozenset(
    {RepositoryState.READY, RepositoryState.NEVER_READ, RepositoryState.PRUNE_HELD, RepositoryState.SUSPENDED}
)  # no call leaves one of these
KINDS = tuple(
    (call, state)
    for call in RemoteCall
    for state in (*(each.value for each in RepositoryState if each not in SETTLED), "")
)

GIT_FAMILIES = (LOOKS, FETCHES, FAILURES)


def git_steps(tally: RemoteTally) -> Iterator[Step]:
    """All of them; failures of each kind from the start, since a count that is first seen as 1 has not grown."""
    yield Sample(LOOKS, tally.calls[RemoteCall.LOOK])
    yield Sample(FETCHES, tally.calls[RemoteCall.FETCH])
    for call, state in sorted({*KINDS, *tally.failures}):
        yield Sample(FAILURES, tally.failures[call, state], (call, state or "other"))
