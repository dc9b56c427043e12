"""The consumers of one queue.

A consumer is a task that lives while there is something to send, and takes one thing after another. Whatever may give
it something (records that arrive, a timer, an endpoint that is back) calls `_kick`, which starts as many as there is
work for. What waits holds no consumer: it lies in `Waiting` by its numbers, and a timer knows when the first is due.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from reconciler.delivery.attempts import Attempts
from reconciler.delivery.batches import Leases
from reconciler.delivery.http_sender import Channel
from reconciler.delivery.queue.contract import Obituary, Queue
from reconciler.delivery.reporting import ExporterState, SendReport
from reconciler.delivery.retry import AnswerVerdict, SendEnvironment, SendGate, Timer
from reconciler.delivery.supply import Job, Supply
from reconciler.model import errors
from reconciler.model.routes import Destination

log = logging.getLogger(__name__)

REPLAY_AGAIN_SECONDS = 30.0


class Consumers:
    """Of one queue; belongs to the running loop."""

    def __init__(
        self,
        queue: Queue,
        destination: Destination,
        channel: Channel,
        *,
        project: str,
        environment: SendEnvironment,
        report: SendReport,
        gate: SendGate,
    ) -> None:
        self._queue = queue
        self._name = destination.name
        self._most = destination.buffering.consumers
        self._longest_wait = destination.retry.max_interval
        self._channel = channel
        self._environment = environment
        self._report = report
        self._gate = gate
        self._holdings = Leases(queue, name=destination.name, buried=self._buried, later=self._do_later)
        self._supply = Supply(self._holdings, destination, environment=environment, gate=gate)
        self._attempts = Attempts(
            destination,
            channel,
            project=project,
            supply=self._supply,
            holdings=self._holdings,
            environment=environment,
            report=report,
            gate=gate,
            kick=self._kick,
            learned=self._learned,
        )
        self._attempts.is_replay_owed = queue.depth().dead_batches > 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._settled = asyncio.Event()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._timers: set[Timer] = set()
        self._is_replay_coming = False

    # What the exporter asks for.

    def start(self) -> None:
        """Begin to send."""
        self._keep(asyncio.create_task(self._watch(), name=f"watch-{self._name}"))
        self._kick()

    def change(self, destination: Destination, channel: Channel) -> None:
        """Other settings from the next request on."""
        self._most = destination.buffering.consumers
        self._longest_wait = destination.retry.max_interval
        self._supply.change(destination, is_elsewhere=channel is not self._channel)
        self._attempts.change(destination, channel)
        self._channel = channel
        self._kick()

    async def stop(self, *, seconds: float) -> None:
        """Claim nothing more, wait so long for what is in flight, and give the rest back."""
        self._attempts.is_stopping = True
        for timer in filter(None, (self._timer, *self._timers)):
            timer.cancel()
        busy = [task for task in self._tasks if not task.get_name().startswith("watch-")]
        if busy and seconds > 0:
            await asyncio.wait(busy, timeout=seconds)
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        self._holdings.give_back()

    def withdraw(self) -> int:
        """Give back all that is claimed and not in flight, so that it can be discarded right after this, without a
        pause: how many records of it need no sending any more.
        """
        gone, settled = self._holdings.withdraw(self._supply.idle)
        self._supply.drop(gone)
        return settled

    async def drained(self) -> None:
        """Until nothing is queued, in flight or waiting."""
        while len(self._holdings) or self._queue.depth().batches:
            self._settled.clear()
            try:
                async with asyncio.timeout(1.0):  # the queue may be emptied from elsewhere
                    await self._settled.wait()
            except TimeoutError:
                continue

    @property
    def in_flight(self) -> int:
        """Batches."""
        return self._attempts.sending

    @property
    def waiting(self) -> int:
        """Batches that wait for another attempt."""
        return self._supply.waiting.batches

    @property
    def next_in(self) -> float | None:
        """Seconds until something that waits is due, as far as that is known."""
        return self._supply.next_in()

    def proved(self, verdict: AnswerVerdict, *, has_turned: bool) -> None:
        """Something arrived past the queue, by which the breaker may have closed: what waits for an outage is due in
        any case, since an endpoint may ask a single batch to wait for an hour.
        """
        self._supply.hurry()
        self._learned(verdict, has_turned)
        self._kick()

    # Consumers.

    def _kick(self) -> None:
        """Start consumers for what there is to do, and the timer for what there will be."""
        while self._running < self._most:
            job = self._next()
            if job is None:
                break
            self._running += 1
            self._keep(asyncio.create_task(self._consume(job), name=f"send-{self._name}"))
        self._arm()

    def _next(self) -> Job | None:
        return None if self._attempts.is_stopping else self._supply.pick()

    async def _consume(self, job: Job | None) -> None:
        try:
            while job is not None:
                await self._attempts.run(job)
                self._settled.set()
                job = self._next() if self._running <= self._most else None
        finally:
            self._running -= 1
        self._kick()

    async def _watch(self) -> None:
        """Kick when something arrives while there was nothing to claim."""
        while True:
            await self._supply.hungry.wait()
            await self._queue.wait()
            self._supply.hungry.clear()
            self._kick()

    def _arm(self) -> None:
        """One timer, for what is due first. With all consumers busy it is not needed: who is done looks."""
        self._report.change(self.state)
        self._arm_replay()
        wait = self._supply.next_in() if self._running < self._most else None
        if wait is None or self._attempts.is_stopping:
            return
        at = self._environment.monotonic() + max(wait, 0.0)
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._environment.later(max(wait, 0.0), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._kick()

    @property
    def state(self) -> ExporterState:
        """What it is doing."""
        if not self._gate.is_open:
            return ExporterState.HELD if self._gate.is_held else ExporterState.CLOSED
        if not self._gate.is_up:
            return ExporterState.DOWN
        if self._attempts.sending or self._running:
            return ExporterState.SENDING
        return ExporterState.WAITING if self._supply.waiting else ExporterState.IDLE

    # The endpoint as a whole.

    def _learned(self, verdict: AnswerVerdict, has_turned: bool) -> None:
        """What a request says about it."""
        if has_turned and not self._gate.is_up:
            self._report.down(verdict.cause)
        elif has_turned:
            self._report.up()
            self._supply.hurry()
            self._attempts.is_replay_owed = True
        if verdict.delivered and self._attempts.is_replay_owed:
            self._attempts.is_replay_owed = False
            self._begin(self._replay)
        if has_turned:
            self._kick()

    def _buried(self, records: int, obituary: Obituary) -> None:
        self._report.buried(records, obituary)
        self._settled.set()

    async def _replay(self) -> None:
        """Queue the dead letters of an outage again, now that it is over; what finds no room, later."""
        batches, records = await self._queue.replay(outages_only=True)
        if batches:
            self._report.replayed(batches, records)
        if batches or self._queue.room(size=1) is not None:
            self._do_later(REPLAY_AGAIN_SECONDS, self._replay)
        self._kick()

    def _arm_replay(self) -> None:
        if self._attempts.is_replay_owed and not self._is_replay_coming and not self._attempts.is_stopping:
            self._is_replay_coming = True
            self._do_later(self._longest_wait, self._replay_one)

    async def _replay_one(self) -> None:
        """Queue one dead letter of an outage again when there is nothing else that would find out that it is over."""
        self._is_replay_coming = False
        if self._attempts.is_replay_owed and not len(self._holdings) and not self._queue.depth().batches:
            dead = self._report.counts.dead
            batches, _ = await self._queue.replay(outages_only=True, most=1)
            if not batches and self._queue.room(size=1) is None and dead == self._report.counts.dead:
                self._attempts.is_replay_owed = False  # there is none, and none has come meanwhile
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
                log.warning("The queue of %s: %s", self._name, problem.message)

        if not self._attempts.is_stopping:
            self._keep(asyncio.create_task(run(), name=f"queue-{self._name}"))

    def _do_later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            self._begin(work)

        timer = self._environment.later(seconds, ring)
        self._timers.add(timer)
