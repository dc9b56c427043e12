"""Alerts on their way to real servers: each arrives signed, whatever happens to the server or to us."""

import asyncio
import base64
import hashlib
import hmac
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from reconciler.delivery.http_client import EgressPolicy, HttpClient
from reconciler.model.notification_types import Severity
from reconciler.notifications import alerts
from reconciler.notifications.board import Board
from reconciler.notifications.models import AlertOutcome
from reconciler.notifications.outbox import AlertTally, Outbox
from reconciler.server.notifying import CONNECTIONS
from reconciler.settings import bounded_io
from reconciler.settings.models import AlertTarget
from tests.notifications import boards
from tests.notifications.boards import PLACE, World, finding, observation
from tests.servers import sinks
from tests.servers.certificates import Authority
from tests.servers.sinks import Received, Sink
from tests.store.engines import full, read_only
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

    def __init__(self, board: Board, box: Outbox, waits: list[float]) -> None:
        self.board = board
        self.box = box
        self.waits = waits

    def left(self) -> dict[str, int]:
        """The number of alerts that are still to be sent, for each target that is to get some."""
        return {one.target: one.waiting for one in self.box.tallies() if one.waiting}


@asynccontextmanager
async def started(
    world: World,
    *targets: AlertTarget,
    policy: EgressPolicy = OPEN,
    passes: bool = True,
    authorities: Path | None = None,
    whole: float = alerts.WHOLE,
) -> AsyncIterator[Service]:
    """A start of the service, on the file of the world. `passes`: while it waits, time does. An attempt has `whole`
    seconds.
    """
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        world.pass_(seconds=seconds if passes else 0)
        await asyncio.sleep(0)

    async with world.board(*targets) as board, HttpClient(policy=policy, connections=CONNECTIONS * 21) as client:
        box = Outbox(board, place=PLACE, clock=world.clock, wait=wait)
        sending = asyncio.create_task(box.keep(client, authorities=authorities, whole=whole))
        await asyncio.sleep(0)
        try:
            yield Service(board, box, waits)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending


def to(sink: Sink, name: str = "operators", **given: Any) -> AlertTarget:
    return boards.target(name, url=f"http://127.0.0.1:{sink.port}/alerts?token=canary-token", **given)


async def nothing_left(service: Service) -> None:
    await until(lambda: not service.left())


def signature(one: Received, secret: str = SECRET) -> str:
    """Sign as a receiver does, by the specification of Standard Webhooks."""
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
        async with started(world, to(sink, secretFile=secret)) as service:
            await service.board.take(observation(finding()))
            await nothing_left(service)
            await service.board.take(observation())
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
        async with started(world, to(sink, secretFile=secret)) as service:
            await service.board.take(observation(finding()))
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
            await service.board.take(observation(finding()))
            begun = world.clock()
            await nothing_left(service)
    assert 3600 <= (world.clock() - begun).total_seconds() < 3600 + 66
    assert caplog.messages == [
        "The alert target operators does not take an alert, which is tried again: it answered 503: its server fails; "
        "look at its own logs",
        "1 alert to operators given up: an hour old.",
    ]


