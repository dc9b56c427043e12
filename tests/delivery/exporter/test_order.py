"""With one consumer records arrive at the endpoint in the order in which they came."""

import random
from collections.abc import Callable

import pytest

from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.reporting import ExporterState
from reconciler.model.routes import Retry
from tests.delivery.exporter.worlds import Time, attempts, destination, exporting, pass_time, put, sent, settle, single
from tests.servers import sinks
from tests.servers.sinks import Received, Reply

pytestmark = pytest.mark.anyio


async def put_apart(queue: Queue, *batches: list[str]) -> None:
    for texts in batches:
        await put(queue, texts)


def flaky(seed: int, *statuses: int) -> Callable[[Received], Reply]:
    """Every request may fail, with any of these."""
    chance = random.Random(seed)  # noqa: S311
    return lambda _: sinks.says(chance.choice([200, 200, *statuses]))


@pytest.mark.parametrize("form", [lambda wanted: wanted, single], ids=["array", "single"])
async def test_nothing_overtakes_what_waits_for_another_attempt(queue: Queue, form: Callable) -> None:  # type: ignore[type-arg]
    time = Time()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(409 if b"first" in one.body and time.now < 5 else 200))
        wanted = form(destination(sink.port, consumers=1, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["first"])
            await settle(lambda: exporter.waiting == 1)
            await put_apart(queue, ["second"], ["third", "fourth"])
            await pass_time(time, exporter, seconds=2)
            assert (sink.records, exporter.shown().state) == ([], ExporterState.WAITING)
            await pass_time(time, exporter, seconds=30)

    assert sink.records == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize("statuses", [(400,), (409, 429), (503,), (400, 413, 500, 302)])
@pytest.mark.parametrize("form", [lambda wanted: wanted, single], ids=["array", "single"])
async def test_whatever_fails_records_arrive_in_their_order(
    queue: Queue,
    form: Callable,  # type: ignore[type-arg]
    statuses: tuple[int, ...],
) -> None:
    time = Time()
    texts = [f"{number:03}" for number in range(60)]
    with sinks.listening() as sink:
        sink.choose(flaky(len(statuses), *statuses))
        wanted = form(destination(sink.port, consumers=1, retry=Retry(max_elapsed=0.0)))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put_apart(queue, texts[:20], texts[20:21], texts[21:40])
            await pass_time(time, exporter, seconds=20)
            await put_apart(queue, texts[40:50], texts[50:])
            await pass_time(time, exporter, seconds=4 * 3600)

    assert sink.records == texts
    assert queue.depth().batches == 0


@pytest.mark.parametrize("form", [lambda wanted: wanted, single], ids=["array", "single"])
async def test_a_record_that_is_refused_holds_the_line_until_it_is_given_up(queue: Queue, form: Callable) -> None:  # type: ignore[type-arg]
    time = Time()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(400 if b"bad" in one.body else 200))
        wanted = form(destination(sink.port, consumers=1, retry=Retry(max_elapsed=60.0)))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put_apart(queue, ["a", "b", "bad", "c"], ["d"])
            await pass_time(time, exporter, seconds=20)
            assert sink.records == ["a", "b"]
            await pass_time(time, exporter, seconds=70)

    assert sink.records == ["a", "b", "c", "d"]
    assert (queue.depth().batches, queue.depth().dead_records) == (0, 1)


async def test_an_endpoint_that_is_down_is_asked_with_what_came_first(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = destination(sink.port, consumers=1, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["1"])
            await pass_time(time, exporter, seconds=300)
            assert exporter.shown().state is ExporterState.DOWN
            await put_apart(queue, ["2"], ["3"])
            await pass_time(time, exporter, seconds=300)
            assert {one.body for one in sink.received} == {b"[1]"}
            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=60)

    assert sink.records == [1, 2, 3]


async def test_what_waits_comes_into_line_when_there_is_one_consumer_from_now_on(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(409))
        many = destination(sink.port, consumers=3, retry=Retry())
        async with exporting(many, queue, environment=time.environment()) as exporter:
            for number in (1, 2, 3):
                await put(queue, [str(number)])
                await settle(lambda number=number: exporter.waiting == number)  # type: ignore[misc]
            exporter.change(destination(sink.port, consumers=1, retry=Retry()))
            await put(queue, ["4"])
            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=60)

    assert sink.records == [1, 2, 3, 4]


async def test_records_that_wait_for_an_outage_to_end_come_into_line_too(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with exporting(
            single(destination(sink.port, consumers=3, retry=Retry())), queue, environment=time.environment()
        ) as exporter:
            await put(queue, [str(number) for number in range(10)])
            await pass_time(time, exporter, seconds=100)
            assert exporter.shown().state is ExporterState.DOWN
            exporter.change(single(destination(sink.port, consumers=1, retry=Retry())))
            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=60)

    assert sink.records == [*range(10)]


async def test_batches_that_did_not_arrive_whole_go_whole_and_in_order_after_a_restart(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(503 if one.json in ("b", "d") else 200))
        wanted = single(destination(sink.port, consumers=4, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put_apart(queue, ["a", "b"], ["c"], ["d", "e"])
            await settle(lambda: exporter.waiting == 2 and exporter.in_flight == 0)
        assert sorted(sink.records) == ["a", "c", "e"]

        await put(queue, ["f"])
        sink.script(sinks.says(200))
        async with exporting(destination(sink.port, consumers=1), queue) as exporter:
            await sent(exporter)

    assert sink.records[3:] == ["a", "b", "d", "e", "f"]
    assert attempts(sink)[-1] == "1"
