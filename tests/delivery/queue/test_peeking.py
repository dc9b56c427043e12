"""Looking at the files of a queue: beside the service, after a crash, and without changing anything."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.delivery.queue import folders
from reconciler.delivery.queue.folders import Peeked, PeekedState
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill

pytestmark = pytest.mark.anyio


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def peek(root: Path) -> list[Peeked]:
    before = contents(root)
    [queue] = folders.peek_queues(root)
    seen = [*folders.peek(queue)]
    assert contents(root) == before
    return seen


async def test_each_batch_is_seen_with_its_state_beside_the_service_and_after_it(tmp_path: Path) -> None:
    wanted = Wanted().with_storage(max_bytes=1 << 20)
    async with places.opened(tmp_path, wanted) as queue:
        await fill(queue, b"a" * 70_000, b"tried", b"gone", b"sick", records=2)
        _, _, gone, sick = await claimed(queue)
        queue.delivered([gone])
        await queue.bury(sick, [b"si"], FINAL_FAILURE, records=1)
        assert [one.number for one in peek(tmp_path)] == [1, 2, 3, 4, 1]
    assert peek(tmp_path) == [
        Peeked(PeekedState.QUEUED, 1, 2, NOW, b"a" * 70_000),
        Peeked(PeekedState.QUEUED, 2, 2, NOW, b"tried"),
        Peeked(PeekedState.ACKNOWLEDGED, 3, 2, NOW, b"gone"),
        Peeked(PeekedState.ACKNOWLEDGED, 4, 2, NOW, b"sick"),
        Peeked(PeekedState.DEAD, 1, 1, NOW, b"si", FINAL_FAILURE),
    ]


async def test_damage_is_passed_over_and_a_torn_end_is_the_end(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"first", b"second", b"third", b"fourth")
        folder = queue.folder
    [path] = folder.glob("*.seg")
    data = bytearray(path.read_bytes())
    data[data.index(b"second") - 30] ^= 1
    data[data.index(b"third")] ^= 1
    path.write_bytes(data[:-1])
    (folder / "000000000000ffff.seg").write_bytes(b"")
    (folder / "notes.seg").write_bytes(b"RqSegmnt")
    assert [(one.number, one.payload) for one in peek(tmp_path)] == [(1, b"first"), (3, None)]
    [queue_file] = folder.glob("queue.json")
    queue_file.write_text("{}")
    assert folders.peek_queues(tmp_path) == []


@pytest.mark.parametrize("suffix", [".ack", ".seg"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
async def test_what_is_no_file_is_not_read(suffix: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one", b"two")
        queue.delivered((await claimed(queue))[:1])
    [segment] = queue.folder.glob("*.seg")
    path = segment.with_suffix(suffix)
    path.unlink()
    make(path)
    [found] = folders.peek_queues(tmp_path)
    seen = [(one.state, one.number) for one in folders.peek(found)]
    assert seen == ([(PeekedState.QUEUED, 1), (PeekedState.QUEUED, 2)] if suffix == ".ack" else [])


async def test_a_file_of_a_terabyte_is_read_as_far_as_any_could_be_long(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one", b"two")
        queue.delivered((await claimed(queue))[:1])
    shutil.copytree(queue.folder, queue.folder.with_name(".unfinished.new"))
    for path in [*queue.folder.glob("*.seg"), *queue.folder.glob("*.ack")]:
        os.truncate(path, 1 << 40)
    [found] = folders.peek_queues(tmp_path)
    assert [(one.state, one.number) for one in folders.peek(found)] == [
        (PeekedState.ACKNOWLEDGED, 1),
        (PeekedState.QUEUED, 2),
    ]
