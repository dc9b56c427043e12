"""Alerts on their way to real servers: each arrives signed, whatever happens to the server or to us."""

import asyncio
import base64
import hashlib
import hmac
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from reconciler.delivery.http_client import EgressPolicy, HttpClient
from reconciler.model.notification_types import Severity
from reconciler.notifications import alerts
from reconciler.notifications.alerts import AlertOutcome, AlertTarget
from reconciler.notifications.board import Board
from reconciler.notifications.ledger import AlertFilter
from reconciler.notifications.outbox import AlertLane, AlertTally, Outbox
from reconciler.server.notifying import CONNECTIONS
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import AlertRow
from tests.notifications.boards import PLACE, World, finding, look
from tests.servers import sinks
from tests.servers.certificates import Authority
from tests.servers.sinks import Received, Sink
from tests.store.engines import full
from tests.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "canary-alert-secret-0123456789"
OPEN = EgressPolicy()
NOWHERE = EgressPolicy(deny=(ip_network("127.0.0.0/8"),))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Service:
    """A board that sends, as long as it is up; what it waits for between attempts is noted and not waited for."""

    def __init__(self, board: Board, box: Outbox, operations: SqliteOperations) -> None:
        self.board = board
        self.box = box
        self.operations = operations
        self.waits: list[float] = []

    async def left(self) -> list[AlertRow]:
        """The alerts that are still to be sent."""
        return await self.operations.alerts()


@asynccontextmanager
async def started(
    world: World,
    *recipients: AlertTarget,
    policy: EgressPolicy = OPEN,
    passes: bool = True,
    authorities: Path | None = None,
    whole: float = alerts.WHOLE,
    **options: Any,
) -> AsyncIterator[Service]:
    """A start of the service, on the file of the world. `passes`: while it waits, time does. An attempt has `whole`
    seconds.
    """
    operations = SqliteOperations(world.path)
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        world.pass_(seconds=seconds if passes else 0)
        await asyncio.sleep(0)

    box = Outbox(recipients, operations, place=PLACE, clock=world.clock, wait=wait, **options)
    await box.load()
    board = Board(operations, clock=world.clock, place=PLACE, outbox=box)
    await board.load()
    service = Service(board, box, operations)
    service.waits = waits
    async with HttpClient(policy=policy, connections=CONNECTIONS * max(len(recipients), 1)) as client:
        sending = asyncio.create_task(box.keep(client, authorities=authorities, whole=whole))
        try:
            yield service
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await operations.close()


@contextmanager
def sealed(connection: sqlite3.Connection) -> Iterator[None]:
    """While it lasts, nothing can be taken out of the file either."""
    connection.execute("pragma query_only = on")
    try:
        yield
    finally:
        connection.execute("pragma query_only = off")


def to(sink: Sink, name: str = "operators", **given: Any) -> AlertTarget:
    return AlertTarget(name, url=f"http://127.0.0.1:{sink.port}/alerts?token=canary-token", **given)


async def nothing_left(service: Service) -> None:
    async with asyncio.timeout(10):
        while await service.left():  # noqa: ASYNC110 - the file tells nobody when it changes
            await asyncio.sleep(0.01)


def signature(one: Received, secret: str = SECRET) -> str:
    """What a receiver computes, by the specification of Standard Webhooks."""
    signed = f"{one.header('webhook-id')}.{one.header('webhook-timestamp')}.".encode() + one.body
    return f"v1,{base64.b64encode(hmac.new(secret.encode(), signed, hashlib.sha256).digest()).decode()}"


def about(one: Received) -> str:
    """The repository that an alert is about."""
    title: str = one.json["notification"]["metadata"]["displayName"]
    return title.removeprefix("Resolved: ").split()[2]


def told(sink: Sink) -> list[str]:
    return [one.json["event"] for one in sink.accepted]


