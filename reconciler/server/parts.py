"""The parts of the daemon, and the decisions of its caller."""

import asyncio
import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

import schemas
from api import responses
from api.calls import Services
from reconciler.auth.accounts import Accounts
from reconciler.auth.oidc.provider import Provider
from reconciler.auth.rate_limits import RefusedAttempts
from reconciler.auth.sessions import SessionLifetimes, Sessions
from reconciler.auth.sign_in import People, SigningIn
from reconciler.delivery import secrets as delivery_secrets
from reconciler.delivery.contract import IntakeRoom, RecordRates
from reconciler.delivery.lanes import Lane
from reconciler.delivery.manager import Manager
from reconciler.delivery.otlp.models import RequestLimits
from reconciler.delivery.status import DeliveryFigures
from reconciler.git.remotes.following import Remotes
from reconciler.model import clock
from reconciler.model.errors import Refused
from reconciler.model.principals import DEFAULT_PROJECT, LOCAL
from reconciler.ops import databases, doctor
from reconciler.ops.events import Events, Facts, Topic
from reconciler.ops.metrics import MetricSources
from reconciler.ops.traffic import Traffic
from reconciler.reconcile.apply import Applier, ApplyLimits
from reconciler.reconcile.reconciler import ReconcileEnvironment
from reconciler.reconcile.repositories import Repositories
from reconciler.replicas.keeper import LeaseKeeper
from reconciler.replicas.work import Alone, Work
from reconciler.review.service import Reviewing
from reconciler.server import delivering, mirror_folders, notifying, process, serving, sign_in
from reconciler.server.delivering import Delivering
from reconciler.server.notifying import Notifying
from reconciler.server.process import ShutdownDeadline
from reconciler.server.project_following import RenderingFollowing
from reconciler.server.replicating import ReplicaParts
from reconciler.server.schedules import AuditUpkeep
from reconciler.settings.models import Settings
from reconciler.store import engines, files
from reconciler.store.contract import Operations, Store
from reconciler.store.records import Committed, ResourceChange
from reconciler.worker.client import WorkerClient
from reconciler.worker.sandbox import Protections


