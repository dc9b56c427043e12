"""All watched repositories: started, reloaded, stopped, suspended and shown."""

import asyncio
import logging
import os
from collections.abc import Coroutine, Hashable, Iterable, Mapping
from datetime import datetime
from functools import partial

from reconciler.git.refs import Followed, RefHead
from reconciler.git.remotes.sources import source_of
from reconciler.git.remotes.watching import Watcher
from reconciler.model import ids
from reconciler.model.clock import rfc3339
from reconciler.model.principals import Actor
from reconciler.reconcile import interventions, runs
from reconciler.reconcile.commit_groups import CommitGroup
from reconciler.reconcile.interventions import Suspended
from reconciler.reconcile.loop import Loop
from reconciler.reconcile.reconciler import ReconcileEnvironment, Reconciler
from reconciler.reconcile.runs import Run, Trigger
from reconciler.settings.repositories import Repository
from reconciler.store.contract import StoreFault
from reconciler.store.records import AuditRow, Record, ResourceChange, SuspensionRow
from reconciler.worker.messages import ProjectRepository

log = logging.getLogger(__name__)


class Repositories:
    """The loops of all watched repositories, by name. Not safe for threads: everything happens on the event loop."""

    def __init__(self, environment: ReconcileEnvironment) -> None:
        self.tally = environment.tally  # of all runs
        self.remote_tally = environment.remotes.tally  # of calls of remotes
        self._environment = environment
        self._loops: dict[str, Loop] = {}
        self._groups: dict[Hashable, CommitGroup] = {}
        self._watcher = Watcher()  # of all repositories on this machine
        self._changing = asyncio.Lock()  # held while loops are stopped and others started in their place
        environment.store.subscribe(ResourceChange, self._store_changed)

    # Start, reload, stop

    async def start(self, wanted: Iterable[Repository], *, trigger: Trigger = Trigger.START) -> None:
        """Watch exactly these. New and changed ones begin with a run, others continue without interruption.

        The API becomes the owner of the resources of repositories that are no longer watched; none is deleted.
        """
        async with self._changing:
            await self._start({one.name: one for one in wanted}, trigger=trigger)

    async def _start(self, wanted: Mapping[str, Repository], *, trigger: Trigger) -> None:
        # This may fail, so it comes before loops are stopped.
        for project in sorted({one.project for one in wanted.values()}):
            if await self._environment.ensure_project(project):
                log.info("The project %s is made, since a repository of the settings fills it.", project)
        leaving = {name: loop for name, loop in self._loops.items() if wanted.get(name) != loop.reconciler.watched}
        staying = {name: loop for name, loop in self._loops.items() if name not in leaving}
        await asyncio.gather(*(loop.stop() for loop in leaving.values()))
        try:
            await self._release_unwatched(wanted)
            fresh = {name: await self._loop(wanted[name]) for name in sorted(wanted.keys() - staying.keys())}
            await self._audit_watched(fresh, leaving)
        except BaseException:
            for loop in leaving.values():
                loop.reconciler.forget()  # the store may have changed meanwhile
                loop.start(trigger)
            raise
        self._loops = staying | fresh
        followed = {_group_of(loop.reconciler.watched) for loop in self._loops.values()}
        self._groups = {which: group for which, group in self._groups.items() if which in followed}
        await self._environment.remotes.keep([loop.reconciler.source for loop in self._loops.values()])
        for name, loop in fresh.items():
            # Requested runs are done under the new settings.
            loop.queue = (leaving[name].queue if name in leaving else []) + loop.queue
            loop.start(trigger)

    async def stop(self) -> None:
        """Stop every loop."""
        async with self._changing:
            await asyncio.gather(*(loop.stop() for loop in self._loops.values()))
            self._loops.clear()
            await self._environment.remotes.close()

    async def _loop(self, one: Repository) -> Loop:
        neighbours, source = partial(self._neighbours, one), source_of(one)
        group = self._groups.setdefault(_group_of(one), CommitGroup(self._environment.applier))
        reconciler = Reconciler(
            one,
            self._environment,
            following=self._environment.remotes.follow(source),
            neighbours=neighbours,
            group=group,
            tell_group=partial(self._tell_group, one, source.follows),
        )
        made = 0  # the time in the id of the last run, in milliseconds

        def new_run(why: Trigger, actor: str) -> Run:
            nonlocal made
            # Runs are listed by their ids, so even two within a millisecond need an order.
            made = milliseconds = max(int(self._environment.clock().timestamp() * 1000), made + 1)
            run_id = ids.ulid(milliseconds=milliseconds, randomness=os.urandom(ids.RANDOM_BYTES))
            return Run(id=run_id, repository=one.name, project=one.project, trigger=why, actor=actor)

        await reconciler.recall()
        return Loop(reconciler, new_run=new_run, watcher=self._watcher)

    def _neighbours(self, one: Repository) -> tuple[ProjectRepository, ...]:
        """Return the other repositories that fill the same project, by name."""
        return tuple(
            ProjectRepository(rules=reconciler.rules, branch=reconciler.branch)
            for reconciler in self.reconcilers()
            if reconciler.watched.name != one.name and reconciler.watched.project == one.project
        )

    def _tell_group(self, one: Repository, follows: Followed, head: RefHead) -> None:
        """Start runs of the other entries that follow the same remote, to plan the commit together."""
        for loop in self._loops.values():
            other, memory = loop.reconciler, loop.reconciler.memory
            is_same = _group_of(other.watched) == _group_of(one) and other.source.follows == follows
            if is_same and other.why_suspended is None and memory.row.head != head.commit:
                loop.join()

    async def _release_unwatched(self, wanted: Mapping[str, Repository]) -> None:
        store, applier = self._environment.store, self._environment.applier
        # A suspension is kept: the repository may be missing by mistake, and comes back suspended.
        for row in await store.repositories():
            name, project = row.name, wanted[row.name].project if row.name in wanted else None
            if row.project != project:
                what = f"{name} is watched no more" if project is None else f"{name} fills another project now"
                log.info("%s; what it applied to %s belongs to the API.", what, row.project)
                event = interventions.release_event(row, to=project, at=rfc3339(self._environment.clock()))
                record = Record(release_repository=name, audit=(event,), change=ResourceChange(name))
                await applier.tell(record, project=row.project)

    async def _audit_watched(self, fresh: Mapping[str, Loop], leaving: Mapping[str, Loop]) -> None:
        """Record in the audit which repositories are watched from now on."""
        at = rfc3339(self._environment.clock())
        for name, loop in fresh.items():
            one = loop.reconciler
            record = interventions.watching_record(one.watched, one.memory.row, is_reload=name in leaving, at=at)
            if record is None:
                continue
            try:
                await self._environment.applier.tell(record, project=one.watched.project)
                one.memory.row = record.repository or one.memory.row
            except StoreFault as fault:  # the settings count nevertheless
                log.warning("The audit does not say that the settings changed what is watched (%s): %s", name, fault)

    # Show

    def run(self, run: str) -> bytes | None:
        """Return a queued or running run as a JSON object; None if it has ended, so that only the store has it."""
        for loop in self._loops.values():
            for pending in (loop.running, *loop.queue):
                if pending is not None and pending.id == run:
                    return runs.shown_run(pending)
        return None

    def reconcilers(self) -> list[Reconciler]:
        """All reconcilers, by the names of their repositories."""
        return [self._loops[name].reconciler for name in sorted(self._loops)]

    def reconciler(self, name: str) -> Reconciler | None:
        """Return a repository's reconciler; None for an unknown one. After a reload it may be another object."""
        loop = self._loops.get(name)
        return None if loop is None else loop.reconciler

    def follows(self, name: str) -> bool:
        """Return True if this replica follows the repository, or if there is no such repository."""
        return True

    def holder(self, name: str) -> str | None:
        """Return the name of the replica that follows a repository, as far as it is known; None on one machine."""
        return None

    def project_of(self, name: str) -> str | None:
        """Return the project that a repository fills; None for an unknown one."""
        found = self.reconciler(name)
        return None if found is None else found.watched.project

    # Ask for runs

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Request a run. Return the id of the run that covers it; None for an unknown repository. Raises Suspended."""
        loop = self._loops.get(name)
        if loop is None:
            return None
        _check_polled(loop.reconciler)
        return loop.ask(Trigger.REQUEST, actor=actor.name).id

    def hint(self, name: str) -> None:
        """Poll a repository now, because a forge reports a push. An unknown or suspended repository is not polled."""
        loop = self._loops.get(name)
        if loop is not None and loop.reconciler.why_suspended is None:
            loop.ask(Trigger.HOOK, actor="system")

    def _store_changed(self, told: ResourceChange) -> None:
        """Run the repositories that the change may affect: those that became the owner of a resource, whose resources
        no longer fit their type, or that wait for a changed resource.
        """
        for name, loop in self._loops.items():
            memory = loop.reconciler.memory
            waits = told.changed and memory.waits_for_store
            if name != told.origin and (waits or name in told.touched):
                loop.ask(Trigger.STORE, actor="system")

    # Suspend, resume, approve

    async def suspend(self, name: str, *, reason: str, until: datetime | None, actor: Actor, request: str) -> None:
        """Suspend a repository; do nothing for an unknown one. Raises StoreFault, Locked.

        A run in progress is cancelled unless it is being stored, so that nothing overwrites an admin's later changes. A
        caller who waits for a run learns that it was refused.
        """
        end = None if until is None else rfc3339(until)
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return
            reconciler, by = loop.reconciler, self._intervention(loop, actor, request)
            before = reconciler.memory.suspension if reconciler.suspension_left else None
            since = by.at if before is None else before.since
            suspension = SuspensionRow(name, reason=reason, actor=actor.name, since=since, until=end)
            await self._change(loop, reconciler.suspend(suspension, by=by))
            log.info("%s is suspended by %s: %s", name, actor.name, reason)

    async def resume(self, name: str, *, actor: Actor, request: str) -> str | None:
        """End a suspension. Return the id of the run that reads the whole repository; None for an unknown repository.

        If the repository is not suspended, this requests a run, so a repeated call has the same result. Raises
        Suspended if a setting suspends it, StoreFault.
        """
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            if loop.reconciler.watched.suspend:
                raise Suspended(
                    f"{name} is suspended by its setting `suspend: true`, which the API does not change; set it to "
                    "false, and reload the settings."
                )
            if loop.reconciler.memory.suspension is not None:
                by = self._intervention(loop, actor, request)
                await self._change(loop, loop.reconciler.resume(by=by))
                log.info("%s is resumed by %s.", name, actor.name)
            return loop.ask(Trigger.REQUEST, actor=actor.name).id

    def _intervention(self, loop: Loop, actor: Actor, request: str) -> AuditRow:
        at = rfc3339(self._environment.clock())
        return interventions.intervention(loop.reconciler.watched, actor=actor.name, at=at, request=request)

    async def _change(self, loop: Loop, change: Coroutine[None, None, None]) -> None:
        """Stop a loop, make the change, and start it again."""
        try:
            await loop.stop()
            await loop.reconciler.recall()  # a run that was cancelled while it was stored has told only the store
            await change
        except BaseException:
            loop.reconciler.forget()
            raise
        finally:
            change.close()
            loop.start(Trigger.RELOAD)

    async def approve(self, name: str, *, commit: str, actor: Actor, request: str) -> str | None:
        """Release the deletions held at a commit and request a run. Return its id; None for an unknown repository.

        Raises NotHeld, Suspended, Moved, StoreFault, Locked.
        """
        environment = self._environment
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            _check_polled(loop.reconciler)
            by = self._intervention(loop, actor, request)
            await interventions.approve(by, commit=commit, store=environment.store, applier=environment.applier)
            log.info("What %s holds at %s is approved by %s.", name, commit, actor.name)
            return loop.ask(Trigger.REQUEST, actor=actor.name).id


def _group_of(one: Repository) -> Hashable:
    """Identify the entries that one change may concern: those with one project and one mirror."""
    return one.project, one.url, one.credentials


def _check_polled(reconciler: Reconciler) -> None:
    """Raise Suspended if the repository is suspended."""
    why = reconciler.why_suspended
    if why is not None:
        raise Suspended(f"There is no run of {reconciler.watched.name} while it is suspended. {why}")
