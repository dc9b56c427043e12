"""The next job, and the time until there may be another."""

import itertools
import random
from typing import NamedTuple

import pytest

from reconciler.delivery.batches import Leases, Pending
from reconciler.delivery.breaker import OPENS_AFTER, SendEnvironment, SendGate
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model.routes import Retry
from tests.delivery.exporter.worlds import BEGAN, Time, destination, exporting, otlp, pass_time, put, settle
from tests.servers import sinks

pytestmark = pytest.mark.anyio

LINGER = 0.5
HOUR = 3_600.0
DOWN = AnswerVerdict(False, outage=True, status=503, cause="It answered 503.")


class World(NamedTuple):
    queue: MemoryQueue
    pending: Pending
    gate: SendGate


def made(environment: SendEnvironment, *, consumers: int) -> World:
    queue = MemoryQueue(max_batches=100, max_bytes=1 << 20)
    wanted = destination(80, consumers=consumers, retry=Retry())
    gate = SendGate(environment, wanted)
    leases = Leases(queue, name="siem", buried=lambda *_: None, later=lambda *_: None)
    return World(queue, Pending(leases, wanted, environment=environment, gate=gate), gate)


@pytest.fixture(params=[1, 10], ids=["line", "crowd"])
async def world(request: pytest.FixtureRequest) -> World:
    """Of which each look at the clock finds another tenth of a second past."""
    ticks = itertools.count()
    environment = SendEnvironment(
        monotonic=lambda: next(ticks) / 10,
        random=random.Random(7),  # noqa: S311
        linger=LINGER,
    )
    return made(environment, consumers=request.param)


async def put_off_while_down(
    world: World, *, last: AnswerVerdict = DOWN, not_before: float = 0.0, delay: float = 0.0
) -> None:
    """Have a batch wait for an endpoint that is down, whose last answer is known."""
    await world.queue.append([otlp("1")], records=1, at=BEGAN)
    job = world.pending.pick()
    assert job is not None
    for verdict in (*[DOWN] * OPENS_AFTER, last):
        world.gate.note(verdict, is_probe=False)
    job.batch.not_before = not_before
    world.pending.put_off(job.batch, delay=delay)


async def looked(world: World) -> int:
    """How often one looks until something is next, looking again whenever one is told to."""
    for times in range(1, 10_000):
        if world.pending.pick() is not None:
            return times
        assert world.pending.next_in() is not None, "nobody would look again"
    pytest.fail("nothing is ever next")


async def test_whatever_time_passes_between_two_looks_records_that_linger_are_not_forgotten(world: World) -> None:
    await world.queue.append([otlp("1")], records=1, at=BEGAN)
    assert world.pending.pick() is not None
    await world.queue.append([otlp("2")], records=1, at=BEGAN)

    assert await looked(world) > 1


async def test_whatever_time_passes_between_two_looks_what_waits_is_not_forgotten(world: World) -> None:
    await world.queue.append([otlp("1")], records=1, at=BEGAN)
    job = world.pending.pick()
    assert job is not None
    world.pending.put_off(job.batch, delay=2.0)

    assert await looked(world) > 1


async def test_whatever_time_passes_between_two_looks_a_probe_is_not_forgotten(world: World) -> None:
    await put_off_while_down(world)

    assert await looked(world) > 1


async def test_the_endpoint_is_not_asked_again_before_the_longest_time_that_it_asked_for(world: World) -> None:
    await put_off_while_down(world, last=DOWN._replace(retry_after=50.0))

    assert await looked(world) > 100  # a look takes half a second at most


async def test_what_the_endpoint_asked_to_wait_for_is_no_probe_before_its_time(world: World) -> None:
    await put_off_while_down(world, not_before=50.0)

    assert await looked(world) > 100


@pytest.mark.parametrize("consumers", [1, 10])
async def test_the_next_look_is_when_what_the_endpoint_asked_to_wait_for_may_be_a_probe(consumers: int) -> None:
    time = Time()
    world = made(time.environment(), consumers=consumers)
    await put_off_while_down(world, not_before=50.0, delay=50.0)
    assert world.pending.pick() is None
    assert world.pending.next_in() == pytest.approx(world.gate.probe_at)
    time.now = 20.0
    assert world.pending.pick() is None
    assert world.pending.next_in() == pytest.approx(30.0)
    time.now = 50.0
    assert world.pending.pick() is not None


async def test_an_endpoint_that_was_corrected_is_asked_whatever_another_one_asked_for(world: World) -> None:
    await put_off_while_down(world, last=DOWN._replace(retry_after=HOUR), not_before=HOUR, delay=HOUR)
    world.gate.hurry()
    world.pending.change(destination(80), is_elsewhere=True)

    assert await looked(world) == 1


async def test_what_another_endpoint_refused_is_due_at_once_with_one_that_was_corrected(world: World) -> None:
    await world.queue.append([otlp("1")], records=1, at=BEGAN)
    job = world.pending.pick()
    assert job is not None
    job.batch.not_before = HOUR
    world.pending.put_off(job.batch, delay=HOUR)
    world.pending.change(destination(80), is_elsewhere=False)
    assert world.pending.pick() is None
    world.pending.change(destination(80), is_elsewhere=True)

    assert await looked(world) == 1


async def test_when_the_endpoint_is_back_what_it_refused_waits_as_long_as_it_asked_for(world: World) -> None:
    await world.queue.append([otlp("1")], records=1, at=BEGAN)
    job = world.pending.pick()
    assert job is not None
    world.pending.put_off(job.batch, delay=HOUR)
    world.pending.end_outage()

    assert world.pending.pick() is None


async def test_a_probe_that_was_under_way_when_the_endpoint_was_corrected_is_followed_by_one_at_once() -> None:
    gate = made(Time().environment(), consumers=1).gate
    for _ in range(5):
        gate.note(DOWN, is_probe=False)
    gate.probe()
    gate.note(DOWN._replace(retry_after=3_600.0), is_probe=False)  # it was in flight, too
    gate.hurry()
    gate.abandon()

    assert gate.may_probe(0.0)


async def test_of_all_that_waits_for_an_endpoint_each_has_its_turn_as_the_probe() -> None:
    queue, time = MemoryQueue(max_batches=100, max_bytes=1 << 20), Time()
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with exporting(destination(sink.port, retry=Retry()), queue, environment=time.environment()) as exporter:
            for number in range(5):
                await put(queue, [str(number)])
                await settle(lambda number=number: exporter.waiting == number + 1)  # type: ignore[misc]
            before = len(sink.received)
            await pass_time(time, exporter, seconds=600)

    probes = [one.body for one in sink.received[before:]]
    assert sorted(probes[:5]) == [b"[%d]" % number for number in range(5)]
    assert probes[5:15] == probes[:5] * 2
