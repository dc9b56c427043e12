"""The messages of OTLP as protobuf's own parser reads them. The door of protobuf and opentelemetry-proto.

Belongs here: whether bytes are a request that any receiver can read, and the messages that other modules walk or build.
Does not: counting and cutting (`wire`), which comes first and bounds what is parsed here.

The parser (upb, in C) refuses strings that are not UTF-8 and messages inside of each other beyond a hundred levels.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, repeat
from typing import Any, Final

import msgspec
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.otlp.fields import fields, sized
from reconciler.otlp.refusals import MalformedRequest
from reconciler.otlp.wire import RUN, Run, records_until

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
