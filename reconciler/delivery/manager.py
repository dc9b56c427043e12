"""Delivery: every lane of every project, and the requests that are divided among them.

**Changed settings** apply to a working lane. A new place for the queue makes a new lane; the old lane accepts nothing
more and drains beside it, with the same settings. The lane of a deleted destination drains too, with the newest known
settings. The next start opens the remaining queues on disk again.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from reconciler.delivery import dead_letters, history, lanes, moving, status
from reconciler.delivery.contract import ALL, Behind, QueueFull, TakenRecords, UnknownDestination
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.history import DeliveryHistory
from reconciler.delivery.intake import READING, STOPPING, UNREAD_SECONDS, Intake, Matcher, RequestSplit, split_request
from reconciler.delivery.lanes import DrainingLanes, Lane, OrphanedQueues
from reconciler.delivery.moving import MovedCounts, MovedFrames, Receiving
from reconciler.delivery.otlp.models import Logs
from reconciler.delivery.queue.contract import Queue, QueueFault
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.queue.queues import UNLIMITED, FoundIdentity, Queues
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.delivery.status import DeliveryFigures
from reconciler.model.routes import Destination, Route, Routes, Storage, Sync
from reconciler.model.text import counted

log = logging.getLogger(__name__)

MEMORY_BYTES = 64 << 20  # of one queue in memory
MOVED = "moved"  # the folder of queues that other instances handed over, of destinations without a queue on disk
TOLD = 10  # queues that cannot be opened, in one line of the log
SLICE = 100  # destinations that are sampled without a pause, which takes 2 ms

NOBODY = "No Configuration of the project takes {}; status.delivery of each says why not."

WANTED = (
    "A Configuration that wants these records cannot deliver by its present version; status.delivery says what to "
    "correct. Keep the records and send them again."
)

HANDED_OVER = "Of the queue of %s in the project %s, another instance has %s now; %d records are left here."

UNKNOWN = (
    "There is no such destination that log records are delivered to; status.delivery of the project's Configurations "
    "says which deliver."
)

LookUp = Callable[[str, str], Awaitable[Destination | None]]
"""Returns a webhook of a project by its name: its present version, or the last one."""

MakeExporter = Callable[[str, Destination, Queue | None], Exporter]
"""Makes the exporter of a project's destination with this queue."""


class FollowedRoutes(NamedTuple):
    """The present routes of a project. `wanting` finds until when senders should keep records without a route."""

    routes: Routes
    matcher: Matcher
    wanting: Matcher
    sends_at_once: bool  # a destination has no queue


