"""Requests and queues while delivery learns the routes of a project, and while a disk fails."""

import asyncio
import errno
import random
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from reconciler.delivery import status
from reconciler.delivery.breaker import SendEnvironment
from reconciler.delivery.contract import Behind, NotTaken, QueueFull, TakenRecords
from reconciler.delivery.exporter import Exporter
from reconciler.delivery.http_client import EgressPolicy, HttpClient
from reconciler.delivery.http_sender import HttpSender
from reconciler.delivery.manager import Manager
from reconciler.delivery.otlp import bodies, reading
from reconciler.delivery.otlp.models import Logs, RecordGroup
from reconciler.delivery.queue.contract import BATCH_BYTES, Queue, QueueFault
from reconciler.delivery.queue.files import System
from reconciler.delivery.queue.queues import Queues
from reconciler.delivery.queue_exporter import QueueExporter
from reconciler.delivery.secrets import SecretDirectory, SecretSources
from reconciler.delivery.status import fullness
from reconciler.model.routes import (
    Buffering,
    Destination,
    Endpoint,
    OnFull,
    Retry,
    Route,
    Routes,
    Schedule,
    Storage,
    Wanting,
)
from tests.delivery.exporter.worlds import when_told
from tests.delivery.queue.test_faults import Failing
from tests.servers import sinks
from tests.servers.sinks import Sink
from tests.waiting import until

pytestmark = pytest.mark.anyio

LOGS = Logs((RecordGroup(b"\n\x00", 3, {"team": "edge"}),), 3)
NEVER = Schedule(cron="0 0 29 2 *", window=1)
PROJECT = "acme"
ON_DISK, IN_MEMORY = Buffering(), Buffering(storage=None)


@asynccontextmanager
async def managing(folder: Path, *, system: System | None = None, reserve: int = 0) -> AsyncIterator[Manager]:
    """A manager that knows of no destination but those that it is told to route to."""
    queues = Queues(folder / "queues", reserve=reserve, clock=lambda: 1_000, system=system)
    sources = SecretSources({}, (), SecretDirectory(folder / "secrets"))
    async with HttpClient(policy=EgressPolicy()) as client:
        outlet = HttpSender(client, secrets=sources, clock=lambda: 1_000)

        def make(project: str, destination: Destination, queue: Queue | None) -> Exporter:
            surroundings = SendEnvironment(clock=lambda: 1_000, random=random.Random(1))  # noqa: S311
            if queue is None:
                return Exporter(destination, project=project, outlet=outlet, environment=surroundings)
            return QueueExporter(destination, queue=queue, project=project, outlet=outlet, environment=surroundings)

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
    """One that is never sent to."""
    return Destination(name=name, endpoint=Endpoint(host="127.0.0.1"), buffering=buffering, schedule=NEVER)


def sending(sink: Sink, *, canary: str = "token", buffering: Buffering = ON_DISK) -> Destination:
    """One that is sent to, and soon again."""
    headers = (("Authorization", f"Bearer canary-{canary}"),)
    endpoint = Endpoint(scheme="http", host="127.0.0.1", port=sink.port, headers=headers)
    retry = Retry(initial_interval=0.05, max_interval=0.05)
    return Destination(name="siem", endpoint=endpoint, buffering=buffering, retry=retry)


def routes(*destinations: Destination, labels: tuple[tuple[str, str], ...] = ()) -> Routes:
    route = Route(configuration="all", labels=labels, destinations=tuple(one.name for one in destinations))
    return Routes(project=PROJECT, routes=(route,), destinations=destinations)


async def test_nothing_is_taken_before_the_routes_are_known(tmp_path: Path) -> None:
    asked: list[str] = []
    async with managing(tmp_path) as manager:
        manager.follow(asked.append, lambda _: None)
        with pytest.raises(QueueFull):
            await manager.take(PROJECT, LOGS)
    assert asked == [PROJECT]


async def test_what_nobody_takes_is_tried_again_while_the_routes_are_older_than_the_store(tmp_path: Path) -> None:
    behind: Behind | None = Behind()
    async with managing(tmp_path) as manager:
        manager.follow(lambda _: None, lambda _: behind)
        await manager.change(routes(webhook("siem"), labels=(("team", "shop"),)))
        with pytest.raises(QueueFull):
            await manager.take(PROJECT, LOGS)
        behind = None
        taken = await manager.take(PROJECT, LOGS)
    assert taken.rejected == 3
    assert "takes these records" in taken.message


