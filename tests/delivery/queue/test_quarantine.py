"""Quarantined batches are never overwritten, and their numbers are never used again."""

import errno
import os
from pathlib import Path

import pytest

from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, claimed, fill

pytestmark = pytest.mark.anyio

FIRST = "0000000000000001.seg"


def spoil(path: Path, filling: bytes) -> bytes:
    """Leave nothing readable of a file; what is in it then."""
    path.write_bytes(filling * path.stat().st_size)
    return path.read_bytes()


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "quarantine").glob("*.seg")}


async def test_numbers_of_a_file_that_was_moved_away_are_not_given_out_however_many_starts_come_before_the_next_append(
    tmp_path: Path,
) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one", b"two", b"sick")
        await queue.bury((await claimed(queue))[2], [b"sick"], FINAL_FAILURE, records=1)
        folder = queue.folder
    filled = [spoil(path, b"?") for path in (folder / FIRST, folder / "dead" / FIRST)]
    for _ in range(3):
        async with places.opened(tmp_path) as queue:
            depth = queue.depth()
            assert (depth.batches, depth.quarantined) == (0, 2)
            assert depth.damaged == (folder / "quarantine" / FIRST, folder / "quarantine" / f"dead-{FIRST}")
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"new")
        [batch] = await claimed(queue)
        await queue.bury(batch, [b"new"], FINAL_FAILURE, records=1)
        numbers = [int(path.stem, 16) for path in (folder / "dead").glob("*.seg")]
        assert (batch.number > 3, max(numbers) > 1) == (True, True)
    assert kept(folder) == {FIRST: filled[0], f"dead-{FIRST}": filled[1]}


def refuse_to_link(_: Path, place: Path) -> None:
    code = errno.EEXIST if place.exists() else errno.EPERM
    raise OSError(code, os.strerror(code))


async def test_on_a_file_system_without_links_a_damaged_file_is_served_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse_to_link)
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one" * 100, b"two")
        folder = queue.folder
    data = bytearray((folder / FIRST).read_bytes())
    data[70] ^= 1
    (folder / FIRST).write_bytes(data)
    async with places.opened(tmp_path) as queue:
        depth = queue.depth()
        assert (depth.batches, depth.lost, depth.quarantined, kept(folder)) == (1, 1, 1, {})


async def test_another_file_of_the_same_name_is_put_beside_what_is_there(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one" * 100, b"two")
        folder = queue.folder
    damaged = folder / FIRST
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    for _ in range(2):
        async with places.opened(tmp_path) as queue:
            assert queue.depth().quarantined == 1
    assert kept(folder) == {FIRST: bytes(data)}
    damaged.unlink()
    other = b"!" * 500
    damaged.write_bytes(other)  # as somebody may who put a file back
    async with places.opened(tmp_path) as queue:
        assert queue.depth().quarantined == 2
    assert (kept(folder), damaged.exists()) == ({FIRST: bytes(data), "0000000000000001-2.seg": other}, False)


async def test_a_file_that_has_its_name_in_quarantine_already_is_there_once(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"one")
        folder = queue.folder
    (folder / "quarantine").mkdir()
    os.link(folder / FIRST, folder / "quarantine" / FIRST)
    filled = spoil(folder / FIRST, b"?")
    async with places.opened(tmp_path) as queue:
        assert queue.depth().quarantined == 1
    assert (kept(folder), [*folder.glob("*.seg")]) == ({FIRST: filled}, [])
