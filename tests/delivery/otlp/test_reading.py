"""Requests become groups that travel: which bytes, how many records, which attributes."""

import asyncio
import json as json_
import math
from typing import Any

import pytest
from hypothesis import given, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from benchmarks import delivery_bodies
from reconciler.delivery.otlp import reading
from reconciler.delivery.otlp.models import Logs, RequestLimits, RequestTooLarge
from tests.delivery.otlp.requests import REQUESTS, group, pair, parsed, records, request


async def attributes(*pairs: Any) -> dict[str, str]:
    resource = Resource(attributes=[pair(key, value) for key, value in pairs])
    logs = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=[LogRecord()])])
    [one] = (await reading.read(request(logs), json=False)).groups
    return dict(one.attributes)


@pytest.mark.anyio
@settings(max_examples=30)
@given(REQUESTS)
async def test_groups_in_any_number_and_order_are_a_request(message: ExportLogsServiceRequest) -> None:
    logs = await reading.read(message.SerializeToString(), json=False)
    full = [one for one in message.resource_logs if any(scope.log_records for scope in one.scope_logs)]
    assert [list(parsed(bytes(one.data)).resource_logs) for one in logs.groups] == [[one] for one in full]
    counts = [sum(len(scope.log_records) for scope in one.scope_logs) for one in full]
    assert [one.records for one in logs.groups] == counts
    assert list(parsed(b"".join(one.data for one in reversed(logs.groups))).resource_logs) == full[::-1]
    assert logs.records == len(records(message))


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"", request(), request(ResourceLogs()), request(group(), group(name="value"))])
async def test_a_request_without_records_is_sound_and_has_no_groups(body: bytes) -> None:
    assert await reading.read(body, json=False) == Logs([], 0)


@pytest.mark.anyio
async def test_attributes_are_text() -> None:
    found = await attributes(
        ("text", "as it is "), ("empty", ""), ("yes", True), ("no", False), ("integer", -(2**63)), ("whole", 1.0),
        ("fraction", 0.1), ("large", 1e300), ("negative", -0.0), ("nan", math.nan), ("infinity", math.inf),
        ("minus", -math.inf), ("bytes", AnyValue(bytes_value=b"x")), ("array", AnyValue(array_value=ArrayValue())),
        ("map", AnyValue(kvlist_value=KeyValueList())), ("nothing", AnyValue()), ("", "no key"),
    )  # fmt: skip
    assert found == {
        "text": "as it is ", "empty": "", "yes": "true", "no": "false", "integer": "-9223372036854775808",
        "whole": "1.0", "fraction": "0.1", "large": "1e300", "negative": "-0.0", "nan": "NaN", "infinity": "Infinity",
        "minus": "-Infinity", "": "no key",
    }  # fmt: skip


@pytest.mark.anyio
async def test_of_a_key_that_stands_twice_the_first_value_counts() -> None:
    assert await attributes(("a", "1"), ("a", "2"), ("b", AnyValue(bytes_value=b"x")), ("b", "3")) == {"a": "1"}


@pytest.mark.anyio
async def test_the_first_thousand_attributes_are_read() -> None:
    found = await attributes(*((f"key-{number}", "x") for number in range(1_001)))
    assert list(found) == [f"key-{number}" for number in range(1_000)]


@pytest.mark.anyio
async def test_large_and_many_groups_are_read_like_small_ones() -> None:
    large = group(*["x" * 900] * 2_000, service="large")
    small = [group("b", number=number) for number in range(900)]
    message = ExportLogsServiceRequest(resource_logs=[group("a", number=0), large, *small])
    logs = await reading.read(message.SerializeToString(), json=False)
    assert (logs.records, len(logs.groups), logs.groups[1].attributes) == (2_901, 902, {"service": "large"})
    assert parsed(b"".join(one.data for one in logs.groups)) == message


@pytest.mark.anyio
@pytest.mark.parametrize("json", [False, True])
async def test_others_have_their_turn_while_a_large_request_is_read(*, json: bool) -> None:
    records_ = 5_000 if json else 20_000
    body = delivery_bodies.texts(records_)
    if json:
        record = b'{"body":{"stringValue":"%s"}}' % (b"x" * 150)
        body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b",".join([record] * records_) + b"]}]}]}"
    reads = asyncio.ensure_future(reading.read(body, json=json))
    turns = 0
    while not reads.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await reads).records == records_
    assert turns > 1


@pytest.mark.anyio
@pytest.mark.parametrize("records_", [1_000, 60_000])  # on the event loop, and on a thread
async def test_a_request_of_the_most_records_is_read_and_one_more_is_refused(records_: int) -> None:
    limits = RequestLimits(records=records_)
    texts = ["x" * 20] * records_
    assert (await reading.read(request(group(*texts)), json=False, limits=limits)).records == records_
    for body in (request(group(*texts, "y")), request(group(*texts), group("y"))):
        with pytest.raises(RequestTooLarge, match=f"more than {records_:,} log records"):
            await reading.read(body, json=False, limits=limits)


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["[]" * 4, ",{[" * 1_000, '"\\"'])
async def test_what_is_in_strings_of_json_counts_as_no_values(text: str) -> None:
    record = json_.dumps({"body": {"stringValue": text * 30_000}})
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}'.encode()
    assert (await reading.read(body, json=True)).records == 1
