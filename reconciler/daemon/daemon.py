"""The daemon: every part built in order, run until it is told to stop, and ended in the opposite order.

What the parts do is elsewhere; which application answers HTTP is the caller's choice.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

import schemas
from reconciler import clock, errors
from reconciler.access.principals import LOCAL
from reconciler.accounts import Accounts
from reconciler.applying import Applier, Limits
from reconciler.daemon import (
    certificates,
    ending,
    erasing,
    first_admin,
    following,
    headers,
    locking,
    logs,
    serving,
    systemd,
)
from reconciler.daemon.certificates import Certificate
from reconciler.daemon.ending import Bound
from reconciler.daemon.services import Services
from reconciler.reading.client import Reader
from reconciler.reconciling.repositories import Environment, Repositories
from reconciler.reconciling.runs import Trigger
from reconciler.remotes.following import Remotes
from reconciler.secrets import available, sources
from reconciler.settings import reloading
from reconciler.settings.models import Settings
from reconciler.signing_in import SigningIn
from reconciler.store.sqlite import SqliteStore

log = logging.getLogger(__name__)

DEFAULT_PROJECT = "default"
UMASK = 0o077
END_SECONDS = 5.0  # for everything but the requests under way, which have `delivery.drainTimeout`


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that is up: where it listens, and what it offers."""

    address: str
    services: Services


@dataclass(frozen=True, slots=True)
class Plan:
    """What the caller decides: the settings, how to read them again, who answers HTTP, what to do once all is up, and
    the variables that resources may refer to, as far as the settings let them.
    """

    settings: Settings
    reload: Callable[[], Settings]
    application: Callable[[Services], Any]
    when_up: Callable[[Running], Awaitable[None]] | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)


def start(plan: Plan) -> None:
    """`run` on a loop of its own, to its end: the loop's own end, which waits for its threads, is bounded too."""
    seconds = plan.settings.delivery.drain_timeout + END_SECONDS
    with (
        _private_files(),
        ending.bound(seconds=seconds) as bound,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(run(plan, bound))


async def run(plan: Plan, bound: Bound) -> None:
    """Run until SIGTERM or SIGINT. Raises Refused when it cannot start, StoreFault when the store cannot be used."""
    settings = plan.settings
    stop, reload = asyncio.Event(), asyncio.Event()
    with locking.hold(settings.state_dir), _signals(stop=stop, reload=reload, bound=bound):
        listener = serving.bind(settings.listen.host, settings.listen.port)
        await following.remove_leftovers(settings)
        async with _parts(settings, bound, environment=plan.environment) as (services, repositories):
            application = plan.application(services)
            drain = settings.delivery.drain_timeout
            certificate = _certificate(settings)
            async with serving.serve(application, listener, certificate=certificate, drain_seconds=drain) as served:
                try:
                    await repositories.start(following.watched(settings))
                    await _up(plan, listener, services, repositories, served, stop=stop, reload=reload)
                finally:
                    bound.begin()
                    await asyncio.gather(
                        bound.waits("the requests under way", served.end()),
                        bound.waits("the runs under way", repositories.stop()),
                    )
    log.info("Stopped.")


async def _up(
    plan: Plan,
    listener: socket.socket,
    services: Services,
    repositories: Repositories,
    served: serving.Served,
    *,
    stop: asyncio.Event,
    reload: asyncio.Event,
) -> None:
    """Everything is up: say so, then wait for signals."""
    settings = plan.settings
    if settings.auth.type == "local":
        # Last, so that a start that fails leaves no password of somebody who can be reached nowhere.
        state, accounts = settings.state_dir, services.accounts
        await first_admin.ensure(accounts, services.signing_in, state_dir=state, clock=services.clock)
    address = _address(listener, tls=served.shown is not None)
    log.info("Listening on %s.", address, extra={"fields": {"address": address}})
    systemd.notify(f"READY=1\nSTATUS=listening on {address}")
    tasks = [
        asyncio.create_task(_watchdog(), name="watchdog"),
        asyncio.create_task(services.accounts.keep_touched(), name="last-uses-of-keys"),
        asyncio.create_task(first_admin.clear(services.accounts, state_dir=settings.state_dir), name="first-password"),
        asyncio.create_task(_reloads(plan, repositories, served, reload), name="reloads"),
        asyncio.create_task(erasing.erase(services.store, erasing.Pace()), name="erasing"),
    ]
    if plan.when_up is not None:
        tasks.append(asyncio.create_task(_companion(plan.when_up, Running(address, services)), name="companion"))
    for task in tasks:
        task.add_done_callback(lambda ended: _stop_on_failure(ended, stop))
    try:
        await stop.wait()
    finally:
        systemd.notify("STOPPING=1")
        log.info("Stopping.")
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


def _stop_on_failure(ended: asyncio.Task[None], stop: asyncio.Event) -> None:
    """A daemon that has lost one of its tasks is better started again than half alive."""
    if not ended.cancelled() and ended.exception() is not None:
        stop.set()


@contextlib.asynccontextmanager
async def _parts(
    settings: Settings, bound: Bound, *, environment: Mapping[str, str]
) -> AsyncIterator[tuple[Services, Repositories]]:
    """Store, reader, applier and repositories; stopped in the opposite order."""
    path = _store_path(settings)
    store = await asyncio.to_thread(SqliteStore, path)
    reader = Reader()
    try:
        accounts = Accounts(store, await store.directory(), clock=clock.now)
        await accounts.ensure_project(DEFAULT_PROJECT)
        signing_in = SigningIn(accounts)
        await reader.start()
        api_versions = frozenset(settings.api.accepted_versions)
        limits = Limits(api_versions=api_versions, max_resources=settings.api.max_resources)
        secrets = partial(available.of, sources.configured(settings, environment=environment))
        applier = Applier(store, reader, store_path=str(path), limits=limits, secrets=secrets, clock=clock.now)
        shared = Environment(
            store=store,
            applier=applier,
            remotes=Remotes(following.places(settings), clock=asyncio.get_running_loop().time),
            ensure_project=accounts.ensure_project,
            api_versions=api_versions,
            schemas=_schemas_digest(),
            clock=clock.now,
        )
        repositories = Repositories(shared)
        services = Services(
            store=store,
            applier=applier,
            repositories=repositories,
            accounts=accounts,
            signing_in=signing_in,
            clock=clock.now,
            api_key="" if settings.api_key is None else settings.api_key.get_secret_value(),
            max_body_bytes=settings.api.max_body_bytes,
            anybody=LOCAL if settings.auth.type == "none" else None,
            web_url=settings.web_url,
            trusted_proxies=settings.trusted_proxies,
            headers=headers.security(tls=_certificate(settings) is not None, web_url=settings.web_url),
        )
        try:
            yield services, repositories
        finally:
            signing_in.close()
            await repositories.stop()
            await accounts.touch()
    finally:
        bound.begin()
        await bound.waits("the reader", reader.stop())
        await bound.waits("a write to the store", store.close())


def _store_path(settings: Settings) -> Path:
    return Path(settings.store.url.removeprefix("sqlite:///"))


def _certificate(settings: Settings) -> Certificate | None:
    chain, key = settings.tls.cert_file, settings.tls.key_file
    return None if chain is None or key is None else Certificate(chain=chain, key=key)


def _schemas_digest() -> str:
    """A digest of what documents are judged by: new schemas or built-in types read every file again."""
    shaping = {name: schemas.load(name) for name in sorted(schemas.names())}
    digest = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode())
    for name, document in sorted(schemas.built_in()):
        digest.update(name.encode() + b"\0" + document)
    return digest.hexdigest()


