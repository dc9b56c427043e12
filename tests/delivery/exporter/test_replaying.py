"""Dead letters of an outage are sent again when it is over, whether or not records come."""

import pytest

from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.reporting import ExporterState
from reconciler.model.routes import Retry
from tests.delivery.exporter.worlds import Time, destination, exporting, pass_time, put, quiet, settle
from tests.servers import sinks

pytestmark = pytest.mark.anyio

SHORT = Retry(max_interval=30.0, max_elapsed=1.0)
OFF = Retry(enabled=False)


async def test_without_records_one_is_sent_again_now_and_then_and_all_when_it_arrives(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = destination(sink.port, retry=SHORT)
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            for number in range(3):
                await put(queue, [str(number)])
                await settle(lambda number=number: queue.depth().dead_batches == number + 1)  # type: ignore[misc]
            await settle(lambda: exporter.shown().state is ExporterState.IDLE)
            assert len(sink.received) == 3

            await pass_time(time, exporter, seconds=30.5)
            await settle(lambda: len(sink.received) == 4 and queue.depth().dead_batches == 3)  # and it failed again

            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=25)
            assert sink.records == []
            await pass_time(time, exporter, seconds=10)
            await settle(lambda: len(sink.records) == 3)
            await settle(lambda: queue.depth()._replace(disk=0, limited=0) == type(queue.depth())())

    assert sorted(sink.records) == [0, 1, 2]
    assert time.next is None or time.next > time.now  # nothing rings for ever


async def test_those_of_a_process_before_are_sent_again_without_records(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with exporting(destination(sink.port, retry=SHORT), queue, environment=time.environment()):
            await put(queue, ["1"])
            await settle(lambda: queue.depth().dead_batches == 1)
        sink.script(sinks.says(200))
        async with exporting(destination(sink.port, retry=SHORT), queue, environment=time.environment()) as exporter:
            await pass_time(time, exporter, seconds=31)
            await settle(lambda: sink.records == [1])


async def test_without_retries_too_an_endpoint_that_is_down_is_asked_with_a_dead_letter(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with exporting(destination(sink.port, retry=OFF), queue, environment=time.environment()) as exporter:
            for number in range(5):
                await put(queue, [str(number)])
                await settle(lambda number=number: queue.depth().dead_batches == number + 1)  # type: ignore[misc]
            assert exporter.shown().state is ExporterState.DOWN
            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=61)
            await settle(lambda: len(sink.records) == 5)
            assert exporter.shown().state is not ExporterState.DOWN

    assert queue.depth().dead_batches == 0


async def test_those_that_say_something_against_the_records_are_let_lie(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(415), sinks.says(200))
        async with exporting(destination(sink.port, retry=OFF), queue, environment=time.environment()):
            await put(queue, ["1"])
            await settle(lambda: queue.depth().dead_batches == 1)
        async with exporting(destination(sink.port, retry=SHORT), queue, environment=time.environment()) as exporter:
            await pass_time(time, exporter, seconds=31)
            await quiet()
            await pass_time(time, exporter, seconds=600)
            await settle(lambda: time.next is None)

    assert (len(sink.received), queue.depth().dead_batches) == (1, 1)