async def test_what_begins_and_what_ends_arrives_signed_over_the_bytes_that_came(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    with sinks.listening() as sink:
        async with started(world, to(sink, secret_file=secret)) as service:
            await service.board.take(look(finding()))
            await nothing_left(service)
            await service.board.take(look())
            await nothing_left(service)
    first, second = sink.received
    assert [one.header("webhook-signature") for one in (first, second)] == [signature(first), signature(second)]
    assert (first.method, first.path, first.header("Content-Type")) == (
        "POST",
        "/alerts?token=canary-token",
        "application/json",
    )
    assert first.json["text"].startswith("[error] The repository telemetry cannot be read (default)\n")
    assert first.json["id"] == first.header("webhook-id")
    assert [first.json["event"], second.json["event"]] == ["opened", "resolved"]
    assert first.json["notification"]["spec"]["notificationType"] == "RepositoryUnreachable"


async def test_what_a_server_does_not_take_is_sent_again_as_it_was(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with sinks.listening() as sink:
        sink.script(sinks.says(500), sinks.reset(), sinks.says(429, headers=(("Retry-After", "120"),)), sinks.says(204))
        async with started(world, to(sink, secret_file=secret)) as service:
            await service.board.take(look(finding()))
            await nothing_left(service)
            waits = service.waits
    assert len({one.body for one in sink.received}) == 1
    assert len({one.header("webhook-id") for one in sink.received}) == 1
    assert all(one.header("webhook-signature") == signature(one) for one in sink.received)
    assert len({one.header("webhook-timestamp") for one in sink.received}) == len(sink.received)
    assert (0.8 < waits[0] < 1.2, 1.7 < waits[1] < 2.3, waits[2]) == (True, True, 120.0)


async def test_one_that_is_taken_by_nobody_is_given_up_after_an_hour_and_the_log_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            begun = world.clock()
            await nothing_left(service)
    assert 3600 <= (world.clock() - begun).total_seconds() < 3600 + 66
    assert caplog.messages == [
        "The alert target operators does not take an alert, which is tried again: it answered 503: it is overloaded or "
        "down for maintenance",
        "1 alert to operators could not be sent within an hour and is given up.",
    ]


async def test_what_is_too_old_at_a_start_is_not_tried_and_what_is_new_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    found = [finding(f"r{number}") for number in range(3)]
    with sinks.listening() as sink:
        async with world.board(to(sink)) as board:
            await board.take(look(*found))
        world.pass_(hours=1)
        async with started(world, to(sink)) as service:
            await until(lambda: service.box.tallies() == [AlertTally("operators", 0, 0, 3, 0)])
            await service.board.take(look(*found, finding("fresh")))
            await nothing_left(service)
            assert service.box.tallies() == [AlertTally("operators", 1, 0, 3, 0)]
    assert [about(one) for one in sink.received] == ["fresh"]
    assert caplog.messages == ["3 alerts to operators could not be sent within an hour and are given up."]


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 410, 413, 422])
async def test_one_that_is_refused_is_given_up_soon_and_those_behind_it_go_on(
    world: World, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with sinks.listening() as sink:
        sink.script(*[sinks.says(status)] * 3, sinks.says(200))
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding("a"), finding("b")))
            await nothing_left(service)
            assert service.box.tallies() == [AlertTally("operators", 1, 3, 1, 0)]
    assert [about(one) for one in sink.received] == ["a", "a", "a", "b"]
    first, given_up = caplog.messages
    why = first.removeprefix("The alert target operators does not take an alert, which is tried again: ")
    assert why.startswith(f"it answered {status}: ")
    assert given_up == f"An alert to operators of 2026-11-21T06:12:00.123Z is given up: {why}."


@pytest.mark.parametrize("status", [408, 425, 429, 500])
async def test_what_may_be_taken_later_is_not_given_up_for_being_refused(world: World, status: int) -> None:
    with sinks.listening() as sink:
        sink.script(*[sinks.says(status)] * 9, sinks.says(200))
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            await nothing_left(service)
            assert service.box.tallies() == [AlertTally("operators", 1, 9, 0, 0)]


async def test_a_target_that_is_new_is_told_of_what_is_open_once_and_the_worst_first(world: World) -> None:
    mild, bad = finding("mild", severity=Severity.INFO), finding("bad", severity=Severity.CRITICAL)
    wanted = AlertFilter(severities={Severity.ERROR, Severity.CRITICAL})
    with sinks.listening() as known, sinks.listening() as fresh:
        async with started(world, to(known)) as service:
            await service.board.take(look(finding("over"), finding("old"), mild, bad))
            await service.board.take(look(finding("old"), mild, bad))
            await nothing_left(service)
        heard = len(known.received)
        for _ in range(2):
            async with started(world, to(known), to(fresh, "chat", wanted=wanted)) as service:
                await nothing_left(service)
        assert [(about(one), one.json["event"]) for one in fresh.received] == [("bad", "opened"), ("old", "opened")]
        async with started(world, to(known), to(fresh, "chat", wanted=wanted)) as service:
            await service.board.take(look(bad, mild))
            await nothing_left(service)
        assert about(fresh.received[-1]) == "old"
        assert told(fresh) == ["opened", "opened", "resolved"]
        assert [about(one) for one in known.received[heard:]] == ["old"]


