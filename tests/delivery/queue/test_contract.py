"""The promises of `contract`, checked with the queue on disk and the one in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from reconciler.delivery.queue import appender
from reconciler.delivery.queue.contract import (
    HEAD_BYTES,
    Batch,
    DeadLetter,
    Depth,
    FinalFailure,
    Queue,
    Reason,
    Shortage,
)
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.model.routes import Storage
from tests.delivery.queue import places
from tests.delivery.queue.places import FINAL_FAILURE, NOW, Letter, Wanted, claimed, fill, letters, payloads

pytestmark = pytest.mark.anyio

Opener = Callable[[Wanted], AbstractAsyncContextManager[Queue]]

LOTS = {"most_records": 1000, "most_bytes": 1 << 20}


@pytest.fixture(params=["disk", "memory"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    @contextlib.asynccontextmanager
    async def open_it(wanted: Wanted) -> AsyncIterator[Queue]:
        if request.param == "memory":
            queue = MemoryQueue(max_batches=wanted.max_batches, max_bytes=wanted.storage.max_bytes)
            yield queue
            await queue.close()
            return
        async with places.opened(tmp_path, wanted) as on_disk:
            yield on_disk

    return open_it


async def test_batches_are_numbered_and_claimed_in_order_of_arrival_with_their_bytes(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        under_way = [
            queue.append([b"a" * 3, memoryview(b"xbcx")[1:3]], records=2, at=NOW),
            queue.append([b""], records=0, at=NOW + 1),
            queue.append([b"third"], records=1, at=NOW - 1),
        ]
        await asyncio.gather(*under_way)
        found = queue.claim(**LOTS)
        assert found == (
            Batch(1, 2, 5, NOW),
            Batch(2, 0, 0, NOW + 1),
            Batch(3, 1, 5, NOW - 1),
        )
        assert [await queue.payload(batch) for batch in found] == [b"aaabc", b"", b"third"]
        assert [await queue.payload(batch) for batch in found] == [b"aaabc", b"", b"third"]
        assert queue.claim(**LOTS) == ()


async def test_a_claim_stays_within_both_limits_and_takes_one_whatever_its_size(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        for records, size in ((5, 10), (5, 10), (1, 10), (1, 500), (600, 1)):
            await queue.append([b"x" * size], records=records, at=NOW)
        claims = [queue.claim(most_records=10, most_bytes=100) for _ in range(5)]
        assert [[batch.number for batch in claim] for claim in claims] == [[1, 2], [3], [4], [5], []]
        queue.give_back([batch for claim in claims for batch in claim])
        assert [batch.number for batch in queue.claim(most_records=11, most_bytes=100)] == [1, 2, 3]


async def test_what_is_given_back_comes_first_in_its_order(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await fill(queue, b"1", b"2", b"3", b"4", b"5", records=3)
        first, second, third, fourth = queue.claim(most_records=12, most_bytes=100)
        queue.delivered([second])
        queue.give_back([fourth])
        queue.give_back([first])
        assert queue.claim(**LOTS) == (first, fourth, Batch(5, 3, 1, NOW))
        assert await queue.payload(fourth) == b"4"
        queue.give_back([third])
        assert queue.claim(**LOTS) == (third,)


async def test_what_was_delivered_is_gone_and_twice_is_no_harm(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await fill(queue, b"one", b"two")
        one, two = queue.claim(**LOTS)
        queue.delivered([one, one])
        queue.delivered([one])
        queue.give_back([one])
        assert queue.claim(**LOTS) == ()
        assert await queue.payload(one) is None
        assert (queue.depth().batches, queue.depth().claimed, queue.depth().size) == (1, 1, 3)
        queue.delivered([two])
        assert queue.depth()._replace(disk=0, limited=0) == Depth()


async def test_who_waits_is_told_of_an_append_and_of_what_is_given_back(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        waits = [asyncio.create_task(queue.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(wait.done() for wait in waits)
        await fill(queue, b"x")
        async with asyncio.timeout(10):
            await asyncio.gather(*waits)
        batches = queue.claim(**LOTS)
        again = asyncio.create_task(queue.wait())
        await asyncio.sleep(0)
        assert not again.done()
        queue.give_back(batches)
        async with asyncio.timeout(10):
            await again


async def test_who_gives_up_waiting_does_not_undo_an_append(opener: Opener) -> None:
    async with opener(Wanted()) as queue:

        async def append() -> None:
            await queue.append([b"kept"], records=1, at=NOW)

        task = asyncio.create_task(append())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fill(queue, b"after")
        assert await payloads(queue) == [b"kept", b"after"]


async def test_room_says_what_is_short_and_counts_what_is_claimed(opener: Opener) -> None:
    wanted = Wanted(max_batches=2).with_storage(max_bytes=10_000)
    async with opener(wanted) as queue:
        assert (queue.room(size=9_000), queue.room(size=10_001)) == (None, Shortage.BYTES)
        await fill(queue, b"x" * 5000)
        assert (queue.room(size=4000), queue.room(size=5001)) == (None, Shortage.BYTES)
        await fill(queue, b"y", records=2000)
        assert queue.room(size=1) == Shortage.BATCHES
        batches = queue.claim(most_records=3000, most_bytes=1 << 20)
        assert queue.room(size=1) == Shortage.BATCHES
        queue.delivered(batches[1:])
        assert queue.room(size=1) is None
        queue.configure(storage=None, max_batches=2)


async def test_the_limit_of_batches_follows_the_settings(opener: Opener) -> None:
    async with opener(Wanted(max_batches=1)) as queue:
        await fill(queue, b"x", records=1000)
        assert queue.room(size=1) == Shortage.BATCHES
        queue.configure(storage=Storage(), max_batches=2)
        assert queue.room(size=1) is None


@pytest.mark.parametrize(
    ("batches", "records", "size", "is_full"),
    [(200, 5, 1, True), (199, 5, 1, False), (8, 1, 1 << 17, True), (7, 1, 1 << 17, False), (1, 5000, 1, True)],
)
async def test_a_queue_is_full_by_its_records_or_its_bytes_and_not_by_its_batches(
    opener: Opener, batches: int, records: int, size: int, *, is_full: bool
) -> None:
    async with opener(Wanted(max_batches=1)) as queue:
        appends = [queue.append([b"x" * size], records=records, at=NOW) for _ in range(batches)]
        assert (queue.room(size=1) is Shortage.BATCHES) is is_full  # while they are written
        await asyncio.gather(*appends)
        assert (queue.room(size=1) is Shortage.BATCHES) is is_full
        assert (queue.depth().load >= 1) is is_full


async def test_a_dead_letter_of_what_never_was_queued_is_listed_and_replayed(opener: Opener) -> None:
    full = FinalFailure(Reason.QUEUE_FULL, NOW + 5, 0, "The queue was full.")
    async with opener(Wanted()) as queue:
        kept = queue.bury_unqueued([b"a", b"b"], full, records=2, at=NOW)
        assert kept is not None
        await kept
        assert await letters(queue) == [Letter(2, NOW, full, b"ab")]
        assert (queue.depth().batches, queue.depth().dead_records) == (0, 2)
        assert await queue.replay(outages_only=True) == (0, 0)
        assert await queue.replay(outages_only=False) == (1, 2)
        assert [(batch.records, batch.taken_at) for batch in queue.claim(**LOTS)] == [(2, NOW)]


async def test_dead_letters_of_a_full_queue_take_no_more_than_a_queue_may(opener: Opener) -> None:
    async with opener(Wanted().with_storage(max_bytes=10_000)) as queue:
        refused = queue.bury_unqueued([b"x" * 10_001], FINAL_FAILURE, records=1, at=NOW)
        kept = queue.bury_unqueued([b"x" * 9_000], FINAL_FAILURE, records=1, at=NOW)
        assert (refused is None, kept is None) == (True, False)
        assert queue.bury_unqueued([b"x" * 1_001], FINAL_FAILURE, records=1, at=NOW) is None  # while it is written
        assert kept is not None
        await kept
        assert queue.bury_unqueued([b"x" * 1_001], FINAL_FAILURE, records=1, at=NOW) is None
        assert queue.depth().dead_size <= 10_000


async def test_depth_counts_batches_records_bytes_and_the_oldest(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        for at in (NOW, NOW + 5, NOW + 9):
            await queue.append([b"abc"], records=2, at=at)
        first, second = queue.claim(most_records=4, most_bytes=100)
        queue.delivered([first])
        depth = queue.depth()
        assert depth._replace(disk=0, limited=0) == Depth(batches=2, records=4, size=6, claimed=1, oldest=NOW + 5)
        await queue.bury(second, [b"abc"], FINAL_FAILURE, records=2)
        depth = queue.depth()
        assert (depth.batches, depth.oldest, depth.dead_batches, depth.dead_records) == (1, NOW + 9, 1, 2)
        assert depth.dead_oldest == FINAL_FAILURE.at


async def buried(queue: Queue, *texts: bytes, outages: tuple[bytes, ...] = (), at: int = NOW, records: int = 2) -> None:
    await fill(queue, *texts, records=records)
    for batch in await claimed(queue):
        data = await queue.payload(batch)
        assert data is not None
        final_failure = FINAL_FAILURE._replace(outage=data in outages, at=at)
        await queue.bury(batch, [data], final_failure, records=records)


async def test_a_buried_batch_is_a_dead_letter_with_all_that_is_known_of_it(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await fill(queue, b"half of this", records=2)
        [batch] = queue.claim(**LOTS)
        await queue.bury(batch, [b"half"], FINAL_FAILURE, records=1)
        assert await letters(queue) == [Letter(1, NOW, FINAL_FAILURE, b"half")]
        assert (queue.depth().batches, queue.claim(**LOTS)) == (0, ())


async def test_a_batch_of_several_dead_letters_leaves_with_the_last(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await fill(queue, b"two halves", records=2)
        [batch] = queue.claim(**LOTS)
        await queue.bury(batch, [b"two"], FINAL_FAILURE, records=1, leaves=False)
        assert (queue.depth().batches, queue.depth().claimed, queue.depth().dead_batches) == (1, 1, 1)
        assert await queue.payload(batch) == b"two halves"
        other = FINAL_FAILURE._replace(status=400)
        await queue.bury(batch, [b"halves"], other, records=1)
        assert [(letter.final_failure, letter.data) for letter in await letters(queue)] == [
            (FINAL_FAILURE, b"two"),
            (other, b"halves"),
        ]
        assert (queue.depth().batches, queue.claim(**LOTS)) == (0, ())


async def test_replay_queues_dead_letters_again_oldest_first(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await buried(queue, b"a", b"b", b"c", outages=(b"b", b"c"))
        assert await queue.replay(outages_only=True, most=1) == (1, 2)
        assert await queue.replay(outages_only=True) == (1, 2)
        assert [letter.data for letter in await letters(queue)] == [b"a"]
        assert await queue.replay(outages_only=False) == (1, 2)
        assert await letters(queue) == []
        found = await claimed(queue)
        assert [batch._replace(number=0) for batch in found] == [Batch(0, 2, 1, NOW)] * 3
        assert [await queue.payload(batch) for batch in found] == [b"b", b"c", b"a"]
        assert min(batch.number for batch in found) > 3
        assert queue.depth().dead_oldest is None


async def test_replay_stops_when_there_is_no_room(opener: Opener) -> None:
    async with opener(Wanted(max_batches=2)) as queue:
        await buried(queue, b"a", b"b", records=1000)
        await buried(queue, b"c", records=1000)
        assert await queue.replay(outages_only=False) == (2, 2000)
        assert [letter.data for letter in await letters(queue)] == [b"c"]


async def test_discard_takes_what_is_queued_and_not_claimed_or_what_is_dead(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await buried(queue, b"dead")
        await fill(queue, *(b"%d" % number for number in range(20)), records=3)
        taken = queue.claim(most_records=15, most_bytes=1000)
        queue.give_back(taken[1:2])
        assert await queue.discard(queued=True, dead=False) == (16, 48)
        assert queue.claim(**LOTS) == ()
        depth = queue.depth()
        assert (depth.batches, depth.claimed, depth.dead_batches) == (4, 4, 1)
        assert await queue.payload(taken[0]) == b"0"
        assert await queue.discard(queued=False, dead=True) == (1, 2)
        assert (await letters(queue), queue.depth().dead_batches) == ([], 0)
        await fill(queue, b"next")
        assert await payloads(queue) == [b"next"]
        queue.delivered([taken[0], *taken[2:]])
        assert queue.depth().batches == 1
        assert await queue.discard(queued=True, dead=True) == (0, 0)


async def shown(queue: Queue) -> list[DeadLetter]:
    async with contextlib.aclosing(queue.dead_letters()) as found:
        return [one async for one in found]


async def test_dead_letters_are_shown_oldest_first_with_the_beginning_of_their_bytes(opener: Opener) -> None:
    large = b"x" * (2 * HEAD_BYTES)
    async with opener(Wanted()) as queue:
        assert await shown(queue) == []
        await buried(queue, b"a", large, b"c")
        found = await shown(queue)
        told = [(one.records, one.size, one.buried_at, one.taken_at, one.final_failure) for one in found]
        assert told == [(2, size, NOW, NOW, FINAL_FAILURE) for size in (1, len(large), 1)]
        assert [one.head for one in found] == [b"a", large[: len(found[1].head)], b"c"]
        assert HEAD_BYTES - 1_000 < len(found[1].head) <= HEAD_BYTES
        assert found[0].number < found[1].number < found[2].number
        assert await shown(queue) == found


async def test_one_dead_letter_is_replayed_or_discarded_by_its_number(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await buried(queue, b"a", b"b", b"c")
        first, second, third = await shown(queue)
        assert await queue.replay(outages_only=False, number=second.number) == (1, 2)
        assert [await queue.payload(batch) for batch in await claimed(queue)] == [b"b"]
        assert await queue.discard(queued=False, dead=True, number=first.number) == (1, 2)
        assert await shown(queue) == [third]
        for gone in (first.number, second.number, third.number + 1, 0):
            assert await queue.replay(outages_only=False, number=gone) == (0, 0)
            assert await queue.discard(queued=False, dead=True, number=gone) == (0, 0)
        assert (queue.depth().dead_batches, queue.depth().dead_records) == (1, 2)


async def test_the_number_of_a_dead_letter_is_not_used_again(opener: Opener) -> None:
    numbers = set[int]()
    for at in (NOW, NOW + 10):
        async with opener(Wanted()) as queue:
            await buried(queue, b"a", b"b", at=at)
            found = [one.number for one in await shown(queue)]
            assert numbers.isdisjoint(found)
            numbers.update(found)
            await queue.discard(queued=False, dead=True)
    assert len(numbers) == 4


async def test_dead_letters_expire_by_their_time_of_death(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await buried(queue, b"old", at=NOW)
        await buried(queue, b"jumped", at=NOW + 99)  # the clock was ahead
        await buried(queue, b"old too", at=NOW)
        await buried(queue, b"new", at=NOW + 10)
        assert await queue.expire(before=NOW + 10) == (2, 4)
        assert [letter.data for letter in await letters(queue)] == [b"jumped", b"new"]
        assert queue.depth().dead_oldest == NOW + 10


async def test_a_dead_letter_that_is_replayed_and_dies_again_is_a_new_one(opener: Opener) -> None:
    async with opener(Wanted()) as queue:
        await buried(queue, b"again", at=NOW)
        assert await queue.replay(outages_only=False) == (1, 2)
        [batch] = await claimed(queue)
        await queue.bury(batch, [b"again"], FINAL_FAILURE._replace(at=NOW + 50), records=2)
        assert queue.depth().dead_oldest == NOW + 50
        assert await queue.expire(before=NOW + 50) == (0, 0)
        assert await queue.expire(before=NOW + 51) == (1, 2)


async def test_small_appends_that_may_join_are_one_batch_on_disk_and_each_hears_of_it(tmp_path: Path) -> None:
    async with places.opened(tmp_path) as queue:
        first = [queue.append([text], records=1, at=NOW, joins=True) for text in (b"a", b"b")]
        alone = queue.append([b"c"], records=1, at=NOW)
        large = queue.append([bytes(appender.JOINED_BYTES)], records=1, at=NOW, joins=True)
        many = queue.append([b"d"], records=appender.JOINED_RECORDS, at=NOW, joins=True)
        await asyncio.gather(*first, alone, large, many)
        assert [batch.records for batch in await claimed(queue)] == [2, 1, 1, appender.JOINED_RECORDS]
        assert queue.depth().records == 4 + appender.JOINED_RECORDS
