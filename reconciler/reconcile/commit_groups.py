"""Entries of one project that follow one remote: runs that find the same commit are planned and stored as one change.

A run that is ready to plan waits for the runs of its group that are under way, until each of them is ready too or has
ended. Then those with the same commit go on together. A change that fails together is tried by each run alone, so that
an entry whose files cannot be planned keeps no other from its commit.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import structs

from reconciler.model import log_context
from reconciler.model.errors import ReconcilerError
from reconciler.reconcile.apply import Applier, RecordOf
from reconciler.store.records import Record
from reconciler.worker.messages import CommitJob, CommitPlanned

log = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds that a run waits for others


@dataclass(eq=False, slots=True)
class _Ready:
    """A run that is ready to plan; `change` is set once it is known with which others."""

    job: CommitJob
    record: RecordOf
    change: "asyncio.Future[_Change]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CommitGroup:
    """The runs of one group. Not safe for threads: everything happens on the event loop."""

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        self._under_way: set[str] = set()  # the names of repositories whose runs are not ready yet
        self._ready: list[_Ready] = []

    def begin(self, name: str) -> None:
        """A run begins, or will at once."""
        self._under_way.add(name)

    def end(self, name: str) -> None:
        """A run is ready, has ended, or will not begin."""
        self._under_way.discard(name)
        if not self._under_way:
            self._go_on()

    async def commit(self, job: CommitJob, *, record: RecordOf) -> CommitPlanned:
        """Plan and store a commit as `Applier.commit` does, together with the other runs that have the same one.

        Raises what that raises.
        """
        ready = _Ready(job, record)
        self._ready.append(ready)
        self.end(job.rules.name)
        try:
            async with asyncio.timeout(PATIENCE):
                change = await asyncio.shield(ready.change)
        except TimeoutError:
            self._go_on()
            change = ready.change.result()
        except asyncio.CancelledError:
            if ready.change.done():
                await ready.change.result().leave()
            raise
        finally:
            if ready in self._ready:
                self._ready.remove(ready)
        planned = await change.planned(ready)
        return planned or await self._applier.commit(job, record=record)

    def _go_on(self) -> None:
        by_commit: defaultdict[str, list[_Ready]] = defaultdict(list)
        for one in self._ready:
            by_commit[one.job.commit].append(one)
        self._ready.clear()
        for members in by_commit.values():
            change = _Change(self._applier, members)
            for one in members:
                one.change.set_result(change)


class _Change:
    """Runs that are planned and stored as one change."""

    def __init__(self, applier: Applier, members: Sequence[_Ready]) -> None:
        self._applier = applier
        self._members = sorted(members, key=lambda one: one.job.rules.name)
        self._is_stored = False  # or will be: its records are made
        self._task: asyncio.Task[CommitPlanned] | None = None
        if len(members) > 1:
            self._task = asyncio.create_task(self._commit(), name="commit-together", context=log_context.unbound())

    async def leave(self) -> None:
        """End it for a run that is cancelled, of which nothing may be stored; if it is being stored, wait for that."""
        task = self._task
        if task is not None and not self._is_stored:
            task.cancel()
        while task is not None and not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})

    async def planned(self, member: _Ready) -> CommitPlanned | None:
        """Return what was planned for a member and is stored; None if it is to be tried alone."""
        task = self._task
        if task is None:
            return None
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            await self.leave()
            raise
        if task.cancelled():
            return None
        fault = task.exception()
        if fault is None:
            first = task.result()
            return (first, *first.beside)[self._members.index(member)]
        if not isinstance(fault, ReconcilerError):
            raise fault
        log.debug("%s is planned apart: %s", member.job.rules.name, fault.message)
        return None

    async def _commit(self) -> CommitPlanned:
        names = {one.job.rules.name for one in self._members}
        jobs = []
        for one in self._members:
            others = tuple(other for other in one.job.neighbours if other.rules.name not in names)
            jobs.append(structs.replace(one.job, neighbours=others))
        first, *beside = zip(jobs, map(self._recording, self._members), strict=True)
        return await self._applier.commit(first[0], record=first[1], beside=beside)

    def _recording(self, member: _Ready) -> RecordOf:
        def record(planned: CommitPlanned) -> Record | None:
            self._is_stored = True  # nothing is waited for from here on but the store
            return member.record(planned)

        return record
