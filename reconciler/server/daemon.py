"""The daemon: parts built in order, run until told to stop, and ended in the opposite order.

While the store has traces of rewritten versions, a task erases them.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import uvloop

from api import app
from api.calls import Services
from reconciler.model import errors
from reconciler.ops import databases
from reconciler.ops import logging as ops_logging
from reconciler.reconcile.runs import Trigger
from reconciler.replicas.work import ALONE, Work
from reconciler.server import handing_over, mirror_folders, parts, process, serving, sign_in
from reconciler.server.parts import Parts, Running, StartPlan
from reconciler.server.process import ShutdownDeadline
from reconciler.settings import loading
from reconciler.settings.models import Settings
from reconciler.store.contract import Store, StoreFault
from reconciler.store.records import Traces

log = logging.getLogger(__name__)


ERASE_SECONDS = 5.0  # between two tries
ERASE_AGAIN_SECONDS = 600.0  # after the disk would not take them


async def erase_loop(
    store: Store, work: Work = ALONE, *, seconds: float = ERASE_SECONDS, again_seconds: float = ERASE_AGAIN_SECONDS
) -> None:
    """Erase traces for ever; log when they have to wait, and when they are erased."""
    while True:
        await work.turn()
        try:
            if await store.erase_traces() is Traces.ERASED:
                log.info("The store's files hold no trace of what was rewritten any more.")
            await asyncio.sleep(seconds)
        except StoreFault as fault:
            log.warning("Traces of what was rewritten may still be in the store's files. %s", fault.message)
            await asyncio.sleep(again_seconds)


UMASK = 0o077
OPEN_FILES = 65_536  # no more: programs that we start may look at each that they could have
YOUNG_OBJECTS = 10_000  # before a garbage collection: 64 requests in progress have some thousands
END_SECONDS = 5.0  # for everything but the requests under way, which have `delivery.drainTimeout`


def start(plan: StartPlan) -> None:
    """Call `run` on a new loop. The ends of the loop and of the process wait for threads, so they have a deadline too.
    Afterwards the process should do little else.
    """
    _allow_open_files()
    os.umask(UMASK)  # whatever is made, by programs that are started too, is for its owner alone
    delivery = plan.settings.delivery
    bound = ShutdownDeadline(seconds=delivery.drain_timeout * (1 + delivery.hand_over) + END_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(plan, bound))


async def run(plan: StartPlan, bound: ShutdownDeadline) -> None:
    """Run until SIGTERM or SIGINT. Raises Refused when it cannot start, StoreFault when the store cannot be used."""
    settings, drain = plan.settings, plan.settings.delivery.drain_timeout
    stop, reload = asyncio.Event(), asyncio.Event()
    with (
        process.hold_state_directory(settings.state_dir),
        _hold_store(settings),
        contextlib.ExitStack() as opened,
    ):
        _handle_signals(stop=stop, reload=reload, bound=bound)
        listeners = [opened.enter_context(serving.bind(settings.listen.host, settings.listen.port))]
        if (at := settings.delivery.otlp_listen) is not None:
            listeners.append(opened.enter_context(serving.bind(at.host, at.port, setting="delivery.otlpListen")))
        await mirror_folders.remove_leftovers(settings)
        async with parts.build_parts(plan, bound, listeners=listeners) as built:
            services = built.services
            applications = [app.build(services), app.build_for_logs(services)]
            async with serving.serve(
                list(zip(applications, listeners, strict=False)),
                certificate=serving.configured_certificate(settings),
                drain_seconds=drain,
                trusted_proxies=settings.trusted_proxies,
            ) as served:
                try:
                    await built.repositories.start(settings.repositories)
                    await _up(plan, listeners, built, served, stop=stop, reload=reload)
                finally:
                    bound.begin()
                    await asyncio.gather(
                        bound.waits("the requests under way", served.end),
                        bound.waits("the runs under way", built.repositories.stop),
                        bound.waits("the records under way", partial(built.delivery.manager.drain, seconds=drain)),
                        bound.waits("the provider", partial(_leave_provider, services)),
                    )
                    if settings.delivery.hand_over and services.peers is not None:
                        handing = partial(
                            handing_over.hand_over,
                            built.delivery.manager,
                            services.peers,
                            seconds=drain,
                        )
                        await bound.waits("the queues that are handed over", handing)
    log.info("Stopped.")


def _hold_store(settings: Settings) -> contextlib.AbstractContextManager[None]:
    """Hold the store's file. A database of PostgreSQL is for several replicas."""
    if settings.store.is_postgresql:
        return contextlib.nullcontext()
    return process.hold_store(databases.database_places(settings).store)


async def _leave_provider(services: Services) -> None:
    """Close the provider: a sign-in that waits for its answer would delay the stop."""
    if services.provider is not None:
        await services.provider.close()


