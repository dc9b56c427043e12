"""An exporter over a queue, against an endpoint on loopback."""

import asyncio
import json
import logging

import msgspec
import pytest

from reconciler.delivery.queue.contract import Reason
from reconciler.delivery.reporting import ExporterState
from reconciler.model.routes import Retry
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import (
    BEGAN,
    NO_TIME_AT_ALL,
    Time,
    attempts,
    bodies,
    destination,
    exporting,
    otlp,
    pass_time,
    put,
    quiet,
    sent,
    settle,
    single,
)
from tests.servers import sinks
from tests.servers.sinks import Received, Reply

pytestmark = pytest.mark.anyio

OFF = Retry(enabled=False)


def poison(*texts: str, status: int = 400) -> object:
    """Refuse what holds one of these."""

    def choose(request: Received) -> Reply:
        return sinks.says(status if any(text in request.body.decode() for text in texts) else 200)

    return choose


# Posting


async def test_what_is_queued_is_posted_as_one_array_and_leaves_the_queue() -> None:
    queue = ListQueue()
    await put(queue, ['{"a":1}', "plain"], ["3"])
    with sinks.listening() as sink:
        async with exporting(destination(sink.port, headers=(("Authorization", "Bearer x"),)), queue) as exporter:
            await sent(exporter)

            (request,) = sink.received
            assert (request.method, request.path, request.json) == ("POST", "/hook", [{"a": 1}, "plain", 3])
            assert request.header("Content-Type") == "application/json"
            assert request.header("Authorization") == "Bearer x"
            assert request.header("X-Service-Delivery-Id") == f"acme/siem/{BEGAN:x}:1-2"
            assert request.header("X-Service-Attempt") == "1"
            assert request.header("User-Agent") == "reconciler/0.1.0"
            assert exporter.shown().counts.delivered == 3
    assert queue.batches == {}


async def test_batches_are_merged_up_to_the_limit_of_records() -> None:
    queue = ListQueue()
    await put(queue, *([f"{one}-{two}" for two in range(300)] for one in range(5)))
    with sinks.listening() as sink:
        async with exporting(destination(sink.port, consumers=1), queue) as exporter:
            await sent(exporter)

    assert [len(one.json) for one in sink.received] == [900, 600]
    assert sink.records == [f"{one}-{two}" for one in range(5) for two in range(300)]


async def test_a_batch_without_records_makes_no_request() -> None:
    queue = ListQueue()
    await put(queue, [])
    with sinks.listening() as sink:
        async with exporting(destination(sink.port), queue) as exporter:
            await sent(exporter)
            assert sink.received == []
            assert exporter.shown().counts.delivered == 0


async def test_no_more_requests_are_in_flight_than_there_are_consumers() -> None:
    queue = ListQueue()
    await put(queue, *([str(one)] * 900 for one in range(12)))
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.02))
        async with exporting(destination(sink.port, consumers=3), queue) as exporter:
            await sent(exporter)
            assert sink.most_busy == 3


async def test_what_arrives_later_is_sent_too_and_small_batches_that_come_close_together_go_together() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        environment = time.environment(linger=0.005)
        async with exporting(destination(sink.port), queue, environment=environment) as exporter:
            for one in range(5):
                await put(queue, [str(one)])
            await settle(lambda: len(sink.received) == 1)
            await put(queue, ["5"])
            await settle(lambda: exporter.in_flight == 0)
            await quiet()
            await put(queue, ["6"])
            await pass_time(time, exporter, seconds=0.01)
            await sent(exporter)

            assert [one.json for one in sink.received] == [[0, 1, 2, 3, 4], [5, 6]]


async def test_changed_settings_count_from_the_next_request_on() -> None:
    queue = ListQueue()
    with sinks.listening() as before, sinks.listening() as after:
        async with exporting(destination(before.port), queue) as exporter:
            await put(queue, ["1"])
            await sent(exporter)
            exporter.change(single(destination(after.port, consumers=2, verb="PUT")))
            await put(queue, ["2", "3"])
            await sent(exporter)

    assert [one.json for one in before.received] == [[1]]
    assert sorted((one.method, one.json) for one in after.received) == [("PUT", 2), ("PUT", 3)]


# Failures


async def test_what_failed_is_sent_again_with_the_same_id_and_the_next_attempt() -> None:
    queue = ListQueue()
    await put(queue, ["1"], ["2"])
    with sinks.listening() as sink:
        sink.script(sinks.says(500), sinks.says(404), sinks.says(302), sinks.says(200))
        async with exporting(destination(sink.port), queue) as exporter:
            await sent(exporter)
            assert exporter.shown().counts.retried == 6

    assert attempts(sink) == ["1", "2", "3", "4"]
    assert len({(one.body, one.header("X-Service-Delivery-Id")) for one in sink.received}) == 1


