"""Thousands of causes hold up nobody: everything else on the loop has its turn again and again."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reconciler.notifications.alerts import AlertTarget
from reconciler.notifications.board import Board
from reconciler.notifications.models import UserStatus
from reconciler.notifications.outbox import Outbox
from reconciler.store.operations import SqliteOperations
from tests.notifications.boards import PLACE, World, brief, finding, look

pytestmark = pytest.mark.anyio

CAUSES, TARGETS, MOST = 600, 20, 100
CALLS = 8_000  # of functions at a stretch, built in ones too: some milliseconds. In all they are two millions


class Stretches:
    """How much is done at a stretch, in one callback or one step of a task: calls, and not time."""

    def __init__(self) -> None:
        self.most = 0
        self._calls = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count as long as it lasts."""
        before = sys.getprofile()
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is asyncio.Handle._run.__code__:  # the loop begins the next one
            self._calls = 0
        self._calls += event in ("call", "c_call")
        self.most = max(self.most, self._calls)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def opened(world: World, targets: int, **options: Any) -> AsyncIterator[tuple[Board, Outbox]]:
    """A board whose alerts wait, since nobody sends them."""
    operations = SqliteOperations(world.path)
    recipients = [AlertTarget(f"t{number}", url="http://127.0.0.1:1/") for number in range(targets)]
    outbox = Outbox(recipients, operations, place=PLACE, clock=world.clock, **options)
    await outbox.load()
    board = Board(operations, clock=world.clock, place=PLACE, outbox=outbox, most=2 * CAUSES)
    await board.load()
    try:
        yield board, outbox
    finally:
        await operations.close()


def waiting(outbox: Outbox) -> dict[str, list[tuple[str, bool]]]:
    """The notifications that alerts wait about, by target, and whether they tell of a beginning."""
    return {name: [(one.about, one.is_beginning) for one in lane.waiting] for name, lane in outbox._lanes.items()}


def statuses(board: Board) -> set[tuple[str, str]]:
    """What a person sees at one moment: whether it is open, and what the person did with it."""
    every = (board.one(one, sees=lambda _: True, user="id-ana") for one in board._kept.all)
    return {one[1:] for one in brief([msgspec.json.decode(one or b"") for one in every])}


async def test_a_look_that_changes_much_for_many_targets_is_taken_in_slices(world: World) -> None:
    found = [finding(f"r{number}") for number in range(CAUSES)]
    stretches = Stretches()
    async with opened(world, TARGETS, most=MOST) as (board, outbox):
        with stretches.counted():
            for there in (found, found[CAUSES // 2 :], found):
                await board.take(look(*there))
                await board.tidy()
        untold = [replace(one, told_to=frozenset()) for one in board._kept.all.values()]
        new = (f"A{number}" for number in count())
        await asyncio.sleep(0)
        with stretches.counted():
            await outbox.anew(outbox.targets, untold, at=world.clock(), new_id=new.__next__)
            await board.take(look())
    assert stretches.most < CALLS


async def test_looks_that_meet_are_taken_one_after_the_other_and_each_target_hears_both(world: World) -> None:
    found = [finding(f"r{number}") for number in range(100)]
    async with opened(world, 3) as (board, outbox):
        await asyncio.gather(board.take(look(*found)), board.take(look()), board.tidy())
        told = sorted(board._kept.all)
        expected = [(one, is_beginning) for is_beginning in (True, False) for one in told]
        assert waiting(outbox) == dict.fromkeys(("t0", "t1", "t2"), expected)
        assert board.open.total() == 0


@pytest.mark.parametrize("turns", [0, 1, 3, 5, 7, 9, 30])
async def test_a_stop_between_two_slices_leaves_nobody_told_of_what_is_not_kept_nor_the_other_way(
    world: World, turns: int
) -> None:
    found = [finding(f"r{number}") for number in range(70)]
    async with opened(world, 3) as (board, _):
        taking = asyncio.create_task(board.take(look(*found)))
        for _ in range(turns):
            await asyncio.sleep(0)
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking
    async with opened(world, 3) as (board, outbox):
        kept = sorted(board._kept.all)
        assert waiting(outbox) == {name: [(one, True) for one in kept] for name in outbox.targets}
        assert all(one.told_to == {"t0", "t1", "t2"} for one in board._kept.all.values())
        await board.take(look(*found))
        kept = sorted(board._kept.all)
        assert (len(kept), waiting(outbox)["t1"]) == (70, [(one, True) for one in kept])


async def test_what_comes_back_is_open_and_unread_in_one_stretch(world: World) -> None:
    found = [finding(f"r{number}") for number in range(500)]
    async with opened(world, 1) as (board, _):
        await board.take(look(*found))
        for identifier in [*board._kept.all]:
            await board.set_status(identifier, UserStatus.READ, sees=lambda _: True, user="id-ana")
        await board.take(look())
        taking, seen = asyncio.create_task(board.take(look(*found))), set[tuple[str, str]]()
        while not taking.done():
            seen |= statuses(board)
            await asyncio.sleep(0)
        seen |= statuses(board)
        assert seen == {("resolved", "read"), ("open", "unread")}


async def test_what_a_target_loses_while_it_is_told_late_is_still_owed_to_it(world: World) -> None:
    found = [finding(f"r{number}") for number in range(500)]
    async with opened(world, 1) as (board, outbox):
        await board.take(look(*found))
        [lane], new = outbox._lanes.values(), (f"A{number}" for number in count())
        kept = [*board._kept.all.values()]
        telling = asyncio.create_task(outbox.anew(["t0"], kept, at=world.clock(), new_id=new.__next__))
        await asyncio.sleep(0)
        lane.give_up(1)
        assert await telling == ([], [])
        lane.takes = True
        lane.give_up(len(lane.waiting))
        assert outbox.recovered() == "t0"
