"""Counts and the last outcomes of one exporter, and log lines about its dead letters."""

import logging
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from reconciler.delivery.breaker import SendEnvironment
from reconciler.delivery.queue.contract import FinalFailure
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model.text import counted

log = logging.getLogger(__name__)

HELD = (
    "Nothing is sent: the Configurations that deliver to it cannot by their present version, and their last good route "
    "led elsewhere. status.delivery of each says what to correct; records wait in the queue."
)
TELL_SECONDS = 10.0  # between two log lines about dead letters


class ExporterState(StrEnum):
    """The state of a destination."""

    IDLE = "idle"
    SENDING = "sending"
    WAITING = "waiting"  # a failed batch waits for another attempt
    DOWN = "down"  # the endpoint is down, and is probed
    CLOSED = "closed"  # outside of its window
    HELD = "held"  # nothing is sent until a version can deliver


class SendFailure(NamedTuple):
    """The last failure. `at` is in Unix ms; `answer` is the first kilobyte of the answer, text from a stranger."""

    at: int
    status: int | None
    cause: str
    answer: bytes


class TestOutcome(NamedTuple):
    """The outcome of a test record. `answer` is as in SendFailure."""

    delivered: bool
    status: int | None
    seconds: float
    message: str
    answer: bytes


@dataclass(slots=True)
class DeliveryCounts:
    """Numbers of records since the start of the service: accepted, delivered, of failed requests, sent again, dead
    letters, and other outcomes.
    """

    taken: int = 0
    delivered: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    dropped: int = 0
    discarded: int = 0
    expired: int = 0

    def add(self, other: "DeliveryCounts") -> None:
        """Add other counts."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class SendReport:
    """The report of one destination. `since`, `last_success` and `failing_since` are Unix ms.

    `failing_since` is the time of the first failed request since the last delivery, as long as there is something to
    send; `since` changes at each attempt.
    """

    def __init__(self, environment: SendEnvironment, *, project: str, name: str) -> None:
        self._environment = environment
        self._who = f"{name} in the project {project}"
        self.state = ExporterState.IDLE
        self.since = environment.clock()
        self.counts = DeliveryCounts()
        self.last_success: int | None = None
        self.last_failure: SendFailure | None = None
        self.failing_since: int | None = None
        self._untold = 0  # records of dead letters that no log line has counted yet
        self._tells_at = 0.0  # monotonic seconds, before which no line is written about them

    def change(self, state: ExporterState) -> None:
        """Record the present state."""
        if state is ExporterState.IDLE:
            self.failing_since = None  # nothing is left that could fail
        if state is not self.state:
            self.state = state
            self.since = self._environment.clock()

    @property
    def message(self) -> str:
        """The reason why nothing is sent, or the last failure of waiting batches."""
        if self.state is ExporterState.HELD:
            return HELD
        if self.state is ExporterState.CLOSED:
            return "Outside of its delivery window; records are queued until it opens."
        last = self.last_failure
        return last.cause if last is not None and self.state in (ExporterState.DOWN, ExporterState.WAITING) else ""

    def outcome(self, verdict: AnswerVerdict, *, records: int) -> None:
        """Record the outcome of a request."""
        now = self._environment.clock()
        if verdict.delivered:
            self.counts.delivered += records
            self.last_success = now
            self.failing_since = None
        else:
            self.counts.failed += records
            self.last_failure = SendFailure(now, verdict.status, verdict.cause, verdict.answer)
            if self.failing_since is None:
                self.failing_since = now

    def down(self, cause: str) -> None:
        """Record that the breaker opened."""
        log.warning("Sending to %s waits until its endpoint is back: %s", self._who, cause)

    def up(self) -> None:
        """Record that the breaker closed."""
        log.info("The endpoint of %s is back; sending goes on.", self._who)

    def replayed(self, batches: int, records: int) -> None:
        """Record that dead letters of an outage were queued again."""
        letters, held = counted(batches, "dead letter"), counted(records, "record")
        log.info("Of %s, %s (%s) %s queued again.", self._who, letters, held, "is" if batches == 1 else "are")

    def buried(self, records: int, final_failure: FinalFailure) -> None:
        """Record a dead letter. It is logged now, or with the next line if there was one lately."""
        self.counts.dead += records
        self._untold += records
        now = self._environment.monotonic()
        if now < self._tells_at:
            return
        counted_records = counted(self._untold, "record")
        are = "is a dead letter" if self._untold == 1 else "are dead letters"
        log.warning("%s for %s %s: %s", counted_records, self._who, are, final_failure.cause)
        self._untold, self._tells_at = 0, now + TELL_SECONDS
