"""Queued records and dead letters of one instance that another one takes over: nothing is lost, whatever fails."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from reconciler.delivery import moving
from reconciler.delivery.contract import QueueFull
from reconciler.delivery.manager import Manager
from reconciler.delivery.moving import MovedCounts, MovedFrames
from reconciler.delivery.otlp.models import MalformedRequest, RequestTooLarge
from reconciler.delivery.queue import folders, segments
from reconciler.delivery.queue.contract import BATCH_BYTES
from reconciler.delivery.queue.folders import PeekedState
from reconciler.delivery.queue.queues import UNLIMITED
from reconciler.model.routes import Buffering, Destination, Storage
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Letter
from tests.delivery.test_manager import IN_MEMORY, PROJECT, managing, routes, webhook

pytestmark = pytest.mark.anyio


class CutOff(Exception):
    """The connection broke."""


async def fill(folder: Path, *texts: bytes, dead: tuple[bytes, ...] = ()) -> None:
    """A queue that an instance left behind."""
    async with places.opened(folder / "queues") as queue:
        await places.fill(queue, *dead)
        await places.bury_all(queue)
        await places.fill(queue, *texts)


async def move(folder: Path, send: Callable[[MovedFrames], Awaitable[None]]) -> MovedCounts:
    """Move all queues in a folder as the command does."""
    queues, counts = places.make(folder / "queues"), MovedCounts()
    await queues.start()
    try:
        found, _ = await queues.found()
        for one in found:
            queue = await queues.open_found(one, dead_bytes=UNLIMITED)
            await moving.move(queue, send, counts)
            await queues.remove(queue)
    finally:
        await queues.close()
    return counts


def sender(manager: Manager, name: str = "siem") -> Callable[[MovedFrames], Awaitable[None]]:
    async def send(moved: MovedFrames) -> None:
        await manager.receive(PROJECT, name, moving.encode_moved(moved))

    return send


def depth(manager: Manager, name: str = "siem") -> tuple[int, int]:
    """Return the queued batches and the dead letters of a destination."""
    shown = manager.shown(PROJECT, name, answers=False)
    return shown["queue"]["batches"], shown["deadLetters"]["batches"]


async def kept(folder: Path, directory: str) -> tuple[list[bytes | None], list[Letter]]:
    """Return the content of a queue of an instance after its end."""
    async with places.opened(folder / "queues", places.Wanted().with_storage(directory=directory)) as queue:
        return await places.payloads(queue), await places.letters(queue)


async def test_everything_moves_in_its_order_and_the_source_is_empty_afterwards(tmp_path: Path) -> None:
    await fill(tmp_path / "a", b"one", b"two", b"three", dead=(b"given", b"up"))
    async with managing(tmp_path / "b") as manager:
        await manager.change(routes(webhook("siem")))
        assert await move(tmp_path / "a", sender(manager)) == MovedCounts(3, 3, 2, 2)
        assert depth(manager) == (3, 2)
    assert not [*(tmp_path / "a" / "queues").glob("*/*")]
    [identity] = folders.peek_queues(tmp_path / "b" / "queues")
    found = [*folders.peek(identity)]
    assert identity.directory == Storage().directory
    assert [one.payload for one in found if one.state is PeekedState.QUEUED] == [b"one", b"two", b"three"]
    assert [(one.payload, one.final_failure, one.taken_at) for one in found if one.state is PeekedState.DEAD] == [
        (b"given", FINAL_FAILURE, NOW),
        (b"up", FINAL_FAILURE, NOW),
    ]


async def test_what_was_stored_without_an_answer_is_known_when_it_comes_again(tmp_path: Path) -> None:
    await fill(tmp_path / "a", b"one", b"two", dead=(b"dead",))
    async with managing(tmp_path / "b") as manager:
        await manager.change(routes(webhook("siem")))

        async def break_off(moved: MovedFrames) -> None:
            await sender(manager)(moved)
            raise CutOff

        with pytest.raises(CutOff):
            await move(tmp_path / "a", break_off)
        assert depth(manager) == (2, 0)
        assert await move(tmp_path / "a", sender(manager)) == MovedCounts(2, 2, 1, 1)
        assert depth(manager) == (2, 1)


async def test_another_batch_with_the_number_of_one_that_moved_is_taken(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        for payload in (b"before a backup was restored", b"afterwards"):
            moved = MovedFrames(7, False, (moving.MovedFrame(1, 1, NOW, payload),))
            assert await manager.receive(PROJECT, "siem", moving.encode_moved(moved)) == (1, 1)
        assert await manager.receive(PROJECT, "siem", moving.encode_moved(moved)) == (0, 0)


async def test_a_full_queue_keeps_what_it_has_room_for_and_gets_the_rest_later(tmp_path: Path) -> None:
    await fill(tmp_path / "a", *(b"%d" % number + b"x" * (BATCH_BYTES // 2) for number in range(6)))
    async with managing(tmp_path / "b") as manager:
        await manager.change(routes(webhook("siem", buffering=Buffering(max_batches=2))))
        with pytest.raises(QueueFull, match="has no room for moved records"):
            await move(tmp_path / "a", sender(manager))
        assert depth(manager) == (4, 0)
        await manager.change(routes(webhook("siem", buffering=Buffering(max_batches=200))))
        await move(tmp_path / "a", sender(manager))
        assert depth(manager) == (6, 0)


async def test_a_batch_that_never_fits_is_refused_and_stays(tmp_path: Path) -> None:
    await fill(tmp_path / "a", b"x" * 5_000)
    async with managing(tmp_path / "b") as manager:
        await manager.change(routes(webhook("siem", buffering=Buffering(storage=Storage(max_bytes=4_096)))))
        with pytest.raises(RequestTooLarge, match="max_bytes"):
            await move(tmp_path / "a", sender(manager))
    queued, _ = await kept(tmp_path / "a", "here")
    assert queued == [b"x" * 5_000]


@pytest.mark.parametrize("known", [(), (webhook("siem", buffering=IN_MEMORY),)])
async def test_without_a_queue_on_disk_there_moved_records_get_one_of_their_own(
    tmp_path: Path, known: tuple[Destination, ...]
) -> None:
    """Those of an unknown destination wait for it, as in every orphaned queue."""
    await fill(tmp_path / "a", b"one", dead=(b"dead",))
    async with managing(tmp_path / "b") as manager:
        await manager.change(routes(*known))
        await move(tmp_path / "a", sender(manager))
        assert depth(manager) == (1, 1)
        assert (manager.shown(PROJECT, "siem", answers=False)["state"] == "orphaned") is not bool(known)
        await manager.change(routes(webhook("siem")))
        assert manager.shown(PROJECT, "siem", answers=False)["state"] == "closed"
    [_] = (tmp_path / "b" / "queues" / "moved").iterdir()


async def test_nothing_is_taken_before_the_routes_are_known(tmp_path: Path) -> None:
    await fill(tmp_path / "a", b"one")
    async with managing(tmp_path / "b") as manager:
        with pytest.raises(QueueFull):
            await move(tmp_path / "a", sender(manager))


@pytest.mark.parametrize("place", [0, 20, 63, 64, 80, 103, 104, 106, -1])
@pytest.mark.parametrize("is_dead", [False, True])
def test_every_damaged_byte_is_refused(place: int, is_dead: bool) -> None:
    payload = b"abc"
    if is_dead:
        payload = b"".join(segments.encode_dead_letter(FINAL_FAILURE, [payload], taken_at=NOW))
    moved = MovedFrames(7, is_dead, (moving.MovedFrame(3, 2, NOW, payload),))
    body = bytearray(moving.encode_moved(moved))
    assert moving.decode_moved(bytes(body)) == moved
    body[place] ^= 1
    with pytest.raises(MalformedRequest):
        moving.decode_moved(bytes(body))


def test_a_dead_letter_without_its_story_is_refused() -> None:
    body = moving.encode_moved(MovedFrames(7, True, (moving.MovedFrame(3, 2, NOW, msgspec.json.encode({})),)))
    with pytest.raises(MalformedRequest, match="damaged"):
        moving.decode_moved(body)


@pytest.mark.parametrize("length", [0, 63, 80, 105, 106])
def test_a_part_of_a_request_is_refused(length: int) -> None:
    whole = moving.encode_moved(MovedFrames(7, False, (moving.MovedFrame(3, 2, NOW, b"abc"),)))
    assert length < len(whole)
    with pytest.raises(MalformedRequest):
        moving.decode_moved(whole[:length])
