"""A file that cannot be read when a queue is opened is never taken for one that was used up."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.delivery.queue import files
from reconciler.delivery.queue.contract import QueueFault
from tests.delivery.queue import places
from tests.delivery.queue.places import Wanted, claimed, fill, payloads
from tests.waiting import until

pytestmark = pytest.mark.anyio

WANTED = Wanted().with_storage(max_bytes=1 << 20)
NO_ROOM = 1 << 60  # a reserve with which whatever is used up is emptied soon
TEXTS = [bytes([65 + number]) * 40_000 for number in range(5)]  # two to a segment


async def filled(root: Path) -> list[Path]:
    """The segments of a queue that was closed."""
    async with places.opened(root, WANTED) as queue:
        await fill(queue, *TEXTS)
        return sorted(queue.folder.glob("*.seg"))


class Reads:
    """Reads of whole files, some of which fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.code = 0
        self.failing: set[Path] = set()
        self._gathered: Callable[..., files.WholeFile] = files.read_whole
        monkeypatch.setattr(files, "read_whole", self.gathered)

    def gathered(self, path: Path, *, limit: int) -> files.WholeFile:
        if path in self.failing:
            raise OSError(self.code, os.strerror(self.code))
        return self._gathered(path, limit=limit)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ESTALE])
@pytest.mark.parametrize("place", [-1, 0])
async def test_what_cannot_be_read_for_a_moment_keeps_the_queue_from_being_opened_and_all_is_there_later(
    code: int, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = await filled(tmp_path)
    if place == 0:  # only its content says how much is in it
        paths[1].write_bytes(b"x" + paths[1].read_bytes()[1:])
    reads = Reads(monkeypatch)
    reads.code, reads.failing = code, {paths[place]}
    with pytest.raises(QueueFault, match=os.strerror(code)):
        async with places.opened(tmp_path, WANTED, reserve=NO_ROOM):
            pass
    reads.failing = set()
    async with places.opened(tmp_path, WANTED, reserve=NO_ROOM) as queue:
        assert (await payloads(queue), queue.depth().lost) == (TEXTS, 0)


async def test_the_header_of_a_file_is_damaged_and_it_cannot_be_read_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = await filled(tmp_path)
    paths[-1].write_bytes(b"x" + paths[-1].read_bytes()[1:])
    reads = Reads(monkeypatch)
    reads.code, reads.failing = errno.EMFILE, {paths[-1]}
    with pytest.raises(QueueFault):
        async with places.opened(tmp_path, WANTED):
            pass
    reads.failing = set()
    async with places.opened(tmp_path, WANTED) as queue:
        assert await payloads(queue) == TEXTS


@pytest.mark.parametrize("place", [-1, 0])
async def test_what_the_disk_does_not_let_anybody_read_goes_to_quarantine_as_it_is(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = await filled(tmp_path)
    if place == 0:
        paths[1].write_bytes(b"x" + paths[1].read_bytes()[1:])
    data = paths[place].read_bytes()
    reads = Reads(monkeypatch)
    reads.code, reads.failing = errno.EIO, {paths[place]}
    async with places.opened(tmp_path, WANTED, reserve=NO_ROOM) as queue:
        assert await payloads(queue) == (TEXTS[:4] if place else TEXTS[2:])
        await fill(queue, b"after")
        assert queue.depth().quarantined == (1 if place else 2)
    assert (queue.folder / "quarantine" / paths[place].name).read_bytes() == data
    assert not paths[place].exists()


async def test_an_end_that_the_disk_does_not_give_is_not_cut_off_and_stays_in_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"first", b"x" * 20_000, b"last")
        [path] = queue.folder.glob("*.seg")
    data = path.read_bytes()
    pread = os.pread

    def refused(descriptor: int, size: int, offset: int) -> bytes:
        if offset + size > 4096 and os.fstat(descriptor).st_ino == path.stat().st_ino:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", refused)
    async with places.opened(tmp_path, reserve=NO_ROOM) as queue:
        assert (queue.depth().batches, queue.depth().quarantined) == (2, 1)  # the header of the second is there
        monkeypatch.undo()
        await fill(queue, b"after")
        batches = await claimed(queue)
        assert [await queue.payload(batch) for batch in batches] == [b"first", b"x" * 20_000, b"after"]
        queue.delivered(batches)
        await until(lambda: not path.exists())
    assert (queue.folder / "quarantine" / path.name).read_bytes() == data
