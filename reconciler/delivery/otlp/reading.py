"""Decoded request bodies to `Logs`: they are counted, checked and divided by resource.

The queue keeps the received bytes. Protobuf's parser checks all of them, because any receiver must be able to read
queued records. A large resource is first counted on skeletons, level by level, so that a hostile one is refused before
much of it is built.

Protobuf's own JSON converts OTLP/JSON to protobuf. OTLP differs in two ways: ids are hexadecimal instead of base64, and
a receiver ignores unknown members. The text is decoded in two steps, first the frame of resources, scopes and records,
then each of them by itself, so that only a small part of a large request is in memory as objects at a time.
"""

import asyncio
import base64
import re
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from reconciler.delivery.otlp import bodies, skeletons
from reconciler.delivery.otlp.models import LIMITS, Logs, MalformedRequest, RecordGroup, RequestLimits, RequestTooLarge

MOST_VALUES: Final = 2_000_000  # of a request; 20 MiB of usual records have fewer
MOST_DEPTH: Final = 100  # nested values; protobuf's own limit is lower for most of them
_LONGEST_REASON: Final = 200  # characters
_MOST_NAMES: Final = 8  # nested members that a sentence names
_IDS: Final = ("traceId", "spanId")
_NULL: Final = msgspec.Raw(b"null")
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[,{[]', re.DOTALL)
_INSIDE: Final = re.compile(r"Failed to parse (\S+) field: ")


class _ScopeLogs(msgspec.Struct, rename="camel"):
    scope: msgspec.Raw = _NULL
    log_records: list[msgspec.Raw] | None = None
    schema_url: str | None = None


class _ResourceLogs(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = _NULL
    scope_logs: list[_ScopeLogs] | None = None
    schema_url: str | None = None


class _Request(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] | None = None


_frame: Final = msgspec.json.Decoder(_Request).decode
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


def to_protobuf(body: bytes, *, limits: RequestLimits, is_given_up: Callable[[], bool] = lambda: False) -> bytes:
    """Convert an OTLP/JSON request to protobuf. If `is_given_up` returns True, this ends with an exception before the
    next record.

    Raises MalformedRequest with the place in the document, RequestTooLarge.
    """
    if _exceeds(body, MOST_VALUES):
        raise RequestTooLarge(f"The request has more than {MOST_VALUES:,} JSON values; send fewer records at a time.")
    try:
        request = _frame(body)
        check_counts(request, limits)
        groups = [
            _group(one, f"resourceLogs[{number}]", is_given_up)
            for number, one in enumerate(request.resource_logs or ())
        ]
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise _malformed(str(error)) from None
    except (RecursionError, EncodeError):
        raise _malformed("its values are nested too deep") from None
    written: bytes = skeletons.Request(groups=groups).SerializeToString()
    return written


def check_counts(request: _Request, limits: RequestLimits) -> None:
    """Refuse too many resources, scopes and records before any is built."""
    groups = request.resource_logs or ()
    scopes = [scope for group in groups for scope in group.scope_logs or ()]
    if len(groups) + len(scopes) > limits.containers:
        raise too_many_containers(limits)
    if sum(len(scope.log_records or ()) for scope in scopes) > limits.records:
        raise too_many_records(limits)


def too_many_records(limits: RequestLimits) -> RequestTooLarge:
    """Return the error, which says what the sender can do."""
    return RequestTooLarge(f"The request has more than {limits.records:,} log records; send fewer at a time.")


def too_many_containers(limits: RequestLimits) -> RequestTooLarge:
    """Return the error, which says what the sender can do."""
    return RequestTooLarge(
        f"The request has more than {limits.containers:,} resources and scopes; send fewer at a time."
    )


def _group(group: _ResourceLogs, path: str, is_given_up: Callable[[], bool]) -> bytes:
    """Convert one part after the other to bytes, because a value of three bytes takes a hundred as a message."""
    scopes = [
        _scope(one, f"{path}.scopeLogs[{number}]", is_given_up) for number, one in enumerate(group.scope_logs or ())
    ]
    resource = _part(Resource, group.resource, f"{path}.resource")
    written: bytes = skeletons.ResourceLogs(
        resource=resource, scopes=scopes, schema_url=[group.schema_url.encode()] if group.schema_url else []
    ).SerializeToString()
    return written


def _scope(scope: _ScopeLogs, path: str, is_given_up: Callable[[], bool]) -> bytes:
    records: list[bytes] = []
    for number, record in enumerate(scope.log_records or ()):
        if is_given_up():
            raise CancelledError
        records.append(_written(LogRecord, record, f"{path}.logRecords[{number}]"))
    written: bytes = skeletons.ScopeLogs(
        scope=_part(InstrumentationScope, scope.scope, f"{path}.scope"),
        records=records,
        schema_url=[scope.schema_url.encode()] if scope.schema_url else [],
    ).SerializeToString()
    return written


def _part(kind: type[Message], text: msgspec.Raw, path: str) -> list[bytes]:
    """Return the bytes of a resource or scope; nothing if it is missing."""
    return [] if text == _NULL else [_written(kind, text, path)]


def _written(kind: type[Message], text: msgspec.Raw, path: str) -> bytes:
    if _exceeds(bytes(text), skeletons.MOST_FIELDS):
        raise skeletons.too_many_fields()
    try:
        members = _object(text)
        for name in _IDS:
            if members.get(name):
                members[name] = base64.b64encode(bytes.fromhex(_hexadecimal(members[name]))).decode()
        message = json_format.ParseDict(members, kind(), ignore_unknown_fields=True, max_recursion_depth=MOST_DEPTH)
        return message.SerializeToString()
    except UnicodeDecodeError:
        raise
    except msgspec.ValidationError as error:
        raise _malformed(f"{path}: {error}") from None
    except (json_format.ParseError, ValueError, TypeError, OverflowError) as error:
        names = _INSIDE.findall(str(error))
        place = ".".join([path, *(names if len(names) < _MOST_NAMES else [*names[:_MOST_NAMES], "..."])])
        raise _malformed(f"{place}: {_INSIDE.sub('', str(error)).rstrip('.')[:_LONGEST_REASON]}") from None


def _hexadecimal(value: Any) -> str:
    """Parse an id of OTLP/JSON. `bytes.fromhex` alone would accept spaces."""
    if not isinstance(value, str) or not value.isalnum() or len(value) % 2:
        raise ValueError("traceId and spanId are hexadecimal digits, two for each byte")
    return value


def _exceeds(text: bytes, most: int) -> bool:
    """Return True if a text has more than `most` values, by the separators outside of strings."""
    if text.count(b",") + text.count(b"{") + text.count(b"[") <= most:
        return False
    separators = (one for one in _TOKEN.finditer(text) if one.end() - one.start() == 1)
    return next(islice(separators, most, None), None) is not None


def _malformed(what: str) -> MalformedRequest:
    return MalformedRequest(f"The request is no ExportLogsServiceRequest in JSON: {what}.")


INLINE: Final = 1 << 20  # bytes of a protobuf request that are read on the event loop, some milliseconds at most
INLINE_JSON: Final = 16 << 10  # of one in JSON, which takes a hundred times as long

# Own threads, so that large requests do not delay other work on threads.
_threads: Final = ThreadPoolExecutor(2, thread_name_prefix="otlp-reading")


async def read(body: bytes, *, json: bool, limits: RequestLimits = LIMITS) -> Logs:
    """Read a decoded body, on a thread if it is large. Groups without records are left out; there may be none at all.

    Raises MalformedRequest, RequestTooLarge.
    """
    if len(body) <= (INLINE_JSON if json else INLINE):
        return _read(body, json=json, limits=limits)
    given_up = threading.Event()
    read_ = partial(_read, body, json=json, limits=limits, is_given_up=given_up.is_set)
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, read_)
    finally:
        given_up.set()  # when the service stops, a thread may have seconds of work left


def _read(body: bytes, *, json: bool, limits: RequestLimits, is_given_up: Callable[[], bool] = lambda: False) -> Logs:
    request = to_protobuf(body, limits=limits, is_given_up=is_given_up) if json else body
    try:
        return _cut(request, limits)
    except DecodeError:
        raise MalformedRequest(
            "The request is no ExportLogsServiceRequest in protobuf: a length is wrong, a string is not UTF-8, or its "
            "values are nested too deep. Look at what sends it, and at its Content-Type."
        ) from None


def _cut(request: bytes, limits: RequestLimits) -> Logs:
    parts = skeletons.Request.FromString(request).groups
    groups: list[RecordGroup] = []
    containers, records = len(parts), 0
    if containers > limits.containers:
        raise too_many_containers(limits)
    for part in parts:
        group = _read_small(part) if len(part) < skeletons.LARGE else _read_large(part, limits)
        containers += group.scopes
        if containers > limits.containers:
            raise too_many_containers(limits)
        records += group.records
        if records > limits.records:
            raise too_many_records(limits)
        if group.records:
            piece = request if len(parts) == 1 else skeletons.Request(groups=[part]).SerializeToString()
            groups.append(RecordGroup(piece, group.records, bodies.read_attributes(group.resource)))
    return Logs(groups, records)


class _ReadGroup(NamedTuple):
    """A valid ResourceLogs with its counts."""

    resource: Resource
    scopes: int
    records: int


def _read_small(data: bytes) -> _ReadGroup:
    """Read a ResourceLogs that is too small to exceed a limit."""
    group = ResourceLogs.FromString(data)
    scopes = group.scope_logs
    return _ReadGroup(group.resource, len(scopes), sum([len(scope.log_records) for scope in scopes]))


def _read_large(data: bytes, limits: RequestLimits) -> _ReadGroup:
    """Read a ResourceLogs level by level. In a very large one each record is checked by itself, to build little at a
    time.
    """
    group = skeletons.ResourceLogs.FromString(data)
    if len(group.scopes) > limits.containers:
        raise too_many_containers(limits)
    resource = b"".join(group.resource)  # protobuf merges joined messages
    skeletons.check_size(resource, "Resource")
    is_very_large = len(data) > INLINE
    records = 0
    for part in group.scopes:
        scope = skeletons.ScopeLogs.FromString(part)
        records += len(scope.records)
        if records > limits.records:
            raise too_many_records(limits)
        if len(part) >= skeletons.LARGE:
            for inside in scope.scope:
                skeletons.check_size(inside, "Scope")
            for record in scope.records:
                skeletons.check_size(record, "LogRecord")
        if is_very_large:
            for record in scope.records:
                LogRecord.FromString(record)
            _check_frame(scope, ScopeLogs, "records")
    if is_very_large:
        _check_frame(group, ResourceLogs, "scopes")
    else:
        ResourceLogs.FromString(data)
    return _ReadGroup(Resource.FromString(resource), len(group.scopes), records)


def _check_frame(skeleton: Any, message: type[ResourceLogs] | type[ScopeLogs], inside: str) -> None:
    """Check a message without its nested messages. Raises DecodeError."""
    skeleton.ClearField(inside)
    message.FromString(skeleton.SerializeToString())
