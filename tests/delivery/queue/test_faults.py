"""A disk that fails while a queue is used: what fails, what does not, and what is there afterwards."""

import asyncio
import errno
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.delivery.queue import appender, disk, files
from reconciler.delivery.queue.contract import Piece, QueueFault, Shortage
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.journal import JournalWalk
from reconciler.delivery.queue.segments import QueueEntry
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill, payloads
from tests.waiting import until

pytestmark = pytest.mark.anyio

DOUBTFUL = (
    "The disk could not be made to keep what the queue in {} took last (Input/output error); a power cut may lose it."
)


class Failing(System):
    """Fails when it is told to; what it wrote before that stays written, as on a real disk."""

    def __init__(self) -> None:
        self.sync_error: int | None = None
        self.write_error: int | None = None
        self.whole_bytes: int | None = None  # that are written before the error
        self.cut_error: int | None = None
        self.create_error: int | None = None

    def create(self, path: Path) -> int:
        if self.create_error is not None:
            raise OSError(self.create_error, os.strerror(self.create_error))
        return super().create(path)

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        if self.write_error is not None:
            return self._failing(descriptor, b"".join(pieces), offset)
        written = super().write(descriptor, pieces, offset, synced=False)
        if synced:
            self.synchronise(descriptor)
        return written

    def _failing(self, descriptor: int, data: bytes, offset: int) -> int:
        whole, self.whole_bytes = self.whole_bytes, None
        if whole:  # a short write; the next one fails
            return super().write(descriptor, [data[:whole]], offset, synced=False)
        assert self.write_error is not None
        raise OSError(self.write_error, os.strerror(self.write_error))

    def synchronise(self, descriptor: int) -> None:
        if self.sync_error is not None:
            code, self.sync_error = self.sync_error, None
            raise OSError(code, os.strerror(code))
        super().synchronise(descriptor)

    def cut(self, descriptor: int, length: int) -> None:
        if self.cut_error is not None:
            raise OSError(self.cut_error, os.strerror(self.cut_error))
        super().cut(descriptor, length)


def segments_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.seg"))


async def test_what_a_sync_refused_fails_and_does_not_come_back_and_another_file_is_begun(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"before")
        system.sync_error = errno.EIO
        appends = [queue.append([text], records=1, at=NOW) for text in (b"refused", b"too")]
        results = await asyncio.gather(*appends, return_exceptions=True)
        message = "The disk could not take the records (Input/output error); nothing of them was kept."
        assert [(type(one), str(one)) for one in results] == [(QueueFault, message)] * 2
        assert queue.room(size=1) == Shortage.DISK
        await fill(queue, b"after")
        assert queue.room(size=1) is None
        assert len(segments_of(queue.folder)) == 2
        assert queue.depth().batches == 2
    async with places.opened(tmp_path) as again:
        assert (await payloads(again), again.depth().lost, again.depth().quarantined) == ([b"before", b"after"], 0, 0)


async def test_what_a_sync_refused_and_no_cut_removed_is_not_served_in_this_life(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"before")
        system.sync_error = system.cut_error = errno.EIO
        with pytest.raises(QueueFault):
            await fill(queue, b"refused")
        await fill(queue, b"after")
        assert await payloads(queue) == [b"before", b"after"]
    async with places.opened(tmp_path) as again:
        found = await payloads(again)
        assert [text for text in found if text != b"refused"] == [b"before", b"after"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("whole", [0, 1, 45, 5000])
async def test_a_full_disk_refuses_and_keeps_serving(code: int, whole: int, tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"one", b"two")
        system.write_error, system.whole_bytes = code, whole
        appends = [queue.append([text * 1000], records=1, at=NOW) for text in (b"refused", b"too")]
        results = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(one) for one in results] == [QueueFault, QueueFault]
        assert queue.room(size=1) == Shortage.DISK
        [one, two] = await claimed(queue)
        assert [await queue.payload(batch) for batch in (one, two)] == [b"one", b"two"]
        queue.give_back([two])
        system.write_error = None
        queue.delivered([one])
        await fill(queue, b"after")
    async with places.opened(tmp_path) as again:
        assert (await payloads(again), again.depth().lost) == ([b"two", b"after"], 0)


