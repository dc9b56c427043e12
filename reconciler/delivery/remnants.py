"""Queues on disk that an earlier process left and that no lane has yet.

Belongs here: finding them, opening them once, telling copies. Does not: what is made of them (`manager`), how one is
opened (`queueing`).

Nobody but lanes makes queues: once all that were found of a project are open, what is there later is a lane's.
"""

import logging
from collections.abc import Callable, Sequence

from reconciler.queueing.contract import Queue, QueueFault
from reconciler.queueing.queues import FoundIdentity, Queues

log = logging.getLogger(__name__)


class OrphanedQueues:
    """Those of all projects."""

    def __init__(self, queues: Queues, *, dead_bytes: int) -> None:
        """`dead_bytes` bounds the dead letters of each queue."""
        self._queues = queues
        self._dead_bytes = dead_bytes
        self._opened: set[str] = set()  # the projects of which all are

    async def projects(self) -> frozenset[str]:
        """Those that have a queue on disk, as far as that can be read."""
        found, _ = await self._queues.found()
        return frozenset(one.project for one in found)

    async def names(self, project: str) -> set[str]:
        """The destinations of a project that have one which may not be open yet, as far as that can be read."""
        if project in self._opened:
            return set()
        found, _ = await self._queues.found()
        return {one.name for one in found if one.project == project}

    async def open(self, project: str, *, opened: Callable[[FoundIdentity, Queue], None]) -> list[QueueFault]:
        """Open those of a project; `opened` hears of each. Returns why some cannot be opened, or why nobody can say of
        some whose they are, which may be this project's: call it again later.
        """
        if project in self._opened:
            return []
        everyones, faults = await self._queues.found()
        found = [one for one in everyones if one.project == project]
        for one in found:
            if not self._queues.is_open(one):
                try:
                    opened(one, await self._queues.open_found(one, dead_bytes=self._dead_bytes))
                except QueueFault as fault:
                    faults.append(fault)
        if not faults:
            self._opened.add(project)
            _tell_copies(found)
        return faults


def _tell_copies(found: Sequence[FoundIdentity]) -> None:
    """Of queues in several folders: a folder was copied, or restored beside what there was. Each is sent."""
    folders: dict[tuple[str, str], list[FoundIdentity]] = {}
    for one in found:
        folders.setdefault((one.name, one.directory), []).append(one)
    for (name, _), several in sorted(folders.items()):
        if len(several) > 1:
            log.warning(
                "%s has %d queues, as if one were a copy, in %s. What stands in several of them is sent as often. "
                "Where that is not wanted, stop the service and move one of them away.",
                name,
                len(several),
                ", ".join(str(one.folder) for one in several),
            )
