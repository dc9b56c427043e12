"""Export requests in OTLP's JSON made into the same requests in protobuf.

Belongs here: the levels down to a record, counting, and where in the document something is wrong. Does not: what is
inside of a record, scope or resource (`json_parts`), what requests mean (`wire`, `protobuf`), which see no difference.

Each level is text until it is its turn. So nothing is built of more than the limits allow, and others have their turn
after each pass over a long text: of 8 MiB it takes 15 ms at most.
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
from reconciler.otlp.json_messages import NULL
from reconciler.otlp.json_values import Filling, Wrong, decoded, misplaced
from reconciler.otlp.models import MOST_RECORDS
from reconciler.otlp.refusals import Malformed, TooLarge
from reconciler.otlp.wire import MOST_CONTAINERS, too_many_containers, too_many_records

_Message = TypeVar("_Message")
_Count: TypeAlias = Callable[[msgspec.Raw], None]
_Fill: TypeAlias = Callable[[_Message, msgspec.Raw, Filling], None]

SLICE: Final = 32 << 10  # bytes of text between two places to pause, about a millisecond
LARGE: Final = 256 << 10  # bytes of an array whose objects are counted before they are divided

_request: Final = msgspec.json.Decoder(messages.Request).decode
_groups: Final = msgspec.json.Decoder(list[messages.ResourceLogs] | None).decode
_scopes: Final = msgspec.json.Decoder(list[messages.ScopeLogs] | None).decode
_records: Final = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


async def protobuf(body: bytes) -> bytes:
    """The same request in protobuf. Raises Malformed, with the place in the document, and TooLarge."""
    message = ExportLogsServiceRequest()
    try:
        for _ in _Reading().request(message, body):
            await asyncio.sleep(0)
        return message.SerializeToString()
    except Wrong as wrong:
        path = wrong.path.lstrip(".")
        raise _malformed(f"{_shortened(path)}: {wrong.what}" if path else wrong.what) from None
    except msgspec.DecodeError as error:
        raise _malformed(str(error)) from None
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except (RecursionError, EncodeError):
        raise _malformed("its values are nested too deep") from None


def _malformed(what: str) -> Malformed:
    return Malformed(f"The request is no ExportLogsServiceRequest in JSON: {what}.")


def _shortened(path: str) -> str:
    """A place that is deep inside shows where to begin to look, and what is there."""
    return path if len(path) <= 200 else f"{path[:120]} ... {path[-60:]}"


class _Reading:
    """One request, and what was counted of it. Its methods stop at places to pause."""

    def __init__(self) -> None:
        self._containers = MOST_CONTAINERS  # that may still come
        self._records = MOST_RECORDS
        self._filling = Filling(at_once=True)
        self._work = 0  # bytes since the last place to pause

    def request(self, message: ExportLogsServiceRequest, body: bytes) -> Iterator[None]:
        text = decoded(_request, msgspec.Raw(body), "").resource_logs
        if self._is_long(len(body)):
            yield
        if _is_counted(text, "resourceLogs", self._containers, too_many_containers):
            yield
        groups = decoded(_groups, text, "resourceLogs") or ()
        self._count(groups)
        if self._is_long(_size(text)):
            yield
        for number, group in enumerate(groups):
            with Wrong.inside(f"resourceLogs[{number}]"):
                yield from self._group(message.resource_logs.add(), group)

    def _group(self, message: logs_pb2.ResourceLogs, group: messages.ResourceLogs) -> Iterator[None]:
        message.schema_url = group.schema_url or ""
        if group.resource is not NULL:
            with Wrong.inside(".resource"):
                yield from self._part(counting.resource, parts.resource, message.resource, group.resource)
        if _is_counted(group.scope_logs, ".scopeLogs", self._containers, too_many_containers):
            yield
        scopes = decoded(_scopes, group.scope_logs, ".scopeLogs") or ()
        self._count(scopes)
        if self._is_long(_size(group.scope_logs)):
            yield
        for number, one in enumerate(scopes):
            with Wrong.inside(f".scopeLogs[{number}]"):
                yield from self._scope(message.scope_logs.add(), one)

    def _scope(self, message: logs_pb2.ScopeLogs, scope: messages.ScopeLogs) -> Iterator[None]:
        message.schema_url = scope.schema_url or ""
        if scope.scope is not NULL:
            with Wrong.inside(".scope"):
                yield from self._part(counting.scope, parts.scope, message.scope, scope.scope)
        if _is_counted(scope.log_records, ".logRecords", self._records, too_many_records):
            yield
        records = decoded(_records, scope.log_records, ".logRecords") or ()
        self._records -= len(records)
        if self._records < 0:
            raise too_many_records()
        if self._is_long(_size(scope.log_records)):
            yield
        for number, one in enumerate(records):
            try:
                if (size := _size(one)) > weighing.LARGE:
                    yield from self._part(counting.record, parts.record, message.log_records.add(), one)
                    continue
                parts.record(message.log_records.add(), one, self._filling)
            except Wrong as wrong:
                raise wrong.within(f".logRecords[{number}]") from None
            except msgspec.ValidationError as error:
                raise misplaced(error, f".logRecords[{number}]") from None
            if self._is_long(size):
                yield

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


def _is_counted(text: msgspec.Raw, path: str, most: int, refusal: Callable[[], TooLarge]) -> bool:
    """Whether an array is so long that its objects are counted first. A shorter one is divided in some milliseconds,
    whatever it has, and counted then.
    """
    if _size(text) <= LARGE:
        return False
    try:
        counting.objects(text, most=most, refusal=refusal)
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None
    return True


def _size(text: msgspec.Raw) -> int:
    return len(memoryview(text))
