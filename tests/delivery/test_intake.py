"""The counts of records for which a disk hangs."""

import asyncio
import random

import pytest

from reconciler.delivery.contract import NotTaken, QueueFull
from reconciler.delivery.intake import Intake
from reconciler.delivery.lanes import Lane, SmallRequests
from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.reporting import DeliveryCounts
from reconciler.model.routes import Buffering, Destination, Endpoint, OnFull
from tests.delivery.test_small_requests import AT, SlowQueue, batches, share
from tests.waiting import until

pytestmark = pytest.mark.anyio


def lane(queue: SlowQueue, on_full: OnFull) -> Lane:
    counts = DeliveryCounts()
    gathering = SmallRequests(queue, who="siem", clock=lambda: AT, counts=counts, hung=lambda: None)
    wanted = Destination(name="siem", endpoint=Endpoint(host="127.0.0.1"), buffering=Buffering(on_full=on_full))
    return Lane("acme", "siem", "disk here", wanted, queue, None, gathering, counts=counts)


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
    await until(lambda: rejects.gathering is not None and not rejects.gathering.is_stuck)
    assert rejects.counts == DeliveryCounts()


async def test_who_waits_for_a_disk_that_hangs_hears_so_and_nothing_more_is_taken_until_it_answers() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    first, behind = (asyncio.create_task(intake().take([(rejects, share(text))])) for text in (b"a", b"b"))
    for waits in (first, behind):
        with pytest.raises(NotTaken, match="does not answer"):
            await waits
    with pytest.raises(QueueFull):
        await intake().take([(rejects, share(b"c"))])
    queue.under_way[0].set_result(None)
    await until(lambda: rejects.gathering is not None and not rejects.gathering.is_stuck)
    taken = asyncio.create_task(intake(hung_seconds=30).take([(rejects, share(b"c"))]))
    await until(lambda: len(queue.under_way) == 2)
    queue.under_way[1].set_result(None)
    await taken
    assert (await batches(queue), rejects.counts) == ([(2, b"ab"), (1, b"c")], DeliveryCounts(taken=3))


async def test_records_are_counted_when_the_queue_has_them_though_their_sender_gave_up_waiting() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    taking = asyncio.create_task(intake().take([(rejects, share(b"a", records=2))]))
    await until(lambda: queue.under_way != [])
    taking.cancel()
    queue.under_way[0].set_result(None)
    await until(lambda: rejects.counts == DeliveryCounts(taken=2))