@dataclass(frozen=True, slots=True)
class Running:
    """A running daemon: its listeners and its parts."""

    address: str
    services: Services


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The caller's decisions: the settings and how to read them again, the action when everything is up, the variables
    that resources may refer to (within the settings), if another `auth.type` may remove everybody (`sign_in`), and if a
    missing store may be created.
    """

    settings: Settings
    reload: Callable[[], Settings]
    when_up: Callable[[Running], Coroutine[Any, Any, None]]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    confirm_auth_change: bool = False
    new_store: bool = False


class Parts(NamedTuple):
    """The running parts."""

    services: Services
    repositories: Repositories
    delivery: Delivering
    notifying: Notifying
    auditing: AuditUpkeep
    rendering: RenderingFollowing
    work: Work
    keeper: LeaseKeeper | None  # of several replicas
    following: asyncio.Task[None] | None  # the changes of other replicas


@contextlib.asynccontextmanager
async def build_parts(
    plan: StartPlan, bound: ShutdownDeadline, *, listeners: Sequence[socket.socket]
) -> AsyncIterator[Parts]:
    """Build store, worker, applier, repositories, sign-in and delivery, and stop them in the opposite order.

    `listeners` are the service's own, to which nothing is delivered. Raises Refused, StoreFault.
    """
    settings = plan.settings
    async with contextlib.AsyncExitStack() as opened:
        kept = await opened.enter_async_context(_store(settings, bound, new_store=plan.new_store))
        store, operations, replication = kept.store, kept.operations, kept.replication
        flow_key, replica = await operations.flow_key(), None
        if replication is not None:
            replica = await opened.enter_async_context(
                ReplicaParts.opened(settings, store=store, replication=replication, flow_key=flow_key)
            )
        holder = Alone() if replica is None else replica.keeper
        work = Work(holder)
        accounts = await _accounts(plan, store, operations)
        worker = await opened.enter_async_context(_worker(settings, bound, kept))
        sources = delivery_secrets.configured_sources(settings, environment=plan.environment)
        applier = Applier(
            store,
            worker,
            limits=ApplyLimits(
                api_versions=settings.api.accepted_versions,
                max_resources=settings.api.max_resources,
                refuse_unknown=settings.resources.refuse_unknown,
            ),
            secrets=partial(delivery_secrets.available_secrets, sources),
            clock=clock.now,
            work=work,
        )
        auditing = AuditUpkeep(store, RefusedAttempts(), retention=settings.audit.retention, clock=clock.now, work=work)
        store.subscribe(ResourceChange, auditing.heard)
        repositories = Repositories(
            ReconcileEnvironment(
                store=store,
                applier=applier,
                remotes=Remotes(mirror_folders.remote_places(settings), clock=asyncio.get_running_loop().time),
                ensure_project=accounts.ensure_project,
                rules=_rules_digest(settings),
                clock=clock.now,
                keeper=None if replica is None else replica.keeper,
                notices=None if replication is None else replication.notices,
            )
        )
        opened.push_async_callback(repositories.stop)
        signing = await opened.enter_async_context(
            _sign_in(settings, bound, operations, accounts, is_shared=replica is not None)
        )
        delivery = await opened.enter_async_context(
            delivering.delivering(settings, listeners, store=store, applier=applier, secrets=sources)
        )
        watching = await notifying.build_notifying(
            settings,
            operations,
            store=store,
            accounts=accounts,
            repositories=repositories,
            manager=delivery.manager,
            listeners=listeners,
            secrets=sources,
            holder=holder,
            leases=None if kept.replication is None else kept.replication.leases,
        )
        services = _services(
            settings,
            store=store,
            accounts=accounts,
            applier=applier,
            auditing=auditing,
            repositories=repositories,
            signing=signing,
            manager=delivery.manager,
            watching=watching,
            flow_key=flow_key,
            replica=replica,
        )
        following_changes, keeper = None, None if replica is None else replica.keeper
        if replica is not None:
            following_changes = await opened.enter_async_context(replica.following_changes(services, watching))
        rendering = RenderingFollowing(applier.render, work)
        store.subscribe(ResourceChange, rendering.heard)
        yield Parts(services, repositories, delivery, watching, auditing, rendering, work, keeper, following_changes)


class SignInParts(NamedTuple):
    """The parts for signing in. The last two are None unless `auth.type` is `oidc`."""

    sessions: Sessions
    signing_in: SigningIn
    people: People | None
    provider: Provider | None


@contextlib.asynccontextmanager
async def _sign_in(
    settings: Settings, bound: ShutdownDeadline, operations: Operations, accounts: Accounts, *, is_shared: bool
) -> AsyncIterator[SignInParts]:
    """Run sign-in. At the end, the last uses of keys and sessions are written. Raises StoreFault."""
    lifetimes = SessionLifetimes(idle=settings.auth.session.idle, absolute=settings.auth.session.lifetime)
    sessions = Sessions(operations, accounts, lifetimes=lifetimes, clock=clock.now, is_shared=is_shared)
    await sessions.load()
    people, provider = None, None
    async with contextlib.AsyncExitStack() as opened:
        if settings.auth.type == "oidc":
            people = People(accounts, sessions, policy=settings.auth.oidc, clock=clock.now)
            provider = sign_in.build_provider(settings)
            opened.push_async_callback(bound.waits, "the provider", provider.close)
        opened.push_async_callback(sessions.touch)
        opened.push_async_callback(accounts.touch)
        signing_in = SigningIn(accounts)
        opened.callback(signing_in.close)
        yield SignInParts(sessions, signing_in, people, provider)


def _services(
    settings: Settings,
    *,
    store: Store,
    accounts: Accounts,
    applier: Applier,
    auditing: AuditUpkeep,
    repositories: Repositories,
    signing: SignInParts,
    manager: Manager,
    watching: Notifying,
    flow_key: bytes,
    replica: ReplicaParts | None,
) -> Services:
    """Return everything that the API may use. It is a long list without decisions."""
    in_flight: dict[str, int] = {}
    traffic = Traffic()
    metrics = MetricSources(
        traffic=traffic,
        in_flight=in_flight,
        store=store,
        repositories=repositories,
        deliveries=manager.figures,
        board=watching.board,
        outbox=watching.outbox,
        clock=clock.now,
        following=None if replica is None else replica.following,
        contact=None if replica is None else replica.contact,
    )
    has_tls = serving.configured_certificate(settings) is not None
    headers = responses.security_headers(tls=has_tls, web_url=settings.web_url)
    events = Events(lambda: event_facts(repositories, manager.figures()), lambda: watching.board.kept)
    store.subscribe(Committed, events.heard)
    watching.board.marked = events.marked
    return Services(
        store=store,
        applier=applier,
        repositories=repositories,
        reviewing=Reviewing(repositories, store=store, applier=applier, clock=clock.now, queued=manager.waiting),
        accounts=accounts,
        signing_in=signing.signing_in,
        clock=clock.now,
        api_key="" if settings.api_key is None else settings.api_key.get_secret_value(),
        max_body_bytes=settings.api.max_body_bytes,
        deliveries=manager,
        rates=RecordRates(settings.delivery.records_per_second),
        room=IntakeRoom(settings.delivery.max_in_flight_bytes),
        log_limits=RequestLimits(
            bytes=settings.delivery.max_request_bytes, records=settings.delivery.max_request_records
        ),
        sessions=signing.sessions,
        board=watching.board,
        events=events,
        outbox=watching.outbox,
        auth_type=settings.auth.type,
        people=signing.people,
        provider=signing.provider,
        flow_key=flow_key,
        takes_invitations=signing.people is not None and not settings.auth.oidc.disable_invitations,
        anybody=LOCAL if settings.auth.type == "none" else None,
        web_url=settings.web_url,
        trusted_proxies=settings.trusted_proxies,
        refusals=auditing.refusals,
        has_tls=has_tls,
        headers=headers if replica is None else (*headers, replica.header),
        peers=None if replica is None else replica.peers,
        peer_tokens=None if replica is None else replica.tokens,
        in_flight=in_flight,
        traffic=traffic,
        samples=metrics.samples,
        following=metrics.following,
        contact=metrics.contact,
        keeper=None if replica is None else replica.keeper,
        cache=None if replica is None else replica.cache,
    )


@contextlib.asynccontextmanager
async def _store(settings: Settings, bound: ShutdownDeadline, *, new_store: bool) -> AsyncIterator[engines.OpenedStore]:
    """Open both databases and bring them to this version. Raises Refused, StoreFault."""
    if settings.store.is_postgresql:
        await _settle_database(settings, new_store=new_store)
    else:
        await _settle_files(settings, new_store=new_store)
    told = settings.store
    opened = await engines.open_store(told.url, settings.state_dir, worker_url=told.worker_url)
    try:
        if settings.store.is_postgresql:
            await asyncio.to_thread(databases.mark_postgresql, settings.state_dir)
        yield opened
    finally:
        bound.begin()
        await bound.waits("a write of sessions", opened.operations.close)
        await bound.waits("a write to the store", opened.store.close)


async def _settle_files(settings: Settings, *, new_store: bool) -> None:
    """Look at both files before they are opened: a missing one, a damaged one, and one of an earlier version."""
    places = databases.database_places(settings)
    missing = await asyncio.to_thread(databases.missing, places)
    if missing is not None and not new_store:
        raise Refused(missing)
    await asyncio.to_thread(files.set_aside_damaged, places.operations, at=clock.now())
    await asyncio.to_thread(databases.copy_before_upgrade, places, clock=time.monotonic, beating=process.beat)


async def _settle_database(settings: Settings, *, new_store: bool) -> None:
    """Look at the database before it is opened. It may be in use by other replicas, and is not copied."""
    missing = await asyncio.to_thread(databases.missing_on_postgresql, settings.state_dir)
    if missing is not None and not new_store and await asyncio.to_thread(engines.is_empty, settings.store.url):
        raise Refused(missing)


async def _accounts(plan: StartPlan, store: Store, operations: Operations) -> Accounts:
    """Load the directory after the checks of `auth.type`. Several replicas do this one after another. Raises Refused,
    StoreFault.
    """
    settings = plan.settings
    async with sign_in.one_at_a_time(store):
        accounts = Accounts(store, await store.directory(), clock=clock.now)
        await sign_in.settle_auth(
            accounts,
            store,
            operations,
            configured=settings.auth.type,
            is_confirmed=plan.confirm_auth_change,
            check=partial(sign_in.check_provider, settings),
        )
        if settings.auth.type == "oidc":
            await sign_in.sign_out_others(accounts, operations, issuer=settings.auth.oidc.issuer)
        await accounts.ensure_project(DEFAULT_PROJECT)
    return accounts


@contextlib.asynccontextmanager
async def _worker(
    settings: Settings, bound: ShutdownDeadline, opened: engines.OpenedStore
) -> AsyncIterator[WorkerClient]:
    """Start the worker. It can open only folders that exist at its start, so this makes the folder of mirrors.

    A file in the state directory has its protections, for the doctor.
    """
    mirrors, told = settings.state_dir / mirror_folders.MIRRORS, settings.state_dir / doctor.WORKER

    def confined(found: Protections) -> None:
        with contextlib.suppress(OSError):  # a full disk
            told.write_bytes(msgspec.json.encode(found))

    await asyncio.to_thread(mirrors.mkdir, mode=0o700, exist_ok=True)
    told.unlink(missing_ok=True)
    granted = opened.store.address, str(mirrors)
    worker = WorkerClient(granted=granted, connection=opened.worker_connection, confined=confined)
    try:
        await worker.start()
        yield worker
    finally:
        bound.begin()
        await bound.waits("the worker", worker.stop)


def _rules_digest(settings: Settings) -> str:
    """Return a digest of the rules for all documents: after new schemas or built-in types, every file is read again."""
    shaping = {name: schemas.load(name) for name in sorted(schemas.names())}
    rules = [shaping, sorted(settings.api.accepted_versions), settings.resources.refuse_unknown]
    digest = hashlib.sha256(json.dumps(rules, sort_keys=True).encode())
    for name, document in sorted(schemas.built_in()):
        digest.update(name.encode() + b"\0" + document)
    return digest.hexdigest()


# The facts for followers of events, beside the commits of the store.


def event_facts(repositories: Repositories, figures: DeliveryFigures) -> Facts:
    """Return what changes with everything that is shown of heads, faults that are not stored, requested runs, and
    delivery.
    """
    found: dict[tuple[Topic, str, str], Hashable] = {}
    for reconciler in repositories.followed():
        one, memory = reconciler.watched, reconciler.memory
        applied = reconciler.following.facts(memory.row.commit)  # which is read a moment after the run
        found[Topic.REPOSITORY, one.project, one.name] = memory.seen, memory.unwritten, applied
    for run in repositories.pending():
        if run.is_requested:  # others mostly find nothing new, and leave no record
            found[Topic.RUN, run.project, run.id] = run.started is not None
    for project, records in figures.unrouted.items():
        found[Topic.DELIVERY, project, ""] = records
    for lane in figures.lanes:  # a destination whose queue moves has several
        what = Topic.DELIVERY, lane.project, lane.name
        found[what] = found.get(what), _fact(lane)
    return found


def _fact(lane: Lane) -> Hashable:
    """Return what changes with everything that is shown of a lane."""
    depth = None if lane.queue is None else lane.queue.depth()
    report = None if lane.exporter is None else lane.exporter.shown()
    sent = None if report is None else (report.state, report.last_success, report.last_failure)
    return depth, sent, lane.counts.taken, lane.counts.dropped, lane.leaving