@pytest.mark.parametrize(
    ("behind", "is_taken"),
    [
        (Behind(), True),
        (Behind(changed_endpoints=frozenset({"other"})), True),
        (Behind(changed_endpoints=frozenset({"other", "siem"})), False),
        (Behind(is_late=True), False),
    ],
)
async def test_old_routes_are_used_unless_they_are_late_or_lead_to_a_changed_endpoint(
    tmp_path: Path, behind: Behind, is_taken: bool
) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        manager.follow(lambda _: None, lambda _: behind)
        if is_taken:
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
        else:
            with pytest.raises(QueueFull, match="reading the project's Configurations"):
                await manager.take(PROJECT, LOGS)


@pytest.mark.parametrize(
    ("wanting", "is_kept"),
    [
        (Wanting(labels=(("team", "edge"),), until=1_001), True),
        (Wanting(until=1_001), True),
        (Wanting(labels=(("team", "edge"),), until=1_000), False),
        (Wanting(labels=(("team", "core"),), until=1_001), False),
    ],
)
async def test_what_no_route_takes_is_kept_by_its_sender_while_it_is_wanted(
    tmp_path: Path, wanting: Wanting, is_kept: bool
) -> None:
    elsewhere = routes(webhook("siem"), labels=(("team", "other"),))
    async with managing(tmp_path) as manager:
        await manager.change(msgspec.structs.replace(elsewhere, wanting=(wanting,)))
        if is_kept:
            with pytest.raises(QueueFull, match="cannot deliver by its present version"):
                await manager.take(PROJECT, LOGS)
        else:
            assert (await manager.take(PROJECT, LOGS)).rejected == 3
        await manager.change(msgspec.structs.replace(routes(webhook("siem")), wanting=(wanting,)))
        assert await manager.take(PROJECT, LOGS) == TakenRecords()


async def test_nothing_is_sent_to_what_is_held_and_its_records_wait(tmp_path: Path) -> None:
    with sinks.listening() as sink:
        destination = sending(sink)
        held = msgspec.structs.replace(destination, held=True)
        async with managing(tmp_path) as manager:
            await manager.change(routes(held))
            await manager.take(PROJECT, await reading.read(bodies.test_request("waits", at=1), json=False))
            shown = manager.shown(PROJECT, "siem", answers=False)
            assert (shown["state"], shown["queue"]["batches"], shown["window"]) == ("held", 1, None)
            assert "records wait in the queue" in shown["message"]
            assert (await manager.test(PROJECT, "siem"))["delivered"] is False
            inline = msgspec.structs.replace(held, name="inline", buffering=Buffering(queue=False))
            await manager.change(routes(inline))
            with pytest.raises(NotTaken, match="Nothing is sent to inline until"):
                await manager.take(PROJECT, LOGS)
            assert sink.records == []
            await manager.change(routes(destination))
            await until(lambda: sink.records == ["waits"])


async def test_what_somebody_takes_does_not_wait_for_newer_routes(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        manager.follow(lambda _: None, lambda _: Behind())
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
        with pytest.raises(QueueFull, match="siem"):
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
    told = threading.Event()
    with sinks.listening() as sink:
        sink.script(when_told(told, 200))
        endpoint = Endpoint(scheme="http", host="127.0.0.1", port=sink.port)
        inline = Destination(name="inline", endpoint=endpoint, buffering=Buffering(queue=False))
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline, webhook("siem", buffering=IN_MEMORY)))
            logs = await reading.read(bodies.test_request("precious", at=1), json=False)
            taking = asyncio.create_task(manager.take(PROJECT, logs))
            await until(lambda: bool(sink.received))
            await manager.change(routes(inline, webhook("siem")))
            told.set()
            with pytest.raises(QueueFull):
                await taking
            assert (await manager.take(PROJECT, logs)).rejected == 0
            assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1


async def test_room_is_asked_again_after_an_endpoint_answered(tmp_path: Path) -> None:
    told = threading.Event()
    with sinks.listening() as sink:
        sink.script(when_told(told, 200))
        endpoint = Endpoint(scheme="http", host="127.0.0.1", port=sink.port)
        inline = Destination(name="inline", endpoint=endpoint, buffering=Buffering(queue=False))
        one = webhook("siem", buffering=Buffering(max_batches=1))
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline, one))
            logs = await reading.read(bodies.test_request("x" * BATCH_BYTES, at=1), json=False)
            taking = [asyncio.create_task(manager.take(PROJECT, logs)) for _ in range(2)]
            await until(lambda: sink.busy == 2)
            told.set()
            both = await asyncio.gather(*taking, return_exceptions=True)
            depth = manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"]
    assert [type(one) for one in both].count(QueueFull) == 1
    assert depth == 1


