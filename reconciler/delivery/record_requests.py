"""The format `single`: one send batch as a request for each of its records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reconciler.delivery.batches import SendBatch
from reconciler.delivery.retry import AnswerVerdict

NOTED_EVERY = 64  # records that arrived, after which that is remembered


@dataclass(slots=True, eq=False)
class RecordFailure:
    """Records that failed alike, so that one decision is each one's own. `took` is seconds of the longest request."""

    verdict: AnswerVerdict
    places: list[int] = field(default_factory=list)
    took: float = 0.0


@dataclass(slots=True, eq=False)
class RecordRequests:
    """`bodies` are those of `places`, the records of the batch's one lease.

    As a probe (`is_probe`) its first record is the only one until that has been answered.
    """

    batch: SendBatch
    places: tuple[int, ...]
    bodies: Sequence[bytes]
    is_probe: bool = False
    next: int = 0
    in_flight: int = 0
    failed: dict[tuple[bool, int | None, int], RecordFailure] = field(default_factory=dict)
    untried: tuple[int, ...] = ()
    noted: int = 0

    @property
    def has_more(self) -> bool:
        """Tell whether there is a record that nobody sends."""
        return self.next < len(self.places)

    @property
    def is_over(self) -> bool:
        """Tell whether every record that was begun has its outcome, and no other will be begun."""
        return not self.in_flight and not self.has_more

    def begin(self) -> int:
        """Return the position of the next record."""
        position = self.next
        self.next += 1
        self.in_flight += 1
        return position

    def fail(self, position: int, verdict: AnswerVerdict, *, took: float) -> None:
        """Note a failure. Waits of the same second are alike: a date comes to other fractions each time."""
        alike = verdict.outage, verdict.status, math.ceil(verdict.retry_after)
        failure = self.failed.setdefault(alike, RecordFailure(verdict))
        failure.places.append(self.places[position])
        failure.took = max(failure.took, took)
        if verdict.retry_after > failure.verdict.retry_after:
            failure.verdict = verdict

    def stop(self) -> None:
        """Begin no other record."""
        self.untried += self.places[self.next :]
        self.next = len(self.places)


def join_outage_failures(
    failures: Sequence[RecordFailure], untried: tuple[int, ...]
) -> tuple[list[RecordFailure], tuple[int, ...]]:
    """Join what waits for the end of an outage, failed or untried: else every probe would part another record from its
    batch. The one that failed last is the next probe's last choice.
    """
    of_outage = [one for one in failures if one.verdict.outage]
    if not of_outage or not untried:
        return list(failures), untried
    # No time counts: the records that were not tried spent none.
    latest = max(reversed(of_outage), key=lambda one: one.verdict.retry_after)  # until when they are to wait
    all_of_it = RecordFailure(latest.verdict, [*untried, *(place for one in of_outage for place in one.places)])
    return [*(one for one in failures if not one.verdict.outage), all_of_it], ()
