"""Lanes: one destination of one project each, with its queue and exporter; and lanes that drain.

**A lane drains** if its destination is gone or has its queue in another place. A lane without an exporter waits until a
destination of its name exists, or until somebody discards its queue. Only lanes make queues: when all queues that an
earlier process left of a project are open, every later one belongs to a lane.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.delivery.contract import QueueFull
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.queue import appender
from reconciler.delivery.queue.contract import Queue, QueueFault, Shortage
from reconciler.delivery.queue.queues import FoundIdentity, Queues
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.model.routes import Buffering, Destination, OnFull
from reconciler.model.text import counted

log = logging.getLogger(__name__)

SHORT = {
    Shortage.BATCHES: "its queue holds as much as `sending_queue_queue_size` allows",
    Shortage.BYTES: "its queue takes as many bytes as it may",
    Shortage.DISK: "the disk has too little room, or takes nothing",
}


@dataclass(eq=False, slots=True)
class Lane:
    """One destination with its queue and exporter. `queue` is None if records are sent while their sender waits.
    `exporter` is None for a found queue with an unknown destination: it can be discarded, or waits for a destination of
    this name.

    A lane that is `leaving` accepts no more records: it drains.
    """

    project: str
    name: str
    place: str
    destination: Destination | None
    queue: Queue | None
    exporter: Exporter | None
    leaving: bool = False
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)

    @property
    def total(self) -> DeliveryCounts:
        """The counts of the lane, with those of its exporter."""
        total = DeliveryCounts()
        total.add(self.counts)
        if self.exporter is not None:
            total.add(self.exporter.counts)
        return total

    @property
    def sender(self) -> Exporter:
        """The exporter of a lane that has one."""
        assert self.exporter is not None
        return self.exporter

    @property
    def drops(self) -> bool:
        """True if other lanes get a request even if this one is full: its share is dropped or buried."""
        return self.destination is not None and self.destination.buffering.on_full is not OnFull.REJECT

    @property
    def buries(self) -> bool:
        """True if the share for a full queue becomes a dead letter, as long as there is room for that."""
        return self.destination is not None and self.destination.buffering.on_full is OnFull.DEAD_LETTER

    @property
    def is_refused(self) -> bool:
        """True if the disk refused the last write, or does not answer."""
        return self.queue is not None and self.queue.depth().refused

    @property
    def is_without_disk(self) -> bool:
        """True if it accepts nothing, because the disk is down to `delivery.freeBytes`."""
        return self.queue is not None and not self.leaving and self.queue.room(size=1) is Shortage.DISK

    def exceeds(self, size: int) -> bool:
        """Return True if this many bytes do not fit even into its empty queue."""
        return self.queue is not None and not self.queue.may_hold(size=size)

    @property
    def is_empty(self) -> bool:
        """Return True if nothing is queued, and no dead letter is left."""
        if self.queue is None:
            return True
        depth = self.queue.depth()
        return not depth.batches and not depth.dead_batches

    @property
    def records(self) -> int:
        """The number of queued records, with those of dead letters."""
        if self.queue is None:
            return 0
        depth = self.queue.depth()
        return depth.records + depth.dead_records


def lane_place(buffering: Buffering) -> str:
    """Return the place of a queue. With another place it is another queue."""
    if not buffering.queue:
        return NOWHERE
    return MEMORY if buffering.storage is None else disk_place(buffering.storage.directory)


def disk_place(directory: str) -> str:
    """Return the place of a queue on disk."""
    return f"disk {directory}"


NOWHERE = "none"
MEMORY = "memory"


DRAIN_LOOK_SECONDS = 0.5  # between two checks if anything is left


class DrainingLanes:
    """The draining lanes of all projects, oldest first. `ended` is called with each lane that ended."""

    def __init__(self, queues: Queues, ended: Callable[[Lane], None]) -> None:
        self._queues = queues
        self._ended = ended
        self._lanes: list[Lane] = []
        self._looking: asyncio.Task[None] | None = None
        self._ends: dict[asyncio.Task[None], tuple[Lane, float]] = {}  # with the time until which each is awaited

    def __iter__(self) -> Iterator[Lane]:
        return iter([*self._lanes])

    def of(self, project: str, name: str | None = None) -> list[Lane]:
        """Return the draining lanes of a project, or of one of its destinations."""
        return [lane for lane in self._lanes if lane.project == project and name in (None, lane.name)]

    def add(self, lane: Lane) -> None:
        """Let a lane drain. It accepts nothing more."""
        lane.leaving = True
        self._lanes.append(lane)
        if self._looking is None:
            self._looking = asyncio.create_task(self._end_drained(), name="draining-lanes")

    def take_back(self, project: str, name: str, place: str) -> Lane | None:
        """Take back the draining lane of a destination that exists again, so that its queue is not opened twice."""
        for lane in self.of(project, name):
            if lane.place == place:
                self._lanes.remove(lane)
                lane.leaving = False
                return lane
        return None

    async def end_empty(self) -> None:
        """End the empty lanes that send nothing. All end together, so they share one wait for a disk that hangs. If the
        caller is cancelled, they end nevertheless.
        """
        await self._wait([self._end(lane) for lane in self if lane.exporter is None and lane.is_empty])

    async def until_ended(self, project: str, name: str, place: str) -> None:
        """Wait for the ending lanes of a destination at this place: its queue must be closed before it opens again.

        The wait for a disk that hangs is as long as at the stop of the service.
        """
        await self._wait(
            task
            for task, (lane, _) in self._ends.items()
            if (lane.project, lane.name, lane.place) == (project, name, place)
        )

    async def all_ended(self) -> None:
        """Wait for all ending lanes, as long as for one."""
        await self._wait(self._ends)

    async def _wait(self, ends: Iterable[asyncio.Task[None]]) -> None:
        waited = [*ends]
        if waited:
            seconds = max(self._ends[one][1] for one in waited) - asyncio.get_running_loop().time()
            await asyncio.wait(waited, timeout=max(seconds, 0.0))

    def stop(self) -> None:
        """Stop to end lanes."""
        if self._looking is not None:
            self._looking.cancel()

    async def _end_drained(self) -> None:
        """End each sending lane when it is empty, without dead letters either, until the service stops."""
        while True:
            for lane in self:
                if lane.exporter is not None and lane.is_empty:
                    self._end(lane)
            await asyncio.sleep(DRAIN_LOOK_SECONDS)

    def _end(self, lane: Lane) -> asyncio.Task[None]:
        """Remove a lane and its folder. There is no `await` between the check that it is empty and its move to the
        ending lanes: a caller that does not find it in the list waits until its queue is removed (`until_ended`).
        """
        self._lanes.remove(lane)
        self._ended(lane)
        ends = asyncio.create_task(self._remove_queue(lane), name=f"end-{lane.project}-{lane.name}")
        self._ends[ends] = lane, asyncio.get_running_loop().time() + appender.END_SECONDS
        ends.add_done_callback(self._ends.pop)
        return ends

    async def _remove_queue(self, lane: Lane) -> None:
        if lane.exporter is not None:
            await lane.exporter.stop(seconds=0)
        if lane.queue is not None:
            await self._queues.remove(lane.queue)
        log.info("The queue of %s in the project %s is empty, and nobody wants it any more.", lane.name, lane.project)


class OrphanedQueues:
    """The queues on disk of all projects that have no lane yet."""

    def __init__(self, queues: Queues, *, dead_bytes: int) -> None:
        """`dead_bytes` bounds the dead letters of each queue."""
        self._queues = queues
        self._dead_bytes = dead_bytes
        self._opened: set[str] = set()  # the projects whose queues are all open

    async def projects(self) -> frozenset[str]:
        """Return the projects that have a queue on disk, as far as that can be read."""
        found, _ = await self._queues.found()
        return frozenset(one.project for one in found)

    async def names(self, project: str) -> set[str]:
        """Return the destinations of a project with a queue that may not be open yet, as far as that can be read."""
        if project in self._opened:
            return set()
        found, _ = await self._queues.found()
        return {one.name for one in found if one.project == project}

    async def open(self, project: str, *, opened: Callable[[FoundIdentity, Queue], None]) -> list[QueueFault]:
        """Open the queues of a project, and call `opened` with each. Return the faults of queues that cannot be opened
        or whose owner, perhaps this project, cannot be read: call it again later.
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
        return faults