async def test_a_lane_that_is_wanted_again_is_not_ended_by_its_drain(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.change(Routes(project=PROJECT))
        await manager.change(routes(webhook("siem")))
        await asyncio.sleep(0)
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1
    assert len(list((tmp_path / "queues").glob("*/*/queue.json"))) == 1


async def test_nothing_is_shown_of_a_project_that_nobody_has_read(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        with pytest.raises(QueueFull):
            manager.all(PROJECT, answers=False)


async def test_destinations_without_a_queue_are_asked_at_once_and_the_first_that_fails_is_told(tmp_path: Path) -> None:
    with sinks.listening() as slow, sinks.listening() as refusing:
        told = threading.Event()
        slow.script(when_told(told, 200))
        refusing.script(sinks.says(400))
        logs = await reading.read(bodies.test_request("one", at=1), json=False)

        def inline(name: str, port: int) -> Destination:
            endpoint = Endpoint(scheme="http", host="127.0.0.1", port=port)
            return Destination(name=name, endpoint=endpoint, buffering=Buffering(queue=False))

        wanted = [inline(f"slow-{number}", slow.port) for number in range(3)]
        async with managing(tmp_path) as manager:
            await manager.change(routes(inline("a", refusing.port), *wanted))
            assert manager.sends_at_once(PROJECT)
            taking = asyncio.create_task(manager.take(PROJECT, logs))
            await until(lambda: slow.busy == 3)
            told.set()
            with pytest.raises(NotTaken, match="The destination a "):
                await taking
            assert len(slow.received) == 3
            await manager.change(routes(webhook("siem")))
            assert not manager.sends_at_once(PROJECT)


async def test_a_copy_of_a_queue_is_sent_beside_it(tmp_path: Path) -> None:
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
        assert (past.taken, past.discarded, past.delivered) == (6, 6, 0)


async def test_what_is_queued_for_a_destination_that_nobody_wants_follows_its_corrections(tmp_path: Path) -> None:
    with sinks.listening() as wrong, sinks.listening() as right:
        wrong.script(sinks.says(401))
        old, new = sending(wrong, canary="old"), sending(right, canary="new")
        async with managing(tmp_path) as manager:
            await manager.change(routes(old))
            await manager.take(PROJECT, await reading.read(bodies.test_request("precious", at=1), json=False))
            await until(lambda: bool(wrong.received))
            assert await manager.left(PROJECT) == ("siem",)  # so that a correction in the same moment is not missed
            await manager.change(Routes(project=PROJECT, former=(old,)))
            assert not (await manager.test(PROJECT, "siem"))["delivered"]
            await manager.change(Routes(project=PROJECT, former=(new,)))
            assert (await manager.test(PROJECT, "siem"))["delivered"]
            await until(lambda: "precious" in right.records and not manager.figures().lanes)
            assert {one.header("Authorization") for one in right.received} == {"Bearer canary-new"}
            assert manager.figures().past.delivered == 1


async def test_a_queue_that_has_another_place_now_drains_by_what_its_destination_says_later(tmp_path: Path) -> None:
    with sinks.listening() as wrong, sinks.listening() as right:
        wrong.script(sinks.says(503))
        elsewhere = Buffering(storage=Storage(directory="elsewhere"))
        async with managing(tmp_path) as manager:
            await manager.change(routes(sending(wrong)))
            await manager.take(PROJECT, await reading.read(bodies.test_request("old place", at=1), json=False))
            await until(lambda: bool(wrong.received))
            await manager.change(routes(sending(wrong, buffering=elsewhere)))
            await manager.take(PROJECT, await reading.read(bodies.test_request("new place", at=1), json=False))
            await manager.change(routes(sending(right, buffering=elsewhere)))
            await until(lambda: sorted(right.records) == ["new place", "old place"])
            await until(lambda: len(manager.figures().lanes) == 1)
        assert [file.parts[-3] for file in (tmp_path / "queues").glob("*/*/queue.json")] == ["elsewhere"]


async def test_a_queue_whose_place_was_before_keeps_its_own_limits_and_takes_others_when_it_is_back(
    tmp_path: Path,
) -> None:
    small = Buffering(storage=Storage(directory="small", max_bytes=1000))
    size = 5000
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        old = manager.figures().lanes[0].queue
        assert old is not None
        await manager.take(PROJECT, LOGS)
        await manager.change(routes(webhook("siem", buffering=small)))
        await manager.change(routes(webhook("siem", buffering=small)))
        assert old.may_hold(size=size)
        left = [lane for lane in manager.figures().lanes if lane.leaving]
        assert [(lane.queue is old, fullness(lane, old.depth())) for lane in left] == [(True, 0.0)]
        await manager.change(routes(webhook("siem", buffering=Buffering(storage=Storage(max_bytes=1000)))))
        assert manager.figures().lanes[0].queue is old
        assert not old.may_hold(size=size)


async def test_of_several_queues_that_cannot_be_opened_each_is_named(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        (tmp_path / "queues").mkdir(exist_ok=True)
        (tmp_path / "queues" / "file_storage_persistent_queue").write_text("in the way")
        with pytest.raises(QueueFault) as fault:
            await manager.change(routes(*(webhook(name) for name in "abc")))
    told = fault.value.message
    assert told.startswith("The queue of a cannot be opened (")
    assert " 2 more queues cannot be opened: The queue of b cannot be opened (" in told
    assert "The queue of c cannot be opened (" in told


async def test_of_very_many_queues_that_cannot_be_opened_some_are_named_and_the_others_counted(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        (tmp_path / "queues").mkdir(exist_ok=True)
        (tmp_path / "queues" / "file_storage_persistent_queue").write_text("in the way")
        with pytest.raises(QueueFault, match=r" 19 more queues cannot be opened: ") as fault:
            await manager.change(routes(*(webhook(f"siem-{number:02}") for number in range(20))))
    assert fault.value.message.count("cannot be opened (") == 11


async def test_a_queue_that_is_left_and_cannot_be_opened_is_told_and_tried_again(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem"), webhook("broken")))
        await manager.take(PROJECT, LOGS)
    [folder] = [file.parent for file in (tmp_path / "queues").glob("*/*/queue.json") if '"broken"' in file.read_text()]
    (folder / "dead").rename(folder / "aside")
    (folder / "dead").write_text("in the way")
    async with managing(tmp_path) as manager:
        for _ in range(2):
            with pytest.raises(QueueFault, match="The queue of broken cannot be opened"):
                await manager.change(routes(webhook("siem")))
            assert [one["destination"] for one in manager.all(PROJECT, answers=False)["deliveries"]] == ["siem"]
            assert await manager.left(PROJECT) == ("broken", "siem")
        (folder / "dead").unlink()
        (folder / "aside").rename(folder / "dead")
        await manager.change(routes(webhook("siem")))
        shown = manager.all(PROJECT, answers=False)["deliveries"]
        assert [(one["destination"], one["queue"]["batches"]) for one in shown] == [("broken", 1), ("siem", 1)]


async def test_what_a_disk_does_not_take_is_dropped_where_that_is_wanted_and_refused_elsewhere(tmp_path: Path) -> None:
    system = Failing()
    drops = webhook("drops", buffering=Buffering(on_full=OnFull.DROP_NEWEST))
    async with managing(tmp_path, system=system) as manager:
        await manager.change(routes(drops, webhook("kept", buffering=IN_MEMORY)))
        system.write_error = errno.EIO
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
        dropped, kept = (manager.shown(PROJECT, name, answers=False) for name in ("drops", "kept"))
        assert (dropped["counts"]["dropped"], dropped["counts"]["taken"], dropped["queue"]["batches"]) == (3, 0, 0)
        assert (kept["counts"]["dropped"], kept["counts"]["taken"], kept["queue"]["batches"]) == (0, 3, 1)
        await manager.change(routes(webhook("refuses")))
        with pytest.raises(NotTaken, match="Keep the records and send them again"):
            await manager.take(PROJECT, LOGS)


async def test_what_a_full_queue_cannot_take_is_a_dead_letter_where_that_is_wanted_and_the_others_get_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage(max_bytes=1500)
    buries = webhook("buries", buffering=Buffering(max_batches=0, on_full=OnFull.DEAD_LETTER, storage=storage))
    async with managing(tmp_path) as manager:
        await manager.change(routes(buries, webhook("takes")))
        for _ in range(2):
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
        full, takes = (manager.shown(PROJECT, name, answers=False) for name in ("buries", "takes"))
        assert (full["counts"]["taken"], full["counts"]["dead"], full["counts"]["dropped"]) == (6, 6, 0)
        assert (full["queue"]["batches"], full["deadLetters"]["batches"], full["deadLetters"]["records"]) == (0, 2, 6)
        assert (takes["counts"]["taken"], takes["queue"]["records"], takes["queue"]["load"]) == (6, 6, 0.006)
        for _ in range(8):
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
        full, takes = (manager.shown(PROJECT, name, answers=False) for name in ("buries", "takes"))
        assert full["deadLetters"]["bytes"] <= storage.max_bytes
        assert full["counts"]["dropped"] > 0
        assert full["counts"]["taken"] + full["counts"]["dropped"] == takes["counts"]["taken"] == 30
        assert full["counts"]["taken"] == full["counts"]["dead"] == full["deadLetters"]["records"]
    told = "are dead letters: The queue of the destination buries was full: its queue holds as much as"
    assert any(told in message for message in caplog.messages)


async def test_what_a_disk_refuses_as_a_dead_letter_is_dropped(tmp_path: Path) -> None:
    system = Failing()
    buries = webhook("buries", buffering=Buffering(max_batches=0, on_full=OnFull.DEAD_LETTER))
    async with managing(tmp_path, system=system) as manager:
        await manager.change(routes(buries))
        system.write_error = errno.EIO
        for _ in range(2):  # the disk is not asked again at once
            assert await manager.take(PROJECT, LOGS) == TakenRecords()
        shown = manager.shown(PROJECT, "buries", answers=False)
        assert (shown["counts"]["dropped"], shown["counts"]["taken"], shown["counts"]["dead"]) == (6, 0, 0)


async def test_a_disk_that_is_down_to_what_stays_free_is_told_where_records_would_be_queued_on_it(
    tmp_path: Path,
) -> None:
    async with managing(tmp_path, reserve=1 << 60) as manager:
        await manager.change(routes(webhook("siem"), webhook("fast", buffering=IN_MEMORY)))
        told = [one["message"] == status.NO_ROOM for one in manager.all(PROJECT, answers=False)["deliveries"]]
        assert told == [False, True]  # `fast` is in memory
        with pytest.raises(
            QueueFull, match="siem cannot take more now: the disk has too little room, or takes nothing"
        ):
            await manager.take(PROJECT, LOGS)


async def test_senders_to_a_full_queue_try_again_after_one_to_five_seconds_and_not_all_at_once(tmp_path: Path) -> None:
    nothing = Buffering(storage=None, max_batches=0)
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem", buffering=nothing)))
        told = set()
        for _ in range(60):
            with pytest.raises(QueueFull) as full:
                await manager.take(PROJECT, LOGS)
            told.add(full.value.seconds)
    assert told == {1.0, 2.0, 3.0, 4.0, 5.0}


async def test_a_stop_says_how_many_records_in_memory_are_lost_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem", buffering=IN_MEMORY), webhook("archive")))
        await manager.take(PROJECT, LOGS)
        await manager.take(PROJECT, LOGS)
    assert caplog.messages == ["This stop loses 6 records that siem had in memory alone."]


async def test_two_queues_of_nobody_can_be_discarded_at_once(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("a"), webhook("b")))
        await manager.take(PROJECT, LOGS)

    async def discard(manager: Manager, name: str) -> list[tuple[int, int]]:
        return [done async for done in manager.discard(PROJECT, name, queued=True, dead=False)]

    async with managing(tmp_path) as manager:
        await manager.change(Routes(project=PROJECT))
        both = await asyncio.gather(discard(manager, "a"), discard(manager, "b"))
        assert [*both] == [[(1, 3)], [(1, 3)]]
        assert manager.figures().lanes == []
    assert list((tmp_path / "queues").glob("*/*/queue.json")) == []


async def test_whoever_gives_up_a_discard_leaves_no_queue_open_that_nobody_has(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        await manager.change(routes(webhook("siem")))
        await manager.take(PROJECT, LOGS)

    async def discard(manager: Manager) -> None:
        async for _ in manager.discard(PROJECT, "siem", queued=True, dead=False):
            pass

    async with managing(tmp_path) as manager:
        await manager.change(Routes(project=PROJECT))
        discarding = asyncio.create_task(discard(manager))
        while manager.figures().lanes:  # noqa: ASYNC110 - its queue goes in the very next turns
            await asyncio.sleep(0)
        discarding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await discarding
        await manager.change(routes(webhook("siem")))
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
    assert len(list((tmp_path / "queues").glob("*/*/queue.json"))) == 1


async def test_a_destination_is_not_refused_when_it_returns_at_any_moment_while_its_queue_goes(tmp_path: Path) -> None:
    async with managing(tmp_path) as manager:
        for turns in range(20):
            await manager.change(routes(webhook("siem")))
            await manager.change(Routes(project=PROJECT))
            for _ in range(turns):
                await asyncio.sleep(0)
            await manager.change(routes(webhook("siem")))
        assert await manager.take(PROJECT, LOGS) == TakenRecords()
        assert manager.shown(PROJECT, "siem", answers=False)["queue"]["batches"] == 1
    assert len(list((tmp_path / "queues").glob("*/*/queue.json"))) == 1
