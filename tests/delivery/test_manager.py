"""What delivery does with a request while it learns what a project routes."""

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from reconciler.delivery.contract import Full, NotTaken, Taken
from reconciler.delivery.gathering import MOST_BYTES
from reconciler.delivery.manager import Manager
from reconciler.egress.client import Client
from reconciler.egress.networks import Policy
from reconciler.otlp import made_up, reading
from reconciler.otlp.models import Group, Logs
from reconciler.queueing.contract import Queue, QueueFault
from reconciler.queueing.queues import Queues
from reconciler.routing.models import Buffering, Destination, Endpoint, Route, Routes, Schedule
from reconciler.secrets.directory import Directory
from reconciler.secrets.sources import Sources
from reconciler.sending.exporter import Environment, Exporter
from reconciler.sending.outlet import Outlet
from tests.servers import sinks
from tests.waiting import until

pytestmark = pytest.mark.anyio

LOGS = Logs((Group(b"\n\x00", 3, {"team": "edge"}),), 3, 2)
NEVER = Schedule(cron="0 0 29 2 *", window=1)
PROJECT = "acme"
ON_DISK, IN_MEMORY = Buffering(), Buffering(storage=None)


@asynccontextmanager
async def managing(folder: Path) -> AsyncIterator[Manager]:
    """A manager whose destinations are never sent to."""
    queues = Queues(folder / "queues", reserve=0, clock=lambda: 1_000)
    sources = Sources({}, (), Directory(folder / "secrets"))
    async with Client(policy=Policy()) as client:
        outlet = Outlet(client, secrets=sources, authorities=None)

        def make(project: str, destination: Destination, queue: Queue | None) -> Exporter:
            surroundings = Environment(clock=lambda: 1_000, random=random.Random(1))  # noqa: S311
            return Exporter(destination, project=project, queue=queue, outlet=outlet, environment=surroundings)

        async def look_up(_project: str, _name: str) -> Destination | None:
            return None

        await queues.start()
        manager = Manager(queues, make, look_up, clock=lambda: 1_000, dead_bytes=1 << 20, chance=random.Random(1))  # noqa: S311
        try:
            yield manager
        finally:
            await manager.drain(seconds=0)
            await manager.close()


def webhook(name: str, *, buffering: Buffering = ON_DISK) -> Destination:
    return Destination(name=name, endpoint=Endpoint(host="127.0.0.1"), buffering=buffering, schedule=NEVER)


def routes(*destinations: Destination, labels: tuple[tuple[str, str], ...] = ()) -> Routes:
    route = Route(configuration="all", labels=labels, destinations=tuple(one.name for one in destinations))
    return Routes(project=PROJECT, routes=(route,), destinations=destinations)


async def test_nothing_is_taken_before_the_routes_are_known(tmp_path: Path) -> None:
    asked: list[str] = []
    async with managing(tmp_path) as manager:
        manager.follow(asked.append, lambda _: False)
        with pytest.raises(Full):
            await manager.take(PROJECT, LOGS)
    assert asked == [PROJECT]


async def test_what_nobody_takes_is_tried_again_while_the_routes_are_older_than_the_store(tmp_path: Path) -> None:
    behind = True
    async with managing(tmp_path) as manager:
        manager.follow(lambda _: None, lambda _: behind)
        await manager.change(routes(webhook("siem"), labels=(("team", "shop"),)))
        with pytest.raises(Full):
            await manager.take(PROJECT, LOGS)
        behind = False
        taken = await manager.take(PROJECT, LOGS)
    assert taken.rejected == 3
    assert "takes these records" in taken.message


async def test_what_somebody_takes_does_not_wait_for_newer_routes(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        manager.follow(lambda _: None, lambda _: True)
        await manager.change(routes(webhook("siem")))
        taken = await manager.take(PROJECT, LOGS)
        shown = manager.shown(PROJECT, "siem", answers=False)
    assert taken.rejected == 0
    assert (shown["queue"]["batches"], shown["counts"]["taken"], shown["state"]) == (1, 3, "closed")


async def test_a_queue_that_cannot_be_opened_refuses_its_records_and_no_others(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        (tmp_path / "queues").mkdir(exist_ok=True)
        (tmp_path / "queues" / "file_storage_persistent_queue").write_text("in the way")
        with pytest.raises(QueueFault, match="cannot be opened"):
            await manager.change(routes(webhook("siem"), webhook("other", buffering=IN_MEMORY)))
        with pytest.raises(Full, match="siem"):
            await manager.take(PROJECT, LOGS)
        await manager.change(routes(webhook("other", buffering=IN_MEMORY)))
        assert (await manager.take(PROJECT, LOGS)).rejected == 0
        assert manager.shown(PROJECT, "other", answers=False)["queue"]["batches"] == 1


async def test_a_destination_that_comes_back_has_the_queue_that_it_left(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.take(PROJECT, LOGS)
        await manager.change(Routes(project=PROJECT))
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1
        await manager.change(routes(webhook("siem")))
        await manager.take(PROJECT, LOGS)
        shown = manager.shown(PROJECT, "siem", answers=False)
    assert (shown["queue"]["batches"], shown["configurations"]) == (2, ["all"])
    assert len(list((tmp_path / "queues").glob("*/*/queue.json"))) == 1


async def test_records_are_not_taken_into_a_queue_that_left_while_an_endpoint_answered(tmp_path: Path) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.3))
        endpoint = Endpoint(scheme="http", host="127.0.0.1", port=sink.port)
        inline = Destination(name="inline", endpoint=endpoint, buffering=Buffering(queue=False))
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline, webhook("siem", buffering=IN_MEMORY)))
            logs = await reading.read(made_up.request("precious", at=1), json=False)
            taking = asyncio.create_task(manager.take(PROJECT, logs))
            await until(lambda: bool(sink.received))
            await manager.change(routes(inline, webhook("siem")))
            with pytest.raises(Full):
                await taking
            assert (await manager.take(PROJECT, logs)).rejected == 0
            assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1


