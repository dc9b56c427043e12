"""On a real connection: a client that goes away leaves nothing running, and a refused one still gets its answer."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

import api.app
from api import responses
from api.calls import Services
from reconciler.server import serving
from reconciler.store.contract import Store
from reconciler.store.records import Record
from reconciler.store.sqlite import SqliteStore
from tests.api import parts
from tests.api.parts import MAX_BODY_BYTES, Parts, destination
from tests.store import rows

pytestmark = pytest.mark.anyio

SOON = 20  # seconds, the most that any of these may take


@contextlib.asynccontextmanager
async def server(services: Services) -> AsyncIterator[tuple[str, int]]:
    """The application behind the product's own HTTP server."""
    listener = serving.bind("127.0.0.1", 0)
    host, port = listener.getsockname()
    async with serving.serve([(api.app.build(services), listener)], drain_seconds=1):
        yield host, port


def request(method: str, path: str, body: bytes = b"", *, project: str = parts.DEFAULT) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: service\r\nX-Service-Api-Key: {parts.KEY}\r\n"
    head += f"X-Service-Project: {project}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Endless:
    """A real store but for its lists, which never end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list_pages(self, *_arguments: object, **_options: object) -> AsyncIterator[list[bytes]]:
        self.begun.set()
        try:
            while True:
                yield [b'"%b"' % (b"x" * 100_000)]
        finally:
            self.ended.set()


async def test_a_client_that_goes_away_ends_its_list(services: Services) -> None:
    endless: Any = Endless(services.store)
    async with asyncio.timeout(SOON), server(dataclasses.replace(services, store=endless)) as address:
        _, writer = await asyncio.open_connection(*address)
        writer.write(request("GET", "/v1/resources/Source"))
        await endless.begun.wait()
        assert not endless.ended.is_set()
        writer.close()
        await endless.ended.wait()


CHANGED = {"resources": [destination("a", displayName="x"), destination("b")]}


@pytest.mark.parametrize(
    ("where", "body"),
    [
        (("POST", "/v1/apply"), CHANGED),
        (("POST", "/v1/delete"), [destination("a")]),
        (("DELETE", "/v1/resources/Destination/a"), None),
    ],
)
async def test_a_client_that_goes_away_ends_its_change_before_it_is_stored(
    client: httpx2.AsyncClient, everything: Parts, project: str, where: tuple[str, str], body: object
) -> None:
    await client.post("/v1/apply", json={"resources": [destination("a")]})
    before = (await client.get("/v1/resources/Destination")).json()
    reader = everything.reader.process_id
    assert reader is not None
    os.kill(reader, signal.SIGSTOP)
    try:
        async with asyncio.timeout(SOON), server(everything.services) as address:
            _, writer = await asyncio.open_connection(*address)
            content = b"" if body is None else json.dumps(body).encode()
            writer.write(request(*where, content, project=project))
            while not _working():  # noqa: ASYNC110  the server announces neither a request's beginning
                await asyncio.sleep(0.005)
            writer.close()
            while _working():  # noqa: ASYNC110  nor its end
                await asyncio.sleep(0.005)
    finally:
        os.kill(reader, signal.SIGCONT)
    # The next change is planned behind the one that was given up, by the same child.
    await client.post("/v1/apply", json={"resources": [destination("c")]})
    assert everything.reader.process_id == reader
    after = (await client.get("/v1/resources/Destination")).json()["resources"]
    assert [resource["metadata"]["name"] for resource in after] == ["a", "c"]
    assert after[:1] == before["resources"]


def _working() -> bool:
    return any(task.get_name() == "api-work" for task in asyncio.all_tasks())


async def test_a_client_that_goes_away_while_it_sends_ends_its_request(services: Services) -> None:
    async with asyncio.timeout(SOON), server(services) as address:
        idle = len(asyncio.all_tasks())
        _, writer = await asyncio.open_connection(*address)
        writer.write(request("POST", "/v1/apply", b"x" * 100)[:-50])
        while len(asyncio.all_tasks()) == idle:  # noqa: ASYNC110  the server announces neither a request's beginning
            await asyncio.sleep(0.005)
        writer.close()
        while len(asyncio.all_tasks()) > idle:  # noqa: ASYNC110  nor its end
            await asyncio.sleep(0.005)


async def test_a_refused_body_still_gets_its_answer_and_the_connection_goes_on(
    services: Services, project: str
) -> None:
    async with asyncio.timeout(SOON), server(services) as (host, port):
        headers = {"X-Service-Api-Key": parts.KEY, "X-Service-Project": project}
        async with httpx2.AsyncClient(base_url=f"http://{host}:{port}", headers=headers) as client:
            large = await client.post("/v1/apply", content=b" " * (MAX_BODY_BYTES * 50))
            stranger = await client.post("/v1/apply", content=b" " * 500_000, headers={"X-Service-Api-Key": ""})
            small = await client.post("/v1/apply", json={"resources": [destination("a")]})
            head = await client.head("/v1/resources/Destination/a")
            got = await client.get("/v1/resources/Destination/a")
    assert [answer.status_code for answer in (large, stranger, small, head, got)] == [413, 401, 202, 200, 200]
    assert int(head.headers["content-length"]) == len(got.content)


async def pages(closed: list[bool]) -> AsyncGenerator[list[bytes], None]:
    try:
        yield []
        yield [b"1", b"2"]
        yield [b"3"]
    finally:
        closed.append(True)


async def connected() -> Message:
    await asyncio.sleep(3600)
    raise AssertionError


async def test_a_list_is_one_json_text_and_closes_its_pages() -> None:
    sent: list[Message] = []
    closed: list[bool] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await responses.Streamed(responses.stream_array(b"things", pages(closed)))({"method": "GET"}, connected, send)
    assert b"".join(message.get("body", b"") for message in sent) == b'{"things":[1,2,3]}'
    assert [message.get("more_body") for message in sent] == [None, True, True, True, False]
    assert closed == [True]


async def test_a_list_for_head_reads_one_page_and_sends_none() -> None:
    sent: list[Message] = []
    closed: list[bool] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await responses.Streamed(responses.stream_array(b"things", pages(closed)))({"method": "HEAD"}, connected, send)
    assert [message.get("body") for message in sent] == [None, b""]
    assert closed == [True]


async def test_a_client_that_does_not_take_a_list_loses_it() -> None:
    closed: list[bool] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(3600)

    listing = responses.Streamed(responses.stream_array(b"things", pages(closed)), stall_seconds=0.02)
    with pytest.raises(ClientDisconnect):
        await listing({"method": "GET"}, connected, send)
    assert closed == [True]


@pytest.mark.parametrize("left", [0, 1])
async def test_a_list_without_values_is_one_too(left: int) -> None:
    async def empty() -> AsyncGenerator[list[bytes], None]:
        for _ in range(left):
            yield []

    assert [text async for text in responses.stream_array(b"things", empty())] == [b'{"things":[]}']


async def test_a_client_that_takes_a_list_too_slowly_loses_it_and_the_log_of_the_store_is_free(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.create_project(rows.PROJECT, at=rows.AT)
    names = [f"{number:04}" for number in range(2_000)]
    await store.commit([rows.stored(*names)], record=Record())
    sent: list[bytes] = []

    async def send_slowly(message: Message) -> None:
        sent.append(message.get("body", b""))
        if len(sent) == 2:  # a write that the list does not see, and that stays in the log because of it
            await store.commit([rows.stored("new")], record=Record())
            assert _left_in_the_log(store.path)
        await asyncio.sleep(0.04 if len(sent) < 3 else SOON)

    texts = responses.stream_array(b"things", store.list_pages(rows.PROJECT, rows.KIND, after="", limit=10_000))
    async with asyncio.timeout(SOON):
        with pytest.raises(ClientDisconnect):
            await responses.Streamed(texts, stall_seconds=SOON, whole_seconds=1.0)(
                {"method": "GET"}, connected, send_slowly
            )
    assert len(sent) > 2
    assert not b"".join(sent).endswith(b"]}")
    assert not _left_in_the_log(store.path)
    await store.close()


def _left_in_the_log(path: Path) -> bool:
    """Return True when a read keeps the store from taking all of its log into the file."""
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        busy, _, _ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
    return bool(busy)


async def test_a_limit_of_time_inside_is_a_failure_and_no_client_that_went_away() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        raise TimeoutError("inside")
        yield b""

    with pytest.raises(TimeoutError, match="inside"):
        await responses.Streamed(failing())({"method": "GET"}, connected, connected_send)


async def connected_send(_message: Message) -> None:
    raise AssertionError
