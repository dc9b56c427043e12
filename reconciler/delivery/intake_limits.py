"""Limits on taking log records in: records a second for each sender, and bytes in memory at a time for all of them.

Pure: time is an argument. `api.logs` knows the sender and words the answer.
"""

from dataclasses import dataclass

BYTES = 1024  # of a body that was refused: looking through them costs no more than a record
MOST = 10_000  # senders that are remembered before those are forgotten that have waited long enough


def request_cost(size: int) -> int:
    """The tokens for a body of so many bytes that was refused."""
    return 1 + size // BYTES


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
        if len(self._buckets) >= MOST:
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
