"""Parcels that wait for another attempt, by when they are due.

Belongs here: their order, that of probes, and that of the line. Does not: how long each waits (`retrying`).
"""

import heapq
from collections.abc import Collection, Iterator
from itertools import count

from reconciler.sending import parcels
from reconciler.sending.parcels import SendBatch


class Waiting:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, SendBatch]] = []
        self._order = count()
        self.batches = 0  # those in several parcels are counted as often

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[SendBatch]:
        return (parcel for _, _, parcel in self._heap)

    @property
    def due(self) -> float | None:
        """When the first is due."""
        return self._heap[0][0] if self._heap else None

    def put(self, parcel: SendBatch, *, due: float) -> None:
        """Let one wait."""
        heapq.heappush(self._heap, (due, next(self._order), parcel))
        self.batches += len(parcel.held)

    def pop(self, now: float) -> SendBatch | None:
        """One that is due."""
        if not self._heap or self._heap[0][0] > now:
            return None
        return self._taken(heapq.heappop(self._heap)[2])

    def pop_longest_untried(self, now: float) -> SendBatch | None:
        """The next probe: all have their turn, since one of them may be why the endpoint fails. What the endpoint asked
        to wait longer for is none.
        """
        free = [at for at, (_, _, parcel) in enumerate(self._heap) if parcel.not_before <= now]
        return self._taken_at(min(free, key=lambda at: self._heap[at][2].tried)) if free else None

    def pop_first_in_line(self, now: float, *, is_probe: bool) -> SendBatch | None:
        """The one that came first, if it is due; as a probe, if the endpoint did not ask to wait longer for it."""
        at = self._first_in_line()
        if at is None:
            return None
        due, _, parcel = self._heap[at]
        return self._taken_at(at) if (parcel.not_before if is_probe else due) <= now else None

    def probe_due(self, *, is_line: bool) -> float:
        """When the first of them may be a probe."""
        if is_line:
            at = self._first_in_line()
            return 0.0 if at is None else self._heap[at][2].not_before
        return min((parcel.not_before for parcel in self), default=0.0)

    @property
    def first_in_line(self) -> tuple[tuple[int, int], float] | None:
        """The place of the one that came first, and when it is due."""
        at = self._first_in_line()
        return None if at is None else (parcels.batch_place(self._heap[at][2]), self._heap[at][0])

    def _first_in_line(self) -> int | None:
        return min(range(len(self._heap)), key=lambda at: parcels.batch_place(self._heap[at][2]), default=None)

    def drop(self, gone: Collection[SendBatch]) -> None:
        """These do not wait any more."""
        self._heap = [one for one in self._heap if one[2] not in gone]
        heapq.heapify(self._heap)
        self.batches = sum(len(parcel.held) for parcel in self)

    def hurry(self, now: float, *, is_elsewhere: bool) -> None:
        """The endpoint is back: those that failed for its outage are due now, whatever it asked for before. Or there is
        another one (`is_elsewhere`), which neither refused nor asked for anything: all are.
        """
        waiting, self._heap = self._heap, []
        for due, order, parcel in waiting:
            is_due = is_elsewhere or parcel.outage
            parcel.not_before = 0.0 if is_due else parcel.not_before
            self._heap.append((now if is_due else due, order, parcel))
        heapq.heapify(self._heap)

    def _taken_at(self, index: int) -> SendBatch:
        parcel = self._heap.pop(index)[2]
        heapq.heapify(self._heap)
        return self._taken(parcel)

    def _taken(self, parcel: SendBatch) -> SendBatch:
        self.batches -= len(parcel.held)
        return parcel
