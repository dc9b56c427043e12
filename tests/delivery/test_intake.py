"""What is counted of records for which a disk hangs, by what becomes of them; and what is queued without a wait."""

import asyncio
import random

import pytest

from reconciler.delivery.intake import Intake
from reconciler.delivery.lanes import Lane, LaneCounts, SmallRequests
from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.reporting import NotTaken
from reconciler.model.routes import Buffering, Destination, Endpoint, OnFull
from tests.delivery.test_gathering import AT, SlowQueue, share
from tests.waiting import until

pytestmark = pytest.mark.anyio


def lane(queue: SlowQueue, on_full: OnFull) -> Lane:
    counts = LaneCounts()
    gathering = SmallRequests(
        queue, who="siem", clock=lambda: AT, taken=counts.take, hung=lambda: None, look_seconds=0.01
    )
    wanted = Destination(name="siem", endpoint=Endpoint(host="127.0.0.1"), buffering=Buffering(on_full=on_full))
    return Lane("acme", "siem", "disk here", wanted, queue, None, gathering, counts=counts)


def intake() -> Intake:
    return Intake(clock=lambda: AT, chance=random.Random(1))  # noqa: S311


async def test_what_is_taken_late_after_all_was_not_dropped() -> None:
    queue = SlowQueue()
    drops = lane(queue, OnFull.DROP_NEWEST)
    await intake().take([(drops, share(b"a", records=2))])
    assert drops.counts == LaneCounts()
    queue.under_way[0].set_result(None)
    await until(lambda: drops.counts == LaneCounts(taken=2))


async def test_what_is_refused_late_is_dropped() -> None:
    queue = SlowQueue()
    drops = lane(queue, OnFull.DROP_NEWEST)
    await intake().take([(drops, share(b"a", records=2))])
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    await until(lambda: drops.counts == LaneCounts(dropped=2))


async def test_what_its_sender_was_told_to_keep_is_dropped_neither_way() -> None:
    queue = SlowQueue()
    rejects = lane(queue, OnFull.REJECT)
    with pytest.raises(NotTaken, match=r"does not answer\. Keep the records and send them again\."):
        await intake().take([(rejects, share(b"a", records=2))])
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    await until(lambda: rejects.gathering is not None and not rejects.gathering.is_stuck)
    assert rejects.counts == LaneCounts()


def unqueued() -> Lane:
    wanted = Destination(name="siem", endpoint=Endpoint(host="127.0.0.1"), buffering=Buffering(queue=False))
    return Lane("acme", "siem", "none", wanted, None, None)


@pytest.mark.parametrize("on_full", list(OnFull))
@pytest.mark.parametrize("count", [1, 2])
async def test_what_is_queued_without_a_wait_ends_when_every_lane_has_it(on_full: OnFull, count: int) -> None:
    queues = [SlowQueue() for _ in range(count)]
    taking = [lane(queue, on_full) for queue in queues]
    ended = intake().enqueue([(one, share(b"a", records=2)) for one in taking])
    assert ended is not None
    for queue in queues:
        await asyncio.sleep(0)
        assert not ended.done()
        queue.under_way[0].set_result(None)
    await ended
    assert [one.counts for one in taking] == [LaneCounts(taken=2)] * count


@pytest.mark.parametrize("count", [1, 2])
async def test_what_is_queued_without_a_wait_tells_of_a_lane_that_has_it_not(count: int) -> None:
    queues = [SlowQueue() for _ in range(count)]
    ended = intake().enqueue([(lane(queue, OnFull.REJECT), share(b"a")) for queue in queues])
    assert ended is not None
    await asyncio.sleep(0)
    for queue in queues[1:]:
        queue.under_way[0].set_result(None)
    queues[0].under_way[0].set_exception(QueueFault("The disk is full."))
    with pytest.raises(NotTaken, match=r"The disk is full\. Keep the records and send them again\."):
        await ended


async def test_what_a_lane_drops_is_no_reason_to_send_it_again() -> None:
    queue = SlowQueue()
    drops = lane(queue, OnFull.DROP_NEWEST)
    ended = intake().enqueue([(drops, share(b"a", records=2))])
    assert ended is not None
    await asyncio.sleep(0)
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    await ended
    assert drops.counts == LaneCounts(dropped=2)


async def test_nothing_is_queued_without_a_wait_where_there_is_more_to_do_or_no_room() -> None:
    queue, full, small = SlowQueue(), SlowQueue(max_batches=0), SlowQueue(max_bytes=0)
    takes = lane(queue, OnFull.REJECT)
    for other in (unqueued(), lane(full, OnFull.REJECT), lane(small, OnFull.REJECT)):
        assert intake().enqueue([(takes, share(b"a")), (other, share(b"a"))]) is None
    await asyncio.sleep(0)
    assert (queue.under_way, full.under_way) == ([], [])
