"""Emptying a file that was used up: each of its steps fails, or is the last that a process comes to."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reconciler.delivery.queue import frames, journal
from reconciler.delivery.queue.contract import Piece
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.files import System
from tests.delivery.queue import places
from tests.delivery.queue.places import OBITUARY, Wanted, claimed, fill, payloads
from tests.waiting import until

pytestmark = pytest.mark.anyio

NO_ROOM = 1 << 60  # a reserve with which whatever is used up is emptied soon
TEXTS = [letter * 40_000 for letter in (b"a", b"b", b"c")]
STEPS = ["open", "header", "cut", "remove"]
# What the next life of a process finds that was killed right before a step. The last two left within the 100 ms in
# which nothing had to be written down.
KILLED = {"open": TEXTS[1:], "header": TEXTS[1:], "cut": [], "remove": []}


class Stopping(System):
    """Does something before one step of emptying a file."""

    def __init__(self, step: str, act: Callable[[], None]) -> None:
        self.met = 0
        self.is_armed = False
        self._step = step
        self._act = act

    def _before(self, step: str, *, applies: bool = True) -> None:
        if self.is_armed and applies and step == self._step:
            self.met += 1
            self._act()

    def open(self, path: Path, *, make: bool = False) -> int:
        self._before("open", applies=path.suffix == frames.SUFFIX)
        return super().open(path, make=make)

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        self._before("header", applies=synced and offset == 0 and len(pieces) == 1)
        return super().write(descriptor, pieces, offset, synced=synced)

    def cut(self, descriptor: int, length: int) -> None:
        self._before("cut", applies=length == frames.SEGMENT_HEADER_BYTES)
        super().cut(descriptor, length)

    def remove(self, path: Path) -> None:
        self._before("remove", applies=path.suffix == frames.ACKNOWLEDGED)
        super().remove(path)


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


async def fill_and_close(root: Path) -> None:
    async with places.opened(root) as queue:
        await fill(queue, *TEXTS)


async def use_up(queue: DiskQueue, system: Stopping) -> None:
    """Deliver the first one, which is written down, and then the others, upon which the file is emptied."""
    first, *others = await claimed(queue)
    queue.delivered([first])
    await until(lambda: any(path.stat().st_size > 0 for path in queue.folder.glob("*.ack")))
    system.is_armed = True
    queue.delivered(others)
    await until(lambda: system.met > 0)


async def everything(root: Path) -> list[bytes | None]:
    """What the next life finds, and it is well."""
    async with places.opened(root) as queue:
        found = await payloads(queue)
        assert (queue.depth().batches, queue.depth().lost, queue.depth().quarantined) == (len(found), 0, 0)
        return found


@pytest.mark.parametrize("step", STEPS)
async def test_a_process_that_is_killed_before_a_step_sends_no_more_than_that_again(step: str, tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    await fill_and_close(root)

    def copy_once() -> None:
        if not copy.exists():
            shutil.copytree(root, copy)

    system = Stopping(step, copy_once)
    async with places.opened(root, system=system, reserve=NO_ROOM) as queue:
        await use_up(queue, system)
        await fill(queue, b"after")
    async with places.opened(copy) as queue:
        await fill(queue, b"after")
    assert (await everything(copy), await everything(root)) == ([*KILLED[step], b"after"], [b"after"])


@pytest.mark.parametrize(
    ("step", "is_own"), [*((step, False) for step in STEPS), *((step, True) for step in STEPS[1:])]
)
async def test_a_file_that_cannot_be_emptied_is_told_once_and_what_left_it_stays_away(
    step: str, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`is_own` is a file that this very process appended to; else one that was there before."""
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 0.01)
    root, copy = tmp_path / "root", tmp_path / "copy"
    if not is_own:
        await fill_and_close(root)
    system = Stopping(step, fail)
    async with places.opened(root, system=system, reserve=NO_ROOM) as queue:
        if is_own:
            await fill(queue, *TEXTS)
        [path] = queue.folder.glob("*.seg")
        await use_up(queue, system)
        await until(lambda: system.met > 2)  # it is tried again
        shutil.copytree(root, copy)
        assert queue._shared.committer.faults > 1
        assert caplog.messages == [f"The queue file {path} could not be emptied (Input/output error)."]
        await fill(queue, b"after")
        await until(lambda: not path.exists())
        [batch] = await claimed(queue)
        assert await queue.payload(batch) == b"after"
    assert (await everything(copy), await everything(root)) == ([], [b"after"])


