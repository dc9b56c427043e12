"""The first records of a request of which only the beginning is there."""

import time

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.delivery.otlp.preview import MOST_CHARACTERS, RecordPreview, preview_records

AT = 1_790_000_000_000_000_000  # Unix nanoseconds


def request(*records: LogRecord, scopes: int = 1) -> bytes:
    resource = Resource(attributes=[KeyValue(key="team", value=AnyValue(string_value="edge"))])
    groups = [ScopeLogs()] * (scopes - 1) + [ScopeLogs(log_records=records, schema_url="https://schema.example")]
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=resource, scope_logs=groups)]
    ).SerializeToString()


def record(body: AnyValue | str, **rest: object) -> LogRecord:
    return LogRecord(body=AnyValue(string_value=body) if isinstance(body, str) else body, **rest)  # type: ignore[arg-type]


def test_a_record_has_its_time_severity_and_body() -> None:
    payload = request(
        record(
            "disk full", time_unix_nano=AT, observed_time_unix_nano=AT + 1, severity_text="Fatal", trace_id=b"x" * 16
        ),
        record('{"a": 1}', observed_time_unix_nano=AT, severity_number=SeverityNumber.SEVERITY_NUMBER_WARN2),
        LogRecord(severity_number=99),  # type: ignore[arg-type]
    )
    assert preview_records(payload, most=5) == [
        RecordPreview(AT, "Fatal", "disk full", is_cut=False),
        RecordPreview(AT, "WARN2", '{"a": 1}', is_cut=False),
        RecordPreview(0, "", "", is_cut=False),
    ]
    assert len(preview_records(payload, most=2)) == 2


def test_a_value_that_is_no_string_is_json() -> None:
    pairs = KeyValueList(values=[KeyValue(key="amount", value=AnyValue(int_value=2**53 + 1))])
    values = [AnyValue(kvlist_value=pairs), AnyValue(array_value=ArrayValue()), AnyValue(bool_value=True), AnyValue()]
    found = preview_records(request(*map(record, values)), most=4)
    assert [one.body for one in found] == ['{"amount":9007199254740993}', "[]", "true", ""]


def test_a_long_body_is_cut_and_so_is_a_long_severity() -> None:
    [found] = preview_records(request(record("é" * 501, severity_text="s" * 501)), most=3)
    assert found == RecordPreview(0, "s" * MOST_CHARACTERS, "é" * MOST_CHARACTERS, is_cut=True)
    [found] = preview_records(request(record("é" * 500)), most=3)
    assert found.is_cut is False


def test_of_a_request_that_is_cut_short_the_records_before_the_cut_are_shown() -> None:
    payload = request(record("one", time_unix_nano=AT), record("ééé", time_unix_nano=AT), record("three"))
    whole = preview_records(payload, most=3)
    seen = set[tuple[str, ...]]()
    for end in range(len(payload)):
        found = preview_records(payload[:end], most=3)
        seen.add(tuple(one.body for one in found))
        for one, same in zip(found, whole, strict=False):
            assert same.body.startswith(one.body)
            assert one.is_cut or one.body == same.body
    assert {(), ("one",), ("one", "é"), ("one", "éé"), ("one", "ééé"), ("one", "ééé", "three")} <= seen


def test_of_a_map_that_is_cut_short_nothing_is_shown() -> None:
    pairs = KeyValueList(values=[KeyValue(key="k", value=AnyValue(string_value="x" * 100))])
    [found] = preview_records(request(record(AnyValue(kvlist_value=pairs)))[:100], most=3)
    assert found == RecordPreview(0, "", "", is_cut=True)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_request_are_no_failure(data: bytes) -> None:
    assert len(preview_records(data, most=3)) <= 3


@given(st.data())
def test_a_request_with_a_wrong_byte_is_no_failure(data: st.DataObject) -> None:
    payload = bytearray(request(record("one", time_unix_nano=AT), record("two", severity_text="INFO")))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    assert len(preview_records(bytes(payload), most=3)) <= 3


def test_many_empty_messages_and_endless_numbers_cost_little() -> None:
    for data in (request(scopes=16_000), b"\x80" * (32 << 10), b"\x0a\x00" * (16 << 10), b"\x00" * (32 << 10)):
        begins = time.process_time()
        assert preview_records(data[: 32 << 10], most=3) == []
        assert time.process_time() - begins < 0.1
