"""The counts of records for which a disk hangs."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from reconciler.delivery.contract import NotTaken
from reconciler.delivery.intake import Intake
from reconciler.delivery.lanes import Lane
from reconciler.delivery.otlp.models import RecordShare
from reconciler.delivery.queue.contract import Piece, QueueFault
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.model.routes import Buffering, Destination, Endpoint, OnFull
from tests.waiting import until

pytestmark = pytest.mark.anyio
AT = 1_700_000_000_000


def share(text: bytes, *, records: int = 1) -> RecordShare:
    return RecordShare([text], records, len(text))


class SlowQueue(MemoryQueue):
    """Writes nothing before it is told to."""

    def __init__(self) -> None:
        super().__init__(max_batches=100, max_bytes=1 << 20)
        self.under_way: list[asyncio.Future[None]] = []

    def append(self, payload: Sequence[Piece], *, records: int, at: int, joins: bool = False) -> asyncio.Future[None]:
        super().append(payload, records=records, at=at, joins=joins)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way.append(written)
        return written


def lane(queue: SlowQueue, on_full: OnFull) -> Lane:
    wanted = Destination(name="siem", endpoint=Endpoint(host="127.0.0.1"), buffering=Buffering(on_full=on_full))
    return Lane("acme", "siem", "disk here", wanted, queue, None)


def intake(*, hung_seconds: float = 0.01) -> Intake:
    return Intake(clock=lambda: AT, chance=random.Random(1), hung_seconds=hung_seconds)  # noqa: S311


async def test_what_is_taken_late_after_all_was_not_dropped() -> None:
    queue = SlowQueue()
    drops = lane(queue, OnFull.DROP_NEWEST)
    await intake().take([(drops, share(b"a", records=2))])
    assert drops.counts == DeliveryCounts()
    queue.under_way[0].set_result(None)
    await until(lambda: drops.counts == DeliveryCounts(taken=2))


async def test_what_is_refused_late_is_dropped() -> None:
    queue = SlowQueue()
    drops = lane(queue, OnFull.DROP_NEWEST)
    await intake().take([(drops, share(b"a", records=2))])
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    await until(lambda: drops.counts == DeliveryCounts(dropped=2))


async def test_what_its_sender_was_told_to_keep_is_dropped_neither_way() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    with pytest.raises(NotTaken, match=r"does not answer\. Keep the records and send them again\."):
        await intake().take([(rejects, share(b"a", records=2))])
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    await asyncio.sleep(0)
    assert rejects.counts == DeliveryCounts()


async def test_each_request_in_progress_hears_of_its_own() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    first, behind = (
        asyncio.create_task(intake(hung_seconds=30).take([(rejects, share(text))])) for text in (b"a", b"b")
    )
    await until(lambda: len(queue.under_way) == 2)
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    queue.under_way[1].set_result(None)
    with pytest.raises(NotTaken, match=r"The disk is full\. Keep the records and send them again\."):
        await first
    await behind
    assert rejects.counts == DeliveryCounts(taken=1)


async def test_records_are_counted_when_the_queue_has_them_though_their_sender_gave_up_waiting() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    taking = asyncio.create_task(intake().take([(rejects, share(b"a", records=2))]))
    await until(lambda: queue.under_way != [])
    taking.cancel()
    queue.under_way[0].set_result(None)
    await until(lambda: rejects.counts == DeliveryCounts(taken=2))
