"""A queue on disk with every kind of damage: it starts, serves readable batches, and counts the rest."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.delivery.queue import segments
from reconciler.model.routes import Sync
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill

pytestmark = pytest.mark.anyio

SIZE = 20_000
LENGTH = segments.FRAME_HEADER_BYTES + SIZE
WANTED = Wanted().with_storage(max_bytes=1 << 20)  # segments of 64 KiB: four batches each
BATCHES = 10


def text(number: int) -> bytes:
    return b"%05d" % number * (SIZE // 5)


async def a_queue(root: Path) -> Path:
    """Ten batches in three segments, closed; its folder."""
    async with places.opened(root, WANTED) as queue:
        for number in range(1, BATCHES + 1):
            await fill(queue, text(number))
        return queue.folder


def files(folder: Path, suffix: str = ".seg") -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


class Left(NamedTuple):
    """The state after damage: numbers of batches, the count of lost ones, files in quarantine."""

    numbers: list[int]
    lost: int
    quarantined: int


async def left(root: Path) -> Left:
    """Everything that can be read, which then is delivered; the next one that opens it agrees, and takes more."""
    async with places.opened(root, WANTED) as queue:
        numbers: list[int] = []
        while found := await claimed(queue):
            for batch in found:
                payload = await queue.payload(batch)
                if payload is not None:
                    assert payload == text(batch.number)
                    numbers.append(batch.number)
            queue.delivered(found)
        depth = queue.depth()
        assert (depth.batches, depth.records, depth.size) == (0, 0, 0)
        await fill(queue, b"after")
        [after] = await claimed(queue)
        assert (after.number > max([0, *numbers]), await queue.payload(after)) == (True, b"after")
        seen = Left(numbers, queue.depth().lost, depth.quarantined)
    async with places.opened(root, WANTED) as again:
        assert await places.payloads(again) == [b"after"]
        assert again.depth().quarantined == seen.quarantined
    return seen


def flip(path: Path, offset: int, *, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def grow(path: Path, added: bytes) -> None:
    path.write_bytes(path.read_bytes() + added)


def version(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:8] + b"\x09\x00" + data[10:])


HEADER = segments.SEGMENT_HEADER_BYTES
ALL = list(range(1, BATCHES + 1))


def without(*numbers: int) -> list[int]:
    return [number for number in ALL if number not in numbers]


def garbage_in(path: Path) -> None:
    path.write_bytes(b"\xa5" * 70_000)


def in_its_place(path: Path, make: Callable[[Path], None]) -> None:
    path.rename(path.with_suffix(".was"))
    make(path)


def link(path: Path) -> None:
    path.symlink_to(path.with_suffix(".was"))


# Segment 0 has the batches 1 to 4, segment 1 has 5 to 8, segment 2, the last, 9 and 10.
DAMAGE: dict[str, tuple[int, Callable[[Path], None], Left]] = {
    "nothing": (0, lambda _: None, Left(ALL, 0, 0)),
    "a bit of a payload": (0, lambda path: flip(path, HEADER + LENGTH + 60), Left(without(2), 1, 1)),
    "a bit of a payload at the end": (2, lambda path: flip(path, HEADER + LENGTH + 60), Left(without(10), 1, 1)),
    "a bit of a length": (1, lambda path: flip(path, HEADER + LENGTH + 8), Left(without(6), 1, 1)),
    "a bit of a number": (1, lambda path: flip(path, HEADER + 16), Left(without(5), 1, 1)),
    "a bit of the last frame of a segment": (1, lambda path: flip(path, HEADER + 3 * LENGTH), Left(without(8), 1, 1)),
    "a bit of the version of a frame": (0, lambda path: flip(path, HEADER + 4), Left(without(1), 1, 1)),
    "a bit of the last segment's frame": (2, lambda path: flip(path, HEADER + 20), Left(without(9), 1, 1)),
    "a bit of a header's totals": (1, lambda path: flip(path, 30), Left(ALL, 0, 1)),
    "a bit of the first header's magic": (0, lambda path: flip(path, 1), Left(ALL, 0, 1)),
    "a bit of the last header's mark": (2, lambda path: flip(path, 13), Left(ALL, 0, 1)),
    "an unknown version": (1, version, Left(without(5, 6, 7, 8), 4, 1)),
    "an unknown version of the last": (2, version, Left(without(9, 10), 0, 1)),
    "garbage": (1, garbage_in, Left(without(5, 6, 7, 8), 4, 1)),
    "garbage in the first": (0, garbage_in, Left(without(1, 2, 3, 4), 0, 1)),
    "garbage in the last": (2, garbage_in, Left(without(9, 10), 0, 1)),
    "a zero-length file": (1, lambda path: cut(path, 0), Left(without(5, 6, 7, 8), 4, 0)),
    "a zero-length last file": (2, lambda path: cut(path, 0), Left(without(9, 10), 0, 0)),
    "a missing file in the middle": (1, Path.unlink, Left(without(5, 6, 7, 8), 4, 0)),
    "a missing first file": (0, Path.unlink, Left(without(1, 2, 3, 4), 0, 0)),
    "a file that was cut in the middle": (0, lambda path: cut(path, HEADER + LENGTH + 7), Left(without(2, 3, 4), 3, 0)),
    "a torn header at the end": (2, lambda path: cut(path, HEADER + LENGTH + 7), Left(without(10), 0, 0)),
    "a torn payload at the end": (2, lambda path: cut(path, HEADER + 2 * LENGTH - 1), Left(without(10), 0, 0)),
    "zeros at the end": (2, lambda path: grow(path, bytes(5000)), Left(ALL, 0, 0)),
    "a hole of a terabyte at the end": (2, lambda path: os.truncate(path, 1 << 40), Left(ALL, 0, 1)),
    "a hole of a terabyte in the middle": (1, lambda path: os.truncate(path, 1 << 40), Left(ALL, 0, 1)),
    "a pipe": (1, lambda path: in_its_place(path, os.mkfifo), Left(without(5, 6, 7, 8), 4, 1)),
    "a folder": (2, lambda path: in_its_place(path, os.mkdir), Left(without(9, 10), 0, 1)),
    "a link to itself, as it was": (0, lambda path: in_its_place(path, link), Left(without(1, 2, 3, 4), 0, 1)),
    "garbage at the end": (2, lambda path: grow(path, b"\x5a" * 5000), Left(ALL, 0, 1)),
}


@pytest.mark.parametrize("name", DAMAGE)
async def test_what_is_readable_is_served_and_the_rest_is_counted(name: str, tmp_path: Path) -> None:
    place, damage, expected = DAMAGE[name]
    folder = await a_queue(tmp_path)
    damage(files(folder)[place])
    assert await left(tmp_path) == expected


async def test_a_damaged_file_is_kept_whole_in_quarantine(tmp_path: Path) -> None:
    folder = await a_queue(tmp_path)
    damaged = files(folder)[1]
    flip(damaged, HEADER + LENGTH + 8)
    data = damaged.read_bytes()
    await left(tmp_path)
    assert {path.name: path.read_bytes() for path in (folder / "quarantine").iterdir()} == {damaged.name: data}


async def test_acknowledgements_are_kept_and_their_damage_only_sends_again(tmp_path: Path) -> None:
    async with places.opened(tmp_path, WANTED) as queue:
        for number in range(1, 5):
            await fill(queue, text(number))
        batches = await claimed(queue)
        queue.delivered(batches[:1])
        queue.delivered(batches[3:])
        folder = queue.folder
    [acknowledged] = files(folder, ".ack")
    data = acknowledged.read_bytes()

    async def seen() -> list[int]:
        async with places.opened(tmp_path, WANTED) as again:
            depth = again.depth()
            found = await claimed(again)
            assert (depth.batches, depth.size) == (len(found), sum(batch.size for batch in found))
            return [batch.number for batch in found]

    every = [1, 2, 3, 4]
    assert await seen() == [2, 3]
    for length in range(len(data)):
        acknowledged.write_bytes(data[:length])
        assert await seen() == every, length
    acknowledged.unlink()
    assert await seen() == every
    acknowledged.write_bytes(b"\xff" * 500)
    assert await seen() == every


async def test_bits_flipped_anywhere_never_keep_a_queue_from_serving_the_rest(tmp_path: Path) -> None:
    folder = await a_queue(tmp_path / "whole")
    kept = {path.name: path.read_bytes() for path in files(folder)}
    step = 997  # with the bytes of headers by themselves
    for name, data in kept.items():
        frame_headers = [HEADER + LENGTH * place for place in range((len(data) - HEADER) // LENGTH)]
        offsets = [*range(0, HEADER, 7), *(at + more for at in frame_headers for more in range(0, 40, 9))]
        for offset in [*offsets, *range(HEADER + 40, len(data), step * 29)]:
            for path in [*files(folder), *files(folder, ".ack")]:
                path.unlink()
            for path in (folder / "quarantine").glob("*"):
                path.unlink()
            for other, content in kept.items():
                (folder / other).write_bytes(content)
            flip(folder / name, offset)
            async with places.opened(tmp_path / "whole", WANTED) as queue:
                payloads = await places.payloads(queue)
            good = [payload for payload in payloads if payload is not None]
            assert len(good) >= BATCHES - 1, (name, offset)
            assert good == sorted(good)
            assert set(good) <= {text(number) for number in ALL}


async def test_dead_letters_survive_damage_too(tmp_path: Path) -> None:
    async with places.opened(tmp_path, WANTED) as queue:
        for number in range(1, 4):
            await fill(queue, text(number))
        for batch in await claimed(queue):
            await queue.bury(batch, [text(batch.number)], FINAL_FAILURE, records=1)
        folder = queue.folder
    [path] = files(folder / "dead")
    at = path.read_bytes().find(text(2))
    flip(path, at + 5)
    async with places.opened(tmp_path, WANTED) as queue:
        assert await queue.replay(outages_only=True) == (0, 0)
        depth = queue.depth()
        assert (queue.depth().lost, depth.dead_batches, depth.quarantined, depth.dead_oldest) == (1, 2, 1, NOW)
        assert await queue.replay(outages_only=False) == (2, 2)
        assert await places.payloads(queue) == [text(1), text(3)]
    assert [one.name for one in (folder / "quarantine").iterdir()] == [f"dead-{path.name}"]


async def test_a_record_that_looks_like_a_frame_is_never_taken_for_one(tmp_path: Path) -> None:
    """A sender of logs may know the format, but not the mark."""
    forged = segments.Frame(2, 1, 6, NOW, segments.checksum([b"forged"]))
    inside = segments.encode_frame(forged, mark=0) + b"forged"
    async with places.opened(tmp_path, WANTED) as queue:
        await fill(queue, b"x" * 10 + inside, b"next")
        folder = queue.folder
    flip(files(folder)[0], HEADER + 8)
    async with places.opened(tmp_path, WANTED) as queue:
        assert await places.payloads(queue) == [b"next"]


async def test_a_crash_in_the_very_first_append_harms_nothing_that_comes_after(tmp_path: Path) -> None:
    async with places.opened(tmp_path, WANTED) as queue:
        await fill(queue, text(1))
        folder = queue.folder
    [path] = files(folder)
    cut(path, HEADER + LENGTH // 2)
    async with places.opened(tmp_path, WANTED) as queue:
        await fill(queue, b"kept")
    assert files(folder)[-1] != path  # it does not take the name of the other
    async with places.opened(tmp_path, WANTED) as queue:
        assert await places.payloads(queue) == [b"kept"]


async def test_damage_to_what_left_takes_nothing_of_what_did_not(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:  # all in one segment
        for number in range(1, BATCHES + 1):
            await fill(queue, text(number))
        queue.delivered(queue.claim(most_records=5, most_bytes=1 << 30))
        folder = queue.folder
    for number in (2, 3, 4):
        flip(files(folder)[0], HEADER + (number - 1) * LENGTH + 8)
    async with places.opened(tmp_path) as queue:
        assert queue.depth().batches == 5
        await fill(queue, b"after")  # another segment: the first goes when all of it left
        found: list[bytes | None] = []
        for _ in range(6):
            async with asyncio.timeout(5):
                await queue.wait()
            batches = queue.claim(most_records=1, most_bytes=1 << 30)
            found.append(await queue.payload(batches[0]))
            queue.delivered(batches)
            await asyncio.sleep(0.12)  # files of which all left are removed
        assert found == [*map(text, range(6, BATCHES + 1)), b"after"]
        assert queue.depth().batches == 0


async def test_a_segment_that_is_long_for_its_last_batch_is_searched_to_its_end(tmp_path: Path) -> None:
    sizes = (15 << 20, 30 << 20)  # the second one begins before the end of a segment, and ends far behind it
    async with places.opened(tmp_path, Wanted().with_storage(sync=Sync.NONE)) as queue:
        for size in sizes:
            await fill(queue, bytes(size))
        [path] = files(queue.folder)
    assert path.stat().st_size > 2 * segments.ROLL_BYTES
    flip(path, HEADER + 8)
    async with places.opened(tmp_path) as queue:
        [batch] = await claimed(queue)
        assert (batch.number, batch.size, queue.depth().lost) == (2, sizes[1], 1)


async def three_with_two_left(root: Path) -> Path:
    """The acknowledgements of a queue that had three batches, of which the second one left."""
    async with places.opened(root, WANTED) as queue:
        for number in (1, 2, 3):
            await fill(queue, text(number))
        queue.delivered((await claimed(queue))[1:2])
        folder = queue.folder
    [path] = files(folder, ".ack")
    return path


async def test_acknowledgements_that_are_longer_than_any_are_read_as_far_as_they_can_be(tmp_path: Path) -> None:
    os.truncate(await three_with_two_left(tmp_path), 1 << 40)
    async with places.opened(tmp_path, WANTED) as queue:
        assert [batch.number for batch in await claimed(queue)] == [1, 3]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, link])
async def test_acknowledgements_that_are_no_file_go_out_of_the_way(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = await three_with_two_left(tmp_path)
    in_its_place(path, make)
    kept = path.with_suffix(".was").read_bytes()
    async with places.opened(tmp_path, WANTED) as queue:
        batches = await claimed(queue)
        assert [batch.number for batch in batches] == [1, 2, 3]
        queue.delivered(batches[:1])
    assert (path.parent / "quarantine" / path.name).lstat()
    assert path.with_suffix(".was").read_bytes() == kept
    async with places.opened(tmp_path, WANTED) as queue:
        assert [batch.number for batch in await claimed(queue)] == [2, 3]


async def test_a_segment_of_dead_letters_or_of_another_queue_is_moved_away_whole(tmp_path: Path) -> None:
    async with places.opened(tmp_path, Wanted(name="other")) as other:
        await fill(other, b"of the other", b"too")
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"sick", b"too", b"fine")
        for batch in (await claimed(queue))[:2]:
            await queue.bury(batch, [b"sick"], FINAL_FAILURE, records=1)
    dead = queue.folder / "dead"
    second, later = segments.segment_name(2), segments.segment_name(0x100)  # from 2 on the frames would count
    shutil.copy(files(dead)[0], queue.folder / second)
    shutil.copy(files(other.folder)[0], queue.folder / later)
    shutil.copy(files(queue.folder)[0], dead / second)
    async with places.opened(tmp_path) as queue:
        assert await places.payloads(queue) == [b"fine"]
        assert [letter.data for letter in await places.letters(queue)] == [b"sick", b"sick"]
        depth = queue.depth()
        assert (depth.batches, depth.dead_batches, depth.lost, depth.quarantined) == (1, 2, 0, 3)
    assert [path.name for path in (*files(queue.folder), *files(dead))] == [segments.segment_name(1)] * 2
    assert sorted(path.name for path in (queue.folder / "quarantine").iterdir()) == [second, later, f"dead-{second}"]


async def next_number(root: Path) -> int:
    async with places.opened(root, WANTED) as queue:
        await fill(queue, b"next")
        return (await claimed(queue))[-1].number


async def test_no_number_is_used_again_whose_frame_is_gone_and_that_was_acknowledged(tmp_path: Path) -> None:
    async with places.opened(tmp_path, WANTED) as queue:
        for number in (1, 2, 3):
            await fill(queue, text(number))
        queue.delivered((await claimed(queue))[2:])
        folder = queue.folder
    [path] = files(folder)
    cut(path, HEADER + LENGTH)
    assert await next_number(tmp_path) == 4


@pytest.mark.parametrize("damage", [garbage_in, version])
async def test_no_number_is_used_again_that_a_file_had_which_was_moved_away(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    damage(files(await a_queue(tmp_path))[-1])
    assert BATCHES < await next_number(tmp_path) < 10_000


async def test_a_file_that_was_moved_away_uses_no_more_numbers_than_any_could_have(tmp_path: Path) -> None:
    path = files(await a_queue(tmp_path))[-1]
    garbage_in(path)
    os.truncate(path, 1 << 40)
    assert await next_number(tmp_path) < segments.LONGEST_BYTES
