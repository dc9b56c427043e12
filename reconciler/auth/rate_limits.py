"""Rate limits for sign-in, counts of refused requests, and values that count once."""

import json
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from reconciler.model.clock import rfc3339
from reconciler.store.records import AuditRow

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """A dictionary that keeps the last `most` entries."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class OnceOnly:
    """Accepts each value once, as long as it is remembered.

    A restart forgets them, and another replica does not know them. The provider also accepts a code only once (RFC
    6749, 4.1.2).
    """

    def __init__(self, most: int) -> None:
        self._taken: BoundedDict[Hashable, None] = BoundedDict(most)

    def take(self, value: Hashable) -> bool:
        """Accept a value. Return False if it came before."""
        if value in self._taken:
            return False
        self._taken[value] = None
        return True


# Rate limits by address, for requests that make work before the caller is known.
#
# Each address has a bucket that empties slowly. Many people may share an address, for example in an office, so a bucket
# is larger than one person needs.

MOST = 10_000  # buckets kept; the least recently used are forgotten first


class Buckets:
    """Leaky buckets in memory. A bucket has room for another unit after a number of seconds. `now` is a monotonic
    clock.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._of: BoundedDict[Hashable, tuple[float, float]] = BoundedDict(MOST)  # level, and when

    def wait(self, key: Hashable, most: int, *, now: float) -> float:
        """Return the seconds until another unit fits into a bucket of the size `most`; 0 if it fits now."""
        return max(0.0, self._level(key, now) - (most - 1)) * self._seconds

    def add(self, key: Hashable, *, now: float) -> None:
        """Add one unit."""
        self._of[key] = (self._level(key, now) + 1, now)

    def take(self, key: Hashable, most: int, *, now: float) -> float:
        """Add one unit and return 0, or return the seconds to wait before that."""
        wait = self.wait(key, most, now=now)
        if not wait:
            self.add(key, now=now)
        return wait

    def empty(self, key: Hashable) -> None:
        """Empty a bucket."""
        self._of.pop(key, None)

    def _level(self, key: Hashable, now: float) -> float:
        level, at = self._of.get(key, (0.0, now))
        return max(0.0, level - (now - at) / self._seconds)


# Rate limit on failed sign-ins: failures are counted by name and address, and by address.
#
# A limit by name alone would let anybody lock a person out. Attacks from many addresses are limited because only a few
# passwords are compared at a time (`sign_in`). While a bucket is full, no password is compared. A success empties the
# bucket of its name and address.

PER_PAIR = 5  # failures of one name from one address before waiting
PER_ADDRESS = 20  # of any names from one address
SECONDS = 30.0  # in which one failure is forgotten
LONGEST = 128  # characters of a name that tell it from others; nobody has a longer one


class SignInAttempts:
    """The failures of the last minutes, in memory."""

    def __init__(self) -> None:
        self._buckets = Buckets(SECONDS)

    def wait(self, name: str, address: str, *, now: float) -> float:
        """Return the seconds to wait before another attempt. `now` is a monotonic clock."""
        of_name = self._buckets.wait((name[:LONGEST], address), PER_PAIR, now=now)
        return max(of_name, self._buckets.wait(address, PER_ADDRESS, now=now))

    def failed(self, name: str, address: str, *, now: float) -> None:
        """Count a failure."""
        self._buckets.add((name[:LONGEST], address), now=now)
        self._buckets.add(address, now=now)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of this name from this address."""
        self._buckets.empty((name[:LONGEST], address))


# Refused attempts, counted by the minute, so that many attempts fill neither memory nor the audit.
#
# Each answer is counted, which costs a look-up in a dictionary. In one minute, a limited number of kinds of attempts is
# distinguished, and all others are one count for each status. Each caller has their own limit, and so have all
# strangers together, so that one caller's attempts cannot hide another's.

MOST_OF_ONE = 100  # kinds of attempts in one minute by one caller, or by all strangers
CALLERS = 100  # callers with their own limit in one minute; all others share one
KIND = "Request"
ACTION = "refused"
NOBODY = "unknown"  # callers without a valid credential: the name that they give may be a password
OTHERS = "others"


class RefusedAttempt(NamedTuple):
    """One refusal: the person, the request and the address."""

    status: int
    actor: str
    address: str
    path: str  # as the interface documents it, with its parameters by name; empty for one that it does not have
    project: str = ""  # the existing project that it was about


class RefusedAttempts:
    """The counts since `taken` was called last."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[RefusedAttempt]] = {}  # by the caller, or NOBODY

    def note(self, attempt: RefusedAttempt) -> None:
        """Count a refused attempt."""
        whose = attempt.actor
        if whose != NOBODY and whose not in self._counts and len(self._counts) >= CALLERS:
            whose = OTHERS
        counts = self._counts.setdefault(whose, Counter())
        if attempt not in counts and len(counts) >= MOST_OF_ONE:
            attempt = RefusedAttempt(attempt.status, whose, "", "")
        counts[attempt] += 1

    def taken(self, at: datetime) -> Sequence[AuditRow]:
        """Return the audit events of the counts, in order, and begin to count again."""
        taken, self._counts = self._counts, {}
        together: Counter[RefusedAttempt] = Counter()
        for counts in taken.values():
            together.update(counts)
        return tuple(_row(attempt, times, at=at) for attempt, times in sorted(together.items()))


def _row(attempt: RefusedAttempt, times: int, *, at: datetime) -> AuditRow:
    detail = {"path": attempt.path, "times": times} if attempt.path else {"times": times}
    return AuditRow(
        at=rfc3339(at),
        project=attempt.project,
        actor=attempt.actor,
        action=ACTION,
        kind=KIND,
        name=str(attempt.status),
        detail=json.dumps(detail),
        address=attempt.address or None,
    )