async def test_what_is_too_old_at_a_start_is_not_tried_and_what_is_new_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    found = [finding(f"r{number}") for number in range(3)]
    with sinks.listening() as sink:
        async with world.board(to(sink)) as board:
            await board.take(observation(*found))
        world.pass_(hours=1)
        async with started(world, to(sink)) as service:
            await until(lambda: service.box.tallies() == [AlertTally("operators", 0, 0, 3, 0)])
            await service.board.take(observation(*found, finding("fresh")))
            await until(lambda: service.box.tallies() == [AlertTally("operators", 4, 0, 3, 0)])
    assert [about(one) for one in sink.received] == ["fresh", "r0", "r1", "r2"]
    assert caplog.messages == ["3 alerts to operators given up: an hour old."]


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 410, 413, 422])
async def test_one_that_is_refused_is_given_up_soon_and_those_behind_it_go_on(
    world: World, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with sinks.listening() as sink:
        sink.script(*[sinks.says(status)] * 3, sinks.says(200))
        async with started(world, to(sink)) as service:
            await service.board.take(observation(finding("a"), finding("b")))
            await until(lambda: service.box.tallies() == [AlertTally("operators", 2, 3, 1, 0)])
    assert [about(one) for one in sink.received] == ["a", "a", "a", "b", "a"]
    first, given_up = caplog.messages
    why = first.removeprefix("The alert target operators does not take an alert, which is tried again: ")
    assert why.startswith(f"it answered {status}: ")
    assert given_up == f"An alert to operators of 2026-11-21T06:12:00.123Z is given up: {why}."


@pytest.mark.parametrize("status", [408, 425, 429, 500])
async def test_what_may_be_taken_later_is_not_given_up_for_being_refused(world: World, status: int) -> None:
    with sinks.listening() as sink:
        sink.script(*[sinks.says(status)] * 9, sinks.says(200))
        async with started(world, to(sink)) as service:
            await service.board.take(observation(finding()))
            await nothing_left(service)
            assert service.box.tallies() == [AlertTally("operators", 1, 9, 0, 0)]


async def test_a_target_that_is_new_is_told_of_what_is_open_once_and_the_worst_first(world: World) -> None:
    mild, bad = finding("mild", severity=Severity.INFO), finding("bad", severity=Severity.CRITICAL)
    wanted = (Severity.ERROR, Severity.CRITICAL)
    with sinks.listening() as known, sinks.listening() as fresh:
        async with started(world, to(known)) as service:
            await service.board.take(observation(finding("over"), finding("old"), mild, bad))
            await service.board.take(observation(finding("old"), mild, bad))
            await nothing_left(service)
        heard = len(known.received)
        for _ in range(2):
            async with started(world, to(known), to(fresh, "chat", severities=wanted)) as service:
                await nothing_left(service)
        assert [(about(one), one.json["event"]) for one in fresh.received] == [("bad", "opened"), ("old", "opened")]
        async with started(world, to(known), to(fresh, "chat", severities=wanted)) as service:
            await service.board.take(observation(bad, mild))
            await nothing_left(service)
        assert about(fresh.received[-1]) == "old"
        assert told(fresh) == ["opened", "opened", "resolved"]
        assert [about(one) for one in known.received[heard:]] == ["old"]


async def test_a_target_that_was_gone_is_new_when_it_comes_back(world: World) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink)) as service:
            await service.board.take(observation(finding()))
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
            await service.board.take(observation(*[finding(f"r{number:03}") for number in range(150)]))
        async with started(world, to(sink)) as service:
            await nothing_left(service)
            await service.board.take(observation())
            await nothing_left(service)
    assert [about(one) for one in sink.received] == [f"r{number:03}" for number in range(100)] * 2
    assert told(sink) == ["opened"] * 100 + ["resolved"] * 100
    said = "The alert target operators is told of 100 open notifications that it did not hear of."
    assert caplog.messages.count(said) == 1


