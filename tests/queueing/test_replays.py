"""A replay that is ended in the middle: each letter is queued or dead, never both."""

import asyncio
from pathlib import Path

import pytest

from reconciler.queueing.disk import DiskQueue
from tests.queueing import places
from tests.queueing.places import OBITUARY, claimed, fill, payloads
from tests.queueing.test_faults import Hanging
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def buried(queue: DiskQueue, *texts: bytes) -> None:
    await fill(queue, *texts)
    for batch, text in zip(await claimed(queue), texts, strict=True):
        await queue.bury(batch, [text], OBITUARY, records=1)


async def ended_in_the_middle(queue: DiskQueue, system: Hanging) -> None:
    """Begin to replay two, and end that while the disk still writes."""
    system.hangs = True
    replaying = asyncio.create_task(queue.replay(outages_only=False, most=2))
    await until(lambda: queue.depth().batches == 2)
    replaying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replaying


async def test_a_replay_that_a_stop_ends_sends_nothing_twice(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b")
        await ended_in_the_middle(queue, system)
        assert (queue.depth().batches, queue.depth().dead_batches) == (2, 2)
        system.mended.set()
    async with places.opened(tmp_path) as queue:
        assert (await payloads(queue), queue.depth().dead_batches) == ([b"a", b"b"], 0)


async def test_what_is_on_its_way_to_the_queue_is_neither_replayed_again_nor_discarded(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b")
        await ended_in_the_middle(queue, system)
        assert await queue.replay(outages_only=False) == (0, 0)
        assert await queue.discard(queued=False, dead=True) == (0, 0)
        system.mended.set()
        await until(lambda: queue.depth().dead_batches == 0)
        assert await payloads(queue) == [b"a", b"b"]
        assert await queue.replay(outages_only=False) == (0, 0)
        assert queue.depth().dead_oldest is None


async def replayed_once(queue: DiskQueue, system: Hanging) -> None:
    """Begin to replay one, end that while the disk still writes, and begin again: the writing ends while the second
    replay waits for the bytes of the same letter.
    """
    system.hangs = True
    replaying = asyncio.create_task(queue.replay(outages_only=False, most=1))
    await until(lambda: queue.depth().batches == 1)
    replaying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replaying
    files = queue._shared.files
    soon = files.soon
    reads: list[int] = []

    async def late(path: Path, offset: int, size: int) -> bytes:
        data = await soon(path, offset, size)
        reads.append(size)
        if len(reads) == 2:  # the first one is of headers
            system.mended.set()
            await until(lambda: queue.depth().dead_batches == 2)
        return data

    files.now = lambda *_: None  # type: ignore[method-assign] # as if nothing were in memory
    files.soon = late  # type: ignore[method-assign] # which waits
    await queue.replay(outages_only=False, most=1)
    del files.now, files.soon


async def test_a_letter_that_came_to_the_queue_while_another_replay_read_it_is_queued_once(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b", b"c")
        await replayed_once(queue, system)
        assert (queue.depth().batches, queue.depth().dead_batches) == (2, 1)
        assert await payloads(queue) == [b"a", b"b"]
        assert [data async for _, data in queue.dead_letters()] == [b"c"]


async def test_what_left_is_counted_off_once(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await buried(queue, b"a", b"b")
        journal = queue._dead.journal
        [first] = [entry async for entry, letter in queue._dead.letters(after=0) if letter.payload == b"a"]
        journal.acknowledge([first])
        journal.acknowledge([first, first])
        assert (journal.left.batches, queue.depth().dead_batches) == (1, 1)
    async with places.opened(tmp_path) as queue:
        assert [data async for _, data in queue.dead_letters()] == [b"b"]


async def test_what_is_on_its_way_to_the_queue_does_not_count_against_the_limit_of_dead_letters(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a" * 5000, b"b" * 5000, b"c" * 100)
        await ended_in_the_middle(queue, system)
        queue._dead.limit = 1000
        assert await queue.expire(before=0) == (0, 0)
        system.mended.set()
        await until(lambda: queue.depth().dead_batches == 1)
        assert [data async for _, data in queue.dead_letters()] == [b"c" * 100]


async def test_when_all_letters_went_although_nobody_waited_there_is_no_oldest(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b")
        assert queue.depth().dead_oldest is not None
        await ended_in_the_middle(queue, system)
        system.mended.set()
        await until(lambda: queue.depth().dead_batches == 0)
        assert queue.depth().dead_oldest is None