def _address(listener: socket.socket, *, tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


@contextlib.contextmanager
def _private_files() -> Iterator[None]:
    """Whatever is made meanwhile, by programs that are started too, is for its owner alone."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)


@contextlib.contextmanager
def _signals(*, stop: asyncio.Event, reload: asyncio.Event, bound: Bound) -> Iterator[None]:
    """SIGTERM and SIGINT stop, SIGHUP reloads; from here on nothing else handles them."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        bound.begin()
        stop.set()

    handlers = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: reload.set}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _reloads(plan: Plan, repositories: Repositories, served: serving.Served, reload: asyncio.Event) -> None:
    """Take over repositories, certificate and log level from the settings whenever asked; bad ones change nothing."""
    while True:
        await reload.wait()
        reload.clear()
        try:
            fresh = await asyncio.to_thread(plan.reload)
            certificate = _certificate(fresh)
            renewed = None if certificate is None else await asyncio.to_thread(certificates.read, certificate)
            await repositories.start(following.watched(fresh), trigger=Trigger.RELOAD)
        except errors.ReconcilerError as problem:
            for mistake in problem.message.splitlines():
                log.error("The settings were not reloaded: %s", mistake)
            continue
        if renewed is not None and served.shown is not None:
            served.shown.replace(renewed)
        logs.set_level(fresh.log.level)
        log.info("Reloaded the settings; watching %s.", _names(fresh))
        if waiting := reloading.need_restart(plan.settings, fresh):
            log.warning("%s %s a restart to take effect.", ", ".join(waiting), "needs" if len(waiting) == 1 else "need")


def _names(settings: Settings) -> str:
    """The repositories that are followed, as a person reads them."""
    return ", ".join(one.name for one in settings.repositories if not one.suspend) or "nothing"


async def _watchdog() -> None:
    """A sign of life from the loop itself: when it hangs, systemd restarts the daemon."""
    seconds = systemd.watchdog_seconds()
    while seconds is not None:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(seconds / 2)


async def _companion(when_up: Callable[[Running], Awaitable[None]], running: Running) -> None:
    await when_up(running)
