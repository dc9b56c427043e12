"""Sending while the sender of the records waits, for a destination without a queue."""

import asyncio
from collections.abc import Sequence

from reconciler.delivery import http_sender
from reconciler.delivery.context import SendContext
from reconciler.delivery.http_sender import Channel
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.reporting import ExporterState
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model import errors
from reconciler.model.routes import Format


class Undelivered(errors.Transient):
    """A destination without a queue did not get all of the records."""


class InlineSender:
    """Of one destination. `in_flight` counts requests of senders."""

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
        gate = self._context.gate
        if not gate.is_open:
            return ExporterState.HELD if gate.is_held else ExporterState.CLOSED
        if not gate.is_up:
            return ExporterState.DOWN
        return ExporterState.SENDING if self.in_flight else ExporterState.IDLE

    async def deliver(self, pieces: Sequence[Piece]) -> None:
        """Send records: one attempt, since whoever waits can repeat it.

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
        """Send a request for each record; the first one alone, since it may tell that the endpoint is down."""
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
