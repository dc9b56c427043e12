"""The exporter of one destination, with a queue or without one."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from reconciler.delivery import http_sender
from reconciler.delivery.consumers import Consumers
from reconciler.delivery.http_sender import Channel, HttpSender
from reconciler.delivery.otlp import bodies as record_json
from reconciler.delivery.queue.contract import Obituary, Piece, Queue
from reconciler.delivery.reporting import ExporterState, ReportSnapshot, SendCounts, SendReport, TestOutcome
from reconciler.delivery.retry import AnswerVerdict, SendEnvironment, SendGate
from reconciler.model import errors
from reconciler.model.routes import Destination, Format

__all__ = ["Exporter", "SendEnvironment", "Undelivered"]

# Sending while the sender of the records waits, without a queue.


class Undelivered(errors.Transient):
    """A destination without a queue did not get all of the records."""


class InlineSender:
    """Of one destination. `under_way` counts calls."""

    def __init__(
        self,
        destination: Destination,
        channel: Channel,
        *,
        project: str,
        environment: SendEnvironment,
        report: SendReport,
        gate: SendGate,
    ) -> None:
        self._destination = destination
        self._channel = channel
        self._project = project
        self._environment = environment
        self._report = report
        self._gate = gate
        self._slots = asyncio.Semaphore(destination.buffering.consumers)
        self._numbers = 0
        self.under_way = 0

    def change(self, destination: Destination, channel: Channel) -> None:
        """Other settings from the next call on."""
        if destination.buffering.consumers != self._destination.buffering.consumers:
            self._slots = asyncio.Semaphore(destination.buffering.consumers)
        self._destination, self._channel = destination, channel

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records: one attempt, since whoever waits can repeat it. Raises Undelivered; of the format `single` some
        records may have arrived then.
        """
        self._refuse_at_once()
        seconds = self._destination.endpoint.timeout + self._environment.patience
        self.under_way += 1
        try:
            async with asyncio.timeout(seconds):
                await self._deliver(await http_sender.record_bodies(b"".join(pieces)))
        except TimeoutError:
            raise self._late(seconds) from None
        finally:
            self.under_way -= 1

    def _late(self, seconds: float) -> Undelivered:
        cause = (
            f"The destination {self._destination.name} did not get all of the records of a request within {seconds:g} "
            "s; send fewer at a time, or set `sending_queue_enabled`."
        )
        self._report.outcome(AnswerVerdict(False, cause=cause), records=0)
        return Undelivered(cause)

    async def _deliver(self, bodies: list[bytes]) -> None:
        if not bodies:
            return
        self._numbers += 1
        channel, name = self._channel, self._destination.name
        origin = http_sender.endpoint_origin(project=self._project, destination=name, at=self._environment.clock())
        delivery = f"{origin}:inline-{self._numbers}"
        if self._destination.endpoint.format is Format.SINGLE:
            await self._each(channel, bodies, delivery)
            return
        verdict = await self._one(channel, http_sender.json_array(bodies), delivery, records=len(bodies))
        if not verdict.delivered:
            raise Undelivered(verdict.cause)

    async def _each(self, channel: Channel, bodies: Sequence[bytes], delivery: str) -> None:
        """A request for each record; the first one alone, since it may tell that the endpoint is down."""
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
            for _ in range(min(self._destination.buffering.consumers, len(bodies) - 1)):
                group.create_task(send(), name=f"send-{self._destination.name}")
        failed = len(bodies) - sum(verdict.delivered for verdict in verdicts)
        if failed:
            causes = [*(verdict.cause for verdict in verdicts if not verdict.delivered), *refusals]
            raise Undelivered(_told(causes[0], failed=failed, sent=len(bodies)))

    async def _one(self, channel: Channel, body: bytes, delivery: str, *, records: int) -> AnswerVerdict:
        """One request. Raises Undelivered when nothing may be sent any more: that may have changed while it waited."""
        async with self._slots:
            self._refuse_at_once()
            is_probe = not self._gate.is_up
            if is_probe:
                self._refuse_after_change(channel)
                self._gate.probe()
            try:
                verdict = await channel.post(body, delivery=delivery, attempt=1)
                self._report.outcome(verdict, records=records)
                is_elsewhere = channel is not self._channel
                if self._gate.note(verdict, is_probe=is_probe, is_elsewhere=is_elsewhere):
                    self._report.up() if self._gate.is_up else self._report.down(verdict.cause)
            finally:
                if is_probe:
                    self._gate.abandon()  # no more than that if it has an outcome
        return verdict

    def _refuse_after_change(self, channel: Channel) -> None:
        """Raises Undelivered when this is another endpoint than there is now: the next probe is for that one."""
        if channel is not self._channel:
            name = self._destination.name
            raise Undelivered(f"The endpoint of {name} was changed meanwhile; send the records again.")

    def _refuse_at_once(self) -> None:
        """Raises Undelivered when nothing may be sent now."""
        name = self._destination.name
        if self._gate.is_held:
            raise Undelivered(f"Nothing is sent to {name} until a version of its Configurations can deliver.")
        if not self._gate.is_open:
            raise Undelivered(f"The delivery window of {name} is closed.")
        if not self._gate.is_up and not self._gate.breaker.may_probe(self._environment.monotonic()):
            last = self._report.last_failure
            raise Undelivered(last.cause if last else f"The endpoint of {name} is down.")


