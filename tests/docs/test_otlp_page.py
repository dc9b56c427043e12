"""docs/otlp.md says what the code that reads requests does."""

import json
import re

import pytest
from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]  # nobody publishes its types

from reconciler.delivery.otlp import bodies, encodings, models, reading, skeletons
from reconciler.delivery.otlp.models import LIMITS, RequestLimits
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/otlp.md")
BODIES = pages.table(pages.section(PAGE, "What a webhook gets"))


def quoted(cell: str) -> str:
    [found] = re.findall("`(.+)`", cell)
    return str(found)


async def sent(document: str) -> list[str]:
    """Return what a webhook gets of a request in JSON."""
    return [
        text.decode()
        for part in bodies.body_fragments(reading.to_protobuf(document.encode(), limits=RequestLimits()))
        for text in part
    ]


@pytest.mark.anyio
async def test_the_example_is_sent_as_it_says() -> None:
    [example] = pages.blocks(PAGE, "json")
    assert f"`[{','.join(await sent(example))}]`" in PAGE


@pytest.mark.anyio
@pytest.mark.parametrize("row", BODIES, ids=lambda row: row["the record's body"])
async def test_each_body_is_sent_as_its_row_says(row: dict[str, str]) -> None:
    record = json.dumps({"body": json.loads(quoted(row["for example"]))})
    [found] = await sent('{"resourceLogs": [{"scopeLogs": [{"logRecords": [' + record + "]}]}]}")
    assert found == quoted(row["in the request to the webhook"])


def test_the_limits_are_those_of_the_code() -> None:
    numbers = [row["most"] for row in pages.table(pages.section(PAGE, "Limits"))]
    assert numbers == [
        f"{LIMITS.bytes >> 20} MiB", f"{LIMITS.records:,}", f"{LIMITS.containers:,}",
        f"{skeletons.MOST_FIELDS:,}",
        f"{reading.MOST_VALUES:,}",
        "100, the request among them", str(encodings.MOST_MEMBERS), f"{encodings.MOST_WINDOW >> 20} MiB",
    ]  # fmt: skip
    assert f"The first {bodies.MOST_ATTRIBUTES:,} attributes" in PAGE
    assert f"**gzip** may have {encodings.MOST_MEMBERS} members" in PAGE


def test_the_codes_are_those_of_the_answers() -> None:
    told = {row["status"]: row["code"] for row in pages.table(pages.section(PAGE, "Answers"))}
    assert told == {str(status): f"{code} {Code.Name(code)}" for status, code in models.CODES.items()}
