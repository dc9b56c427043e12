"""The batches that one exporter may send next: those that are ready, or wait for another attempt, or are still queued.

With one consumer all that is leased is a line: what came first goes first, nothing overtakes what waits for another
attempt, and nothing is leased before the line is empty. So records arrive in their order.

Records that come in small batches are leased at most every `linger` seconds, so that they go together; a first one goes
at once, and so does a backlog.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import NamedTuple

from reconciler.delivery import batches
from reconciler.delivery.batches import Leases, SendBatch
from reconciler.delivery.breaker import SendEnvironment, SendGate
from reconciler.model.routes import Destination, Format

MOST_WAITING = 2_000  # batches that wait for another attempt; with more, no other is leased
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
        self._leases_at = 0.0  # monotonic seconds, before which nothing is leased
        self._probes = 0
        self._was_open = True  # at the last pick
        self._picked_at = 0.0  # monotonic seconds
        self.idle: list[SendBatch] = []  # what is leased, and nobody sends now
        self.hungry = asyncio.Event()
        self.cap: int | None = None

    def change(self, destination: Destination, *, is_elsewhere: bool) -> None:
        """Take other settings. Another endpoint neither refused nor asked for anything: all that waits is due."""
        self._destination = destination
        if is_elsewhere:
            self._make_due(self.idle)
            self.cap = None

    @property
    def _is_line(self) -> bool:
        """Tell whether nothing may overtake."""
        return self._destination.buffering.consumers == 1

    @property
    def waiting(self) -> int:
        """The number of queued batches of which something waits for another attempt."""
        return len({lease.queued.number for batch in self.idle if batch.due for lease in batch.leases})

    def drop(self, gone: Collection[SendBatch]) -> None:
        """Forget these; more can be leased."""
        self.idle = [one for one in self.idle if one not in gone]
        self.hungry.set()

    def end_outage(self) -> None:
        """Try at once what failed for an outage, whatever the endpoint asked for before."""
        self._make_due([batch for batch in self.idle if batch.outage])

    def _make_due(self, waiting: Iterable[SendBatch]) -> None:
        for batch in waiting:
            batch.due = min(batch.due, self._environment.monotonic())
            batch.not_before = 0.0

    def put(self, ready: Iterable[SendBatch]) -> None:
        """Send these next."""
        for batch in ready:
            batch.due = 0.0
            self.idle.append(batch)

    def put_off(self, batch: SendBatch, *, delay: float) -> None:
        """Let one wait for so many seconds."""
        batch.due = self._environment.monotonic() + delay
        batch.bodies = None
        self.idle.append(batch)

    def too_large(self, size: int) -> None:
        """Send smaller bodies: the endpoint does not take one of so many bytes."""
        self.cap = max(size // 2, LEAST_CAP)

    def pick(self) -> Job | None:
        """Return the next job, which is the caller's then; None for nothing."""
        self._was_open = self._gate.is_open
        if not self._was_open:
            return None
        now = self._picked_at = self._environment.monotonic()
        is_probe = not self._gate.is_up
        if is_probe and not self._gate.breaker.may_probe(now):
            return None
        batch = self._in_line(now, is_probe=is_probe) if self._is_line else self._in_turn(now, is_probe=is_probe)
        if batch is None:
            return None
        if is_probe:
            self._probes += 1
            self._gate.probe()
        if batch.bodies is not None and len(batch.bodies) > 1:
            return Job(batch.split_first(), is_probe)
        self.idle.remove(batch)
        return Job(batch, is_probe)

    def _in_line(self, now: float, *, is_probe: bool) -> SendBatch | None:
        first = min(self.idle, key=lambda one: one.place, default=None) or self._lease(now)
        if first is None or (first.not_before if is_probe else first.due) > now:
            return None
        return first

    def _in_turn(self, now: float, *, is_probe: bool) -> SendBatch | None:
        if not is_probe:
            due = (one for one in self.idle if one.due <= now)
            return min(due, key=lambda one: (one.due, one.place), default=None) or self._lease(now)
        # Each has its turn, and now and then a new batch, since any may be why the endpoint fails.
        free = [one for one in self.idle if one.not_before <= now]
        first = min(free, key=lambda one: (one.tried, one.place), default=None)
        is_for_new = self._probes % 4 == 3 or (self._probes % 2 == 1 and len(self.idle) < MOST_TRIED_IN_TURN)
        is_new = first is not None and not first.tried
        return (self._lease(now) if is_for_new and not is_new else None) or first or self._lease(now)

    def _lease(self, now: float) -> SendBatch | None:
        """Lease the next batches, and return the first."""
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
        self.put(made)
        return made[0]

    def next_in(self) -> float | None:
        """Return the seconds after which there may be something to pick."""
        if not self._was_open:
            return 0.0 if self._gate.is_open else self._gate.opens_in()
        # What was not due at the last pick, though it may be now: nobody else would pick it.
        before = self._picked_at
        times = [self._leases_at] if self._leases_at > before else []
        idle = self.idle
        if self._is_line:
            idle = [min(self.idle, key=lambda one: one.place)] if self.idle else []
        if self._gate.is_up:
            times += [min(one.due for one in idle)] if idle else []
        elif self._gate.breaker.probe_at > before:
            times.append(self._gate.breaker.probe_at)
        elif idle and (first := min(one.not_before for one in idle)) > before:
            times.append(first)
        return min(times) - self._environment.monotonic() if times else None