class Manager:
    """The delivery of all projects. A project accepts no records before `change` has received its routes."""

    def __init__(
        self,
        queues: Queues,
        make: MakeExporter,
        look_up: LookUp,
        *,
        clock: Callable[[], int],
        dead_bytes: int,
        chance: random.Random,
    ) -> None:
        """`clock` gives Unix milliseconds; `dead_bytes` bounds the dead letters of each queue."""
        self._unread: Callable[[str], None] = lambda _: None
        self._behind: Callable[[str], Behind | None] = lambda _: None
        self._queues = queues
        self._make = make
        self._look_up = look_up
        self._clock = clock
        self._dead_bytes = dead_bytes
        self._intake = Intake(clock=clock, chance=chance)
        self._followed: dict[str, FollowedRoutes] = {}
        self._lanes: dict[str, dict[str, Lane]] = {}  # the accepting lanes, by project and name
        self._leaving = DrainingLanes(queues, self._keep_counts)
        self._past = DeliveryCounts()
        self._history = DeliveryHistory(now=time.monotonic())
        self._orphaned = OrphanedQueues(queues, dead_bytes=dead_bytes)
        self._receiving = Receiving()
        self._changing = asyncio.Lock()
        self._unrouted: dict[str, tuple[int, int]] = {}  # by project: records, and when the last ones came

    def follow(self, ask: Callable[[str], None], behind: Callable[[str], Behind | None]) -> None:
        """Set two callbacks. `ask` is called for a project with records but unknown routes. `behind` says how far a
        project's routes are behind the store; None if they are not.
        """
        self._unread, self._behind = ask, behind

    # Taking in.

    async def take(self, project: str, logs: Logs) -> TakenRecords:
        """See the contract."""
        followed = self._followed.get(project)
        if followed is None:
            raise self._not_read(project)
        divided = split_request(logs, followed.matcher.of)
        if self._is_outdated(project, divided):
            raise QueueFull(READING, seconds=UNREAD_SECONDS)
        if divided.unrouted and self._is_wanted(logs, followed):
            raise QueueFull(WANTED, seconds=self._intake.patience())
        wanted = [(self._open_lane(project, name), share) for name, share in divided.shares.items()]
        await self._intake.take(wanted)
        if not divided.unrouted:
            return ALL
        self._unrouted[project] = (self._unrouted.get(project, (0, 0))[0] + divided.unrouted, self._clock())
        which = "these records" if divided.unrouted == logs.records else f"{divided.unrouted} of these records"
        return TakenRecords(divided.unrouted, NOBODY.format(which))

    def _is_outdated(self, project: str, divided: RequestSplit) -> bool:
        """Return True if a request must wait for newer routes, which are being read."""
        behind = self._behind(project)
        if behind is None:
            return False
        # A sender gives up a rejected record, but a Configuration for it may have been stored just now.
        return bool(divided.unrouted) or behind.is_late or not behind.changed_endpoints.isdisjoint(divided.shares)

    def _is_wanted(self, logs: Logs, followed: "FollowedRoutes") -> bool:
        """Return True if a Configuration wants records without a route: it delivered before and was changed lately."""
        now = self._clock()
        unrouted = (group.attributes for group in logs.groups if not followed.matcher.of(group.attributes))
        return any(int(until) > now for attributes in unrouted for until in followed.wanting.of(attributes))

    def sends_at_once(self, project: str) -> bool:
        """See the contract."""
        return project in self._followed and self._followed[project].sends_at_once

    def _not_read(self, project: str) -> QueueFull:
        self._unread(project)
        return QueueFull(READING, seconds=UNREAD_SECONDS)

    def _open_lane(self, project: str, name: str) -> Lane:
        lane = self._lanes[project].get(name)
        if lane is None:
            message = f"The queue of the destination {name} cannot be opened; the log says why."
            raise QueueFull(message, seconds=self._intake.patience())
        return lane

    # Lanes.

    async def change(self, routes: Routes) -> None:
        """Follow the present routes of a project. Raises a QueueFault that names queues that cannot be opened, at most
        eleven; the others are followed.
        """
        async with self._changing:
            if not self._intake.is_stopping:
                await self._change(routes)

    async def _change(self, routes: Routes) -> None:
        present = self._lanes.setdefault(routes.project, {})
        wanted = {destination.name: destination for destination in routes.destinations}
        faults: list[QueueFault] = []
        for name, destination in wanted.items():
            try:
                await self._ensure(routes.project, destination, present.get(name))
            except QueueFault as fault:
                faults.append(fault)
        sends_at_once = not all(one.buffering.queue for one in routes.destinations)
        followed = FollowedRoutes(routes, Matcher(routes), _wanting(routes), sends_at_once)
        self._followed[routes.project] = followed
        for name in sorted(present.keys() - wanted.keys()):
            self._leaving.add(present.pop(name))
        faults += await self._take_up(routes.project, {**{one.name: one for one in routes.former}, **wanted})
        if faults:
            raise _together(faults)

    async def _ensure(self, project: str, destination: Destination, lane: Lane | None) -> None:
        """Create or adjust the lane of a destination for its present settings."""
        place = lanes.lane_place(destination.buffering)
        if lane is not None and lane.place == place:
            if lane.destination != destination:
                self._adjust(lane, destination)
            return
        returning = self._leaving.take_back(project, destination.name, place)
        if returning is not None:
            self._adjust(returning, destination)
            fresh = returning
        else:
            await self._leaving.until_ended(project, destination.name, place)
            queue = await self._open(project, destination)
            fresh = self._lane(project, destination.name, place=place, destination=destination, queue=queue)
        self._lanes[project][destination.name] = fresh
        if lane is not None:
            self._leaving.add(lane)

    def _lane(
        self, project: str, name: str, *, place: str, destination: Destination | None, queue: Queue | None
    ) -> Lane:
        """Create a lane. It sends if its destination is known."""
        lane = Lane(
            project=project,
            name=name,
            place=place,
            destination=destination,
            queue=queue,
            exporter=None if destination is None else self._make(project, destination, queue),
        )
        if lane.exporter is not None:
            lane.exporter.start()
        return lane

    def _adjust(self, lane: Lane, destination: Destination) -> None:
        if lane.exporter is None:
            lane.exporter = self._make(lane.project, destination, lane.queue)
            lane.exporter.start()
        elif destination != lane.destination:
            lane.exporter.change(destination)
        lane.destination = destination
        if lane.queue is not None and not lane.leaving:  # otherwise these may be the limits of another place
            lane.queue.configure(storage=destination.buffering.storage, max_batches=destination.buffering.max_batches)

    async def _open(self, project: str, destination: Destination) -> Queue | None:
        buffering = destination.buffering
        if not buffering.queue:
            return None
        if buffering.storage is None:
            return MemoryQueue(max_batches=buffering.max_batches, max_bytes=MEMORY_BYTES)
        return await self._queues.open(
            project=project,
            name=destination.name,
            storage=buffering.storage,
            max_batches=buffering.max_batches,
            dead_bytes=self._dead_bytes,
        )

    # Destinations that are deleted or have another place for their queue, and their remaining queues on disk.

    async def left(self, project: str) -> tuple[str, ...]:
        """Return the sorted destinations with a lane or with a queue on disk that is not open yet.

        The reader of the routes looks up the last known settings of those without a route.
        """
        found = await self._orphaned.names(project)
        return tuple(sorted(found | {lane.name for lane in self._of_project(project)}))

    async def projects(self) -> frozenset[str]:
        """Return the projects with a queue on disk, as far as the disk can be read."""
        return await self._orphaned.projects()

    async def _take_up(self, project: str, known: dict[str, Destination]) -> list[QueueFault]:
        """Give draining lanes the settings of their destination, and open the queues on disk that have no lane.

        Return the faults of queues that cannot be opened.
        """
        for lane in self._leaving.of(project):
            if lane.name in known:
                self._adjust(lane, known[lane.name])

        def opened(found: FoundIdentity, queue: Queue) -> None:
            place = lanes.disk_place(found.directory)
            destination = known.get(found.name)
            if destination is None:  # when the routes were read, the owner of this queue may have been unknown
                self._unread(project)
            self._leaving.add(self._lane(project, found.name, place=place, destination=destination, queue=queue))

        return await self._orphaned.open(project, opened=opened)

    # Actions of operators.

    def shown(self, project: str, name: str, *, answers: bool) -> dict[str, Any]:
        """See the contract."""
        shown = status.shown_delivery(self._named(project, name), self._routed(project, name), answers=answers)
        return {**shown, "rates": self._history.rates((project, name), shown["counts"], now=time.monotonic())}

    def history(self, project: str, name: str) -> list[dict[str, Any]]:
        """See the contract."""
        return self._history.samples((project, name))

    async def sample(self) -> None:
        """Take a sample of every destination for its history, every `history.INTERVAL_SECONDS`."""
        at, now = self._clock(), time.monotonic()
        found = {}
        for number, one in enumerate({(lane.project, lane.name): None for lane in self._everyone()}, start=1):
            found[one] = history.measure(self._present(*one))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        self._history.add(found, at=at, now=now)

    def all(self, project: str, *, answers: bool) -> dict[str, Any]:
        """See the contract."""
        if project not in self._followed:
            raise self._not_read(project)
        names = sorted({lane.name for lane in self._of_project(project)})
        records, last = self._unrouted.get(project, (0, None))
        return {
            "deliveries": [self.shown(project, name, answers=answers) for name in names],
            "unrouted": status.unrouted_delivery(records, last),
        }

    def waiting(self, project: str, name: str) -> int:
        """Count the records that wait for a destination; 0 if nothing is known of it."""
        queues = [lane.queue for lane in self._of_project(project) if lane.name == name and lane.queue is not None]
        return sum(queue.depth().records for queue in queues)

    def _routed(self, project: str, name: str) -> list[str]:
        """Return the Configurations that deliver to a destination."""
        routes = self._followed[project].routes.routes if project in self._followed else ()
        return [route.configuration for route in routes if name in route.destinations]

    def delivers(self, project: str, configuration: str, destination: str) -> bool:
        """Return True if a Configuration delivers to a destination now, and the destination is not held."""
        followed = self._followed.get(project)
        return (
            followed is not None
            and all(one.name != destination or not one.held for one in followed.routes.destinations)
            and configuration in self._routed(project, destination)
        )

    def figures(self) -> DeliveryFigures:
        """Return the counts of all projects."""
        # Every project has its counts from the beginning: for Prometheus, a counter that is first seen above 0 has not
        # grown.
        unrouted = {project: self._unrouted.get(project, (0, 0))[0] for project in sorted(self._followed)}
        return DeliveryFigures(self._everyone(), self._past, unrouted, self._queues.spare(), self._queues.faults)

    def followed(self) -> frozenset[str]:
        """Return the projects whose routes are known, so that each of their lanes is there."""
        return frozenset(self._followed)

    def _keep_counts(self, lane: Lane) -> None:
        """Keep the counts of an ended lane, in another lane of its destination or in the total."""
        heir = next(iter(self._present(lane.project, lane.name)), None)
        (self._past if heir is None else heir.counts).add(lane.total)

    async def dead_letters(self, project: str, name: str, *, most: int) -> list[dict[str, Any]]:
        """See the contract."""
        queues = [lane.queue for lane in self._present(project, name) if lane.queue is not None]
        return await dead_letters.oldest(queues, most=most)

    def replay(self, project: str, name: str, *, letter: str | None = None) -> AsyncIterator[tuple[int, int]]:
        """See the contract."""
        found, number = dead_letters.chosen(self._with_queues(project, name), letter)
        return lanes.replay_letters(found, number=number)

    async def discard(
        self, project: str, name: str, *, queued: bool, dead: bool, letter: str | None = None
    ) -> AsyncIterator[tuple[int, int]]:
        """See the contract."""
        found, number = dead_letters.chosen(self._with_queues(project, name), letter)
        async for done in lanes.discard_letters(found, queued=queued, dead=dead, number=number):
            yield done
        await self._leaving.end_empty()

    async def test(self, project: str, name: str) -> dict[str, Any]:
        """See the contract."""
        exporter = await self._exporter(project, name)
        return status.shown_test(await exporter.test())

    async def _exporter(self, project: str, name: str) -> Exporter:
        """Return the exporter of a destination, or a new one if nothing is delivered to it."""
        for lane in self._present(project, name):
            if lane.exporter is not None:
                return lane.exporter
        destination = await self._look_up(project, name)
        if destination is None:
            raise UnknownDestination(UNKNOWN)
        return self._make(project, destination, None)

    async def receive(self, project: str, name: str, segment: bytes) -> tuple[int, int]:
        """See the contract."""
        moved = moving.decode_moved(segment)
        if project not in self._followed:
            raise self._not_read(project)
        async with self._changing:
            if self._intake.is_stopping:
                raise QueueFull(STOPPING, seconds=UNREAD_SECONDS)
            queue = self._disk_queue(project, name) or await self._queue_for_moved(project, name)
            written = self._receiving.take(queue, name, moved)  # at once, because an empty draining lane may end
        new = await written
        return new.batches, new.records

    def _disk_queue(self, project: str, name: str) -> DiskQueue | None:
        """Return the disk queue of a destination; if there are several, the accepting one."""
        queues = [lane.queue for lane in self._present(project, name)]
        return next((queue for queue in queues if isinstance(queue, DiskQueue)), None)

    async def _queue_for_moved(self, project: str, name: str) -> DiskQueue:
        """Make a lane that drains, for moved records of a destination without a queue on disk. If there is no such
        destination, they wait for it as in every orphaned queue.
        """
        place = lanes.disk_place(MOVED)
        await self._leaving.until_ended(project, name, place)
        destination = await self._look_up(project, name)
        storage = Storage(directory=MOVED, max_bytes=UNLIMITED, sync=Sync.COMMIT)
        queue = await self._queues.open(
            project=project, name=name, storage=storage, max_batches=UNLIMITED, dead_bytes=self._dead_bytes
        )
        self._leaving.add(self._lane(project, name, place=place, destination=destination, queue=queue))
        return queue

    async def hand_over(self, send: Callable[[str, str, MovedFrames], Awaitable[None]]) -> None:
        """Move what the queues on disk hold to another instance, after `drain`. `send` gets the project, the
        destination and frames. Raises what it does.
        """
        for lane in self._everyone():
            if isinstance(lane.queue, DiskQueue) and lane.records:
                counts = MovedCounts()
                try:
                    await moving.move(lane.queue, partial(send, lane.project, lane.name), counts)
                finally:
                    log.info(HANDED_OVER, lane.name, lane.project, counts.told, lane.records)

    async def expire(self, *, before: int) -> None:
        """Delete dead letters that are too old or too many."""
        await lanes.expire_letters(self._everyone(), before=before)
        await self._leaving.end_empty()

    async def drain(self, *, seconds: float) -> None:
        """Lease nothing more. Batches in flight and batches in memory get a limited time. Queues on disk still accept
        records.
        """
        async with self._changing:
            self._intake.is_stopping = True
            self._leaving.stop()
            await asyncio.gather(*(_wound_down(lane, seconds=seconds) for lane in self._everyone() if lane.exporter))

    async def close(self) -> None:
        """Close the queues, after `drain` and when no records arrive any more. Queues on disk stay there."""
        async with self._changing:
            for lane in self._everyone():
                if lane.place == lanes.MEMORY and (lost := lane.records):
                    log.warning("This stop loses %s that %s had in memory alone.", counted(lost, "record"), lane.name)
            await self._leaving.all_ended()
            await self._queues.close()

    def _named(self, project: str, name: str) -> list[Lane]:
        """Return the lanes of a destination, the accepting one first. Raises UnknownDestination, QueueFull."""
        if project not in self._followed:
            raise self._not_read(project)
        found = self._present(project, name)
        if not found:
            raise UnknownDestination(UNKNOWN)
        return found

    def _present(self, project: str, name: str) -> list[Lane]:
        taking = self._lanes.get(project, {}).get(name)
        found = [] if taking is None else [taking]
        return found + self._leaving.of(project, name)

    def _with_queues(self, project: str, name: str) -> list[tuple[Lane, Queue]]:
        return [(lane, lane.queue) for lane in self._named(project, name) if lane.queue is not None]

    def _of_project(self, project: str) -> list[Lane]:
        return [lane for lane in self._everyone() if lane.project == project]

    def _everyone(self) -> list[Lane]:
        return [*(lane for named in self._lanes.values() for lane in named.values()), *self._leaving]


def _wanting(routes: Routes) -> Matcher:
    """Return a matcher whose destinations are times until which senders should keep the records of a resource."""
    wanted = [Route(configuration="", labels=one.labels, destinations=(str(one.until),)) for one in routes.wanting]
    return Matcher(Routes(project=routes.project, routes=tuple(wanted)))


def _together(faults: Sequence[QueueFault]) -> QueueFault:
    """Return one fault for all, so that the caller can compare it with the previous one."""
    first, *others = faults
    if not others:
        return first
    told = " ".join(fault.message for fault in others[:TOLD])
    return QueueFault(f"{first.message} {counted(len(others), 'more queue')} cannot be opened: {told}")


async def _wound_down(lane: Lane, *, seconds: float) -> None:
    """Stop a lane. A queue in memory is sent first while its endpoint accepts: it would be lost with the process."""
    ends = asyncio.get_running_loop().time() + seconds
    if lane.place == lanes.MEMORY and lane.sender.is_sending:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await lane.sender.drained()
    await lane.sender.stop(seconds=max(ends - asyncio.get_running_loop().time(), 0.0))
