"""Small requests for POST /v1/logs that are answered without a task: which ones, and that their answer is as usual."""

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from starlette.types import Message

import api.app
from api import edge, logs
from api.app import LOGS
from api.errors import Header
from api.logs import Shortcut
from reconciler.auth import changes
from reconciler.delivery.intake import IntakeRoom, RecordRates
from reconciler.delivery.otlp.wire import SMALL
from reconciler.delivery.reporting import NotTaken
from reconciler.model.clock import rfc3339
from reconciler.model.principals import LOCAL, Role, Scope
from reconciler.server.connections import WholeRequest
from reconciler.server.services import Services
from tests.api import parts
from tests.api.conftest import make_key
from tests.api.delivering import Kept
from tests.delivery.otlp import requests

pytestmark = pytest.mark.anyio

PROTOBUF, JSON = (b"content-type", b"application/x-protobuf"), (b"content-type", b"application/json")
ONE = requests.request(requests.group("one", service="checkout"))
RATE = 100
ROOM = 1 << 20


class Answer(NamedTuple):
    """What is sent, but for the request's id."""

    status: int
    headers: list[Header]
    body: bytes


class Asked:
    """One request, and its answer once there is one."""

    def __init__(self, headers: list[Header], body: bytes) -> None:
        length = (b"content-length", b"%d" % len(body))
        scope: Any = {"type": "http"}
        self.request = WholeRequest(scope, [(b"host", b"x"), *headers, length], body, finish=self._finish)
        self.answers: list[Answer] = []
        self.id = b""

    def _finish(self, _: WholeRequest, status: int, head: bytes, body: bytes) -> None:
        self.id = head.partition(b"x-request-id: ")[2].split(b"\r\n")[0]
        lines = [line.partition(b": ")[::2] for line in head.removesuffix(b"\r\n").split(b"\r\n")]
        self.answers.append(_answer(status, lines, body))


class World:
    """A service that keeps what it takes, by the shortcut and by the usual way."""

    def __init__(self, services: Services) -> None:
        self.kept = Kept(writes=False)
        self.services = dataclasses.replace(
            services, deliveries=self.kept, rates=RecordRates(RATE), room=IntakeRoom(ROOM), in_flight={}
        )
        self.application = api.app.build(self.services)
        shortcut = self.application.shortcut
        assert shortcut is not None
        self.shortcut: Shortcut = shortcut

    def takes(self, headers: list[Header], body: bytes = ONE) -> bool:
        """Whether the shortcut takes it. If not, nothing is held or counted; if so, it is written at once."""
        before = self.counted()
        asked = Asked(headers, body)
        if not self.shortcut.take(asked.request):
            assert self.counted() == before
            return False
        assert asked.answers == []
        self.kept.queued.pop().set_result(None)
        return True

    async def answered(self, headers: list[Header], failure: Exception | None = None) -> Answer:
        """The answer to a request that is taken, and whose writing ends like that."""
        asked = Asked(headers, ONE)
        assert self.shortcut.take(asked.request)
        assert (self.services.room.taken, sum(self.services.in_flight.values())) == (len(ONE), 1)
        queued = self.kept.queued.pop()
        queued.set_result(None) if failure is None else queued.set_exception(failure)
        await asyncio.sleep(0)
        assert (self.services.room.taken, self.services.in_flight) == (0, {})
        [answer] = asked.answers
        return answer

    async def usual(self, headers: list[Header], body: bytes = ONE, *, length: bytes = b"") -> Answer:
        """What the usual way answers; `length` is what the request says of it."""
        scope = {
            "type": "http",
            "method": "POST",
            "path": LOGS,
            "query_string": b"",
            "headers": [(b"host", b"x"), *headers, (b"content-length", length or b"%d" % len(body))],
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        return _answer(sent[0]["status"], sent[0]["headers"], b"".join(one["body"] for one in sent[1:]))

    def counted(self) -> object:
        """Everything that a request counts or holds."""
        services = self.services
        slots = [(slot.route, slot.method, tuple(slot.statuses)) for slot in services.measured.traffic.slots()]
        return services.room.taken, dict(services.in_flight), self.tokens(), slots, len(self.kept.taken)

    def tokens(self) -> float:
        """What is left of the environment's key to send at once, in whole records."""
        bucket = self.services.rates._buckets.get("key:SERVICE_API_KEY")
        return RATE if bucket is None else round(bucket.tokens)


def _answer(status: int, headers: list[Any], body: bytes) -> Answer:
    assert [len(value) for name, value in headers if name == b"x-request-id"] == [26]
    return Answer(status, [(name, value) for name, value in headers if name != b"x-request-id"], body)


def bearer(key: str = parts.KEY) -> Header:
    return (b"authorization", b"Bearer " + key.encode())


SENT = [bearer(), PROTOBUF]


@pytest.fixture
def world(services: Services) -> World:
    return World(services)


async def a_key(services: Services, project: str | None = None, **more: Any) -> str:
    return await make_key(services, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}), **more)