@pytest.mark.parametrize("step", STEPS)
async def test_a_file_that_could_not_be_emptied_at_first_is_emptied_later(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 0.01)
    await fill_and_close(tmp_path)
    system = Stopping(step, fail)
    async with places.opened(tmp_path, system=system, reserve=NO_ROOM) as queue:
        [path] = queue.folder.glob("*.seg")
        await use_up(queue, system)
        system.is_armed = False
        await until(lambda: queue.depth().disk == frames.SEGMENT_HEADER_BYTES)
        assert [one.stat().st_size for one in queue.folder.glob("*.*[gk]")] == [frames.SEGMENT_HEADER_BYTES]
        await fill(queue, b"after", b"last")
        await until(lambda: not path.exists())
        queue.delivered((await claimed(queue))[:1])
    assert await everything(tmp_path) == [b"last"]


async def test_a_file_in_the_middle_that_a_process_was_killed_in_emptying_is_emptied_by_the_next_one(
    tmp_path: Path,
) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    wanted = Wanted().with_storage(max_bytes=1 << 20)  # segments of 64 KiB: two batches each

    def copy_once() -> None:
        if not copy.exists():
            shutil.copytree(root, copy)

    system = Stopping("cut", copy_once)
    async with places.opened(root, wanted, system=system) as queue:
        await fill(queue, *TEXTS, *TEXTS)
        batches = await claimed(queue)
        queue.delivered(batches[2:3])
        await until(lambda: [*queue.folder.glob("*.ack")] != [])
        system.is_armed = True
        queue.delivered(batches[3:4])
        await until(copy.exists)
        await until(lambda: [*queue.folder.glob("*.ack")] == [])
    async with places.opened(copy, wanted) as queue:
        files = {path.name: path.stat().st_size for path in queue.folder.glob("*.*[gk]")}
        assert (len(files), queue.depth().disk) == (4, sum(files.values()))
        await until(lambda: queue.depth().disk < sum(files.values()))
        left = sorted((path.name, path.stat().st_size) for path in queue.folder.glob("*.*[gk]"))
        assert left == [
            ("0000000000000001.seg", 80_144),
            ("0000000000000003.seg", 64),
            ("0000000000000005.seg", 80_144),
        ]
        assert (queue.depth().disk, queue.depth().lost) == (sum(size for _, size in left), 0)
        assert await payloads(queue) == [*TEXTS[:2], *TEXTS[1:]]


async def test_what_leaves_at_the_end_is_written_down_although_the_file_cannot_be_emptied(tmp_path: Path) -> None:
    await fill_and_close(tmp_path)
    system = Stopping("header", fail)
    system.is_armed = True
    async with places.opened(tmp_path, system=system, reserve=NO_ROOM) as queue:
        queue.delivered(await claimed(queue))
    assert (system.met > 0, await everything(tmp_path)) == (True, [])


class Slow(System):
    """Waits behind a cut, as a disk does that is busy."""

    def __init__(self) -> None:
        self.has_cut = threading.Event()
        self.goes_on = threading.Event()

    def cut(self, descriptor: int, length: int) -> None:
        super().cut(descriptor, length)
        self.has_cut.set()
        self.goes_on.wait(30)


async def test_whoever_reads_a_file_while_it_is_emptied_does_not_take_it_for_damaged(tmp_path: Path) -> None:
    system = Slow()
    async with places.opened(tmp_path, system=system, reserve=NO_ROOM) as queue:
        await fill(queue, *TEXTS)
        for batch, text in zip(await claimed(queue), TEXTS, strict=True):
            await queue.bury(batch, [text], OBITUARY, records=1, leaves=False)
        await queue.discard(queued=False, dead=True)
        await until(system.has_cut.is_set)
        try:
            assert [letter async for letter, _ in queue.dead_letters()] == []
        finally:
            system.goes_on.set()
        await until(lambda: queue.depth().disk < 200_000)
        assert (queue.depth().quarantined, queue.depth().lost) == (0, 0)
