"""OTLP messages read by protobuf, and bodies of records as JSON; the only module that imports protobuf."""

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, repeat
from operator import attrgetter
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.delivery.otlp.models import MalformedRequest
from reconciler.delivery.otlp.wire import RUN, Run, fields, records_until, sized

# The messages of OTLP as protobuf's own parser reads them. The door of protobuf and opentelemetry-proto.
#
# The parser (upb, in C) refuses strings that are not UTF-8 and messages inside of each other beyond a hundred levels.

MOST_ATTRIBUTES: Final = 1_000  # of one resource that are read
WHOLE: Final = 512 << 10  # bytes of a request whose bodies are built at once: a value of two takes fifty then
_KEPT: Final = 256  # resources whose attributes are remembered: a sender has the same one in each of its requests
_SMALL: Final = 4 << 10  # bytes of a resource that is worth it
_CONTAINERS: Final = (b"\x0a", b"\x12")  # the tags of ResourceLogs in a request, and of ScopeLogs in that


def check(request: bytes, run: Run) -> None:
    """Raises Malformed when this run of a request is not sound where it stands: as deep inside of it as it is there."""
    check_whole(_alone(request, run))


def _alone(request: bytes, run: Run) -> bytes:
    """A request of this run and nothing else."""
    content = request[run.start : run.end]
    for tag in _CONTAINERS[: run.level][::-1]:
        content = b"".join((tag, sized(len(content)), content))
    return content


def check_whole(request: bytes) -> None:
    """Raises Malformed when a request is not sound."""
    try:
        ExportLogsServiceRequest.FromString(request)
    except DecodeError:
        raise _malformed() from None


def bodies(request: bytes) -> Iterator[AnyValue | None]:
    """The bodies of a request's records, in order, and among them None for whatever else takes about as long as a
    short one: a scope, a field beside the records. Raises Malformed, and then some may have come before.
    """
    try:
        whole = Run(0, 0, len(request))
        for run in (whole,) if len(request) <= WHOLE else _runs(request, whole):
            if run is None:
                yield None
                continue
            for group in _Bodies.FromString(_alone(request, run)).resource_logs:
                for scope in group.scope_logs:
                    for record in scope.log_records:
                        yield record.body
                    yield None
    except (DecodeError, IndexError):
        raise _malformed() from None


def _runs(data: bytes, of: Run) -> Iterator[Run | None]:
    """The same fields in runs of `RUN` bytes and at most one field more; a longer one that holds records is divided.
    None for each field that was looked at and is no record.
    """
    level, at, end = of
    if level == len(_CONTAINERS):
        while at < end:
            found = records_until(data, at, end, stop=at + RUN)
            yield Run(level, at, found.end)
            yield from repeat(None, found.others)
            at = found.end
    else:
        for one in fields(data, at, end):
            yield None
            is_divided = one.end - one.start > RUN and one.tag == _CONTAINERS[level][0]
            if is_divided or one.end - at > RUN:
                yield Run(level, at, one.start if is_divided else one.end)
                at = one.end
            if is_divided:
                yield from _runs(data, Run(level + 1, one.content, one.end))
        yield Run(level, at, end)


def _bodies_alone() -> Any:
    """The message of a request in which bodies are all that is known.

    The parser passes over unknown fields. Attributes, which nobody reads here, would cost as much again and more.
    """
    file = FileDescriptorProto(name="reconciler/otlp/bodies.proto", package="reconciler.otlp", syntax="proto3")
    file.dependency.append(AnyValue.DESCRIPTOR.file.name)
    many, one = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    for message, field, number, label, inner in (
        ("Request", "resource_logs", 1, many, ".reconciler.otlp.ResourceLogs"),
        ("ResourceLogs", "scope_logs", 2, many, ".reconciler.otlp.ScopeLogs"),
        ("ScopeLogs", "log_records", 2, many, ".reconciler.otlp.LogRecord"),
        ("LogRecord", "body", 5, one, f".{AnyValue.DESCRIPTOR.full_name}"),
    ):
        described = file.message_type.add(name=message)
        described.field.add(name=field, number=number, label=label, type_name=inner)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("reconciler.otlp.Request"))


_Bodies: Final = _bodies_alone()


def _malformed() -> MalformedRequest:
    return MalformedRequest(
        "The request is no ExportLogsServiceRequest in protobuf: a length is wrong, a string is not UTF-8, or its "
        "values are nested too deep."
    )


def attributes(resource: bytes) -> Mapping[str, str]:
    """The attributes of a sound Resource that are scalars, as text: as they are, true and false, decimal integers,
    fractions as in JSON (`0.5`, `1.0`, `1e300`), `NaN`, `Infinity`, `-Infinity`.

    A key that stands twice has the value that stands first, as the Collector reads it. Read are the first 1,000.
    """
    return _remembered(resource) if len(resource) <= _SMALL else _attributes(resource)


