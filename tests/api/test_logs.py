"""POST /v1/logs: what is taken, what is refused and how that is told, and what one request may cost."""

import asyncio
import dataclasses
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # nobody publishes their types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message

import api.app
from api import errors, logs
from api.calls import Services
from api.edge import MOST as IN_FLIGHT
from reconciler.auth import changes
from reconciler.delivery.contract import IntakeRoom, NotTaken, QueueFull, RecordRates, TakenRecords
from reconciler.delivery.otlp.models import Logs, RequestLimits
from reconciler.model.principals import Role, Scope
from reconciler.replicas.contact import STALE_SECONDS, Contact
from tests.api import parts
from tests.api.callers import ask
from tests.api.conftest import connect, make_key
from tests.api.delivering import Kept
from tests.delivery.otlp import requests
from tests.replicas.told import Told

pytestmark = pytest.mark.anyio

PROTOBUF, JSON = "application/x-protobuf", "application/json"
SECRET = "canary-a-line-of-somebody"
LIMITS = RequestLimits(bytes=8 << 20, records=10_000)
ROOM = 32 << 20
TYPES = pytest.mark.parametrize("kind", [PROTOBUF, JSON])
COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "GZIP": gzip.compress,
}


def body(kind: str, *lines: str) -> bytes:
    """A request with these lines, of one resource."""
    if kind == PROTOBUF:
        return requests.request(requests.group(*lines, service="checkout"))
    records = [{"body": {"stringValue": line}} for line in lines]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def told(answer: httpx2.Response) -> tuple[int, int, str, list[float]]:
    """Return what a failure says: the status of HTTP, the code, the sentence, and the seconds of RetryInfo."""
    if answer.headers["content-type"] == JSON:
        said = answer.json()
        return (
            answer.status_code,
            said["code"],
            said["message"],
            [float(one["retryDelay"].removesuffix("s")) for one in said.get("details", [])],
        )
    assert answer.headers["content-type"] == PROTOBUF
    status = Status.FromString(answer.content)
    infos = [RetryInfo() for _ in status.details]
    assert all(detail.Unpack(info) for detail, info in zip(status.details, infos, strict=True))
    return answer.status_code, status.code, status.message, [float(info.retry_delay.seconds) for info in infos]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def served(services: Services, kept: Kept) -> Services:
    return dataclasses.replace(
        services, deliveries=kept, rates=RecordRates(1_000_000), room=IntakeRoom(ROOM), log_limits=LIMITS, in_flight={}
    )


