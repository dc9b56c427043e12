"""Entries of one project that follow one remote: runs that find the same commit are planned and stored as one change.

A run that is ready to plan waits until the other runs of its group that have begun are ready too or have ended. Then
those with the same commit continue together. If their change fails, each run tries alone: an entry whose files cannot
be planned must not block the others.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from reconciler.model import log_context
from reconciler.model.errors import ReconcilerError
from reconciler.reconcile.apply import Applier, RecordOf
from reconciler.store.records import Record
from reconciler.worker.messages import CommitJob, CommitPlanned

log = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds that a run waits for others


@dataclass(eq=False, slots=True)
class _Ready:
    """A run that is ready to plan. `change` gets the change that it is part of; None if it plans alone."""

    job: CommitJob
    record: RecordOf
    change: "asyncio.Future[_Change | None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CommitGroup:
    """The runs of one group. Not safe for threads: everything happens on the event loop."""

    def __init__(self, applier: Applier) -> None:
        self._applier = applier
        self._under_way: set[str] = set()  # the names of repositories whose runs are not ready yet
        self._ready: list[_Ready] = []

    def begin(self, name: str) -> None:
        """Record that a run begins now."""
        self._under_way.add(name)

    def end(self, name: str) -> None:
        """Record that a run is ready, has ended, or will not begin."""
        self._under_way.discard(name)
        if not self._under_way:
            self._continue_together()

    async def commit(self, job: CommitJob, *, record: RecordOf) -> CommitPlanned:
        """Plan and store a commit as `Applier.commit` does, together with the other runs that have the same one.

        Raises what that raises.
        """
        ready = _Ready(job, record)
        self._ready.append(ready)
        self.end(job.rules.name)
        try:
            await asyncio.wait({ready.change}, timeout=PATIENCE)
            if not ready.change.done():
                self._continue_together()
            change = ready.change.result()
            planned = None if change is None else await change.planned(ready)
        except asyncio.CancelledError:
            self._ready = [one for one in self._ready if one is not ready]
            change = ready.change.result() if ready.change.done() else None
            if change is not None:
                await change.leave()
            raise
        return planned or await self._applier.commit(job, record=record)

    def _continue_together(self) -> None:
        by_commit: defaultdict[str, list[_Ready]] = defaultdict(list)
        for one in sorted(self._ready, key=lambda one: one.job.rules.name):
            by_commit[one.job.commit].append(one)
        self._ready.clear()
        for members in by_commit.values():
            change = _Change(self._applier, members) if len(members) > 1 else None
            for one in members:
                one.change.set_result(change)


class _Change:
    """Runs that are planned and stored as one change, in the order of their repositories' names."""

    def __init__(self, applier: Applier, members: Sequence[_Ready]) -> None:
        self._applier = applier
        self._members = members
        self._is_stored = False  # or will be: its records are made
        self._task = asyncio.create_task(self._commit(), name="commit-together", context=log_context.unbound())

    async def leave(self) -> None:
        """Cancel the change for a cancelled run, which must store nothing. If it is being stored, wait for its end."""
        if not self._is_stored:
            self._task.cancel()
        while not self._task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({self._task})

    async def planned(self, member: _Ready) -> CommitPlanned | None:
        """Return the stored plan of a member; None if the member must try alone."""
        await asyncio.wait({self._task})
        if self._task.cancelled():
            return None
        try:
            first = self._task.result()
        except ReconcilerError as fault:
            log.debug("%s is planned apart: %s", member.job.rules.name, fault.message)
            return None
        return (first, *first.beside)[self._members.index(member)]

    async def _commit(self) -> CommitPlanned:
        first, *beside = [(one.job, self._recording(one)) for one in self._members]
        return await self._applier.commit(first[0], record=first[1], beside=beside)

    def _recording(self, member: _Ready) -> RecordOf:
        def record(planned: CommitPlanned) -> Record | None:
            self._is_stored = True  # from here on it only waits for the store
            return member.record(planned)

        return record
