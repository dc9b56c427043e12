"""The loop that sends queued batches: it leases a batch, sends it, decides, and acknowledges, retries or buries it.

    exporter = QueueExporter(destination, queue=queue, project="acme", outlet=outlet, environment=environment)
    exporter.start()

A consumer is a task that does one job after another while there is something to send. Every event that may give it a
job (records arrive, a timer, an endpoint is back) calls `_kick`, which starts as many consumers as there are jobs.
Batches that wait need no consumer: they are in `Pending`, and a timer rings when the first is due.

In the format `single` a batch is divided when its turn comes, and each record is sent as a batch of its own.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from reconciler.delivery import http_sender, retry
from reconciler.delivery.batches import Job, Lease, Leases, Pending, SendBatch
from reconciler.delivery.breaker import SendEnvironment, Timer
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.queue.contract import FinalFailure, Queue, Reason
from reconciler.delivery.retry import TOO_LARGE, AnswerVerdict
from reconciler.model import errors
from reconciler.model.routes import Destination, Format

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05  # between two checks if the queue is empty, at a stop of the service
REPLAY_AGAIN_SECONDS = 30.0
STUMBLED_SECONDS = 30.0  # that a batch waits after a bug of the service


class QueueExporter(Exporter):
    """The exporter of one queue. `in_flight` counts batches."""

    def __init__(
        self,
        destination: Destination,
        *,
        queue: Queue,
        project: str,
        outlet: HttpSender,
        environment: SendEnvironment,
    ) -> None:
        super().__init__(destination, project=project, outlet=outlet, environment=environment)
        self._queue = queue
        self._leases = Leases(queue, name=destination.name, buried=self.buried, later=self._do_later)
        self._pending = Pending(self._leases, destination, environment=environment, gate=self._gate)
        self._arrivals = 0
        self._is_stopping = False
        self._is_replay_owed = queue.depth().dead_batches > 0  # dead letters of an outage are to be replayed
        self._is_replay_coming = False
        self._consumers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._timers: set[Timer] = set()

    def start(self) -> None:
        """See Exporter."""
        self._keep(asyncio.create_task(self._watch(), name=f"watch-{self._destination.name}"))
        self._kick()

    def change(self, destination: Destination) -> None:
        """See Exporter."""
        is_elsewhere = destination.endpoint != self._destination.endpoint
        super().change(destination)
        self._pending.change(destination, is_elsewhere=is_elsewhere)
        self._kick()

    async def stop(self, *, seconds: float) -> None:
        """See Exporter."""
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
        """See Exporter."""
        gone, settled = self._leases.withdraw(self._pending.idle)
        self._pending.drop(gone)
        return settled

    async def drained(self) -> None:
        """See Exporter."""
        while len(self._leases) or self._queue.depth().batches:  # noqa: ASYNC110 - it may be emptied from elsewhere
            await asyncio.sleep(LOOK_SECONDS)

    @property
    def waiting(self) -> int:
        """See Exporter."""
        return self._pending.waiting

    @property
    def _is_busy(self) -> bool:
        return bool(self.in_flight or self._consumers)

    # The loop.

    def _kick(self) -> None:
        """Start consumers for the present jobs, and the timer for the next one."""
        most = self._destination.buffering.consumers
        while self._consumers < most:
            job = self._next()
            if job is None:
                break
            self._consumers += 1
            self._keep(asyncio.create_task(self._consume(job), name=f"send-{self._destination.name}"))
        self._report.change(self._state)
        self._arm_replay()
        wait = self._pending.next_in() if self._consumers < most else None  # a consumer that ends looks itself
        if wait is not None and not self._is_stopping:
            self._arm(max(wait, 0.0))

    def _next(self) -> Job | None:
        return None if self._is_stopping else self._pending.pick()

    async def _consume(self, job: Job | None) -> None:
        try:
            while job is not None:
                await self._run(job)
                job = self._next() if self._consumers <= self._destination.buffering.consumers else None
        finally:
            self._consumers -= 1
        self._kick()

    async def _watch(self) -> None:
        """Call `_kick` when records arrive after nothing could be leased."""
        while True:
            await self._pending.hungry.wait()
            await self._queue.wait()
            self._pending.hungry.clear()
            self._kick()

    def _arm(self, wait: float) -> None:
        """Set the timer to the time when the first batch is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._environment.later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._kick()

    # One job.

    async def _run(self, job: Job) -> None:
        """Do a job. Raises nothing: a bug must neither lose records nor stop other jobs."""
        batch, is_probe = job
        batches = len(batch.leases)
        self.in_flight += batches
        try:
            bodies = await self._load(batch)
            is_single = self._destination.endpoint.format is Format.SINGLE
            if is_single and len(bodies) > 1 and len(batch.leases) == 1:
                rest, rest.bodies = batch, deque(bodies)
                batch = rest.split_first()
                bodies = bodies[:1]
                self._pending.put([rest])
                if not is_probe:
                    self._kick()
            body = bodies[0] if is_single and bodies else http_sender.json_array(bodies)
            is_over = is_single or (self._pending.cap is not None and len(body) > self._pending.cap)
            if bodies and (len(bodies) == 1 or not is_over):
                del bodies
                await self._send(batch, body, is_probe=is_probe, is_single=is_single)
                return
            if is_probe:
                self._gate.abandon()
            if bodies:
                self._pending.put(batch.halve())
        except Exception as problem:
            # Log only the class of the error: its text may contain records.
            log.error("Sending to %s failed within the service: %s", self._destination.name, type(problem).__name__)
            if is_probe:
                self._gate.abandon(seconds=STUMBLED_SECONDS)
            batch.tried = self._environment.monotonic()
            batch.not_before = batch.tried + STUMBLED_SECONDS
            self._pending.put_off(batch, delay=STUMBLED_SECONDS)
        finally:
            self.in_flight -= batches

    async def _load(self, batch: SendBatch) -> list[bytes]:
        """Read the records of a batch as JSON. Unreadable ones are removed; an empty batch is settled."""
        if batch.bodies is not None:
            return [*batch.bodies]
        bodies: list[bytes] = []
        readable: list[Lease] = []
        for lease in batch.leases:
            payload = await self._leases.payload(lease)
            if payload is None:
                continue
            try:
                bodies += await http_sender.record_bodies(payload, records=lease.queued.records)
            except http_sender.UnreadablePayload:
                now = self._environment.clock()
                cause = "What is stored is no export request of so many log records."
                final_failure = FinalFailure(Reason.UNREADABLE, now, batch.attempts, cause)
                await self._leases.give_up(replace(batch, leases=(lease,)), final_failure)
            else:
                readable.append(lease)
        batch.leases = tuple(readable)
        if batch.records is not None and bodies:
            bodies = [bodies[place] for place in batch.records]
        if readable and not bodies:
            await self._leases.acknowledge(batch)
        return bodies

    async def _send(self, batch: SendBatch, body: bytes, *, is_probe: bool, is_single: bool) -> None:
        """Send a batch in one request, and decide what happens to it."""
        # While the breaker is open, no time counts.
        channel, counts, started = self._channel, self._gate.is_up, self._environment.monotonic()
        delivery = batch.delivery_id(project=self._project, destination=self._destination.name, is_single=is_single)
        verdict = await self._post(
            body,
            channel=channel,
            delivery=delivery,
            attempt=batch.attempts + 1,
            records=batch.size,
            is_probe=is_probe,
        )
        if verdict.delivered:
            self._arrivals += 1
            batch.record_arrival()
            await self._leases.acknowledge(batch)
            return
        if verdict.status == TOO_LARGE and batch.size > 1 and channel is self._channel:
            self._pending.too_large(len(body))
        await self._failed(batch, verdict, took=self._environment.monotonic() - started if counts else 0.0)

    async def _failed(self, batch: SendBatch, verdict: AnswerVerdict, *, took: float) -> None:
        """Divide a failed batch, delay it, or give it up."""
        settings = self._destination.retry
        batch.attempts += 1
        batch.spent += took
        batch.tried = self._environment.monotonic()
        batch.not_before = batch.tried + verdict.retry_after
        batch.outage = verdict.outage
        if batch.attempts <= 2 or batch.arrivals is None:  # other batches may arrive together with the first attempt
            batch.arrivals = self._arrivals
        parts = batch.divide() if verdict.splits else []
        if parts:
            self._pending.put(parts)
            return
        decision = retry.decide_retry(
            settings,
            attempts=batch.attempts,
            spent=batch.spent,
            retry_after=verdict.retry_after,
            chance=self._environment.random,
        )
        if verdict.outage and settings.enabled and not self._gate.is_up:
            own = decision.delay if decision is not None else 0.0
            self._pending.put_off(batch, delay=max(own, verdict.retry_after))
        elif decision is not None:
            batch.spent = decision.spent
            self._pending.put_off(batch, delay=decision.delay)
        else:
            await self._give_up(batch, verdict)

    async def _give_up(self, batch: SendBatch, verdict: AnswerVerdict) -> None:
        is_retrying = self._destination.retry.enabled
        is_outage = verdict.outage and batch.arrivals == self._arrivals  # otherwise other batches arrived meanwhile
        self._is_replay_owed |= is_outage and (is_retrying or not self._gate.is_up)
        final_failure = FinalFailure(
            Reason.GIVEN_UP if is_retrying else Reason.NO_RETRY,
            self._environment.clock(),
            batch.attempts,
            verdict.cause,
            verdict.status,
            verdict.answer,
            is_outage,
        )
        await self._leases.give_up(batch, final_failure)

    # The endpoint as a whole, and the dead letters of its outages.

    def _learn(self, verdict: AnswerVerdict, *, is_probe: bool = False) -> None:
        was_up = self._gate.is_up
        super()._learn(verdict, is_probe=is_probe)
        if self._gate.is_up and not was_up:
            self._pending.end_outage()
            self._is_replay_owed = True
        if verdict.delivered and self._is_replay_owed:
            self._is_replay_owed = False
            self._begin(self._replay)
        if self._gate.is_up is not was_up:
            self._kick()

    def _proved(self, verdict: AnswerVerdict) -> None:
        # All waiting batches become due, even if the endpoint asked for a longer wait: it may ask a single one to wait
        # an hour.
        self._pending.end_outage()
        super()._proved(verdict)
        self._kick()

    async def _replay(self) -> None:
        """Queue the dead letters of an outage again after its end; those without room later."""
        batches, records = await self._queue.replay(outages_only=True)
        if batches:
            self._report.replayed(batches, records)
        if batches or self._queue.room(size=1) is not None:
            self._do_later(REPLAY_AGAIN_SECONDS, self._replay)
        self._kick()

    def _arm_replay(self) -> None:
        if self._is_replay_owed and not self._is_replay_coming and not self._is_stopping:
            self._is_replay_coming = True
            self._do_later(self._destination.retry.max_interval, self._replay_one)

    async def _replay_one(self) -> None:
        """Queue one dead letter of an outage again as a probe, if there is nothing else to send."""
        self._is_replay_coming = False
        if self._is_replay_owed and not len(self._leases) and not self._queue.depth().batches:
            dead = self._report.counts.dead
            batches, _ = await self._queue.replay(outages_only=True, most=1)
            if not batches and self._queue.room(size=1) is None and dead == self._report.counts.dead:
                self._is_replay_owed = False  # no such letter is left, and none was added meanwhile
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
                log.warning("The queue of %s: %s", self._destination.name, problem.message)

        if not self._is_stopping:
            self._keep(asyncio.create_task(run(), name=f"queue-{self._destination.name}"))

    def _do_later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            self._begin(work)

        timer = self._environment.later(seconds, ring)
        self._timers.add(timer)
