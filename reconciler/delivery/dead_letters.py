"""Dead letters and queues in the hands of operators: replaying, discarding, and expiring by their age.

A clock that is set a year ahead makes everything old at once, and a letter that has expired does not come back. So time
goes on from the first moment of the process as the clock that never jumps has it; the other one may only be behind. A
clock that was wrong at that moment is not noticed.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.delivery.contract import QueueFull
from reconciler.delivery.lanes import Lane
from reconciler.delivery.queue.contract import Queue, QueueFault
from reconciler.model.text import counted

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


MOST_MILLISECONDS = 3_600_000  # that the clock may be ahead by before that is told; summer time changes neither


class ExpiryMoment(NamedTuple):
    """One moment by both clocks: Unix milliseconds, which may jump, and seconds of a clock that never does."""

    wall: int
    monotonic: float


def believed_moment(first: ExpiryMoment, now: ExpiryMoment) -> int:
    """Unix milliseconds: what the clock says, but no more than the time that passed since the first moment."""
    return min(now.wall, first.wall + round((now.monotonic - first.monotonic) * 1000))


def is_ahead(first: ExpiryMoment, now: ExpiryMoment) -> bool:
    """Tell whether the clock was set ahead since the first moment."""
    return now.wall - believed_moment(first, now) > MOST_MILLISECONDS
