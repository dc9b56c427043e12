"""Of the format `single` each record is tried again, and given up, by itself."""

from collections import defaultdict

import pytest

from reconciler.delivery.queue.contract import FinalFailure, Queue, QueueFault, Reason
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.model.routes import Retry
from tests.delivery.exporter.worlds import Time, bodies, destination, exporting, pass_time, put, quiet, settle, single
from tests.delivery.queue import places
from tests.servers import sinks
from tests.servers.sinks import Received, Reply

pytestmark = pytest.mark.anyio

OFF = Retry(enabled=False)


async def letters(queue: Queue) -> list[tuple[FinalFailure, list[str]]]:
    found = await places.letters(queue)
    return [(letter.final_failure, bodies(letter.data)) for letter in found if letter.final_failure and letter.data]


@pytest.mark.parametrize("consumers", [2, 10])
async def test_a_retry_after_of_one_record_delays_no_other(queue: Queue, consumers: int) -> None:
    time = Time()
    came: dict[str, list[float]] = defaultdict(list)

    def choose(request: Received) -> Reply:
        text = request.json
        came[text].append(time.now)
        if len(came[text]) > 1 or text == "fine":
            return sinks.says(200)
        return sinks.says(500) if text == "hiccup" else sinks.says(429, headers=(("Retry-After", "120"),))

    with sinks.listening() as sink:
        sink.choose(choose)
        wanted = single(destination(sink.port, consumers=consumers, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["limited", "hiccup", "fine"])
            await pass_time(time, exporter, seconds=300)

    assert sink.records == ["fine", "hiccup", "limited"]
    assert came["hiccup"][1] < 10
    assert came["limited"] == [0.0, 120.0]
    assert queue.depth().batches == 0


async def test_each_record_has_a_final_failure_of_its_own_and_only_an_outages_is_replayed(queue: Queue) -> None:
    time = Time()

    def choose(request: Received) -> Reply:
        if b"poison" in request.body:
            return sinks.says(400, body=b"what is that")
        return sinks.says(503, body=b"busy") if b"busy" in request.body else sinks.says(200)

    with sinks.listening() as sink:
        sink.choose(choose)
        wanted = single(destination(sink.port, consumers=2, retry=Retry(max_elapsed=60.0)))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["poison", "busy", "fine", "poison too"])
            await settle(lambda: bool(sink.records))
            while not queue.depth().dead_batches:
                await pass_time(time, exporter, seconds=1)
            found = {final_failure.status: (final_failure, texts) for final_failure, texts in await letters(queue)}

    assert sink.records == ["fine"]
    refused, left = found[400]
    assert (refused.reason, refused.answer, refused.outage, left) == (
        Reason.GIVEN_UP,
        b"what is that",
        False,
        ["poison", "poison too"],
    )
    assert "does not take these records" in refused.cause
    down, left = found[503]
    assert (down.reason, down.answer, down.outage, left) == (Reason.GIVEN_UP, b"busy", True, ["busy"])
    assert (len(found), queue.depth().dead_batches, queue.depth().dead_records) == (2, 2, 3)
    assert (queue.depth().batches, exporter.shown().counts.dead) == (0, 3)


async def test_a_record_that_was_not_tried_is_not_given_up_with_those_that_were(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(409), sinks.says(200))
        wanted = single(destination(sink.port, consumers=1, retry=OFF))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["a", "b", "c"])
            await pass_time(time, exporter, seconds=10)

    assert sink.records == ["b", "c"]
    assert [texts for _, texts in await letters(queue)] == [["a"]]


class Grudging(MemoryQueue):
    """Takes so many dead letters, and then none for once."""

    takes = 1

    def bury(self, *args: object, **more: object):  # type: ignore[no-untyped-def]
        self.takes -= 1
        if self.takes == -1:
            raise QueueFault("The disk is full.")
        return super().bury(*args, **more)  # type: ignore[arg-type]


async def test_of_several_dead_letters_each_is_written_once_though_the_disk_refuses_one() -> None:
    queue, time = Grudging(max_batches=10, max_bytes=1 << 20), Time()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(int(one.json)))
        wanted = single(destination(sink.port, consumers=3, retry=OFF))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["409", "415", "422", "200"])
            await settle(lambda: queue.takes == -1)
            await quiet()
            assert (queue.depth().batches, queue.depth().dead_batches) == (1, 1)
            await pass_time(time, exporter, seconds=31)
            assert exporter.shown().counts.dead == 3

    assert sorted(texts for _, texts in await letters(queue)) == [["409"], ["415"], ["422"]]
    assert queue.depth().batches == 0
    assert len(sink.received) == 4


async def test_an_outage_does_not_take_a_batch_apart(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = single(destination(sink.port, consumers=4, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, [str(number) for number in range(200)])
            await pass_time(time, exporter, seconds=3600)
            assert exporter.waiting == 1
            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=60)

    assert sorted(sink.records) == list(range(200))
