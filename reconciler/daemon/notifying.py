"""Notifications and alerts as the daemon runs them: built from the settings and the parts that are looked at.

Belongs here: settings made plain, and what is begun. Does not: what the parts do.
"""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from reconciler import clock
from reconciler.applying import Applier
from reconciler.daemon import delivering
from reconciler.delivery.manager import Manager
from reconciler.egress.client import Client
from reconciler.notifications.models import Severity, Type
from reconciler.notifications.rendering import Place
from reconciler.notifications.telling import Filter
from reconciler.notifying import certificates, configurations, delivery, repositories, store
from reconciler.notifying.board import Board
from reconciler.notifying.watching import Watch
from reconciler.operations.contract import Operations
from reconciler.reconciling.repositories import Repositories
from reconciler.secrets import sources
from reconciler.settings.alerts import Alert
from reconciler.settings.models import Settings
from reconciler.store.contract import Store

if TYPE_CHECKING:  # most services have no alerts
    from reconciler.notifying.outbox import Outbox, Recipient

CONNECTIONS = 20  # for all targets together; each has one request under way


@dataclass(frozen=True, slots=True)
class Notifying:
    """Notifications that are kept; `keep` looks for what may be wrong, and sends alerts."""

    board: Board
    watch: Watch
    outbox: "Outbox | None"
    settings: Settings
    listeners: Sequence[socket.socket]

    async def keep(self) -> None:
        """For ever, once the repositories are followed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watch.keep(), name="look-for-trouble")
            if self.outbox is not None:
                group.create_task(self._send(self.outbox), name="alerts")

    async def _send(self, outbox: "Outbox") -> None:
        policy = delivering.policy(self.settings, self.listeners)
        outbound = self.settings.outbound
        async with Client(policy=policy, proxy=outbound.proxy, connections=CONNECTIONS) as client:
            await outbox.keep(client, authorities=outbound.ca_file)


async def built(
    settings: Settings,
    operations: Operations,
    *,
    store_: Store,
    applier: Applier,
    repositories_: Repositories,
    manager: Manager,
    listeners: Sequence[socket.socket],
    environment: Mapping[str, str],
) -> Notifying:
    """With what an earlier start kept. Raises StoreFault."""
    place = Place(settings.organization, settings.web_url)
    outbox = await _outbox(settings, operations, place)
    retention = timedelta(seconds=settings.notifications.retention)
    board = Board(operations, clock=clock.now, place=place, retention=retention, outbox=outbox)
    await board.load()
    changes = configurations.Observer(store_, monotonic=time.monotonic)
    applier.listen(changes.heard)
    own = certificates.Own(certificate=settings.tls.cert_file, authorities=settings.outbound.ca_file)
    secrets = sources.configured(settings, environment=environment)
    observers = (
        repositories.Observer(repositories_, store_),
        changes,
        delivery.Observer(manager, folder=str(settings.state_dir), clock=clock.now),
        certificates.Observer(own, manager, secrets=secrets, clock=clock.now, monotonic=time.monotonic),
        store.Observer(store_, clock=clock.now),
    )
    return Notifying(board, Watch(board, observers), outbox, settings, listeners)


async def _outbox(settings: Settings, operations: Operations, place: Place) -> "Outbox | None":
    if not settings.alerts:
        return None
    from reconciler.notifying.outbox import Outbox  # noqa: PLC0415 - most services have no alerts

    outbox = Outbox([_recipient(one) for one in settings.alerts], operations, place=place, clock=clock.now)
    await outbox.load()
    return outbox


def _recipient(alert: Alert) -> "Recipient":
    from reconciler.notifying.outbox import Recipient  # noqa: PLC0415 - likewise

    wanted = Filter(
        severities=frozenset(map(Severity, alert.severities)),
        types=frozenset(map(Type, alert.types)),
        projects=frozenset(alert.projects),
    )
    return Recipient(
        name=alert.name, wanted=wanted, url=alert.url, url_file=alert.url_file, secret_file=alert.secret_file
    )
