"""Delivery as the daemon runs it: queues, exporters and routes put together, and dead letters that expire."""

import contextlib
import random
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

import msgspec

from reconciler.delivery import history, http_client
from reconciler.delivery.breaker import SendEnvironment, system_clock
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.http_client import EgressPolicy, HttpClient, Listener
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.manager import Manager
from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.queue.queues import Queues
from reconciler.delivery.queue_exporter import QueueExporter
from reconciler.delivery.secrets import SecretSources
from reconciler.model.routes import Destination, Routes
from reconciler.reconcile.apply import Applier
from reconciler.server.project_following import RouteFollowing
from reconciler.server.schedules import Job, scheduled
from reconciler.settings.models import Settings
from reconciler.store.contract import Store
from reconciler.store.records import ResourceChange

QUEUES = "queues"
EXPIRY_SECONDS = 600.0

_routes = msgspec.msgpack.Decoder(Routes)


@dataclass(frozen=True, slots=True)
class Delivering:
    """Delivery that is up."""

    manager: Manager
    routing: RouteFollowing


def egress_policy(settings: Settings, listeners: Sequence[socket.socket]) -> EgressPolicy:
    """Return the egress policy of deliveries: never to a listener of the service itself."""
    names = [one.getsockname() for one in listeners]
    return EgressPolicy(
        listeners=tuple(Listener(ip_address(host), port) for host, port, *_ in names),
        is_local=http_client.machine_has,
        allow=settings.delivery.egress.allow,
        deny=settings.delivery.egress.deny,
    )


@contextlib.asynccontextmanager
async def delivering(
    settings: Settings,
    listeners: Sequence[socket.socket],
    *,
    store: Store,
    applier: Applier,
    secrets: SecretSources,
) -> AsyncIterator[Delivering]:
    """Run delivery inside this context. Call `manager.drain` before its end, to wait for requests in flight.

    Raises Refused if the queues cannot be opened.
    """
    delivery = settings.delivery
    chance = random.Random()  # noqa: S311 (it spreads waits)
    queues = Queues(settings.state_dir / QUEUES, reserve=delivery.free_bytes, clock=system_clock)
    to = egress_policy(settings, listeners)
    async with HttpClient(policy=to, proxy=settings.outbound.proxy, connections=_most_connections()) as client:
        outlet = HttpSender(client, secrets=secrets, authorities=settings.outbound.ca_file, clock=system_clock)
        surroundings = SendEnvironment(random=chance)

        def make(project: str, destination: Destination, queue: Queue | None) -> Exporter:
            if queue is None:
                return Exporter(destination, project=project, outlet=outlet, environment=surroundings)
            return QueueExporter(destination, queue=queue, project=project, outlet=outlet, environment=surroundings)

        async def read(project: str, left: tuple[str, ...]) -> Routes:
            return _routes.decode(await applier.routes(project, left))

        async def look_up(project: str, name: str) -> Destination | None:
            routes = await read(project, (name,))
            return next((one for one in (*routes.destinations, *routes.former) if one.name == name), None)

        await queues.start()
        dead_bytes = delivery.dead_letters.max_bytes
        manager = Manager(queues, make, look_up, clock=system_clock, dead_bytes=dead_bytes, chance=chance)
        routing = RouteFollowing(read, manager, monotonic=time.monotonic)
        manager.follow(routing.ask, routing.behind)
        store.subscribe(ResourceChange, routing.heard)
        expiry = Expiry(manager, max_age=delivery.dead_letters.max_age, now=_now)
        try:
            async with scheduled(
                Job("dead-letters", EXPIRY_SECONDS, expiry.expire),
                Job("delivery-history", history.INTERVAL_SECONDS, manager.sample),
            ):
                yield Delivering(manager, routing)
        finally:
            await manager.drain(seconds=0)
            await manager.close()


class ExpiryMoment(NamedTuple):
    """One moment on both clocks: Unix milliseconds, which may jump, and seconds of a monotonic clock.

    If the clock is set a year ahead, everything would expire at once, and expired dead letters do not come back. So
    time continues from the start of the process on the monotonic clock, and the system's clock counts only if it is
    behind. A clock that was wrong at the start is not noticed.
    """

    wall: int
    monotonic: float


def believed_moment(first: ExpiryMoment, now: ExpiryMoment) -> int:
    """Return the system's Unix milliseconds, but at most the first moment plus the passed time."""
    return min(now.wall, first.wall + round((now.monotonic - first.monotonic) * 1000))


class Expiry:
    """Expires old dead letters. If the clock was set ahead, the passed time counts."""

    def __init__(self, manager: Manager, *, max_age: float, now: Callable[[], ExpiryMoment]) -> None:
        """`max_age` in seconds."""
        self._manager = manager
        self._max_age = max_age
        self._now = now
        self._first = now()

    async def expire(self) -> None:
        """Delete dead letters that are too old."""
        await self._manager.expire(before=believed_moment(self._first, self._now()) - int(self._max_age * 1000))


def _most_connections() -> int:
    """Return the limit on connections of all destinations together. Each has as many as consumers. The limit is high,
    so that a slow one does not starve others: half of the files that may be open, since other parts need files too.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft // 2


def _now() -> ExpiryMoment:
    return ExpiryMoment(system_clock(), time.clock_gettime(time.CLOCK_BOOTTIME))  # it goes on while the machine sleeps
