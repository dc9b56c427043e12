"""Which deliveries have come before. The time is an argument.

Each has two marks: the id that its forge gave it, and the digest of its body. The id says that a forge tries again. But
most forges do not sign it, so that whoever saw a delivery could send it with one id after another: a body that came
before is the same delivery, whatever it is called.

They are in memory alone, and of the last hour: after a restart, or an hour, a delivery that is sent again costs one
look at the repository, which changes nothing that a poll would not.
"""

import hashlib
from collections import OrderedDict

SECONDS = 3_600.0  # a forge that tries again by itself does so within minutes
MOST = 10_000  # the oldest go first
DIGEST_BYTES = 16  # whatever the length of what is remembered


class RecentDeliveries:
    """The deliveries of the last hour, by repository."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()  # in the order in which they came, so in that of time

    def is_new(self, repository: str, *marks: bytes, now: float) -> bool:
        """Whether nothing with one of these marks has come before, and remember them. An empty one is none.

        `now` is any clock in seconds that does not go back. Two repositories may get the same id for one push.
        """
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        keys = [_key(repository, mark) for mark in marks if mark]
        is_new = not any(key in self._until for key in keys)
        for key in keys:
            self._until.setdefault(key, now + SECONDS)
        while len(self._until) > MOST:
            self._until.popitem(last=False)
        return is_new

    def __len__(self) -> int:
        return len(self._until)


def _key(repository: str, mark: bytes) -> bytes:
    return hashlib.blake2b(repository.encode() + b"\0" + mark, digest_size=DIGEST_BYTES).digest()