async def test_a_test_goes_out_at_once_and_signed_past_those_that_wait(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with sinks.listening() as sink, sinks.listening() as gone:
        gone.script(sinks.says(410))
        recipients = (to(sink, secretFile=secret), to(gone, "gone"))
        async with started(world, *recipients, passes=False) as service:
            assert await service.box.test("unknown", request="REQUEST") == []
            first, second = await service.box.test(None, request="REQUEST")
            [again] = await service.box.test("operators", request="ANOTHER")
            assert service.left() == {}
    assert [(one.target, one.came.status, one.came.is_taken) for one in (first, second, again)] == [
        ("operators", 200, True),
        ("gone", 410, False),
        ("operators", 200, True),
    ]
    assert (first.came.why, second.came.why) == (
        "",
        "it answered 410: a wrong or withdrawn URL, or it expects another signature; correct `url`, `urlFile` or "
        "`secretFile`",
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
            await service.board.take(observation(finding()))
            await until(lambda: len(sink.received) == 1)
        sink.script(sinks.says(200))
        async with started(world, to(sink)) as service:
            await nothing_left(service)
            await service.board.take(observation(finding()))
            assert service.left() == {}
    assert len({one.header("webhook-id") for one in sink.received}) == 1
    assert told(sink) == ["opened"]


async def test_alerts_go_out_while_nothing_can_be_written_and_those_that_wait_are_kept_when_it_can(
    world: World,
) -> None:
    many = [finding(f"r{number}") for number in range(200)]
    with sinks.listening() as taking, sinks.listening() as hanging:
        hanging.choose(lambda _: sinks.says(503))
        async with started(world, to(taking), to(hanging, "others"), passes=False) as service:
            with full(world.path):
                await service.board.take(observation(*many))
                await until(lambda: len(taking.received) == 200)
                await until(lambda: service.left() == {"others": 200})
            await service.board.tidy()
        async with world.board(to(taking), to(hanging, "others")) as board:
            assert [len(board.due(target)) for target in board.targets] == [0, 200]


async def test_alerts_for_a_target_that_left_the_settings_are_forgotten(world: World) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with started(world, to(sink)) as service:
            await service.board.take(observation(finding()))
            await until(lambda: len(sink.received) == 1)
        async with started(world, to(sink, "others")) as service:
            assert service.left() == {"others": 1}


async def test_a_target_that_hangs_keeps_no_other_waiting(world: World) -> None:
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        async with started(world, to(stuck, "stuck"), to(fine, "fine")) as service:
            for number in range(5):
                await service.board.take(observation(*[finding(f"r{each}") for each in range(number + 1)]))
            await until(lambda: len(fine.accepted) == 5 and service.left() == {"stuck": 5})


async def test_twenty_targets_that_hang_take_little_and_keep_neither_another_nor_the_stop_waiting(world: World) -> None:
    found = [finding(f"r{number}") for number in range(30)]
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        hanging = [to(stuck, f"stuck{number}") for number in range(20)]
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(started(world, *hanging, to(fine, "fine")))
            for number in range(0, 30, 10):
                await service.board.take(observation(*found[: number + 10]))
                await until(lambda number=number: len(fine.accepted) == number + 10)  # type: ignore[misc]
            await until(lambda: len(stuck.received) == 20)
            tasks = sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("alerts-"))
            assert tasks == sorted(f"alerts-{one.name}" for one in (*hanging, to(fine, "fine")))
            assert len(asyncio.all_tasks()) < 100
            # The last answer of the other may be under way.
            await until(lambda: {(one.waiting, one.sent) for one in service.box.tallies()} == {(30, 0), (0, 30)})
            assert (stuck.connections, fine.connections) == (20, 1)
            async with asyncio.timeout(10):
                await stack.aclose()
    assert [about(one) for one in fine.accepted] == [f"r{number}" for number in range(30)]


async def test_attempts_at_targets_that_hang_end_and_so_does_what_waits_for_them(world: World) -> None:
    found = [finding(f"r{number}") for number in range(5)]
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        hanging = [to(stuck, f"stuck{number}") for number in range(20)]
        async with started(world, *hanging, to(fine, "fine"), passes=False, whole=0.3) as service:
            await service.board.take(observation(*found))
            await until(lambda: service.box.tallies()[-1].sent == 5)
            await until(lambda: all(one.failed for one in service.box.tallies()[:-1]))
            world.pass_(hours=1)
            await nothing_left(service)
            given_up = [(one.given_up, one.waiting) for one in service.box.tallies()]
            assert given_up == [*[(5, 0)] * 20, (0, 0)]
            await until(lambda: stuck.busy == 0)


async def test_alerts_arrive_in_their_order_and_only_those_that_are_wanted(world: World) -> None:
    wanted = (Severity.CRITICAL,)
    with sinks.listening() as sink, sinks.listening() as critical:
        async with started(world, to(sink), to(critical, "critical", severities=wanted)) as service:
            await service.board.take(observation(finding("a"), finding("b", severity=Severity.CRITICAL)))
            await service.board.take(observation(finding("c")))
            await nothing_left(service)
    assert [about(one) for one in sink.accepted] == ["a", "b", "c", "a", "b"]
    assert told(critical) == ["opened", "resolved"]


async def test_a_cause_that_flaps_is_told_twice_and_that_it_is_over_when_it_stayed_away(world: World) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink)) as service:
            for _ in range(5):
                for there in ((finding(),), ()):
                    await service.board.take(observation(*there))
                    await nothing_left(service)
                world.pass_(minutes=1)
            assert told(sink) == ["opened", "resolved", "opened"]
            world.pass_(minutes=13, seconds=59)
            await service.board.tidy()
            assert service.left() == {}
        world.pass_(seconds=1)
        async with started(world, to(sink)) as service:
            await service.board.tidy()
            await nothing_left(service)
    assert told(sink) == ["opened", "resolved", "opened", "resolved"]


async def test_nothing_goes_to_a_network_that_is_denied(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink), policy=NOWHERE) as service:
            await service.board.take(observation(finding()))
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
        recipient = boards.target("operators", url=f"https://127.0.0.1:{sink.port}/")
        async with started(world, recipient, authorities=bundle, passes=False) as service:
            await service.board.take(observation(finding()))
            await until(lambda: len(service.waits) > 1)
            shutil.copy(authority.bundle, bundle)
            await nothing_left(service)
    assert told(sink) == ["opened"]
    assert f"`outbound.caFile` cannot be read: put a PEM file at {bundle}" in caplog.messages[0]


