"""Lanes that drain: those of destinations that are gone or have their queue elsewhere, and queues without a lane.

A lane without an exporter waits: for a destination of its name, or for somebody who discards its queue. Only lanes make
queues: once all that an earlier process left of a project are open, any later one is a lane's.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Queue, QueueFault
from reconciler.delivery.queue.queues import FoundIdentity, Queues

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks whether dead letters are left


class DrainingLanes:
    """Those of all projects, in the order in which they left. `ended` is called with each that is no more."""

    def __init__(self, queues: Queues, ended: Callable[[Lane], None]) -> None:
        self._queues = queues
        self._ended = ended
        self._lanes: list[Lane] = []
        self._drains: dict[Lane, asyncio.Task[None]] = {}
        self._ends: dict[asyncio.Task[None], Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter([*self._lanes])

    def of(self, project: str, name: str | None = None) -> list[Lane]:
        """Those of a project, or of one of its destinations."""
        return [lane for lane in self._lanes if lane.project == project and name in (None, lane.name)]

    def add(self, lane: Lane) -> None:
        """This one takes nothing more."""
        lane.leaving = True
        self._lanes.append(lane)
        self.drain(lane)

    def drain(self, lane: Lane) -> None:
        """End it once it is empty, if it is one that sends."""
        if lane.exporter is not None:
            self._drains[lane] = asyncio.create_task(self._drained(lane), name=f"drain-{lane.project}-{lane.name}")

    def take_back(self, project: str, name: str, place: str) -> Lane | None:
        """The lane of a destination that is wanted again at the same place: it is not opened twice."""
        for lane in self.of(project, name):
            if lane.place == place:
                self._lanes.remove(lane)
                self._stop(lane)
                lane.leaving = False
                return lane
        return None

    async def end_empty(self) -> None:
        """End those that send nothing and are empty, all at once: they share one wait for a disk that hangs. Whoever
        gives up waiting leaves none of them half ended.
        """
        ends = [self._end(lane) for lane in self if lane.exporter is None and lane.is_empty]
        if ends:
            await asyncio.wait(ends)

    async def until_ended(self, project: str, name: str, place: str) -> None:
        """Until none ends of a destination at this place: nobody opens its queue before that is closed."""
        ends = [
            task for task, lane in self._ends.items() if (lane.project, lane.name, lane.place) == (project, name, place)
        ]
        if ends:
            await asyncio.wait(ends)

    def stop(self) -> None:
        """End none any more."""
        for lane in [*self._drains]:
            self._stop(lane)

    async def _drained(self, lane: Lane) -> None:
        await lane.sender.drained()
        while not lane.is_empty:  # dead letters, until they are discarded, replayed or too old
            await asyncio.sleep(LOOK_SECONDS)
            await lane.sender.drained()
        self._end(lane)

    def _end(self, lane: Lane) -> asyncio.Task[None]:
        """Its folder goes. Nothing suspends between the look that found it empty and its leaving the list for those
        that end: whoever misses it in the list waits until its queue is gone (`until_ended`).
        """
        self._lanes.remove(lane)
        self._drains.pop(lane, None)
        self._ended(lane)
        ends = asyncio.create_task(self._gone(lane), name=f"end-{lane.project}-{lane.name}")
        self._ends[ends] = lane
        ends.add_done_callback(self._ends.pop)
        return ends

    async def _gone(self, lane: Lane) -> None:
        if lane.exporter is not None:
            await lane.exporter.stop(seconds=0)
        if lane.queue is not None:
            await self._queues.remove(lane.queue)
        log.info("The queue of %s in the project %s is empty, and nobody wants it any more.", lane.name, lane.project)

    def _stop(self, lane: Lane) -> None:
        task = self._drains.pop(lane, None)
        if task is not None:
            task.cancel()


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