async def test_a_target_that_was_gone_is_new_when_it_comes_back(world: World) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            await nothing_left(service)
        async with world.board():
            pass
        async with started(world, to(sink)) as service:
            await nothing_left(service)
    assert told(sink) == ["opened", "opened"]


async def test_a_target_that_is_new_is_not_told_of_thousands(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with sinks.listening() as sink:
        async with started(world) as service:
            await service.board.take(look(*[finding(f"r{number:03}") for number in range(150)]))
        async with started(world, to(sink)) as service:
            await nothing_left(service)
            await service.board.take(look())
            await nothing_left(service)
    assert [about(one) for one in sink.received] == [f"r{number:03}" for number in range(100)] * 2
    assert told(sink) == ["opened"] * 100 + ["resolved"] * 100
    assert "The alert target operators did not hear of 150 open notifications and is told of 100." in caplog.messages


async def test_a_test_goes_out_at_once_and_signed_past_those_that_wait(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with sinks.listening() as sink, sinks.listening() as gone:
        gone.script(sinks.says(410))
        recipients = (to(sink, secret_file=secret), to(gone, "gone"))
        async with started(world, *recipients, passes=False) as service:
            assert await service.box.test("unknown", request="REQUEST") == []
            await until(lambda: service.box._sender is not None)
            first, second = await service.box.test(None, request="REQUEST")
            [again] = await service.box.test("operators", request="ANOTHER")
            assert await service.left() == []
    assert [(one.target, one.came.status, one.came.is_taken) for one in (first, second, again)] == [
        ("operators", 200, True),
        ("gone", 410, False),
        ("operators", 200, True),
    ]
    assert (first.came.why, second.came.why) == (
        "",
        "it answered 410: a wrong or withdrawn URL; make a new one there, and put it into `url` or `urlFile`",
    )
    one = sink.received[0]
    assert one.header("webhook-signature") == signature(one)
    assert one.json == {
        "text": "This is a test: alerts of default to operators arrive here.",
        "id": "REQUEST-operators",
        "event": "test",
        "at": "2026-11-21T06:12:00.123Z",
    }


async def test_what_was_not_sent_before_the_end_is_sent_by_the_next_start(world: World) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(sink.received) == 1)
        sink.script(sinks.says(200))
        async with started(world, to(sink)) as service:
            await nothing_left(service)
            await service.board.take(look(finding()))
            assert await service.left() == []
    assert len({one.header("webhook-id") for one in sink.received}) == 1
    assert told(sink) == ["opened"]


async def test_alerts_go_out_while_nothing_can_be_written_and_those_that_wait_are_kept_when_it_can(
    world: World,
) -> None:
    many = [finding(f"r{number}") for number in range(200)]
    with sinks.listening() as taking, sinks.listening() as hanging:
        hanging.choose(lambda _: sinks.says(503))
        async with started(world, to(taking), to(hanging, "others"), passes=False) as service:
            with full(service.operations._connection):
                await service.board.take(look(*many))
                await until(lambda: len(taking.received) == 200)
                await service.board.tidy()
                assert await service.left() == []
            await service.board.tidy()
            assert [row.target for row in await service.left()] == ["others"] * 200


async def test_alerts_for_a_target_that_left_the_settings_are_forgotten(world: World) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(sink.received) == 1)
        async with started(world, to(sink, "others")) as service:
            assert {row.target for row in await service.left()} == {"others"}


async def test_a_target_that_hangs_keeps_no_other_waiting(world: World) -> None:
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        async with started(world, to(stuck, "stuck"), to(fine, "fine")) as service:
            for number in range(5):
                await service.board.take(look(*[finding(f"r{each}") for each in range(number + 1)]))
            await until(lambda: len(fine.accepted) == 5)
            assert {row.target for row in await service.left()} == {"stuck"}


