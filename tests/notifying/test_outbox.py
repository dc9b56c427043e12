"""Alerts on their way to real servers: each arrives signed, whatever happens to the server or to us."""

import asyncio
import base64
import hashlib
import hmac
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from reconciler.egress.client import Client
from reconciler.egress.networks import Policy
from reconciler.notifications.models import Severity
from reconciler.notifications.telling import Filter
from reconciler.notifying import outbox
from reconciler.notifying.board import Board
from reconciler.notifying.outbox import Outbox, Recipient
from reconciler.operations.contract import AlertRow
from reconciler.operations.sqlite import SqliteOperations
from tests.notifying.boards import PLACE, World, finding, look
from tests.servers import sinks
from tests.servers.certificates import Authority
from tests.servers.sinks import Received, Sink
from tests.waiting import until

pytestmark = pytest.mark.anyio

SECRET = "canary-alert-secret-0123456789"
OPEN = Policy()
NOWHERE = Policy(deny=(ip_network("127.0.0.0/8"),))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Service:
    """A board that sends, as long as it is up; what it waits for between attempts is noted and not waited for."""

    def __init__(self, board: Board, operations: SqliteOperations) -> None:
        self.board = board
        self.operations = operations
        self.waits: list[float] = []

    async def left(self) -> list[AlertRow]:
        """The alerts that are still to be sent."""
        return await self.operations.alerts()


@asynccontextmanager
async def started(
    world: World,
    *recipients: Recipient,
    policy: Policy = OPEN,
    passes: bool = True,
    authorities: Path | None = None,
    **options: Any,
) -> AsyncIterator[Service]:
    """A start of the service, on the file of the world. `passes`: while it waits, time does."""
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
    service = Service(board, operations)
    service.waits = waits
    async with Client(policy=policy) as client:
        sending = asyncio.create_task(box.keep(client, authorities=authorities))
        try:
            yield service
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await operations.close()


def to(sink: Sink, name: str = "operators", **given: Any) -> Recipient:
    return Recipient(name, url=f"http://127.0.0.1:{sink.port}/alerts?token=canary-token", **given)


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
    assert first.json["text"].startswith("[error] The repository telemetry cannot be reached (default)\n")
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
        "The alert target operators takes nothing and is tried again for an hour: it answered 503",
        "An alert to operators of 2026-11-21T06:12:00.123Z was given up.",
    ]


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


async def test_alerts_for_a_target_that_left_the_settings_are_forgotten(world: World) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.silent())
        async with started(world, to(sink)) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(sink.received) == 1)
        async with started(world, to(sink, "others")) as service:
            assert await service.left() == []


async def test_a_target_that_hangs_keeps_no_other_waiting(world: World) -> None:
    with sinks.listening() as stuck, sinks.listening() as fine:
        stuck.script(sinks.silent())
        async with started(world, to(stuck, "stuck"), to(fine, "fine")) as service:
            for number in range(5):
                await service.board.take(look(*[finding(f"r{each}") for each in range(number + 1)]))
            await until(lambda: len(fine.accepted) == 5)
            assert {row.target for row in await service.left()} == {"stuck"}


async def test_alerts_arrive_in_their_order_and_only_those_that_are_wanted(world: World) -> None:
    wanted = Filter(severities={Severity.CRITICAL})
    with sinks.listening() as sink, sinks.listening() as critical:
        async with started(world, to(sink), to(critical, "critical", wanted=wanted)) as service:
            await service.board.take(look(finding("a"), finding("b", severity=Severity.CRITICAL)))
            await service.board.take(look(finding("c")))
            await nothing_left(service)
    assert [about(one) for one in sink.accepted] == ["a", "b", "c", "a", "b"]
    assert told(critical) == ["opened", "resolved"]


async def test_a_cause_that_flaps_is_told_once(world: World) -> None:
    with sinks.listening() as sink:
        async with started(world, to(sink)) as service:
            for _ in range(5):
                await service.board.take(look(finding()))
                await service.board.take(look())
                world.pass_(minutes=1)
            await nothing_left(service)
            assert told(sink) == ["opened", "resolved"]
            await service.board.take(look(finding()))
            await service.board.tidy()
            assert await service.left() == []
            world.pass_(minutes=10)
            await service.board.tidy()
            await nothing_left(service)
    assert told(sink) == ["opened", "resolved", "opened"]


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
        recipient = Recipient("operators", url=f"https://127.0.0.1:{sink.port}/")
        async with started(world, recipient, authorities=bundle, passes=False) as service:
            await service.board.take(look(finding()))
            await until(lambda: len(service.waits) > 1)
            shutil.copy(authority.bundle, bundle)
            await nothing_left(service)
    assert told(sink) == ["opened"]
    assert f"`outbound.caFile` cannot be read: put a PEM file at {bundle}" in caplog.messages[0]


async def test_too_many_lose_the_oldest(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        async with started(world, to(sink), most=2) as service:
            await service.board.take(look(*[finding(f"r{number}") for number in range(5)]))
            await until(lambda: len(sink.received) >= 1)
            sink.script(sinks.says(200))
            await nothing_left(service)
    assert [about(one) for one in sink.accepted] == ["r3", "r4"]
    assert "Too many alerts wait for operators; the oldest 3 are given up." in caplog.messages


async def test_a_url_and_a_secret_in_files_are_read_at_each_attempt_and_shown_nowhere(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, secret = tmp_path / "url", tmp_path / "secret"
    with sinks.listening() as sink:
        recipient = Recipient("chat", url_file=url, secret_file=secret)
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
def test_what_is_no_url_is_not_sent_to(tmp_path: Path, text: str) -> None:
    url = tmp_path / "url"
    url.write_text(text)
    with pytest.raises(outbox.Unprepared, match=r"is no http or https URL without a user"):
        outbox._target(outbox._read(Recipient("chat", url_file=url))[0], Recipient("chat", url_file=url))
