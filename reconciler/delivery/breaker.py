"""The circuit breaker of an endpoint, and whether requests may go now: breaker, delivery window, and held together.

Closed: requests go. `OPENS_AFTER` failures in a row that say nothing against what was sent (an outage's kind) open it.
Open: nothing goes until `probe_at`. Then one request goes, the probe, and no other. It closes the breaker by arriving,
or by being refused for what is in it, since somebody answered; otherwise the next probe waits longer. A `Retry-After`
is waited for, whichever request the endpoint answers so. Times are seconds of a monotonic clock.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from reconciler.delivery.environment import SendEnvironment
from reconciler.delivery.retry import AnswerVerdict, retry_interval
from reconciler.delivery.windows import DeliveryWindow, delivery_window
from reconciler.model.routes import Retry, Schedule

OPENS_AFTER = 5


class BreakerPhase(StrEnum):
    """The breaker lets through all, nothing, or one probe that is under way."""

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
        """Tell whether requests go as they come."""
        return self.phase is BreakerPhase.CLOSED

    def may_probe(self, now: float) -> bool:
        """Tell whether the one probe may go now."""
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


LOOK_SECONDS = 0.05  # the shortest wait
LOOK_AGAIN_SECONDS = 30.0  # the longest wait for a window to open: the clock may jump


class SendGate:
    """Of one destination."""

    def __init__(
        self, environment: SendEnvironment, *, retry: Retry, schedule: Schedule | None, held: bool = False
    ) -> None:
        self._environment = environment
        self._retry = retry
        self._schedule = schedule
        self.is_held = held
        self._window: DeliveryWindow | None = None
        self._looked_at = datetime.max.replace(tzinfo=UTC)  # for which the window is known, until it ends
        self.breaker: Breaker = CLOSED

    def change(self, *, retry: Retry, schedule: Schedule | None, held: bool = False) -> None:
        """Other settings from now on."""
        self.is_held = held
        self._retry, self._schedule, self._window = retry, schedule, None

    @property
    def is_up(self) -> bool:
        """Tell whether the breaker lets everything through."""
        return self.breaker.is_closed

    def window(self) -> DeliveryWindow | None:
        """The window now; None when there is no schedule."""
        if self._schedule is None:
            return None
        now = self._instant()
        known = self._window
        if known is None or not self._looked_at <= now < (known.until or known.next):
            known = self._window = delivery_window(self._schedule, now=now)
            self._looked_at = now
        return known

    @property
    def is_open(self) -> bool:
        """Tell whether the window lets anything through, and the destination is not held."""
        if self.is_held:
            return False
        seen = self.window()
        return seen is None or seen.open

    def opens_in(self) -> float | None:
        """Seconds after which to ask again; None while it is held, which only other settings end."""
        seen = self.window()
        if self.is_held or seen is None:
            return None
        return min(max((seen.next - self._instant()).total_seconds(), LOOK_SECONDS), LOOK_AGAIN_SECONDS)

    @property
    def probe_in(self) -> float:
        """Seconds until the breaker lets a probe through; not above 0 when it would now."""
        return self.breaker.probe_at - self._environment.monotonic()

    def probe(self) -> None:
        """The probe goes now."""
        self.breaker = begin_probe(self.breaker)

    def hurry(self) -> None:
        """Somebody changed the endpoint: a probe may go at once, or as soon as the one under way has ended."""
        if not self.breaker.is_closed:
            self.breaker = replace(self.breaker, probe_at=self._environment.monotonic())

    def abandon(self, *, seconds: float = 0.0) -> None:
        """The probe came to nothing that says anything about the endpoint; another may go after so many seconds."""
        self.breaker = breaker_abandoned(self.breaker, at=self._environment.monotonic() + seconds)

    def note(self, verdict: AnswerVerdict, *, is_probe: bool, is_elsewhere: bool = False) -> bool:
        """Note the outcome of a request; tell whether the breaker opened or closed by it.

        `is_elsewhere` says that the endpoint was changed since it went: the one that there is now waits for nothing by
        it, nor is it back by it.
        """
        before = self.breaker.is_closed
        if verdict.delivered or not verdict.outage:
            if before or not is_elsewhere:
                self.breaker = CLOSED
            elif is_probe:
                self.abandon()
        else:
            attempts = max(self.breaker.failures + 2 - OPENS_AFTER, 1)
            own = retry_interval(self._retry, attempts=attempts, chance=self._environment.random)
            self.breaker = breaker_failed(
                self.breaker,
                is_probe=is_probe,
                now=self._environment.monotonic(),
                delay=0.0 if is_elsewhere else own,
                retry_after=0.0 if is_elsewhere else verdict.retry_after,
            )
        return before is not self.breaker.is_closed

    def _instant(self) -> datetime:
        return datetime.fromtimestamp(self._environment.clock() / 1000, UTC)
