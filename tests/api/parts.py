"""The parts behind the application, put together as the daemon does: a store's file, a worker, an applier, and
watched repositories.

Only time is not real: it stands still until a test moves it, so that whole answers can be asserted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from api.calls import Services
from reconciler.auth.accounts import Accounts
from reconciler.auth.sessions import SessionLifetimes, Sessions
from reconciler.auth.sign_in import SigningIn
from reconciler.delivery.contract import IntakeRoom, RecordRates
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.delivery.status import DeliveryFigures
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.model import principals
from reconciler.model.secret_references import AvailableSecrets
from reconciler.notifications.board import Board
from reconciler.notifications.rendering import NotificationPlace as Shown
from reconciler.ops.events import Events
from reconciler.reconcile.apply import Applier, ApplyLimits
from reconciler.reconcile.reconciler import ReconcileEnvironment
from reconciler.reconcile.repositories import Repositories
from reconciler.review.service import Reviewing
from reconciler.server import mirror_folders
from reconciler.server.parts import event_facts
from reconciler.settings.repositories import Repository
from reconciler.store.records import Committed
from reconciler.worker.client import WorkerClient
from tests import entries, stores
from tests.api.delivering import Kept

DEFAULT = "default"
SERVICE = principals.actor_in(principals.SERVICE_KEY, DEFAULT)  # the service's own key, as it changes resources
KEY = "canary-0123456789abcdef0123456789abcdef"
MAX_BODY_BYTES = 20_000
MAX_RESOURCES = 60  # in one request
RECORDS_A_SECOND = 1_000_000
IN_FLIGHT_BYTES = 128 << 20
API_VERSIONS = frozenset({"service/v1"})
SECRETS = AvailableSecrets(env=frozenset({"TEAM", "TOKEN"}), files=frozenset({"token"}))  # what resources may refer to
START = datetime(2026, 11, 21, 6, 12, 0, 123_000, tzinfo=UTC)
AT = "2026-11-21T06:12:00.123Z"
NEVER = 86_400.0  # seconds: no test waits for a poll
NO_FIGURES = DeliveryFigures((), DeliveryCounts(), {}, 0, 0)
LIFETIMES = SessionLifetimes(idle=7_200.0, absolute=43_200.0)


class Moment:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.instant = START

    def __call__(self) -> datetime:
        return self.instant

    def pass_(self, **duration: float) -> None:
        """Let time pass."""
        self.instant += timedelta(**duration)


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that is behind the application."""

    services: Services
    reader: WorkerClient
    environment: ReconcileEnvironment
    repositories: Repositories
    clock: Moment


@asynccontextmanager
async def started(
    folder: Path, *, reader: WorkerClient | None = None, worker: Callable[..., WorkerClient] = WorkerClient
) -> AsyncIterator[Parts]:
    """All parts, on the loop that runs this, with the project `default`.

    `reader` is the worker on SQLite; `worker` makes one on either engine.
    """
    clock = Moment()
    opened = await stores.opened(folder)
    store, operations = opened.store, opened.operations
    reader = reader or worker(**stores.worker_options(opened, folder / "mirrors"))
    try:
        await store.create_project(DEFAULT, at=AT)
        accounts = Accounts(store, await store.directory(), clock=clock)
        sessions = Sessions(operations, accounts, lifetimes=LIFETIMES, clock=clock)
        await reader.start()
        limits = ApplyLimits(api_versions=API_VERSIONS, max_resources=MAX_RESOURCES)
        applier = Applier(store, reader, limits=limits, secrets=lambda _: SECRETS, clock=clock)
        environment = ReconcileEnvironment(
            store=store,
            applier=applier,
            remotes=Remotes(lambda source: _place(source, folder), clock=asyncio.get_running_loop().time),
            ensure_project=accounts.ensure_project,
            rules="",
            clock=clock,
        )
        repositories = Repositories(environment)
        board = Board(operations, clock=clock, place=Shown("default", "http://service"))
        events = Events(lambda: event_facts(repositories, NO_FIGURES), lambda: board.kept)
        store.subscribe(Committed, events.heard)
        board.marked = events.marked
        services = Services(
            store=store,
            applier=applier,
            repositories=repositories,
            reviewing=Reviewing(repositories, store=store, applier=applier, clock=clock),
            accounts=accounts,
            signing_in=SigningIn(accounts),
            clock=clock,
            api_key=KEY,
            max_body_bytes=MAX_BODY_BYTES,
            deliveries=Kept(),
            rates=RecordRates(RECORDS_A_SECOND),
            room=IntakeRoom(IN_FLIGHT_BYTES),
            log_limits=RequestLimits(),
            sessions=sessions,
            board=board,
            events=events,
        )
        try:
            yield Parts(
                services=services, reader=reader, environment=environment, repositories=repositories, clock=clock
            )
        finally:
            await repositories.stop()
    finally:
        await reader.stop()
        await operations.close()
        await store.close()


def watched(name: str, source: Path, *, project: str, **settings: Any) -> Repository:
    """A repository to watch, with the defaults of the settings, that is never polled."""
    never = {"interval": NEVER, "full_interval": NEVER}
    return entries.watched(name, str(source), project=project, **{**never, **settings})


def destination(name: str, **metadata: Any) -> dict[str, Any]:
    """A small resource."""
    return {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": name, **metadata},
        "spec": {"type": "webhook", "parameters": [{"name": "hostname", "value": "logs.example.org"}]},
    }


def _place(source: Source, folder: Path) -> RemotePlace:
    name = mirror_folders.remote_place(source.url, source.credentials)
    return RemotePlace(folder / "mirrors" / f"{name}.git", folder / "git" / name, folder / "mirrors")
