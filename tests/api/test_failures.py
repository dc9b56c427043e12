"""A failure inside is answered with an id, and the log has the rest."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from api.edge import MOST as IN_FLIGHT
from reconciler.model.errors import Refused
from reconciler.reconcile.apply import Locked
from reconciler.settings.bounded_io import DiskHangs
from reconciler.store.contract import Moved, Store, StoreFault
from tests import stores
from tests.api.conftest import connect, until
from tests.api.parts import Parts, destination

pytestmark = pytest.mark.anyio

PRIVATE = "/var/lib/reconciler/store.db is malformed"


class Faulty:
    """A part whose every asynchronous method raises: for faults that a real one cannot be brought to have."""

    known_revision = 0

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        async def fail(*_arguments: object, **_options: object) -> None:
            raise self.fault

        async def fail_later(*_arguments: object, **_options: object) -> AsyncIterator[list[bytes]]:
            raise self.fault
            yield []

        return fail_later if name.endswith("_pages") else fail


def failing(services: Services, fault: Exception) -> Services:
    faulty: Any = Faulty(fault)
    return dataclasses.replace(services, store=faulty, applier=faulty)


EVERY = [
    ("GET", "/v1/resources/Destination"),
    ("GET", "/v1/resources/Destination/x"),
    ("DELETE", "/v1/resources/Destination/x"),
    ("GET", "/v1/Destination/x/history"),
    ("GET", "/v1/runs"),
    ("GET", "/v1/runs/x"),
    ("POST", "/v1/apply"),
    ("POST", "/v1/delete"),
]


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_a_failure_is_500_with_an_id_that_the_log_repeats(
    services: Services, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    fault = RuntimeError(PRIVATE)
    async with connect(failing(services, fault)) as client:
        answer = await client.request(method, path)
    request = answer.headers["x-request-id"]
    sentence = f"The service failed to answer; its log has the cause under the id {request}."
    assert (answer.status_code, answer.json()) == (500, {"errors": [sentence], "codes": ANY})
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["fields"] == {"request": request}
    assert record.exc_info is not None
    assert record.exc_info[1] is fault


FULL = "The store could not be written (database or disk is full); nothing was changed: look at the disk's space."


@pytest.mark.parametrize(("method", "path"), EVERY)
async def test_a_store_that_fails_is_503_with_its_sentence_and_no_trace(
    services: Services, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    async with connect(failing(services, StoreFault(FULL))) as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (
        503,
        "5",
        {"errors": [FULL], "codes": ANY},
    )
    request = answer.headers["x-request-id"]
    [record] = [record for record in caplog.records if record.name == "api.errors"]
    assert (record.getMessage(), record.exc_info) == (f"The request {request} failed: {FULL}", None)


async def test_secrets_on_a_disk_that_hangs_are_503_with_a_sentence(services: Services) -> None:
    told = "The disk with the files of secrets does not answer; look at it."
    async with connect(failing(services, DiskHangs(told))) as client:
        answer = await client.post("/v1/apply", json={"resources": [destination("one")]})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (
        503,
        "5",
        {"errors": [told], "codes": ANY},
    )


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            Moved("What is held changed while it was approved."),
            "What is held changed before this was stored; nothing was changed: send it again.",
        ),
        (Locked(), "Other changes of the project take long, so this one was not begun; send it again."),
    ],
    ids=["moved", "locked"],
)
async def test_a_change_that_others_keep_from_the_store_is_503_with_a_sentence(
    services: Services, fault: Exception, told: str
) -> None:
    async with connect(failing(services, fault)) as client:
        answer = await client.post("/v1/apply", json={"resources": [destination("one")]})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()) == (
        503,
        "5",
        {"errors": [told], "codes": ANY},
    )


async def test_a_change_that_finds_no_room_is_503_and_leaves_all_as_it_was(
    services: Services, client: httpx2.AsyncClient
) -> None:
    resources = [destination(f"d{number}", description="x" * 2_000) for number in range(50)]  # more than is free in it
    taking = dataclasses.replace(services, max_body_bytes=200_000)
    async with connect(taking) as writer:
        with stores.engine(stores.state_of(services.store)).full(services.store):
            answer = await writer.post("/v1/apply", json={"resources": resources})
    [sentence] = answer.json()["errors"]
    assert (answer.status_code, "full" in sentence or "No space" in sentence) == (503, True)
    assert (await client.get("/v1/resources/Destination")).json()["resources"] == []


@pytest.mark.parametrize("path", ["/v1/apply", "/v1/delete"])
async def test_what_is_refused_behind_the_api_is_told_to_the_client(services: Services, path: str) -> None:
    async with connect(failing(services, Refused("The settings forbid this."))) as client:
        answer = await client.post(path)
    assert (answer.status_code, answer.json()) == (400, {"errors": ["The settings forbid this."], "codes": ANY})


async def test_a_store_that_does_not_answer_is_not_ready_but_live(services: Services) -> None:
    async with connect(failing(services, StoreFault(PRIVATE)), key="") as client:
        ready, live = await client.get("/readyz"), await client.get("/livez")
    sentence = "The store does not answer; the service's log says why."
    assert (ready.status_code, ready.json()) == (503, {"errors": [sentence], "codes": ANY})
    assert live.status_code == 200


class BreakingOff:
    """A real store whose lists end in a fault behind their first page."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list_pages(self, *arguments: Any, **options: Any) -> AsyncIterator[list[bytes]]:
        async with contextlib.aclosing(self.store.list_pages(*arguments, **options)) as pages:
            async for page in pages:
                yield page
                raise StoreFault(PRIVATE)