async def test_a_waiting_batch_holds_no_consumer() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        sink.choose(poison("bad", status=415))  # type: ignore[arg-type]
        wanted = destination(sink.port, consumers=2, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            for number in (1, 2):
                await put(queue, ["bad"])
                await settle(lambda number=number: exporter.waiting == number)  # type: ignore[misc]
            await put(queue, ["good"])
            await settle(lambda: len(sink.accepted) == 1 and exporter.in_flight == 0)

            assert exporter.shown().state is ExporterState.WAITING
            assert sink.records == ["good"]


async def test_retry_off_buries_at_once_with_status_answer_and_cause() -> None:
    queue = ListQueue()
    await put(queue, ["1", "2"])
    with sinks.listening() as sink:
        sink.script(sinks.says(415, body=b"no such type" + b"x" * 5000))
        async with exporting(destination(sink.port, retry=OFF), queue) as exporter:
            await sent(exporter)
            assert (exporter.shown().counts.dead, exporter.shown().counts.delivered) == (2, 0)

    ((letter, payload),) = queue.dead.values()
    assert (letter.records, bodies(payload)) == (2, ["1", "2"])
    told = letter.final_failure
    assert (told.reason, told.status, told.attempts, told.outage) == (Reason.NO_RETRY, 415, 1, False)
    assert told.answer == (b"no such type" + b"x" * 5000)[:1024]
    assert "check `content_type`" in told.cause


async def test_what_is_retried_for_too_long_is_given_up_and_nothing_else() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        sink.choose(poison("bad"))  # type: ignore[arg-type]
        wanted = destination(sink.port, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["bad"])
            await pass_time(time, exporter, seconds=400)

            (letter, _) = queue.dead[1]
            assert (letter.final_failure.reason, letter.final_failure.outage) == (Reason.GIVEN_UP, False)
            assert 12 <= letter.final_failure.attempts <= 40


async def test_a_retry_after_beyond_the_longest_time_is_waited_for_and_not_counted() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(429, headers=(("Retry-After", "7200"),)), sinks.says(200))
        wanted = destination(sink.port, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["1"])
            await pass_time(time, exporter, seconds=3599)
            assert attempts(sink) == ["1"]
            await pass_time(time, exporter, seconds=2)

            assert attempts(sink) == ["1", "2"]
            assert (queue.dead, queue.batches) == ({}, {})


async def test_one_poison_record_takes_no_neighbour_along_and_costs_few_posts() -> None:
    queue, time = ListQueue(), Time()
    texts = [f"record-{number:04}" for number in range(1000)]
    with sinks.listening() as sink:
        sink.choose(poison("record-0613"))  # type: ignore[arg-type]
        wanted = destination(sink.port, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, texts)
            await settle(lambda: len(sink.records) == 999)
            assert len(sink.received) <= 1 + 2 * 10
            await pass_time(time, exporter, seconds=400)

            assert sorted(sink.records) == [text for text in texts if text != "record-0613"]
            ((letter, payload),) = queue.dead.values()
            assert (letter.records, bodies(payload), queue.batches) == (1, ["record-0613"], {})


async def test_a_poison_batch_takes_no_batch_along_that_was_merged_with_it() -> None:
    queue = ListQueue()
    await put(queue, *([f"batch-{number}"] for number in range(100)))
    with sinks.listening() as sink:
        sink.choose(poison("batch-42"))  # type: ignore[arg-type]
        async with exporting(destination(sink.port, retry=OFF), queue) as exporter:
            await sent(exporter)

    assert sorted(sink.records) == sorted(f"batch-{number}" for number in range(100) if number != 42)
    ((_, payload),) = queue.dead.values()
    assert bodies(payload) == ["batch-42"]


async def test_an_endpoint_that_refuses_everything_is_not_asked_for_every_record() -> None:
    queue = ListQueue()
    await put(queue, [str(number) for number in range(1000)])
    with sinks.listening() as sink:
        sink.script(sinks.says(400))
        async with exporting(destination(sink.port, retry=OFF), queue) as exporter:
            await sent(exporter)

    assert len(sink.received) <= 40
    ((letter, payload),) = queue.dead.values()
    assert (letter.records, len(bodies(payload))) == (1000, 1000)