async def test_twenty_targets_that_hang_take_little_and_keep_neither_another_nor_the_stop_waiting(world: World) -> None:
    found = [finding(f"r{number}") for number in range(30)]
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        hanging = [to(stuck, f"stuck{number}") for number in range(20)]
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(started(world, *hanging, to(fine, "fine"), most=10))
            for number in range(0, 30, 10):
                await service.board.take(look(*found[: number + 10]))
                await until(lambda number=number: len(fine.accepted) == number + 10)  # type: ignore[misc]
            await until(lambda: len(stuck.received) == 20)
            tasks = sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("alerts-"))
            assert tasks == sorted(f"alerts-{one.name}" for one in (*hanging, to(fine, "fine")))
            assert len(asyncio.all_tasks()) < 100
            assert {(one.waiting, one.sent) for one in service.box.tallies()} == {(10, 0), (0, 30)}
            assert (stuck.connections, fine.connections) == (20, 1)
            async with asyncio.timeout(2):
                await stack.aclose()
    assert [about(one) for one in fine.accepted] == [f"r{number}" for number in range(30)]


async def test_attempts_at_targets_that_hang_end_and_so_does_what_waits_for_them(world: World) -> None:
    found = [finding(f"r{number}") for number in range(5)]
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        hanging = [to(stuck, f"stuck{number}") for number in range(20)]
        async with started(world, *hanging, to(fine, "fine"), passes=False, whole=0.3) as service:
            await service.board.take(look(*found))
            await until(lambda: service.box.tallies()[-1].sent == 5)
            await until(lambda: all(one.failed for one in service.box.tallies()[:-1]))
            world.pass_(hours=1)
            await nothing_left(service)
            given_up = [(one.given_up, one.waiting) for one in service.box.tallies()]
            assert given_up == [*[(5, 0)] * 20, (0, 0)]
            await until(lambda: stuck.busy == 0)


async def test_alerts_arrive_in_their_order_and_only_those_that_are_wanted(world: World) -> None:
    wanted = AlertFilter(severities={Severity.CRITICAL})
    with sinks.listening() as sink, sinks.listening() as critical:
        async with started(world, to(sink), to(critical, "critical", wanted=wanted)) as service:
            await service.board.take(look(finding("a"), finding("b", severity=Severity.CRITICAL)))
            await service.board.take(look(finding("c")))
            await nothing_left(service)
    assert [about(one) for one in sink.accepted] == ["a", "b", "c", "a", "b"]
    assert told(critical) == ["opened", "resolved"]


async def test_a_cause_that_flaps_is_told_twice_and_that_it_is_over_when_it_stayed_away(world: World) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink)) as service:
            for _ in range(5):
                await service.board.take(look(finding()))
                await service.board.take(look())
                world.pass_(minutes=1)
            await nothing_left(service)
            assert told(sink) == ["opened", "resolved", "opened"]
            world.pass_(minutes=13, seconds=59)
            await service.board.tidy()
            assert await service.left() == []
        world.pass_(seconds=1)
        async with started(world, to(sink)) as service:
            await service.board.tidy()
            await nothing_left(service)
    assert told(sink) == ["opened", "resolved", "opened", "resolved"]


async def test_nothing_goes_to_a_network_that_is_denied(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink), policy=NOWHERE) as service:
            await service.board.take(look(finding()))
            await nothing_left(service)
    assert (sink.connections, sink.received) == (0, [])
    said = [each for each in caplog.messages if each.startswith("The alert target")]
    assert len(said) == 1
    assert "is denied by `delivery.egress`" in said[0]


async def test_a_server_is_trusted_by_the_authorities_of_the_settings_once_they_can_be_read(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, bundle = Authority.make(tmp_path / "authority"), tmp_path / "bundle.pem"
    with sinks.listening(tls=authority.issue().context()) as sink:
        recipient = AlertTarget("operators", url=f"https://127.0.0.1:{sink.port}/")
        async with started(world, recipient, authorities=bundle, passes=False) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(service.waits) > 1)
            shutil.copy(authority.bundle, bundle)
            await nothing_left(service)
    assert told(sink) == ["opened"]
    assert f"`outbound.caFile` cannot be read: put a PEM file at {bundle}" in caplog.messages[0]


