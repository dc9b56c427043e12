"""When requests to an endpoint may go: the circuit breaker, the delivery windows, and a destination that is held.

**The breaker.** Closed: requests go. `OPENS_AFTER` failures in a row that say nothing against what was sent (the kind
of an outage) open it. Open: nothing goes until `probe_at`. Then one request goes, the probe, and no other. It closes
the breaker by arriving, or by being refused for its content, since somebody answered; otherwise the next probe waits
longer. A `Retry-After` is respected, whichever request the endpoint answers with it. Times are seconds of a monotonic
clock.

**Windows.** A schedule and an instant give the window. A window of an hour lasts an hour, even if the clocks change in
it.
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
    """Something that will be called, unless it is cancelled."""

    def cancel(self) -> None:
        """Do not call it."""


def system_clock() -> int:
    """Return Unix milliseconds."""
    return time.time_ns() // 1_000_000


def loop_timer(seconds: float, call: Callable[[], None]) -> Timer:
    """Start a timer of the running loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEnvironment:
    """`clock` is Unix milliseconds, which may jump; `monotonic` seconds, which never do. `later` calls a function once
    after so many of those seconds.

    `most_records` and `most_bytes` bound what batches are merged into one request; one batch is never cut for them.
    `patience` is how many seconds all that is sent without a queue may take beyond the `timeout` of one request.
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
    """`open`: sending is allowed, `until` then, and again from `next`; closed, there is no `until`.

    Where the next window begins before this one ends, `next` is `until`: ask again then.
    """

    open: bool
    until: datetime | None
    next: datetime


def delivery_window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    """Return the window at an instant in UTC. Raises cron.Unreadable for a schedule that nobody checked."""
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
        """Take over changed settings."""
        self._destination, self._window = destination, None

    @property
    def is_held(self) -> bool:
        """Return True if nothing is sent until a version of its Configurations can deliver."""
        return self._destination.held

    @property
    def is_up(self) -> bool:
        """Return True if the breaker lets everything through."""
        return self._failures < OPENS_AFTER

    def may_probe(self, now: float) -> bool:
        """Return True if the one probe may go now."""
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
        """Return True if the window lets anything through, and the destination is not held."""
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

    def probe(self) -> None:
        """The probe goes now."""
        assert not self.is_up
        self._is_probing = True

    def hurry(self) -> None:
        """Somebody changed the endpoint: a probe may go at once, or as soon as the one under way has ended."""
        if not self.is_up:
            self.probe_at = self._environment.monotonic()

    def abandon(self, *, seconds: float = 0.0) -> None:
        """The probe came to nothing that says anything about the endpoint; another may go after so many seconds."""
        if self._is_probing:
            self._is_probing = False
            self.probe_at = max(self.probe_at, self._environment.monotonic() + seconds)

    def note(self, verdict: AnswerVerdict, *, is_probe: bool) -> bool:
        """Note the outcome of a request; tell whether the breaker opened or closed by it.

        Of a request that was in flight when the breaker opened, and fails later, only its `Retry-After` counts.
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
