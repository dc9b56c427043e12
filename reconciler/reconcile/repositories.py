"""All watched repositories: started, reloaded, stopped and shown."""

import asyncio
import dataclasses
import json
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from reconciler.git.faults import RepositoryState
from reconciler.git.remotes import concurrency
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.watching import Watcher
from reconciler.model import ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.principals import Actor
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile import interventions, runs, watched
from reconciler.reconcile.apply import AppliedChange, Applier
from reconciler.reconcile.interventions import Approval, SuspensionAsker
from reconciler.reconcile.loop import Loop
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.runs import Run, RunTally, Trigger
from reconciler.reconcile.watched import WatchedRepository
from reconciler.store.contract import AuditRow, AuditWanted, RepositoryRow, Store, StoreFault, SuspensionRow
from reconciler.worker.messages import Neighbour

# A watched repository as people and programs see it.
#
# What was stored is read from the store: whoever saw a run's end there sees what it did to its repository, too. What
# the last look told and could not be written, since the disk is full for instance, comes from memory.

HELD_SHOWN = 100  # resources whose deletion is held


async def shown_repository(reconciler: Reconciler, store: Store) -> bytes:
    """The repository as a JSON object. Raises StoreFault."""
    one = reconciler.watched
    remembered = await store.remembered(one.name, held=HELD_SHOWN)
    row = remembered.row
    told = reconciler.unwritten or row
    drift = None if remembered.suspension is None else await store.drift(one.name, project=one.project)
    return msgspec.json.encode(
        {
            "name": one.name,
            "project": one.project,
            "url": one.url,
            "branch": one.branch,
            "follows": {"kind": one.follows.kind, "name": one.follows.name},
            "path": one.path,
            "state": RepositoryState.NEVER_READ if told is None else told.state,
            "message": None if told is None else told.message,
            "since": None if told is None else told.since,
            "commit": None if row is None else row.commit,
            "head": reconciler.seen or (None if row is None else row.head),
            "lastRun": remembered.last_run,
            "suspension": interventions.shown_suspension(remembered.suspension),
            "drift": drift,
            "held": interventions.shown_approval(row, remembered.held),
        }
    )


# What the settings change of the watched repositories, as events of the audit. Pure.

SETTINGS = "settings"  # who does it
CREATED, CONFIGURED, DELETED = "created", "configured", "deleted"
ORIGIN = "where its commits come from"
NAMES = {  # of settings, where they are others than ours
    "full_interval": "fullInterval",
    "prune": "prune.enabled",
    "prune_min_count": "prune.minCount",
    "prune_max_percent": "prune.maxPercent",
    "suspended": "suspend",
    "allowed_kinds": "allow.kinds",
    "allowed_names": "allow.names",
    "accept_invalid": "acceptInvalid",
    "signers_file": "verify.signersFile",
    "hook_secret_file": "hook.secretFile",
}


def watching_events(
    now: WatchedRepository, *, before: WatchedRepository | None, remembered: RepositoryRow | None, at: str
) -> AuditRow | None:
    """That a repository is watched, or otherwise than `before` in this process; None when nobody would notice.

    Of an earlier process it is remembered where commits came from, and nothing else.
    """
    if before is not None:
        changed = [field.name for field in dataclasses.fields(now) if _differs(field.name, before, now)]
        return _event(CONFIGURED, now.name, now.project, at, sorted(NAMES.get(name, name) for name in changed))
    if remembered is None:
        return _event(CREATED, now.name, now.project, at)
    if remembered.origin in (None, watched.watched_origin(now)):
        return None
    return _event(CONFIGURED, now.name, now.project, at, [ORIGIN])


def released_events(remembered: RepositoryRow, *, to: str | None, at: str) -> AuditRow:
    """That a repository is watched no more, or that it fills another project now: what it owned is the API's."""
    if to is None:
        return _event(DELETED, remembered.name, remembered.project, at)
    return _event(CONFIGURED, remembered.name, remembered.project, at, ["project"])


def _differs(name: str, one: WatchedRepository, other: WatchedRepository) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _event(action: str, name: str, project: str, at: str, changed: list[str] | None = None) -> AuditRow:
    return AuditRow(
        at=at,
        project=project,
        actor=SETTINGS,
        action=action,
        kind="Repository",
        name=name,
        version_before=None,
        version_after=None,
        run=None,
        request=None,
        detail=None if changed is None else json.dumps({"changed": changed}),
    )


