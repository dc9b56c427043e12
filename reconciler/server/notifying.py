"""Notifications and alerts as the daemon runs them."""

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from reconciler.auth.accounts import Accounts
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.http_client import HttpClient
from reconciler.delivery.manager import Manager
from reconciler.model import clock
from reconciler.notifications import observers as notifications_observers
from reconciler.notifications import service_observers
from reconciler.notifications.board import Board
from reconciler.notifications.models import AlertTarget
from reconciler.notifications.observers import ObserverLoop
from reconciler.notifications.outbox import Outbox
from reconciler.notifications.rendering import NotificationPlace
from reconciler.ops import databases
from reconciler.reconcile.repositories import Repositories
from reconciler.server import delivering, following
from reconciler.settings.models import Alert, Settings
from reconciler.store import files
from reconciler.store.contract import Operations, Store
from reconciler.store.records import ResourceChange

CONNECTIONS = 2  # for each target: an alert and a test, so that those that hang keep no other waiting


@dataclass(frozen=True, slots=True)
class Notifying:
    """Notifications that are kept; `keep` looks for what may be wrong, and sends alerts."""

    board: Board
    watch: ObserverLoop
    outbox: Outbox | None
    settings: Settings
    listeners: Sequence[socket.socket]
    certificates: service_observers.CertificateObserver
    damage: service_observers.DamageObserver

    def reloaded(self, settings: Settings) -> None:
        """Look at once at what these settings may have mended."""
        self.certificates.again(certificate=settings.tls.cert_file)

    async def keep(self) -> None:
        """For ever, once the repositories are followed."""
        async with asyncio.TaskGroup() as group:
            if self.outbox is not None:
                group.create_task(self._send(self.outbox), name="alerts")
            group.create_task(self.watch.keep(), name="look-for-trouble")
            group.create_task(self.damage.keep(), name="look-for-damage")

    async def _send(self, outbox: Outbox) -> None:
        policy = delivering.egress_policy(self.settings, self.listeners)
        outbound = self.settings.outbound
        async with HttpClient(
            policy=policy, proxy=outbound.proxy, connections=CONNECTIONS * len(outbox.targets)
        ) as client:
            await outbox.keep(client, authorities=outbound.ca_file)


async def build_notifying(
    settings: Settings,
    operations: Operations,
    *,
    store_: Store,
    accounts: Accounts,
    repositories_: Repositories,
    manager: Manager,
    listeners: Sequence[socket.socket],
    environment: Mapping[str, str],
) -> Notifying:
    """With what an earlier start kept. Raises StoreFault."""
    place = NotificationPlace(settings.organization, settings.web_url)
    targets = [_target(one) for one in settings.alerts]
    retention = timedelta(seconds=settings.notifications.retention)
    board = Board(operations, clock=clock.now, place=place, retention=retention, targets=targets)
    await board.load()
    outbox = Outbox(board, place=place, clock=clock.now) if targets else None
    changes = notifications_observers.ConfigurationObserver(store_, monotonic=time.monotonic)
    store_.subscribe(ResourceChange, changes.heard)
    ends = service_observers.CertificateObserver(
        repositories_.reconcilers,
        manager.figures,
        manager.followed,
        secrets=delivery_secrets.configured_sources(settings, environment=environment),
        clock=clock.now,
        monotonic=time.monotonic,
        certificate=settings.tls.cert_file,
        authorities=settings.outbound.ca_file,
    )
    operations_file = databases.database_places(settings).operations
    damage = service_observers.DamageObserver(store_, set_aside=lambda: files.damaged_copies(operations_file))
    observers = (
        notifications_observers.RepositoryObserver(repositories_.reconcilers, store_),
        changes,
        notifications_observers.DeliveryObserver(manager.figures, manager.followed, clock=clock.now),
        _disks(settings),
        ends,
        service_observers.KeyObserver(lambda: accounts.directory, clock=clock.now),
        service_observers.StoreObserver(store_, unwritten=lambda: board.unwritten, clock=clock.now),
        damage,
        service_observers.OpenFilesObserver(),
    )
    watch = ObserverLoop(board, observers, every=settings.notifications.interval)
    return Notifying(board, watch, outbox, settings, listeners, ends, damage)


def _disks(settings: Settings) -> service_observers.DiskObserver:
    """Of all that is kept: any folder of it may be a disk of its own."""
    queues = settings.state_dir / delivering.QUEUES
    folders = (
        settings.state_dir,
        databases.database_places(settings).store.parent,
        settings.state_dir / following.MIRRORS,
        queues,
    )
    return service_observers.DiskObserver(folders, queues=queues, reserve=settings.delivery.free_bytes)


def _target(alert: Alert) -> AlertTarget:
    return AlertTarget(
        name=alert.name,
        url=alert.url,
        url_file=alert.url_file,
        secret_file=alert.secret_file,
        severities=alert.severities,
        types=alert.types,
        projects=alert.projects,
    )
