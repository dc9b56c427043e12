"""A request is counted and cut as protobuf's own parser reads it."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings, strategies
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.delivery.otlp import wire
from reconciler.delivery.otlp.models import MOST_RECORDS, MalformedRequest, RequestTooLarge
from reconciler.delivery.otlp.wire import Cut, Run
from tests.delivery.otlp.requests import REQUESTS, field, group, pair, parsed, records, request, varint


def cuts(data: bytes) -> list[Cut]:
    return [step for step in wire.walk(data) if isinstance(step, Cut)]


def runs(data: bytes) -> list[Run]:
    return [step for step in wire.walk(data) if isinstance(step, Run)]


@settings(max_examples=30)
@given(REQUESTS)
def test_each_cut_is_the_request_of_one_resource_alone(message: ExportLogsServiceRequest) -> None:
    data = message.SerializeToString()
    found = cuts(data)
    assert [parsed(data[one.start : one.end]).resource_logs[0] for one in found] == list(message.resource_logs)
    assert [one.records for one in found] == [len(records(parsed(data[one.start : one.end]))) for one in found]
    assert [Resource.FromString(one.resource) for one in found] == [one.resource for one in message.resource_logs]


WORDS = strategies.sampled_from(
    [b"\x0a", b"\x12", b"\x02", b"\x04", b"\x00", b"\x80", b"\x08", b"\x1a", b"\x0d", b"\x09", b"\x8a\x00", b"\x84\x00"]
)


@given(strategies.binary(max_size=40) | strategies.lists(WORDS, max_size=20).map(b"".join))
def test_bytes_without_sense_are_refused_or_counted_like_the_parser_counts(data: bytes) -> None:
    try:
        found = cuts(data)
    except MalformedRequest:
        return
    try:
        message = parsed(data)
    except DecodeError:
        return
    assert sum(one.records for one in found) == len(records(message))
    assert len(found) == len(message.resource_logs)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 70_000, 200_000])
def test_records_of_every_length_are_counted(size: int) -> None:
    data = request(group("a", "x" * size, "b"))
    assert [one.records for one in cuts(data)] == [3]


def test_unknown_fields_are_passed_over_at_every_level() -> None:
    unknown = varint(99 << 3) + varint(2**64 - 1) + varint(99 << 3 | 1) + b"8bytes.." + varint(99 << 3 | 5) + b"four"
    unknown += varint(2000 << 3 | 2) + varint(3) + b"\xff\xff\xff"
    scope = unknown + field(0x12, LogRecord().SerializeToString()) + unknown + field(0x12, unknown) + unknown
    data = unknown + field(0x0A, unknown + field(0x12, scope) + unknown) + unknown
    [cut] = cuts(data)
    assert (cut.records, cut.start, cut.end) == (2, len(unknown), len(data) - len(unknown))


def test_a_tag_and_a_length_may_take_more_bytes_than_they_need() -> None:
    scope = b"\x92\x00" + b"\x80\x80\x00" + b"\x12\x00"
    assert [one.records for one in cuts(field(0x0A, b"\x92\x00" + b"\x85\x00" + scope[:5] + b"\x12\x00"))] == [1]
    assert [one.records for one in cuts(field(0x0A, field(0x12, scope)))] == [2]


def test_a_resource_that_stands_twice_is_merged() -> None:
    halves = [
        Resource(attributes=[pair("a", "1")]).SerializeToString(),
        Resource(attributes=[pair("b", "2")]).SerializeToString(),
    ]
    [cut] = cuts(field(0x0A, field(0x0A, halves[0]) + field(0x12, b"") + field(0x0A, halves[1])))
    assert [one.key for one in Resource.FromString(cut.resource).attributes] == ["a", "b"]


def test_the_first_record_too_many_ends_the_walk() -> None:
    scope = field(0x12, b"") * (MOST_RECORDS + 1)
    assert sum(one.records for one in cuts(field(0x0A, field(0x12, scope[2:])))) == MOST_RECORDS
    with pytest.raises(RequestTooLarge, match=r"more than 10,000 log records; send fewer at a time\."):
        cuts(field(0x0A, field(0x12, scope)) + b"\xff\xff no request any more")
    half = field(0x0A, field(0x12, scope[: MOST_RECORDS + 2]))
    with pytest.raises(RequestTooLarge):
        cuts(half + half)


def test_resources_and_scopes_are_limited_too() -> None:
    each = field(0x0A, field(0x12, field(0x12, b"")))
    assert len(cuts(each * MOST_RECORDS)) == MOST_RECORDS
    for empty in (field(0x0A, b"") * 20_001, field(0x0A, field(0x12, b"") * 20_000)):
        with pytest.raises(RequestTooLarge, match="more than 20,000 resources and scopes"):
            cuts(empty)


@settings(max_examples=30)
@given(REQUESTS, strategies.integers(1, 40))
def test_the_runs_are_every_byte_in_order_and_each_is_a_message(message: ExportLogsServiceRequest, copies: int) -> None:
    for one in message.resource_logs:
        one.schema_url = "x" * 9_000  # some groups are large, then, and some runs end among small ones
    data = message.SerializeToString() * copies
    if sum(len(records(message)) for _ in range(copies)) > MOST_RECORDS:
        return
    found = runs(data)
    assert b"".join(data[run.start : run.end] for run in found if run.level == 0) == data  # no group is over 64 KiB
    for run in found:
        parsed(data[run.start : run.end])


def test_large_groups_and_scopes_are_divided_at_their_fields() -> None:
    large = group(*["x" * 1_000] * 500, name="value")
    large.schema_url = "https://example.org/schema"
    small = group("a")
    data = request(small, large, small)
    found = runs(data)
    assert [run.level for run in found] == [0, 1, *[2] * 8, 1, 0]
    assert max(run.end - run.start for run in found) < wire.RUN + 1_100
    parts = [data[run.start : run.end] for run in found]
    assert parsed(parts[0]) == parsed(parts[-1]) == ExportLogsServiceRequest(resource_logs=[small])
    assert ResourceLogs.FromString(parts[1]) == ResourceLogs(resource=large.resource)
    assert ScopeLogs.FromString(b"".join(parts[2:-2])) == large.scope_logs[0]
    assert ResourceLogs.FromString(parts[-2]) == ResourceLogs(schema_url=large.schema_url)


@pytest.mark.parametrize(
    "data",
    [
        field(0x0A, field(0x12, b"\x12\x03a")) + b"bc",
        field(0x0A, field(0x12, field(0x12, b"") + b"\x12\x81\x00")) + b"abc",
        b"\x02\x00",
        b"\x0b\x0c",
        b"\x0a",
    ],
    ids=["a record beyond its scope", "a longer length beyond it", "the field number 0", "a group", "a tag alone"],
)
def test_the_walk_refuses_what_is_no_message_before_any_parser_sees_it(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        cuts(data)
