"""A made-up record that a person sends: one that arrives proves the endpoint well, and what waits for it goes."""

import asyncio
import logging
import threading
from dataclasses import replace

import pytest

from reconciler.delivery.exporter import Exporter, Undelivered
from reconciler.delivery.reporting import ExporterState
from reconciler.model.routes import Retry
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import Time, destination, exporting, otlp, put, settle, when_told
from tests.servers import sinks
from tests.servers.sinks import Sink

pytestmark = pytest.mark.anyio

AN_HOUR = sinks.says(503, headers=(("Retry-After", "3600"),))


@pytest.fixture
def time() -> Time:
    return Time()


async def refuse(exporter: Exporter, *, times: int) -> None:
    """Send without a queue, to an endpoint that takes nothing."""
    for _ in range(times):
        with pytest.raises(Undelivered):
            await exporter.deliver([otlp("0")])


async def let_fail(exporter: Exporter, queue: ListQueue, *, batches: int) -> None:
    """Queue one after the other, each until it failed."""
    for number in range(batches):
        await put(queue, [str(number)])
        await settle(lambda: exporter.in_flight == 0 and not queue.unclaimed)


async def test_without_a_queue_it_ends_the_outage(sink: Sink, time: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sink.script(AN_HOUR)
    wanted = destination(sink.port, queue=False, retry=Retry())
    async with exporting(wanted, None, environment=time.environment()) as exporter:
        await refuse(exporter, times=6)
        assert (exporter.shown().state, len(sink.received)) == (ExporterState.DOWN, 5)

        sink.script(sinks.says(200))
        assert (await exporter.test()).delivered
        assert (exporter.shown().state, exporter.shown().message) == (ExporterState.IDLE, "")
        await exporter.deliver([otlp("1")])

    assert sink.records[1:] == [1]
    assert caplog.records[-1].getMessage() == "The endpoint of siem in the project acme is back; sending goes on."


def told(exporter: Exporter) -> tuple[object, ...]:
    """All that is shown of it."""
    shown = exporter.shown()
    return shown.state, shown.message, shown.since, replace(shown.counts), shown.last_success, shown.last_failure


async def test_one_that_fails_changes_nothing(sink: Sink, time: Time) -> None:
    sink.script(AN_HOUR)
    wanted = destination(sink.port, queue=False, retry=Retry())
    async with exporting(wanted, None, environment=time.environment()) as exporter:
        await refuse(exporter, times=5)
        before = told(exporter)
        assert not (await exporter.test()).delivered
        assert told(exporter) == before
        await refuse(exporter, times=1)

    assert len(sink.received) == 6


@pytest.mark.parametrize(("batches", "state"), [(1, ExporterState.WAITING), (5, ExporterState.DOWN)])
@pytest.mark.parametrize("consumers", [1, 10])
async def test_what_the_endpoint_asked_to_wait_an_hour_for_goes_at_once(
    sink: Sink, time: Time, batches: int, state: ExporterState, consumers: int
) -> None:
    queue = ListQueue()
    sink.script(AN_HOUR, *[sinks.says(503)] * 4)
    wanted = destination(sink.port, retry=Retry(), consumers=10)
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await let_fail(exporter, queue, batches=batches)
        assert exporter.shown().state is state
        exporter.change(destination(sink.port, retry=Retry(), consumers=consumers))

        sink.script(sinks.says(200))
        assert (await exporter.test()).delivered
        await settle(lambda: not queue.batches)
        await settle(lambda: exporter.shown().state is ExporterState.IDLE)

    assert (time.now, sorted(sink.records[1:])) == (0.0, [*range(batches)])


async def test_dead_letters_of_the_outage_are_queued_again(sink: Sink, time: Time) -> None:
    queue = ListQueue()
    sink.script(sinks.says(503))
    wanted = destination(sink.port, retry=Retry(enabled=False))
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await let_fail(exporter, queue, batches=5)
        await settle(lambda: len(queue.dead) == 5)

        sink.script(sinks.says(200))
        await exporter.test()
        await settle(lambda: len(sink.records) == 6)

    assert (sorted(sink.records[1:]), queue.dead) == ([*range(5)], {})


async def test_one_that_arrived_at_another_endpoint_than_there_is_now_proves_nothing(sink: Sink, time: Time) -> None:
    told = threading.Event()
    sink.script(AN_HOUR)
    async with exporting(
        destination(sink.port, queue=False, retry=Retry()), None, environment=time.environment()
    ) as exporter:
        await refuse(exporter, times=5)
        sink.script(when_told(told, 200))
        late = asyncio.create_task(exporter.test())
        await settle(lambda: len(sink.received) == 6)
        exporter.change(destination(sink.port, queue=False, retry=Retry(), path="/other"))
        told.set()
        assert (await late).delivered
        assert exporter.shown().state is ExporterState.DOWN