async def test_a_file_that_cannot_be_made_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        system.create_error = errno.ENOSPC
        with pytest.raises(QueueFault):
            await fill(queue, b"refused")
        assert segments_of(queue.folder) == []
        system.create_error, system.write_error, system.whole_bytes = None, errno.ENOSPC, 70
        with pytest.raises(QueueFault):
            await fill(queue, b"refused too")
        assert segments_of(queue.folder) == []
        system.write_error = None
        await fill(queue, b"taken")
        assert (await payloads(queue), queue.depth().batches) == ([b"taken"], 1)


async def test_a_burial_that_the_disk_refuses_leaves_the_batch_claimed(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"sick")
        [batch] = await claimed(queue)
        system.write_error = errno.EIO
        with pytest.raises(QueueFault):
            await queue.bury(batch, [b"sick"], FINAL_FAILURE, records=1)
        depth = queue.depth()
        assert (depth.batches, depth.claimed, depth.dead_batches) == (1, 1, 0)
        system.write_error = None
        await queue.bury(batch, [b"sick"], FINAL_FAILURE, records=1)
        depth = queue.depth()
        assert (depth.batches, depth.claimed, depth.dead_batches) == (0, 0, 1)


async def test_a_replay_that_the_disk_refuses_keeps_the_dead_letters(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"sick")
        [batch] = await claimed(queue)
        await queue.bury(batch, [b"sick"], FINAL_FAILURE, records=1)
        system.write_error = errno.ENOSPC
        assert await queue.replay(outages_only=False) == (0, 0)
        assert (queue.depth().batches, queue.depth().dead_batches) == (0, 1)
        system.write_error = None
        await fill(queue, b"other")
        assert await queue.replay(outages_only=False) == (1, 1)
        assert await payloads(queue) == [b"other", b"sick"]


async def test_acknowledgements_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    system = Failing()
    async with places.opened(tmp_path, system=system) as queue:
        await fill(queue, b"one", b"two")
        [one, _] = await claimed(queue)
        system.write_error, system.whole_bytes = errno.ENOSPC, 5
        queue.delivered([one])
        await until(lambda: system.whole_bytes is None)  # a part of them was written
        system.write_error = None
    async with places.opened(tmp_path) as again:
        assert await payloads(again) == [b"two"]