async def _up(
    plan: StartPlan,
    listeners: Sequence[socket.socket],
    built: Parts,
    served: serving.Served,
    *,
    stop: asyncio.Event,
    reload: asyncio.Event,
) -> None:
    """Report that everything is up, then wait for signals."""
    settings, services = plan.settings, built.services
    if settings.auth.type == "local":
        # Last, so that a failed start leaves no password behind.
        state, accounts = settings.state_dir, services.accounts
        async with sign_in.one_at_a_time(services.store):
            await accounts.reload()
            await sign_in.ensure_first_admin(accounts, services.signing_in, state_dir=state, clock=services.clock)
    # Objects from the start last until the end. Collecting them would take a tenth of the time of many small requests.
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    address, *for_logs = [_address(listener, tls=served.shown is not None) for listener in listeners]
    log.info("Listening on %s.", address, extra={"fields": {"address": address}})
    for one in for_logs:
        log.info("Listening for log records on %s.", one, extra={"fields": {"logAddress": one}})
    process.notify(f"READY=1\nSTATUS=listening on {address}")
    projects = services.accounts.directory.projects
    routed = sorted({*projects, *await built.delivery.manager.projects()})
    work: dict[str, Coroutine[Any, Any, None]] = {
        "watchdog": _watchdog(),
        "last-uses-of-keys": services.accounts.keep_touched(),
        "sessions": services.sessions.keep(),
        "reloads": _reloads(plan, built, served, reload),
        "erasing": erase_loop(services.store, built.work),
        "routes": built.delivery.routing.keep(routed),
        "renderings": built.rendering.keep(),
        "work": _take_over(built),
        "notifications": built.notifying.keep(),
        "audit": built.auditing.keep(),
        "events": services.events.keep(),
        "companion": plan.when_up(Running(address, services)),
    }
    if built.keeper is not None:
        work |= {"leases": built.keeper.keep(), "repositories": built.repositories.keep()}
    if built.following is not None:
        work["following"] = _end_of(built.following)
    if services.provider is not None:
        work["provider"] = sign_in.look_at_provider(services.provider.check, settings)
    tasks = [asyncio.create_task(one, name=name) for name, one in work.items()]
    for task in tasks:
        task.add_done_callback(lambda ended: _stop_on_failure(ended, stop))
    try:
        await stop.wait()
    finally:
        process.notify("STOPPING=1")
        log.info("Stopping.")
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)


async def _take_over(built: Parts) -> None:
    """Each time this replica takes over the work that is done once, do the work that the former replica may have
    left.
    """
    are_routes_read = built.work.is_mine  # by the start
    while True:
        await built.work.turn()
        for project in sorted(built.services.accounts.directory.projects):
            built.rendering.ask(project)
            if not are_routes_read:  # this version may correct more statuses than the former replica's
                built.delivery.routing.ask(project)
        are_routes_read = False
        await built.work.end_of_turn()


def _stop_on_failure(ended: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Stop the daemon if one of its tasks fails: a restart is better than running without it."""
    if not ended.cancelled() and ended.exception() is not None:
        stop.set()


def _address(listener: socket.socket, *, tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _allow_open_files() -> None:
    """Raise the limit of open files, if the system permits: queues, connections and repositories need some each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _handle_signals(*, stop: asyncio.Event, reload: asyncio.Event, bound: ShutdownDeadline) -> None:
    """Handle signals until the loop ends: SIGTERM and SIGINT stop, SIGHUP reloads."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        bound.begin()
        stop.set()

    for number, handler in {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: reload.set}.items():
        loop.add_signal_handler(number, handler)


async def _reloads(plan: StartPlan, built: Parts, served: serving.Served, reload: asyncio.Event) -> None:
    """At each reload, apply repositories, certificate and log level from the settings. Invalid ones change nothing."""
    while True:
        await reload.wait()
        reload.clear()
        try:
            fresh = await asyncio.to_thread(plan.reload)
            loading.check_repositories([one.watched.name for one in built.repositories.reconcilers()], fresh)
            certificate = serving.configured_certificate(fresh)
            renewed = None if certificate is None else await asyncio.to_thread(serving.read_certificate, certificate)
            await built.repositories.start(fresh.repositories, trigger=Trigger.RELOAD)
        except errors.ReconcilerError as problem:
            for mistake in problem.message.splitlines():
                log.error("The settings were not reloaded: %s", mistake)
            continue
        if renewed is not None and served.shown is not None:
            served.shown.replace(renewed)
            log.info("New connections get the certificate in %s as it is now.", fresh.tls.cert_file)
        built.notifying.reloaded(fresh)
        ops_logging.set_level(fresh.log.level)
        names = ", ".join(one.name for one in fresh.repositories if not one.suspend) or "nothing"
        log.info("Reloaded the settings; watching %s.", names)
        if waiting := loading.need_restart(plan.settings, fresh):
            log.warning("%s %s a restart to take effect.", ", ".join(waiting), "needs" if len(waiting) == 1 else "need")


async def _watchdog() -> None:
    """Send signs of life from the loop: if it hangs, systemd restarts the daemon."""
    seconds = process.watchdog_seconds()
    while seconds is not None:
        process.notify("WATCHDOG=1")
        await asyncio.sleep(seconds / 2)
