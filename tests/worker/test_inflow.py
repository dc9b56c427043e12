"""Parts on their way to the store: a small change waits whole, a large one is written ahead, and nothing is left of
what is given up.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.errors import Refused
from reconciler.store.contract import Ahead, Changes, StoreFault
from reconciler.worker import change_stream
from reconciler.worker.change_stream import LARGE_BYTES, LARGE_PARTS, ChangeStream

pytestmark = pytest.mark.anyio

SMALL = LARGE_PARTS  # parts of a change that is just not large
LARGE = LARGE_PARTS + 1
LONG_SECONDS = 5.0


def part(number: int, size: int = 0) -> bytes:
    return msgspec.msgpack.encode(Changes(forgotten_files=(("repository", f"{number}{'x' * size}"),)))


def numbers(parts: Iterable[Changes]) -> list[int]:
    return [int(path.rstrip("x")) for one in parts for _, path in one.forgotten_files]


class Written:
    """What a store holds ahead of one change, and how that ended. A write takes place only when it may."""

    def __init__(self, table: "Table") -> None:
        self._table = table
        self.numbers: list[int] = []
        self.dropped = False

    async def write(self, parts: Iterable[Changes]) -> None:
        assert not self.dropped
        self._table.writing += 1
        await self._table.may.wait()
        self._table.writing -= 1
        if self._table.fault is not None:
            raise self._table.fault
        self.numbers += numbers(parts)

    async def drop(self) -> None:
        assert not self._table.writing
        self.dropped = True
        self._table.taken = False
        if self._table.stuck is not None:
            raise self._table.stuck


class Table:
    """A store of which only this is seen: one change at a time is written ahead."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.may.set()
        self.taken = False
        self.begun: list[Written] = []
        self.writing = 0
        self.fault: Exception | None = None
        self.stuck: Exception | None = None

    def ahead(self) -> Ahead | None:
        if self.taken:
            return None
        self.taken = True
        self.begun.append(Written(self))
        return self.begun[-1]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def fill(parts: ChangeStream, which: Iterable[int] = range(LARGE)) -> None:
    """Give it parts with these numbers, at once, a large change if not told otherwise."""
    for number in which:
        parts.take(part(number))
    await settle()


async def all_of(parts: ChangeStream) -> tuple[Iterator[Changes], Ahead | None]:
    await parts.written()
    return parts.handed_over()


async def test_a_small_change_waits_whole() -> None:
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        for number in range(SMALL):
            parts.take(part(number))
            await settle()
        rest, ahead = await all_of(parts)
        assert (numbers(rest), ahead, table.begun) == ([*range(SMALL)], None, [])


