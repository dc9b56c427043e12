"""Lanes that drain, queues without a lane, and the handling of dead letters."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Queue, QueueFault
from reconciler.delivery.queue.queues import FoundIdentity, Queues
from reconciler.delivery.reporting import QueueFull
from reconciler.model.text import counted

# Lanes that take nothing more: those of destinations that are gone, or have their queue elsewhere now.
#
# A lane without an exporter waits: for a destination of its name, or for somebody who discards its queue.

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


# Queues on disk that an earlier process left and that no lane has yet.
#
# Nobody but lanes makes queues: once all that were found of a project are open, what is there later is a lane's.


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


# What people do to what lanes keep, and time to what died in them: replaying, discarding, expiring.

LATER_SECONDS = 15.0  # after which a disk that did not answer may


async def replay_letters(found: Sequence[tuple[Lane, Queue]]) -> AsyncIterator[tuple[int, int]]:
    """Queue dead letters again: how many batches and records of each queue. Raises Full."""
    for _, queue in found:
        with _answering():
            done = await queue.replay(outages_only=False)
        yield done


async def discard_letters(
    found: Sequence[tuple[Lane, Queue]], *, queued: bool, dead: bool
) -> AsyncIterator[tuple[int, int]]:
    """Forget what is queued, or dead: how many batches and records, at each step. Raises Full."""
    for lane, queue in found:
        if queued:
            settled = lane.exporter.withdraw() if lane.exporter is not None else 0
            batches, records = await queue.discard(queued=True, dead=False)
            lane.counts.discarded += records - settled
            yield batches, records - settled
        if dead:
            with _answering():
                batches, records = await queue.discard(queued=False, dead=True)
            lane.counts.discarded += records
            yield batches, records


async def expire_letters(lanes: Iterable[Lane], *, before: int) -> None:
    """Forget dead letters that died before (Unix milliseconds), or are too many. A queue whose disk does not answer
    keeps its own for now.
    """
    for lane in lanes:
        if lane.queue is None:
            continue
        try:
            batches, records = await lane.queue.expire(before=before)
        except QueueFault as fault:  # they are looked at again soon, and so are the others now
            log.warning("The dead letters of %s do not expire for now: %s", lane.name, fault.message)
            continue
        lane.counts.expired += records
        if batches:
            letters, held = counted(batches, "dead letter"), counted(records, "record")
            log.warning("%s of %s (%s) expired.", letters, lane.name, held)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """A queue whose disk does not answer is asked again later. Raises Full."""
    try:
        yield
    except QueueFault as fault:
        raise QueueFull(fault.message, seconds=LATER_SECONDS) from fault


# How late it is for dead letters, which expire by their age: not later than the clock can be believed. Pure.
#
# A clock that is set a year ahead makes everything old at once, and what has expired does not come back when the clock
# does. So time goes on from the first moment of the process as the clock that never jumps has it; the other one may
# only be behind. A clock that was wrong then is not noticed, nor what died while it was behind.

MOST_MILLISECONDS = 3_600_000  # that the clock may be ahead by before that is told; summer time changes neither


class ExpiryMoment(NamedTuple):
    """One moment by both clocks: Unix milliseconds, which may jump, and seconds of a clock that never does."""

    wall: int
    monotonic: float


def believed_moment(first: ExpiryMoment, now: ExpiryMoment) -> int:
    """Unix milliseconds: what the clock says, but no more than the time that passed since the first moment."""
    return min(now.wall, first.wall + round((now.monotonic - first.monotonic) * 1000))


def is_ahead(first: ExpiryMoment, now: ExpiryMoment) -> bool:
    """Whether the clock was set ahead since the first moment."""
    return now.wall - believed_moment(first, now) > MOST_MILLISECONDS
