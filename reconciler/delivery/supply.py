"""The supply of one exporter: batches that are ready or wait for another attempt."""

import asyncio
import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from typing import NamedTuple

from reconciler.delivery import batches
from reconciler.delivery.batches import Leases, RecordRound, SendBatch
from reconciler.delivery.retry import SendEnvironment, SendGate
from reconciler.model.routes import Destination, Format

# Parcels that wait for another attempt, by when they are due.


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
        return None if at is None else (batches.batch_place(self._heap[at][2]), self._heap[at][0])

    def _first_in_line(self) -> int | None:
        return min(range(len(self._heap)), key=lambda at: batches.batch_place(self._heap[at][2]), default=None)

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


# What there is to send to one destination, and which comes next.
#
# With one consumer all that was claimed is a line: what came first goes first, nothing overtakes what waits for another
# attempt, and nothing is claimed before the line is empty. So records arrive in their order.
#
# Records that come in small batches are claimed at most every `linger` seconds, so that they go together; a first one
# goes at once, and so does a backlog.

MOST_WAITING = 2_000  # batches that wait for another attempt; with more, none is claimed
MOST_TRIED_IN_TURN = 8  # parcels that are probes in turn, before another batch is claimed for it
LEAST_CAP = 16 * 1024  # bytes of a body, however small the bodies are that the endpoint finds too large


class Job(NamedTuple):
    """What a consumer does next: an attempt at a parcel, or one record of a round."""

    parcel: SendBatch
    round: RecordRound | None = None
    position: int = 0
    is_probe: bool = False