@pytest.fixture
async def client(served: Services, project: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client, whose every request gives back what it held."""
    key = await make_key(served, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}))
    async with connect(served, key=key) as client:
        yield client
    assert (served.room.taken, served.in_flight) == (0, {})


async def post(client: httpx2.AsyncClient, content: Any, kind: str, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/v1/logs", content=content, headers={"Content-Type": kind, **named})


# What is taken.


@TYPES
@pytest.mark.parametrize("encoding", COMPRESS)
async def test_records_are_taken_in_every_encoding(
    client: httpx2.AsyncClient, kept: Kept, project: str, kind: str, encoding: str
) -> None:
    content = COMPRESS[encoding](body(kind, "one", "two"))
    answer = await post(client, content, kind, **({"Content_Encoding": encoding} if encoding else {}))
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.content == (b"{}" if kind == JSON else b"")
    assert [(where, taken.records) for where, taken in kept.taken] == [(project, 2)]


@pytest.mark.parametrize(
    "kind", [f"{JSON}; charset=utf-8", f"{JSON};charset=utf-8", "Application/JSON", PROTOBUF.upper()]
)
async def test_a_media_type_may_have_parameters_and_capitals(client: httpx2.AsyncClient, kept: Kept, kind: str) -> None:
    plain = JSON if "json" in kind.lower() else PROTOBUF
    assert (await post(client, body(plain, "one"), kind)).status_code == 200
    assert [taken.records for _, taken in kept.taken] == [1]


async def test_a_body_in_pieces_without_a_length_is_taken(client: httpx2.AsyncClient, kept: Kept) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in body(PROTOBUF, "one"):
            yield bytes([byte])

    assert (await post(client, pieces(), PROTOBUF)).status_code == 200
    assert [taken.records for _, taken in kept.taken] == [1]


@pytest.mark.parametrize(("kind", "content"), [(PROTOBUF, b""), (JSON, b"{}"), (JSON, b'{"resourceLogs": []}')])
async def test_no_record_is_fine(client: httpx2.AsyncClient, kept: Kept, kind: str, content: bytes) -> None:
    assert (await post(client, content, kind)).status_code == 200
    assert [taken.records for _, taken in kept.taken] == [0]


@TYPES
async def test_as_many_records_as_may_be_are_taken(client: httpx2.AsyncClient, kept: Kept, kind: str) -> None:
    assert (await post(client, body(kind, *["x"] * LIMITS.records), kind)).status_code == 200
    assert [taken.records for _, taken in kept.taken] == [LIMITS.records]


@TYPES
async def test_records_that_nobody_takes_are_told_in_a_success(
    client: httpx2.AsyncClient, kept: Kept, kind: str
) -> None:
    async def taking(_project: str, _logs: Logs) -> TakenRecords:
        return TakenRecords(2, "No Configuration of the project takes 2 of these records.")

    kept.taking = taking
    answer = await post(client, body(kind, "one", "two", "three"), kind)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    if kind == JSON:
        partial = answer.json()["partialSuccess"]
        found = (int(partial["rejectedLogRecords"]), partial["errorMessage"])
    else:
        told_so = ExportLogsServiceResponse.FromString(answer.content).partial_success
        found = (told_so.rejected_log_records, told_so.error_message)
    assert found == (2, "No Configuration of the project takes 2 of these records.")


# What is refused for good.


@TYPES
async def test_one_record_too_many_is_413(client: httpx2.AsyncClient, kept: Kept, kind: str) -> None:
    answer = await post(client, body(kind, *["x"] * (LIMITS.records + 1)), kind)
    assert (told(answer)[0], kept.taken) == (413, [])
    assert "10,000" in told(answer)[2]


@TYPES
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_what_unpacks_to_more_than_the_limit_is_413(
    client: httpx2.AsyncClient, kept: Kept, kind: str, encoding: str
) -> None:
    bomb = COMPRESS[encoding](bytes(64 << 20))
    assert len(bomb) < 100_000
    answer = await post(client, bomb, kind, Content_Encoding=encoding)
    assert (told(answer)[0], kept.taken) == (413, [])


async def test_a_length_over_the_limit_is_refused_before_anything_is_read(client: httpx2.AsyncClient) -> None:
    read = []

    async def pieces() -> AsyncIterator[bytes]:
        read.append(1)
        yield b""

    for length in (str(LIMITS.bytes + 1), "9" * 5000):
        answer = await post(client, pieces(), PROTOBUF, Content_Length=length)
        assert (told(answer)[0], read) == (413, [])


async def test_a_body_without_a_length_or_an_end_is_413(client: httpx2.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    assert told(await post(client, pieces(), PROTOBUF))[0] == 413


async def test_a_body_longer_than_it_says_is_not_taken(client: httpx2.AsyncClient, kept: Kept) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield body(PROTOBUF, "one")

    answer = await post(client, pieces(), PROTOBUF, Content_Length="5")
    assert (told(answer)[0], kept.taken) == (413, [])


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (PROTOBUF, b"\xff"),
        (PROTOBUF, b"not protobuf at all"),
        (PROTOBUF, body(PROTOBUF, "one")[:-1]),
        (PROTOBUF, body(PROTOBUF, SECRET).replace(b"canary", b"canar\xff")),  # a text that is no UTF-8
        (JSON, b""),
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"resourceLogs": 1}'),
        (JSON, body(JSON, SECRET).replace(b"canary", b"canar\xff")),
        (JSON, b'{"resourceLogs":' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
        (JSON, b"{" * 10_000),
    ],
    ids=range(11),
)
async def test_what_is_not_otlp_is_400(client: httpx2.AsyncClient, kept: Kept, kind: str, content: bytes) -> None:
    answer = await post(client, content, kind)
    status, code, sentence, _ = told(answer)
    assert (status, code, kept.taken, answer.headers["content-type"]) == (400, 3, [], kind)
    assert "canar" not in sentence


@TYPES
@pytest.mark.parametrize("plain", ["", "identity"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_what_is_compressed_and_does_not_say_so_is_told_what_to_say(
    client: httpx2.AsyncClient, kept: Kept, *, kind: str, encoding: str, plain: str
) -> None:
    headers = {"Content_Encoding": plain} if plain else {}
    status, code, sentence, _ = told(await post(client, COMPRESS[encoding](body(kind, "one")), kind, **headers))
    assert (status, code, kept.taken) == (400, 3, [])
    assert sentence == f"The body is no OTLP: it looks like {encoding}; send `Content-Encoding: {encoding}`."


@TYPES
async def test_what_is_compressed_twice_is_told_no_more_than_that_it_is_malformed(
    client: httpx2.AsyncClient, kept: Kept, kind: str
) -> None:
    twice = gzip.compress(gzip.compress(body(kind, "one")))
    status, _, sentence, _ = told(await post(client, twice, kind, Content_Encoding="gzip"))
    assert (status, "looks like" in sentence, kept.taken) == (400, False, [])


@TYPES
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"\x1f\x8b", COMPRESS["gzip"](b"x" * 99)[:-5]],
    ids=["nothing", "no header", "a header's beginning", "no end"],
)
async def test_what_is_not_compressed_as_it_says_is_400(
    client: httpx2.AsyncClient, kept: Kept, kind: str, encoding: str, content: bytes
) -> None:
    answer = await post(client, content, kind, Content_Encoding=encoding)
    assert (told(answer)[:2], kept.taken) == ((400, 3), [])


@pytest.mark.parametrize(
    "kinds",
    [
        (),
        ("text/plain",),
        ("",),
        ("application/x-protobuf, application/json",),
        (JSON, PROTOBUF),
        ("application/grpc",),
    ],
)
async def test_another_media_type_is_415_in_json(
    client: httpx2.AsyncClient, kept: Kept, kinds: tuple[str, ...]
) -> None:
    headers = [("Content-Type", kind) for kind in kinds]
    answer = await client.post("/v1/logs", content=b"", headers=headers)
    assert answer.headers["content-type"] == JSON
    sentence = "Log records come with one `Content-Type: application/x-protobuf` or `application/json`."
    assert (told(answer), kept.taken) == ((415, 3, sentence, []), [])


@pytest.mark.parametrize("encodings", [("br",), ("deflate",), ("gzip, gzip",), ("gzip", "zstd"), ("gzip", "identity")])
async def test_another_content_encoding_is_415_unread(
    client: httpx2.AsyncClient, kept: Kept, encodings: tuple[str, ...]
) -> None:
    read = []

    async def pieces() -> AsyncIterator[bytes]:
        read.append(1)
        yield b""

    headers = [("Content-Type", PROTOBUF), *(("Content-Encoding", one) for one in encodings)]
    answer = await client.post("/v1/logs", content=pieces(), headers=headers)
    sentence = "The Content-Encoding is none of gzip, zstd and identity."
    assert (told(answer), read, kept.taken) == ((415, 3, sentence, []), [], [])
    assert answer.headers["accept-encoding"] == "gzip, zstd, identity"


async def test_an_unknown_query_parameter_is_400(client: httpx2.AsyncClient, kept: Kept) -> None:
    answer = await client.post("/v1/logs?dryRun=1", content=b"", headers={"Content-Type": PROTOBUF})
    assert (told(answer)[0], kept.taken) == (400, [])


# What the edge refuses is told in the same form.


@TYPES
async def test_who_may_not_is_told_in_the_encoding_of_the_request(
    served: Services, project: str, kept: Kept, kind: str
) -> None:
    resources = await make_key(served, Role.ADMIN, project=project)
    async with connect(served, key=resources) as client:
        assert told(await post(client, b"", kind))[:2] == (403, 7)
        assert told(await post(client, b"", kind, X_Service_Project="nobodys"))[:2] == (404, 5)
    async with connect(served, key="") as client:
        answer = await post(client, b"", kind)
        assert (told(answer)[:2], "www-authenticate" in answer.headers) == ((401, 16), True)
    async with connect(served, key="canary-wrong") as client:
        assert told(await post(client, b"", kind))[:3] == (401, 16, "The key is not known.")
    assert kept.taken == []


async def test_another_method_is_405_as_a_status(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/v1/logs")
    assert (told(answer)[:2], answer.headers["allow"]) == ((405, 12), "POST")


@TYPES
async def test_too_many_requests_under_way_are_429_with_a_time(served: Services, kind: str) -> None:
    served.in_flight["key:SERVICE_API_KEY"] = IN_FLIGHT
    async with connect(served) as client:
        answer = await post(client, b"", kind)
    assert (told(answer)[:2], told(answer)[3], answer.headers["retry-after"]) == ((429, 8), [1.0], "1")


@TYPES
async def test_a_failure_inside_is_500_and_tells_nothing(
    client: httpx2.AsyncClient, kept: Kept, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def taking(_project: str, _logs: Logs) -> TakenRecords:
        raise RuntimeError("/var/lib/reconciler is malformed")

    kept.taking = taking
    answer = await post(client, body(kind, SECRET), kind)
    request = answer.headers["x-request-id"]
    sentence = f"The service failed to answer; its log has the cause under the id {request}."
    assert told(answer) == (500, 13, sentence, [])
    assert [record.__dict__["fields"] for record in caplog.records if record.name == "api.errors"] == [
        {"request": request}
    ]


# What may pass later.


@TYPES
@pytest.mark.parametrize(
    ("fault", "seconds"), [(QueueFull("The destination siem is full.", seconds=12.2), 13), (NotTaken("No room."), 5)]
)
async def test_what_delivery_cannot_take_is_503_with_a_time(
    client: httpx2.AsyncClient, kept: Kept, kind: str, fault: QueueFull | NotTaken, seconds: int
) -> None:
    async def taking(_project: str, _logs: Logs) -> TakenRecords:
        raise fault

    kept.taking = taking
    answer = await post(client, body(kind, "one"), kind)
    assert told(answer) == (503, 14, fault.message, [float(seconds)])
    assert answer.headers["retry-after"] == str(seconds)


class OneMoment(RecordRates):
    """Rates for which no time passes."""

    def wait(self, sender: str, *, now: float) -> float:  # noqa: ARG002 - the machine's clock
        return super().wait(sender, now=0.0)

    def take(self, sender: str, records: int, *, now: float) -> float:  # noqa: ARG002 - the same
        return super().take(sender, records, now=0.0)


@TYPES
async def test_who_sends_too_many_records_a_second_is_429(served: Services, project: str, kind: str) -> None:
    served = dataclasses.replace(served, rates=OneMoment(10))
    one = await make_key(served, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}))
    other = await make_key(served, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}))
    async with connect(served, key=one) as client, connect(served, key=other) as another:
        # More than a second's worth passes once, and is paid for afterwards.
        assert (await post(client, body(kind, *["x"] * 600), kind)).status_code == 200
        answer = await post(client, body(kind, "x"), kind)
        assert (told(answer)[:2], answer.headers["retry-after"]) == ((429, 8), "59")
        assert (await post(another, body(kind, "x"), kind)).status_code == 200
    assert served.room.taken == 0


@pytest.mark.parametrize(
    ("sent", "status", "seconds"),
    [
        ((b"\xff" * 20_480, {}), 400, "2"),  # 21 of 10 tokens a second
        ((gzip.compress(bytes(LIMITS.bytes + 1)), {"Content_Encoding": "gzip"}), 413, "819"),  # as what it would become
        ((b"", {}), 200, "1"),  # nothing in it
    ],
    ids=["malformed", "a bomb", "empty"],
)
async def test_who_sends_what_is_refused_or_nothing_over_and_over_is_429(
    served: Services, project: str, sent: tuple[bytes, dict[str, str]], status: int, seconds: str
) -> None:
    content, headers = sent
    served = dataclasses.replace(served, rates=OneMoment(10))
    key = await make_key(served, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}))
    async with connect(served, key=key) as client:
        answers = [await post(client, content, PROTOBUF, **headers) for _ in range(12)]
    assert answers[0].status_code == status
    assert {answer.status_code for answer in answers} == {status, 429}
    assert answers[-1].headers["retry-after"] == seconds


@pytest.mark.parametrize("length", [None, ROOM // 4])
async def test_while_there_is_no_room_for_a_body_it_is_not_read(
    client: httpx2.AsyncClient, served: Services, length: int | None
) -> None:
    read = []

    async def pieces() -> AsyncIterator[bytes]:
        read.append(1)
        yield b""

    held = ROOM - ROOM // 4 + 1
    assert served.room.change("others", 0, held)
    answer = await post(client, pieces(), PROTOBUF, **({} if length is None else {"Content_Length": str(length)}))
    assert (told(answer)[:2], told(answer)[3], read) == ((503, 14), [1.0], [])
    assert (await post(client, b"", PROTOBUF)).status_code == 200
    assert served.room.change("others", held, 0)


async def test_while_there_is_no_room_to_unpack_a_body_it_is_not_unpacked(
    client: httpx2.AsyncClient, served: Services, kept: Kept
) -> None:
    held = ROOM - LIMITS.bytes + 1
    assert served.room.change("others", 0, held)
    answer = await post(client, gzip.compress(body(PROTOBUF, "x")), PROTOBUF, Content_Encoding="gzip")
    assert (told(answer)[:2], kept.taken) == ((503, 14), [])
    assert served.room.change("others", held, 0)


async def test_what_a_request_holds_is_what_it_unpacked_to(
    client: httpx2.AsyncClient, served: Services, kept: Kept
) -> None:
    content = body(PROTOBUF, *["x" * 1_000] * 1_000)
    holds = []

    async def taking(_project: str, _logs: Logs) -> TakenRecords:
        holds.append(served.room.taken)
        return TakenRecords()

    kept.taking = taking
    await post(client, content, PROTOBUF)
    await post(client, gzip.compress(content), PROTOBUF, Content_Encoding="gzip")
    assert holds == [len(content)] * 2


async def test_a_body_that_does_not_arrive_is_to_be_sent_again_on_another_connection() -> None:
    async def receive() -> Message:
        return await asyncio.Future()

    with pytest.raises(errors.Unavailable) as refused:
        await logs.read_body(receive, limit=10, seconds=0.01)
    assert (b"connection", b"close") in refused.value.headers
    assert refused.value.sentences == ("The body did not arrive within 0.01 seconds.",)


async def test_a_client_that_goes_away_leaves_nothing_behind(served: Services) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await logs.read_body(receive, limit=10)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/logs",
        "query_string": b"",
        "headers": [(b"x-service-api-key", parts.KEY.encode()), (b"content-type", PROTOBUF.encode())],
    }
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await api.app.build(served)(scope, receive, send)
    assert (sent, served.room.taken, served.in_flight) == ([], 0, {})


async def test_who_goes_away_while_an_endpoint_is_waited_for_ends_that(served: Services, kept: Kept) -> None:
    ended: list[str] = []

    async def waiting(project: str, _logs: Logs) -> TakenRecords:
        try:
            return await asyncio.Future()
        finally:
            ended.append(project)

    kept.taking = waiting
    kept.inline.add("default")
    messages: list[Message] = [
        {"type": "http.request", "body": body(PROTOBUF, "one"), "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/logs",
        "query_string": b"",
        "headers": [(b"x-service-api-key", parts.KEY.encode()), (b"content-type", PROTOBUF.encode())],
    }
    async with asyncio.timeout(5):
        await api.app.build(served)(scope, receive, send)
    assert (ended, served.room.taken, served.in_flight) == (["default"], 0, {})


async def test_a_key_that_is_revoked_while_its_records_arrive_is_401(
    served: Services, project: str, kept: Kept
) -> None:
    key = await make_key(served, Role.VIEWER, project=project, scopes=frozenset({Scope.LOGS}))
    made = next(one for one in served.accounts.directory.keys.values() if key.startswith(one.prefix))

    async def pieces() -> AsyncIterator[bytes]:
        await served.accounts.amend(
            lambda directory: changes.revoke_key(directory, made), actor="user:root", request=None
        )
        yield body(PROTOBUF, "one")

    async with connect(served, key=key) as client:
        assert (told(await post(client, pieces(), PROTOBUF))[0], kept.taken) == (401, [])
    assert served.room.taken == 0


# The listener for log records alone.


async def test_the_listener_for_log_records_serves_these_and_whether_it_lives(services: Services) -> None:
    app = api.app.build_for_logs(services)
    key = [("X-Service-Api-Key", parts.KEY)]
    served = {path: (await ask(app, "GET", path, headers=key)).status for path in api.app.ENDPOINTS}
    assert {path for path, status in served.items() if status != 404} == {"/livez", "/v1/logs"}
    assert (await ask(app, "POST", "/v1/logs", headers=key, body=b"{}")).status == 200
    assert (await ask(app, "POST", "/v1/logs", headers=(), body=b"{}")).status == 401
    other = await ask(app, "POST", "/v1/traces", headers=key, body=b"{}")
    assert (other.status, json.loads(other.body)) == (
        404,
        {"errors": ["This listener takes POST /v1/logs alone."], "codes": ANY},
    )


async def test_a_slow_body_is_not_taken_when_nobody_knows_any_more_if_its_key_counts(
    served: Services, project: str, kept: Kept
) -> None:
    now = 0.0
    contact = Contact(Told(is_lost=True), monotonic=lambda: now)

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal now
        yield b'{"resourceLogs"'
        now = STALE_SECONDS + 1
        yield b": []}"

    async with connect(dataclasses.replace(served, contact=contact), project=project) as client:
        answer = await post(client, pieces(), JSON)
    assert (answer.status_code, kept.taken) == (503, [])
