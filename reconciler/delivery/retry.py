"""Retry decisions: verdicts on answers, intervals, the breaker and delivery windows."""

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from reconciler.delivery.egress import Denied, FailureCause, HttpAnswer, Unanswered
from reconciler.delivery.queue.contract import BATCH_BYTES, BATCH_RECORDS
from reconciler.model import errors, hosts
from reconciler.model.cron import Cron
from reconciler.model.routes import Endpoint, Retry, Schedule

# Whether what failed is tried again, and when; pure.
#
# Times are seconds. What counts against `max_elapsed` is what a batch's requests took and the waits between them. What
# the endpoint asked for with `Retry-After` does not count, nor does time behind an open breaker or a closed window: who
# waits for those is never given up for it.

MULTIPLIER = 1.5
SPREAD = 0.5  # an interval is multiplied by anything from 1 - SPREAD to 1 + SPREAD
LONGEST_RETRY_AFTER = 3600.0
_MOST_DOUBLINGS = 100  # 1.5 ** 100 is longer than any interval, and no overflow


class RetryDecision(NamedTuple):
    """Try again after `delay` seconds, when `spent` of the longest time will have been used."""

    delay: float
    spent: float


def retry_interval(retry: Retry, *, attempts: int, chance: random.Random) -> float:
    """The wait after so many attempts, at least one: grown, then randomised, then cut."""
    grown = retry.initial_interval * MULTIPLIER ** min(attempts - 1, _MOST_DOUBLINGS)
    return min(grown * chance.uniform(1 - SPREAD, 1 + SPREAD), retry.max_interval)


def decide_retry(
    retry: Retry, *, attempts: int, spent: float, retry_after: float, chance: random.Random
) -> RetryDecision | None:
    """What becomes of something after its `attempts`-th failure, when `spent` of the longest time was used. None: it is
    given up. The longest time may be used to its very end, as what is used is at most that.
    """
    if not retry.enabled:
        return None
    own = retry_interval(retry, attempts=attempts, chance=chance)
    asked = clamped_retry(retry_after)
    after = spent + max(own - asked, 0.0)
    if retry.max_elapsed and after > retry.max_elapsed:
        return None
    return RetryDecision(max(own, asked), after)


def clamped_retry(retry_after: float) -> float:
    """What is honoured of a `Retry-After`."""
    return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)


# What an answer means, or that none came: whether it arrived, whose fault it is, and the likely cause; pure.
#
# A failure is either an **outage's**, which says nothing against what was sent (no answer, no credentials, a redirect,
# too many requests, the server's own fault), or it is the **batch's**, and another batch may fare better. No sentence
# holds anything that the endpoint wrote, nor what was sent to it.

ANSWER_BYTES = 1024  # that are kept of an answer

_OF_AN_OUTAGE = frozenset({401, 403, 404, 405, 407, 408, 421, 425, 429})  # of the 4xx
_SMALLER_MAY_PASS = frozenset({400, 413, 422})
TOO_LARGE = 413


class AnswerVerdict(NamedTuple):
    """`status` is None when nobody answered. `retry_after` is seconds, 0 when the endpoint asked for none. `splits`:
    a part of what was sent may pass.
    """

    delivered: bool
    outage: bool = False
    status: int | None = None
    cause: str = ""
    retry_after: float = 0.0
    answer: bytes = b""
    splits: bool = False


def judge_answer(answer: HttpAnswer, *, endpoint: Endpoint, name: str, now_ms: int) -> AnswerVerdict:
    """What an answer means."""
    status = answer.status
    if 200 <= status < 300:
        return AnswerVerdict(True, status=status, answer=answer.body_start[:ANSWER_BYTES])
    return AnswerVerdict(
        False,
        outage=not 400 <= status < 500 or status in _OF_AN_OUTAGE,
        status=status,
        cause=f"{_who(name, endpoint)} answered {status}{_meaning(status, endpoint)}",
        retry_after=retry_after(answer, now_ms=now_ms),
        answer=answer.body_start[:ANSWER_BYTES],
        splits=status in _SMALLER_MAY_PASS,
    )