LATER_SECONDS = 15.0  # after which a disk that did not answer is tried again


async def replay_letters(
    found: Sequence[tuple[Lane, Queue]], *, number: int | None = None
) -> AsyncIterator[tuple[int, int]]:
    """Queue dead letters again, or the one of a number, and yield the numbers of batches and records of each queue.
    Raises QueueFull.
    """
    for _, queue in found:
        with _answering():
            done = await queue.replay(outages_only=False, number=number)
        yield done


async def discard_letters(
    found: Sequence[tuple[Lane, Queue]], *, queued: bool, dead: bool, number: int | None = None
) -> AsyncIterator[tuple[int, int]]:
    """Delete queued batches or dead letters, or the letter of a number, and yield the numbers of batches and records.
    Raises QueueFull.
    """
    for lane, queue in found:
        if queued:
            settled = lane.exporter.withdraw() if lane.exporter is not None else 0
            batches, records = await queue.discard(queued=True, dead=False)
            lane.counts.discarded += records - settled
            yield batches, records - settled
        if dead:
            with _answering():
                batches, records = await queue.discard(queued=False, dead=True, number=number)
            lane.counts.discarded += records
            yield batches, records


async def expire_letters(lanes: Iterable[Lane], *, before: int) -> None:
    """Delete dead letters from before a time (Unix milliseconds), and the oldest of too many. A queue whose disk does
    not answer keeps its own for now.
    """
    for lane in lanes:
        if lane.queue is None:
            continue
        try:
            batches, records = await lane.queue.expire(before=before)
        except QueueFault as fault:  # these are tried again soon; go on with the others
            log.warning("The dead letters of %s do not expire for now: %s", lane.name, fault.message)
            continue
        lane.counts.expired += records
        if batches:
            letters, held = counted(batches, "dead letter"), counted(records, "record")
            log.warning("%s of %s (%s) expired.", letters, lane.name, held)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turn the QueueFault of a disk that does not answer into QueueFull."""
    try:
        yield
    except QueueFault as fault:
        raise QueueFull(fault.message, seconds=LATER_SECONDS) from fault
