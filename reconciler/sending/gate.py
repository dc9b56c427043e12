"""Whether requests may go now: the breaker, the delivery window, and whether the destination is held, together.

Belongs here: asking both, and when to ask again. Does not: the rules of either (`breaker`, `routing.windows`).
"""

from dataclasses import replace
from datetime import UTC, datetime

from reconciler.model.routes import Retry, Schedule
from reconciler.routing.windows import DeliveryWindow, delivery_window
from reconciler.sending import breaker, retrying
from reconciler.sending.breaker import OPENS_AFTER, Breaker
from reconciler.sending.environment import SendEnvironment
from reconciler.sending.verdicts import AnswerVerdict

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
        self.breaker: Breaker = breaker.CLOSED

    def change(self, *, retry: Retry, schedule: Schedule | None, held: bool = False) -> None:
        """Other settings from now on."""
        self.is_held = held
        self._retry, self._schedule, self._window = retry, schedule, None

    @property
    def is_up(self) -> bool:
        """Whether the breaker lets everything through."""
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
        """Whether the window lets anything through, and the destination is not held."""
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
        self.breaker = breaker.begin_probe(self.breaker)

    def hurry(self) -> None:
        """Somebody changed the endpoint: a probe may go at once, or as soon as the one under way has ended."""
        if not self.breaker.is_closed:
            self.breaker = replace(self.breaker, probe_at=self._environment.monotonic())

    def abandon(self, *, seconds: float = 0.0) -> None:
        """The probe came to nothing that says anything about the endpoint; another may go after so many seconds."""
        self.breaker = breaker.breaker_abandoned(self.breaker, at=self._environment.monotonic() + seconds)

    def note(self, verdict: AnswerVerdict, *, is_probe: bool, is_elsewhere: bool = False) -> bool:
        """What came of a request; whether the breaker opened or closed by it. `is_elsewhere` says that the endpoint was
        changed since it went: the one that there is now waits for nothing by it, nor is it back by it.
        """
        before = self.breaker.is_closed
        if verdict.delivered or not verdict.outage:
            if before or not is_elsewhere:
                self.breaker = breaker.CLOSED
            elif is_probe:
                self.abandon()
        else:
            attempts = max(self.breaker.failures + 2 - OPENS_AFTER, 1)
            own = retrying.retry_interval(self._retry, attempts=attempts, chance=self._environment.random)
            self.breaker = breaker.breaker_failed(
                self.breaker,
                is_probe=is_probe,
                now=self._environment.monotonic(),
                delay=0.0 if is_elsewhere else own,
                retry_after=0.0 if is_elsewhere else verdict.retry_after,
            )
        return before is not self.breaker.is_closed

    def _instant(self) -> datetime:
        return datetime.fromtimestamp(self._environment.clock() / 1000, UTC)
