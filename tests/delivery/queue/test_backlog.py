"""A backlog that is far longer than what is held in memory: order, memory, space that comes back."""

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest

from reconciler.delivery.queue import disk
from reconciler.delivery.queue.contract import Depth
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.model.routes import Sync
from tests.delivery.queue import places
from tests.delivery.queue.places import NOW, Wanted, claimed, on_disk, settled
from tests.waiting import until

pytestmark = pytest.mark.anyio

SMALL_SEGMENTS = Wanted().with_storage(max_bytes=1 << 20)
BATCHES = 5 * disk.READY


async def append(queue: DiskQueue, count: int, *, size: int = 100) -> None:
    await asyncio.gather(
        *(queue.append([b"%07d" % number + b"x" * size], records=1, at=NOW) for number in range(count))
    )


async def test_a_long_backlog_is_read_in_order_from_the_disk_also_by_the_next_process(tmp_path: Path) -> None:
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        await append(queue, BATCHES)
        first = queue.claim(most_records=BATCHES // 2, most_bytes=1 << 30)
        queue.delivered([batch for batch in first if batch.number % 2])
        odd = sum(batch.number % 2 for batch in first)
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        assert queue.depth().batches == BATCHES - odd
        found = await claimed(queue)
        expected = [n for n in range(1, BATCHES + 1) if n > len(first) or not n % 2]
        assert [batch.number for batch in found] == expected
        for batch in found[:: BATCHES // 20]:
            payload = await queue.payload(batch)
            assert payload is not None
            assert int(payload[:7]) == batch.number - 1
        queue.delivered(found)
        assert queue.depth()._replace(disk=0, limited=0) == Depth()


async def test_a_backlog_takes_memory_for_its_first_entries_alone(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted().with_storage(sync=Sync.NONE)) as queue:
        await append(queue, 2 * disk.READY, size=2000)
        tracemalloc.start()
        try:
            for _ in range(5):
                await append(queue, disk.READY, size=2000)
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (queue.depth().size > 10_000_000, grown < 1_000_000) == (True, True)


async def test_space_comes_back_by_segment_also_when_an_old_batch_waits(tmp_path: Path) -> None:
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        for _ in range(10):
            await append(queue, 3, size=20_000)
        waits, *others = await claimed(queue)
        full = queue.depth().disk
        queue.delivered(others)
        assert full > 600_000
        await until(lambda: on_disk(queue) < 300_000)
        await settled(queue)
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        assert ([batch.number for batch in await claimed(queue)], queue.depth().lost) == ([waits.number], 0)
        queue.delivered([waits])
        await append(queue, 1)
        await until(lambda: len([*queue.folder.glob("*.seg")]) == 1)


async def test_a_queue_that_is_used_up_takes_no_room_and_never_gives_a_number_twice(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await append(queue, 100, size=100_000)
        last = (await claimed(queue))[-1]
        queue.delivered([last._replace(number=number) for number in range(1, 101)])
        await until(lambda: on_disk(queue) < 1000)
        await append(queue, 1)
        assert [batch.number for batch in await claimed(queue)] == [101]
    async with places.opened(tmp_path) as queue:
        [batch] = await claimed(queue)
        queue.delivered([batch])
    async with places.opened(tmp_path) as queue:
        await append(queue, 1)
        [batch] = await claimed(queue)
        assert batch.number == 102


async def test_discarding_a_backlog_gives_its_space_back_and_spares_what_is_claimed(tmp_path: Path) -> None:
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        await append(queue, BATCHES)
        [batch] = queue.claim(most_records=1, most_bytes=1 << 20)
        assert await queue.discard(queued=True, dead=False) == (BATCHES - 1, BATCHES - 1)
        await until(lambda: on_disk(queue) < 300_000)
        await append(queue, 1)
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        assert [one.number for one in await claimed(queue)] == [batch.number, BATCHES + 1]


async def test_the_dead_letters_that_are_over_their_limit_expire_oldest_first(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted(dead_bytes=3000)) as queue:
        await append(queue, 5, size=1000)
        for batch in await claimed(queue):
            data = await queue.payload(batch)
            assert data is not None
            await queue.bury(batch, [data], places.FINAL_FAILURE, records=1)
        assert await queue.expire(before=0) == (3, 3)
        assert [(letter.data or b"")[:7] for letter in await places.letters(queue)] == [b"0000003", b"0000004"]
        assert queue.depth().dead_size <= 3000


async def test_segments_of_tiny_batches_are_no_longer_than_others(tmp_path: Path) -> None:
    async with places.opened(tmp_path, SMALL_SEGMENTS) as queue:
        await append(queue, 5000, size=0)
        lengths = [path.stat().st_size for path in queue.folder.glob("*.seg")]
    assert (sum(lengths) > 5000 * 47, max(lengths) <= 2 * disk.SMALLEST_ROLL) == (True, True)
