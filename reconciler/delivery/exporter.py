"""The exporter of one destination: its settings, its state, and what sends, from a queue or while a sender waits.

    exporter = Exporter(destination, project="acme", queue=queue, outlet=outlet, environment=environment)
    exporter.start()

The loop that sends what is queued is `queue_sender`. Without a queue each request of a sender is sent at once, and its
sender waits for the answer.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from reconciler.delivery import http_sender
from reconciler.delivery.breaker import SendEnvironment, SendGate
from reconciler.delivery.http_sender import Channel, HttpSender
from reconciler.delivery.otlp import bodies as record_json
from reconciler.delivery.queue.contract import Obituary, Piece, Queue
from reconciler.delivery.queue_sender import QueueSender, SendContext
from reconciler.delivery.reporting import ExporterState, ReportSnapshot, SendCounts, SendReport, TestOutcome
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model import errors
from reconciler.model.routes import Destination, Format


class Undelivered(errors.Transient):
    """A destination without a queue did not get all of the records."""


class InlineSender:
    """The sender of one destination without a queue. `in_flight` counts requests of senders."""

    def __init__(self, context: SendContext) -> None:
        self._context = context
        self._consumers = context.destination.buffering.consumers
        self._limit = asyncio.Semaphore(self._consumers)
        self._numbers = 0
        self.in_flight = 0

    def settings_changed(self) -> None:
        """Follow the context's settings from the next call on."""
        if self._context.destination.buffering.consumers != self._consumers:
            self._consumers = self._context.destination.buffering.consumers
            self._limit = asyncio.Semaphore(self._consumers)

    @property
    def state(self) -> ExporterState:
        """The state now."""
        return self._context.state(is_sending=self.in_flight > 0, is_waiting=False)

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records: one attempt, since the waiting sender can repeat it.

        Raises Undelivered; of the format `single` some records may have arrived then.
        """
        self._refuse_closed()
        seconds = self._context.destination.endpoint.timeout + self._context.environment.patience
        self.in_flight += 1
        try:
            async with asyncio.timeout(seconds):
                await self._deliver(await http_sender.record_bodies(b"".join(pieces)))
        except TimeoutError:
            cause = (
                f"The destination {self._context.name} did not get all of the records of a request within {seconds:g} "
                "s; send fewer at a time, or set `sending_queue_enabled`."
            )
            self._context.report.outcome(AnswerVerdict(False, cause=cause), records=0)
            raise Undelivered(cause) from None
        finally:
            self.in_flight -= 1

    async def _deliver(self, bodies: list[bytes]) -> None:
        if not bodies:
            return
        self._numbers += 1
        context, channel = self._context, self._context.channel
        at = context.environment.clock()
        origin = http_sender.endpoint_origin(project=context.project, destination=context.name, at=at)
        delivery = f"{origin}:inline-{self._numbers}"
        if context.destination.endpoint.format is Format.SINGLE:
            await self._each(channel, bodies, delivery)
            return
        verdict = await self._one(channel, http_sender.json_array(bodies), delivery, records=len(bodies))
        if not verdict.delivered:
            raise Undelivered(verdict.cause)

    async def _each(self, channel: Channel, bodies: Sequence[bytes], delivery: str) -> None:
        """Send a request for each record; the first one first, since it may show that the endpoint is down."""
        verdicts = [await self._one(channel, bodies[0], f"{delivery}:0", records=1)]
        refusals: list[str] = []
        left = iter(() if verdicts[0].outage else enumerate(bodies[1:], 1))

        async def send() -> None:
            for place, body in left:
                try:
                    verdicts.append(await self._one(channel, body, f"{delivery}:{place}", records=1))
                except Undelivered as refusal:
                    refusals.append(refusal.message)
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._consumers, len(bodies) - 1)):
                group.create_task(send(), name=f"send-{self._context.name}")
        failed = len(bodies) - sum(verdict.delivered for verdict in verdicts)
        if failed:
            causes = [*(verdict.cause for verdict in verdicts if not verdict.delivered), *refusals]
            count = "" if len(bodies) == 1 else f"{failed} of {len(bodies)} records did not arrive: "
            raise Undelivered(f"{count}{causes[0]}")

    async def _one(self, channel: Channel, body: bytes, delivery: str, *, records: int) -> AnswerVerdict:
        """Send one request. Raises Undelivered if nothing may be sent any more: that may change while it waits."""
        gate, report = self._context.gate, self._context.report
        async with self._limit:
            self._refuse_closed()
            is_probe = not gate.is_up
            if is_probe:
                if channel is not self._context.channel:  # the next probe is for the endpoint that there is now
                    name = self._context.name
                    raise Undelivered(f"The endpoint of {name} was changed meanwhile; send the records again.")
                gate.probe()
            try:
                verdict = await channel.post(body, delivery=delivery, attempt=1)
                report.outcome(verdict, records=records)
                is_elsewhere = channel is not self._context.channel
                if gate.note(verdict, is_probe=is_probe, is_elsewhere=is_elsewhere):
                    report.up() if gate.is_up else report.down(verdict.cause)
            finally:
                if is_probe:
                    gate.abandon()  # no more than that if it has an outcome
        return verdict

    def _refuse_closed(self) -> None:
        """Raise Undelivered if nothing may be sent now."""
        name, gate = self._context.name, self._context.gate
        if gate.is_held:
            raise Undelivered(f"Nothing is sent to {name} until a version of its Configurations can deliver.")
        if not gate.is_open:
            raise Undelivered(f"The delivery window of {name} is closed.")
        if not gate.is_up and not gate.breaker.may_probe(self._context.environment.monotonic()):
            last = self._context.report.last_failure
            raise Undelivered(last.cause if last else f"The endpoint of {name} is down.")


TEST_MESSAGE = "A test of this destination, asked for by a person."
HELD = (
    "Nothing is sent: the Configurations that deliver to it cannot by their present version, and their last good route "
    "led elsewhere. status.delivery of each says what to correct; records wait in the queue."
)
TOLD_SECONDS = 60.0  # the shortest wait whose end is shown: that of a `Retry-After`, or of a long interval


class Exporter:
    """The exporter of one destination. Used in the running loop only. Without a queue, `deliver` sends inline."""

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
