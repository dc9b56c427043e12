"""Export requests in OTLP's JSON made into the same requests in protobuf.

Belongs here: the levels down to a record, counting, and where in the document something is wrong. Does not: what is
inside of a record, scope or resource (`json_parts`), what requests mean (`wire`, `protobuf`), which see no difference.

Each level is text until it is its turn, and what was built of a large request soon bytes again: a value of three bytes
takes sixty as a message. So nothing is built of more than the limits allow, and others have their turn after each pass
over a long text: of 8 MiB it takes 15 ms at most.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from google.protobuf.message import EncodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1 import logs_pb2

from reconciler.otlp import json_counting as counting
from reconciler.otlp import json_messages as messages
from reconciler.otlp import json_parts as parts
from reconciler.otlp import weighing
from reconciler.otlp.fields import sized
from reconciler.otlp.json_messages import NULL
from reconciler.otlp.json_values import Filling, Wrong, decoded, misplaced
from reconciler.otlp.models import MOST_RECORDS
from reconciler.otlp.refusals import MalformedRequest, RequestTooLarge
from reconciler.otlp.wire import MOST_CONTAINERS, too_many_containers, too_many_records

_Message = TypeVar("_Message")
_Content = TypeVar("_Content", logs_pb2.ResourceLogs, logs_pb2.ScopeLogs)
_Count: TypeAlias = Callable[[msgspec.Raw], None]
_Fill: TypeAlias = Callable[[_Message, msgspec.Raw, Filling], None]

SLICE: Final = 32 << 10  # bytes of text between two places to pause, about a millisecond
WHOLE: Final = 64 << 10  # bytes of resources, with all that is in them, that are built at once
LARGE: Final = 256 << 10  # bytes of an array whose objects are counted before they are divided

_RESOURCE_LOGS: Final = b"\x0a"  # the tag in a request
_SCOPE_LOGS: Final = b"\x12"  # the tag in that

_request: Final = msgspec.json.Decoder(messages.Request).decode
_groups: Final = msgspec.json.Decoder(list[messages.ResourceLogs] | None).decode
_scopes: Final = msgspec.json.Decoder(list[messages.ScopeLogs] | None).decode
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
        self, message: logs_pb2.ResourceLogs, group: messages.ResourceLogs, into: list[bytes] | None
    ) -> Iterator[None]:
        if group.resource is not NULL:
            with Wrong.inside(".resource"):
                yield from self._part(counting.count_resource, parts.fill_resource, message.resource, group.resource)
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
        self, message: logs_pb2.ScopeLogs, scope: messages.ScopeLogs, into: list[bytes] | None
    ) -> Iterator[None]:
        if scope.scope is not NULL:
            with Wrong.inside(".scope"):
                yield from self._part(counting.count_scope, parts.fill_scope, message.scope, scope.scope)
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
                if size > weighing.LARGE:
                    yield from self._part(counting.count_record, parts.fill_record, message.log_records.add(), one)
                else:
                    parts.fill_record(message.log_records.add(), one, self._filling)
            except Wrong as wrong:
                raise wrong.within(f".logRecords[{number}]") from None
            except msgspec.ValidationError as error:
                raise misplaced(error, f".logRecords[{number}]") from None
            if size > weighing.LARGE or self._is_long(size):
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
            if size > weighing.LARGE:
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
        counting.count_objects(text, most=most, refusal=refusal)
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None
    return True


def _size(text: msgspec.Raw) -> int:
    return len(memoryview(text))