class Supply:
    """Of one destination. `hungry` is set when there was nothing to claim; `cap` bounds bodies, in bytes."""

    def __init__(
        self, holdings: Leases, destination: Destination, *, environment: SendEnvironment, gate: SendGate
    ) -> None:
        self._holdings = holdings
        self._destination = destination
        self._environment = environment
        self._gate = gate
        self._ready: list[tuple[tuple[int, int], int, SendBatch]] = []  # a heap: what came first is first
        self._order = count()
        self._rounds: deque[RecordRound] = deque()
        self._claims_at = 0.0
        self._probes = 0
        self._was_open = True  # when somebody last looked what is next
        self._looked_at = 0.0  # when somebody last looked what is next
        self.waiting = Waiting()
        self.hungry = asyncio.Event()
        self.cap: int | None = None

    def change(self, destination: Destination, *, is_elsewhere: bool) -> None:
        """Other settings; all that waits is tried at once with another endpoint."""
        self._destination = destination
        if is_elsewhere:
            self.waiting.hurry(self._environment.monotonic(), is_elsewhere=True)
            self.cap = None

    @property
    def is_line(self) -> bool:
        """Whether nothing may overtake."""
        return self._destination.buffering.consumers == 1

    @property
    def idle(self) -> list[SendBatch]:
        """What is claimed, and nobody sends now."""
        return [*(parcel for _, _, parcel in self._ready), *self.waiting]

    def drop(self, gone: Collection[SendBatch]) -> None:
        """These are not sent any more; more can be claimed."""
        self._ready = [one for one in self._ready if one[2] not in gone]
        heapq.heapify(self._ready)
        self.waiting.drop(gone)
        self.hungry.set()

    def hurry(self) -> None:
        """What waits for an outage to end is due."""
        self.waiting.hurry(self._environment.monotonic(), is_elsewhere=False)

    def put(self, ready: Iterable[SendBatch]) -> None:
        """These are next."""
        for parcel in ready:
            heapq.heappush(self._ready, (batches.batch_place(parcel), next(self._order), parcel))

    def _take_ready(self) -> SendBatch | None:
        return heapq.heappop(self._ready)[2] if self._ready else None

    def put_off(self, parcel: SendBatch, *, delay: float) -> None:
        """Let one wait for so many seconds."""
        self.waiting.put(parcel, due=self._environment.monotonic() + delay)

    def open(self, opened: RecordRound) -> None:
        """Its records are next."""
        self._rounds.append(opened)

    def too_large(self, size: int) -> None:
        """The endpoint does not take a body of so many bytes."""
        self.cap = max(size // 2, LEAST_CAP)

    def pick(self) -> Job | None:
        """What is next, or None. Whoever gets it does it."""
        self._was_open = self._gate.is_open
        if not self._was_open:
            return None
        now = self._looked_at = self._environment.monotonic()
        if not self._gate.is_up:
            return self._probe(now)
        while self._rounds:
            first = self._rounds[0]
            if first.has_more:
                return Job(first.parcel, first, first.begin())
            self._rounds.popleft()
        if self.is_line:
            parcel = self._first_in_line(now, is_probe=False)
        else:
            parcel = self._take_ready() or self.waiting.pop(now) or self._claim(now)
        return None if parcel is None else Job(parcel)

    def _first_in_line(self, now: float, *, is_probe: bool) -> SendBatch | None:
        waits = self.waiting.first_in_line
        if waits is None:
            return self._take_ready() or self._claim(now)
        place, _ = waits
        if self._ready and self._ready[0][0] < place:
            return self._take_ready()
        return self.waiting.pop_first_in_line(now, is_probe=is_probe)

    def _probe(self, now: float) -> Job | None:
        """The one request that finds out whether the endpoint is back."""
        if not self._gate.breaker.may_probe(now):
            return None
        parcel = self._first_in_line(now, is_probe=True) if self.is_line else self._in_turn(now)
        if parcel is None:
            return None
        self._probes += 1
        self._gate.probe()
        return Job(parcel, is_probe=True)

    def _in_turn(self, now: float) -> SendBatch | None:
        """All that waits has its turn, and now and then a new batch, since what waits may be why the endpoint fails."""
        is_new = len(self.waiting) < MOST_TRIED_IN_TURN or self._probes % 4 == 3
        parcel = self._take_ready()
        if parcel is None and is_new and self._probes % 2:
            parcel = self._claim(now)
        return parcel or self.waiting.pop_longest_untried(now) or self._claim(now)

    def _claim(self, now: float) -> SendBatch | None:
        if self.waiting.batches >= MOST_WAITING or now < self._claims_at:
            return None
        most_records, most_bytes = self._environment.most_records, self._most_bytes
        held = self._holdings.claim(most_records=most_records, most_bytes=most_bytes)
        if not held:
            self.hungry.set()
            return None
        is_single = self._destination.endpoint.format is Format.SINGLE
        records, size = sum(one.batch.records for one in held), sum(one.batch.size for one in held)
        is_backlog = is_single or records * 2 >= most_records or size * 2 >= most_bytes
        self._claims_at = now if is_backlog else now + self._environment.linger
        made = batches.each(held) if is_single else batches.merge_batches(held)
        self.put(made[1:])
        return made[0]

    @property
    def _due(self) -> float | None:
        """When something that waits may go."""
        if not self.is_line:
            return self.waiting.due
        first = self.waiting.first_in_line
        return None if first is None else first[1]

    @property
    def _most_bytes(self) -> int:
        most = self._environment.most_bytes
        return most if self.cap is None else min(most, self.cap)

    def next_in(self) -> float | None:
        """Seconds after which there may be something to do."""
        if not self._was_open:
            return 0.0 if self._gate.is_open else self._gate.opens_in()
        # What was not due when it was looked at, though it may be now: nobody else would look again.
        now = self._looked_at
        times = [self._claims_at] if self._claims_at > now else []
        if self._gate.is_up:
            due = self._due
            times += [] if due is None else [due]
        elif self._gate.breaker.probe_at > now:
            times.append(self._gate.breaker.probe_at)
        elif (due := self.waiting.probe_due(is_line=self.is_line)) > now:
            times.append(due)
        return min(times) - self._environment.monotonic() if times else None
