"""Notifications and alerts as the daemon runs them."""

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from reconciler.auth.accounts import Accounts
from reconciler.delivery.http_client import HttpClient
from reconciler.delivery.manager import Manager
from reconciler.delivery.secrets import SecretSources
from reconciler.model import clock
from reconciler.notifications import observers, service_observers
from reconciler.notifications.board import Board
from reconciler.notifications.certificates import CertificateObserver
from reconciler.notifications.observers import ObserverLoop
from reconciler.notifications.outbox import Outbox
from reconciler.notifications.rendering import NotificationPlace
from reconciler.notifications.service_observers import DamageObserver
from reconciler.ops import databases
from reconciler.reconcile.repositories import Repositories
from reconciler.server import delivering, following
from reconciler.settings.models import Settings
from reconciler.store import files
from reconciler.store.contract import Operations, Store
from reconciler.store.records import ResourceChange

CONNECTIONS = 2  # for each target: an alert and a test, so that those that hang keep no other waiting


@dataclass(frozen=True, slots=True)
class Notifying:
    """The running notifications: `keep` checks for causes and sends alerts."""

    board: Board
    watch: ObserverLoop
    outbox: Outbox | None
    settings: Settings
    listeners: Sequence[socket.socket]
    certificates: CertificateObserver
    damage: DamageObserver

    def reloaded(self, settings: Settings) -> None:
        """Check the certificate again: the new settings may have fixed it."""
        self.certificates.again(certificate=settings.tls.cert_file)

    async def keep(self) -> None:
        """Run until cancelled. Start this once the repositories are followed."""
        async with asyncio.TaskGroup() as group:
            if self.outbox is not None:
                group.create_task(self._send(self.outbox), name="alerts")
            group.create_task(self.watch.keep(), name="look-for-trouble")
            group.create_task(self.damage.keep(), name="look-for-damage")

    async def _send(self, outbox: Outbox) -> None:
        policy = delivering.egress_policy(self.settings, self.listeners)
        outbound, connections = self.settings.outbound, CONNECTIONS * len(outbox.targets)
        async with HttpClient(policy=policy, proxy=outbound.proxy, connections=connections) as client:
            await outbox.keep(client, authorities=outbound.ca_file)


async def build_notifying(
    settings: Settings,
    operations: Operations,
    *,
    store: Store,
    accounts: Accounts,
    repositories: Repositories,
    manager: Manager,
    listeners: Sequence[socket.socket],
    secrets: SecretSources,
) -> Notifying:
    """Build it with the notifications that an earlier start stored. Raises StoreFault."""
    place = NotificationPlace(settings.organization, settings.web_url)
    retention = timedelta(seconds=settings.notifications.retention)
    board = Board(operations, clock=clock.now, place=place, retention=retention, targets=settings.alerts)
    await board.load()
    outbox = Outbox(board, place=place, clock=clock.now) if settings.alerts else None
    changes = observers.ConfigurationObserver(store, monotonic=time.monotonic)
    store.subscribe(ResourceChange, changes.heard)
    ends = CertificateObserver(
        repositories.reconcilers,
        manager.figures,
        manager.followed,
        secrets=secrets,
        clock=clock.now,
        certificate=settings.tls.cert_file,
        authorities=settings.outbound.ca_file,
    )
    state = settings.state_dir
    damage = DamageObserver(store, set_aside=lambda: files.damaged_copies(state / files.OPERATIONS.file))
    # Of all that is kept: any folder of it may be a disk of its own.
    folders = (*databases.kept_in(settings), state / following.MIRRORS, state / delivering.QUEUES)
    watch = ObserverLoop(
        board,
        (
            observers.RepositoryObserver(repositories.reconcilers, store),
            observers.FlowObserver(
                repositories.reconcilers,
                store,
                followed=manager.followed,
                delivers=manager.delivers,
                clock=clock.now,
            ),
            changes,
            observers.DeliveryObserver(manager.figures, manager.followed, clock=clock.now),
            service_observers.DiskObserver(folders, reserve=settings.delivery.free_bytes),
            ends,
            service_observers.KeyObserver(lambda: accounts.directory, clock=clock.now),
            service_observers.StoreObserver(store, unwritten=lambda: board.unwritten, clock=clock.now),
            damage,
            service_observers.OpenFilesObserver(),
        ),
        every=settings.notifications.interval,
    )
    return Notifying(board, watch, outbox, settings, listeners, ends, damage)
