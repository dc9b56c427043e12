"""Export requests for tests: any that Hypothesis thinks of, and small ones by hand.

Integers, doubles and texts are of the whole range, NaN among them. Depth is small: `test_hostile` has deep ones.
"""

import math
from typing import Any

from google.protobuf import json_format
from hypothesis import strategies
from hypothesis.strategies import SearchStrategy
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

TEXTS = strategies.text(max_size=12)
JSON_TEXTS = strategies.sampled_from(
    [
        '{"a": 1}',
        " [1,2] ",
        "12345678901234567890",
        "-0.50",
        "null",
        "true",
        '"x"',
        "{",
        "01",
        "NaN",
        "1e999",
        "\ufeff1",
    ]
)


def pair(key: str, value: str | bool | int | float | AnyValue) -> KeyValue:
    """An attribute."""
    return KeyValue(key=key, value=value_of(value))


def value_of(value: str | bool | int | float | AnyValue) -> AnyValue:
    """A scalar as OTLP has it."""
    if isinstance(value, AnyValue):
        return value
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=value)


def group(*bodies: str | AnyValue, **attributes: str | bool | int | float) -> ResourceLogs:
    """Records with these bodies, in one scope of a resource with these attributes."""
    resource = Resource(attributes=[pair(key, value) for key, value in attributes.items()])
    records = [LogRecord(body=value_of(body)) for body in bodies]
    return ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=records)])


def request(*groups: ResourceLogs) -> bytes:
    """A request as it is sent."""
    return ExportLogsServiceRequest(resource_logs=groups).SerializeToString()


def parsed(data: bytes) -> ExportLogsServiceRequest:
    """Return the records as a receiver reads them."""
    return ExportLogsServiceRequest.FromString(data)


def records(message: ExportLogsServiceRequest) -> list[LogRecord]:
    """All records, in order."""
    return [record for one in message.resource_logs for scope in one.scope_logs for record in scope.log_records]


def as_json(message: ExportLogsServiceRequest) -> dict[str, Any]:
    """OTLP's JSON out of the library's, which has ids in base64 and names for enums."""
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    written = [record for one in document.get("resourceLogs", ()) for scope in one.get("scopeLogs", ())
               for record in scope.get("logRecords", ())]  # fmt: skip
    for record, original in zip(written, records(message), strict=True):
        for name, octets in (("traceId", original.trace_id), ("spanId", original.span_id)):
            if octets:
                record[name] = octets.hex()
    return document


# NaN has many forms, of which JSON can tell none.
_DOUBLES = strategies.floats(allow_nan=False) | strategies.just(math.nan)


def _scalars() -> SearchStrategy[AnyValue]:
    return strategies.one_of(
        strategies.builds(AnyValue),
        strategies.builds(AnyValue, string_value=TEXTS | JSON_TEXTS),
        strategies.builds(AnyValue, bool_value=strategies.booleans()),
        strategies.builds(AnyValue, int_value=strategies.integers(-(2**63), 2**63 - 1)),
        strategies.builds(AnyValue, double_value=_DOUBLES),
        strategies.builds(AnyValue, bytes_value=strategies.binary(max_size=8)),
    )


def _pairs(values: SearchStrategy[AnyValue]) -> SearchStrategy[list[KeyValue]]:
    return strategies.lists(strategies.builds(KeyValue, key=TEXTS, value=strategies.none() | values), max_size=4)


def _containers(values: SearchStrategy[AnyValue]) -> SearchStrategy[AnyValue]:
    arrays = strategies.builds(ArrayValue, values=strategies.lists(values, max_size=4))
    maps = strategies.builds(KeyValueList, values=_pairs(values))
    return strategies.builds(AnyValue, array_value=arrays) | strategies.builds(AnyValue, kvlist_value=maps)


VALUES: SearchStrategy[AnyValue] = strategies.recursive(_scalars(), _containers, max_leaves=8)
_UINT32 = strategies.integers(0, 2**32 - 1)
_UINT64 = strategies.integers(0, 2**64 - 1)
RECORDS = strategies.builds(
    LogRecord,
    time_unix_nano=_UINT64,
    observed_time_unix_nano=_UINT64,
    severity_number=strategies.integers(0, 24),
    severity_text=TEXTS,
    body=strategies.none() | VALUES,
    attributes=_pairs(VALUES),
    dropped_attributes_count=_UINT32,
    flags=_UINT32,
    trace_id=strategies.binary(min_size=16, max_size=16) | strategies.just(b""),
    span_id=strategies.binary(min_size=8, max_size=8) | strategies.just(b""),
    event_name=TEXTS,
)
_SCOPES = strategies.builds(
    ScopeLogs,
    scope=strategies.none()
    | strategies.builds(InstrumentationScope, name=TEXTS, version=TEXTS, attributes=_pairs(VALUES),
                        dropped_attributes_count=_UINT32),
    log_records=strategies.lists(RECORDS, max_size=3),
    schema_url=TEXTS,
)  # fmt: skip
_RESOURCES = strategies.builds(Resource, attributes=_pairs(VALUES), dropped_attributes_count=_UINT32)
_GROUPS = strategies.builds(
    ResourceLogs,
    resource=strategies.none() | _RESOURCES,
    scope_logs=strategies.lists(_SCOPES, max_size=3),
    schema_url=TEXTS,
)
REQUESTS: SearchStrategy[ExportLogsServiceRequest] = strategies.builds(
    ExportLogsServiceRequest, resource_logs=strategies.lists(_GROUPS, max_size=3)
)


def field(tag: int, content: bytes) -> bytes:
    """A field with a length, whose tag is one byte."""
    return bytes((tag,)) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """An integer as it is written."""
    more = number >> 7
    return bytes((number & 0x7F | 0x80,)) + varint(more) if more else bytes((number,))


def nested(levels: int) -> bytes:
    """An AnyValue of arrays in arrays, which no library would write when it is too deep."""
    value = field(0x0A, b"x")
    for _ in range(levels):
        value = field(0x2A, field(0x0A, value))
    return value
