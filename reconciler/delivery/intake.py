"""Taking one request into the lanes that it is for.

Every destination is asked for room before the first one gets anything, and nothing happens in between: the questions
and the appends are one stretch of the event loop. Destinations without a queue come before that, since their answers
may take seconds; then every queue is asked again.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from reconciler.delivery import lanes
from reconciler.delivery.contract import NotTaken, QueueFull
from reconciler.delivery.inline import Undelivered
from reconciler.delivery.lanes import Lane
from reconciler.delivery.otlp.models import RequestTooLarge
from reconciler.delivery.queue.contract import Obituary, Reason, Shortage
from reconciler.delivery.routing import RecordShare
from reconciler.delivery.small_requests import Heard, LateRecords, SmallRequests

UNREAD_SECONDS = 1.0  # after which a project's routes should have been read
SOONEST_SECONDS, LATEST_SECONDS = 1, 5  # when to try again what is full: SDKs of senders give up after 10 s
MOST_AT_ONCE = 16  # destinations without a queue that are asked at a time, of one request

READING = "The service is reading the project's Configurations; try again."
STOPPING = "The service stops, and a queue in memory takes nothing more; try again."

Wanted: TypeAlias = tuple[Lane, RecordShare]
"""A lane, and what a request has for it."""

Appended: TypeAlias = tuple[Lane, RecordShare, Heard]
"""The same, and who hears when the lane has it."""


class Intake:
    """`is_stopping`: what is only in memory takes nothing more."""

    def __init__(self, *, clock: Callable[[], int], chance: random.Random) -> None:
        """`clock` gives Unix milliseconds."""
        self.is_stopping = False
        self._clock = clock
        self._chance = chance

    async def take(self, wanted: Sequence[Wanted]) -> None:
        """Take all shares; when it returns, they are where each lane promises. Raises Full, NotTaken, TooLarge."""
        self._refuse_without_room(wanted)
        inline = [(lane, share) for lane, share in wanted if lane.queue is None]
        if inline:
            await _send(inline)
            if any(lane.leaving for lane, _ in wanted):  # the settings changed meanwhile: its queue may be gone
                raise QueueFull(READING, seconds=UNREAD_SECONDS)
            self._refuse_without_room(wanted)
        await _written(self._append(wanted))

    def _refuse_without_room(self, wanted: Sequence[Wanted]) -> None:
        for lane, share in wanted:
            if self.is_stopping and lane.place == lanes.MEMORY:
                raise QueueFull(STOPPING, seconds=UNREAD_SECONDS)
            if lane.gathering is None or lane.drops:
                continue
            shortage = lane.gathering.room(share)
            if shortage is Shortage.BYTES and lane.exceeds(share.size):
                message = f"These records are more than the queue of the destination {lane.name} may ever hold"
                raise RequestTooLarge(f"{message}; send fewer at a time, or raise its `max_bytes`.")
            if shortage is not None:
                message = f"The destination {lane.name} cannot take more now: {lanes.SHORT[shortage]}; try again."
                raise QueueFull(message, seconds=self.patience())

    def _append(self, wanted: Sequence[Wanted]) -> list[Appended]:
        appends: list[Appended] = []
        for lane, share in wanted:
            gathering = lane.gathering
            if gathering is None:
                continue
            shortage = gathering.room(share) if lane.drops else None
            written = gathering.add(share) if shortage is None else self._bury(lane, gathering, share, shortage)
            if written is None:
                lane.counts.dropped += share.records
            else:
                appends.append((lane, share, written))
        return appends

    def _bury(self, lane: Lane, gathering: SmallRequests, share: RecordShare, shortage: Shortage) -> Heard | None:
        """Make a dead letter of what a full queue cannot take, where that is wanted; None where it is dropped."""
        if not lane.buries or shortage is Shortage.DISK:
            return None
        cause = f"The queue of the destination {lane.name} was full: {lanes.SHORT[shortage]}."
        obituary = Obituary(Reason.QUEUE_FULL, self._clock(), 0, cause)
        return gathering.bury(share, obituary, buried=lambda: lane.sender.buried(share.records, obituary))

    def patience(self) -> float:
        """When to try again, in seconds: not all senders at once."""
        return float(self._chance.randint(SOONEST_SECONDS, LATEST_SECONDS))


async def _send(inline: Sequence[Wanted]) -> None:
    """To all of them at once, some at a time; each has its own limit of time. The first that fails is told."""
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def send(lane: Lane, share: RecordShare) -> str:
        async with turns:
            try:
                await lane.sender.deliver(share.pieces)
            except Undelivered as failed:
                return failed.message
        lane.counts.take(share.records)
        return ""

    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(send(*one), name=f"deliver-{one[0].name}") for one in inline]
    failed = next(filter(None, (one.result() for one in sent)), "")
    if failed:
        raise NotTaken(failed)


async def _written(appends: Sequence[Appended]) -> None:
    """Wait for all of them, which are under way together and each end in time (`small_requests.SmallRequests`).

    What a lane that drops could not write is dropped like what it has no room for: else its sender would send all of it
    again, also to the lanes that have it. Of what is late nobody knows yet whether it is: it is counted when the disk
    answers.
    """
    fault: NotTaken | None = None
    for lane, share, written in appends:
        try:
            await written
        except NotTaken as problem:
            if not lane.drops:
                fault = problem
            elif isinstance(problem, LateRecords):
                problem.written.add_done_callback(partial(_count_dropped, lane, share.records))
            else:
                lane.counts.dropped += share.records
    if fault is not None:
        raise fault


def _count_dropped(lane: Lane, records: int, written: Heard) -> None:
    if written.cancelled() or written.exception() is not None:
        lane.counts.dropped += records
