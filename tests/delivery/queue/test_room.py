"""An empty queue has room for whatever it may hold, whatever its files still have, and they stay within its limit."""

import asyncio
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.delivery.queue.contract import Shortage
from reconciler.model.routes import Sync
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill, on_disk
from tests.waiting import until

pytestmark = pytest.mark.anyio

OVERHEAD = 104  # of a batch that is alone in its file
OTHER_FILES = 1024  # of acknowledgements, and headers of segments that are about to go
MIB = 1 << 20


async def one_after_another(root: Path, *, max_bytes: int, lives: list[list[float]]) -> None:
    """In each life requests of these shares of what fits, each delivered before the next one comes."""
    most = max_bytes - OVERHEAD
    for shares in lives:
        async with places.opened(root, Wanted().with_storage(max_bytes=max_bytes, sync=Sync.NONE)) as queue:
            assert (queue.may_hold(size=most + 1), queue.room(size=most + 1)) == (False, Shortage.BYTES)
            for share in shares:
                size = int(share * most)
                assert (queue.may_hold(size=size), queue.room(size=size)) == (True, None)
                await fill(queue, bytes(size))
                assert on_disk(queue) <= max_bytes + OTHER_FILES
                queue.delivered(await claimed(queue))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    max_bytes=st.integers(OVERHEAD, 2 * MIB),
    lives=st.lists(st.lists(st.floats(0, 1), max_size=3), min_size=1, max_size=3),
)
def test_an_empty_queue_has_room_for_whatever_it_may_hold(max_bytes: int, lives: list[list[float]]) -> None:
    with tempfile.TemporaryDirectory(prefix="queue-room-") as folder:
        asyncio.run(one_after_another(Path(folder), max_bytes=max_bytes, lives=lives))


async def test_large_requests_one_after_another_fit_into_a_small_queue(tmp_path: Path) -> None:
    await one_after_another(tmp_path, max_bytes=10 * MIB, lives=[[0.6, 0.6], [0.6, 1.0]])


async def test_what_comes_together_is_held_against_the_limit_together(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=MIB)) as queue:
        await fill(queue, bytes(600_000))
        queue.delivered(await claimed(queue))
        first = queue.append([bytes(600_000)], records=1, at=NOW)
        assert (queue.room(size=600_000), queue.room(size=400_000)) == (Shortage.BYTES, None)
        second = queue.append([b"x" * 400_000], records=1, at=NOW)
        await asyncio.gather(first, second)
        assert on_disk(queue) <= MIB
        assert [await queue.payload(batch) for batch in await claimed(queue)] == [bytes(600_000), b"x" * 400_000]


async def test_what_counts_against_the_limit_is_what_is_queued_alone(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=MIB)) as queue:
        await fill(queue, bytes(600_000))
        assert 600_000 < queue.depth().limited == queue.depth().disk
        [batch] = await claimed(queue)
        await queue.bury(batch, [bytes(600_000)], FINAL_FAILURE, records=1)
        depth = queue.depth()
        assert depth.limited < 1_000
        assert depth.disk > 600_000


async def test_a_dead_letter_of_the_same_size_is_queued_again(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=MIB)) as queue:
        await fill(queue, bytes(600_000))
        [batch] = await claimed(queue)
        await queue.bury(batch, [bytes(600_000)], FINAL_FAILURE, records=1)
        assert await queue.replay(outages_only=False) == (1, 1)
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=MIB)) as queue:
        assert [len(await queue.payload(batch) or b"") for batch in await claimed(queue)] == [600_000]


async def test_a_used_up_file_that_a_crash_left_is_removed_by_the_next_process(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, bytes(1000))
        queue.delivered(await claimed(queue))
    async with places.opened(tmp_path) as queue:
        written = {path: path.read_bytes() for path in queue.folder.glob("*.*[gk]")}
        await fill(queue, b"next")
        await until(lambda: len([*queue.folder.glob("*.seg")]) == 1)
        folder = queue.folder
    for path, data in written.items():  # as if they had not been removed
        path.write_bytes(data)
    assert len([*folder.glob("*.seg")]) == 2
    async with places.opened(tmp_path) as queue:
        [batch] = await claimed(queue)
        queue.delivered([batch])
        await until(lambda: len([*queue.folder.glob("*.seg")]) == 1)
        await until(lambda: queue.depth().disk < 1000)


async def test_an_empty_queue_has_the_room_on_a_full_disk_that_its_own_file_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 500_000_000
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    async with places.opened(tmp_path) as queue:
        await fill(queue, bytes(100_000))
        queue.delivered(await claimed(queue))
        free = 4000
        assert queue.room(size=600_000_000) == Shortage.DISK
        await until(lambda: queue.room(size=110_000) == Shortage.DISK)  # the disk was asked again
        assert queue.room(size=103_000) is None
        await fill(queue, bytes(90_000))
        assert on_disk(queue) < 100_000
        assert queue.room(size=4000) == Shortage.DISK
        free = 500_000_000
        await until(lambda: queue.room(size=4000) is None)


async def test_a_damaged_file_of_which_all_left_is_given_back_before_the_limit_is_passed(tmp_path: Path) -> None:
    size = MIB - OVERHEAD
    async with places.opened(tmp_path, Wanted().with_storage(max_bytes=MIB, sync=Sync.NONE)) as queue:
        await fill(queue, bytes(60_000))  # less than the end of a segment
        with next(queue.folder.glob("*.seg")).open("r+b") as file:
            file.seek(1000)
            file.write(b"!")
        [batch] = await claimed(queue)
        assert (await queue.payload(batch), queue.room(size=size)) == (None, None)
        await fill(queue, bytes(size))
        await until(lambda: on_disk(queue) <= MIB + OTHER_FILES)
        depth = queue.depth()
        assert (depth.batches, depth.lost, [path.parent.name for path in depth.damaged]) == (1, 1, ["quarantine"])
