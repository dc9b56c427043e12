"""Bodies of log records as JSON, each by one rule; and the record that tests a destination.

| body | JSON |
|---|---|
| a string that is JSON | that JSON, every character as it is, without the white space around it |
| any other string | a string |
| nothing | `""` |
| a map | an object in the order of the map; a repeated key has its last value at its first place |
| an array | an array |
| true, false, an integer, a fraction | the same; integers of 64 bits keep every digit |
| NaN and the infinities | `"NaN"`, `"Infinity"`, `"-Infinity"` |
| bytes | a string, in base64 |

Inside maps and arrays, strings are strings, even if they are JSON, and a missing value is `null`. A string with half of
a pair of surrogates does not count as JSON.
"""

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.delivery.otlp import skeletons
from reconciler.delivery.otlp.models import MalformedRequest

MOST_ATTRIBUTES: Final = 1_000  # of one resource that are read


def read_attributes(resource: Resource) -> Mapping[str, str]:
    """Return the attributes of a Resource that are scalars, as text.

    Strings are as they are; the others are true and false, decimal integers, fractions as in JSON (`0.5`, `1.0`,
    `1e300`), `NaN`, `Infinity`, `-Infinity`.

    A repeated key has its first value, as in the Collector. Only the first 1,000 attributes are read.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for attribute in islice(resource.attributes, MOST_ATTRIBUTES):
        key, text = attribute.key, _attribute_text(attribute.value)
        if key not in seen and text is not None:
            found[key] = text
        seen.add(key)
    return found


def _attribute_text(value: AnyValue) -> str | None:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        number = value.double_value
        return msgspec.json.encode(number).decode() if math.isfinite(number) else not_finite(number)
    return None


def not_finite(number: float) -> str:
    """Return the text of NaN or an infinity, as in protobuf's JSON."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


SLICE: Final = 1_000  # units of work between two possible pauses, about half a millisecond

_encode: Final = msgspec.json.Encoder().encode
_raw: Final = msgspec.json.Decoder(msgspec.Raw).decode
_EMPTY: Final = b'""'
_BEGINS_JSON: Final = frozenset('{["-0123456789tfn \t\r\n')


def body_fragments(payload: bytes) -> Iterator[list[bytes]]:
    """Yield lists of the JSON texts of the records' bodies, in order.

    `payload` is one request that `reading` accepted, or several, joined. One list takes about half a millisecond, so
    that the caller may pause after it; a single body is never divided. Raises MalformedRequest if it is no request.
    """
    texts: list[bytes] = []
    work = 0
    try:
        for record in _records(payload):
            body = skeletons.RecordBody.FromString(record).body
            if body.HasField("string_value"):
                texts.append(text := _string(body.string_value))
                work += 1 + (len(text) >> 10)
            else:
                value = _value(body)
                texts.append(text := _EMPTY if value is None else _encode(value))
                work += 1 + (len(text) >> 4)
            if work >= SLICE:
                yield texts
                texts, work = [], 0
    except DecodeError:
        raise MalformedRequest("What is stored is no ExportLogsServiceRequest in protobuf.") from None
    if texts:
        yield texts


def json_text(body: AnyValue) -> str:
    """Return a body as JSON, a string in quotes."""
    return _encode(_value(body)).decode()


def _records(payload: bytes) -> Iterator[bytes]:
    for group in skeletons.Request.FromString(payload).groups:
        for scope in skeletons.ResourceLogs.FromString(group).scopes:
            yield from skeletons.ScopeLogs.FromString(scope).records


def _string(text: str) -> bytes:
    """Return a string body. The first character shows that most log lines are not JSON."""
    if text and text[0] in _BEGINS_JSON:
        try:
            return bytes(_raw(text))
        except (msgspec.DecodeError, RecursionError):  # RecursionError: arrays in arrays without end
            pass
    return _encode(text)


def _value(value: AnyValue) -> Any:
    return _READ.get(value.WhichOneof("value"), _no_value)(value)


def _no_value(_: AnyValue) -> None:
    """Return None: the value is missing, or of a kind that logs do not have."""


def _map(value: AnyValue) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}


def _array(value: AnyValue) -> list[Any]:
    return [_value(item) for item in value.array_value.values]


def _double(value: AnyValue) -> float | str:
    number = value.double_value
    return number if math.isfinite(number) else not_finite(number)


def _bytes(value: AnyValue) -> str:
    return base64.b64encode(value.bytes_value).decode()


_READ: Final[dict[str | None, Callable[[AnyValue], Any]]] = {
    "string_value": attrgetter("string_value"),
    "int_value": attrgetter("int_value"),
    "bool_value": attrgetter("bool_value"),
    "double_value": _double,
    "kvlist_value": _map,
    "array_value": _array,
    "bytes_value": _bytes,
}


def test_request(text: str, *, at: int) -> bytes:
    """Return an ExportLogsServiceRequest with one record whose body is the text. `at` is Unix milliseconds."""
    nanoseconds = at * 1_000_000
    record = LogRecord(
        time_unix_nano=nanoseconds,
        observed_time_unix_nano=nanoseconds,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        body=AnyValue(string_value=text),
    )
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="reconciler"))])
    group = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=[record])])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()
