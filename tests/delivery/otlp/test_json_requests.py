"""A request in JSON is the same request in protobuf."""

import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

from reconciler.delivery.otlp import reading
from reconciler.delivery.otlp.models import RequestLimits, RequestTooLarge
from tests.delivery.otlp.requests import REQUESTS, as_json, group, parsed, records


def read(document: Any) -> ExportLogsServiceRequest:
    return parsed(reading.to_protobuf(json.dumps(document).encode(), limits=RequestLimits()))


def record(document: dict[str, Any]) -> LogRecord:
    [found] = records(read({"resourceLogs": [{"scopeLogs": [{"logRecords": [document]}]}]}))
    return found


def body(document: dict[str, Any]) -> AnyValue:
    return (record({"body": document})).body


def widened(document: Any) -> Any:
    """With members that no message has, and with null for some that every message may leave out."""
    if isinstance(document, list):
        return [widened(one) for one in document]
    if not isinstance(document, dict):
        return document
    empty = {"schemaUrl": None, "attributes": None, "values": None, "value": None, "body": None, "traceId": None}
    more = {"unknown": {"resourceLogs": [1, None]}}
    return {**more, **empty, **{key: widened(value) for key, value in document.items()}}


@settings(max_examples=30)
@given(REQUESTS)
def test_what_the_library_writes_is_read_as_what_it_wrote(message: ExportLogsServiceRequest) -> None:
    document = as_json(message)
    assert read(document) == read(widened(document))
    data = reading.to_protobuf(json.dumps(document).encode(), limits=RequestLimits())
    assert data == message.SerializeToString()


def test_a_large_request_is_the_same_as_all_of_it_at_once() -> None:
    large = group(*["x" * 20_000, "y"] * 5, *["z" * 100] * 1_000, team="edge")
    large.scope_logs.add(schema_url="first").log_records.extend(group(*["w" * 40_000] * 3).scope_logs[0].log_records)
    large.scope_logs.add().scope.name = "without records"
    large.schema_url = large.scope_logs[0].schema_url = "second"
    small = group("a", team="core")
    small.schema_url = "third"
    message = ExportLogsServiceRequest(resource_logs=[small, small, large, ResourceLogs(), small, large, large, small])
    data = reading.to_protobuf(json.dumps(as_json(message)).encode(), limits=RequestLimits())
    assert data == message.SerializeToString()


@settings(max_examples=30)
@given(REQUESTS)
def test_the_library_reads_what_is_written_to_be_the_same(message: ExportLogsServiceRequest) -> None:
    without_ids = json_format.MessageToDict(message)
    for one in without_ids.get("resourceLogs", ()):
        for scope in one.get("scopeLogs", ()):
            for found in scope.get("logRecords", ()):
                found.pop("traceId", None)
                found.pop("spanId", None)
                found.pop("severityNumber", None)
    expected = json_format.ParseDict(without_ids, ExportLogsServiceRequest())
    assert (read(without_ids)).SerializeToString() == expected.SerializeToString()


def test_every_member_has_its_place() -> None:
    document = {
        "resourceLogs": [
            {
                "resource": {
                    "attributes": [{"key": "service.name", "value": {"stringValue": "checkout"}}],
                    "droppedAttributesCount": 1,
                    "entityRefs": [
                        {"schemaUrl": "a", "type": "service", "idKeys": ["service.name"], "descriptionKeys": ["b"]}
                    ],
                },
                "scopeLogs": [
                    {
                        "scope": {
                            "name": "library",
                            "version": "1.2",
                            "attributes": [{"key": "c", "value": {"boolValue": True}}],
                            "droppedAttributesCount": 2,
                        },
                        "logRecords": [
                            {
                                "timeUnixNano": "1700000000000000001",
                                "observedTimeUnixNano": 1700000000000000002,
                                "severityNumber": 9,
                                "severityText": "INFO",
                                "body": {"stringValue": "text"},
                                "attributes": [{"key": "d"}],
                                "droppedAttributesCount": 3,
                                "flags": 1,
                                "traceId": "5B8EFFF798038103D269B633813FC60C",
                                "spanId": "eee19b7ec3c1b174",
                                "eventName": "event",
                            }
                        ],
                        "schemaUrl": "e",
                    }
                ],
                "schemaUrl": "f",
            }
        ]
    }
    message = read(document)
    assert as_json(message) == json.loads(
        json.dumps(document)
        .replace("1700000000000000002", '"1700000000000000002"')
        .replace("5B8EFFF798038103D269B633813FC60C", "5b8efff798038103d269b633813fc60c")
    )
    [found] = records(message)
    assert (found.trace_id.hex(), found.span_id.hex()) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (5, 5), ("5", 5), ("-5", -5), ("007", 7), (2**63 - 1, 2**63 - 1), (str(-(2**63)), -(2**63)), (1e3, 1000),
        (-0.0, 0), (None, None),
    ],
)  # fmt: skip
def test_integers_are_numbers_or_strings(written: Any, number: int | None) -> None:
    assert body({"intValue": written}) == (AnyValue() if number is None else AnyValue(int_value=number))


@pytest.mark.parametrize(
    ("written", "number"),
    [
        (1, 1.0), (1.5, 1.5), ("1.5", 1.5), ("-2e3", -2000.0), ("Infinity", math.inf), ("-Infinity", -math.inf),
        (0, 0.0), (10**30, 1e30),
    ],
)  # fmt: skip
def test_doubles_are_numbers_or_strings(written: Any, number: float) -> None:
    assert body({"doubleValue": written}) == AnyValue(double_value=number)


def test_not_a_number_and_less_than_nothing_are_doubles() -> None:
    assert math.isnan((body({"doubleValue": "NaN"})).double_value)
    assert math.copysign(1, (body({"doubleValue": -0.0})).double_value) == -1


@pytest.mark.parametrize("written", ["+/8=", "+/8", "-_8=", "-_8"])
def test_bytes_are_base64_of_either_alphabet(written: str) -> None:
    assert body({"bytesValue": written}) == AnyValue(bytes_value=b"\xfb\xff")


@pytest.mark.parametrize("document", [{}, {"resourceLogs": None}, {"resourceLogs": []}, {"other": 1}])
def test_a_request_without_records_is_sound(document: Any) -> None:
    assert read(document) == ExportLogsServiceRequest()


def test_empty_messages_are_there() -> None:
    found = record({"body": {"kvlistValue": {}}, "attributes": [{}]})
    assert found.body.WhichOneof("value") == "kvlist_value"
    assert len(found.attributes) == 1
    assert (record({"body": {}})).HasField("body")
    assert not (record({"body": None})).HasField("body")


def test_resources_and_scopes_are_counted_before_they_are_made_into_messages() -> None:
    many = b'{"resourceLogs":[' + b",".join([b'{"scopeLogs":[{}]}'] * 10_001) + b"]}"
    with pytest.raises(RequestTooLarge, match="20,000 resources and scopes"):
        reading.to_protobuf(many, limits=RequestLimits(records=10_000))
