"""Sending without a queue: how many requests one call makes, and how long it takes, whatever the endpoint does."""

import asyncio
import random
import threading
from datetime import UTC, datetime

import pytest

from reconciler.delivery.breaker import SendEnvironment
from reconciler.delivery.exporter import Undelivered
from reconciler.delivery.reporting import ExporterState
from reconciler.model.routes import Retry, Schedule
from tests.delivery.exporter.worlds import (
    Time,
    destination,
    exporting,
    otlp,
    refusing_for_an_hour,
    settle,
    single,
    when_told,
)
from tests.servers import sinks

pytestmark = pytest.mark.anyio


def hasty() -> SendEnvironment:
    return SendEnvironment(random=random.Random(7), patience=0.2)  # noqa: S311


async def test_single_sends_no_more_after_a_failure_of_an_outage() -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(200), sinks.says(503))
        wanted = single(destination(sink.port, queue=False, consumers=10, retry=Retry()))
        async with exporting(wanted, None) as exporter:
            with pytest.raises(Undelivered, match=r"^499 of 500 records did not arrive: .* answered 503"):
                await exporter.deliver([otlp(*map(str, range(500)))])

    assert len(sink.received) == 2


async def test_single_waits_once_for_an_endpoint_that_fell_silent() -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(200), sinks.silent())
        wanted = single(destination(sink.port, queue=False, consumers=10, timeout=1.0))
        async with exporting(wanted, None) as exporter:
            with pytest.raises(Undelivered, match=r"^299 of 300 records did not arrive: .* in time"):
                await exporter.deliver([otlp(*map(str, range(300)))])

    assert len(sink.received) == 2


async def test_all_of_a_call_has_a_limit_of_time_however_slowly_each_record_is_taken() -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.05))
        wanted = single(destination(sink.port, queue=False, consumers=1, timeout=1.0))
        async with exporting(wanted, None, environment=hasty()) as exporter:
            with pytest.raises(Undelivered, match=r"did not get all of the records of a request within 1\.2 s; send"):
                await exporter.deliver([otlp(*map(str, range(1000)))])
            shown = exporter.shown()
            assert (exporter.in_flight, shown.state) == (0, ExporterState.IDLE)
            assert shown.last_failure is not None
            assert "within 1.2 s" in shown.last_failure.cause
            assert 2 <= shown.counts.delivered <= 24

            sink.script(sinks.says(200))
            await exporter.deliver([otlp("next")])
    assert sink.records[-1] == "next"


async def test_single_sends_no_more_once_the_window_is_closed() -> None:
    time = Time()
    begins = datetime.fromtimestamp(time.clock() / 1000, UTC)
    schedule = Schedule(cron=f"{begins.minute} {begins.hour} * * *", window=1)

    def choose(request: sinks.Received) -> sinks.Reply:
        if request.body == b"2":
            time.jump = 3600.0
        return sinks.says(200)

    with sinks.listening() as sink:
        sink.choose(choose)
        wanted = single(destination(sink.port, queue=False, consumers=1, schedule=schedule))
        async with exporting(wanted, None, environment=time.environment()) as exporter:
            with pytest.raises(Undelivered, match=r"^The delivery window of siem is closed"):
                await exporter.deliver([otlp(*map(str, range(10)))])

    assert sink.records == [0, 1, 2]


async def test_a_probe_whose_sender_went_away_lets_the_next_one_go_at_once() -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(*[sinks.says(503)] * 5, sinks.silent())
        wanted = destination(sink.port, queue=False, retry=Retry())
        async with exporting(wanted, None, environment=time.environment()) as exporter:
            for _ in range(5):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1")])
            time.advance(10.0)
            gone = asyncio.create_task(exporter.deliver([otlp("2")]))
            await settle(lambda: len(sink.received) == 6)
            with pytest.raises(Undelivered):
                await exporter.deliver([otlp("3")])
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            sink.script(sinks.says(200))
            await exporter.deliver([otlp("4")])
            assert exporter.shown().state is ExporterState.IDLE

    assert sink.records == [4]


async def test_a_probe_that_fails_makes_the_next_one_wait() -> None:
    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = single(destination(sink.port, queue=False, retry=Retry()))
        async with exporting(wanted, None, environment=time.environment()) as exporter:
            for _ in range(5):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1", "2")])
            time.advance(10.0)
            for _ in range(3):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1", "2")])

    assert [one.json for one in sink.received] == [1] * 6


async def test_a_corrected_endpoint_is_not_kept_waiting_for_what_another_one_asked_for() -> None:
    with sinks.listening() as wrong, sinks.listening() as right:
        wrong.script(sinks.says(503, headers=(("Retry-After", "3600"),)))
        async with exporting(destination(wrong.port, queue=False, retry=Retry()), None) as exporter:
            for _ in range(5):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1")])
            exporter.change(destination(right.port, queue=False, retry=Retry()))
            await exporter.deliver([otlp("1")])
    assert (len(wrong.received), right.records) == (5, [1])


async def test_a_corrected_endpoint_is_not_kept_waiting_for_what_another_one_asks_for_late() -> None:
    told = threading.Event()
    with sinks.listening() as wrong, sinks.listening() as right:
        wrong.script(*[sinks.says(503)] * 4, refusing_for_an_hour(told))
        async with exporting(destination(wrong.port, queue=False, retry=Retry()), None) as exporter:
            for _ in range(4):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1")])
            delivering = asyncio.create_task(exporter.deliver([otlp("1")]))
            await settle(lambda: len(wrong.received) == 5)
            exporter.change(destination(right.port, queue=False, retry=Retry()))
            told.set()
            with pytest.raises(Undelivered):
                await delivering
            await exporter.deliver([otlp("1")])
    assert right.records == [1]


async def test_the_rest_of_a_call_is_no_probe_of_an_endpoint_that_was_corrected_meanwhile() -> None:
    told = threading.Event()
    with sinks.listening() as wrong, sinks.listening() as right:
        wrong.script(sinks.says(200), when_told(told, 503), sinks.says(503))
        wanted = destination(wrong.port, queue=False, consumers=1, retry=Retry())
        async with exporting(single(wanted), None) as exporter:
            delivering = asyncio.create_task(exporter.deliver([otlp(*map(str, range(30)))]))
            await settle(lambda: len(wrong.received) == 2)
            exporter.change(single(destination(right.port, queue=False, consumers=1, retry=Retry())))
            told.set()
            with pytest.raises(Undelivered, match=r"^29 of 30 records did not arrive"):
                await delivering
            await exporter.deliver([otlp("1")])
    assert (len(wrong.received), right.records) == (2, [1])
