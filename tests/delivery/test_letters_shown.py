"""Dead letters as operators see them, and one of them replayed or discarded by its id."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from unittest.mock import ANY

import pytest

from reconciler.delivery import dead_letters
from reconciler.delivery.contract import QueueFull
from reconciler.delivery.otlp import bodies
from reconciler.delivery.queue.contract import DeadLetter, FinalFailure, Reason
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.model.routes import Buffering, Storage
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Wanted
from tests.delivery.test_manager import PROJECT, managing, routes, webhook

pytestmark = pytest.mark.anyio

AT = 1_800_000_000_000


def request(text: str) -> bytes:
    return bodies.test_request(text, at=AT)


async def bury(folder: Path, *texts: str, died: int = NOW, directory: str = "here") -> Path:
    """Dead letters of siem in its queue, whose folder is returned."""
    wanted = Wanted().with_storage(directory=directory)
    async with places.opened(folder / "queues", wanted) as queue:
        await places.fill(queue, *map(request, texts))
        for batch in await places.claimed(queue):
            payload = await queue.payload(batch)
            assert payload is not None
            await queue.bury(batch, [payload], FINAL_FAILURE._replace(at=died), records=1)
    return queue.folder


def stored(directory: str = "here") -> Buffering:
    return Buffering(storage=Storage(directory=directory))


async def test_a_dead_letter_is_shown_with_its_story_and_its_records(tmp_path: Path) -> None:
    folder = await bury(tmp_path, "payment 4711 refused")
    queues = folder.parents[1]
    queues.rename(tmp_path / "kept")
    async with places.opened(tmp_path / "kept") as queue:
        [found] = await dead_letters.oldest([queue], most=1)
    assert found == {
        "id": f"{folder.name}-1",
        "buriedAt": "2026-09-21T14:13:20.000Z",
        "takenAt": "2026-09-21T14:13:20.000Z",
        "records": 1,
        "bytes": len(request("payment 4711 refused")),
        "damaged": False,
        "reason": "given-up",
        "attempts": 3,
        "status": 503,
        "cause": "The endpoint answered 503.",
        "answer": "busy\ufffd",
        "preview": [
            {
                "time": "2027-01-15T08:00:00.000Z",
                "severity": ANY,
                "body": "payment 4711 refused",
                "truncated": False,
            }
        ],
    }


async def test_a_damaged_one_is_said_to_be_and_the_others_are_shown(tmp_path: Path) -> None:
    folder = await bury(tmp_path, "one", "two", "three")
    [segment] = (folder / "dead").glob("*.seg")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"two", b"tw0"))
    async with places.opened(tmp_path / "queues") as queue:
        found = await dead_letters.oldest([queue], most=10)
        assert (queue.depth().dead_batches, queue.depth().lost) == (3, 0)  # nothing changed
    assert [[record["body"] for record in one["preview"]] for one in found] == [["one"], [], ["three"]]
    assert [one["damaged"] for one in found] == [False, True, False]
    empty: dict[str, object] = {
        "takenAt": None,
        "reason": None,
        "attempts": None,
        "status": None,
        "answer": "",
        "preview": [],
    }
    assert empty.items() <= found[1].items()
    assert (found[1]["records"], found[1]["cause"]) == (1, dead_letters.DAMAGED)


async def test_a_frame_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    folder = await bury(tmp_path, "one", "two", "three")
    async with places.opened(tmp_path / "queues") as queue:
        [segment] = (folder / "dead").glob("*.seg")
        data = bytearray(segment.read_bytes())
        data[data.index(b"\xf1RqF", 100)] ^= 0xFF
        segment.write_bytes(data)
        found = await dead_letters.oldest([queue], most=10)
    assert [one["preview"][0]["body"] for one in found] == ["one", "three"]


async def test_a_file_that_was_cut_fails_nothing(tmp_path: Path) -> None:
    folder = await bury(tmp_path, "one", "two")
    async with places.opened(tmp_path / "queues") as queue:
        [segment] = (folder / "dead").glob("*.seg")
        os.truncate(segment, segment.stat().st_size - 1)
        found = await dead_letters.oldest([queue], most=10)
    assert [one["damaged"] for one in found] == [False, True]


async def test_the_oldest_of_all_queues_come_first_and_no_more_than_asked_for() -> None:
    queues = [MemoryQueue(max_batches=99, max_bytes=9999) for _ in range(2)]
    for at in range(10):
        written = queues[at % 2].bury_unqueued([b"x"], FinalFailure(Reason.QUEUE_FULL, at, 0, ""), records=at, at=at)
        assert written is not None
        await written
    found = await dead_letters.oldest(queues, most=5)
    assert [one["records"] for one in found] == [0, 1, 2, 3, 4]


class SlowQueue(MemoryQueue):
    """Shows some letters, and then the disk does not answer."""

    shown = 0

    async def dead_letters(self) -> AsyncGenerator[DeadLetter, None]:
        for number in range(self.shown):
            yield DeadLetter(number, 1, 1, NOW)
        await asyncio.Event().wait()


async def test_a_disk_that_does_not_answer_is_told_or_shows_what_it_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "READ_SECONDS", 0.01)
    queue = SlowQueue(max_batches=9, max_bytes=999)
    with pytest.raises(QueueFull, match="does not answer"):
        await dead_letters.oldest([queue], most=5)
    queue.shown = 2
    assert len(await dead_letters.oldest([queue], most=5)) == 2


async def test_one_is_replayed_and_one_discarded_by_its_id_in_each_queue_of_a_destination(tmp_path: Path) -> None:
    """The destination has its queue elsewhere now."""
    for directory, texts in (("old", ("a", "b")), ("here", ("c", "d"))):
        await bury(tmp_path, *texts, directory=directory)
    for file in (tmp_path / "queues").glob("*/*/queue.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "project": PROJECT}))
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem", buffering=stored())))

        async def ids() -> dict[str, str]:
            found = await manager.dead_letters(PROJECT, "siem", most=10)
            return {one["preview"][0]["body"]: one["id"] for one in found}

        letters = await ids()
        assert sorted(letters) == ["a", "b", "c", "d"]
        replayed = [done async for done in manager.replay(PROJECT, "siem", letter=letters["b"])]
        discarded = [
            done async for done in manager.discard(PROJECT, "siem", queued=False, dead=True, letter=letters["c"])
        ]
        again = [done async for done in manager.replay(PROJECT, "siem", letter=letters["c"])]
        unknown = [done async for done in manager.replay(PROJECT, "siem", letter="memory-1")]
        assert (replayed, discarded, again, unknown) == ([(1, 1)], [(1, 1)], [(0, 0)], [])
        assert sorted(await ids()) == ["a", "d"]
        shown = manager.shown(PROJECT, "siem", answers=False)
        assert (shown["counts"]["discarded"], shown["queue"]["records"]) == (1, 1)
        assert await manager.dead_letters(PROJECT, "unknown", most=10) == []
