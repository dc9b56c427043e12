"""Exporters with an endpoint to send to, and time that tests turn."""

import asyncio
import heapq
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from reconciler.delivery.breaker import SendEnvironment, Timer
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.http_client import EgressPolicy, HttpClient
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.queue.contract import Queue
from reconciler.delivery.queue_exporter import QueueExporter
from reconciler.delivery.secrets import SecretDirectory, SecretSources
from reconciler.model.routes import Buffering, Destination, Endpoint, Format, Retry, Schedule
from tests.servers import sinks
from tests.servers.sinks import Reply, Sink
from tests.waiting import until

BEGAN = 1_790_000_000_000  # Unix ms
NO_TIME_AT_ALL = Retry(initial_interval=0.01, max_interval=0.05, max_elapsed=300.0)


class _Alarm:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Time:
    """Seconds that pass when a test says so. `jump` is what the wall clock is wrong by, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jump = 0.0
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._order = count()

    def clock(self) -> int:
        return BEGAN + round((self.now + self.jump) * 1000)

    def monotonic(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        alarm = _Alarm(call)
        heapq.heappush(self._alarms, (self.now + seconds, next(self._order), alarm))
        return alarm

    @property
    def next(self) -> float | None:
        """When the next alarm rings."""
        while self._alarms and self._alarms[0][2].call is None:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def advance(self, until: float) -> bool:
        """Go to the next alarm, not beyond a time, and ring it; whether there was one."""
        due = self.next
        if due is None or due > until:
            self.now = max(self.now, until)
            return False
        _, _, alarm = heapq.heappop(self._alarms)
        self.now = max(self.now, due)
        assert alarm.call is not None
        alarm.call()
        return True

    def environment(self, **more: Any) -> SendEnvironment:
        return SendEnvironment(
            clock=self.clock,
            monotonic=self.monotonic,
            later=self.later,
            random=random.Random(7),  # noqa: S311
            **{"linger": 0.0, **more},
        )


async def settle(holds: Callable[[], bool]) -> None:
    """Let the loop go on until something holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def pass_time(time: Time, exporter: Exporter, *, seconds: float) -> None:
    """Let so many seconds pass; requests take none of them."""
    until = time.now + seconds
    while True:
        await settle(lambda: exporter.in_flight == 0)
        await quiet()
        if exporter.in_flight == 0 and not time.advance(until):
            await quiet()
            if exporter.in_flight == 0:
                return


async def quiet() -> None:
    """Let what is ready to run run."""
    for _ in range(10):
        await asyncio.sleep(0)


def otlp(*texts: str) -> bytes:
    """A request with records whose bodies are these texts."""
    records = [LogRecord(body=AnyValue(string_value=text)) for text in texts]
    group = ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def bodies(payload: bytes) -> list[str]:
    """The bodies of a request's records."""
    request = ExportLogsServiceRequest.FromString(payload)
    return [
        record.body.string_value
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def destination(
    port: int,
    *,
    name: str = "siem",
    consumers: int = 10,
    retry: Retry = NO_TIME_AT_ALL,
    schedule: Schedule | None = None,
    queue: bool = True,
    **endpoint: Any,
) -> Destination:
    """A destination on loopback."""
    wanted = {"scheme": "http", "host": "127.0.0.1", "port": port, "path": "/hook", **endpoint}
    return Destination(
        name=name,
        endpoint=Endpoint(**wanted),
        retry=retry,
        buffering=Buffering(consumers=consumers, queue=queue),
        schedule=schedule,
    )


def single(wanted: Destination) -> Destination:
    """The same with one request for each record."""
    return msgspec.structs.replace(wanted, endpoint=msgspec.structs.replace(wanted.endpoint, format=Format.SINGLE))


async def put(queue: Queue, *batches: Sequence[str], at: int = BEGAN) -> None:
    """Queue batches of such bodies."""
    for texts in batches:
        await queue.append([otlp(*texts)], records=len(texts), at=at)


def sources(folder: Path | None = None, **variables: str) -> SecretSources:
    """Secrets in a folder, and variables that every project sees."""
    return SecretSources(variables, ("*",), SecretDirectory(folder or Path("/nonexistent")))


@asynccontextmanager
async def exporting(
    wanted: Destination,
    queue: Queue | None,
    *,
    environment: SendEnvironment | None = None,
    secrets: SecretSources | None = None,
    start: bool = True,
) -> AsyncIterator[Exporter]:
    """An exporter over a real client, stopped at the end."""
    surroundings = environment or SendEnvironment(random=random.Random(7), linger=0.0)  # noqa: S311
    async with HttpClient(policy=EgressPolicy()) as client:
        outlet = HttpSender(client, secrets=secrets or sources(), clock=surroundings.clock)
        if queue is None:
            made = Exporter(wanted, project="acme", outlet=outlet, environment=surroundings)
        else:
            made = QueueExporter(wanted, queue=queue, project="acme", outlet=outlet, environment=surroundings)
        if start:
            made.start()
        try:
            yield made
        finally:
            await made.stop(seconds=0)


async def sent(exporter: Exporter) -> None:
    """Until everything has left the queue."""
    async with asyncio.timeout(20):
        await exporter.drained()


def attempts(sink: Sink) -> list[str | None]:
    """The number of each attempt that the sink saw."""
    return [one.header("X-Service-Attempt") for one in sink.received]


def refusing_for_an_hour(told: threading.Event) -> Reply:
    """A 503 that comes when a test says so."""
    return when_told(told, 503, headers=(("Retry-After", "3600"),))


def when_told(told: threading.Event, status: int, *, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """An answer that comes when a test says so."""
    answer = sinks.says(status, headers=headers)

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await until(told.is_set)
        return await answer.act(reader, writer)

    return Reply(status=status, act=act)