@pytest.mark.parametrize(
    ("count", "size"), [(LARGE, 0), (3, LARGE_BYTES // 2), (1, 3 * LARGE_BYTES), (4 * LARGE, LARGE_BYTES // 8)]
)
async def test_all_of_a_large_change_is_written_ahead_in_order(count: int, size: int) -> None:
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        for number in range(count):
            parts.take(part(number, size))
        await settle()
        parts.take(part(count))
        rest, ahead = await all_of(parts)
        [written] = table.begun
        assert ahead is written
        assert (written.numbers, numbers(rest)) == ([*range(count + 1)], [])
    assert not written.dropped  # it is the caller's, who commits it


async def test_what_comes_while_others_write_ahead_waits_for_its_turn() -> None:
    table = Table()
    table.taken = True
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
        assert table.begun == []
        table.taken = False
        parts.take(part(LARGE))
        await settle()
        assert table.begun[0].numbers == [*range(LARGE + 1)]


async def test_a_change_whose_turn_never_comes_is_handed_over_whole() -> None:
    table = Table()
    table.taken = True
    async with ChangeStream(table.ahead) as parts:
        for number in range(3 * LARGE):
            parts.take(part(number))
        rest, ahead = await all_of(parts)
        assert (numbers(rest), ahead) == ([*range(3 * LARGE)], None)


async def test_all_that_is_too_much_for_one_transaction_is_written_before_the_end_is_handed_over() -> None:
    table = Table()
    table.may.clear()
    async with ChangeStream(table.ahead) as parts:
        await fill(parts, range(5 * LARGE))
        ending = asyncio.create_task(parts.written())
        await settle()
        assert not ending.done()
        table.may.set()
        await ending
        rest, _ = parts.handed_over()
        assert (table.begun[0].numbers, numbers(rest)) == ([*range(5 * LARGE)], [])


async def test_who_is_cancelled_while_the_rest_is_written_waits_for_a_stretch_of_it_alone() -> None:
    table = Table()
    table.may.clear()

    async def work() -> None:
        async with ChangeStream(table.ahead) as parts:
            for number in range(3):
                parts.take(part(number, change_stream.STRETCH_BYTES))
            await parts.written()

    task = asyncio.create_task(work())
    await settle()
    task.cancel()
    await settle()
    assert not task.done()
    table.may.set()
    async with asyncio.timeout(LONG_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await task
    [written] = table.begun
    assert (written.numbers, written.dropped) == ([0], True)


async def test_what_is_not_handed_over_is_dropped() -> None:
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
    assert (table.begun[0].dropped, table.taken) == (True, False)


async def test_a_change_that_was_never_large_drops_nothing() -> None:
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        parts.take(part(1))
    assert table.begun == []


async def test_what_is_begun_anew_holds_nothing_of_what_was_before() -> None:
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
        parts.forget()
        await fill(parts, range(100, 100 + LARGE))
        parts.take(part(200))
        rest, ahead = await all_of(parts)
        first, second = table.begun
        assert (first.dropped, ahead is second, second.dropped) == (True, True, False)
        assert second.numbers + numbers(rest) == [*range(100, 100 + LARGE), 200]


async def test_what_is_begun_anew_while_the_former_is_still_written_is_not_mixed_up_with_it() -> None:
    table = Table()
    table.may.clear()
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
        parts.forget()
        await fill(parts, range(100, 100 + LARGE))
        assert len(table.begun) == 1  # the other is not dropped yet
        table.may.set()
        await settle()
        rest, ahead = await all_of(parts)
        first, second = table.begun
        assert (first.dropped, ahead is second) == (True, True)
        assert second.numbers + numbers(rest) == [*range(100, 100 + LARGE)]


async def test_a_fault_of_the_store_is_told_at_the_next_part_and_at_the_end() -> None:
    table = Table()
    table.fault = StoreFault("The disk is full.")
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
        with pytest.raises(StoreFault):
            parts.take(part(LARGE))
        with pytest.raises(StoreFault):
            await parts.written()
    assert table.begun[0].dropped


async def test_after_a_fault_another_attempt_is_none_the_worse() -> None:
    table = Table()
    table.fault = StoreFault("The disk is full.")
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
        parts.forget()
        table.fault = None
        parts.take(part(1))
        rest, ahead = await all_of(parts)
        assert (numbers(rest), ahead) == ([1], None)


async def test_who_ends_waits_for_the_write_under_way_and_drops_although_it_is_cancelled() -> None:
    table = Table()
    table.may.clear()
    taken = asyncio.Event()

    async def work() -> None:
        async with ChangeStream(table.ahead) as parts:
            await fill(parts)
            taken.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await taken.wait()
    for _ in range(3):
        task.cancel()
        await settle()
    assert (task.done(), table.begun[0].dropped) == (False, False)
    table.may.set()
    async with asyncio.timeout(LONG_SECONDS):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (table.begun[0].dropped, table.taken) == (True, False)


async def test_a_drop_that_does_not_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "DROP_SECONDS", 0.01)
    table = Table()
    table.may.clear()
    async with asyncio.timeout(LONG_SECONDS):
        async with ChangeStream(table.ahead) as parts:
            await fill(parts)
    assert not table.begun[0].dropped
    table.may.set()
    await settle()
    assert table.begun[0].dropped


async def test_what_cannot_be_dropped_is_told_in_the_log_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    table = Table()
    table.stuck = StoreFault("The disk is full.")
    async with ChangeStream(table.ahead) as parts:
        await fill(parts)
    assert [record.getMessage() for record in caplog.records] == [
        "What was written of a change that is not stored could not be taken back: The disk is full."
    ]


async def test_a_part_that_holds_no_rows_is_a_fault() -> None:
    """A child that a hostile file took over may send anything."""

    class Reading(Written):
        async def write(self, parts: Iterable[Changes]) -> None:
            await asyncio.to_thread(list, parts)

    table = Table()
    async with ChangeStream(lambda: Reading(table)) as parts:
        for _ in range(LARGE):
            parts.take(b"\xc1")
        with pytest.raises(msgspec.DecodeError):
            await parts.written()


@pytest.mark.parametrize("name", ["CHANGE_BYTES", "WHOLE_BYTES"])
async def test_a_change_has_a_largest_size(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(change_stream, name, 100)
    async with ChangeStream() as parts:
        parts.take(bytes(100))
        with pytest.raises(Refused, match="This would change more than"):
            parts.take(b"x")


async def test_what_is_written_counts_as_waiting_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "CHANGE_BYTES", 2 * LARGE_BYTES)
    table = Table()
    async with ChangeStream(table.ahead) as parts:
        for number in range(6):
            parts.take(part(number, LARGE_BYTES))
            await settle()
        assert table.begun[0].numbers == [*range(6)]


@pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_whatever_comes_and_when_all_of_it_arrives_once_and_in_order(examples: int) -> None:
    @settings(max_examples=examples)
    @given(
        sizes=st.lists(st.sampled_from([0, 1_000, LARGE_BYTES // 5, LARGE_BYTES]), max_size=60),
        turns=st.lists(st.booleans(), max_size=60),
        frees_at=st.integers(0, 60),
    )
    def holds(sizes: Sequence[int], turns: Sequence[bool], frees_at: int) -> None:
        asyncio.run(play(sizes, turns, frees_at=frees_at))

    holds()


async def play(sizes: Sequence[int], turns: Sequence[bool], *, frees_at: int) -> None:
    """Parts of these sizes, others having their turn after some of them, and the store free from one of them on."""
    table = Table()
    table.taken = True
    async with ChangeStream(table.ahead) as parts:
        for number, size in enumerate(sizes):
            if number == frees_at:
                table.taken = False
            parts.take(part(number, size))
            if number < len(turns) and turns[number]:
                await settle()
        rest, ahead = await all_of(parts)
        written = [] if ahead is None else table.begun[0].numbers
        assert written + numbers(rest) == [*range(len(sizes))]
        assert len(table.begun) <= 1
