"""What a store counts of itself, for whoever looks at the service from outside.

Belongs here: its shape. Does not: counting (each engine does), names of metrics (`metrics.store`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.model.histogram import Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@dataclass(slots=True)
class CommitFigures:
    """Those since it was opened: how long each took in seconds, its wait for its turn included, how many were refused
    because the store had moved, and how many failed.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    moved: int = 0
    failed: int = 0


class StoreFigures(NamedTuple):
    """One moment. `file` and `log` are bytes on the disk, None when they cannot be asked for."""

    commits: CommitFigures
    file: int | None
    log: int | None