def judge_failure(problem: errors.ReconcilerError, *, endpoint: Endpoint, name: str, note: str = "") -> AnswerVerdict:
    """What a request without an answer means; `note` is what is known to be wrong with the client certificate."""
    if isinstance(problem, Unanswered):
        # The message begins with the host and port, which `_who` names already.
        words = str(problem).partition(" ")[2]
        return AnswerVerdict(
            False, outage=True, cause=f"{_who(name, endpoint)} {words}: {_advice(problem, endpoint, note)}"
        )
    said = problem.message.removesuffix(".")
    kind = "nothing was sent" if isinstance(problem, Denied) else "the request cannot be made"
    return AnswerVerdict(False, outage=True, cause=f"The destination {name}: {kind}: {said}.")


def retry_after(answer: HttpAnswer, *, now_ms: int) -> float:
    """What the endpoint asked for, in seconds, at most an hour; 0 for nothing that can be read (RFC 9110, 10.2.3)."""
    for header, value in answer.headers:
        if header.lower() == "retry-after":
            return _seconds(value.strip(), now_ms)
    return 0.0


def _seconds(text: str, now_ms: int) -> float:
    if text.isascii() and text.isdigit():
        return clamped_retry(float(text[:12]))
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    at = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    seconds = at.total_seconds() - now_ms / 1000
    return clamped_retry(seconds) if math.isfinite(seconds) else 0.0


def _who(name: str, endpoint: Endpoint) -> str:
    return f"The destination {name} ({endpoint.scheme}://{hosts.bracketed(endpoint.host)}:{endpoint.port})"


def _advice(problem: Unanswered, endpoint: Endpoint, note: str) -> str:
    if note and problem.cause in _MAY_BE_OUR_CERTIFICATE:
        return note
    advice = _ADVICE[problem.cause].format(timeout=f"{endpoint.timeout:g}")
    if endpoint.scheme != "https" or problem.cause not in _MAY_BE_OUR_CERTIFICATE:
        return advice
    if endpoint.mutual_tls:
        ours = "a client certificate that it does not trust; renew `cert_file` and `key_file`."
    else:
        ours = "a missing client certificate; set `mutual_tls`, `cert_file` and `key_file`."
    return ours if problem.cause is FailureCause.CLIENT else f"{advice.removesuffix('.')}; or {ours}"


_MAY_BE_OUR_CERTIFICATE = frozenset({FailureCause.CLIENT, FailureCause.TLS, FailureCause.ANSWER})

_ADVICE: dict[FailureCause, str] = {
    FailureCause.NAME: "a wrong hostname; check `hostname`.",
    FailureCause.CONNECT: "a wrong hostname or port, or its server is down; check `hostname` and `port`.",
    FailureCause.TLS: "a wrong port or scheme; check `port` and `scheme`.",
    FailureCause.UNTRUSTED: "an untrusted certificate, or one for another name; check `hostname`, or set `ca_file`.",
    FailureCause.CLIENT: "a missing client certificate.",
    FailureCause.TIME: "a wrong hostname or port, or its server is slow: `timeout` is {timeout} s; check them.",
    FailureCause.PROXY: "check the proxy in `outbound.proxy`.",
    FailureCause.ANSWER: "a wrong port or scheme, or its server fails; check `port` and `scheme`.",
}


def _meaning(status: int, endpoint: Endpoint) -> str:
    if 300 <= status < 400:
        return ", a redirect, which is not followed: a wrong hostname, port or path; name where it leads to."
    known = _MEANINGS.get(status)
    if known is not None:
        return known.format(verb=endpoint.verb, content_type=endpoint.content_type)
    if 400 <= status < 500:
        return (
            ": it does not take these records; compare `format`, `content_type` and the records with what it expects."
        )
    return ": its server fails; look at its own logs."


_MEANINGS: dict[int, str] = {
    401: ": a missing, wrong or expired `Authorization` header; renew what `headers` holds.",
    403: ": a missing, wrong or expired `Authorization` header, or no right to post there; renew what `headers` holds.",
    404: ": a wrong hostname, port or path; check `path`.",
    405: ": a wrong path, or it does not take {verb}; check `path` and `verb`.",
    407: ": the proxy in `outbound.proxy` wants a password.",
    408: ": it did not get the request in time; it is overloaded, or the network is slow.",
    413: ": the request is too large for it; it is sent in smaller parts.",
    415: ": it does not take `{content_type}`; check `content_type`.",
    421: ": it does not serve this hostname; check `hostname`.",
    425: ": it does not take the request yet.",
    429: ": it gets too many requests; send less, or raise its limit.",
    503: ": it is overloaded or down for maintenance.",
}