class Telling(System):
    """Tells in which order things were forced to disk."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        written = super().write(descriptor, pieces, offset, synced=synced)
        self.calls.append("synced" if synced else "written")
        return written

    def synchronise(self, descriptor: int) -> None:
        super().synchronise(descriptor)
        self.calls.append("synced")

    def synchronise_folder(self, path: Path) -> None:
        super().synchronise_folder(path)
        self.calls.append(f"folder {path.name}")


async def test_a_batch_and_the_name_of_its_file_are_on_disk_before_the_answer(tmp_path: Path) -> None:
    system = Telling()
    async with places.opened(tmp_path, system=system) as queue:
        name = queue.folder.name
        assert system.calls == [f"folder {tmp_path.name}", "synced", f"folder .{name}.new", "folder here"]
        system.calls.clear()
        await fill(queue, b"first")
        assert system.calls == ["synced", f"folder {name}"]
        await asyncio.gather(*(queue.append([b"more"], records=1, at=NOW) for _ in range(2000)))
        assert system.calls[2:] == ["synced"] * 4  # 4,000 pieces, 1,000 at a time
        system.calls.clear()
        await queue.bury((await claimed(queue))[0], [b"first"], FINAL_FAILURE, records=1)
        assert system.calls[:2] == ["synced", "folder dead"]


def folders(root: Path) -> int:
    return len([*root.glob("here/*")])


async def test_too_many_open_files_lose_nothing_and_begin_no_second_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one", b"two")
        segment = next(queue.folder.glob("*.seg"))
    refused = places.refusing(monkeypatch, errno.EMFILE)
    refused.add(queue.folder / "queue.json")
    monkeypatch.setattr(files, "AGAIN_SECONDS", 0.01)
    with pytest.raises(QueueFault, match="Too many open files"):
        async with places.opened(tmp_path):
            pass
    refused.clear()
    async with places.opened(tmp_path) as queue:
        refused.add(segment)
        asyncio.get_running_loop().call_later(0.05, refused.clear)
        assert (await payloads(queue), queue.depth().lost) == ([b"one", b"two"], 0)
    assert folders(tmp_path) == 1


async def test_a_queue_that_is_removed_while_it_takes_something_keeps_it(tmp_path: Path) -> None:
    queues = places.make(tmp_path)
    await queues.start()
    queue = await places.open_queue(queues)
    written = queue.append([b"taken"], records=1, at=NOW)
    await asyncio.sleep(0)  # the write is under way
    assert queue.depth().batches == 1
    await queues.remove(queue)
    await written
    await queues.close()
    async with places.opened(tmp_path) as again:
        assert await payloads(again) == [b"taken"]


class Hanging(System):
    """Hangs when it is told to, as a network disk does."""

    def __init__(self) -> None:
        self.hangs = False
        self.mended = threading.Event()

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        if self.hangs:
            self.mended.wait(60)
        return super().write(descriptor, pieces, offset, synced=synced)


async def test_a_disk_that_hangs_at_the_end_is_waited_for_once_and_what_did_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(appender, "END_SECONDS", 0.3)
    system = Hanging()
    queues = places.make(tmp_path, system=system)
    await queues.start()
    opened = [await places.open_queue(queues, replace(Wanted(), name=name)) for name in ("b", "a")]
    await fill(opened[0], b"kept")
    system.hangs = True
    written = [queue.append([b"?"], records=1, at=NOW) for queue in opened]
    try:
        async with asyncio.timeout(5):
            await queues.close()
        told = "The disk of the queues does not answer; what was not written is not kept, of a (shop), b (shop)."
        assert caplog.messages == [told]
        assert not any(one.done() for one in written)
    finally:
        system.mended.set()


async def test_a_queue_that_goes_while_the_disk_hangs_does_not_keep_others_from_being_opened(tmp_path: Path) -> None:
    system = Hanging()
    queues = places.make(tmp_path, system=system)
    await queues.start()
    queue = await places.open_queue(queues)
    [found], _ = await queues.found()
    system.hangs = True
    written = queue.append([b"?"], records=1, at=NOW)
    removing = asyncio.create_task(queues.remove(queue))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(5):
            await places.open_queue(queues, Wanted(name="other"))
            assert not removing.done()
            with pytest.raises(QueueFault, match="The old queue of siem is still being closed; look at the disk"):
                await places.open_queue(queues)
    finally:
        system.mended.set()
    await written
    await removing
    await until(lambda: not queues.is_open(found))
    assert await payloads(await places.open_queue(queues)) == [b"?"]
    await queues.close()


async def test_reading_that_meets_a_fault_of_the_program_is_told_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one")
    real = JournalWalk.next
    faults: list[Exception] = []

    async def following(self: JournalWalk) -> list[QueueEntry]:
        if faults:
            raise faults.pop()
        return await real(self)

    monkeypatch.setattr(JournalWalk, "next", following)
    monkeypatch.setattr(disk, "AGAIN_SECONDS", 0.05)
    async with places.opened(tmp_path) as queue:
        faults += [ZeroDivisionError("fault"), ZeroDivisionError("fault")]
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(10):
            await queue.wait()
        assert asyncio.get_running_loop().time() - begun >= 0.1  # not in a circle
        assert await payloads(queue) == [b"one"]
        told = f"Reading the queue in {queue.folder} met a fault of the program; it is read again soon."
    assert caplog.messages == [told] * 2


async def test_a_batch_that_no_frame_may_hold_is_refused(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        with pytest.raises(QueueFault, match="is over the 67043328 that a queue takes"):
            await queue.append([bytes(disk.MOST_BYTES), b"x"], records=1, at=NOW)
        await fill(queue, b"x")
        assert [batch.number for batch in await claimed(queue)] == [1]
