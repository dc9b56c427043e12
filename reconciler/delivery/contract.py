"""The interface of delivery for the API: accepting log records, their limits, and operating one destination's queue.

The limits are records per second of each sender, and bytes in memory of all senders. They are pure: the time is an
argument. `api.logs` knows the sender and makes the answer.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from reconciler.delivery.otlp.models import Logs
from reconciler.model import errors


class QueueFull(errors.Transient):
    """A destination cannot accept more now, and nothing of the request was kept. Try again after `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NotTaken(errors.Transient):
    """A destination without a queue did not get the records, or the disk refused them, or it did not answer for half a
    minute and may still write them. The sender must keep them.
    """


class UnknownDestination(errors.Refused):
    """The project has neither a destination nor a queue of this name."""


@dataclass(frozen=True, slots=True)
class TakenRecords:
    """The outcome of a request: the number of records without a route, and the reason in a sentence ('' for none)."""

    rejected: int = 0
    message: str = ""


ALL = TakenRecords()


@dataclass(frozen=True, slots=True)
class Behind:
    """The routes of a project are older than the store. If `is_late`, they are too old to be used.

    `changed_endpoints` are the webhooks that were disabled, deleted or moved meanwhile.
    """

    is_late: bool = False
    changed_endpoints: frozenset[str] = frozenset()


class Delivery(Protocol):
    """Accepts log records, and operates queues. Names of destinations are as in `model.routes.Destination`."""

    async def take(self, project: str, logs: Logs) -> TakenRecords:
        """Route and queue records. When it returns, they are where the settings of each destination promise: on disk,
        in memory, or delivered. Raises QueueFull, NotTaken, RequestTooLarge.
        """

    def sends_at_once(self, project: str) -> bool:
        """Return True if a destination of the project has no queue, so that `take` may wait for its endpoint.

        Cancel `take` to give that up.
        """

    def shown(self, project: str, name: str, *, answers: bool) -> dict[str, Any]:
        """Return one destination's delivery as the API shows it; with `answers` also the answers of endpoints. Raises
        UnknownDestination. This and the next methods raise QueueFull while the project's Configurations are being read.
        """

    def all(self, project: str, *, answers: bool) -> dict[str, Any]:
        """Return every destination of a project with a route or a queue, sorted by name, and the records that no
        Configuration took.
        """

    def history(self, project: str, name: str) -> list[dict[str, Any]]:
        """Return a destination's samples of the last hour, oldest first; none of an unknown one, or after the start."""

    async def dead_letters(self, project: str, name: str, *, most: int) -> list[dict[str, Any]]:
        """Return a destination's oldest dead letters as the API shows them; none of an unknown one. Raises QueueFull if
        the disk does not answer.
        """

    def replay(self, project: str, name: str, *, letter: str | None = None) -> AsyncIterator[tuple[int, int]]:
        """Queue its dead letters again, or the one with an id. Yield the numbers of batches and records for one queue
        after the other, so that the finished part is known if a later one fails. Raises UnknownDestination, and
        QueueFull if the disk does not answer.
        """

    def discard(
        self, project: str, name: str, *, queued: bool, dead: bool, letter: str | None = None
    ) -> AsyncIterator[tuple[int, int]]:
        """Delete queued batches or dead letters, or the dead letter with an id. Yields and raises as `replay` does."""

    async def receive(self, project: str, name: str, segment: bytes) -> tuple[int, int]:
        """Store batches or dead letters of another instance's queue (`moving`), and return how many batches and records
        are new here. When it returns, all are on disk. Raises QueueFull, NotTaken, RequestTooLarge, MalformedRequest.
        """

    async def test(self, project: str, name: str) -> dict[str, Any]:
        """Send a test record once, without the queue, and return the outcome. Raises UnknownDestination."""


MOVED_BYTES = (80 << 20) + 40  # of a request that moves batches: the size of the largest segment
BYTES_PER_TOKEN = 1024  # of a refused body: checking this many bytes costs at most as much as a record
MOST_SENDERS = 10_000  # senders that are remembered before those are forgotten that have waited long enough


def request_cost(size: int) -> int:
    """Return the tokens for a refused body of this many bytes."""
    return 1 + size // BYTES_PER_TOKEN


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RecordRates:
    """A bucket of tokens for each sender, one token for each record. A full bucket is the rate for one second.

    A request needs as many tokens as it has records. A larger one needs a full bucket, and leaves a debt. So a request
    of any size passes eventually, and the average rate is kept.
    """

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, sender: str, *, now: float) -> float:
        """Return the seconds until a sender in debt may send again; 0 without a debt.

        `now` is a monotonic clock in seconds. Call it before a body is read, which costs more.
        """
        bucket = self._buckets.get(sender)
        if bucket is None or bucket.tokens >= 0.0:
            return 0.0
        return max(0.0, -bucket.tokens / self.per_second - (now - bucket.at))

    def take(self, sender: str, records: int, *, now: float) -> float:
        """Return the seconds until a request of this many records passes. If it is 0, it has passed and is counted."""
        full = float(self.per_second)
        bucket = self._buckets.get(sender)
        if bucket is None:
            self._forget(now)
            bucket = self._buckets[sender] = _Bucket(full, now)
        else:
            tokens = bucket.tokens + (now - bucket.at) * full
            bucket.tokens = tokens if tokens < full else full
            bucket.at = now
        needed = records if records < full else full
        if bucket.tokens < needed:
            return (needed - bucket.tokens) / full
        bucket.tokens -= records
        return 0.0

    def charge(self, sender: str, tokens: int, *, now: float) -> None:
        """Count a refused request, even into debt, because checking it had its cost."""
        if self.take(sender, tokens, now=now) > 0.0:
            self._buckets[sender].tokens -= tokens

    def _forget(self, now: float) -> None:
        """Remove full buckets. A sender in debt is never forgotten."""
        if len(self._buckets) >= MOST_SENDERS:
            full = self.per_second
            self._buckets = {
                sender: bucket
                for sender, bucket in self._buckets.items()
                if bucket.tokens + (now - bucket.at) * full < full
            }


class IntakeRoom:
    """Bytes of requests in memory. One sender may have half of them, so that a slow sender of large bodies cannot block
    all others.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._of: dict[str, int] = {}

    def change(self, sender: str, held: int, wanted: int) -> bool:
        """Change the number of held bytes; return True if they fit. Fewer always fit, and so does a single request."""
        others, own = self.taken - held, self._of.get(sender, 0) - held
        if wanted > held:
            if others and others + wanted > self.most:
                return False
            if own and own + wanted > self.most // 2:
                return False
        self.taken = others + wanted
        if own + wanted:
            self._of[sender] = own + wanted
        else:
            self._of.pop(sender, None)
        return True
