"""Files of which all left and that the disk does not remove, or empty: nothing is sent again, lost, or told as given
back.
"""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reconciler.delivery.queue import journal as queue_journal
from reconciler.delivery.queue.contract import Piece, QueueFault, Shortage
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.files import System
from tests.delivery.queue import places
from tests.delivery.queue.places import Wanted, claimed, fill, payloads
from tests.waiting import until

pytestmark = pytest.mark.anyio

WANTED = Wanted().with_storage(max_bytes=1 << 20)  # segments of 64 KiB: two batches each
TEXTS = [bytes([65 + number]) * 40_000 for number in range(5)]


class Sticking(System):
    """Removes no segment, or empties none, when it is told so."""

    removes = empties = True

    def remove(self, path: Path) -> None:
        if not self.removes and path.suffix == ".seg":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().remove(path)

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        if not self.empties and synced and len(pieces) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(descriptor, pieces, offset, synced=synced)


@asynccontextmanager
async def sticking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Sticking, DiskQueue]]:
    """A queue of full segments on a disk that removes none of them, which is tried again soon."""
    monkeypatch.setattr(queue_journal, "AGAIN_SECONDS", 0.01)
    system = Sticking()
    system.removes = False
    async with places.opened(folder, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        yield system, queue


class Refusing(Sticking):
    """Refuses to make a file when it is told so, and to go on."""

    refuses = False

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.goes_on = threading.Event()

    def create(self, path: Path) -> int:
        if self.refuses:
            self.is_asked.set()
            self.goes_on.wait(30)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path)


def on_disk(queue: DiskQueue) -> int:
    return sum(path.stat().st_size for path in queue.folder.glob("*.*[gk]"))


def names(queue: DiskQueue) -> list[int]:
    return sorted(int(path.stem, 16) for path in queue.folder.glob("*.seg"))


async def all_noted(queue: DiskQueue) -> None:
    """Until all that left is written down, and files that stay are counted."""
    await until(lambda: not queue._journal._writing and queue.depth().disk == on_disk(queue))


@pytest.mark.parametrize("left", [[0, 1], [0, 1, 2], [0, 1, 2, 3], [2, 3, 0, 1]])
async def test_a_file_that_cannot_be_removed_is_told_once_and_what_left_it_is_not_sent_again_and_nothing_looks_lost(
    left: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with sticking(tmp_path, monkeypatch) as (_, queue):
        batches = await claimed(queue)
        for place in left:
            queue.delivered([batches[place]])
        await until(lambda: caplog.messages != [])
        await all_noted(queue)
        assert names(queue) == [1, 3, 5]
        folder = queue.folder
    assert caplog.messages == [
        f"The queue file {folder}/0000000000000001.seg could not be removed (Input/output error)."
    ]
    async with places.opened(tmp_path, WANTED) as queue:
        stay = [text for place, text in enumerate(TEXTS) if place not in left]
        assert (await payloads(queue), queue.depth().lost) == (stay, 0)


async def test_a_file_that_could_not_be_removed_is_removed_later_with_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sticking(tmp_path, monkeypatch) as (system, queue):
        queue.delivered((await claimed(queue))[:4])
        await until(lambda: bool(queue._journal._used_up._staying))
        system.removes = True
        await until(lambda: names(queue) == [5] and queue.depth().disk == on_disk(queue) < 50_000)


async def test_a_queue_whose_first_file_cannot_be_removed_is_not_emptied_in_place_which_would_look_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system = Sticking()
    async with places.opened(tmp_path, WANTED, system=system, reserve=1 << 60) as queue:
        await fill(queue, *TEXTS[:4])
        system.removes = False
        queue.delivered(await claimed(queue))
        await until(lambda: queue._journal._used_up.is_staying)
        await all_noted(queue)  # also of the last one, to which nothing was done
        await fill(queue, b"after")
        assert names(queue) == [1, 3, 5]
        path = queue.folder / "0000000000000001.seg"
        assert caplog.messages == [f"The queue file {path} could not be removed (Input/output error)."]
    async with places.opened(tmp_path, WANTED) as queue:
        assert (await payloads(queue), queue.depth().lost) == ([b"after"], 0)


async def test_what_stands_behind_a_file_that_cannot_be_removed_is_emptied_and_what_stays_counts_against_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sticking(tmp_path, monkeypatch) as (system, queue):
        queue.delivered(await claimed(queue))
        await until(lambda: (queue.folder / "0000000000000003.seg").stat().st_size == 64)
        await all_noted(queue)
        depth = queue.depth()
        assert (names(queue), depth.limited, 120_000 < depth.disk < 130_000) == ([1, 3, 5], depth.disk, True)
        assert (queue.room(size=900_000), queue.room(size=1_000_000)) == (None, Shortage.BYTES)
        system.removes = True
        await until(lambda: names(queue) == [5] and queue.room(size=1_000_000) is None)
    async with places.opened(tmp_path, WANTED) as queue:
        assert (await payloads(queue), queue.depth().lost) == ([], 0)


async def test_a_file_that_could_not_be_emptied_is_emptied_although_an_append_was_refused_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_journal, "AGAIN_SECONDS", 0.01)
    system = Refusing()
    async with places.opened(tmp_path, system=system, reserve=1 << 60) as queue:
        journal = queue._journal
        await fill(queue, *TEXTS)
        system.empties = False
        queue.delivered(await claimed(queue))
        await until(lambda: queue._shared.committer.faults > 0)
        await all_noted(queue)
        system.refuses = True
        append = asyncio.ensure_future(fill(queue, b"refused"))
        await until(system.is_asked.is_set)
        timer = journal._again_timer
        await until(lambda: journal._again_timer is not timer and journal._timer is None)  # the next attempt
        system.empties = True
        system.goes_on.set()
        with pytest.raises(QueueFault):
            await append
        await until(lambda: queue.depth().disk == on_disk(queue) == 64)


async def test_what_left_a_file_in_the_middle_that_cannot_be_emptied_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queue_journal, "AGAIN_SECONDS", 0.01)
    system = Sticking()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        system.empties = False
        queue.delivered((await claimed(queue))[2:4])
        await until(lambda: caplog.messages != [])
        path = queue.folder / "0000000000000003.seg"
        assert caplog.messages == [f"The queue file {path} could not be emptied (Input/output error)."]
        await until(path.with_suffix(".ack").exists)
        await all_noted(queue)
        system.empties = True
        await until(lambda: path.stat().st_size == 64)
        await all_noted(queue)
        system.empties = False
    async with places.opened(tmp_path, WANTED) as queue:
        assert (await payloads(queue), queue.depth().lost) == ([*TEXTS[:2], TEXTS[4]], 0)


async def test_what_leaves_right_before_the_end_is_not_sent_again_though_no_file_goes(tmp_path: Path) -> None:
    system = Sticking()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        system.removes = system.empties = False
        batches = await claimed(queue)
        queue.delivered([batches[0], batches[1], batches[4]])
    async with places.opened(tmp_path, WANTED) as queue:
        assert (await payloads(queue), queue.depth().lost) == (TEXTS[2:4], 0)


async def test_nothing_is_done_to_the_files_of_a_queue_that_could_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"text")
        queue.delivered(await claimed(queue))
    timers: list[object] = []

    async def fail(self: DiskQueue) -> None:
        timers.append(self._journal._timer)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(DiskQueue, "start", fail)
    with pytest.raises(QueueFault):
        async with places.opened(tmp_path):
            pass
    assert timers == [None]
