"""All watched repositories: started, reloaded, stopped, suspended and shown.

With several replicas, each follows only those whose leases it has. The others have no loop here, and their memory is
what the store says.
"""

import asyncio
import hashlib
import logging
import os
from collections import defaultdict
from collections.abc import Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from reconciler.replicas.keeper import WORK, Group
from reconciler.settings.repositories import Repository
from reconciler.store.contract import LeaseLost, StoreFault
from reconciler.store.notices import HintBody, NoticeKind
from reconciler.store.records import AuditRow, Committed, Record, ResourceChange
from reconciler.store.replica_records import Lease
from reconciler.store.repository_records import SuspensionRow
from reconciler.worker.messages import ProjectRepository

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0  # after the store could not be read


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
        self._keeper = environment.keeper
        self._followed: dict[str, Lease | None] = {}  # by this replica, with the leases of their loops
        self._is_settled = False  # nothing is left to release after a change of the settings
        self._outdated: set[str] = set()  # followed by other replicas, and changed since they were recalled
        self._are_outdated = asyncio.Event()
        environment.store.subscribe(ResourceChange, self._store_changed)
        environment.store.subscribe(Committed, self._committed)
        if self._keeper is not None:
            self._keeper.attach(self)

    # Start, reload, stop

    async def start(self, wanted: Iterable[Repository], *, trigger: Trigger = Trigger.START) -> None:
        """Watch exactly these. New and changed ones begin with a run, others continue without interruption.

        The API becomes the owner of the resources of repositories that are no longer watched; none is deleted.
        """
        repositories = {one.name: one for one in wanted}
        async with self._changing:
            await self._start(repositories, trigger=trigger)
        if self._keeper is not None:
            await self._keeper.settings_are(_settings_digest(repositories))
            await self.follow(self._keeper.held)

    async def _start(self, wanted: Mapping[str, Repository], *, trigger: Trigger) -> None:
        # This may fail, so it comes before loops are stopped.
        for project in sorted({one.project for one in wanted.values()}):
            if await self._environment.ensure_project(project):
                log.info("The project %s is made, since a repository of the settings fills it.", project)
        leaving = {name: loop for name, loop in self._loops.items() if wanted.get(name) != loop.reconciler.watched}
        staying = {name: loop for name, loop in self._loops.items() if name not in leaving}
        await asyncio.gather(*(loop.stop() for loop in leaving.values()))
        try:
            if self._keeper is None:
                await self._release_unwatched(wanted)
            fresh = {name: await self._loop(wanted[name]) for name in sorted(wanted.keys() - staying.keys())}
            followed = {name: loop for name, loop in fresh.items() if self.follows(name) and not _must_settle(loop)}
            await self._audit_watched(followed, leaving)
        except BaseException:
            for name, loop in leaving.items():
                loop.reconciler.forget()  # the store may have changed meanwhile
                if self.follows(name):
                    loop.start(trigger)
            raise
        self._loops = staying | fresh
        self._followed = {
            name: lease for name, lease in self._followed.items() if name in staying or name in followed
        } | {name: self._followed.get(name) for name in followed}
        self._is_settled = self._keeper is None
        present = {_group_of(loop.reconciler.watched) for loop in self._loops.values()}
        self._groups = {which: group for which, group in self._groups.items() if which in present}
        await self._environment.remotes.keep([loop.reconciler.source for loop in self._loops.values()])
        for name, loop in followed.items():
            # Requested runs are done under the new settings.
            loop.queue = (leaving[name].queue if name in leaving else []) + loop.queue
            loop.reconciler.lease = self._followed[name]
            loop.start(trigger)

    async def stop(self) -> None:
        """Stop every loop, and let other replicas follow the repositories."""
        async with self._changing:
            await asyncio.gather(*(loop.stop() for loop in self._loops.values()))
            self._loops.clear()
            self._followed.clear()
            await self._environment.remotes.close()
            if self._keeper is not None:
                await self._keeper.leave()

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
                await applier.store_record(record, project=row.project)

    # Several replicas: this one follows the repositories whose leases it has (`Followers`)

    def groups(self) -> Sequence[Group]:
        """Return the repositories that always have the same holder, sorted."""
        found: defaultdict[Hashable, list[str]] = defaultdict(list)
        for name, loop in sorted(self._loops.items()):
            found[_group_of(loop.reconciler.watched)].append(name)
        return sorted(map(tuple, found.values()))

    def is_resting(self, name: str) -> bool:
        """Return True if no run of a repository is under way or requested."""
        loop = self._loops.get(name)
        return loop is None or loop.is_resting

    async def follow(self, held: Mapping[str, Lease]) -> None:
        """Follow exactly the repositories with these leases. Raises nothing foreseen: it is called again soon."""
        async with self._changing:
            lost = [name for name, lease in self._followed.items() if held.get(name) != lease]
            await asyncio.gather(*map(self._end, lost))
            try:
                await self._settle()
                await self._begin(
                    {name: held[name] for name in held.keys() & self._loops.keys() - self._followed.keys()}
                )
            except StoreFault as fault:
                log.warning("What this replica is to follow could not be read: %s", fault)

    async def _end(self, name: str) -> None:
        """Stop following a repository. Another replica may follow it already."""
        loop = self._loops[name]
        del self._followed[name]
        await loop.stop()
        loop.queue.clear()
        log.info("%s is not followed by this replica any more.", name)
        loop.reconciler.drop_memory()
        self._outdate([name])

    async def _begin(self, gained: Mapping[str, Lease]) -> None:
        """Follow repositories that this replica did not follow. Raises StoreFault."""
        fresh = {}
        for name in sorted(gained):
            loop = fresh[name] = self._loops[name]
            loop.reconciler.drop_memory()
            await loop.reconciler.recall()
        fresh = {name: loop for name, loop in fresh.items() if not _must_settle(loop)}
        for name, loop in fresh.items():
            self._followed[name] = loop.reconciler.lease = gained[name]
        await self._audit_watched(fresh, {})
        for name, loop in fresh.items():
            log.info("%s is followed by this replica.", name)
            loop.start(Trigger.START)

    async def _settle(self) -> None:
        """Release what no replica watches any more. One of them does it, once all have the same settings: until then
        another one may still follow it.
        """
        keeper = self._keeper
        if not self._is_settled and keeper is not None and keeper.are_alike and keeper.holds(WORK):
            await self._release_unwatched({name: loop.reconciler.watched for name, loop in self._loops.items()})
            self._is_settled = True

    async def keep(self) -> None:
        """Recall the repositories of other replicas when they change, for ever."""
        while True:
            await self._are_outdated.wait()
            self._are_outdated.clear()
            outdated, self._outdated = self._outdated, set()
            async with self._changing:
                for name in sorted(outdated & self._loops.keys() - self._followed.keys()):
                    try:
                        await self._loops[name].reconciler.recall()
                    except StoreFault as fault:
                        log.debug("%s could not be recalled: %s", name, fault)
                        self._outdate([name])
            if self._outdated:
                await asyncio.sleep(AGAIN_SECONDS)

    async def recall(self) -> None:
        """Recall every repository of other replicas soon, because changes of theirs were missed."""
        self._outdate(self._loops)

    def _committed(self, told: Committed) -> None:
        if told.is_remote:
            self._outdate([name for _, name in told.repositories])

    def _outdate(self, names: Iterable[str]) -> None:
        self._outdated.update(names)
        self._are_outdated.set()

    def _check_followed(self, name: str) -> None:
        """Raise LeaseLost if another replica has got the repository while the caller waited."""
        if not self.follows(name):
            raise LeaseLost(f"Another replica follows {name} by now; send this again.")

    async def _audit_watched(self, fresh: Mapping[str, Loop], leaving: Mapping[str, Loop]) -> None:
        """Record in the audit which repositories are watched from now on."""
        at = rfc3339(self._environment.clock())
        for name, loop in fresh.items():
            one = loop.reconciler
            record = interventions.watching_record(one.watched, one.memory.row, is_reload=name in leaving, at=at)
            if record is None:
                continue
            record = replace(record, lease=self._followed.get(name))
            try:
                await self._environment.applier.store_record(record, project=one.watched.project)
                one.memory.row = record.repository or one.memory.row
            except (StoreFault, LeaseLost) as fault:  # the settings count nevertheless
                log.warning("The audit does not say that the settings changed what is watched (%s): %s", name, fault)

    # Show

    def run(self, run: str) -> bytes | None:
        """Return a queued or running run as a JSON object; None if it has ended, so that only the store has it."""
        return next((runs.shown_run(pending) for pending in self.pending() if pending.id == run), None)

    def pending(self) -> list[Run]:
        """Return the queued and running runs."""
        return [run for loop in self._loops.values() for run in (loop.running, *loop.queue) if run is not None]

    def reconcilers(self) -> list[Reconciler]:
        """Return all reconcilers, by the names of their repositories."""
        return [self._loops[name].reconciler for name in sorted(self._loops)]

    def reconciler(self, name: str) -> Reconciler | None:
        """Return a repository's reconciler; None for an unknown one. After a reload it may be another object."""
        loop = self._loops.get(name)
        return None if loop is None else loop.reconciler

    def followed(self) -> list[Reconciler]:
        """Return the reconcilers of the repositories that this replica follows, by name: all of them on one machine."""
        return [one for one in self.reconcilers() if self.follows(one.watched.name)]

    def follows(self, name: str) -> bool:
        """Return True if this replica follows the repository, if there is one of this name."""
        return self._keeper is None or name in self._followed

    @property
    def is_shared(self) -> bool:
        """True if other replicas may follow some of the repositories."""
        return self._keeper is not None

    def holder(self, name: str) -> str | None:
        """Return the name of the replica that follows a repository, as far as it is known; None on one machine."""
        if self._keeper is None:
            return None
        return self._keeper.name if name in self._followed else self._keeper.holder(name)

    def project_of(self, name: str) -> str | None:
        """Return the project that a repository fills; None for an unknown one."""
        found = self.reconciler(name)
        return None if found is None else found.watched.project

    # Ask for runs

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Request a run. Return the id of the run that covers it; None for an unknown repository. Raises Suspended,
        LeaseLost.
        """
        loop = self._loops.get(name)
        if loop is None:
            return None
        self._check_followed(name)
        _check_polled(loop.reconciler)
        return loop.ask(Trigger.REQUEST, actor=actor.name).id

    async def hint(self, name: str) -> None:
        """Poll a repository now, because a forge reports a push, or let its holder do it. Raises StoreFault."""
        if self.follows(name):
            self.hinted(name)
        elif self._environment.notices is not None:
            await self._environment.notices.tell(NoticeKind.HINT, HintBody(name))

    def hinted(self, name: str) -> None:
        """Poll a repository now, if this replica follows it. An unknown or suspended repository is not polled."""
        loop = self._loops.get(name)
        if loop is not None and self.follows(name) and loop.reconciler.why_suspended is None:
            loop.ask(Trigger.HOOK, actor="system")

    def _store_changed(self, told: ResourceChange) -> None:
        """Run the repositories that the change may affect: those that became the owner of a resource, whose resources
        no longer fit their type, or that wait for a changed resource.
        """
        for name, loop in self._loops.items():
            if not self.follows(name):
                continue  # its holder hears of the change, too
            memory = loop.reconciler.memory
            waits = told.changed and memory.waits_for_store
            if name != told.origin and (waits or name in told.touched):
                loop.ask(Trigger.STORE, actor="system")

    # Suspend, resume, approve

    async def suspend(self, name: str, *, reason: str, until: datetime | None, actor: Actor, request: str) -> None:
        """Suspend a repository; do nothing for an unknown one. Raises StoreFault, Locked,
        LeaseLost.

        A run in progress is cancelled unless it is being stored, so that nothing overwrites an admin's later changes. A
        caller who waits for a run learns that it was refused.
        """
        end = None if until is None else rfc3339(until)
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return
            self._check_followed(name)
            reconciler, by = loop.reconciler, self._intervention(loop, actor, request)
            before = reconciler.memory.suspension if reconciler.suspension_left else None
            since = by.at if before is None else before.since
            suspension = SuspensionRow(name, reason=reason, actor=actor.name, since=since, until=end)
            await self._change(loop, reconciler.suspend(suspension, by=by))
            log.info("%s is suspended by %s: %s", name, actor.name, reason)

    async def resume(self, name: str, *, actor: Actor, request: str) -> str | None:
        """End a suspension. Return the id of the run that reads the whole repository; None for an unknown repository.

        If the repository is not suspended, this requests a run, so a repeated call has the same result. Raises
        Suspended if a setting suspends it, StoreFault, LeaseLost.
        """
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            self._check_followed(name)
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

        Raises NotHeld, Suspended, Moved, StoreFault, Locked, LeaseLost.
        """
        environment = self._environment
        async with self._changing:
            loop = self._loops.get(name)
            if loop is None:
                return None
            self._check_followed(name)
            _check_polled(loop.reconciler)
            by = self._intervention(loop, actor, request)
            await interventions.approve(
                by,
                commit=commit,
                store=environment.store,
                applier=environment.applier,
                lease=loop.reconciler.lease,
            )
            log.info("What %s holds at %s is approved by %s.", name, commit, actor.name)
            return loop.ask(Trigger.REQUEST, actor=actor.name).id


def _group_of(one: Repository) -> Hashable:
    """Identify the entries that one change may concern: those with one project and one mirror."""
    return one.project, one.url, one.credentials


def _must_settle(loop: Loop) -> bool:
    """Return True while a repository's former project still has resources of it, which are to be released first."""
    row = loop.reconciler.memory.row
    return bool(row.since) and row.project != loop.reconciler.watched.project


def _settings_digest(wanted: Mapping[str, Repository]) -> str:
    """Return a digest by which replicas see if they have the same repositories in their settings."""
    told = "\n".join(wanted[name].model_dump_json() for name in sorted(wanted))
    return hashlib.sha256(told.encode()).hexdigest()


def _check_polled(reconciler: Reconciler) -> None:
    """Raise Suspended if the repository is suspended."""
    why = reconciler.why_suspended
    if why is not None:
        raise Suspended(f"There is no run of {reconciler.watched.name} while it is suspended. {why}")