async def test_too_many_lose_the_oldest_but_the_one_that_is_under_way(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    found = [finding(f"r{number}") for number in range(5)]
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with started(world, to(sink), most=2) as service:
            await service.board.take(look(found[0]))
            await until(lambda: len(sink.received) == 1)
            for number in range(2, 6):
                await service.board.take(look(*found[:number]))
            assert service.box.tallies() == [AlertTally("operators", 0, 0, 3, 2)]
            await service.board.tidy()
            assert [row.target for row in await service.left()] == ["operators"] * 2
        sink.script(sinks.says(200))
        async with started(world, to(sink), most=2) as service:
            for expected in (2, 4, 5):
                await until(lambda expected=expected: len(sink.accepted) == expected)  # type: ignore[misc]
                await nothing_left(service)
                await service.board.tidy()
    assert [about(one) for one in sink.accepted] == ["r0", "r4", "r1", "r2", "r3"]
    said = "Too many alerts wait for operators; the oldest are given up until it takes one."
    assert caplog.messages.count(said) == 1


async def test_a_look_makes_no_more_alerts_than_may_wait_and_ends_are_told_of_those_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks.listening() as sink, sinks.listening() as another:
        async with started(world, to(sink), to(another, "others"), most=3) as service:
            await service.board.take(look(*[finding(f"r{number}") for number in range(9)]))
            await nothing_left(service)
            await service.board.take(look())
            await nothing_left(service)
            assert {one.given_up for one in service.box.tallies()} == {6}
    for each in (sink, another):
        assert [about(one) for one in each.accepted] == ["r0", "r1", "r2"] * 2
        assert told(each) == ["opened"] * 3 + ["resolved"] * 3
    assert "One look has more alerts for others than may wait; those past 3 are not made." in caplog.messages


async def test_a_beginning_that_was_given_up_is_told_when_the_target_takes_alerts_again_and_its_end_only_then(
    world: World,
) -> None:
    found = [finding(name) for name in ("over", "there", "fresh")]
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with started(world, to(sink)) as service:
            await service.board.take(look(*found[:2]))
            await nothing_left(service)
            await service.board.take(look(found[1]))
            await service.board.tidy()
            assert await service.left() == []
            sink.script(sinks.says(200))
            await service.board.take(look(*found[1:]))
            await nothing_left(service)
            await service.board.tidy()
            await nothing_left(service)
            await service.board.tidy()
        async with started(world, to(sink)) as service:
            await service.board.take(look())
            await nothing_left(service)
    assert sorted((about(one), one.json["event"]) for one in sink.accepted) == [
        ("fresh", "opened"),
        ("fresh", "resolved"),
        ("there", "opened"),
        ("there", "resolved"),
    ]


async def test_a_target_that_wants_more_than_before_is_told_of_what_is_open_and_one_that_wants_less_of_the_end(
    world: World,
) -> None:
    critical = AlertFilter(severities={Severity.CRITICAL})
    with sinks.listening() as sink:
        for wanted in (critical, AlertFilter(), critical):
            async with started(world, to(sink, wanted=wanted)) as service:
                await service.board.take(look(finding()))
                await nothing_left(service)
        async with started(world, to(sink, wanted=critical)) as service:
            await service.board.take(look())
            await nothing_left(service)
    assert told(sink) == ["opened", "resolved"]


async def test_an_alert_that_is_given_up_takes_the_end_with_it_and_not_what_began_anew(world: World) -> None:
    async with world.board(AlertTarget("operators", url="http://127.0.0.1:1/")) as board:
        for _ in range(2):
            await board.take(look(finding()))
            await board.take(look())
        first, end, again = await board._operations.alerts()
    for rows, gone, lost in (
        ((first, end, again), [first.id, end.id], 0),
        ((first, end), [first.id, end.id], 1),
        ((first, again), [first.id], 0),
    ):
        lane = AlertLane(AlertTarget("operators"), most=9)
        assert [lane.add(row) for row in rows] == [[]] * len(rows)
        assert (lane.give_up(1), len(lane.lost), lane.given_up) == (gone, lost, 1)
    lane = AlertLane(AlertTarget("operators"), most=9)
    lane.add(first)
    lane.give_up(1)
    assert (lane.add(end), lane.add(again), lane.lost) == ([end.id], [], set())


async def test_a_disk_that_is_full_does_not_keep_the_service_from_starting_and_sent_alerts_are_forgotten_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.board(AlertTarget("gone", url="http://127.0.0.1:1/")) as board:
        await board.take(look(finding()))
    operations = SqliteOperations(world.path)
    try:
        with sealed(operations._connection):
            box = Outbox([AlertTarget("operators")], operations, place=PLACE, clock=world.clock)
            await box.load()
            await box.tidy()
            assert len(await operations.alerts()) == 1
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("Alerts that were sent are sent again after a restart: ")
        await box.tidy()
        assert await operations.alerts() == []
    finally:
        await operations.close()


async def test_what_is_sent_while_nothing_can_be_forgotten_is_forgotten_together_when_it_can_be(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with started(world, to(sink), passes=False) as service:
            await service.board.take(look(*[finding(f"r{number}") for number in range(5)]))
            with sealed(service.operations._connection):
                sink.script(sinks.says(200))
                await until(lambda: service.box.tallies() == [AlertTally("operators", 5, ANY, 0, 0)])
                await until(lambda: len(service.box._gone) == 5)
                assert len(await service.left()) == 5
            await service.board.tidy()
            assert await service.left() == []
    assert sum("are sent again after a restart" in each for each in caplog.messages) == 1


async def test_files_that_cannot_be_read_in_time_end_the_attempt_and_keep_no_other_target_waiting(
    tmp_path: Path,
) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1/")
    free = threading.Event()
    with sinks.listening() as sink:
        async with HttpClient(policy=OPEN) as client:
            sender = alerts.AlertSender(client, whole=0.2)
            sender._threads["stuck"] = ThreadPoolExecutor(1)
            sender._threads["stuck"].submit(free.wait, 30)  # as a disk that hangs
            try:
                stuck = AlertTarget("stuck", url_file=tmp_path / "url")
                came = [await sender.send(one, b"{}", identifier="A", seconds=0) for one in (stuck, to(sink))]
            finally:
                free.set()
                sender.close()
    assert came == [
        AlertOutcome(why="it took longer than 0.2 seconds; look at the disk that its files are on"),
        AlertOutcome(200),
    ]


async def test_tests_are_made_at_once_by_tasks_with_names_and_one_of_each_target_at_a_time(world: World) -> None:
    with sinks.listening() as sink, sinks.listening() as another:
        sink.script(sinks.silent())
        async with started(world, to(sink), to(another, "others")) as service:
            await until(lambda: service.box._sender is not None)
            testing = asyncio.create_task(service.box.test(None, request="REQUEST"))
            await until(lambda: len(sink.received) == 1 and len(another.accepted) == 1)
            assert "alert-test-operators" in {task.get_name() for task in asyncio.all_tasks()}
            came = [one.came for one in await service.box.test(None, request="ANOTHER")]
            assert came == [AlertOutcome(why="another test of it is under way; try again"), AlertOutcome(200)]
            testing.cancel()
            with suppress(asyncio.CancelledError):
                await testing


async def test_a_url_and_a_secret_in_files_are_read_at_each_attempt_and_shown_nowhere(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, secret = tmp_path / "url", tmp_path / "secret"
    with sinks.listening() as sink:
        recipient = AlertTarget("chat", url_file=url, secret_file=secret)
        async with started(world, recipient, passes=False) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(service.waits) > 1)
            url.write_text(f"http://127.0.0.1:{sink.port}/canary-path\n")
            secret.write_text(SECRET)
            await nothing_left(service)
            rows = repr((recipient, await service.left()))
    (one,) = sink.received
    assert (one.path, one.header("webhook-signature")) == ("/canary-path", signature(one))
    assert "canary" not in rows + caplog.text
    assert f"the file {url} cannot be read; put the URL into it" in caplog.messages[0]


@pytest.mark.parametrize("text", ["", "ftp://a.example/", "http://u:p@a.example/", "//a.example/", "http://[", "x y"])
async def test_what_is_no_url_is_not_sent_to(tmp_path: Path, text: str) -> None:
    url = tmp_path / "url"
    url.write_text(text)
    async with HttpClient(policy=OPEN) as client:
        sender = alerts.AlertSender(client)
        came = await sender.send(AlertTarget("chat", url_file=url), b"{}", identifier="A", seconds=0)
        sender.close()
    told = f"what is in {url} is no http or https URL without a user; put one into it"
    assert came == AlertOutcome(why=told)
