"""A body is bounded in bytes, in time and in its encoding."""

import asyncio
from collections.abc import AsyncIterator
from unittest.mock import ANY

import httpx2
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from api import errors, requests
from tests.api.parts import MAX_BODY_BYTES

pytestmark = pytest.mark.anyio

TOO_LARGE = {
    "errors": [f"The body is over {MAX_BODY_BYTES} bytes; send the resources in several requests."],
    "codes": ANY,
}
COMPRESSED = {"errors": ["The body is compressed; send it without a Content-Encoding."], "codes": ANY}
PATHS = pytest.mark.parametrize("path", ["/v1/apply", "/v1/delete"])


class Chunks:
    """A body in parts, which counts how many were asked for."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            self.taken += 1
            yield chunk


@PATHS
async def test_a_length_over_the_limit_is_refused_before_anything_is_read(
    client: httpx2.AsyncClient, path: str
) -> None:
    body = Chunks(b" " * (MAX_BODY_BYTES + 1))
    headers = {"Content-Length": str(MAX_BODY_BYTES + 1)}
    answer = await client.post(path, content=body, headers=headers)
    assert (answer.status_code, answer.json(), body.taken) == (413, TOO_LARGE, 0)


@PATHS
async def test_a_body_without_a_length_is_read_up_to_the_limit(client: httpx2.AsyncClient, path: str) -> None:
    body = Chunks(b" " * MAX_BODY_BYTES, b" ", b" ", b" ")
    answer = await client.post(path, content=body)
    assert (answer.status_code, answer.json(), body.taken) == (413, TOO_LARGE, 2)


async def test_a_body_of_exactly_the_limit_passes(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/apply", content=b'{"resources":[]}'.ljust(MAX_BODY_BYTES))
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("length", "status"), [("9" * 5000, 413), ("0" * 30 + "16", 202), ("-1", 400), ("0x10", 400), ("", 400)]
)
async def test_a_length_is_a_number_of_bytes(client: httpx2.AsyncClient, length: str, status: int) -> None:
    answer = await client.post("/v1/apply", content=Chunks(b'{"resources":[]}'), headers={"Content-Length": length})
    assert answer.status_code == status


@PATHS
@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP", "identity, gzip", "x"])
async def test_a_compressed_body_is_refused_unread(client: httpx2.AsyncClient, path: str, encoding: str) -> None:
    body = Chunks(b"")
    answer = await client.post(path, content=body, headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.json(), body.taken) == (415, COMPRESSED, 0)
    assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_an_encoding_that_is_none_passes(client: httpx2.AsyncClient, encoding: str) -> None:
    answer = await client.post("/v1/apply", content='{"resources":[]}', headers={"Content-Encoding": encoding})
    assert answer.status_code == 202


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.002)
        return {"type": "http.request", "body": b"x", "more_body": True}

    with pytest.raises(errors.BadRequest) as caught:
        await requests.receive_each(receive, _nothing, limit=10**9, large="", seconds=0.05)
    assert caught.value.sentences == ("The body did not arrive within 0.05 seconds.",)
    assert caught.value.headers == ((b"connection", b"close"),)


async def test_a_client_that_leaves_ends_the_reading() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await requests.receive_each(receive, _nothing, limit=10, large="", seconds=5)


def _nothing(_piece: bytes) -> None:
    pass
