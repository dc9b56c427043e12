"""Metrics of what is asked of remotes.

Belongs here: their names, and where their values are. Does not: counting (`remotes.tallies`).
"""

from collections.abc import Iterator

from reconciler.metrics.families import Family, Kind, Sample, Step
from reconciler.remotes.tallies import Call, Tally

LOOKS = Family("reconciler_git_looks_total", Kind.COUNTER, "Times that a remote was asked where something is.")
FETCHES = Family("reconciler_git_fetches_total", Kind.COUNTER, "Times that something new was to be brought from one.")
FAILURES = Family(
    "reconciler_git_failures_total",
    Kind.COUNTER,
    "Looks and fetches that failed, by the state that this puts a repository in; `other` if none.",
    ("call", "state"),
)

FAMILIES = (LOOKS, FETCHES, FAILURES)


def steps(tally: Tally) -> Iterator[Step]:
    """All of them."""
    yield Sample(LOOKS, tally.calls[Call.LOOK])
    yield Sample(FETCHES, tally.calls[Call.FETCH])
    for (call, state), number in sorted(tally.failures.items()):
        yield Sample(FAILURES, number, (call, state or "other"))
