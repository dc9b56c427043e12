"""What people do to what lanes keep, and time to what died in them: replaying, discarding, expiring.

Belongs here: doing it to the lanes that are given, and counting it. Does not: which lanes those are, and what becomes
of one that is empty then (`manager`).
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from reconciler.delivery.contract import QueueFull
from reconciler.delivery.lanes import Lane
from reconciler.model.text import counted
from reconciler.queueing.contract import Queue, QueueFault

log = logging.getLogger(__name__)

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
