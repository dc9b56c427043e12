"""The batches that one exporter may send next: those that are ready, or wait for another attempt, or are still queued.

With one consumer all that is leased is a line: what came first goes first, nothing overtakes what waits for another
attempt, and nothing is leased before the line is empty. So records arrive in their order.

Records that come in small batches are leased at most every `linger` seconds, so that they go together; a first one goes
at once, and so does a backlog.
"""

import asyncio
import heapq
from collections.abc import Collection, Iterable
from itertools import count
from typing import NamedTuple

from reconciler.delivery import batches
from reconciler.delivery.batches import Leases, SendBatch
from reconciler.delivery.breaker import SendEnvironment, SendGate
from reconciler.model.routes import Destination, Format

MOST_WAITING = 2_000  # batches that wait for another attempt; with more, no other is begun
MOST_TRIED_IN_TURN = 8  # parts that are probes in turn, before another batch is leased for it
LEAST_CAP = 16 * 1024  # bytes of a body, however small the bodies are that the endpoint finds too large


class Job(NamedTuple):
    """The next request of a consumer. A probe finds out whether the endpoint is back."""

    batch: SendBatch
    is_probe: bool = False


class Pending:
    """Of one destination. `hungry` is set when there was nothing to lease; `cap` bounds bodies, in bytes."""

    def __init__(
        self, leases: Leases, destination: Destination, *, environment: SendEnvironment, gate: SendGate
    ) -> None:
        self._leases = leases
        self._destination = destination
        self._environment = environment
        self._gate = gate
        self._ready: list[tuple[tuple[int, int], int, SendBatch]] = []  # a heap: what came first is first
        self._order = count()
        self._waiting: list[SendBatch] = []
        self._leases_at = 0.0  # monotonic seconds, before which nothing is leased
        self._probes = 0
        self._was_open = True  # at the last pick
        self._picked_at = 0.0  # monotonic seconds
        self.hungry = asyncio.Event()
        self.cap: int | None = None

    def change(self, destination: Destination, *, is_elsewhere: bool) -> None:
        """Take other settings. Another endpoint neither refused nor asked for anything: all that waits is due."""
        self._destination = destination
        if is_elsewhere:
            self._make_due(self._waiting)
            self.cap = None

    @property
    def is_line(self) -> bool:
        """Tell whether nothing may overtake."""
        return self._destination.buffering.consumers == 1

    @property
    def waiting(self) -> int:
        """The number of queued batches of which something waits for another attempt."""
        return len({lease.queued.number for batch in self._waiting for lease in batch.leases})

    @property
    def idle(self) -> list[SendBatch]:
        """The batches that are leased, and that nobody sends now."""
        return [*(batch for _, _, batch in self._ready), *self._waiting]

    def drop(self, gone: Collection[SendBatch]) -> None:
        """Forget these; more can be leased."""
        self._ready = [one for one in self._ready if one[2] not in gone]
        heapq.heapify(self._ready)
        self._waiting = [one for one in self._waiting if one not in gone]
        self.hungry.set()

    def end_outage(self) -> None:
        """Try at once what failed for an outage, whatever the endpoint asked for before."""
        self._make_due([batch for batch in self._waiting if batch.outage])

    def _make_due(self, waiting: Iterable[SendBatch]) -> None:
        for batch in waiting:
            batch.due, batch.not_before = self._environment.monotonic(), 0.0

    def put(self, ready: Iterable[SendBatch]) -> None:
        """Send these next."""
        for batch in ready:
            heapq.heappush(self._ready, (batch.place, next(self._order), batch))

    def put_off(self, batch: SendBatch, *, delay: float) -> None:
        """Let one wait for so many seconds."""
        batch.due = self._environment.monotonic() + delay
        batch.body = None
        self._waiting.append(batch)

    def too_large(self, size: int) -> None:
        """Send smaller bodies: the endpoint does not take one of so many bytes."""
        self.cap = max(size // 2, LEAST_CAP)

    def pick(self) -> Job | None:
        """Return the next job, which is the caller's then; None for nothing."""
        self._was_open = self._gate.is_open
        if not self._was_open:
            return None
        now = self._picked_at = self._environment.monotonic()
        if not self._gate.is_up:
            return self._pick_probe(now)
        if self.is_line:
            batch = self._first_in_line(now, is_probe=False)
        else:
            due = [one for one in self._waiting if one.due <= now]
            batch = self._take_ready() if len(self._waiting) < MOST_WAITING else None
            if batch is None and due:
                batch = self._take_waiting(min(due, key=lambda one: one.due))
            batch = batch or self._lease(now)
        return None if batch is None else Job(batch)

    def _pick_probe(self, now: float) -> Job | None:
        """Return the one request that finds out whether the endpoint is back."""
        if not self._gate.breaker.may_probe(now):
            return None
        batch = self._first_in_line(now, is_probe=True) if self.is_line else self._in_turn(now)
        if batch is None:
            return None
        self._probes += 1
        self._gate.probe()
        return Job(batch, is_probe=True)

    def _first_in_line(self, now: float, *, is_probe: bool) -> SendBatch | None:
        first = min(self._waiting, key=lambda one: one.place, default=None)
        if first is None:
            return self._take_ready() or self._lease(now)
        if self._ready and self._ready[0][0] < first.place:
            return self._take_ready()
        return self._take_waiting(first) if (first.not_before if is_probe else first.due) <= now else None

    def _in_turn(self, now: float) -> SendBatch | None:
        """Give all that waits its turn, and now and then a new batch, since any may be why the endpoint fails."""
        batch = self._take_ready()
        is_new = len(self._waiting) < MOST_TRIED_IN_TURN or self._probes % 4 == 3
        if batch is None and is_new and self._probes % 2:
            batch = self._lease(now)
        free = [one for one in self._waiting if one.not_before <= now]
        if batch is None and free:
            batch = self._take_waiting(min(free, key=lambda one: one.tried))
        return batch or self._lease(now)

    def _take_ready(self) -> SendBatch | None:
        return heapq.heappop(self._ready)[2] if self._ready else None

    def _take_waiting(self, batch: SendBatch) -> SendBatch:
        self._waiting.remove(batch)
        return batch

    def _lease(self, now: float) -> SendBatch | None:
        if now < self._leases_at or self.waiting >= MOST_WAITING:
            return None
        most_records, most_bytes = self._environment.most_records, self._environment.most_bytes
        if self.cap is not None:
            most_bytes = min(most_bytes, self.cap)
        leases = self._leases.lease(most_records=most_records, most_bytes=most_bytes)
        if not leases:
            self.hungry.set()
            return None
        is_single = self._destination.endpoint.format is Format.SINGLE
        records, size = sum(one.queued.records for one in leases), sum(one.queued.size for one in leases)
        is_backlog = is_single or records * 2 >= most_records or size * 2 >= most_bytes
        self._leases_at = now if is_backlog else now + self._environment.linger
        made = batches.batch_each(leases) if is_single else batches.merge_batches(leases)
        self.put(made[1:])
        return made[0]

    def next_in(self) -> float | None:
        """Return the seconds after which there may be something to pick."""
        if not self._was_open:
            return 0.0 if self._gate.is_open else self._gate.opens_in()
        # What was not due at the last pick, though it may be now: nobody else would pick it.
        before = self._picked_at
        first = min(self._waiting, key=lambda one: one.place if self.is_line else (one.due, 0), default=None)
        times = [self._leases_at] if self._leases_at > before else []
        if self._gate.is_up:
            times += [] if first is None else [first.due]
        elif self._gate.breaker.probe_at > before:
            times.append(self._gate.breaker.probe_at)
        elif first is not None:
            probes = [first.not_before] if self.is_line else [one.not_before for one in self._waiting]
            times += [min(probes)] if min(probes) > before else []
        return min(times) - self._environment.monotonic() if times else None
