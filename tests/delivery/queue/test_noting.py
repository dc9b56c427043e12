"""Files of acknowledgements that the disk refuses: what left is written down all the same, as far as it can be."""

import errno
import os
from pathlib import Path

import pytest

from reconciler.delivery.queue import acknowledgements, journal
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.frames import NumberSet, Progress, Segment, SegmentTotals
from tests.delivery.queue import places
from tests.delivery.queue.places import Wanted, claimed, fill, payloads
from tests.waiting import until

pytestmark = pytest.mark.anyio

MARK = 7
WANTED = Wanted().with_storage(max_bytes=1 << 20)  # segments of 64 KiB: two batches each
TEXTS = [bytes([65 + number]) * 40_000 for number in range(6)]
FIRST, SECOND, THIRD = (f"{number:016x}.ack" for number in (1, 3, 5))


class Refusing(System):
    """Opens none of some files of acknowledgements, and removes no segment when it is told so."""

    def __init__(self, *refused: str) -> None:
        self.refused = {*refused}
        self.asked = 0
        self.is_once = False
        self.removes = True

    def open(self, path: Path, *, make: bool = False) -> int:
        if path.name in self.refused:
            self.asked += 1
            if self.is_once:
                self.refused.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().open(path, make=make)

    def remove(self, path: Path) -> None:
        if not self.removes and path.suffix == ".seg":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().remove(path)


async def test_a_file_that_cannot_be_written_keeps_no_other_from_it_is_told_once_and_written_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 0.01)
    system = Refusing(FIRST)
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        queue.delivered([batches[0], batches[2]])
        await until((queue.folder / SECOND).exists)
        await until(lambda: system.asked > 2)  # it is tried again
        path = (queue.folder / FIRST).with_suffix(".seg")
        assert caplog.messages == [
            f"What left the queue file {path} could not be written down (Input/output error); until it is, a crash "
            "sends it again."
        ]
        assert queue._shared.committer.faults > 1
        system.refused.clear()
        await until((queue.folder / FIRST).exists)
        system.refused.add(FIRST)
        queue.delivered([batches[4]])
    async with places.opened(tmp_path, WANTED) as queue:
        assert (await payloads(queue), queue.depth().lost) == ([TEXTS[1], TEXTS[3], TEXTS[5]], 0)


async def test_at_the_end_all_but_what_cannot_be_written_is(tmp_path: Path) -> None:
    async with places.opened(tmp_path, WANTED, system=Refusing(FIRST)) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        queue.delivered([batches[0], batches[2], batches[4]])
    async with places.opened(tmp_path, WANTED) as queue:
        assert await payloads(queue) == [TEXTS[0], TEXTS[1], TEXTS[3], TEXTS[5]]


async def test_what_could_not_be_written_at_the_end_is_tried_once_more_although_another_write_went_well(
    tmp_path: Path,
) -> None:
    system = Refusing(THIRD)
    system.is_once = True
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        system.removes = False  # so that what left the first file is written down behind that
        queue.delivered([batches[0], batches[1], batches[4]])
    assert system.asked == 1
    async with places.opened(tmp_path, WANTED) as queue:
        assert await payloads(queue) == [TEXTS[2], TEXTS[3], TEXTS[5]]


async def test_what_the_disk_refuses_keeps_no_other_acknowledgement_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "AGAIN_SECONDS", 3600.0)
    system = Refusing(SECOND)
    system.removes = False
    async with places.opened(tmp_path, WANTED, system=system) as queue:
        await fill(queue, *TEXTS)
        batches = await claimed(queue)
        queue.delivered(batches[:3])
        await until(lambda: system.asked > 0 and queue._journal._used_up.is_staying)
        queue.delivered(batches[4:5])
        await until((queue.folder / THIRD).exists)


def tried(folder: Path, number: int) -> Segment:
    """A segment of which one batch left and another was tried, none of which is written down."""
    segment = Segment(
        folder / f"{number:016x}.seg", number, SegmentTotals(), done=NumberSet(number), gone=SegmentTotals(1, 1, 1)
    )
    segment.done.add(number)
    segment.progress[number + 1] = Progress(1, 0, b"")
    segment.unwritten, segment.unsaved = [acknowledgements.done(number, segment.gone, mark=MARK)], {number + 1}
    return segment


def test_a_file_that_could_not_be_written_anew_lacks_what_it_lacked_before(tmp_path: Path) -> None:
    segment = tried(tmp_path, 1)
    unwritten, segment.acknowledged = [*segment.unwritten], acknowledgements.REWRITE_BYTES
    write = acknowledgements.pending_acknowledgement(segment, mark=MARK)
    assert write is not None
    assert (write.is_anew, segment.unwritten, segment.unsaved) == (True, [], set())
    segment.unwritten.append(b"later")
    acknowledgements.take_back_acknowledgement(write)
    assert (segment.unwritten, segment.unsaved, segment.acknowledged) == ([*unwritten, b"later"], {2}, 1 << 20)


def test_one_write_that_fails_keeps_no_other_from_being_made(tmp_path: Path) -> None:
    writes = [acknowledgements.pending_acknowledgement(tried(tmp_path, number), mark=MARK) for number in (1, 3, 5)]
    made = [write for write in writes if write is not None]
    written: set[Segment] = set()
    with pytest.raises(OSError, match="Input/output error"):
        acknowledgements.put_all(Refusing(FIRST), made, written)
    assert (len(made), written) == (3, {write.segment for write in made[1:]})
    for write in made[1:]:
        assert write.segment.acknowledgements.read_bytes() == write.data
