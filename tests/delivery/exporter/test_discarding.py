"""Discarding: everything that is not in flight, even batches that wait for another attempt."""

import threading
from collections.abc import Callable

import pytest

from reconciler.delivery.exporter import Exporter
from reconciler.delivery.queue.contract import Queue
from reconciler.model.routes import Retry
from tests.delivery.exporter.worlds import (
    Time,
    destination,
    exporting,
    pass_time,
    put,
    quiet,
    sent,
    settle,
    single,
    when_told,
)
from tests.servers import sinks
from tests.servers.sinks import Sink

pytestmark = pytest.mark.anyio


async def discarded(exporter: Exporter, queue: Queue) -> tuple[int, int]:
    """Batches and records, as whoever asks for it is told."""
    settled = exporter.withdraw()
    batches, records = await queue.discard(queued=True, dead=False)
    return batches, records - settled


async def test_what_waits_for_an_endpoint_that_is_down_is_discarded(queue: Queue) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with exporting(destination(sink.port, retry=Retry()), queue, environment=time.environment()) as exporter:
            for number in range(8):
                await put(queue, [str(number), "more"])
                await pass_time(time, exporter, seconds=1)
            assert queue.depth().claimed
            assert await discarded(exporter, queue) == (8, 16)
            assert (queue.depth().batches, exporter.waiting) == (0, 0)
            assert await discarded(exporter, queue) == (0, 0)

            sink.script(sinks.says(200))
            await pass_time(time, exporter, seconds=120)
            assert sink.records == []
            await put(queue, ["next"])
            await pass_time(time, exporter, seconds=60)
            assert sink.records == ["next"]


@pytest.mark.parametrize("consumers", [1, 2])
async def test_what_is_taken_after_a_discard_does_not_wait_for_what_is_gone(queue: Queue, consumers: int) -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(429, headers=(("Retry-After", "3600"),)), sinks.says(200))
        wanted = destination(sink.port, consumers=consumers, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["1"])
            await settle(lambda: exporter.waiting == 1)
            assert await discarded(exporter, queue) == (1, 1)
            await quiet()
            await put(queue, ["2"])
            await sent(exporter)

    assert sink.records == [2]


async def test_what_is_in_flight_is_neither_discarded_nor_counted_and_arrives_once(queue: Queue) -> None:
    time, told = Time(), threading.Event()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(409) if b"waits" in one.body else when_told(told, 200))
        wanted = destination(sink.port, consumers=2, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["waits"])
            await settle(lambda: exporter.waiting == 1)
            await put(queue, ["goes"])
            await settle(lambda: sink.busy == 1 and goes(sink))
            assert await discarded(exporter, queue) == (1, 1)
            assert await discarded(exporter, queue) == (0, 0)
            told.set()
            await sent(exporter)
            await pass_time(time, exporter, seconds=60)

    assert sink.records == ["goes"]


def goes(sink: Sink) -> bool:
    """Return True if the record that arrives in the end was sent."""
    return any(one.body in (b'"goes"', b'["goes"]') for one in sink.received)


@pytest.mark.parametrize("form", [lambda wanted: wanted, single], ids=["array", "single"])
async def test_a_batch_that_is_in_flight_in_part_is_spared_and_what_of_it_waits_goes_on_waiting(
    queue: Queue,
    form: Callable,  # type: ignore[type-arg]
) -> None:
    time, told = Time(), threading.Event()
    with sinks.listening() as sink:
        sink.choose(lambda one: sinks.says(400) if b"waits" in one.body else when_told(told, 200))
        wanted = form(destination(sink.port, consumers=2, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["waits", "goes"])
            await settle(lambda: sink.busy == 1 and goes(sink) and exporter.shown().last_failure is not None)
            tried = len(sink.received)
            assert await discarded(exporter, queue) == (0, 0)
            told.set()
            await settle(lambda: exporter.waiting == 1 and exporter.in_flight == 0)
            await quiet()
            assert ([one.body for one in sink.received[tried:]], sink.records) == ([], ["goes"])
            assert await discarded(exporter, queue) == (1, 1)  # the other of its two records arrived
            await pass_time(time, exporter, seconds=60)

    assert sink.records == ["goes"]
    assert queue.depth().batches == 0