async def test_what_is_too_large_is_sent_in_smaller_parts_and_the_size_is_remembered() -> None:
    queue = ListQueue()
    texts = [f"{number:04}" + "x" * 996 for number in range(200)]
    with sinks.listening() as sink:
        sink.choose(lambda request: sinks.says(413 if len(request.body) > 60_000 else 200))
        async with exporting(destination(sink.port, consumers=1), queue) as exporter:
            await put(queue, texts)
            await sent(exporter)
            before = len(sink.received)
            await put(queue, texts)
            await sent(exporter)

    assert sorted(sink.records) == sorted(texts * 2)
    assert [len(one.body) <= 60_000 for one in sink.received[before:]] == [True] * (len(sink.received) - before)


async def test_one_record_that_is_too_large_becomes_a_dead_letter_alone() -> None:
    queue = ListQueue()
    with sinks.listening() as sink:
        sink.choose(lambda request: sinks.says(413 if len(request.body) > 60_000 else 200))
        async with exporting(destination(sink.port, retry=OFF), queue) as exporter:
            await put(queue, ["a", "huge" + "x" * 70_000, "b"])
            await sent(exporter)

    assert sorted(sink.records) == ["a", "b"]
    ((_, payload),) = queue.dead.values()
    assert [text[:4] for text in bodies(payload)] == ["huge"]


async def test_a_dead_letter_that_the_disk_does_not_take_stays_claimed_and_is_tried_again() -> None:
    queue, time = ListQueue(), Time()
    queue.bury_faults = 2
    with sinks.listening() as sink:
        sink.script(sinks.says(415))
        wanted = destination(sink.port, retry=OFF)
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["1"])
            await settle(lambda: queue.bury_faults == 1)
            await quiet()
            assert (queue.claimed, queue.dead, exporter.shown().counts.dead) == ({1}, {}, 0)
            await exporter.stop(seconds=0)
            assert (queue.claimed, sorted(queue.batches)) == (set(), [1])

        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await settle(lambda: queue.bury_faults == 0)
            await quiet()
            await pass_time(time, exporter, seconds=61)

            assert len(sink.received) == 2
            assert (len(queue.dead), queue.batches, exporter.shown().counts.dead) == (1, {}, 1)


async def test_bytes_that_are_gone_are_told_and_take_no_other_batch_along(caplog: pytest.LogCaptureFixture) -> None:
    queue = ListQueue()
    await put(queue, ["1"], ["2"], ["3"])
    queue.lost = {2}
    with sinks.listening() as sink:
        async with exporting(destination(sink.port), queue) as exporter:
            await sent(exporter)

    assert sink.records == [1, 3]
    assert "is in quarantine" in caplog.text


async def test_what_is_no_request_becomes_a_dead_letter_and_takes_no_other_batch_along() -> None:
    queue = ListQueue()
    await put(queue, ["1"])
    await queue.append([b"\x0a\xff\xff\xff"], records=1, at=BEGAN)
    await put(queue, ["3"])
    with sinks.listening() as sink:
        async with exporting(destination(sink.port), queue) as exporter:
            await sent(exporter)

    assert sorted(sink.records) == [1, 3]
    ((letter, payload),) = queue.dead.values()
    assert (letter.final_failure.reason, payload) == (Reason.UNREADABLE, b"\x0a\xff\xff\xff")


# Ending


async def test_stopping_waits_for_what_is_in_flight_and_gives_the_rest_back() -> None:
    queue = ListQueue()
    await put(queue, *([str(one)] * 900 for one in range(4)))
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.1))
        async with exporting(destination(sink.port, consumers=2), queue) as exporter:
            await settle(lambda: sink.busy == 2)
            await exporter.stop(seconds=5)

    assert len(sink.accepted) == 2
    assert (sorted(queue.batches), queue.claimed) == ([3, 4], set())


async def test_stopping_does_not_wait_longer_than_it_may_and_loses_nothing() -> None:
    queue = ListQueue()
    await put(queue, ["1"], ["2", "3"])
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with exporting(single(destination(sink.port, consumers=2)), queue) as exporter:
            await settle(lambda: sink.busy == 2)
            await exporter.stop(seconds=0.05)

    assert (sorted(queue.batches), queue.claimed) == ([1, 2], set())


async def test_what_waits_is_given_back_and_the_next_process_begins_its_attempts_anew() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = destination(sink.port, retry=Retry())
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, ["1"])
            await pass_time(time, exporter, seconds=13)
        assert len(sink.received) > 1
        assert (sorted(queue.batches), queue.claimed) == ([1], set())

        sink.script(sinks.says(200))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await sent(exporter)
        assert attempts(sink)[-1] == "1"


# Single


