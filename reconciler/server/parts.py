"""The parts of the daemon."""

import asyncio
import contextlib
import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import schemas
from api import responses
from api.calls import Services
from reconciler.auth.accounts import Accounts
from reconciler.auth.rate_limits import RefusedAttempts
from reconciler.auth.sessions import SessionLifetimes, Sessions
from reconciler.auth.sign_in import People, SigningIn
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.contract import IntakeRoom, RecordRates
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.git.remotes.following import Remotes
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.model.principals import DEFAULT_PROJECT, LOCAL
from reconciler.ops import databases, delivery_metrics
from reconciler.ops.metrics import Measured
from reconciler.reconcile.apply import Applier, ApplyLimits
from reconciler.reconcile.reconciler import ReconcileEnvironment
from reconciler.reconcile.repositories import Repositories
from reconciler.review.service import Reviewing
from reconciler.server import delivering, following, notifying, process, serving, sign_in
from reconciler.server.delivering import Delivering
from reconciler.server.notifying import Notifying
from reconciler.server.process import ShutdownDeadline
from reconciler.server.schedules import AuditUpkeep
from reconciler.settings.models import Settings
from reconciler.store import engines, files
from reconciler.store.contract import Operations, Store
from reconciler.store.records import ResourceChange
from reconciler.worker.client import WorkerClient

if TYPE_CHECKING:
    from reconciler.auth.oidc.provider import Provider


class Parts(NamedTuple):
    """The parts that are up."""

    services: Services
    repositories: Repositories
    delivery: Delivering
    notifying: Notifying
    auditing: AuditUpkeep


class _Kept(NamedTuple):
    """The open store, and everybody."""

    store: Store
    operations: Operations
    accounts: Accounts


class _Entrance(NamedTuple):
    """The parts by which people sign in."""

    signing_in: SigningIn
    sessions: Sessions
    people: People | None
    provider: "Provider | None"


@contextlib.asynccontextmanager
async def build_parts(
    settings: Settings,
    bound: ShutdownDeadline,
    *,
    listeners: Sequence[socket.socket],
    environment: Mapping[str, str],
    confirm_auth_change: bool,
    new_store: bool,
) -> AsyncIterator[Parts]:
    """Store, worker, applier, repositories and delivery; stopped in the opposite order.

    `listeners` are the service's own, to which nothing is delivered. Raises Refused, StoreFault.
    """
    async with (
        _kept(settings, bound, confirm_auth_change=confirm_auth_change, new_store=new_store) as kept,
        _worker(settings, bound, kept.store) as worker,
    ):
        limits = ApplyLimits(
            api_versions=settings.api.accepted_versions,
            max_resources=settings.api.max_resources,
            refuse_unknown=settings.resources.refuse_unknown,
        )
        secrets = partial(
            delivery_secrets.available_secrets, delivery_secrets.configured_sources(settings, environment=environment)
        )
        applier = Applier(
            kept.store, worker, store_address=kept.store.address, limits=limits, secrets=secrets, clock=clock.now
        )
        auditing = AuditUpkeep(kept.store, RefusedAttempts(), retention=settings.audit.retention, clock=clock.now)
        kept.store.subscribe(ResourceChange, auditing.heard)
        async with (
            _repositories(settings, kept, applier) as repositories,
            _entrance(settings, bound, kept) as entrance,
            delivering.delivering(
                settings, listeners, store=kept.store, applier=applier, environment=environment
            ) as delivery,
        ):
            watching = await notifying.build_notifying(
                settings,
                kept.operations,
                store_=kept.store,
                accounts=kept.accounts,
                repositories_=repositories,
                manager=delivery.manager,
                listeners=listeners,
                environment=environment,
            )
            # All that a door may use: a long list, and nothing is decided in it.
            has_tls = serving.configured_certificate(settings) is not None
            services = Services(
                store=kept.store,
                applier=applier,
                repositories=repositories,
                reviewing=Reviewing(
                    repositories, store=kept.store, applier=applier, clock=clock.now, queued=delivery.manager.waiting
                ),
                accounts=kept.accounts,
                signing_in=entrance.signing_in,
                clock=clock.now,
                api_key="" if settings.api_key is None else settings.api_key.get_secret_value(),
                max_body_bytes=settings.api.max_body_bytes,
                deliveries=delivery.manager,
                rates=RecordRates(settings.delivery.records_per_second),
                room=IntakeRoom(settings.delivery.max_in_flight_bytes),
                log_limits=RequestLimits(
                    bytes=settings.delivery.max_request_bytes, records=settings.delivery.max_request_records
                ),
                sessions=entrance.sessions,
                board=watching.board,
                outbox=watching.outbox,
                auth_type=settings.auth.type,
                people=entrance.people,
                provider=entrance.provider,
                flow_key=await kept.operations.flow_key(),
                takes_invitations=entrance.people is not None and not settings.auth.oidc.disable_invitations,
                anybody=LOCAL if settings.auth.type == "none" else None,
                web_url=settings.web_url,
                trusted_proxies=settings.trusted_proxies,
                refusals=auditing.refusals,
                has_tls=has_tls,
                headers=responses.security_headers(tls=has_tls, web_url=settings.web_url),
                measured=Measured(
                    repositories=repositories,
                    deliveries=lambda now: delivery_metrics.delivery_steps(delivery.manager.figures(), now=now),
                    alerts=None if watching.outbox is None else watching.outbox.tallies,
                ),
            )
            yield Parts(services, repositories, delivery, watching, auditing)


