"""Sending while the sender of the records waits, without a queue.

Belongs here: one call's requests, how many go at once, and how long all of them may take. Does not: whether something
is tried again, which is the sender's business; one request (`outlet`).
"""

import asyncio
from collections.abc import Sequence

from reconciler.model import errors
from reconciler.model.routes import Destination, Format
from reconciler.queueing.contract import Piece
from reconciler.sending import payloads, requests
from reconciler.sending.environment import SendEnvironment
from reconciler.sending.gate import SendGate
from reconciler.sending.outlet import Channel
from reconciler.sending.reporting import SendReport
from reconciler.sending.verdicts import AnswerVerdict


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
                await self._deliver(await payloads.record_bodies(b"".join(pieces)))
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
        origin = requests.endpoint_origin(project=self._project, destination=name, at=self._environment.clock())
        delivery = f"{origin}:inline-{self._numbers}"
        if self._destination.endpoint.format is Format.SINGLE:
            await self._each(channel, bodies, delivery)
            return
        verdict = await self._one(channel, payloads.json_array(bodies), delivery, records=len(bodies))
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