async def test_ends_are_told_of_those_alone_whose_beginning_was_told(world: World) -> None:
    with sinks.listening() as sink:
        sink.script(*[sinks.says(410)] * 3, sinks.says(200))
        async with started(world, to(sink)) as service:
            await service.board.take(observation(*[finding(f"r{number}") for number in range(3)]))
            await until(lambda: service.box.tallies()[0].given_up == 1)
            await service.board.take(observation())
            await nothing_left(service)
    opened, resolved = [
        sorted(about(one) for one in sink.accepted if one.json["event"] == event) for event in ("opened", "resolved")
    ]
    assert opened == resolved


async def test_a_beginning_that_was_given_up_is_told_when_the_target_takes_alerts_again_and_its_end_only_then(
    world: World,
) -> None:
    found = [finding(name) for name in ("over", "there", "fresh")]
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with started(world, to(sink)) as service:
            await service.board.take(observation(*found[:2]))
            await nothing_left(service)
            await service.board.take(observation(found[1]))
            assert service.left() == {}
            sink.script(sinks.says(200))
            await service.board.take(observation(*found[1:]))
            await until(lambda: len(sink.accepted) == 2 and not service.left())
        async with started(world, to(sink)) as service:
            await service.board.take(observation())
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
    critical = (Severity.CRITICAL,)
    with sinks.listening() as sink:
        for wanted in (critical, (), critical):
            async with started(world, to(sink, severities=wanted)) as service:
                await service.board.take(observation(finding()))
                await nothing_left(service)
        async with started(world, to(sink, severities=critical)) as service:
            await service.board.take(observation())
            await nothing_left(service)
    assert told(sink) == ["opened", "resolved"]


async def test_a_disk_that_takes_nothing_keeps_the_service_neither_from_starting_nor_from_sending(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.board(boards.target("gone")) as board:
        await board.take(observation(*[finding(f"r{number}") for number in range(5)]))
    async with world.operations() as operations:
        with sinks.listening() as sink:
            board = Board(operations, clock=world.clock, place=PLACE, targets=[to(sink)])
            box = Outbox(board, place=PLACE, clock=world.clock)
            with read_only(world.path):
                await board.load()
                async with HttpClient(policy=OPEN) as client, asyncio.TaskGroup() as group:
                    sending = group.create_task(box.keep(client))
                    await until(lambda: box.tallies() == [AlertTally("operators", 5, 0, 0, 0)])
                    sending.cancel()
            assert board.unwritten != ""
            await board.tidy()
            assert board.unwritten == ""
    async with world.board(to(sink)) as board:
        assert board.due(to(sink)) == []
    assert sum("after a restart not known" in each for each in caplog.messages) == 1


async def test_files_that_cannot_be_read_in_time_end_the_attempt_and_keep_no_other_target_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()

    def hangs(*_: Any, **__: Any) -> bytes:
        free.wait(30)
        raise OSError

    monkeypatch.setattr(bounded_io, "read_file", hangs)
    with sinks.listening() as sink:
        async with HttpClient(policy=OPEN) as client:
            sender = alerts.AlertSender(client, whole=0.2)
            try:
                stuck = boards.target("stuck", urlFile=tmp_path / "url")
                came = [await sender.send(one, b"{}", identifier="A", seconds=0) for one in (stuck, to(sink))]
            finally:
                free.set()
    assert came == [
        AlertOutcome(why="it took longer than 0.2 seconds; look at the disk that its files are on"),
        AlertOutcome(200),
    ]


async def test_all_targets_are_tested_at_once_by_tasks_with_names(world: World) -> None:
    with sinks.listening() as sink, sinks.listening() as another:
        sink.script(sinks.silent())
        async with started(world, to(sink), to(another, "others")) as service:
            testing = asyncio.create_task(service.box.test(None, request="REQUEST"))
            await until(lambda: len(sink.received) == 1 and len(another.received) == 1)
            assert "alert-test-operators" in {task.get_name() for task in asyncio.all_tasks()}
            testing.cancel()
            with suppress(asyncio.CancelledError):
                await testing


async def test_a_url_and_a_secret_in_files_are_read_at_each_attempt_and_shown_nowhere(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, secret = tmp_path / "url", tmp_path / "secret"
    with sinks.listening() as sink:
        recipient = boards.target("chat", urlFile=url, secretFile=secret)
        async with started(world, recipient, passes=False) as service:
            await service.board.take(observation(finding()))
            await until(lambda: len(service.waits) > 1)
            url.write_text(f"http://127.0.0.1:{sink.port}/canary-path\n")
            secret.write_text(SECRET)
            await nothing_left(service)
            rows = repr((recipient, service.box.tallies()))
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
        came = await sender.send(boards.target("chat", urlFile=url), b"{}", identifier="A", seconds=0)
    told = f"what is in {url} is no http or https URL without a user; put one into it"
    assert came == AlertOutcome(why=told)
