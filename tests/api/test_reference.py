"""`/docs`: the whole contract as a page, for whoever reads it, and made once."""

import asyncio
import json
import re
import shlex

import pytest

import api.app
from api.calls import Call
from api.pages import reference
from api.pages.reference import Operation, reference_contents
from api.services import Services
from tests.api.callers import ask
from tests.api.contracts import DOCUMENT, operations
from tests.api.pages import documents
from tests.api.pages.documents import Document

pytestmark = pytest.mark.anyio

HTML = reference.rendered().decode()
OPERATIONS = [operation for section in reference_contents(DOCUMENT).sections for operation in section.operations]


async def test_anybody_may_read_it_and_it_is_a_page(services: Services) -> None:
    answer = await ask(api.app.build(services), "GET", "/docs", headers=[])
    assert (answer.status, answer.body) == (200, reference.rendered())
    headers = dict(answer.headers)
    assert headers[b"content-type"] == b"text/html; charset=utf-8"
    assert headers[b"content-security-policy"].startswith(b"default-src 'none'; style-src 'self'")


async def test_with_a_slash_behind_it_leads_there(services: Services) -> None:
    answer = await ask(api.app.build(services), "GET", "/docs/", headers=[])
    assert (answer.status, dict(answer.headers)[b"location"]) == (303, b"/docs")


def test_it_is_whole_for_everybody_and_names_no_other_host() -> None:
    assert documents.faults(HTML) == []
    assert re.findall(r'(?:href|src|action)="(?!/|#)[^"]*"', HTML) == []


def test_every_operation_and_every_schema_is_there_once_with_an_anchor() -> None:
    ids = [element.attributes["id"] for element in Document(HTML).all("article")]
    named = [operation["operationId"] for _, _, operation in operations()]
    assert sorted(ids) == sorted([*named, *map(reference.schema_anchor, DOCUMENT["components"]["schemas"])])


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_the_line_for_a_shell_asks_for_the_operation(operation: Operation) -> None:
    words = shlex.split(operation.curl)
    (url,) = [word for word in words if word.startswith("$SERVICE_SERVER")]
    path = url.removeprefix("$SERVICE_SERVER").partition("?")[0]
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/{}]+", operation.path), path)
    assert (words[words.index("-X") + 1] if "-X" in words else "GET") == operation.method
    shown = "Authorization: Bearer $SERVICE_API_KEY" in words or "--user" in words
    assert shown is not operation.public
    if "-d" in words:
        json.loads(words[words.index("-d") + 1])


async def test_many_who_ask_at_first_have_one_page_made(services: Services) -> None:
    reference.rendered.cache_clear()
    call = Call({"headers": [], "state": {"services": services}}, asyncio.Queue().get)
    pages = await asyncio.gather(*(reference.show(call) for _ in range(8)))
    assert reference.rendered.cache_info().misses == 1
    assert {bytes(page.body) for page in pages} == {HTML.encode()}


def test_it_is_bounded() -> None:
    assert len(reference.rendered()) < 1_000_000


def test_a_schema_within_itself_is_written_out_once() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/A/$defs/node"}}}
    schema = {"properties": {"first": {"$ref": "#/components/schemas/A/$defs/node"}}, "$defs": {"node": node}}
    document = {"components": {"schemas": {"A": schema}}}
    found = [field.name for field in reference.schema_fields(schema, document)]
    assert found == ["first", "first.next"]