def _told(cause: str, *, failed: int, sent: int) -> str:
    return cause if sent == 1 else f"{failed} of {sent} records did not arrive: {cause}"


# What sends to one destination, queue or none.
#
#   exporter = Exporter(destination, project="acme", queue=queue, outlet=outlet, environment=Environment(random=chance))
#   exporter.start()

TEST_MESSAGE = "A test of this destination, asked for by a person."
HELD = (
    "Nothing is sent: the Configurations that deliver to it cannot by their present version, and their last good route "
    "led elsewhere. status.delivery of each says what to correct; records wait in the queue."
)
TOLD_SECONDS = 60.0  # the shortest wait whose end is shown: that of a `Retry-After`, or of a long interval


class Exporter:
    """One destination's; belongs to the running loop. `queue` is None when records are sent inline, by `deliver`."""

    def __init__(
        self,
        destination: Destination,
        *,
        project: str,
        queue: Queue | None,
        outlet: HttpSender,
        environment: SendEnvironment,
    ) -> None:
        self._destination = destination
        self._project = project
        self._outlet = outlet
        self._environment = environment
        self._channel = outlet.channel(destination, project=project)
        self._report = SendReport(environment, project=project, name=destination.name)
        self._gate = SendGate(
            environment, retry=destination.retry, schedule=destination.schedule, held=destination.held
        )
        self._inline = InlineSender(
            destination,
            self._channel,
            project=project,
            environment=environment,
            report=self._report,
            gate=self._gate,
        )
        self._consumers: Consumers | None = None
        if queue is not None:
            self._consumers = Consumers(
                queue,
                destination,
                self._channel,
                project=project,
                environment=environment,
                report=self._report,
                gate=self._gate,
            )

    def start(self) -> None:
        """Begin to send what is queued."""
        if self._consumers is not None:
            self._consumers.start()

    def change(self, destination: Destination) -> None:
        """Other settings from the next request on; what is in flight ends as it began."""
        if destination.endpoint != self._destination.endpoint:
            self._channel = self._outlet.channel(destination, project=self._project)
            self._gate.hurry()
        self._destination = destination
        self._gate.change(retry=destination.retry, schedule=destination.schedule, held=destination.held)
        self._inline.change(destination, self._channel)
        if self._consumers is not None:
            self._consumers.change(destination, self._channel)

    async def stop(self, *, seconds: float) -> None:
        """Claim nothing more; wait for what is in flight at most so long; the rest is queued still."""
        if self._consumers is not None:
            await self._consumers.stop(seconds=seconds)
        self._report.stop()

    def withdraw(self) -> int:
        """Give back what waits for another attempt, so that `discard`, called right after this without a pause, finds
        it: how many records of it arrived before, or are dead letters.
        """
        return 0 if self._consumers is None else self._consumers.withdraw()

    async def drained(self) -> None:
        """Until the queue is empty, and nothing is in flight or waits."""
        if self._consumers is not None:
            await self._consumers.drained()

    @property
    def is_sending(self) -> bool:
        """Whether room can be hoped for: the endpoint is not down, and the window open."""
        return self._gate.is_up and self._gate.is_open

    @property
    def is_up(self) -> bool:
        """Whether the endpoint is not down, whatever the window says."""
        return self._gate.is_up

    @property
    def counts(self) -> SendCounts:
        """What came of records since it was made."""
        return self._report.counts

    @property
    def in_flight(self) -> int:
        """Batches, or without a queue requests of senders."""
        return self._inline.under_way if self._consumers is None else self._consumers.in_flight

    # Past the queue.

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records while their sender waits, for a limited time. Raises Undelivered."""
        try:
            await self._inline.deliver(pieces)
        finally:
            self._report.change(self._state)

    def buried(self, records: int, obituary: Obituary) -> None:
        """Count and tell a dead letter that never was in the queue."""
        self._report.buried(records, obituary)

    async def test(self) -> TestOutcome:
        """Send one made-up record, once, whatever the window and the breaker say. It is counted nowhere; one that
        arrives proves the endpoint well, and one that fails changes nothing. Nothing is sent while it is held.
        """
        if self._gate.is_held:
            return TestOutcome(False, None, 0.0, HELD, b"")
        now = self._environment.clock()
        text = json.dumps({"message": TEST_MESSAGE, "destination": self._destination.name})
        (record,) = await http_sender.record_bodies(record_json.test_request(text, at=now))
        is_single = self._destination.endpoint.format is Format.SINGLE
        origin = http_sender.endpoint_origin(project=self._project, destination=self._destination.name, at=now)
        channel, started = self._channel, self._environment.monotonic()
        body = record if is_single else http_sender.json_array([record])
        verdict = await channel.post(body, delivery=f"{origin}:test", attempt=1, keeps_success=True)
        took = self._environment.monotonic() - started
        if verdict.delivered and channel is self._channel:  # else it is another endpoint that is well
            self._proved(verdict)
        message = f"The endpoint of {self._destination.name} took it." if verdict.delivered else verdict.cause
        return TestOutcome(verdict.delivered, verdict.status, took, message, verdict.answer)

    def _proved(self, verdict: AnswerVerdict) -> None:
        has_turned = self._gate.note(verdict, is_probe=False)
        if self._consumers is not None:
            self._consumers.proved(verdict, has_turned=has_turned)
        elif has_turned:
            self._report.up()
        self._report.change(self._state)

    # What is shown.

    def shown(self) -> ReportSnapshot:
        """This moment."""
        consumers, state = self._consumers, self._state
        self._report.change(state)
        return ReportSnapshot(
            state=state,
            message=self._message(state),
            since=self._report.since,
            in_flight=self.in_flight,
            waiting=0 if consumers is None else consumers.waiting,
            counts=self._report.counts,
            last_success=self._report.last_success,
            last_failure=self._report.last_failure,
            failing_since=self._report.failing_since,
            window=self._gate.window(),
        )

    @property
    def _state(self) -> ExporterState:
        if self._consumers is not None:
            return self._consumers.state
        if not self._gate.is_open:
            return ExporterState.HELD if self._gate.is_held else ExporterState.CLOSED
        if not self._gate.is_up:
            return ExporterState.DOWN
        return ExporterState.SENDING if self._inline.under_way else ExporterState.IDLE

    def _message(self, state: ExporterState) -> str:
        if state is ExporterState.HELD:
            return HELD
        if state is ExporterState.CLOSED:
            return "Outside of its delivery window; records are queued until it opens."
        last = self._report.last_failure
        if last is None or state not in (ExporterState.DOWN, ExporterState.WAITING):
            return ""
        wait = self._gate.probe_in if self._consumers is None else self._consumers.next_in
        if wait is None or wait < TOLD_SECONDS:
            return last.cause
        at = datetime.fromtimestamp(self._environment.clock() / 1000 + wait, UTC)
        return f"{last.cause} It is tried again from {at:%Y-%m-%dT%H:%M:%SZ} on."
