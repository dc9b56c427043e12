"""`sync: interval`: what was accepted is synchronised soon, whatever else happens to its file, or doubted aloud."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.delivery.queue.contract import Piece, QueueFault, Shortage
from reconciler.delivery.queue.disk import DiskQueue
from reconciler.delivery.queue.files import System
from tests.delivery.queue import places
from tests.delivery.queue.places import Wanted, fill, payloads
from tests.delivery.queue.test_faults import DOUBTFUL
from tests.waiting import until

pytestmark = pytest.mark.anyio

WANTED = Wanted().with_storage(sync="interval", max_bytes=1 << 20)  # segments of 64 KiB
FIRST, SECOND = "0000000000000001.seg", "0000000000000002.seg"


class Telling(System):
    """Tells what was done to segments, and fails as it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.write_error = 0
        self._names: dict[int, str] = {}

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        if path.suffix == ".seg":
            self._names[descriptor] = path.name
        return descriptor

    def write(self, descriptor: int, pieces: Sequence[Piece], offset: int, *, synced: bool) -> int:
        if descriptor in self._names:
            if self.write_error:
                raise OSError(self.write_error, os.strerror(self.write_error))
            self.calls.append(("synced" if synced else "written", self._names[descriptor]))
        return super().write(descriptor, pieces, offset, synced=synced)

    def synchronise(self, descriptor: int) -> None:
        if descriptor in self._names:
            self.calls.append(("synced", self._names[descriptor]))
        super().synchronise(descriptor)

    def close(self, descriptor: int) -> None:
        if descriptor in self._names:
            self.calls.append(("closed", self._names.pop(descriptor)))
        super().close(descriptor)


def make_due(queue: DiskQueue) -> None:
    """What the timer does, in the turn in which the next append comes."""
    queue._journal.appender.stop()
    queue._journal.appender._sync_due()


async def refuse(queue: DiskQueue, system: Telling, code: int) -> None:
    """From now on no write goes well; the first one is of a batch."""
    system.write_error = code
    with pytest.raises(QueueFault):
        await fill(queue, b"refused")


async def test_a_file_that_ends_when_a_sync_is_due_is_synchronised(tmp_path: Path) -> None:
    system = Telling()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, bytes(70_000))
        make_due(queue)
        await fill(queue, b"next")
        await until(lambda: ("closed", FIRST) in system.calls)
        assert system.calls == [("written", FIRST), ("written", SECOND), ("synced", FIRST), ("closed", FIRST)]
        await until(lambda: system.calls[-1] == ("synced", SECOND))


async def test_a_file_whose_successor_cannot_be_made_is_synchronised_all_the_same(tmp_path: Path) -> None:
    system = Telling()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, bytes(70_000))
        make_due(queue)
        await refuse(queue, system, errno.ENOSPC)
        await until(lambda: system.calls[-1] == ("synced", FIRST))
        assert [call for call in system.calls if call[1] == FIRST] == [("written", FIRST), ("synced", FIRST)]


async def test_what_was_accepted_before_a_write_that_failed_is_doubted_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system = Telling()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, b"accepted")
        await refuse(queue, system, errno.EIO)
        assert caplog.messages[1:] == [DOUBTFUL.format(queue.folder)]
        system.write_error = 0
        await fill(queue, b"after")
        await until(lambda: system.calls[-1] == ("synced", "0000000000000003.seg"))
        assert await payloads(queue) == [b"accepted", b"after"]
    assert caplog.messages[1:] == [
        DOUBTFUL.format(queue.folder),
        f"The disk takes what is written to the queue in {queue.folder} again.",
    ]


async def test_a_sync_that_goes_well_does_not_say_that_a_full_disk_takes_something_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    system = Telling()
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, b"accepted")
        await refuse(queue, system, errno.ENOSPC)
        make_due(queue)
        await until(lambda: system.calls[-1] == ("synced", FIRST))
        assert (queue.depth().refused, queue.room(size=1), len(caplog.messages)) == (True, Shortage.DISK, 1)
        system.write_error = 0
        await fill(queue, b"after")
        assert (queue.depth().refused, len(caplog.messages)) == (False, 2)
