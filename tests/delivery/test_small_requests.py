"""Requests of one moment share a batch, where there is room, and each hears of its own."""

import asyncio
from collections.abc import Sequence

import pytest

from reconciler.delivery.contract import NotTaken
from reconciler.delivery.lanes import MOST_BYTES, MOST_RECORDS, SmallRequests
from reconciler.delivery.otlp.models import RecordShare
from reconciler.delivery.queue.contract import Piece, QueueFault, Shortage
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.reporting import DeliveryCounts

pytestmark = pytest.mark.anyio
AT = 1_700_000_000_000


def share(text: bytes, *, records: int = 1) -> RecordShare:
    return RecordShare((text,), records, len(text))


class SlowQueue(MemoryQueue):
    """Writes nothing before it is told to."""

    def __init__(self, *, max_batches: int = 100, max_bytes: int = 1 << 20) -> None:
        super().__init__(max_batches=max_batches, max_bytes=max_bytes)
        self.under_way: list[asyncio.Future[None]] = []

    def append(self, payload: Sequence[Piece], *, records: int, at: int) -> asyncio.Future[None]:
        super().append(payload, records=records, at=at)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.under_way.append(written)
        return written


def gathering(queue: MemoryQueue, *, counts: DeliveryCounts | None = None) -> SmallRequests:
    kept = counts or DeliveryCounts()
    return SmallRequests(queue, who="siem", clock=lambda: AT, counts=kept, hung=lambda: None)


async def batches(queue: MemoryQueue) -> list[tuple[int, bytes | None]]:
    claimed = queue.claim(most_records=10**6, most_bytes=10**9)
    return [(batch.records, await queue.payload(batch)) for batch in claimed]


def memory(*, max_batches: int = 100, max_bytes: int = 1 << 20) -> MemoryQueue:
    return MemoryQueue(max_batches=max_batches, max_bytes=max_bytes)


async def test_what_comes_in_one_turn_is_one_batch_in_its_order() -> None:
    queue = memory()
    gathered = gathering(queue)
    heard = [gathered.add(share(text, records=2)) for text in (b"a", b"b", b"c")]
    assert not gathered.is_empty
    await asyncio.gather(*heard)
    assert gathered.is_empty
    assert await batches(queue) == [(6, b"abc")]


async def test_records_are_counted_when_the_queue_has_them_and_not_when_it_refused() -> None:
    queue, counts = SlowQueue(), DeliveryCounts()
    gathered = gathering(queue, counts=counts)
    gathered.add(share(b"a", records=2))
    gathered.add(share(b"b"))
    await asyncio.sleep(0)
    assert counts.taken == 0
    refused = gathered.add(share(b"c"))
    queue.under_way[0].set_result(None)
    await asyncio.sleep(0)
    assert counts.taken == 3
    queue.under_way[1].set_exception(QueueFault("The disk is full."))
    with pytest.raises(NotTaken):
        await refused
    assert counts.taken == 3


async def test_what_comes_later_is_another_batch() -> None:
    queue = memory()
    gathered = gathering(queue)
    for text in (b"a", b"b"):
        await gathered.add(share(text))
    assert await batches(queue) == [(1, b"a"), (1, b"b")]


async def test_what_comes_while_the_queue_writes_is_one_batch_after_it() -> None:
    queue = SlowQueue()
    gathered = gathering(queue)
    first = gathered.add(share(b"a"))
    await asyncio.sleep(0)
    later = []
    for text in (b"b", b"c"):
        later.append(gathered.add(share(text)))
        await asyncio.sleep(0)
    assert len(queue.under_way) == 1
    queue.under_way[0].set_result(None)
    await first
    assert not any(one.done() for one in later)
    queue.under_way[1].set_result(None)
    await asyncio.gather(*later)
    assert await batches(queue) == [(1, b"a"), (2, b"bc")]


@pytest.mark.parametrize(
    "second", [share(b"b" * MOST_BYTES), share(b"b", records=MOST_RECORDS)], ids=["bytes", "records"]
)
async def test_a_batch_has_its_limits(second: RecordShare) -> None:
    queue = memory()
    gathered = gathering(queue)
    await asyncio.gather(gathered.add(share(b"a")), gathered.add(second), gathered.add(share(b"c")))
    assert [records for records, _ in await batches(queue)][:2] == [1, second.records]


async def test_a_full_queue_has_no_room_beside_what_is_gathered() -> None:
    queue = memory(max_batches=1)
    gathered = gathering(queue)
    await queue.append([b"before"], records=999, at=AT)
    assert gathered.room(share(b"a")) is None
    gathered.add(share(b"a"))
    assert gathered.room(share(b"b")) is None  # it joins
    assert gathered.room(share(b"c" * MOST_BYTES)) is Shortage.BATCHES


async def test_with_less_room_than_a_batch_may_take_nobody_joins_one() -> None:
    queue = memory(max_bytes=10)
    gathered = gathering(queue)
    assert gathered.room(share(b"a" * 6)) is None
    gathered.add(share(b"a" * 6))
    assert gathered.room(share(b"b" * 6)) is Shortage.BYTES
    assert gathered.room(share(b"b" * 4)) is None


async def test_a_fault_is_told_to_everyone_and_what_comes_after_it_is_taken() -> None:
    queue = SlowQueue()
    gathered = gathering(queue)
    heard = [gathered.add(share(text)) for text in (b"a", b"b")]
    await asyncio.sleep(0)
    after = gathered.add(share(b"c"))
    queue.under_way[0].set_exception(QueueFault("The disk is full."))
    assert [type(one) for one in await asyncio.gather(*heard, return_exceptions=True)] == [NotTaken] * 2
    queue.under_way[1].set_result(None)
    await after
