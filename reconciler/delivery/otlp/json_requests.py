"""Export requests in OTLP/JSON, made into the same requests in protobuf."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from google.protobuf.message import EncodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

from reconciler.delivery.otlp import json_values, wire
from reconciler.delivery.otlp.json_values import NULL, Filling, JsonMessage, Wrong, decoded, integer, misplaced, octets
from reconciler.delivery.otlp.models import MOST_RECORDS, MalformedRequest, RequestTooLarge
from reconciler.delivery.otlp.wire import (
    MOST_CONTAINERS,
    MOST_FIELDS,
    sized,
    too_many,
    too_many_containers,
    too_many_records,
)

# Log records, scopes and resources of OTLP's JSON put into the same messages of protobuf.
#
# Each function puts there what takes no time, and leaves arrays and maps to the filling. They raise Wrong, which says
# where in the record, scope or resource, TooLarge, and the decoder's errors.

_log_record: Final = msgspec.json.Decoder(json_values.LogRecord).decode
_scope: Final = msgspec.json.Decoder(json_values.Scope | None).decode
_resource: Final = msgspec.json.Decoder(json_values.Resource | None).decode
_keys: Final = msgspec.json.Decoder(list[str] | None).decode


def fill_record(message: logs_pb2.LogRecord, text: msgspec.Raw, filling: Filling) -> None:
    """Fill the message from the text of an object."""
    record = _log_record(text)
    message.time_unix_nano = integer(record.time_unix_nano, "timeUnixNano", most=2**64)
    message.observed_time_unix_nano = integer(record.observed_time_unix_nano, "observedTimeUnixNano", most=2**64)
    # The enum is open: a number that this version does not know is kept.
    severity = integer(record.severity_number, "severityNumber", least=-(2**31), most=2**31)
    message.severity_number = cast("logs_pb2.SeverityNumber.ValueType", severity)
    message.severity_text = record.severity_text or ""
    message.dropped_attributes_count = _dropped(record.dropped_attributes_count)
    message.flags = integer(record.flags, "flags", most=2**32)
    message.trace_id = octets(record.trace_id, "traceId")
    message.span_id = octets(record.span_id, "spanId")
    message.event_name = record.event_name or ""
    filling.attributes(message.attributes, record.attributes)
    if record.body is not None:
        filling.body(message.body, record.body)


def fill_scope(message: common_pb2.InstrumentationScope, text: msgspec.Raw, filling: Filling) -> None:
    """The same; null is none."""
    scope = _scope(text)
    if scope is None:
        return
    message.SetInParent()
    message.name = scope.name or ""
    message.version = scope.version or ""
    message.dropped_attributes_count = _dropped(scope.dropped_attributes_count)
    filling.attributes(message.attributes, scope.attributes)


def fill_resource(message: resource_pb2.Resource, text: msgspec.Raw, filling: Filling) -> None:
    """The same; null is none."""
    resource = _resource(text)
    if resource is None:
        return
    message.SetInParent()
    message.dropped_attributes_count = _dropped(resource.dropped_attributes_count)
    filling.attributes(message.attributes, resource.attributes)
    left = MOST_FIELDS
    for number, reference in enumerate(resource.entity_refs or ()):
        left -= _commas(reference.id_keys) + _commas(reference.description_keys)
        if left < 0:
            raise too_many()
        with Wrong.inside(f".entityRefs[{number}]"):
            _entity(message.entity_refs.add(), reference)


def _commas(names: msgspec.Raw) -> int:
    """Less than there are names by one: nobody is called for a text, so that they are counted by what is between."""
    return bytes(names).count(b",")


def _entity(message: common_pb2.EntityRef, reference: json_values.EntityReference) -> None:
    message.schema_url = reference.schema_url or ""
    message.type = reference.type or ""
    message.id_keys.extend(decoded(_keys, reference.id_keys, ".idKeys") or ())
    message.description_keys.extend(decoded(_keys, reference.description_keys, ".descriptionKeys") or ())


def _dropped(given: json_values.Number) -> int:
    return integer(given, "droppedAttributesCount", most=2**32)


# What the decoder would build of a text of OTLP's JSON, counted before it does.
#
# The decoder builds all of a text at once: of 8 MiB of empty objects 130 MB, in half a second. So it goes through large
# texts twice, and the first time it builds objects without members, calls us for each, and ends with the first one too
# many. Members that have no place in a message are passed over, here as there, at a gigabyte a second.


class _Allowance:
    """Of the one count that is under way: a call of the decoder is over before the next one begins."""

    left = 0


class _TooMany(Exception):
    pass


class _Counted(JsonMessage):
    def __post_init__(self) -> None:
        _Allowance.left -= 1
        if _Allowance.left < 0:
            raise _TooMany


class _Value(_Counted):
    array_value: "_Array | None" = None
    kvlist_value: "_Map | None" = None


class _Pair(_Counted):
    value: _Value | None = None


class _Array(JsonMessage):
    values: list[_Value] | None = None


class _Map(JsonMessage):
    values: list[_Pair] | None = None


class _Resource(JsonMessage):
    attributes: list[_Pair] | None = None
    entity_refs: list[_Counted] | None = None


class _Scope(JsonMessage):
    attributes: list[_Pair] | None = None


class _LogRecord(JsonMessage):
    body: _Value | None = None
    attributes: list[_Pair] | None = None


_objects: Final = msgspec.json.Decoder(list[_Counted] | None).decode
_resource_count: Final = msgspec.json.Decoder(_Resource | None).decode
_scope_count: Final = msgspec.json.Decoder(_Scope | None).decode
_log_record_count: Final = msgspec.json.Decoder(_LogRecord).decode


def count_objects(text: msgspec.Raw, *, most: int, refusal: Callable[[], RequestTooLarge]) -> None:
    """Raises the refusal when an array has more than so many objects; as all of these do, what the decoder raises."""
    _count(_objects, text, most, refusal)


def count_resource(text: msgspec.Raw) -> None:
    """Raises TooLarge when one has more attributes, entities and values than it may."""
    _count(_resource_count, text, MOST_FIELDS, too_many)


def count_scope(text: msgspec.Raw) -> None:
    """The same of a scope."""
    _count(_scope_count, text, MOST_FIELDS, too_many)


def count_record(text: msgspec.Raw) -> None:
    """The same of a log record."""
    _count(_log_record_count, text, MOST_FIELDS, too_many)


def _count(
    decode: Callable[[msgspec.Raw], Any], text: msgspec.Raw, most: int, refusal: Callable[[], RequestTooLarge]
) -> None:
    _Allowance.left = most
    try:
        decode(text)
    except _TooMany:
        raise refusal() from None


# Export requests in OTLP's JSON made into the same requests in protobuf.
#
# Each level is text until it is its turn, and what was built of a large request soon bytes again: a value of three
# bytes takes sixty as a message. So nothing is built of more than the limits allow, and others have their turn after
# each pass over a long text: of 8 MiB it takes 15 ms at most.

_Message = TypeVar("_Message")
_Content = TypeVar("_Content", logs_pb2.ResourceLogs, logs_pb2.ScopeLogs)
_Count: TypeAlias = Callable[[msgspec.Raw], None]
_Fill: TypeAlias = Callable[[_Message, msgspec.Raw, Filling], None]

SLICE: Final = 32 << 10  # bytes of text between two places to pause, about a millisecond
WHOLE: Final = 64 << 10  # bytes of resources, with all that is in them, that are built at once
LARGE: Final = 256 << 10  # bytes of an array whose objects are counted before they are divided

_RESOURCE_LOGS: Final = b"\x0a"  # the tag in a request
_SCOPE_LOGS: Final = b"\x12"  # the tag in that

_request: Final = msgspec.json.Decoder(json_values.Request).decode
_groups: Final = msgspec.json.Decoder(list[json_values.ResourceLogs] | None).decode
_scopes: Final = msgspec.json.Decoder(list[json_values.ScopeLogs] | None).decode
_records: Final = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


async def protobuf(body: bytes) -> bytes:
    """The same request in protobuf. Raises Malformed, with the place in the document, and TooLarge."""
    written: list[bytes] = []
    try:
        for _ in _Reading().request(written, body):
            await asyncio.sleep(0)
    except Wrong as wrong:
        path = wrong.path.lstrip(".")
        raise _malformed(f"{_shortened(path)}: {wrong.what}" if path else wrong.what) from None
    except msgspec.DecodeError as error:
        raise _malformed(str(error)) from None
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except (RecursionError, EncodeError):
        raise _malformed("its values are nested too deep") from None
    return b"".join(written)


def _malformed(what: str) -> MalformedRequest:
    return MalformedRequest(f"The request is no ExportLogsServiceRequest in JSON: {what}.")


def _shortened(path: str) -> str:
    """A place that is deep inside shows where to begin to look, and what is there."""
    return path if len(path) <= 200 else f"{path[:120]} ... {path[-60:]}"


class _Reading:
    """One request, and what was counted of it. Its methods stop at places to pause. They fill a message, or write its
    content into a list of pieces, which one after another are the same.
    """

    def __init__(self) -> None:
        self._containers = MOST_CONTAINERS  # that may still come
        self._records = MOST_RECORDS
        self._filling = Filling(at_once=True)
        self._work = 0  # bytes since the last place to pause

    def request(self, into: list[bytes], body: bytes) -> Iterator[None]:
        text = decoded(_request, msgspec.Raw(body), "").resource_logs
        if self._is_long(len(body)):
            yield
        if _is_counted(text, "resourceLogs", self._containers, too_many_containers):
            yield
        groups = decoded(_groups, text, "resourceLogs") or ()
        self._count(groups)
        if self._is_long(_size(text)):
            yield
        whole, size = ExportLogsServiceRequest(), 0
        for number, group in enumerate(groups):
            size += _size(group.resource) + _size(group.scope_logs)
            with Wrong.inside(f"resourceLogs[{number}]"):
                if size <= WHOLE:
                    yield from self._group(whole.resource_logs.add(), group, None)
                    continue
                content: list[bytes] = []
                yield from self._group(logs_pb2.ResourceLogs(), group, content)
            into.append(whole.SerializeToString())
            _add(into, _RESOURCE_LOGS, content)
            whole, size = ExportLogsServiceRequest(), 0
        into.append(whole.SerializeToString())

    def _group(
        self, message: logs_pb2.ResourceLogs, group: json_values.ResourceLogs, into: list[bytes] | None
    ) -> Iterator[None]:
        if group.resource is not NULL:
            with Wrong.inside(".resource"):
                yield from self._part(count_resource, fill_resource, message.resource, group.resource)
        if _is_counted(group.scope_logs, ".scopeLogs", self._containers, too_many_containers):
            yield
        scopes = decoded(_scopes, group.scope_logs, ".scopeLogs") or ()
        self._count(scopes)
        if self._is_long(_size(group.scope_logs)):
            yield
        message = _rest(message, into)
        for number, one in enumerate(scopes):
            with Wrong.inside(f".scopeLogs[{number}]"):
                if into is None:
                    yield from self._scope(message.scope_logs.add(), one, None)
                    continue
                content: list[bytes] = []
                yield from self._scope(logs_pb2.ScopeLogs(), one, content)
                _add(into, _SCOPE_LOGS, content)
        message.schema_url = group.schema_url or ""
        _rest(message, into)

    def _scope(
        self, message: logs_pb2.ScopeLogs, scope: json_values.ScopeLogs, into: list[bytes] | None
    ) -> Iterator[None]:
        if scope.scope is not NULL:
            with Wrong.inside(".scope"):
                yield from self._part(count_scope, fill_scope, message.scope, scope.scope)
        if _is_counted(scope.log_records, ".logRecords", self._records, too_many_records):
            yield
        records = decoded(_records, scope.log_records, ".logRecords") or ()
        self._records -= len(records)
        if self._records < 0:
            raise too_many_records()
        if self._is_long(_size(scope.log_records)):
            yield
        for number, one in enumerate(records):
            size = _size(one)
            try:
                if size > wire.LARGE:
                    yield from self._part(count_record, fill_record, message.log_records.add(), one)
                else:
                    fill_record(message.log_records.add(), one, self._filling)
            except Wrong as wrong:
                raise wrong.within(f".logRecords[{number}]") from None
            except msgspec.ValidationError as error:
                raise misplaced(error, f".logRecords[{number}]") from None
            if size > wire.LARGE or self._is_long(size):
                message = _rest(message, into)
                yield
        message.schema_url = scope.schema_url or ""
        _rest(message, into)

    def _count(self, containers: Sequence[object]) -> None:
        self._containers -= len(containers)
        if self._containers < 0:
            raise too_many_containers()

    def _part(self, count: _Count, fill: _Fill[_Message], message: _Message, text: msgspec.Raw) -> Iterator[None]:
        """A resource or a scope, or a log record when it is large."""
        size = _size(text)
        filling = self._filling
        try:
            if size > wire.LARGE:
                count(text)
                yield
                filling = Filling(at_once=False)
            fill(message, text, filling)
        except msgspec.ValidationError as error:
            raise misplaced(error, "") from None
        yield from filling.steps()
        if self._is_long(size):
            yield

    def _is_long(self, size: int) -> bool:
        """Whether others are to have their turn behind so many bytes more."""
        self._work += size
        if self._work <= SLICE:
            return False
        self._work = 0
        return True


def _rest(message: _Content, into: list[bytes] | None) -> _Content:
    """What holds the rest of a message: another one, when this one's content goes into a list."""
    if into is None:
        return message
    into.append(message.SerializeToString())
    return type(message)()


def _add(into: list[bytes], tag: bytes, content: list[bytes]) -> None:
    into += (tag, sized(sum(map(len, content))), *content)


def _is_counted(text: msgspec.Raw, path: str, most: int, refusal: Callable[[], RequestTooLarge]) -> bool:
    """Whether an array is so long that its objects are counted first. A shorter one is divided in some milliseconds,
    whatever it has, and counted then.
    """
    if _size(text) <= LARGE:
        return False
    try:
        count_objects(text, most=most, refusal=refusal)
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None
    return True


def _size(text: msgspec.Raw) -> int:
    return len(memoryview(text))
