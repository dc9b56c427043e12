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
from reconciler.notifications.board import Board, Owners
from reconciler.notifications.certificates import CertificateObserver
from reconciler.notifications.models import OF_INSTANCES
from reconciler.notifications.observers import ObserverLoop
from reconciler.notifications.outbox import Outbox
from reconciler.notifications.rendering import NotificationPlace
from reconciler.notifications.replicas import ReplicaObserver
from reconciler.notifications.service_observers import DamageObserver
from reconciler.ops import databases
from reconciler.reconcile.repositories import Repositories
from reconciler.replicas.work import Holder, Work
from reconciler.server import delivering, mirror_folders
from reconciler.settings.models import Settings
from reconciler.store import files, notices
from reconciler.store.contract import Leases, Notice, Operations, Store
from reconciler.store.notices import NotificationsBody
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

    async def hear(self, notice: Notice) -> None:
        """Follow what another replica changed of notifications. Raises MsgspecError."""
        body = notices.decode(notice.body, NotificationsBody)
        self.board.follow(body.number, body.noted)

    def reloaded(self, settings: Settings) -> None:
        """Check the certificate again: the new settings may have fixed it."""
        self.certificates.again(certificate=settings.tls.cert_file)

    async def keep(self) -> None:
        """Run until cancelled. Start this once the repositories are followed."""
        async with asyncio.TaskGroup() as group:
            if self.outbox is not None:
                group.create_task(self._send(self.outbox), name="alerts")
            group.create_task(self.board.keep(), name="notifications-of-others")
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
    holder: Holder,
    leases: Leases | None,
) -> Notifying:
    """Build it with the notifications that an earlier start stored. `holder` knows the leases of this replica, and
    `leases` all replicas; None if there is only this process. Raises StoreFault.
    """
    work = Work(holder)
    place = NotificationPlace(settings.organization, settings.web_url)
    retention = timedelta(seconds=settings.notifications.retention)
    others = None
    owners = Owners()
    if leases is not None:
        others = ReplicaObserver(
            leases.ages,
            lambda: {
                one.instance for one in board.kept.values() if one.resolved is None and one.domain in OF_INSTANCES
            },
            forget=leases.forget,
            monotonic=time.monotonic,
            work=work,
        )
        owners = Owners(
            settings.replica.name,
            leases=holder,
            knows=lambda name: repositories.reconciler(name) is not None,
            follows=repositories.follows,
            is_gone=others.is_gone,
        )
    board = Board(operations, clock=clock.now, place=place, retention=retention, targets=settings.alerts, owners=owners)
    await board.load()
    outbox = Outbox(board, place=place, clock=clock.now) if settings.alerts else None
    changes = observers.ConfigurationObserver(store, monotonic=time.monotonic, work=work)
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
    damage = DamageObserver(store, set_aside=lambda: files.damaged_copies(state / files.OPERATIONS.file), work=work)
    # Of all that is kept: any folder of it may be a disk of its own.
    folders = (*databases.kept_in(settings), state / mirror_folders.MIRRORS, state / delivering.QUEUES)
    watch = ObserverLoop(
        board,
        (
            observers.RepositoryObserver(repositories.followed, store),
            observers.FlowObserver(
                repositories.followed,
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
            *(() if others is None else (others,)),
        ),
        every=settings.notifications.interval,
    )
    return Notifying(board, watch, outbox, settings, listeners, ends, damage)