# What is taken.


@pytest.mark.parametrize("shown", [bearer(), (b"x-service-api-key", parts.KEY.encode())])
async def test_a_small_request_is_queued_and_answered_as_usual(world: World, shown: Header) -> None:
    headers = [shown, PROTOBUF, (b"x-service-project", b"default"), (b"traceparent", b"00-1-2-01")]
    first = await world.answered(headers)
    assert first.status == 200
    assert [await world.answered(headers), await world.usual(headers)] == [first, first]
    assert [(project, logs.records) for project, logs in world.kept.taken] == [("default", 1)] * 3
    assert world.kept.taken[0] == world.kept.taken[2]


async def test_it_goes_to_the_project_of_its_key(world: World, project: str) -> None:
    key = await a_key(world.services, project)
    for _ in range(2):
        assert (await world.answered([bearer(key), PROTOBUF])).status == 200
    assert [where for where, _ in world.kept.taken] == [project] * 2


async def test_requests_are_counted_as_those_of_the_usual_way(world: World) -> None:
    await world.usual(SENT)
    [before] = [slot for slot in world.services.measured.traffic.slots() if (slot.route, slot.method) == (LOGS, "POST")]
    counted = before.statuses[2]
    await world.answered(SENT)
    assert before.statuses[2] == counted + 1


@pytest.mark.parametrize("failure", [NotTaken("The disk is full. Keep the records and send them again."), OSError()])
async def test_what_could_not_be_written_is_told_as_usual(world: World, failure: Exception) -> None:
    async def taking(*_: object) -> Any:
        raise failure

    world.kept.taking = taking
    told, usual = await world.answered(SENT, failure), await world.usual(SENT)
    if isinstance(failure, NotTaken):
        assert (told, told.status) == (usual, 503)
    else:
        assert told.status == usual.status == 500  # the sentence names the request


async def test_a_stop_that_ends_the_writing_is_told(world: World) -> None:
    asked = Asked(SENT, ONE)
    assert world.shortcut.take(asked.request)
    world.kept.queued.pop().cancel()
    await asyncio.sleep(0)
    assert [answer.status for answer in asked.answers] == [503]


class Fault(Exception):
    """A mistake of the program."""


async def test_a_fault_in_the_middle_is_told_once_and_nothing_is_queued_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def enqueue(_project: str, logs: Any) -> Any:
        world.kept.taken.append(("some queue", logs))
        raise Fault

    world.kept.enqueue = enqueue  # type: ignore[method-assign, assignment]
    asked = Asked(SENT, ONE)
    assert world.shortcut.take(asked.request)
    await asyncio.sleep(0)
    assert [answer.status for answer in asked.answers] == [500]
    assert asked.id in asked.answers[0].body
    assert [record.__dict__["fields"] for record in caplog.records] == [{"request": asked.id.decode()}]
    assert (world.services.room.taken, world.services.in_flight, len(world.kept.taken)) == (0, {}, 1)