async def test_single_posts_each_record_alone_with_an_id_of_its_own() -> None:
    queue = ListQueue()
    await put(queue, ['{"a":1}', "b"], ["c"])
    with sinks.listening() as sink:
        async with exporting(single(destination(sink.port)), queue) as exporter:
            await sent(exporter)

    begin = f"acme/siem/{BEGAN:x}:"
    assert sorted((one.header("X-Service-Delivery-Id"), one.body) for one in sink.received) == [
        (f"{begin}1:0", b'{"a":1}'),
        (f"{begin}1:1", b'"b"'),
        (f"{begin}2:0", b'"c"'),
    ]


async def test_single_sends_only_what_failed_again_each_accepted_record_once_and_buries_the_rest() -> None:
    queue, time = ListQueue(), Time()
    failures: dict[str, int] = {}

    def choose(request: Received) -> Reply:
        text = request.json
        if "bad" in text:
            return sinks.says(400)
        if "busy" in text and failures.setdefault(text, 0) < 3:
            failures[text] += 1
            return sinks.says(503)
        return sinks.says(200)

    texts = [f"{('ok', 'busy', 'bad', 'ok')[number % 4]}-{number}" for number in range(100)]
    with sinks.listening() as sink:
        sink.choose(choose)
        wanted = single(destination(sink.port, consumers=4, retry=Retry()))
        async with exporting(wanted, queue, environment=time.environment()) as exporter:
            await put(queue, texts[:60], texts[60:])
            await pass_time(time, exporter, seconds=500)

            assert sorted(sink.records) == sorted(text for text in texts if "bad" not in text)
            assert sink.most_busy <= 4
            left = [text for _, payload in queue.dead.values() for text in bodies(payload)]
            assert sorted(left) == sorted(text for text in texts if "bad" in text)
            assert (queue.batches, exporter.shown().counts.dead) == ({}, 25)


async def test_what_requests_take_counts_against_the_longest_time() -> None:
    queue = ListQueue()
    await put(queue, ["1"])
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        # A dead letter is tried again after the longest interval: not before this test has looked.
        retry = Retry(initial_interval=0.001, max_interval=30.0, max_elapsed=0.5)
        async with exporting(destination(sink.port, retry=retry, timeout=0.2), queue) as exporter:
            await sent(exporter)

    ((letter, _),) = queue.dead.values()
    assert letter.final_failure.attempts <= 3  # a slow machine takes its time as well; fifteen if requests took none


async def test_the_time_limit_of_single_is_each_records_own() -> None:
    queue = ListQueue()
    await put(queue, [str(number) for number in range(12)])
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.3))
        wanted = single(destination(sink.port, consumers=2, timeout=1.5))  # all of them take 1.8 s
        async with exporting(wanted, queue) as exporter:
            await sent(exporter)

    assert len(sink.received) == len(sink.accepted) == 12


async def test_the_format_may_change_while_something_waits() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        array = destination(sink.port, retry=Retry())
        async with exporting(array, queue, environment=time.environment()) as exporter:
            await put(queue, ["1", "2"], ["3"])
            await settle(lambda: exporter.waiting == 2)
            sink.script(sinks.says(503), sinks.says(200))
            exporter.change(single(array))
            await pass_time(time, exporter, seconds=8)
            exporter.change(array)
            await pass_time(time, exporter, seconds=60)
            await sent(exporter)

    assert sorted(sink.records) == [1, 2, 3]


# Nothing of a body or a header's value in logs


async def test_neither_bodies_nor_headers_nor_answers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    queue = ListQueue()
    await put(queue, ["canary-body"])
    with sinks.listening() as sink:
        sink.script(sinks.says(500, body=b"canary-answer"))
        wanted = destination(
            sink.port, headers=(("Authorization", "canary-header"),), path="/hook?token=canary-query", retry=OFF
        )
        async with exporting(wanted, queue) as exporter:
            await sent(exporter)
            shown = exporter.shown()

    assert "dead letter" in caplog.text
    assert "canary" not in caplog.text
    assert shown.last_failure is not None
    assert "canary" not in shown.last_failure.cause
    assert "canary-header" not in repr(wanted)


# Inline and tests


async def test_without_a_queue_who_delivers_learns_what_came_of_it() -> None:
    from reconciler.delivery.exporter import Undelivered  # noqa: PLC0415

    with sinks.listening() as sink:
        async with exporting(destination(sink.port, queue=False), None) as exporter:
            await exporter.deliver([otlp("1"), otlp("2")])
            sink.script(sinks.says(401))
            with pytest.raises(Undelivered, match="`Authorization`"):
                await exporter.deliver([otlp("3")])
            assert len(sink.received) == 2  # one attempt

            exporter.change(single(destination(sink.port, queue=False)))
            sink.choose(poison("bad"))  # type: ignore[arg-type]
            with pytest.raises(Undelivered, match="1 of 3 records did not arrive"):
                await exporter.deliver([otlp("a", "bad", "c")])

    assert sorted(map(json.dumps, sink.records)) == ['"a"', '"c"', "1", "2"]


