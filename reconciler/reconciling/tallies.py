"""What came of runs, counted for whoever looks at the service from outside.

Belongs here: the counts of all repositories together, and what is remembered of one. Does not: names of metrics
(`metrics.runs`), what is stored of a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reconciler.model.histogram import Histogram
from reconciler.reconciling.runs import RunOutcome

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(slots=True)
class RunTally:
    """Runs that were recorded since the start, by outcome, and how long they took in seconds."""

    runs: dict[RunOutcome, int] = field(default_factory=lambda: dict.fromkeys(RunOutcome, 0))
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))

    def note(self, outcome: RunOutcome, *, seconds: float) -> None:
        """A run was recorded."""
        self.runs[outcome] += 1
        self.seconds.note(seconds)


@dataclass(slots=True)
class SeenRuns:
    """Of one repository, since the start.

    `succeeded`: when a look last found that all is stored as its head says. `planned`: of the last run that came to a
    plan, how many resources had which status, by kind.
    """

    succeeded: datetime | None = None
    planned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
