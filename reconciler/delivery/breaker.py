"""The times at which requests to an endpoint may be sent: the circuit breaker, delivery windows, and held destinations.

**The breaker.** While it is closed, requests are sent. `OPENS_AFTER` failures in a row of the kind of an outage, which
do not concern the records, open it. While it is open, nothing is sent until `probe_at`; then one request is sent as a
probe. The breaker closes if the probe arrives or is refused for its content, because the endpoint answered. Otherwise
the next probe waits longer. The `Retry-After` of every answer counts. Times are seconds of a monotonic clock.

**Windows.** They are computed from a schedule and an instant. A window of an hour lasts an hour, even if the clocks
change in it.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from reconciler.delivery.queue.contract import BATCH_BYTES, BATCH_RECORDS
from reconciler.delivery.retry import AnswerVerdict, retry_interval
from reconciler.model.cron import Cron
from reconciler.model.routes import Destination, Schedule

LINGER_SECONDS = 0.05  # that records wait for more of them, while they come in small batches
PATIENCE_SECONDS = 25.0  # with the default `timeout` of 5 s a sender without a queue waits for half a minute at most


class Timer(Protocol):
    """A pending call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""


def system_clock() -> int:
    """Return the system's time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def loop_timer(seconds: float, call: Callable[[], None]) -> Timer:
    """Start a timer of the running loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEnvironment:
    """Clocks and limits of sending. `clock` is in Unix milliseconds and may jump; `monotonic` is in seconds and never
    does. `later` calls a function once after a number of these seconds.

    `most_records` and `most_bytes` limit the batches that are merged into one request; a single batch may be larger.
    `patience` is the number of seconds that sending without a queue may take beyond the `timeout` of one request.
    """

    clock: Callable[[], int] = system_clock
    monotonic: Callable[[], float] = time.monotonic
    later: Callable[[float, Callable[[], None]], Timer] = loop_timer
    random: random.Random
    most_records: int = BATCH_RECORDS
    most_bytes: int = BATCH_BYTES  # of OTLP
    linger: float = LINGER_SECONDS
    patience: float = PATIENCE_SECONDS


class DeliveryWindow(NamedTuple):
    """A delivery window. If it is `open`, sending is allowed `until` then, and again from `next`; if not, `until` is
    None.

    If the next window begins before this one ends, `next` equals `until`: compute it again then.
    """

    open: bool
    until: datetime | None
    next: datetime


def delivery_window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    """Return the window at an instant in UTC. Raises cron.Unreadable for an invalid schedule."""
    cron = Cron.read(schedule.cron, timezone=schedule.timezone)
    length = timedelta(minutes=schedule.window)
    begun = cron.after(now - length)  # the first window that has not ended
    if begun > now:
        return DeliveryWindow(open=False, until=None, next=begun)
    until = begun + length
    return DeliveryWindow(open=True, until=until, next=max(until, cron.after(begun)))


OPENS_AFTER = 5


LOOK_SECONDS = 0.05  # the shortest wait
LOOK_AGAIN_SECONDS = 30.0  # the longest wait for a window to open: the clock may jump


class SendGate:
    """Decides when requests to one destination may go."""

    def __init__(self, environment: SendEnvironment, destination: Destination) -> None:
        self._environment = environment
        self._destination = destination
        self._window: DeliveryWindow | None = None
        self._looked_at = datetime.max.replace(tzinfo=UTC)  # for which the window is known, until it ends
        self._failures = 0  # in a row: up to OPENS_AFTER while the breaker is closed, then one more for each probe
        self._is_probing = False
        self.probe_at = 0.0  # while the breaker is open

    def change(self, destination: Destination) -> None:
        """Change the settings."""
        self._destination, self._window = destination, None

    @property
    def is_held(self) -> bool:
        """Return True if nothing is sent until a new version of its Configurations can deliver."""
        return self._destination.held

    @property
    def is_up(self) -> bool:
        """Return True if the breaker is closed."""
        return self._failures < OPENS_AFTER

    def may_probe(self, now: float) -> bool:
        """Return True if a probe may be sent now."""
        return not self.is_up and not self._is_probing and now >= self.probe_at

    def window(self) -> DeliveryWindow | None:
        """Return the window now; None without a schedule."""
        schedule = self._destination.schedule
        if schedule is None:
            return None
        now = self._instant()
        known = self._window
        if known is None or not self._looked_at <= now < (known.until or known.next):
            known = self._window = delivery_window(schedule, now=now)
            self._looked_at = now
        return known

    @property
    def is_open(self) -> bool:
        """Return True if the window is open and the destination is not held."""
        if self.is_held:
            return False
        seen = self.window()
        return seen is None or seen.open

    def opens_in(self) -> float | None:
        """Return the seconds until it may open; None while the destination is held, which only new settings end."""
        seen = self.window()
        if self.is_held or seen is None:
            return None
        return min(max((seen.next - self._instant()).total_seconds(), LOOK_SECONDS), LOOK_AGAIN_SECONDS)

    def probe(self) -> None:
        """Record that the probe is sent now."""
        assert not self.is_up
        self._is_probing = True

    def hurry(self) -> None:
        """Allow a probe at once after a change of the endpoint, or as soon as the one in progress has ended."""
        if not self.is_up:
            self.probe_at = self._environment.monotonic()

    def abandon(self, *, seconds: float = 0.0) -> None:
        """Record that the probe ended without a result; another may be sent after a number of seconds."""
        if self._is_probing:
            self._is_probing = False
            self.probe_at = max(self.probe_at, self._environment.monotonic() + seconds)

    def note(self, verdict: AnswerVerdict, *, is_probe: bool) -> bool:
        """Record the outcome of a request. Return whether the breaker opened or closed.

        If a request was in flight when the breaker opened and fails later, only its `Retry-After` counts.
        """
        was_up = self.is_up
        if verdict.delivered or not verdict.outage:
            self._failures, self._is_probing, self.probe_at = 0, False, 0.0
            return not was_up
        now = self._environment.monotonic()
        attempts = max(self._failures + 2 - OPENS_AFTER, 1)
        delay = retry_interval(self._destination.retry, attempts=attempts, chance=self._environment.random)
        asked = max(self.probe_at, now + verdict.retry_after) if verdict.retry_after else self.probe_at
        if was_up or (is_probe and self._is_probing):
            self._failures += 1
            self._is_probing = False
            asked = max(asked, now + delay)
        if not self.is_up:
            self.probe_at = asked
        return was_up is not self.is_up

    def _instant(self) -> datetime:
        return datetime.fromtimestamp(self._environment.clock() / 1000, UTC)
