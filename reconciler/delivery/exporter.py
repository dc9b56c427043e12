"""The exporter of one destination: its settings, its state, and what sends, from a queue or while a sender waits.

    exporter = Exporter(destination, project="acme", queue=queue, outlet=outlet, environment=environment)
    exporter.start()

The loop that sends what is queued is `queue_sender`.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from reconciler.delivery import http_sender
from reconciler.delivery.breaker import SendGate
from reconciler.delivery.context import SendContext
from reconciler.delivery.environment import SendEnvironment
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.inline import InlineSender
from reconciler.delivery.otlp import bodies as record_json
from reconciler.delivery.queue.contract import Obituary, Piece, Queue
from reconciler.delivery.queue_sender import QueueSender
from reconciler.delivery.reporting import ExporterState, ReportSnapshot, SendCounts, SendReport, TestOutcome
from reconciler.model.routes import Destination, Format

TEST_MESSAGE = "A test of this destination, asked for by a person."
HELD = (
    "Nothing is sent: the Configurations that deliver to it cannot by their present version, and their last good route "
    "led elsewhere. status.delivery of each says what to correct; records wait in the queue."
)
TOLD_SECONDS = 60.0  # the shortest wait whose end is shown: that of a `Retry-After`, or of a long interval


class Exporter:
    """Of one destination; belongs to the running loop. `queue` is None when records are sent inline, by `deliver`."""

    def __init__(
        self,
        destination: Destination,
        *,
        project: str,
        queue: Queue | None,
        outlet: HttpSender,
        environment: SendEnvironment,
    ) -> None:
        self._outlet = outlet
        self._context = SendContext(
            destination,
            outlet.channel(destination, project=project),
            project,
            environment,
            SendReport(environment, project=project, name=destination.name),
            SendGate(environment, retry=destination.retry, schedule=destination.schedule, held=destination.held),
        )
        self._inline = InlineSender(self._context)
        self._sender = None if queue is None else QueueSender(queue, self._context)

    def start(self) -> None:
        """Begin to send what is queued."""
        if self._sender is not None:
            self._sender.start()

    def change(self, destination: Destination) -> None:
        """Take other settings from the next request on; what is in flight ends as it began."""
        context = self._context
        is_elsewhere = destination.endpoint != context.destination.endpoint
        if is_elsewhere:
            context.channel = self._outlet.channel(destination, project=context.project)
            context.gate.hurry()
        context.destination = destination
        context.gate.change(retry=destination.retry, schedule=destination.schedule, held=destination.held)
        self._inline.settings_changed()
        if self._sender is not None:
            self._sender.settings_changed(is_elsewhere=is_elsewhere)

    async def stop(self, *, seconds: float) -> None:
        """Lease nothing more; wait for what is in flight at most so long; the rest is queued still."""
        if self._sender is not None:
            await self._sender.stop(seconds=seconds)
        self._context.report.stop()

    def withdraw(self) -> int:
        """Release what waits for another attempt, so that `discard`, called right after this without a pause, finds it.

        Returns how many records of it arrived before, or are dead letters.
        """
        return 0 if self._sender is None else self._sender.withdraw()

    async def drained(self) -> None:
        """Wait until the queue is empty, and nothing is in flight or waits."""
        if self._sender is not None:
            await self._sender.drained()

    @property
    def is_sending(self) -> bool:
        """Tell whether room can be hoped for: the endpoint is not down, and the window open."""
        return self._context.gate.is_up and self._context.gate.is_open

    @property
    def is_up(self) -> bool:
        """Tell whether the endpoint is not down, whatever the window says."""
        return self._context.gate.is_up

    @property
    def counts(self) -> SendCounts:
        """The outcomes of records since it was made."""
        return self._context.report.counts

    @property
    def in_flight(self) -> int:
        """Batches, or without a queue requests of senders."""
        return self._inline.in_flight if self._sender is None else self._sender.in_flight

    # Past the queue.

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records while their sender waits, for a limited time. Raises Undelivered."""
        try:
            await self._inline.deliver(pieces)
        finally:
            self._context.report.change(self._state)

    def buried(self, records: int, obituary: Obituary) -> None:
        """Count and log a dead letter that never was in the queue."""
        self._context.report.buried(records, obituary)

    async def test(self) -> TestOutcome:
        """Send one made-up record, once, whatever the window and the breaker say.

        It is counted nowhere; one that arrives proves the endpoint well, and one that fails changes nothing. Nothing is
        sent while the destination is held.
        """
        context = self._context
        if context.gate.is_held:
            return TestOutcome(False, None, 0.0, HELD, b"")
        now = context.environment.clock()
        text = json.dumps({"message": TEST_MESSAGE, "destination": context.name})
        (record,) = await http_sender.record_bodies(record_json.test_request(text, at=now))
        is_single = context.destination.endpoint.format is Format.SINGLE
        body = record if is_single else http_sender.json_array([record])
        origin = http_sender.endpoint_origin(project=context.project, destination=context.name, at=now)
        channel, started = context.channel, context.environment.monotonic()
        verdict = await channel.post(body, delivery=f"{origin}:test", attempt=1, keeps_success=True)
        took = context.environment.monotonic() - started
        if verdict.delivered and channel is context.channel:  # else it is another endpoint that is well
            has_turned = context.gate.note(verdict, is_probe=False)
            if self._sender is not None:
                self._sender.proved(verdict, has_turned=has_turned)
            elif has_turned:
                context.report.up()
            context.report.change(self._state)
        message = f"The endpoint of {context.name} took it." if verdict.delivered else verdict.cause
        return TestOutcome(verdict.delivered, verdict.status, took, message, verdict.answer)

    def shown(self) -> ReportSnapshot:
        """Return its state at this moment."""
        state, report = self._state, self._context.report
        report.change(state)
        return ReportSnapshot(
            state=state,
            message=self._message(state),
            since=report.since,
            in_flight=self.in_flight,
            waiting=0 if self._sender is None else self._sender.waiting,
            counts=report.counts,
            last_success=report.last_success,
            last_failure=report.last_failure,
            failing_since=report.failing_since,
            window=self._context.gate.window(),
        )

    @property
    def _state(self) -> ExporterState:
        return self._inline.state if self._sender is None else self._sender.state

    def _message(self, state: ExporterState) -> str:
        if state is ExporterState.HELD:
            return HELD
        if state is ExporterState.CLOSED:
            return "Outside of its delivery window; records are queued until it opens."
        last = self._context.report.last_failure
        if last is None or state not in (ExporterState.DOWN, ExporterState.WAITING):
            return ""
        wait = self._context.gate.probe_in if self._sender is None else self._sender.next_in
        if wait is None or wait < TOLD_SECONDS:
            return last.cause
        at = datetime.fromtimestamp(self._context.environment.clock() / 1000 + wait, UTC)
        return f"{last.cause} It is tried again from {at:%Y-%m-%dT%H:%M:%SZ} on."