async def test_who_is_cancelled_while_it_writes_is_told_to_send_again(world: World) -> None:
    asked = Asked(SENT, ONE)
    assert world.shortcut.take(asked.request)
    world.kept.queued.pop().set_exception(asyncio.CancelledError())
    await asyncio.sleep(0)
    assert [answer.status for answer in asked.answers] == [503]


@pytest.mark.parametrize("length", [b"%d \t", b" %d", b"0%d"])
async def test_the_usual_way_takes_a_length_however_it_is_written_too(world: World, length: bytes) -> None:
    assert (await world.usual(SENT, length=length % len(ONE))).status == 200


# What is left to the usual way.


@pytest.mark.parametrize(
    "header",
    [
        (b"content-encoding", b"gzip"),
        (b"content-encoding", b"identity"),
        (b"cookie", b"session=1"),
        (b"origin", b"https://elsewhere.example"),
        (b"sec-fetch-site", b"cross-site"),
        (b"transfer-encoding", b"chunked"),
        (b"authorization", b"Bearer " + parts.KEY.encode()),
        (b"authorization", b"Basic YTpi"),
        (b"authorization", b"Basic \xff"),
        (b"x-service-api-key", b"canary-another"),
        (b"x-service-project", b"nobodys"),
        (b"host", b"elsewhere"),
        (b"x-forwarded-for", b"192.0.2.1"),
        PROTOBUF,
    ],
)
async def test_a_head_of_which_there_is_more_to_say_is_not_taken(world: World, header: Header) -> None:
    assert not world.takes([*SENT, (b"x-forwarded-for", b"192.0.2.2"), header])


@pytest.mark.parametrize("headers", [[PROTOBUF], [bearer("canary-wrong"), PROTOBUF], [bearer()], [bearer(), JSON]])
async def test_who_is_unknown_or_sends_something_else_is_not_taken(world: World, headers: list[Header]) -> None:
    assert not world.takes(headers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        ONE[:-1],
        b"\x28\xb5\x2f\xfd" + ONE,
        requests.request(requests.group("one"), requests.group("two")),
        requests.request(requests.group(name="no record")),
        requests.request(requests.group("x" * SMALL)),
        ONE.replace(b"one", b"\xff\xfe\xfd"),
    ],
)
async def test_a_body_that_is_not_one_small_sound_group_is_not_taken(world: World, body: bytes) -> None:
    assert not world.takes(SENT, body)


async def test_what_is_not_for_queues_with_room_alone_is_not_taken(world: World) -> None:
    world.kept.queues = False
    assert not world.takes(SENT)


async def test_over_a_limit_nothing_is_taken_or_held(world: World) -> None:
    services = world.services
    services.in_flight["key:SERVICE_API_KEY"] = edge.MOST
    assert not world.takes(SENT)
    services.in_flight.clear()
    assert services.room.change("key:SERVICE_API_KEY", 0, ROOM)
    assert not world.takes(SENT)
    assert services.room.change("key:SERVICE_API_KEY", ROOM, 0)
    many = requests.request(ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord()] * RATE)]))
    assert [world.takes(SENT, many) for _ in range(2)] == [True, False]


async def test_a_service_that_asks_nobody_who_they_are_has_no_shortcut(services: Services) -> None:
    assert api.app.build(dataclasses.replace(services, anybody=LOCAL)).shortcut is None


# What is remembered of a head.


async def test_a_key_that_is_revoked_or_may_no_more_is_not_remembered(world: World, project: str) -> None:
    services, key = world.services, await a_key(world.services, project)
    headers = [bearer(key), PROTOBUF]
    assert [world.takes(headers) for _ in range(2)] == [True, True]
    found = services.accounts.directory.key_of(key)
    assert found is not None
    await services.accounts.amend(
        lambda directory: changes.revoke_key(directory, found), actor="user:root", request=None
    )
    assert not world.takes(headers)


