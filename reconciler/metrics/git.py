"""Metrics of what is asked of remotes.

Belongs here: their names, and where their values are. Does not: counting (`remotes.tallies`).
"""

from collections.abc import Iterator

from reconciler.git.faults import State
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

SETTLED = frozenset({State.READY, State.NEVER_READ, State.PRUNE_HELD, State.SUSPENDED})  # no call leaves one of these
KINDS = tuple((call, state) for call in Call for state in (*(each.value for each in State if each not in SETTLED), ""))

FAMILIES = (LOOKS, FETCHES, FAILURES)


def steps(tally: Tally) -> Iterator[Step]:
    """All of them; failures of each kind from the start, since a count that is first seen as 1 has not grown."""
    yield Sample(LOOKS, tally.calls[Call.LOOK])
    yield Sample(FETCHES, tally.calls[Call.FETCH])
    for call, state in sorted({*KINDS, *tally.failures}):
        yield Sample(FAILURES, tally.failures[call, state], (call, state or "other"))