async def test_without_a_queue_an_endpoint_that_is_down_is_asked_now_and_then() -> None:
    from reconciler.delivery.exporter import Undelivered  # noqa: PLC0415

    time = Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        wanted = destination(sink.port, queue=False, retry=Retry())
        async with exporting(wanted, None, environment=time.environment()) as exporter:
            for _ in range(20):
                with pytest.raises(Undelivered, match="answered 503"):
                    await exporter.deliver([otlp("1")])
            assert len(sink.received) == 5
            assert exporter.shown().state is ExporterState.DOWN

            time.advance(10.0)
            sink.script(sinks.says(200))
            await exporter.deliver([otlp("2")])
            assert exporter.shown().state is ExporterState.IDLE


async def test_without_a_queue_one_of_two_large_requests_is_the_probe() -> None:
    from reconciler.delivery.exporter import Undelivered  # noqa: PLC0415

    time = Time()
    large = otlp(*map(str, range(2_500)))  # the loop is let go while it is read
    with sinks.listening() as sink:
        sink.script(*[sinks.says(503)] * 5, sinks.says(200))
        wanted = destination(sink.port, queue=False, retry=Retry())
        async with exporting(wanted, None, environment=time.environment()) as exporter:
            for _ in range(5):
                with pytest.raises(Undelivered):
                    await exporter.deliver([otlp("1")])
            time.advance(10.0)
            both = (exporter.deliver([large]) for _ in range(2))
            first, second = await asyncio.gather(*both, return_exceptions=True)

    assert (first, type(second)) == (None, Undelivered)
    assert len(sink.received) == 6


async def test_a_test_sends_one_record_past_the_queue() -> None:
    queue = ListQueue()
    with sinks.listening() as sink:
        async with exporting(destination(sink.port), queue) as exporter:
            good = await exporter.test()
            sink.script(sinks.says(403, body=b"no"))
            bad = await exporter.test()
            exporter.change(single(destination(sink.port)))
            await exporter.test()
            shown = exporter.shown()

    assert (good.delivered, good.status, bad.delivered, bad.status, bad.answer) == (True, 200, False, 403, b"no")
    assert "`Authorization`" in bad.message
    assert isinstance(sink.received[0].json, list)
    assert sink.received[2].json["destination"] == "siem"
    assert (shown.counts.delivered, shown.last_failure) == (0, None)


async def test_drained_waits_for_the_queue_to_be_emptied_from_elsewhere_too() -> None:
    queue, time = ListQueue(), Time()
    with sinks.listening() as sink:
        wanted = msgspec.structs.replace(destination(sink.port), retry=NO_TIME_AT_ALL)
        async with exporting(wanted, queue, environment=time.environment(), start=False) as exporter:
            await put(queue, ["1"])
            waits = asyncio.create_task(exporter.drained())
            await quiet()
            assert not waits.done()
            await queue.discard(queued=True, dead=False)
            async with asyncio.timeout(5):
                await waits


async def test_since_when_nothing_arrives_outlasts_attempts_until_something_does_or_nothing_is_left() -> None:
    queue, time = ListQueue(), Time()
    steady = Retry(initial_interval=5.0, max_interval=5.0, max_elapsed=60.0)
    with sinks.listening() as sink:
        sink.choose(poison("refused"))  # type: ignore[arg-type]
        async with exporting(destination(sink.port, retry=steady), queue, environment=time.environment()) as exporter:
            await put(queue, ["refused"])
            await settle(lambda: exporter.waiting == 1)
            await pass_time(time, exporter, seconds=40)
            assert exporter.shown().since > BEGAN
            assert (exporter.shown().state, exporter.shown().failing_since) == (ExporterState.WAITING, BEGAN)
            await put(queue, ["fine"])
            await settle(lambda: exporter.shown().last_success is not None)
            assert exporter.shown().failing_since is None
            await pass_time(time, exporter, seconds=8)
            assert (exporter.shown().state, exporter.shown().failing_since is None) == (ExporterState.WAITING, False)
            await pass_time(time, exporter, seconds=40)
            assert (exporter.shown().state, exporter.shown().failing_since) == (ExporterState.IDLE, None)