async def test_a_key_is_remembered_until_its_time_ends(world: World, everything: parts.Parts, project: str) -> None:
    ends = everything.clock() + timedelta(seconds=2)
    headers = [bearer(await a_key(world.services, project, expires_at=rfc3339(ends))), PROTOBUF]
    assert world.takes(headers)
    everything.clock.pass_(seconds=1.999)
    assert world.takes(headers)
    everything.clock.pass_(seconds=0.001)
    assert not world.takes(headers)
    assert (await world.usual(headers)).status == 401


@pytest.mark.parametrize("shown", ["Authorization", "X-Service-Api-Key"])
async def test_two_senders_are_never_taken_for_one(world: World, project: str, shown: str) -> None:
    def head(key: str) -> list[Header]:
        value = key.encode() if shown.startswith("X") else b"Bearer " + key.encode()
        return [(shown.lower().encode(), value), PROTOBUF]

    default, other = await a_key(world.services, "default"), await a_key(world.services, project)
    for _ in range(2):
        assert [world.takes(head(key)) for key in (default, other)] == [True, True]
        chosen = [[*SENT, (b"x-service-project", name.encode())] for name in ("default", project)]
        assert [world.takes(headers) for headers in chosen] == [True, True]
    assert [where for where, _ in world.kept.taken] == ["default", project] * 4


async def test_a_value_that_opens_in_one_header_opens_in_no_other(world: World) -> None:
    assert world.takes(SENT)
    for name in (b"x-other", b"x-service-project", b"authorizatio", b"x-service-api-key"):
        assert not world.takes([(name, bearer()[1]), PROTOBUF])
    assert not world.takes([bearer(), (b"content-typ", PROTOBUF[1])])


async def test_every_use_of_a_key_is_noted(world: World, everything: parts.Parts, project: str) -> None:
    accounts, key = world.services.accounts, await a_key(world.services, project)
    headers = [bearer(key), PROTOBUF]
    for _ in range(2):
        everything.clock.pass_(seconds=1)
        assert world.takes(headers)
    await accounts.touch()
    found = accounts.directory.key_of(key)
    assert found is not None
    assert found.last_used_at == rfc3339(everything.clock())


async def test_no_more_heads_are_remembered_than_may_be(world: World) -> None:
    for number in range(logs.MOST + 10):
        assert world.shortcut._senders.of([*SENT, (b"traceparent", b"%d" % number)], now=parts.START) is not None
    assert len(world.shortcut._senders._known) == 10


# Whatever comes.

HEADERS = strategies.sampled_from(
    [
        PROTOBUF,
        JSON,
        (b"content-type", b"Application/X-Protobuf; a=b"),
        bearer(),
        bearer("canary-wrong"),
        (b"x-service-api-key", parts.KEY.encode()),
        (b"x-service-project", b"default"),
        (b"x-service-project", b"nobodys"),
        (b"content-encoding", b"gzip"),
        (b"origin", b"http://x"),
        (b"cookie", b"a=b"),
        (b"x-forwarded-for", b"192.0.2.1"),
        (b"traceparent", b"00-1-2-01"),
    ]
)
HEADS = strategies.builds(
    lambda more, sent: [*more[:1], *sent, *more[1:]],
    strategies.lists(HEADERS, max_size=2),
    strategies.sampled_from([SENT, SENT, SENT, [PROTOBUF], [bearer()]]),
)
BODIES = strategies.one_of(strategies.just(ONE), strategies.sampled_from([ONE * 2, b"", b"{}", ONE[:-1], b"\x1f\x8b"]))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HEADS, BODIES)
async def test_what_is_taken_is_what_the_usual_way_takes_and_answers_alike(
    world: World, headers: list[Header], body: bytes
) -> None:
    world.kept.taken.clear()
    world.services.rates._buckets.clear()
    asked = Asked(headers, body)
    if not world.shortcut.take(asked.request):
        return
    world.kept.queued.pop().set_result(None)
    await asyncio.sleep(0)
    assert [await world.usual(headers, body)] == asked.answers
    assert world.kept.taken[0] == world.kept.taken[1]