async def test_a_list_that_breaks_off_is_not_ended_as_if_it_were_whole(
    services: Services, client: httpx2.AsyncClient, project: str
) -> None:
    await client.post("/v1/apply", json={"resources": [destination("a")]})
    breaking: Any = BreakingOff(services.store)
    async with connect(dataclasses.replace(services, store=breaking), project=project) as broken:
        with pytest.raises(StoreFault):  # the server closes the connection when the application raises
            await broken.get("/v1/resources/Destination")


async def test_a_reader_that_dies_once_is_not_noticed(client: httpx2.AsyncClient, everything: Parts) -> None:
    reader = await _reader(everything, other_than=None)
    os.kill(reader, signal.SIGSTOP)
    asked = asyncio.create_task(client.post("/v1/apply", json={"resources": [destination("a")]}))
    await asyncio.sleep(0.05)
    assert not asked.done()
    os.kill(reader, signal.SIGKILL)
    assert [update["status"] for update in (await asked).json()["updates"]] == ["created"]


async def test_a_reader_that_dies_again_before_it_begins_costs_the_request_nothing(
    client: httpx2.AsyncClient, everything: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    await everything.reader.start()
    first = await _reader(everything, other_than=None)
    os.kill(first, signal.SIGKILL)

    async def has_ended() -> bool | None:
        return everything.reader.process_id is None or None

    await until(has_ended)
    asked = asyncio.create_task(client.post("/v1/apply", json={"resources": [destination("a")]}))
    os.kill(await _reader(everything, other_than=first), signal.SIGKILL)  # it has hardly begun to start
    answer = await asked
    assert [update["status"] for update in answer.json()["updates"]] == ["created"]
    ends = [record.__dict__["fields"]["readerEnds"] for record in caplog.records]
    assert ends == list(range(ends[0], ends[0] + 2))


async def _reader(everything: Parts, *, other_than: int | None) -> int:
    """The worker, once it is another one."""

    async def look() -> int | None:
        process = everything.reader.process_id
        return None if process == other_than else process

    return await until(look)


async def test_a_key_has_a_limited_number_of_requests_under_way(services: Services) -> None:
    async with connect(dataclasses.replace(services, in_flight={"key:SERVICE_API_KEY": IN_FLIGHT})) as client:
        answer = await client.get("/v1/runs")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json() == {"errors": ["You have 32 requests under way; try again."], "codes": ["too-many-requests"]}


SECURITY = {"x-content-type-options": "nosniff", "cache-control": "no-store", "referrer-policy": "no-referrer"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/livez", 200),
        ("GET", "/v1/resources/Source", 200),
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/apply", 400),
        ("DELETE", "/v1/resources/Source/x", 404),
        ("TRACE", "/v1/version", 405),
    ],
)
async def test_every_answer_has_an_id_and_the_security_headers(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    answers = [await client.request(method, path, headers={"X-Request-Id": "mine"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, status]
    for answer in answers:
        assert {name: answer.headers[name] for name in SECURITY} == SECURITY
    first, second = (answer.headers["x-request-id"] for answer in answers)
    assert (len(first), len(second)) == (26, 26)
    assert first != second


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/resources/Source/x", "DELETE, GET, HEAD"),
        ("/v1/resources/Source", "GET, HEAD"),
        ("/v1/Source/x/history", "GET, HEAD"),
        ("/v1/apply", "POST"),
        ("/v1/delete", "POST"),
        ("/v1/repositories", "GET, HEAD"),
        ("/v1/repositories/telemetry", "GET, HEAD"),
        ("/v1/repositories/telemetry/reconcile", "POST"),
        ("/v1/runs", "GET, HEAD"),
        ("/v1/runs/x", "GET, HEAD"),
        ("/v1/version", "GET, HEAD"),
        ("/livez", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
async def test_a_method_that_a_path_does_not_take_is_405_and_names_those_it_does(
    client: httpx2.AsyncClient, method: str, path: str, allow: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()) == (405, {"errors": [f"This path takes {allow} alone."], "codes": ANY})
    assert answer.headers["allow"] == allow
