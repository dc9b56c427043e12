"""One attempt to deliver, and what follows from its outcome."""

import logging
from collections.abc import Callable

from reconciler.delivery import batches, http_sender
from reconciler.delivery import retry as delivery_retry
from reconciler.delivery.batches import NOTED_EVERY, Leases, RecordRound, SendBatch
from reconciler.delivery.http_sender import Channel
from reconciler.delivery.queue.contract import Obituary, Reason
from reconciler.delivery.reporting import SendReport
from reconciler.delivery.retry import TOO_LARGE, AnswerVerdict, RetryDecision, SendEnvironment, SendGate
from reconciler.delivery.supply import Job, Supply
from reconciler.model.routes import Destination, Format

log = logging.getLogger(__name__)

STUMBLED_SECONDS = 30.0
STUMBLED = AnswerVerdict(
    False, cause="The service itself failed while sending; its log has more.", retry_after=STUMBLED_SECONDS
)


class Attempts:
    """Of one destination. `kick` is called when there may be more to do, `learned` after each outcome, with whether the
    endpoint went down or came back by it.
    """

    def __init__(
        self,
        destination: Destination,
        channel: Channel,
        *,
        project: str,
        supply: Supply,
        holdings: Leases,
        environment: SendEnvironment,
        report: SendReport,
        gate: SendGate,
        kick: Callable[[], None],
        learned: Callable[[AnswerVerdict, bool], None],
    ) -> None:
        self._destination = destination
        self._channel = channel
        self._project = project
        self._supply = supply
        self._holdings = holdings
        self._environment = environment
        self._report = report
        self._gate = gate
        self._kick = kick
        self._learned = learned
        self._arrivals = 0
        self.sending = 0  # batches
        self.is_stopping = False
        self.is_replay_owed = False  # dead letters of an outage wait for its end

    def change(self, destination: Destination, channel: Channel) -> None:
        """Other settings from the next request on."""
        self._destination, self._channel = destination, channel

    async def run(self, job: Job) -> None:
        """Do what is next. Raises nothing."""
        batches = len(job.parcel.held)
        self.sending += batches
        try:
            if job.round is not None:
                await self._record(job.round, job.position)
            elif self._destination.endpoint.format is Format.SINGLE:
                await self._open_round(job.parcel, is_probe=job.is_probe)
            else:
                await self._array(job.parcel, is_probe=job.is_probe)
        except Exception as problem:  # a mistake of ours must neither lose records nor stop the rest
            self._tell(problem)
            self._stumbled(job)
        finally:
            self.sending -= batches

    def _stumbled(self, job: Job) -> None:
        if job.is_probe:
            self._gate.abandon(seconds=STUMBLED_SECONDS)
        if job.round is None or job.round.is_over:
            job.parcel.tried = self._environment.monotonic()
            job.parcel.not_before = job.parcel.tried + STUMBLED_SECONDS
            self._supply.put_off(job.parcel, delay=STUMBLED_SECONDS)

    def _tell(self, problem: Exception) -> None:
        """By its kind alone: what it says may hold what was sent."""
        log.error("Sending to %s failed within the service: %s", self._destination.name, type(problem).__name__)

    async def _array(self, parcel: SendBatch, *, is_probe: bool) -> None:
        """All of a parcel in one request."""
        bodies = await self._load(parcel)
        if not bodies:
            self._gate.abandon() if is_probe else None
            return
        body = http_sender.json_array(bodies)
        if self._supply.cap is not None and len(body) > self._supply.cap and parcel.size > 1:
            self._gate.abandon() if is_probe else None
            self._supply.put(batches.halve_batch(parcel))
            return
        del bodies
        delivery = batches.delivery_id(parcel, project=self._project, destination=self._destination.name)
        channel = self._channel
        verdict, took = await self._post(body, parcel, delivery, records=parcel.size, is_probe=is_probe)
        if verdict.delivered:
            batches.record_arrival(parcel)
            await self._holdings.arrived(parcel)
            return
        if verdict.status == TOO_LARGE and parcel.size > 1 and channel is self._channel:
            self._supply.too_large(len(body))
        del body
        await self._failed(parcel, verdict, took=took, may_divide=True)

    async def _open_round(self, parcel: SendBatch, *, is_probe: bool) -> None:
        """A request for each record of a parcel."""
        if len(parcel.held) > 1:
            self._supply.put(batches.split_batches(parcel))
            self._gate.abandon() if is_probe else None
            return
        bodies = await self._load(parcel)
        if not bodies:
            self._gate.abandon() if is_probe else None
            return
        places = parcel.records or tuple(range(len(bodies)))
        opened = RecordRound(parcel, places, bodies, is_probe=is_probe)
        position = opened.begin()
        self._supply.open(opened)
        if not is_probe:
            self._kick()
        await self._record(opened, position)

    async def _record(self, opened: RecordRound, position: int) -> None:
        """One record of a round; whoever is the last settles it."""
        parcel, place = opened.parcel, opened.places[position]
        delivery = batches.delivery_id(parcel, project=self._project, destination=self._destination.name, place=place)
        is_probe = opened.is_probe and position == 0
        verdict, took = STUMBLED, 0.0
        try:
            verdict, took = await self._post(opened.bodies[position], parcel, delivery, records=1, is_probe=is_probe)
        except Exception as problem:  # a mistake of ours: the others of the round go on
            self._tell(problem)
        finally:
            opened.in_flight -= 1
        if verdict.delivered:
            self._note_done(opened, place)
        else:
            opened.fail(position, verdict, took=took)
        if not self._may_go_on(opened):
            opened.untried += opened.stop()
        if opened.is_over:
            await self._settle(opened)

    def _may_go_on(self, opened: RecordRound) -> bool:
        if opened.failed and self._supply.is_line:
            return False
        return self._gate.is_up and self._gate.is_open and not self.is_stopping

    def _note_done(self, opened: RecordRound, place: int) -> None:
        held = opened.parcel.held[0]
        held.done.add(place)
        opened.noted += 1
        if opened.noted % NOTED_EVERY == 0:
            self._holdings.note_done(held)

    async def _settle(self, opened: RecordRound) -> None:
        """Each record has a decision of its own; those that failed alike go on together."""
        failures, untried = [*opened.failed.values()], opened.untried
        if not failures and not untried:
            await self._holdings.arrived(opened.parcel)
            return
        self._holdings.note_done(opened.parcel.held[0])
        if self._destination.retry.enabled and not self._gate.is_up and not self._supply.is_line:
            failures, untried = batches.joined_failures(failures, untried)
        groups = [tuple(one.places) for one in failures]
        parts = batches.part_batch(opened.parcel, [*groups, untried] if untried else groups)
        if untried:
            self._supply.put_off(parts.pop(), delay=0.0)
        for part, failure in zip(parts, failures, strict=True):
            await self._failed(part, failure.verdict, took=failure.took, may_divide=False)

    async def _post(
        self, body: bytes, parcel: SendBatch, delivery: str, *, records: int, is_probe: bool
    ) -> tuple[AnswerVerdict, float]:
        """One request, and how long it took as far as that counts: not behind an open breaker."""
        channel = self._channel
        counts = self._gate.is_up
        started = self._environment.monotonic()
        attempt = parcel.attempts + 1
        try:
            verdict = await channel.post(body, delivery=delivery, attempt=attempt)
        except BaseException:
            if is_probe:
                self._gate.abandon(seconds=STUMBLED_SECONDS)
            raise
        is_elsewhere = channel is not self._channel
        if is_elsewhere:
            verdict = verdict._replace(retry_after=0.0)  # the next attempt is at another endpoint
        self._report.outcome(verdict, records=records)
        if attempt > 1:
            self._report.counts.retried += records
        self._arrivals += verdict.delivered
        self._learned(verdict, self._gate.note(verdict, is_probe=is_probe, is_elsewhere=is_elsewhere))
        return verdict, self._environment.monotonic() - started if counts else 0.0

    async def _load(self, parcel: SendBatch) -> list[bytes]:
        """The records of a parcel as JSON; nothing when there is nothing to send, and then the parcel is settled."""
        if parcel.records is not None and self._supply.is_line:
            parcel.records = tuple(sorted(parcel.records))  # some wait in another order, from before it was a line
        payload = await self._holdings.payload(parcel)
        if payload is None:
            return []
        try:
            found = await http_sender.record_bodies(payload)
            if parcel.records is not None:
                found = [found[place] for place in parcel.records]
            if parcel.records is None and len(found) != parcel.size:
                raise http_sender.UnreadablePayload("What is stored does not hold as many records as it should.")
        except (http_sender.UnreadablePayload, IndexError):
            if len(parcel.held) > 1:
                self._supply.put(batches.split_batches(parcel))  # it is one of them
                return []
            now, cause = self._environment.clock(), "What is stored is no export request of so many log records."
            await self._holdings.give_up(parcel, Obituary(Reason.UNREADABLE, now, parcel.attempts, cause))
            return []
        if not found:
            await self._holdings.arrived(parcel)
        return found

    async def _failed(self, parcel: SendBatch, verdict: AnswerVerdict, *, took: float, may_divide: bool) -> None:
        """A parcel did not arrive: divide it, let it wait, or give it up."""
        retry = self._destination.retry
        parcel.attempts += 1
        parcel.spent += took
        parcel.tried = self._environment.monotonic()
        parcel.not_before = parcel.tried + verdict.retry_after
        parcel.outage = verdict.outage
        if parcel.arrivals is None:
            parcel.arrivals = self._arrivals
        parts = batches.divide_batch(parcel) if may_divide and verdict.splits else []
        if parts:
            self._supply.put(parts)
            return
        decision = delivery_retry.decide_retry(
            retry,
            attempts=parcel.attempts,
            spent=parcel.spent,
            retry_after=verdict.retry_after,
            chance=self._environment.random,
        )
        if verdict.outage and retry.enabled and not self._gate.is_up:
            own = decision.delay if isinstance(decision, RetryDecision) else 0.0
            self._supply.put_off(parcel, delay=max(own, verdict.retry_after))
        elif isinstance(decision, RetryDecision):
            parcel.spent = decision.spent
            self._supply.put_off(parcel, delay=decision.delay)
        else:
            await self._give_up(parcel, verdict)
            return
        self._holdings.progressed(parcel)

    async def _give_up(self, parcel: SendBatch, verdict: AnswerVerdict) -> None:
        is_retrying = self._destination.retry.enabled
        is_outage = verdict.outage and parcel.arrivals == self._arrivals  # else others arrived meanwhile
        self.is_replay_owed |= is_outage and (is_retrying or not self._gate.is_up)
        obituary = Obituary(
            Reason.GIVEN_UP if is_retrying else Reason.NO_RETRY,
            self._environment.clock(),
            parcel.attempts,
            verdict.cause,
            verdict.status,
            verdict.answer,
            is_outage,
        )
        await self._holdings.give_up(parcel, obituary)