# Whether an endpoint as a whole is down: a state machine; pure.
#
# Closed: requests go. `OPENS_AFTER` failures in a row that say nothing against what was sent (an outage's kind) open
# it. Open: nothing goes until `probe_at`. Then one request goes, the probe, and no other: it closes the breaker by
# arriving, or by being refused for what is in it, since somebody answered; else the next probe waits longer. What the
# endpoint asks for with `Retry-After` is waited, whichever request it answers so. Times are seconds of a monotonic
# clock.

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


# What sending takes from outside besides the network: times, timers, chance, and how much one request holds.

LINGER_SECONDS = 0.05  # that records wait for more of them, while they come in small batches
PATIENCE_SECONDS = 25.0  # with the default `timeout` of 5 s a sender without a queue waits for half a minute at most


class Timer(Protocol):
    """Something that will be called, unless it is cancelled."""

    def cancel(self) -> None:
        """Do not call it."""


def system_clock() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def loop_timer(seconds: float, call: Callable[[], None]) -> Timer:
    """A timer of the running loop."""
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


# When a destination with a schedule may be sent to. Pure: a schedule and an instant give the window.
#
# Windows that overlap or meet are one. A window of an hour lasts an hour, whatever clocks are changed in it.

MOST_JOINED = 50  # windows that are joined in one answer, so that it takes a few milliseconds at most
MOST_KNOWN = 1_000  # answers that are remembered, of so many schedules

_MINUTE = timedelta(minutes=1)


class DeliveryWindow(NamedTuple):
    """`open`: sending is allowed, `until` then, and again from `next`; closed, there is no `until`.

    Of many windows that meet, `until` may be the end of one of them: who waits for it asks again then. Then `next` is
    the same instant.
    """

    open: bool
    until: datetime | None
    next: datetime


_known: dict[Schedule, tuple[datetime, DeliveryWindow]] = {}  # from when on an answer holds, until it tells of another


def delivery_window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    """The window at an instant; instants are in UTC. Costs a microsecond until it opens or closes.

    Raises cron.Unreadable for a schedule that nobody checked.
    """
    since, known = _known.get(schedule, (None, None))
    if known is not None and since is not None and since <= now < (known.until or known.next):
        return known
    found = _window(schedule, now)
    _known.pop(schedule, None)  # what is new comes last
    if len(_known) >= MOST_KNOWN:
        del _known[next(iter(_known))]
    _known[schedule] = (now, found)
    return found


def _window(schedule: Schedule, now: datetime) -> DeliveryWindow:
    cron = Cron.read(schedule.cron, timezone=schedule.timezone)
    length = timedelta(minutes=schedule.window)
    begun = cron.after(now - length)  # the first window that has not ended
    if begun > now:
        return DeliveryWindow(open=False, until=None, next=begun)
    until = begun + length
    for _ in range(MOST_JOINED):
        last = _last(cron, until, length)
        if last is None:
            return DeliveryWindow(open=True, until=until, next=cron.after(until))
        until = last + length
    return DeliveryWindow(open=True, until=until, next=until)


def _last(cron: Cron, until: datetime, length: timedelta) -> datetime | None:
    """The beginning of a window that goes on beyond `until`, if there is one; where they are dense, a late one."""
    back = _MINUTE
    while True:
        found = cron.after(until - min(back, length))
        if found <= until:
            return found
        if back >= length:
            return None
        back *= 4


# Whether requests may go now: the breaker, the delivery window, and whether the destination is held, together.

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
        self.breaker = begin_probe(self.breaker)

    def hurry(self) -> None:
        """Somebody changed the endpoint: a probe may go at once, or as soon as the one under way has ended."""
        if not self.breaker.is_closed:
            self.breaker = replace(self.breaker, probe_at=self._environment.monotonic())

    def abandon(self, *, seconds: float = 0.0) -> None:
        """The probe came to nothing that says anything about the endpoint; another may go after so many seconds."""
        self.breaker = breaker_abandoned(self.breaker, at=self._environment.monotonic() + seconds)

    def note(self, verdict: AnswerVerdict, *, is_probe: bool, is_elsewhere: bool = False) -> bool:
        """What came of a request; whether the breaker opened or closed by it. `is_elsewhere` says that the endpoint was
        changed since it went: the one that there is now waits for nothing by it, nor is it back by it.
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
