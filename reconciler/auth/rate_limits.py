"""Rate limits for sign-in, counts of refused requests, and forms that count once."""

import base64
import json
import re
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from reconciler.model.clock import rfc3339
from reconciler.store.records import AuditRow

# Rate limits by address, for requests that cost the service or a provider work before anybody is known.
#
# Each address has a bucket for each thing: it holds so many, and empties slowly. Many people may share an address, an
# office's for instance, so a bucket is larger than one person ever fills.

MOST = 10_000  # buckets kept, for each thing; the longest unused go first, and begin anew


class RateLimit(NamedTuple):
    """So many at once, and one more each so many seconds."""

    burst: int
    seconds: float


class RateLimits:
    """Counts what began in the last minutes, in memory."""

    def __init__(self) -> None:
        self._of: defaultdict[str, OrderedDict[str, tuple[float, float]]] = defaultdict(OrderedDict)  # level, and when

    def take(self, what: str, address: str, *, pace: RateLimit, now: float) -> float:
        """Count one more and return 0, or the seconds to wait first. `now` is any clock that does not go back."""
        buckets = self._of[what]
        before, at = buckets.get(address, (0.0, now))
        level = max(0.0, before - (now - at) / pace.seconds)
        if level > pace.burst - 1:
            return (level - (pace.burst - 1)) * pace.seconds
        buckets[address] = (level + 1, now)
        buckets.move_to_end(address)
        if len(buckets) > MOST:
            buckets.popitem(last=False)
        return 0.0


# Rate limit on failed sign-ins: failures are counted by name and by address.
#
# A name alone would let anybody lock a person out; an address alone lets many addresses try one name. So each has a
# bucket: it holds so many failures and empties slowly, and while it is full, nothing is compared. What succeeds empties
# the bucket of its name for this address only; from there, that of the name alone does not count any more, so that many
# strangers together cannot lock out whoever signed in before.

PER_PAIR = 5  # failures of one name from one address before waiting
PER_ADDRESS = 20  # of any names from one address
PER_NAME = 50  # of one name from any addresses
SECONDS = 30.0  # in which one failure is forgotten
LONGEST = 128  # characters of a name that tell it from others; nobody has a longer one
MOST_ATTEMPTS = 10_000  # buckets kept; the longest unused go first


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class SignInAttempts:
    """The failures of the last minutes, in memory."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who signed in from where

    def wait(self, name: str, address: str, *, now: float) -> float:
        """Seconds to wait before another attempt; 0 for none. `now` is any clock that does not go back."""
        is_known = (name[:LONGEST], address) in self._known
        limits = [limit for limit in _limits(name, address) if not (is_known and limit[1] == PER_NAME)]
        over = [self._level(key, now) - (most - 1) for key, most in limits]
        return max(0.0, *over) * SECONDS if max(over) > 0 else 0.0

    def failed(self, name: str, address: str, *, now: float) -> None:
        """Count a failure."""
        for key, _ in _limits(name, address):
            level = self._level(key, now)
            self._buckets[key] = _Bucket(level + 1, now)
            self._buckets.move_to_end(key)
        while len(self._buckets) > MOST_ATTEMPTS:
            self._buckets.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of this name from this address, and know it there."""
        pair = (name[:LONGEST], address)
        self._buckets.pop(pair, None)
        self._known[pair] = None
        self._known.move_to_end(pair)
        while len(self._known) > MOST_ATTEMPTS:
            self._known.popitem(last=False)

    def _level(self, key: tuple[str, str], now: float) -> float:
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else max(0.0, bucket.level - (now - bucket.at) / SECONDS)


def _limits(name: str, address: str) -> tuple[tuple[tuple[str, str], int], ...]:
    name = name[:LONGEST]
    return (((name, address), PER_PAIR), (("", address), PER_ADDRESS), ((name, ""), PER_NAME))


# Attempts that were refused, counted by the minute, so that many fill neither memory nor the audit.
#
# Counting happens with each answer and costs a look into a dictionary. Of one minute a bounded number of sorts of
# attempt are told apart, and all beyond are one count for each status. Strangers have one budget, which they can
# exhaust together; each caller who is known has one of their own, so that nobody's attempts hide another's.

REFUSAL_MOST = 100  # sorts of attempt in one minute by strangers
MOST_OF_ONE = 20  # by one caller who is known
CALLERS = 100  # who are known and have a budget of their own in that minute; all others share one of `MOST`
KIND = "Request"
ACTION = "refused"
NOBODY = "unknown"  # who shows no credential, or a wrong one: what they call themselves may be a password
OTHERS = "others"


class RefusedAttempt(NamedTuple):
    """A refusal: the person, the request and the address."""

    status: int
    actor: str
    address: str
    path: str  # as the interface documents it, with its parameters by name; empty for one that it does not have
    project: str = ""  # the existing project that it was about


class RefusedAttempts:
    """Counts since they were taken last."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[RefusedAttempt, int]] = {}  # by whose budget it is

    def note(self, attempt: RefusedAttempt) -> None:
        """One more."""
        whose, most = self._budget(attempt.actor)
        counts = self._counts.setdefault(whose, {})
        if attempt not in counts and len(counts) >= most:
            actor = OTHERS if whose in (NOBODY, OTHERS) else attempt.actor
            attempt = RefusedAttempt(attempt.status, actor, "", "")
        counts[attempt] = counts.get(attempt, 0) + 1

    def _budget(self, actor: str) -> tuple[str, int]:
        if actor == NOBODY:
            return NOBODY, REFUSAL_MOST
        if actor in self._counts or len(self._counts) < CALLERS:
            return actor, MOST_OF_ONE
        return OTHERS, REFUSAL_MOST

    def taken(self, at: datetime) -> Sequence[AuditRow]:
        """The events of what was counted, in order; from now on it counts anew."""
        taken, self._counts = self._counts, {}
        together: dict[RefusedAttempt, int] = {}
        for counts in taken.values():
            for attempt, times in counts.items():
                together[attempt] = together.get(attempt, 0) + times
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
        version_before=None,
        version_after=None,
        run=None,
        request=None,
        detail=json.dumps(detail),
        address=attempt.address or None,
    )


# Forms that count once: what a browser sends again, when its page is loaded anew, makes nothing again.
#
# A restart forgets them, and so do a thousand later ones: it saves people from a mistake, and keeps nobody out.

RANDOM_BYTES = 16
SENT_FORM_MOST = 1_000
_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def form_token(randomness: bytes) -> str:
    """Make the hidden token of one shown form. `randomness` is `RANDOM_BYTES` random bytes."""
    assert len(randomness) == RANDOM_BYTES
    return base64.urlsafe_b64encode(randomness).decode().rstrip("=")


def is_form_token(text: str) -> bool:
    """Return True when a text may be a token."""
    return _VALUE.fullmatch(text) is not None


class SentForms:
    """Those that were sent, of everybody."""

    def __init__(self, *, most: int = SENT_FORM_MOST) -> None:
        self._most = most
        self._sent: OrderedDict[tuple[str, str], None] = OrderedDict()

    def take(self, who: str, value: str) -> bool:
        """Accept a token; False when it was sent before."""
        if (who, value) in self._sent:
            return False
        if len(self._sent) >= self._most:
            self._sent.popitem(last=False)
        self._sent[(who, value)] = None
        return True

    def give_back(self, who: str, value: str) -> None:
        """Forget one that came to nothing."""
        self._sent.pop((who, value), None)
