"""Dead letters of a queue whose disk does not answer, beside those of another."""

import pytest

from reconciler.delivery import lanes
from reconciler.delivery.contract import QueueFull
from reconciler.delivery.lanes import MEMORY, Lane
from reconciler.delivery.queue.contract import FinalFailure, QueueFault, Reason
from reconciler.delivery.queue.memory import MemoryQueue

pytestmark = pytest.mark.anyio

HANGS = "The disk of the queues does not answer; try again when it does."


class HangingQueue(MemoryQueue):
    """Takes dead letters, and gives none of them back."""

    async def replay(self, **_: object) -> tuple[int, int]:
        raise QueueFault(HANGS)

    async def discard(self, **_: object) -> tuple[int, int]:
        raise QueueFault(HANGS)

    async def expire(self, **_: object) -> tuple[int, int]:
        raise QueueFault(HANGS)


async def lane(name: str, queue: MemoryQueue) -> Lane:
    """With one dead letter."""
    written = queue.bury_unqueued([b"x"], FinalFailure(Reason.QUEUE_FULL, 1, 0, "It was full."), records=2, at=1)
    assert written is not None
    await written
    return Lane("acme", name, MEMORY, None, queue, None)


async def test_operators_are_told_to_try_again_and_other_letters_expire(caplog: pytest.LogCaptureFixture) -> None:
    hangs, works = HangingQueue(max_batches=9, max_bytes=999), MemoryQueue(max_batches=9, max_bytes=999)
    first, second = await lane("a", hangs), await lane("b", works)
    found = [(first, hangs)]
    for steps in (
        lanes.replay_letters(found),
        lanes.discard_letters(found, queued=False, dead=True),
    ):
        with pytest.raises(QueueFull, match="does not answer"):
            await anext(steps)
    await lanes.expire_letters([first, second], before=2)
    assert (hangs.depth().dead_records, works.depth().dead_records) == (2, 0)
    assert (first.counts.expired, second.counts.expired) == (0, 2)
    assert caplog.messages == [
        f"The dead letters of a do not expire for now: {HANGS}",
        "1 dead letter of b (2 records) expired.",
    ]