@contextlib.asynccontextmanager
async def _kept(
    settings: Settings, bound: ShutdownDeadline, *, confirm_auth_change: bool, new_store: bool
) -> AsyncIterator[_Kept]:
    """Both files, brought to this version, and everybody who may still come in. Raises Refused, StoreFault."""
    places = databases.database_places(settings)
    missing = await asyncio.to_thread(databases.missing, places)
    if missing is not None and not new_store:
        raise Refused(missing)
    await asyncio.to_thread(files.set_aside_damaged, places.operations, at=clock.now())
    await asyncio.to_thread(databases.copy_before_upgrade, places, clock=time.monotonic, beating=process.beat)
    store, operations = await engines.open_store(settings.store.url, settings.state_dir)
    try:
        accounts = Accounts(store, await store.directory(), clock=clock.now)
        await sign_in.settle_auth(
            accounts,
            store,
            operations,
            configured=settings.auth.type,
            is_confirmed=confirm_auth_change,
            check=partial(_check_provider, settings),
        )
        if settings.auth.type == "oidc":
            await sign_in.sign_out_others(accounts, operations, issuer=settings.auth.oidc.issuer)
        await accounts.ensure_project(DEFAULT_PROJECT)
        yield _Kept(store, operations, accounts)
    finally:
        bound.begin()
        await bound.waits("a write of sessions", operations.close())
        await bound.waits("a write to the store", store.close())


@contextlib.asynccontextmanager
async def _worker(settings: Settings, bound: ShutdownDeadline, store: Store) -> AsyncIterator[WorkerClient]:
    """Start the worker. Its start decides which folders it may open, and mirrors come later: so make theirs."""
    mirrors = settings.state_dir / following.MIRRORS
    await asyncio.to_thread(mirrors.mkdir, mode=0o700, exist_ok=True)
    worker = WorkerClient(granted=(store.address, str(mirrors)))
    try:
        await worker.start()
        yield worker
    finally:
        bound.begin()
        await bound.waits("the worker", worker.stop())


@contextlib.asynccontextmanager
async def _repositories(settings: Settings, kept: _Kept, applier: Applier) -> AsyncIterator[Repositories]:
    """Those that are watched: none before they are started."""
    surroundings = _surroundings(settings, store=kept.store, applier=applier, accounts=kept.accounts)
    repositories = Repositories(surroundings)
    try:
        yield repositories
    finally:
        await repositories.stop()


@contextlib.asynccontextmanager
async def _entrance(settings: Settings, bound: ShutdownDeadline, kept: _Kept) -> AsyncIterator[_Entrance]:
    """By which people come in; what is remembered of keys and sessions is written at the end. Raises StoreFault."""
    sessions = await _sessions(settings, kept.operations, kept.accounts)
    people, provider = _through_a_provider(settings, kept.accounts, sessions)
    signing_in = SigningIn(kept.accounts)
    try:
        yield _Entrance(signing_in, sessions, people, provider)
    finally:
        signing_in.close()
        await kept.accounts.touch()
        await sessions.touch()
        if provider is not None:
            await bound.waits("the provider", provider.close())


async def _sessions(settings: Settings, operations: Operations, accounts: Accounts) -> Sessions:
    """Those of an earlier start. Raises StoreFault."""
    lifetimes = SessionLifetimes(idle=settings.auth.session.idle, absolute=settings.auth.session.lifetime)
    sessions = Sessions(operations, accounts, lifetimes=lifetimes, clock=clock.now)
    await sessions.load()
    return sessions


async def _check_provider(settings: Settings) -> None:
    """Raise Refused where people are to sign in through a provider that cannot be used."""
    if settings.auth.type == "oidc":
        await sign_in.check_provider(settings)


def _through_a_provider(
    settings: Settings, accounts: Accounts, sessions: Sessions
) -> tuple[People | None, "Provider | None"]:
    """Return the sign-in through a provider, if the settings want one."""
    if settings.auth.type != "oidc":
        return None, None
    return (
        People(accounts, sessions, policy=settings.auth.oidc, clock=clock.now),
        sign_in.build_provider(settings, clock=clock.now, monotonic=time.monotonic),
    )


def _surroundings(settings: Settings, *, store: Store, applier: Applier, accounts: Accounts) -> ReconcileEnvironment:
    return ReconcileEnvironment(
        store=store,
        applier=applier,
        remotes=Remotes(following.remote_places(settings), clock=asyncio.get_running_loop().time),
        ensure_project=accounts.ensure_project,
        rules=_rules_digest(settings),
        clock=clock.now,
    )


def _rules_digest(settings: Settings) -> str:
    """A digest of what documents are judged by: new schemas or built-in types read every file again."""
    shaping = {name: schemas.load(name) for name in sorted(schemas.names())}
    rules = [shaping, sorted(settings.api.accepted_versions), settings.resources.refuse_unknown]
    digest = hashlib.sha256(json.dumps(rules, sort_keys=True).encode())
    for name, document in sorted(schemas.built_in()):
        digest.update(name.encode() + b"\0" + document)
    return digest.hexdigest()
