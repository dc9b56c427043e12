"""A replay that is ended in the middle: each letter is queued or dead, never both."""

import asyncio
from pathlib import Path

import pytest

from reconciler.delivery.queue import appender
from reconciler.delivery.queue.contract import QueueFault
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.files import QueueReader
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill, payloads
from tests.delivery.queue.test_faults import Hanging
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def buried(queue: DiskQueue, *texts: bytes) -> None:
    await fill(queue, *texts)
    await places.bury_all(queue)


async def ended_in_the_middle(queue: DiskQueue, system: Hanging, *, most: int = 2) -> None:
    """Begin to replay some, and end that while the disk still writes."""
    system.hangs = True
    replaying = asyncio.create_task(queue.replay(outages_only=False, most=most))
    await until(lambda: queue.depth().batches == most)
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


async def test_a_letter_that_came_to_the_queue_while_another_replay_read_it_is_queued_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first replay is ended while the disk writes; that ends while the second one waits for the letter's bytes."""
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b", b"c")
        await ended_in_the_middle(queue, system, most=1)
        read, reads = QueueReader.read, list[int]()

        async def late(self: QueueReader, path: Path, offset: int, size: int) -> bytes:
            data = await read(self, path, offset, size)
            reads.append(size)
            if len(reads) == 2:  # the first one is of headers
                system.mended.set()
                await until(lambda: queue.depth().dead_batches == 2)
            return data

        monkeypatch.setattr(QueueReader, "read", late)
        await queue.replay(outages_only=False, most=1)
        assert (queue.depth().batches, queue.depth().dead_batches) == (2, 1)
        assert await payloads(queue) == [b"a", b"b"]
        assert [letter.data for letter in await places.letters(queue)] == [b"c"]


async def test_what_is_on_its_way_to_the_queue_does_not_count_against_the_limit_of_dead_letters(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, Wanted(dead_bytes=1000), system=system) as queue:
        await buried(queue, b"a" * 5000, b"b" * 5000, b"c" * 100)
        await ended_in_the_middle(queue, system)
        assert await queue.expire(before=0) == (0, 0)
        system.mended.set()
        await until(lambda: queue.depth().dead_batches == 1)
        assert [letter.data for letter in await places.letters(queue)] == [b"c" * 100]


async def test_when_all_letters_went_although_nobody_waited_there_is_no_oldest(tmp_path: Path) -> None:
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b")
        assert queue.depth().dead_oldest is not None
        await ended_in_the_middle(queue, system)
        system.mended.set()
        await until(lambda: queue.depth().dead_batches == 0)
        assert queue.depth().dead_oldest is None


async def test_a_letter_that_never_fits_is_passed_over_and_counted_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large, small = bytes(600_000), b"small"
    async with places.opened(tmp_path) as queue:
        await buried(queue, large, small, large, b"too")
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=300_000)) as queue:
        assert await queue.replay(outages_only=False) == (2, 2)
        assert await payloads(queue) == [small, b"too"]
        assert [letter.data for letter in await places.letters(queue)] == [large, large]
        folder = queue.folder / "dead"
    never = "2 letters never fit into their queue: raise its `max_bytes`, or discard them."
    assert caplog.messages == [f"Of the dead letters in {folder}, {never}"]


async def test_nobody_waits_for_ever_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender, "END_SECONDS", 0.1)
    system = Hanging()
    async with places.opened(tmp_path, system=system) as queue:
        await buried(queue, b"a", b"b")
        await fill(queue, b"outage")
        [batch] = await claimed(queue)
        await queue.bury(batch, [b"outage"], FINAL_FAILURE._replace(outage=True), records=1)
        system.hangs = True
        with pytest.raises(QueueFault, match="The disk of the queues does not answer"):
            await queue.replay(outages_only=False, most=1)
        waits = asyncio.create_task(queue.replay(outages_only=True))  # as long as the disk hangs
        await until(lambda: queue.depth().batches == 2)
        for changing in (queue.discard(queued=False, dead=True), queue.expire(before=NOW + 1)):
            with pytest.raises(QueueFault, match="The disk of the queues does not answer"):
                await changing
        system.mended.set()
        assert await waits == (1, 1)
        await until(lambda: queue.depth().dead_batches == 1)
        assert await payloads(queue) == [b"a", b"outage"]
        assert await queue.discard(queued=False, dead=True) == (1, 1)
