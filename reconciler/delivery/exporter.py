"""The exporter of one destination: its settings and state, and what it sends while a sender waits.

    exporter = Exporter(destination, project="acme", outlet=outlet, environment=environment)
    await exporter.deliver([payload])

This exporter has no queue: each request of a sender is sent at once, and the sender waits for the answer. The one of
`queue_exporter` sends queued batches.
"""

import asyncio
import json
from collections.abc import Sequence

from reconciler.delivery import http_sender
from reconciler.delivery.breaker import DeliveryWindow, SendEnvironment, SendGate
from reconciler.delivery.http_sender import Channel, HttpSender
from reconciler.delivery.otlp import bodies as record_json
from reconciler.delivery.queue.contract import FinalFailure, Piece
from reconciler.delivery.reporting import HELD, DeliveryCounts, ExporterState, SendReport, TestOutcome
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model import errors
from reconciler.model.routes import Destination, Format

TEST_MESSAGE = "A test of this destination, asked for by a person."


class Undelivered(errors.Transient):
    """A destination without a queue did not get all of the records."""


class Exporter:
    """The exporter of one destination. Used in the running loop only. `in_flight` counts requests of senders."""

    def __init__(
        self, destination: Destination, *, project: str, outlet: HttpSender, environment: SendEnvironment
    ) -> None:
        self._destination = destination
        self._project = project
        self._outlet = outlet
        self._environment = environment
        self._channel = outlet.channel(destination, project=project)
        self._gate = SendGate(environment, destination)
        self._report = SendReport(environment, project=project, name=destination.name)
        self._numbers = 0
        self.in_flight = 0

    def start(self) -> None:
        """Begin to send queued batches."""

    def change(self, destination: Destination) -> None:
        """Change the settings from the next request on; requests in flight are not affected."""
        before, self._destination = self._destination, destination
        if destination.endpoint != before.endpoint:
            self._channel = self._outlet.channel(destination, project=self._project)
            self._gate.hurry()
        self._gate.change(destination)

    async def stop(self, *, seconds: float) -> None:
        """Lease nothing more, and wait a limited time for requests in flight. The rest stays queued."""

    def withdraw(self) -> int:
        """Release batches that wait for another attempt, so that `discard` finds them if it is called immediately
        after.

        Return the number of their records that arrived before or are dead letters.
        """
        return 0

    async def drained(self) -> None:
        """Wait until the queue is empty, and nothing is in flight or waits."""

    @property
    def is_sending(self) -> bool:
        """Return True if records are being sent, so that there may be room soon: the endpoint is up and the window
        open.
        """
        return self._gate.is_up and self._gate.is_open

    @property
    def is_up(self) -> bool:
        """Return True if the endpoint is not down, even outside its window."""
        return self._gate.is_up

    @property
    def counts(self) -> DeliveryCounts:
        """The outcomes of records since the exporter was made."""
        return self._report.counts

    @property
    def waiting(self) -> int:
        """The number of batches that wait for another attempt."""
        return 0

    @property
    def _is_busy(self) -> bool:
        return self.in_flight > 0

    def buried(self, records: int, final_failure: FinalFailure) -> None:
        """Count and log a dead letter."""
        self._report.buried(records, final_failure)

    # Requests.

    async def _post(
        self, body: bytes, *, channel: Channel, delivery: str, attempt: int, records: int, is_probe: bool
    ) -> AnswerVerdict:
        """Send one request, and record the outcome."""
        verdict = await channel.post(body, delivery=delivery, attempt=attempt)
        is_elsewhere = channel is not self._channel  # the next attempt is at another endpoint
        if is_elsewhere:
            verdict = verdict._replace(retry_after=0.0)
        self._report.outcome(verdict, records=records)
        if attempt > 1:
            self._report.counts.retried += records
        if not is_elsewhere:
            self._learn(verdict, is_probe=is_probe)
        elif is_probe:
            self._gate.abandon()
        return verdict

    def _learn(self, verdict: AnswerVerdict, *, is_probe: bool = False) -> None:
        """Handle the outcome of a request, which may open or close the breaker."""
        if self._gate.note(verdict, is_probe=is_probe):
            self._report.up() if self._gate.is_up else self._report.down(verdict.cause)

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records while their sender waits, for a limited time: one attempt, since the sender can repeat it.

        Raises Undelivered; of the format `single` some records may have arrived then.
        """
        self._refuse_closed()
        seconds = self._destination.endpoint.timeout + self._environment.patience
        self.in_flight += 1
        try:
            async with asyncio.timeout(seconds):
                await self._deliver(await http_sender.record_bodies(b"".join(pieces)))
        except TimeoutError:
            cause = (
                f"The destination {self._destination.name} did not get all of the records of a request within "
                f"{seconds:g} s; send fewer at a time, or set `sending_queue_enabled`."
            )
            self._report.outcome(AnswerVerdict(False, cause=cause), records=0)
            raise Undelivered(cause) from None
        finally:
            self.in_flight -= 1
            self._report.change(self._state)

    async def _deliver(self, bodies: list[bytes]) -> None:
        """Send all records; in the format `single` one after another. An outage ends it."""
        if not bodies:
            return
        self._numbers += 1
        channel, delivery = self._channel, f"{self._origin()}:inline-{self._numbers}"
        if self._destination.endpoint.format is not Format.SINGLE:
            verdict = await self._one(channel, http_sender.json_array(bodies), delivery, records=len(bodies))
            if not verdict.delivered:
                raise Undelivered(verdict.cause)
            return
        arrived, cause = 0, ""
        for place, body in enumerate(bodies):
            verdict = await self._one(channel, body, f"{delivery}:{place}", records=1)
            arrived += verdict.delivered
            cause = cause or verdict.cause
            if verdict.outage:
                break
        if arrived < len(bodies):
            count = "" if len(bodies) == 1 else f"{len(bodies) - arrived} of {len(bodies)} records did not arrive: "
            raise Undelivered(f"{count}{cause}")

    def _origin(self) -> str:
        at = self._environment.clock()
        return http_sender.endpoint_origin(project=self._project, destination=self._destination.name, at=at)

    async def _one(self, channel: Channel, body: bytes, delivery: str, *, records: int) -> AnswerVerdict:
        """Send one request. Raises Undelivered if nothing may be sent any more."""
        self._refuse_closed()
        is_probe = not self._gate.is_up
        if is_probe:
            if channel is not self._channel:  # the next probe is for the present endpoint
                name = self._destination.name
                raise Undelivered(f"The endpoint of {name} was changed meanwhile; send the records again.")
            self._gate.probe()
        try:
            return await self._post(
                body, channel=channel, delivery=delivery, attempt=1, records=records, is_probe=is_probe
            )
        finally:
            if is_probe:
                self._gate.abandon()  # has no effect if the probe has an outcome

    def _refuse_closed(self) -> None:
        """Raise Undelivered if nothing may be sent now."""
        name, gate = self._destination.name, self._gate
        if gate.is_held:
            raise Undelivered(f"Nothing is sent to {name} until a version of its Configurations can deliver.")
        if not gate.is_open:
            raise Undelivered(f"The delivery window of {name} is closed.")
        if not gate.is_up and not gate.may_probe(self._environment.monotonic()):
            last = self._report.last_failure
            raise Undelivered(last.cause if last else f"The endpoint of {name} is down.")

    async def test(self) -> TestOutcome:
        """Send one test record, even if the window is closed or the breaker is open.

        It is not counted. If it arrives, the endpoint is up; a failure changes nothing. Nothing is sent while the
        destination is held.
        """
        if self._gate.is_held:
            return TestOutcome(False, None, 0.0, HELD, b"")
        name = self._destination.name
        text = json.dumps({"message": TEST_MESSAGE, "destination": name})
        (record,) = await http_sender.record_bodies(record_json.test_request(text, at=self._environment.clock()))
        is_single = self._destination.endpoint.format is Format.SINGLE
        body = record if is_single else http_sender.json_array([record])
        channel, started = self._channel, self._environment.monotonic()
        verdict = await channel.post(body, delivery=f"{self._origin()}:test", attempt=1, keeps_success=True)
        took = self._environment.monotonic() - started
        if verdict.delivered and channel is self._channel:  # otherwise the record reached a former endpoint
            self._proved(verdict)
            self._report.change(self._state)
        message = f"The endpoint of {name} took it." if verdict.delivered else verdict.cause
        return TestOutcome(verdict.delivered, verdict.status, took, message, verdict.answer)

    def _proved(self, verdict: AnswerVerdict) -> None:
        """Handle the arrival of a test record."""
        self._learn(verdict)

    # State.

    def shown(self) -> SendReport:
        """Return its report, with the state at this moment."""
        self._report.change(self._state)
        return self._report

    def window(self) -> DeliveryWindow | None:
        """Return its delivery window now; None without a schedule."""
        return self._gate.window()

    @property
    def _state(self) -> ExporterState:
        """Return the state. A closed window and an endpoint that is down come before other states."""
        if not self._gate.is_open:
            return ExporterState.HELD if self._gate.is_held else ExporterState.CLOSED
        if not self._gate.is_up:
            return ExporterState.DOWN
        if self._is_busy:
            return ExporterState.SENDING
        return ExporterState.WAITING if self.waiting else ExporterState.IDLE