# All watched repositories: started, reloaded and stopped together, and shown to whoever asks.

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReconcileEnvironment:
    """What every reconciler needs and none owns."""

    store: Store
    applier: Applier
    remotes: Remotes
    ensure_project: Callable[[str], Awaitable[bool]]
    api_versions: frozenset[str]
    refuse_unknown: bool
    schemas: str
    clock: Clock
    tally: RunTally = field(default_factory=RunTally)


class Repositories:
    """The loops by name. Not safe for threads: everything happens on the event loop."""

    def __init__(self, environment: ReconcileEnvironment) -> None:
        self._environment = environment
        self._loops: dict[str, Loop] = {}
        self._watcher = Watcher()  # of all repositories on this machine
        self._changing = asyncio.Lock()  # whoever stops loops and starts others in their place
        environment.applier.listen(self._store_changed)

    async def start(self, wanted: Iterable[WatchedRepository], *, trigger: Trigger = Trigger.START) -> None:
        """Watch exactly these: new and changed ones begin with a look, others go on undisturbed.

        What a repository owned that is watched no more belongs to the API from now on; nothing of it is deleted.
        """
        async with self._changing:
            await self._start(wanted, trigger=trigger)

    async def _start(self, wanted: Iterable[WatchedRepository], *, trigger: Trigger) -> None:
        by_name = {one.name: one for one in wanted}
        environment = self._environment
        # What may fail comes before anything is stopped, as far as it can.
        for project in sorted({one.project for one in by_name.values()}):
            if await environment.ensure_project(project):
                log.info("The project %s is made, since a repository of the settings fills it.", project)
        leaving = {name: loop for name, loop in self._loops.items() if by_name.get(name) != loop.reconciler.watched}
        await asyncio.gather(*(loop.stop() for loop in leaving.values()))
        try:
            await self._release({name: one.project for name, one in by_name.items()})
            coming = by_name.keys() - (self._loops.keys() - leaving.keys())
            fresh = {name: await self._loop(by_name[name]) for name in sorted(coming)}
            await self._tell_changes(fresh, leaving)
        except BaseException:
            for name, loop in leaving.items():
                self._loops[name] = loop.again(trigger)
            raise
        self._loops = {name: loop for name, loop in self._loops.items() if name not in leaving} | fresh
        await environment.remotes.keep([loop.reconciler.watched.source for loop in self._loops.values()])
        for name, loop in fresh.items():
            # Whoever was promised a run gets it under the new settings, unless it was stored at the last moment.
            last_run = loop.reconciler.last_run
            loop.start(trigger, promised=leaving[name].kept_promises(last_run) if name in leaving else [])

    async def stop(self) -> None:
        """Stop every loop."""
        async with self._changing:
            await asyncio.gather(*(loop.stop() for loop in self._loops.values()))
            self._loops.clear()
            await self._environment.remotes.close()

    async def all(self, *, projects: frozenset[str] | None) -> list[bytes]:
        """Every repository of these projects, of all when None, as a JSON object, sorted by name. Raises StoreFault."""
        loops = [self._loops[name] for name in sorted(self._loops)]
        loops = [loop for loop in loops if projects is None or loop.reconciler.watched.project in projects]
        return [await shown_repository(loop.reconciler, self._environment.store) for loop in loops]

    async def one(self, name: str) -> bytes | None:
        """One repository as a JSON object, or None. Raises StoreFault."""
        loop = self._loops.get(name)
        return None if loop is None else await shown_repository(loop.reconciler, self._environment.store)

    @property
    def tally(self) -> RunTally:
        """What was counted of all runs."""
        return self._environment.tally

    @property
    def asked(self) -> concurrency.RemoteTally:
        """What was asked of remotes."""
        return self._environment.remotes.tally

    def reconcilers(self) -> list[Reconciler]:
        """What knows each repository, by name."""
        return [self._loops[name].reconciler for name in sorted(self._loops)]

    def reconciler(self, name: str) -> Reconciler | None:
        """What knows a repository; None for an unknown one. After a reload it may be another."""
        loop = self._loops.get(name)
        return None if loop is None else loop.reconciler

    def project_of(self, name: str) -> str | None:
        """The project that a repository fills, or None for an unknown one."""
        loop = self._loops.get(name)
        return None if loop is None else loop.reconciler.watched.project

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Ask for a run; the id of the run that will cover it, or None for an unknown repository. Raises Suspended."""
        loop = self._loops.get(name)
        if loop is None:
            return None
        if loop.reconciler.why_suspended is not None:
            raise interventions.no_run(name, loop.reconciler.why_suspended)
        return loop.ask(Trigger.REQUEST, actor=actor.name).id

    def hook_secret_file(self, name: str) -> Path | None:
        """The file with the secret of a repository's hook; None without a hook, and for an unknown repository."""
        loop = self._loops.get(name)
        return None if loop is None else loop.reconciler.watched.hook_secret_file

    def hint(self, name: str) -> None:
        """Look at a repository now, whatever it waits for, since a forge says that something was pushed. Nothing
        happens for one that is unknown or suspended.
        """
        loop = self._loops.get(name)
        if loop is not None and loop.reconciler.why_suspended is None:
            loop.ask(Trigger.HOOK, actor="system")

    async def suspend(
        self, name: str, *, reason: str, until: datetime | None, actor: Actor, request: str
    ) -> bytes | None:
        """Look at a repository no more; the repository as JSON, or None for an unknown one. Raises StoreFault.

        A run under way is cancelled unless it is being stored, so that nothing overwrites what an admin changes from
        now on. Whoever waits for a run is told that it was refused.
        """
        asker = SuspensionAsker(actor.name, rfc3339(self._environment.clock()), request=request)
        end = None if until is None else rfc3339(until)
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            before = None if loop.reconciler.suspension_is_over else loop.reconciler.suspension
            since = asker.at if before is None else before.since
            suspension = SuspensionRow(name, reason=reason, actor=actor.name, since=since, until=end)
            await self._replace(loop, loop.reconciler.suspend(suspension, asker=asker))
            log.info("%s is suspended by %s: %s", name, actor.name, reason)
            return await shown_repository(self._loops[name].reconciler, self._environment.store)

    async def resume(self, name: str, *, actor: Actor, request: str) -> str | None:
        """Look at a repository again; the id of the run that reads it whole, or None for an unknown one.

        What is not suspended is asked for a run all the same, so that a second request finds what the first did.
        Raises Suspended when a setting suspends it, StoreFault.
        """
        asker = SuspensionAsker(actor.name, rfc3339(self._environment.clock()), request=request)
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            if loop.reconciler.watched.suspended:
                raise interventions.suspended_by_setting(name)
            if loop.reconciler.suspension is not None:
                await self._replace(loop, loop.reconciler.resume(asker=asker))
                log.info("%s is resumed by %s.", name, actor.name)
            return self._loops[name].ask(Trigger.REQUEST, actor=actor.name).id

    async def _replace(self, loop: Loop, change: Coroutine[None, None, None]) -> None:
        """Change what a loop goes by while it stands still, then let it go on."""
        name = loop.reconciler.watched.name
        try:
            await loop.stop()
            # A run that was cancelled while it was stored has told nobody but the store.
            await loop.reconciler.recall()
            await change
        except BaseException:
            change.close()
            self._loops[name] = loop.again(Trigger.RELOAD)
            raise
        self._loops[name] = loop.further(Trigger.RELOAD)

    async def approve(self, name: str, *, commit: str, actor: Actor, request: str) -> str | None:
        """Let go what is held at a commit and ask for a run; its id, or None for an unknown repository.

        Raises NotHeld, Suspended, StoreFault.
        """
        environment = self._environment
        approval = Approval(name, commit=commit, actor=actor, request=request, at=rfc3339(environment.clock()))
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            if loop.reconciler.why_suspended is not None:
                raise interventions.no_run(name, loop.reconciler.why_suspended)
            await interventions.approve(approval, store=environment.store, applier=environment.applier)
            log.info("What %s holds at %s is approved by %s.", name, commit, actor.name)
            return loop.ask(Trigger.REQUEST, actor=actor.name).id

    def run(self, run: str) -> bytes | None:
        """A queued or running run as a JSON object, or None: then ask the store."""
        for loop in self._loops.values():
            for pending in (loop.running, loop.queued, *loop.promised):
                if pending is not None and pending.id == run:
                    return runs.shown_run(pending)
        return None

    def _store_changed(self, told: AppliedChange) -> None:
        """What another owner held may be free now, what one holds may not fit its type any more, or another may wait
        for it: look again.
        """
        for name, loop in self._loops.items():
            if name in told.touched:  # something may have passed to it, of which the lineage is not known
                loop.reconciler.lineage.is_due = True
            waits = told.changed and loop.reconciler.waits_for_store
            if name != told.origin and (waits or name in told.touched):
                loop.ask(Trigger.STORE, actor="system")

    async def _loop(self, one: WatchedRepository) -> Loop:
        environment = self._environment
        reconciler = Reconciler(
            one,
            following=environment.remotes.follow(one.source),
            store=environment.store,
            applier=environment.applier,
            fingerprint=partial(self._fingerprint, one),
            origin=watched.watched_origin(one),
            neighbours=partial(self._neighbours, one),
            clock=environment.clock,
            tally=environment.tally,
        )

        made = 0  # the time in the id of the last run

        def new_run(why: Trigger, actor: str) -> Run:
            nonlocal made
            # Two within a millisecond have an order too: runs are listed by their ids.
            made = milliseconds = max(int(environment.clock().timestamp() * 1000), made + 1)
            run_id = ids.ulid(milliseconds=milliseconds, randomness=os.urandom(ids.RANDOM_BYTES))
            return Run(id=run_id, repository=one.name, project=one.project, trigger=why, actor=actor)

        await reconciler.recall()
        return Loop(reconciler, new_run=new_run, watcher=self._watcher)

    def _fingerprint(self, one: WatchedRepository, secrets: AvailableSecrets) -> str:
        environment = self._environment
        return watched.settings_fingerprint(
            one,
            api_versions=environment.api_versions,
            refuse_unknown=environment.refuse_unknown,
            schemas=environment.schemas,
            secrets=secrets,
        )

    def _neighbours(self, one: WatchedRepository) -> tuple[Neighbour, ...]:
        """The other repositories that fill the same project, by name."""
        others = [self._loops[name].reconciler for name in sorted(self._loops) if name != one.name]
        return tuple(
            Neighbour(
                repository=other.name,
                mirror=str(reconciler.mirror),
                branch=reconciler.branch,
                allowed_kinds=other.allowed_kinds,
                allowed_names=other.allowed_names,
                accept_invalid=other.accept_invalid,
                path=other.path,
                include=other.include,
                exclude=other.exclude,
            )
            for reconciler, other in ((reconciler, reconciler.watched) for reconciler in others)
            if other.project == one.project
        )

    async def _tell_changes(self, fresh: Mapping[str, Loop], leaving: Mapping[str, Loop]) -> None:
        """Have the audit say what is watched from now on, as one link."""
        events, at = [], rfc3339(self._environment.clock())
        for name, loop in fresh.items():
            before = leaving[name].reconciler.watched if name in leaving else None
            reconciler = loop.reconciler
            event = watching_events(reconciler.watched, before=before, remembered=reconciler.remembered, at=at)
            events += [] if event is None else [event]
        try:
            events = [event for event in events if not await self._is_told(event)]
            if events:
                await self._environment.store.tell(events)
        except StoreFault as fault:  # what the settings say holds all the same
            names = ", ".join(event.name for event in events)
            log.warning("The audit does not say that the settings changed what is watched (%s): %s", names, fault)

    async def _is_told(self, event: AuditRow) -> bool:
        """Whether an earlier process told that it is watched, which never looked at it with success. Raises
        StoreFault.
        """
        if event.action != CREATED:
            return False
        wanted = AuditWanted(frozenset({event.project}), kind=event.kind, name=event.name, actor=event.actor)
        async with aclosing(self._environment.store.event_pages(wanted, limit=1, documents=False)) as pages:
            async for page in pages:
                return bool(json.loads(page[0])["action"] != DELETED)
        return False

    async def _release(self, projects: Mapping[str, str]) -> None:
        """`projects` are those that the watched repositories fill, by the repositories' names."""
        store, applier = self._environment.store, self._environment.applier
        # A suspension is kept: the repository may be missing by mistake, and comes back suspended.
        for name in await store.repositories():
            remembered = await store.repository(name)
            if remembered is not None and projects.get(name) != remembered.project:
                what = f"{name} is watched no more" if name not in projects else f"{name} fills another project now"
                log.info("%s; what it applied to %s belongs to the API.", what, remembered.project)
                at = rfc3339(self._environment.clock())
                await applier.release(name, audit=released_events(remembered, to=projects.get(name), at=at))
