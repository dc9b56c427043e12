"""Whether an endpoint as a whole is down: a state machine; pure.

Belongs here: when it opens, when a probe may go, when it closes. Does not: timers, which request is the probe.

Closed: requests go. `OPENS_AFTER` failures in a row that say nothing against what was sent (an outage's kind) open it.
Open: nothing goes until `probe_at`. Then one request goes, the probe, and no other: it closes the breaker by arriving,
or by being refused for what is in it, since somebody answered; else the next probe waits longer. What the endpoint asks
for with `Retry-After` is waited, whichever request it answers so. Times are seconds of a monotonic clock.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

OPENS_AFTER = 5


class BreakerPhase(StrEnum):
    """What the breaker lets through: all, nothing, or one probe that is under way."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` counts those in a row: up to `OPENS_AFTER` while it is closed, then one more for each probe."""

    phase: BreakerPhase = BreakerPhase.CLOSED
    failures: int = 0
    probe_at: float = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether requests go as they come."""
        return self.phase is BreakerPhase.CLOSED

    def may_probe(self, now: float) -> bool:
        """Whether the one probe may go now."""
        return self.phase is BreakerPhase.OPEN and now >= self.probe_at


CLOSED = Breaker()


def begin_probe(breaker: Breaker) -> Breaker:
    """The probe goes."""
    assert breaker.phase is BreakerPhase.OPEN
    return replace(breaker, phase=BreakerPhase.PROBING)


def breaker_failed(breaker: Breaker, *, is_probe: bool, now: float, delay: float, retry_after: float) -> Breaker:
    """A request failed in an outage's way. `delay` is how long the next probe waits, should it come to that, and
    `retry_after` how long the endpoint asked for, 0 for nothing.

    What was in flight when the breaker opened, and fails later, says nothing new but that.
    """
    asked = max(breaker.probe_at, now + retry_after) if retry_after else breaker.probe_at
    if not breaker.is_closed and not (is_probe and breaker.phase is BreakerPhase.PROBING):
        return replace(breaker, probe_at=asked)
    failures = breaker.failures + 1
    if failures < OPENS_AFTER:
        return replace(breaker, failures=failures)
    return Breaker(BreakerPhase.OPEN, failures, max(now + delay, asked))


def breaker_abandoned(breaker: Breaker, *, at: float) -> Breaker:
    """The probe ended without an outcome: another may go from `at` on. Whoever waits for `probe_at` looks again for
    that.
    """
    if breaker.phase is not BreakerPhase.PROBING:
        return breaker
    return replace(breaker, phase=BreakerPhase.OPEN, probe_at=max(at, breaker.probe_at))
