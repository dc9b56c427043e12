"""A reader that is written from docs/queue-format.md alone, held against what the service writes."""

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted, claimed, fill

pytestmark = pytest.mark.anyio


class Frame(NamedTuple):
    flags: int
    records: int
    number: int
    at: int
    payload: bytes


def number(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


def read_segment(data: bytes, mark: int) -> tuple[dict[str, int], list[Frame]]:
    assert data[:8] == b"RqSegmnt"
    names = {"version": 8, "kind": 10, "flags": 11, "mark": 12, "first": 16, "batches": 24, "records": 32, "bytes": 40}
    sizes = {"version": 2, "kind": 1, "flags": 1, "mark": 4}
    header = {name: number(data, offset, sizes.get(name, 8)) for name, offset in names.items()}
    header["begun"] = number(data, 48, 8)
    assert (number(data, 56, 4), number(data, 60, 4), header["mark"]) == (0, zlib.crc32(data[:60]), mark)
    at, frames = 64, []
    while at < len(data):
        head = data[at : at + 40]
        assert (head[:4], head[4], head[6:8]) == (bytes.fromhex("f1527146"), 1, b"\0\0")
        assert number(head, 36, 4) == zlib.crc32(head[:36], mark)
        payload = data[at + 40 : at + 40 + number(head, 8, 4)]
        assert number(head, 32, 4) == zlib.crc32(payload)
        frames.append(Frame(head[5], number(head, 12, 4), number(head, 16, 8), number(head, 24, 8), payload))
        at += 40 + len(payload)
    return header, frames


def read_acknowledgements(data: bytes, mark: int) -> list[tuple[int, bytes]]:
    assert data[:8] == b"RqAcks\x01\x00"
    at, records = 8, []
    while at < len(data):
        checksum, length, kind = struct.unpack_from("<IIB", data, at)
        assert checksum == zlib.crc32(data[at + 4 : at + 9 + length], mark)
        records.append((kind, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return records


def read(folder: Path) -> tuple[dict[str, Any], list[tuple[dict[str, int], list[Frame]]]]:
    described = json.loads((folder / "queue.json").read_text())
    paths = sorted(folder.glob("*.seg"))
    found = [read_segment(path.read_bytes(), described["mark"]) for path in paths]
    for path, (header, _) in zip(paths, found, strict=True):
        assert path.name == f"{header['first']:016x}.seg"
    return described, found


async def test_every_byte_is_as_the_page_says(tmp_path: Path) -> None:
    wanted = Wanted().with_storage(max_bytes=1 << 20)
    async with places.opened(tmp_path, wanted) as queue:
        folder = queue.folder
        for text in (b"a" * 50_000, b"b" * 50_000, b"c"):
            await fill(queue, text, records=3)
        await fill(queue, b"d", b"e", b"f")
    described, segments = read(folder)
    mark = described.pop("mark")
    assert described == {"version": 1, "project": "shop", "destination": "siem", "created": NOW}
    (one, frames), (two, more) = segments
    common = {"version": 1, "kind": 1, "flags": 0, "mark": mark, "begun": NOW}
    assert one == {**common, "first": 1, "batches": 0, "records": 0, "bytes": 0}
    assert two == {**common, "first": 3, "batches": 2, "records": 6, "bytes": 100_000}
    assert frames == [Frame(0, 3, 1, NOW, b"a" * 50_000), Frame(0, 3, 2, NOW, b"b" * 50_000)]
    assert more == [
        Frame(0, 3, 3, NOW, b"c"),
        *(Frame(0, 1, place, NOW, text) for place, text in ((4, b"d"), (5, b"e"), (6, b"f"))),
    ]


async def test_acknowledgements_are_as_the_page_says(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        folder = queue.folder
        await fill(queue, b"one", b"two", b"three", b"four", b"five", b"six", records=10)
        batches = queue.claim(most_records=30, most_bytes=1000)
        queue.delivered(batches[1:2])
        queue.give_back(batches[:1])
        assert await queue.discard(queued=True, dead=False) == (4, 40)
    mark = json.loads((folder / "queue.json").read_text())["mark"]
    [path] = folder.glob("*.ack")
    assert path.name == "0000000000000001.ack"
    assert read_acknowledgements(path.read_bytes(), mark) == [
        (3, struct.pack("<QQQQ", 1, 5, 50, 17) + b"\x3b"),
    ]


async def test_what_left_together_is_as_the_page_says(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"a" * 20_000, b"b" * 20_000, b"c" * 20_000, b"d" * 20_000, records=10)
        folder = queue.folder
    async with places.opened(tmp_path) as queue:
        await queue.wait()
        assert len(queue.claim(most_records=10, most_bytes=1)) == 1  # of the others, two may not be in memory yet
        assert await queue.discard(queued=True, dead=False) == (3, 30)
    mark = json.loads((folder / "queue.json").read_text())["mark"]
    [path] = folder.glob("*.ack")
    left = (3, struct.pack("<QQQQ", 1, 3, 30, 60_000) + b"\x0e")
    assert read_acknowledgements(path.read_bytes(), mark) == [left]
    async with places.opened(tmp_path) as queue:
        assert (queue.depth().batches, [batch.number for batch in await claimed(queue)]) == (1, [1])


async def test_a_segment_that_was_used_up_is_as_the_page_says(tmp_path: Path) -> None:
    wanted = Wanted().with_storage(max_bytes=1 << 20)
    async with places.opened(tmp_path, wanted) as queue:
        for _ in range(3):
            await fill(queue, b"x" * 70_000, records=3)
        queue.delivered((await claimed(queue))[1:2])
        folder = queue.folder
    described, segments = read(folder)
    assert [(header["flags"], header["batches"], len(frames)) for header, frames in segments] == [
        (0, 0, 1),
        (1, 1, 0),
        (0, 2, 1),
    ]
    assert described["version"] == 1


async def test_a_dead_letter_is_as_the_page_says(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        await fill(queue, b"whole", records=3)
        [batch] = await claimed(queue)
        await queue.bury(batch, [b"re", b"st"], FINAL_FAILURE._replace(at=NOW + 5, outage=True), records=2)
        folder = queue.folder
    mark = json.loads((folder / "queue.json").read_text())["mark"]
    header, [frame] = read_segment((folder / "dead/0000000000000001.seg").read_bytes(), mark)
    assert (header["kind"], frame[:4]) == (2, (1, 2, 1, NOW + 5))
    length = number(frame.payload, 0, 4)
    written = json.loads(frame.payload[4 : 4 + length])
    assert written == {
        "reason": "given-up",
        "at": NOW + 5,
        "attempts": 3,
        "cause": FINAL_FAILURE.cause,
        "takenAt": NOW,
        "status": 503,
        "answer": base64.b64encode(FINAL_FAILURE.answer).decode(),
        "outage": True,
    }
    assert frame.payload[4 + length :] == b"rest"