def _attributes(resource: bytes) -> Mapping[str, str]:
    found: dict[str, str] = {}
    seen: set[str] = set()
    for attribute in islice(Resource.FromString(resource).attributes, MOST_ATTRIBUTES):
        text = _text(attribute.value)
        if attribute.key not in seen and text is not None:
            found[attribute.key] = text
        seen.add(attribute.key)
    return found


_remembered = lru_cache(maxsize=_KEPT)(_attributes)


def _text(value: AnyValue) -> str | None:
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
    """The three doubles that JSON has no number for, as protobuf's JSON writes them."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


# What records say, as JSON: the body of each, by one rule.
#
# | body | JSON |
# |---|---|
# | a string that is JSON | that JSON, every character as it is, without the white space around it |
# | any other string | a string |
# | nothing | `""` |
# | a map | an object in the order of the map; of a key that stands twice, the last value, in the first one's place |
# | an array | an array |
# | true, false, an integer, a fraction | the same; integers of 64 bits keep every digit |
# | NaN and the infinities | `"NaN"`, `"Infinity"`, `"-Infinity"` |
# | bytes | a string, in base64 |
#
# Inside of maps and arrays strings are strings, whatever they hold, and what has no value is `null`. A string with a
# number that no double can hold (`1e999`) is not taken for JSON, nor one with half of a pair of surrogates.

SLICE: Final = 1_000  # units of work between two places to pause, about half a millisecond

_encode: Final = msgspec.json.Encoder().encode
_raw: Final = msgspec.json.Decoder(msgspec.Raw).decode
_EMPTY: Final = b'""'
# A number beyond a double's range has at least three digits in its exponent, or 200 before it: what these do not find,
# in a text whose digits are all alike, need not be looked at number by number.
_ALIKE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE_EXPONENT: Final = b"0e000"
_MANY_DIGITS: Final = b"0" * 200
_BEGINS_JSON: Final = frozenset('{["-0123456789tfn \t\r\n')


def body_fragments(payload: bytes) -> Iterator[list[bytes]]:
    """The JSON texts of the records' bodies, in order, some at a time.

    `payload` is a request that `reading` found sound, or several one after another. One list takes about half a
    millisecond, so that the caller may pause behind it; it may be empty, and a single body is never divided. Raises
    Malformed for what is no request at all.
    """
    texts: list[bytes] = []
    work = 0
    for body in bodies(payload):
        if body is None:
            work += 1
        elif body.HasField("string_value"):
            texts.append(text := _string(body.string_value))
            work += 1 + (len(text) >> 10)
        else:
            value = _value(body)
            texts.append(text := _EMPTY if value is None else _encode(value))
            work += 1 + (len(text) >> 4)
        if work >= SLICE:
            yield texts
            texts, work = [], 0
    if texts:
        yield texts


def _string(text: str) -> bytes:
    """Most lines of a log are told from JSON by how they begin."""
    if text and text[0] in _BEGINS_JSON:
        try:
            found = bytes(_raw(text))
        except (msgspec.DecodeError, RecursionError):  # RecursionError: arrays in arrays without end
            return _encode(text)
        alike = found.translate(_ALIKE, b"+")
        if (_LARGE_EXPONENT not in alike and _MANY_DIGITS not in alike) or _has_usual_numbers(found):
            return found
    return _encode(text)


def _has_usual_numbers(document: bytes) -> bool:
    """Whether each number is one that a double can hold, if not to its last digit.

    Many readers fail over any other, and with it over all records of the array that it stands in.
    """
    try:
        json.loads(document, parse_int=_usual, parse_float=_usual)
    except (ValueError, RecursionError):
        return False
    return True


def _usual(number: str) -> None:
    if math.isinf(float(number)):
        raise ValueError


def _value(value: AnyValue) -> Any:
    return _READ.get(value.WhichOneof("value"), _nothing)(value)


def _nothing(_: AnyValue) -> None:
    """What has no value, or one of a kind that is not for logs."""


def _map(value: AnyValue) -> dict[str, Any]:
    # `_value`, written out: this line is most of the work for records that are maps.
    return {
        pair.key: _READ.get((inner := pair.value).WhichOneof("value"), _nothing)(inner)
        for pair in value.kvlist_value.values
    }


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


# One record that nobody logged, to try a destination with.


def test_request(text: str, *, at: int) -> bytes:
    """An ExportLogsServiceRequest with one record whose body is the text. `at` is Unix milliseconds."""
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
