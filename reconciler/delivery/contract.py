"""The interface of delivery for the API: taking log records in, its limits, and operating one destination's queue.

The limits are records a second for each sender, and bytes in memory at a time for all of them. They are pure: time is
an argument. `api.logs` knows the sender and words the answer.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from reconciler.delivery.otlp.models import Logs
from reconciler.model import errors


class QueueFull(errors.Transient):
    """A destination cannot take more now, and nothing of the request was kept. `seconds` is when to try again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class NotTaken(errors.Transient):
    """A destination without a queue did not get the records, or the disk did not take them, or did not answer for half
    a minute and may still take them: the sender keeps them.
    """


class UnknownDestination(errors.Refused):
    """The project has no such destination, and no queue of that name is left."""


@dataclass(frozen=True, slots=True)
class TakenRecords:
    """The outcome of a request: how many of its records nobody takes, and why, in a sentence ('' for none)."""

    rejected: int = 0
    message: str = ""


ALL = TakenRecords()


@dataclass(frozen=True, slots=True)
class Behind:
    """The routes of a project are older than what is stored: too old to be used when `is_late`.

    `changed_endpoints` are the webhooks that were disabled, deleted or pointed elsewhere meanwhile.
    """

    is_late: bool = False
    changed_endpoints: frozenset[str] = frozenset()


class Delivery(Protocol):
    """Log records in, and what operators do. Names of destinations are as in `model.routes.Destination`."""

    async def take(self, project: str, logs: Logs) -> TakenRecords:
        """Route and queue. When it returns, the records are where the settings of each destination promise (on disk,
        in memory, delivered). Raises Full, NotTaken, TooLarge.
        """

    def sends_at_once(self, project: str) -> bool:
        """Return True if a destination of the project has no queue, so that `take` may wait for its endpoint.

        Cancel `take` to give that up.
        """

    def shown(self, project: str, name: str, *, answers: bool) -> dict[str, Any]:
        """One destination's delivery as the API shows it; what endpoints answered only with `answers`. Raises
        UnknownDestination, and, like all that follow, Full while the project's Configurations are being read.
        """

    def all(self, project: str, *, answers: bool) -> dict[str, Any]:
        """Every destination of a project that something is delivered to or queued for, sorted by name, and the records
        that no Configuration took.
        """

    def replay(self, project: str, name: str) -> AsyncIterator[tuple[int, int]]:
        """Queue its dead letters again: how many batches and records, of one queue after the other, so that what was
        done is known when a later one fails. Raises UnknownDestination, and Full when the disk does not answer.
        """

    def discard(self, project: str, name: str, *, queued: bool, dead: bool) -> AsyncIterator[tuple[int, int]]:
        """Forget what is queued, or dead: how many batches and records, as above. Raises as above."""

    async def test(self, project: str, name: str) -> dict[str, Any]:
        """Send one made-up record past the queue, once: what came of it. Raises UnknownDestination."""


BYTES_PER_TOKEN = 1024  # of a body that was refused: looking through them costs no more than a record
MOST_SENDERS = 10_000  # senders that are remembered before those are forgotten that have waited long enough


def request_cost(size: int) -> int:
    """The tokens for a body of so many bytes that was refused."""
    return 1 + size // BYTES_PER_TOKEN


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RecordRates:
    """A bucket of tokens for each sender, one token a record. A full bucket is what may be sent in one second.

    A request needs as many tokens as it has records, or a full bucket when it has more than fit into one: then it
    leaves a debt. So a request of any size passes some day, and no more than the rate in the long run.
    """

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, sender: str, *, now: float) -> float:
        """Seconds until a sender in debt may send anything at all; 0 for one that is not.

        `now` is any clock in seconds that does not go back. Asked before a body is read, which costs more than this.
        """
        bucket = self._buckets.get(sender)
        if bucket is None or bucket.tokens >= 0.0:
            return 0.0
        return max(0.0, -bucket.tokens / self.per_second - (now - bucket.at))

    def take(self, sender: str, records: int, *, now: float) -> float:
        """Seconds to wait until a request of so many records passes; 0 when it has passed, and is counted."""
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
        """Count a request that was refused for what it is, even into debt: finding that out had its cost."""
        if self.take(sender, tokens, now=now) > 0.0:
            self._buckets[sender].tokens -= tokens

    def _forget(self, now: float) -> None:
        """Those whose bucket is full again need none; nobody in debt is forgotten."""
        if len(self._buckets) >= MOST_SENDERS:
            full = self.per_second
            self._buckets = {
                sender: bucket
                for sender, bucket in self._buckets.items()
                if bucket.tokens + (now - bucket.at) * full < full
            }


class IntakeRoom:
    """Bytes of requests that are in memory at a time: of all senders, and of each half of that, so that nobody who says
    much and sends nothing keeps all others out.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._of: dict[str, int] = {}

    def change(self, sender: str, held: int, wanted: int) -> bool:
        """Hold so many bytes instead of so many; whether they fit. Fewer always do, and so does what is alone."""
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
