"""Delivery as the daemon runs it: built from the settings, told of every change of the store, ended with the rest.

Belongs here: settings made plain, and what is begun and ended in which order. Does not: what the parts do.
"""

import contextlib
import logging
import random
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from reconciler.daemon.routing import RouteFollowing
from reconciler.delivery import draining, egress
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.draining import ExpiryMoment
from reconciler.delivery.egress import EgressPolicy, Listener
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.http_client import HttpClient
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.manager import Manager
from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.queue.queues import Queues
from reconciler.delivery.retry import SendEnvironment, system_clock
from reconciler.model.routes import Destination
from reconciler.reconcile.apply import Applier
from reconciler.schedules import Schedules
from reconciler.settings.models import Settings
from reconciler.store.contract import Store

log = logging.getLogger(__name__)

QUEUES = "queues"
EXPIRY_SECONDS = 600.0
DISK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Delivering:
    """Delivery that is up."""

    manager: Manager
    routing: RouteFollowing

    async def keep(self, store: Store) -> None:
        """Follow what every project routes, for ever."""
        await self.routing.keep(sorted({*await store.projects(), *await self.manager.projects()}))


def egress_policy(settings: Settings, listeners: Sequence[socket.socket]) -> EgressPolicy:
    """Where deliveries may go: never to a listener of the service itself."""
    return EgressPolicy(
        listeners=tuple(_listener(one) for one in listeners),
        is_local=egress.machine_has,
        allow=settings.delivery.egress.allow,
        deny=settings.delivery.egress.deny,
    )


@contextlib.asynccontextmanager
async def delivering(
    settings: Settings, listeners: Sequence[socket.socket], *, applier: Applier, environment: Mapping[str, str]
) -> AsyncIterator[Delivering]:
    """Delivery for as long as the context lasts. Before its end, `manager.drain` waits for what is in flight.

    Raises Refused when the queues cannot be had.
    """
    delivery = settings.delivery
    chance = random.Random()  # noqa: S311 (it spreads waits)
    secrets = delivery_secrets.configured_sources(settings, environment=environment)
    queues = Queues(settings.state_dir / QUEUES, reserve=delivery.free_bytes, clock=system_clock)
    to = egress_policy(settings, listeners)
    async with HttpClient(policy=to, proxy=settings.outbound.proxy, connections=_most_connections()) as client:
        outlet = HttpSender(client, secrets=secrets, authorities=settings.outbound.ca_file)
        surroundings = SendEnvironment(random=chance)

        def make(project: str, destination: Destination, queue: Queue | None) -> Exporter:
            return Exporter(destination, project=project, queue=queue, outlet=outlet, environment=surroundings)

        async def look_up(project: str, name: str) -> Destination | None:
            routes = await applier.routes(project, (name,))
            return next((one for one in (*routes.destinations, *routes.former) if one.name == name), None)

        await queues.start()
        dead_bytes = delivery.dead_letters.max_bytes
        manager = Manager(queues, make, look_up, clock=system_clock, dead_bytes=dead_bytes, chance=chance)
        routing = RouteFollowing(applier.routes, manager, monotonic=time.monotonic)
        manager.follow(routing.ask, routing.behind)
        applier.listen(routing.heard)
        schedules = Upkeep(manager, queues, max_age=delivery.dead_letters.max_age, now=_now).scheduled()
        try:
            yield Delivering(manager, routing)
        finally:
            await schedules.stop()
            await manager.drain(seconds=0)
            await manager.close()


class Upkeep:
    """What comes round: dead letters that expire, and a look at the disk."""

    def __init__(self, manager: Manager, queues: Queues, *, max_age: float, now: Callable[[], ExpiryMoment]) -> None:
        """`max_age` of dead letters in seconds."""
        self._manager = manager
        self._queues = queues
        self._max_age = max_age
        self._now = now
        self._first = now()
        self._is_ahead = False
        self._is_low = False

    def scheduled(self) -> Schedules:
        """Begin with it."""
        schedules = Schedules()
        schedules.every(EXPIRY_SECONDS, self.expire, name="dead-letters")
        schedules.every(DISK_SECONDS, self.look_at_disk, name="room-on-the-disk")
        schedules.start()
        return schedules

    async def expire(self) -> None:
        """Forget dead letters that are too old, by the time that passed where the clock was set ahead."""
        now = self._now()
        is_ahead = draining.is_ahead(self._first, now)
        if is_ahead and not self._is_ahead:
            log.warning(
                "The clock was set ahead by more than an hour: dead letters age as if it had not been, until the "
                "service is restarted."
            )
        self._is_ahead = is_ahead
        await self._manager.expire(before=draining.believed_moment(self._first, now) - int(self._max_age * 1000))

    async def look_at_disk(self) -> None:
        """Say when the disk is down to what queues leave free, and when there is room again."""
        is_low = self._queues.spare() < 0
        if is_low and not self._is_low:
            log.warning(
                "The disk has less room than `delivery.freeBytes`: log records are refused until there is more."
            )
        if self._is_low and not is_low:
            log.info("The disk has room again; log records are taken.")
        self._is_low = is_low


def _listener(listening: socket.socket) -> Listener:
    host, port = listening.getsockname()[:2]
    return Listener(ip_address(host), port)


def _most_connections() -> int:
    """For all destinations together. Each has as many as consumers, and this bound is far away, so that a slow one
    starves nobody: half of the files that may be open, since queues, repositories and senders need some as well.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft // 2


def _now() -> ExpiryMoment:
    return ExpiryMoment(system_clock(), time.clock_gettime(time.CLOCK_BOOTTIME))  # it goes on while the machine sleeps