async def test_room_is_asked_again_after_an_endpoint_answered(tmp_path: Path) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(200, after=0.3))
        endpoint = Endpoint(scheme="http", host="127.0.0.1", port=sink.port)
        inline = Destination(name="inline", endpoint=endpoint, buffering=Buffering(queue=False))
        one = webhook("siem", buffering=Buffering(max_batches=1))
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline, one))
            logs = await reading.read(made_up.request("x" * MOST_BYTES, at=1), json=False)  # too large to share a batch
            both = await asyncio.gather(*(manager.take(PROJECT, logs) for _ in range(2)), return_exceptions=True)
            depth = manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"]
    assert [type(one) for one in both].count(Full) == 1
    assert depth == 1


async def test_a_lane_that_is_wanted_again_is_not_ended_by_its_drain(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.change(Routes(project=PROJECT))
        await manager.change(routes(webhook("siem")))
        await asyncio.sleep(0)
        assert await manager.take(PROJECT, LOGS) == Taken()
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1
    assert len(list((tmp_path / "queues").glob("*/*/queue.json"))) == 1


async def test_nothing_is_shown_of_a_project_that_nobody_has_read(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        with pytest.raises(Full):
            manager.all(PROJECT, answers=False)


async def test_destinations_without_a_queue_are_asked_at_once_and_the_first_that_fails_is_told(tmp_path: Path) -> None:
    with sinks.listening() as slow, sinks.listening() as refusing:
        slow.script(*[sinks.says(200, after=0.4)] * 3)
        refusing.script(sinks.says(400))
        logs = await reading.read(made_up.request("one", at=1), json=False)

        def inline(name: str, port: int) -> Destination:
            endpoint = Endpoint(scheme="http", host="127.0.0.1", port=port)
            return Destination(name=name, endpoint=endpoint, buffering=Buffering(queue=False))

        wanted = [inline(f"slow-{number}", slow.port) for number in range(3)]
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline("a", refusing.port), *wanted))
            assert manager.sends_at_once(PROJECT)
            begun = time.monotonic()
            with pytest.raises(NotTaken, match="The destination a "):
                await manager.take(PROJECT, logs)
            assert time.monotonic() - begun < 1.0
            assert len(slow.received) == 3
            await manager.change(routes(webhook("siem")))
            assert not manager.sends_at_once(PROJECT)


async def test_a_copy_of_a_queue_is_sent_beside_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.take(PROJECT, LOGS)
    [folder] = (tmp_path / "queues").glob("*/*/")
    shutil.copytree(folder, folder.with_name(folder.name[:-1] + ("0" if folder.name[-1] != "0" else "1")))
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        queue = manager.shown(PROJECT, "siem", answers=False)["queue"]
        assert (queue["batches"], queue["records"]) == (2, 2 * LOGS.records)
        await manager.take(PROJECT, LOGS)
        await manager.change(routes(webhook("siem")))
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 3
        assert sum([batches async for batches, _ in manager.discard(PROJECT, "siem", queued=True, dead=True)]) == 3
    [told] = [record.getMessage() for record in caplog.records if "copy" in record.getMessage()]
    assert str(folder.parent) in told


async def test_what_a_lane_has_counted_stays_when_it_ends(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.take(PROJECT, LOGS)
        # Its queue is elsewhere now: the old one drains, and what it counted is the new one's when it has.
        await manager.change(routes(webhook("siem", buffering=IN_MEMORY)))
        await manager.take(PROJECT, LOGS)
        assert manager.shown(PROJECT, "siem", answers=False)["counts"]["taken"] == 6
        assert [done async for done in manager.discard(PROJECT, "siem", queued=True, dead=False)] != []
        await until(lambda: len(manager.figures().lanes) == 1)
        counts = manager.shown(PROJECT, "siem", answers=False)["counts"]
        assert (counts["taken"], counts["discarded"]) == (6, 6)
        await manager.change(Routes(project=PROJECT))
        await until(lambda: not manager.figures().lanes)
        past = manager.figures().past
        assert (past.taken.taken, past.taken.discarded, past.sent.delivered) == (6, 6, 0)
