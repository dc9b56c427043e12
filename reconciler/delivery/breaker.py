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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
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
    """Begin the probe."""
    assert breaker.phase is BreakerPhase.OPEN
    return replace(breaker, phase=BreakerPhase.PROBING)


def breaker_failed(breaker: Breaker, *, is_probe: bool, now: float, delay: float, retry_after: float) -> Breaker:
    """A request failed in an outage's way. `delay` is how long the next probe waits, should it come to that, and
    `retry_after` how long the endpoint asked for, 0 for nothing.

    Of a request that was in flight when the breaker opened, and fails later, only `retry_after` counts.
    """
    asked = max(breaker.probe_at, now + retry_after) if retry_after else breaker.probe_at
    if not breaker.is_closed and not (is_probe and breaker.phase is BreakerPhase.PROBING):
        return replace(breaker, probe_at=asked)
    failures = breaker.failures + 1
    if failures < OPENS_AFTER:
        return replace(breaker, failures=failures)
    return Breaker(BreakerPhase.OPEN, failures, max(now + delay, asked))


def breaker_abandoned(breaker: Breaker, *, at: float) -> Breaker:
    """End a probe without an outcome: another may go from `at` on. A caller that waits for `probe_at` asks again."""
    if breaker.phase is not BreakerPhase.PROBING:
        return breaker
    return replace(breaker, phase=BreakerPhase.OPEN, probe_at=max(at, breaker.probe_at))


LOOK_SECONDS = 0.05  # the shortest wait
LOOK_AGAIN_SECONDS = 30.0  # the longest wait for a window to open: the clock may jump


class SendGate:
    """Decides when requests to one destination may go."""

    def __init__(self, environment: SendEnvironment, destination: Destination) -> None:
        self._environment = environment
        self._destination = destination
        self._window: DeliveryWindow | None = None
        self._looked_at = datetime.max.replace(tzinfo=UTC)  # for which the window is known, until it ends
        self.breaker: Breaker = CLOSED

    def change(self, destination: Destination) -> None:
        """Take over changed settings."""
        self._destination, self._window = destination, None

    @property
    def is_held(self) -> bool:
        """Tell whether nothing is sent until a version of its Configurations can deliver."""
        return self._destination.held

    @property
    def is_up(self) -> bool:
        """Tell whether the breaker lets everything through."""
        return self.breaker.is_closed

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

    def note(self, verdict: AnswerVerdict, *, is_probe: bool) -> bool:
        """Note the outcome of a request; tell whether the breaker opened or closed by it."""
        before = self.breaker.is_closed
        if verdict.delivered or not verdict.outage:
            self.breaker = CLOSED
        else:
            attempts = max(self.breaker.failures + 2 - OPENS_AFTER, 1)
            self.breaker = breaker_failed(
                self.breaker,
                is_probe=is_probe,
                now=self._environment.monotonic(),
                delay=retry_interval(self._destination.retry, attempts=attempts, chance=self._environment.random),
                retry_after=verdict.retry_after,
            )
        return before is not self.breaker.is_closed

    def _instant(self) -> datetime:
        return datetime.fromtimestamp(self._environment.clock() / 1000, UTC)
