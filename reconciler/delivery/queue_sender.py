"""The loop that sends what is queued: it leases a batch, sends it, decides, and acknowledges, retries or buries it.

A consumer is a task that lives while there is something to send, and takes one job after another. Whatever may give it
one (records that arrive, a timer, an endpoint that is back) calls `_kick`, which starts as many as there is work for.
What waits holds no consumer: it is in `Pending`, and a timer rings when the first is due.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from reconciler.delivery import http_sender, pending, retry
from reconciler.delivery.batches import Leases, SendBatch
from reconciler.delivery.breaker import SendEnvironment, SendGate, Timer
from reconciler.delivery.http_sender import Channel
from reconciler.delivery.pending import NOTED_EVERY, Job, Pending, RecordRequests
from reconciler.delivery.queue.contract import Obituary, Queue, Reason
from reconciler.delivery.reporting import ExporterState, SendReport
from reconciler.delivery.retry import TOO_LARGE, AnswerVerdict, RetryDecision
from reconciler.model import errors
from reconciler.model.routes import Destination, Format


@dataclass(slots=True)
class SendContext:
    """Changed settings are another `destination`, and another `channel` where they lead to another endpoint."""

    destination: Destination
    channel: Channel
    project: str
    environment: SendEnvironment
    report: SendReport
    gate: SendGate

    @property
    def name(self) -> str:
        """The name of the destination."""
        return self.destination.name

    def state(self, *, is_sending: bool, is_waiting: bool) -> ExporterState:
        """Return the state of the exporter; a closed window or an endpoint that is down comes before its work."""
        if not self.gate.is_open:
            return ExporterState.HELD if self.gate.is_held else ExporterState.CLOSED
        if not self.gate.is_up:
            return ExporterState.DOWN
        if is_sending:
            return ExporterState.SENDING
        return ExporterState.WAITING if is_waiting else ExporterState.IDLE


log = logging.getLogger(__name__)

REPLAY_AGAIN_SECONDS = 30.0
STUMBLED_SECONDS = 30.0  # that a batch waits after a mistake of the service itself
STUMBLED = AnswerVerdict(
    False, cause="The service itself failed while sending; its log has more.", retry_after=STUMBLED_SECONDS
)


class QueueSender:
    """The sender of one queue. Used in the running loop only. `in_flight` counts batches."""

    def __init__(self, queue: Queue, context: SendContext) -> None:
        self._queue = queue
        self._context = context
        self._leases = Leases(queue, name=context.name, buried=self._buried, later=self._do_later)
        self._pending = Pending(self._leases, context.destination, environment=context.environment, gate=context.gate)
        self._arrivals = 0
        self._is_stopping = False
        self._is_replay_owed = queue.depth().dead_batches > 0  # dead letters of an outage wait for its end
        self._is_replay_coming = False
        self._consumers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._timers: set[Timer] = set()
        self.in_flight = 0

    def start(self) -> None:
        """Begin to send."""
        self._keep(asyncio.create_task(self._watch(), name=f"watch-{self._context.name}"))
        self._kick()

    def settings_changed(self, *, is_elsewhere: bool) -> None:
        """Follow the context's settings from the next request on. `is_elsewhere`: they lead to another endpoint."""
        self._pending.change(self._context.destination, is_elsewhere=is_elsewhere)
        self._kick()

    async def stop(self, *, seconds: float) -> None:
        """Lease nothing more, wait so long for what is in flight, and release the rest."""
        self._is_stopping = True
        for timer in filter(None, (self._timer, *self._timers)):
            timer.cancel()
        busy = [task for task in self._tasks if not task.get_name().startswith("watch-")]
        if busy and seconds > 0:
            await asyncio.wait(busy, timeout=seconds)
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._leases.release_all()

    def withdraw(self) -> int:
        """Release all that is leased and not in flight, so that it can be discarded right after this, without a pause.

        Returns how many records of it need no sending any more.
        """
        gone, settled = self._leases.withdraw(self._pending.idle)
        self._pending.drop(gone)
        return settled

    async def drained(self) -> None:
        """Wait until nothing is queued, in flight or waiting."""
        while len(self._leases) or self._queue.depth().batches:
            self._settled.clear()
            try:
                async with asyncio.timeout(1.0):  # the queue may be emptied from elsewhere
                    await self._settled.wait()
            except TimeoutError:
                continue

    @property
    def waiting(self) -> int:
        """Batches that wait for another attempt."""
        return self._pending.waiting

    @property
    def next_in(self) -> float | None:
        """Seconds until something that waits is due, as far as that is known."""
        return self._pending.next_in()

    @property
    def state(self) -> ExporterState:
        """The state now."""
        return self._context.state(
            is_sending=bool(self.in_flight or self._consumers), is_waiting=self._pending.waiting > 0
        )

    def proved(self, verdict: AnswerVerdict, *, has_turned: bool) -> None:
        """Note that something arrived past the queue: what waits for the end of an outage is due in any case, since an
        endpoint may ask a single batch to wait for an hour.
        """
        self._pending.end_outage()
        self._learned(verdict, has_turned=has_turned)
        self._kick()

    # The loop.

    def _kick(self) -> None:
        """Start consumers for what there is to do, and the timer for what there will be."""
        most = self._context.destination.buffering.consumers
        while self._consumers < most:
            job = self._next()
            if job is None:
                break
            self._consumers += 1
            self._keep(asyncio.create_task(self._consume(job), name=f"send-{self._context.name}"))
        self._context.report.change(self.state)
        self._arm_replay()
        wait = self._pending.next_in() if self._consumers < most else None  # a consumer that is done looks itself
        if wait is not None and not self._is_stopping:
            self._arm(max(wait, 0.0))

    def _next(self) -> Job | None:
        return None if self._is_stopping else self._pending.pick()

    async def _consume(self, job: Job | None) -> None:
        try:
            while job is not None:
                await self._run(job)
                self._settled.set()
                job = self._next() if self._consumers <= self._context.destination.buffering.consumers else None
        finally:
            self._consumers -= 1
        self._kick()

    async def _watch(self) -> None:
        """Kick when something arrives while there was nothing to lease."""
        while True:
            await self._pending.hungry.wait()
            await self._queue.wait()
            self._pending.hungry.clear()
            self._kick()

    def _arm(self, wait: float) -> None:
        """Set the one timer to ring for what is due first."""
        at = self._context.environment.monotonic() + wait
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._context.environment.later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._kick()

    # One job.

    async def _run(self, job: Job) -> None:
        """Do it. Raises nothing: a mistake of ours must neither lose records nor stop the rest."""
        batches = len(job.batch.leases)
        self.in_flight += batches
        try:
            if job.requests is not None:
                await self._send_record(job.requests, job.position)
            elif self._context.destination.endpoint.format is Format.SINGLE:
                await self._begin_records(job.batch, is_probe=job.is_probe)
            else:
                await self._send_array(job.batch, is_probe=job.is_probe)
        except Exception as problem:
            self._log_mistake(problem)
            if job.is_probe:
                self._context.gate.abandon(seconds=STUMBLED_SECONDS)
            if job.requests is None or job.requests.is_over:
                job.batch.tried = self._context.environment.monotonic()
                job.batch.not_before = job.batch.tried + STUMBLED_SECONDS
                self._pending.put_off(job.batch, delay=STUMBLED_SECONDS)
        finally:
            self.in_flight -= batches

    def _log_mistake(self, problem: Exception) -> None:
        """By its kind alone: its text may hold what was sent."""
        log.error("Sending to %s failed within the service: %s", self._context.name, type(problem).__name__)

    async def _send_array(self, batch: SendBatch, *, is_probe: bool) -> None:
        """Send all of a batch in one request."""
        bodies = await self._load(batch)
        body = http_sender.json_array(bodies)
        is_large = self._pending.cap is not None and len(body) > self._pending.cap and batch.size > 1
        if not bodies or is_large:
            if is_probe:
                self._context.gate.abandon()
            if bodies:
                self._pending.put(batch.halve())
            return
        del bodies
        delivery = batch.delivery_id(project=self._context.project, destination=self._context.name)
        channel = self._context.channel
        verdict, took = await self._post(body, batch, delivery, records=batch.size, is_probe=is_probe)
        if verdict.delivered:
            batch.record_arrival()
            await self._leases.acknowledge(batch)
            return
        if verdict.status == TOO_LARGE and batch.size > 1 and channel is self._context.channel:
            self._pending.too_large(len(body))
        del body
        await self._failed(batch, verdict, took=took, may_divide=True)

    async def _begin_records(self, batch: SendBatch, *, is_probe: bool) -> None:
        """Send the first record of a batch; other consumers take the next ones."""
        bodies = await self._load(batch) if len(batch.leases) == 1 else []
        if not bodies:
            if is_probe:
                self._context.gate.abandon()
            if len(batch.leases) > 1:
                self._pending.put(batch.split())
            return
        requests = RecordRequests(batch, batch.records or tuple(range(len(bodies))), bodies, is_probe=is_probe)
        position = requests.begin()
        self._pending.open(requests)
        if not is_probe:
            self._kick()
        await self._send_record(requests, position)

    async def _send_record(self, requests: RecordRequests, position: int) -> None:
        """Send one record; the last one of a batch settles it."""
        batch, place, gate = requests.batch, requests.places[position], self._context.gate
        delivery = batch.delivery_id(project=self._context.project, destination=self._context.name, place=place)
        is_probe = requests.is_probe and position == 0
        verdict, took = STUMBLED, 0.0
        try:
            verdict, took = await self._post(requests.bodies[position], batch, delivery, records=1, is_probe=is_probe)
        except Exception as problem:  # a mistake of ours: the other records go on
            self._log_mistake(problem)
        finally:
            requests.in_flight -= 1
        if verdict.delivered:
            lease = batch.leases[0]
            lease.done.add(place)
            requests.noted += 1
            if requests.noted % NOTED_EVERY == 0:
                self._leases.note_done(lease)
        else:
            requests.fail(position, verdict, took=took)
        blocks_line = requests.failed and self._pending.is_line
        if blocks_line or not gate.is_up or not gate.is_open or self._is_stopping:
            requests.stop()
        if requests.is_over:
            await self._settle(requests)

    async def _settle(self, requests: RecordRequests) -> None:
        """Decide about each record; those that failed alike go on together."""
        failures, untried = [*requests.failed.values()], requests.untried
        if not failures and not untried:
            await self._leases.acknowledge(requests.batch)
            return
        self._leases.note_done(requests.batch.leases[0])
        if self._context.destination.retry.enabled and not self._context.gate.is_up and not self._pending.is_line:
            failures, untried = pending.join_outage_failures(failures, untried)
        groups = [tuple(one.places) for one in failures]
        parts = requests.batch.part([*groups, untried] if untried else groups)
        if untried:
            self._pending.put_off(parts.pop(), delay=0.0)
        for part, failure in zip(parts, failures, strict=True):
            await self._failed(part, failure.verdict, took=failure.took, may_divide=False)

    async def _post(
        self, body: bytes, batch: SendBatch, delivery: str, *, records: int, is_probe: bool
    ) -> tuple[AnswerVerdict, float]:
        """Send one request; the verdict, and how long it took as far as that counts: not behind an open breaker."""
        context, channel, counts = self._context, self._context.channel, self._context.gate.is_up
        started = context.environment.monotonic()
        attempt = batch.attempts + 1
        try:
            verdict = await channel.post(body, delivery=delivery, attempt=attempt)
        except BaseException:
            if is_probe:
                context.gate.abandon(seconds=STUMBLED_SECONDS)
            raise
        is_elsewhere = channel is not context.channel
        if is_elsewhere:
            verdict = verdict._replace(retry_after=0.0)  # the next attempt is at another endpoint
        context.report.outcome(verdict, records=records)
        if attempt > 1:
            context.report.counts.retried += records
        self._arrivals += verdict.delivered
        has_turned = context.gate.note(verdict, is_probe=is_probe, is_elsewhere=is_elsewhere)
        self._learned(verdict, has_turned=has_turned)
        return verdict, context.environment.monotonic() - started if counts else 0.0

    async def _load(self, batch: SendBatch) -> list[bytes]:
        """Read the records of a batch as JSON. With nothing to send, the batch is settled, or divided."""
        if batch.records is not None and self._pending.is_line:
            batch.records = tuple(sorted(batch.records))  # some wait in another order, from before it was a line
        payload = await self._leases.payload(batch)
        if payload is None:
            return []
        try:
            found = await http_sender.record_bodies(payload)
            if batch.records is not None:
                found = [found[place] for place in batch.records]
            elif len(found) != batch.size:
                raise http_sender.UnreadablePayload("What is stored does not hold as many records as it should.")
        except (http_sender.UnreadablePayload, IndexError):
            if len(batch.leases) > 1:
                self._pending.put(batch.split())  # it is one of them
                return []
            now = self._context.environment.clock()
            cause = "What is stored is no export request of so many log records."
            await self._leases.give_up(batch, Obituary(Reason.UNREADABLE, now, batch.attempts, cause))
            return []
        if not found:
            await self._leases.acknowledge(batch)
        return found

    async def _failed(self, batch: SendBatch, verdict: AnswerVerdict, *, took: float, may_divide: bool) -> None:
        """Divide a batch that did not arrive, let it wait, or give it up."""
        settings, environment = self._context.destination.retry, self._context.environment
        batch.attempts += 1
        batch.spent += took
        batch.tried = environment.monotonic()
        batch.not_before = batch.tried + verdict.retry_after
        batch.outage = verdict.outage
        if batch.arrivals is None:
            batch.arrivals = self._arrivals
        parts = batch.divide() if may_divide and verdict.splits else []
        if parts:
            self._pending.put(parts)
            return
        decision = retry.decide_retry(
            settings,
            attempts=batch.attempts,
            spent=batch.spent,
            retry_after=verdict.retry_after,
            chance=environment.random,
        )
        if verdict.outage and settings.enabled and not self._context.gate.is_up:
            own = decision.delay if isinstance(decision, RetryDecision) else 0.0
            self._pending.put_off(batch, delay=max(own, verdict.retry_after))
        elif isinstance(decision, RetryDecision):
            batch.spent = decision.spent
            self._pending.put_off(batch, delay=decision.delay)
        else:
            await self._give_up(batch, verdict)
            return
        self._leases.note_progress(batch)

    async def _give_up(self, batch: SendBatch, verdict: AnswerVerdict) -> None:
        is_retrying = self._context.destination.retry.enabled
        is_outage = verdict.outage and batch.arrivals == self._arrivals  # else others arrived meanwhile
        self._is_replay_owed |= is_outage and (is_retrying or not self._context.gate.is_up)
        obituary = Obituary(
            Reason.GIVEN_UP if is_retrying else Reason.NO_RETRY,
            self._context.environment.clock(),
            batch.attempts,
            verdict.cause,
            verdict.status,
            verdict.answer,
            is_outage,
        )
        await self._leases.give_up(batch, obituary)

    # The endpoint as a whole, and the dead letters of its outages.

    def _learned(self, verdict: AnswerVerdict, *, has_turned: bool) -> None:
        """Follow an outcome by which the breaker may have opened or closed (`has_turned`)."""
        if has_turned and not self._context.gate.is_up:
            self._context.report.down(verdict.cause)
        elif has_turned:
            self._context.report.up()
            self._pending.end_outage()
            self._is_replay_owed = True
        if verdict.delivered and self._is_replay_owed:
            self._is_replay_owed = False
            self._begin(self._replay)
        if has_turned:
            self._kick()

    def _buried(self, records: int, obituary: Obituary) -> None:
        self._context.report.buried(records, obituary)
        self._settled.set()

    async def _replay(self) -> None:
        """Queue the dead letters of an outage again, now that it is over; what finds no room, later."""
        batches, records = await self._queue.replay(outages_only=True)
        if batches:
            self._context.report.replayed(batches, records)
        if batches or self._queue.room(size=1) is not None:
            self._do_later(REPLAY_AGAIN_SECONDS, self._replay)
        self._kick()

    def _arm_replay(self) -> None:
        if self._is_replay_owed and not self._is_replay_coming and not self._is_stopping:
            self._is_replay_coming = True
            self._do_later(self._context.destination.retry.max_interval, self._replay_one)

    async def _replay_one(self) -> None:
        """Queue one dead letter of an outage again when there is nothing else that would find out that it is over."""
        self._is_replay_coming = False
        if self._is_replay_owed and not len(self._leases) and not self._queue.depth().batches:
            dead = self._context.report.counts.dead
            batches, _ = await self._queue.replay(outages_only=True, most=1)
            if not batches and self._queue.room(size=1) is None and dead == self._context.report.counts.dead:
                self._is_replay_owed = False  # there is none, and none has come meanwhile
        self._kick()

    # Tasks and timers.

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begin(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            except errors.ReconcilerError as problem:
                log.warning("The queue of %s: %s", self._context.name, problem.message)

        if not self._is_stopping:
            self._keep(asyncio.create_task(run(), name=f"queue-{self._context.name}"))

    def _do_later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            self._begin(work)

        timer = self._context.environment.later(seconds, ring)
        self._timers.add(timer)
