"""A bug costs no records, and makes no requests without a pause."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from reconciler.delivery.http_sender import Channel, HttpSender
from reconciler.delivery.queue.memory import MemoryQueue
from reconciler.delivery.queue_exporter import STUMBLED_SECONDS, QueueExporter
from reconciler.delivery.reporting import ExporterState
from reconciler.delivery.retry import AnswerVerdict
from reconciler.model.routes import Destination, Retry
from tests.delivery.exporter.worlds import Time, destination, pass_time, put, single

pytestmark = pytest.mark.anyio

DOWN = AnswerVerdict(False, outage=True, status=503, cause="It answered 503.")
MOST = 500  # requests; without a pause there is no end to them


class Mistaken(Channel):
    """To an endpoint that is down for five requests; then each fails within the service until `is_mended`."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.times: list[float] = []
        self.is_mended = False

    async def post(self, *_: object, **__: object) -> AnswerVerdict:
        await asyncio.sleep(0)
        self.times.append(self.time.now)
        if len(self.times) <= 5:
            return DOWN
        if self.is_mended or len(self.times) > MOST:
            return AnswerVerdict(True)
        raise RuntimeError("It failed within the service.")


class Only(HttpSender):
    """With one channel for all."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def channel(self, *_: object, **__: object) -> Channel:
        return self._channel


def same(wanted: Destination) -> Destination:
    return wanted


@pytest.mark.parametrize("consumers", [1, 10])
@pytest.mark.parametrize("form", [same, single], ids=["array", "single"])
@pytest.mark.parametrize("batches", [[["a"]], [["a"], ["b"], ["c"]], [["a", "b", "c"]]], ids=["1", "3", "3-in-1"])
async def test_while_an_endpoint_is_down_a_mistake_of_ours_is_repeated_at_its_pace_and_gives_nothing_up(
    consumers: int, form: Callable[[Destination], Destination], batches: Sequence[list[str]]
) -> None:
    queue, time = MemoryQueue(max_batches=100, max_bytes=1 << 20), Time()
    channel = Mistaken(time)
    retry = Retry(initial_interval=1.0, max_interval=1.0, max_elapsed=30.0)
    wanted = form(destination(80, consumers=consumers, retry=retry))
    environment = time.environment(most_records=1)
    exporter = QueueExporter(wanted, queue=queue, project="acme", outlet=Only(channel), environment=environment)
    await put(queue, *batches)
    exporter.start()
    await pass_time(time, exporter, seconds=300)
    probes = channel.times[6:]  # one request more may have been in flight when the fifth failed
    pauses = [after - before for before, after in pairwise(probes)]
    assert (exporter.shown().state, exporter.shown().counts.dead) == (ExporterState.DOWN, 0)
    assert len(pauses) >= 5
    assert min(pauses) == pytest.approx(STUMBLED_SECONDS)

    channel.is_mended = True
    await pass_time(time, exporter, seconds=60)
    assert (exporter.shown().counts.delivered, queue.depth().batches) == (sum(map(len, batches)), 0)
    await exporter.stop(seconds=0)
