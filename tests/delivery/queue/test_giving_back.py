"""Files of which all batches left, on a disk that fails or a process that is killed: nothing is lost or sent twice for
long, each fault is told once, and the room comes back when the disk is well.
"""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.delivery.queue import journal, segments
from reconciler.delivery.queue.contract import Shortage
from reconciler.delivery.queue.disk import DiskQueue
from tests.delivery.queue import places
from tests.delivery.queue.places import (
    FINAL_FAILURE,
    Wanted,
    WatchedSystem,
    claimed,
    fail,
    fill,
    on_disk,
    payloads,
    settled,
)
from tests.waiting import until

pytestmark = pytest.mark.anyio

NO_ROOM = 1 << 60  # a reserve with which every file that is used up is emptied soon
SMALL = Wanted().with_storage(max_bytes=1 << 20)  # segments of 64 KiB: two batches each
TEXTS = [bytes([65 + number]) * 40_000 for number in range(6)]
FIRST, THIRD, FIFTH = (f"{number:016x}.seg" for number in (1, 3, 5))
EMPTIED = segments.SEGMENT_HEADER_BYTES


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make failed disk operations be tried again soon."""
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 0.01)


class Faults:
    """Does something at a step of a file, as often as it comes."""

    def __init__(self, step: str, suffix: str, act: Callable[[], None] = fail) -> None:
        self.met = 0
        self.is_armed = False
        self._step = (step, suffix)
        self._act = act

    def __call__(self, call: str, path: Path) -> None:
        if self.is_armed and (call, path.suffix) == self._step:
            self.met += 1
            self._act()


def copy_once(root: Path, copy: Path) -> None:
    if not copy.exists():
        shutil.copytree(root, copy)


STEPS = {"open": ".seg", "header": ".seg", "cut": ".seg", "remove": ".ack"}  # of emptying a file


async def use_up(queue: DiskQueue, faults: Faults) -> None:
    """Deliver the first of three, which is written down, and then the others, upon which the file is emptied."""
    first, *others = await claimed(queue)
    queue.delivered([first])
    await until(lambda: any(path.stat().st_size > 0 for path in queue.folder.glob("*.ack")))
    faults.is_armed = True
    queue.delivered(others)
    await until(lambda: faults.met > 0)


async def everything(root: Path, wanted: Wanted = SMALL) -> list[bytes | None]:
    """Return the payloads that the next process finds, and check that none is lost or damaged."""
    async with places.opened(root, wanted) as queue:
        found = await payloads(queue)
        assert (queue.depth().batches, queue.depth().lost, queue.depth().damaged) == (len(found), 0, ())
        return found


@pytest.mark.parametrize("step", STEPS)
async def test_a_process_that_is_killed_before_a_step_sends_nothing_again(step: str, tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    faults = Faults(step, STEPS[step], lambda: copy_once(root, copy))
    async with places.opened(root, system=WatchedSystem(faults), reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS[:3])
        await use_up(queue, faults)
        await fill(queue, b"after")
    async with places.opened(copy) as queue:
        await fill(queue, b"after")
    assert (await everything(copy), await everything(root)) == ([b"after"], [b"after"])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_mended", [False, True])
async def test_a_file_that_cannot_be_emptied_is_told_once_and_nothing_of_it_is_sent_again(
    step: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_mended: bool
) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    faults = Faults(step, STEPS[step])
    async with places.opened(root, system=WatchedSystem(faults), reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS[:3])
        path = queue.folder / FIRST
        await use_up(queue, faults)
        await until(lambda: faults.met > 2)  # it is tried again
        assert caplog.messages == [journal.REFUSED % (path, "Input/output error")]
        shutil.copytree(root, copy)
        if is_mended:
            faults.is_armed = False
            await until(lambda: queue.depth().disk == on_disk(queue) == EMPTIED)
        await fill(queue, b"after")
        await until(lambda: not path.exists())  # another one was begun
        assert await payloads(queue) == [b"after"]
    assert (await everything(copy), await everything(root)) == ([], [b"after"])


async def test_a_file_in_the_middle_is_emptied_by_the_next_process_if_this_one_is_killed_in_that(
    tmp_path: Path,
) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    faults = Faults("cut", ".seg", lambda: copy_once(root, copy))
    async with places.opened(root, SMALL, system=WatchedSystem(faults)) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        queue.delivered(batches[2:3])
        await until(lambda: [*queue.folder.glob("*.ack")] != [])
        faults.is_armed = True
        queue.delivered(batches[3:4])
        await until(copy.exists)
    async with places.opened(copy, SMALL) as queue:
        path = queue.folder / THIRD
        assert (path.stat().st_size > EMPTIED, queue.depth().disk) == (True, on_disk(queue))
        await until(lambda: path.stat().st_size == EMPTIED and not path.with_suffix(".ack").exists())
        await settled(queue)
    assert await everything(copy) == [*TEXTS[:2], *TEXTS[4:]]


@pytest.mark.parametrize(("step", "left"), [("header", [2, 3, 5]), ("remove", [0, 1, 5])])
async def test_what_leaves_at_the_end_is_written_down_though_no_file_goes(
    step: str, left: list[int], tmp_path: Path
) -> None:
    faults = Faults(step, ".seg")
    async with places.opened(tmp_path, SMALL, system=WatchedSystem(faults), reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS)
        faults.is_armed = True
        batches = await claimed(queue)
        queue.delivered([batches[place] for place in left])
    stay = [text for place, text in enumerate(TEXTS) if place not in left]
    assert (faults.met > 0, await everything(tmp_path)) == (True, stay)


@pytest.mark.parametrize("left", [[0, 1], [0, 1, 2], [0, 1, 2, 3], [2, 3, 0, 1], [0, 1, 2, 3, 4, 5]])
async def test_a_file_that_cannot_be_removed_is_told_once_and_none_behind_it_is_removed_before(
    left: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults("remove", ".seg")
    faults.is_armed = True
    async with places.opened(tmp_path, SMALL, system=WatchedSystem(faults), reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        for place in left:
            queue.delivered([batches[place]])
        await until(lambda: faults.met > 2)
        await settled(queue)
        assert sorted(path.name for path in queue.folder.glob("*.seg")) == [FIRST, THIRD, FIFTH]
        path = queue.folder / FIRST
    assert caplog.messages == [journal.REFUSED % (path, "Input/output error")]
    assert await everything(tmp_path) == [text for place, text in enumerate(TEXTS) if place not in left]


async def test_what_the_disk_does_not_remove_counts_against_the_limit_until_it_goes(tmp_path: Path) -> None:
    faults = Faults("remove", ".seg")
    faults.is_armed = True
    async with places.opened(tmp_path, SMALL, system=WatchedSystem(faults)) as queue:
        await fill(queue, *TEXTS)
        queue.delivered(await claimed(queue))
        await until(lambda: (queue.folder / THIRD).stat().st_size == EMPTIED)
        await settled(queue)
        depth = queue.depth()
        assert (depth.limited, 80_000 < depth.disk < 81_000) == (depth.disk, True)
        assert (queue.room(size=900_000), queue.room(size=1_000_000)) == (None, Shortage.BYTES)
        faults.is_armed = False
        await until(lambda: not (queue.folder / FIRST).exists() and queue.room(size=1_000_000) is None)
        await settled(queue)
    assert await everything(tmp_path) == []


async def test_acknowledgements_that_cannot_be_written_keep_no_others_are_told_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused: set[str] = {"0000000000000001"}
    asked: list[str] = []

    def before(call: str, path: Path) -> None:
        if call == "open" and path.name.split(".")[0] in refused and ".ack" in path.name:
            asked.append(path.name)
            fail()

    async with places.opened(tmp_path, SMALL, system=WatchedSystem(before)) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        queue.delivered([batches[0], batches[2]])
        first = (queue.folder / FIRST).with_suffix(".ack")
        await until((queue.folder / THIRD).with_suffix(".ack").exists)
        await until(lambda: len(asked) > 2)  # it is tried again
        assert caplog.messages == [journal.REFUSED % (queue.folder / FIRST, "Input/output error")]
        refused.clear()
        await until(first.exists)
        refused.add("0000000000000005")
        queue.delivered([batches[1], batches[4]])  # at the end, all but what the disk refuses is written
    assert await everything(tmp_path) == [TEXTS[3], TEXTS[4], TEXTS[5]]


async def test_a_write_that_fails_once_at_the_end_is_made_again(tmp_path: Path) -> None:
    def fail_once() -> None:
        faults.is_armed = False
        fail()

    faults = Faults("open", ".new", fail_once)
    async with places.opened(tmp_path, SMALL, system=WatchedSystem(faults)) as queue:
        await fill(queue, *TEXTS)
        faults.is_armed = True
        queue.delivered((await claimed(queue))[2:3])
    assert (faults.met, await everything(tmp_path)) == (1, [*TEXTS[:2], *TEXTS[3:]])


async def test_a_reader_of_a_file_that_is_being_emptied_does_not_take_it_for_damaged(tmp_path: Path) -> None:
    is_cut, goes_on = threading.Event(), threading.Event()

    def before(call: str, path: Path) -> None:
        if call == "remove" and path.suffix == ".ack":  # the file was cut right before
            is_cut.set()
            goes_on.wait(30)

    async with places.opened(tmp_path, system=WatchedSystem(before), reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS)
        for batch, text in zip(await claimed(queue), TEXTS, strict=True):
            await queue.bury(batch, [text], FINAL_FAILURE, records=1, leaves=False)
        await queue.discard(queued=False, dead=True)
        await until(is_cut.is_set)
        try:
            assert await queue.replay(outages_only=False) == (0, 0)
        finally:
            goes_on.set()
        await until(lambda: queue.depth().disk < 250_000)
        assert (queue.depth().damaged, queue.depth().lost) == ((), 0)
