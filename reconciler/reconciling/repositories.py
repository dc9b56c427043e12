"""All watched repositories: started, reloaded and stopped together, and shown to whoever asks."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from reconciler import ids
from reconciler.access.actors import Actor
from reconciler.applying import Applier
from reconciler.clock import Clock, rfc3339
from reconciler.git.faults import State
from reconciler.git.mirrors import Mirror
from reconciler.reconciling import runs, watched
from reconciler.reconciling.loops import Loop
from reconciler.reconciling.reconciler import Reconciler
from reconciler.reconciling.runs import Run, Trigger
from reconciler.reconciling.watched import Watched
from reconciler.store.contract import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Environment:
    """What every reconciler needs and none owns."""

    store: Store
    applier: Applier
    mirror: Callable[[Watched], Mirror]
    api_versions: frozenset[str]
    schemas: str
    clock: Clock


class Repositories:
    """The loops by name. Not safe for threads: everything happens on the event loop."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._loops: dict[str, Loop] = {}
        environment.applier.listen(self._store_changed)

    async def start(self, wanted: Iterable[Watched], *, trigger: Trigger = Trigger.START) -> None:
        """Watch exactly these: new and changed ones begin with a look, others go on undisturbed.

        What a repository owned that is watched no more belongs to the API from now on; nothing of it is deleted.
        """
        by_name = {one.name: one for one in wanted}
        environment = self._environment
        # What may fail comes before anything is stopped, as far as it can.
        for project in sorted({one.project for one in by_name.values()}):
            await environment.store.create_project(project, at=rfc3339(environment.clock()))
        leaving = {name: loop for name, loop in self._loops.items() if by_name.get(name) != loop.reconciler.watched}
        await asyncio.gather(*(loop.stop() for loop in leaving.values()))
        try:
            await self._release({name: one.project for name, one in by_name.items()})
            coming = by_name.keys() - (self._loops.keys() - leaving.keys())
            fresh = {name: await self._loop(by_name[name]) for name in sorted(coming)}
        except BaseException:
            for name, loop in leaving.items():
                self._loops[name] = loop.again(trigger)
            raise
        self._loops = {name: loop for name, loop in self._loops.items() if name not in leaving} | fresh
        for name, loop in fresh.items():
            # Whoever was promised a run gets it under the new settings, unless it was stored at the last moment.
            promised = leaving[name].promised if name in leaving else []
            loop.start(trigger, promised=[run for run in promised if run.id != loop.reconciler.last_run])

    async def stop(self) -> None:
        """Stop every loop."""
        await asyncio.gather(*(loop.stop() for loop in self._loops.values()))
        self._loops.clear()

    def all(self) -> list[bytes]:
        """Every repository as a JSON object, sorted by name."""
        return [_shown(self._loops[name]) for name in sorted(self._loops)]

    def one(self, name: str) -> bytes | None:
        """One repository as a JSON object, or None."""
        loop = self._loops.get(name)
        return None if loop is None else _shown(loop)

    def reconcile(self, name: str, *, actor: Actor) -> str | None:
        """Ask for a run; the id of the run that will cover it, or None for an unknown repository."""
        loop = self._loops.get(name)
        return None if loop is None else loop.ask(Trigger.REQUEST, actor=actor.name).id

    def run(self, run: str) -> bytes | None:
        """A queued or running run as a JSON object, or None: then ask the store."""
        for loop in self._loops.values():
            for pending in (loop.running, loop.queued, *loop.promised):
                if pending is not None and pending.id == run:
                    return runs.shown(pending)
        return None

    def _store_changed(self, origin: str | None) -> None:
        """What another owner held may be free now; who waits for that looks again."""
        for name, loop in self._loops.items():
            if name != origin and loop.reconciler.waits_for_store:
                loop.ask(Trigger.STORE, actor="system")

    async def _loop(self, one: Watched) -> Loop:
        environment = self._environment
        reconciler = Reconciler(
            one,
            mirror=partial(environment.mirror, one),
            store=environment.store,
            applier=environment.applier,
            fingerprint=watched.fingerprint(one, api_versions=environment.api_versions, schemas=environment.schemas),
            clock=environment.clock,
        )

        def new_run(why: Trigger, actor: str) -> Run:
            milliseconds = int(environment.clock().timestamp() * 1000)
            run_id = ids.ulid(milliseconds=milliseconds, randomness=os.urandom(ids.RANDOM_BYTES))
            return Run(id=run_id, repository=one.name, project=one.project, trigger=why, actor=actor)

        await reconciler.recall()
        return Loop(reconciler, new_run=new_run)

    async def _release(self, projects: Mapping[str, str]) -> None:
        """`projects` are those that the watched repositories fill, by the repositories' names."""
        store, applier = self._environment.store, self._environment.applier
        for name in await store.repositories():
            remembered = await store.repository(name)
            if remembered is not None and projects.get(name) != remembered.project:
                what = f"{name} is watched no more" if name not in projects else f"{name} fills another project now"
                log.info("%s; what it applied to %s belongs to the API.", what, remembered.project)
                await applier.release(name)


def _shown(loop: Loop) -> bytes:
    one, row = loop.reconciler.watched, loop.reconciler.remembered
    return msgspec.json.encode(
        {
            "name": one.name,
            "project": one.project,
            "url": one.url,
            "branch": one.branch,
            "path": one.path,
            "state": State.NEVER_READ if row is None else row.state,
            "message": None if row is None else row.message,
            "since": None if row is None else row.since,
            "commit": None if row is None else row.commit,
            "head": None if row is None else row.head,
            "lastRun": loop.reconciler.last_run,
        }
    )
