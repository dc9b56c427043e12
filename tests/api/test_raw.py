"""The raw text of a Configuration is handed out as it is."""

from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from tests.api.conftest import connect

pytestmark = pytest.mark.anyio

RAW = "receivers:\n  otlp: {}\n# é\u200b\u202e<script>\n"
PATH = "/v1/resources/Configuration/by-hand/raw"


async def apply(client: httpx2.AsyncClient, name: str, *, query: str = "", **spec: Any) -> None:
    document = {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": name}, "spec": spec}
    answer = await client.post(f"/v1/apply{query}", json={"resources": [document]})
    assert answer.json()["updates"][0]["status"] in ("created", "configured")


@pytest.mark.parametrize("kind", ["Configuration", "configuration", "configurations", "CONFIGURATIONS"])
async def test_it_is_text_whatever_it_holds_and_says(client: httpx2.AsyncClient, kind: str) -> None:
    await apply(client, "by-hand", raw=RAW, contentType="text/html")
    answer = await client.get(f"/v1/resources/{kind}/by-hand/raw", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.content) == (200, RAW.encode())
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-length"] == str(len(RAW.encode()))


async def test_an_empty_text_is_one(client: httpx2.AsyncClient) -> None:
    await apply(client, "by-hand", raw="")
    answer = await client.get(PATH)
    assert (answer.status_code, answer.content) == (200, b"")


async def test_who_holds_it_gets_304_until_the_text_changes(client: httpx2.AsyncClient) -> None:
    await apply(client, "by-hand", raw=RAW)
    etag = (await client.get(PATH)).headers["etag"]
    await apply(client, "by-hand", raw=RAW, contentType="text/yaml")
    held = await client.get(PATH, headers={"If-None-Match": etag})
    assert (held.status_code, held.content, held.headers["etag"]) == (304, b"", etag)
    await apply(client, "by-hand", raw=RAW + "#")
    changed = await client.get(PATH, headers={"If-None-Match": etag})
    assert (changed.status_code, changed.text) == (200, RAW + "#")
    assert changed.headers["etag"] != etag


async def test_head_answers_as_get_without_the_text(client: httpx2.AsyncClient) -> None:
    await apply(client, "by-hand", raw=RAW)
    get, head = await client.get(PATH), await client.head(PATH)
    compared = ("content-type", "content-length", "etag")
    assert (head.status_code, head.content) == (200, b"")
    assert [head.headers[name] for name in compared] == [get.headers[name] for name in compared]


NAME_RULE = "must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("Configuration/none/raw", 404, "There is no Configuration none."),
        ("Configuration/built/raw", 404, "The Configuration built has no `raw` in its spec."),
        ("SourceType/otlp/raw", 404, "Only a Configuration has a text for Collectors, and SourceType is another kind."),
        ("Pod/x/raw", 404, "There is no such kind; the kinds are listed in /openapi.json."),
        ("Configuration/-x/raw", 400, f"The name in the path {NAME_RULE}."),
    ],
)
async def test_what_has_no_text_says_why(client: httpx2.AsyncClient, path: str, status: int, sentence: str) -> None:
    await apply(client, "built", contentType="text/yaml")
    answer = await client.get(f"/v1/resources/{path}")
    assert (answer.status_code, answer.json()) == (status, {"errors": [sentence], "codes": ANY})


async def test_a_project_has_its_own(client: httpx2.AsyncClient, services: Services) -> None:
    await apply(client, "by-hand", raw=RAW)
    async with connect(services) as elsewhere:
        assert (await elsewhere.get(PATH)).status_code == 404


QUEUE = {
    "apiVersion": "service/v1",
    "kind": "Extension",
    "metadata": {"name": "queue"},
    "spec": {"type": "file_storage", "parameters": [{"name": "max_bytes", "value": "much"}]},
}


async def test_what_is_incomplete_is_not_handed_out_until_it_is_completed(client: httpx2.AsyncClient) -> None:
    await client.post("/v1/apply?acceptInvalid=true", json={"resources": [QUEUE]})
    await apply(client, "by-hand", raw=RAW, extensions=[{"name": "queue"}], query="?acceptInvalid=true")
    answer = await client.get(PATH)
    sentence = "The Configuration by-hand is not ready; its status says what is incomplete."
    assert (answer.status_code, answer.json()) == (409, {"errors": [sentence], "codes": ANY})
    complete = {**QUEUE, "spec": {"type": "file_storage"}}
    await client.post("/v1/apply", json={"resources": [complete]})
    answer = await client.get(PATH)
    assert (answer.status_code, answer.text) == (200, RAW)
