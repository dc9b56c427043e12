"""Requests become groups that travel: which bytes, how many records, which attributes."""

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from benchmarks import delivery_bodies
from reconciler.delivery.otlp import reading, wire
from reconciler.delivery.otlp.models import MOST_BYTES, Logs
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
    assert (logs.records, logs.size) == (len(records(message)), sum(len(one.data) for one in logs.groups))


@pytest.mark.anyio
@settings(max_examples=50)
@given(REQUESTS)
async def test_what_is_read_at_once_is_what_is_read(message: ExportLogsServiceRequest) -> None:
    for one in [message, *(ExportLogsServiceRequest(resource_logs=[each]) for each in message.resource_logs)]:
        body = one.SerializeToString()
        logs = reading.at_once(body)
        read = await reading.read(body, json=False)
        assert logs in (None, read)
        assert (logs is not None) == (len(one.resource_logs) == 1 and read.records > 0 and len(body) < wire.SMALL)


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"", request(), request(ResourceLogs()), request(group(), group(name="value"))])
async def test_a_request_without_records_is_sound_and_has_no_groups(body: bytes) -> None:
    assert await reading.read(body, json=False) == Logs((), 0, 0)


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
    body = delivery_bodies.texts(10_000)
    if json:
        record = b'{"body":{"stringValue":"%s"}}' % (b"x" * 150)
        body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b",".join([record] * 10_000) + b"]}]}]}"
    reads = asyncio.ensure_future(reading.read(body, json=json))
    turns = 0
    while not reads.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await reads).records == 10_000
    assert turns > 20


@pytest.mark.anyio
async def test_a_request_of_the_largest_size_and_number_is_read() -> None:
    body = request(group(*["x" * 790] * 10_000, service="full"))
    assert MOST_BYTES * 0.9 < len(body) <= MOST_BYTES
    assert (await reading.read(body, json=False)).records == 10_000
