"""Decoded request bodies made into `Logs`: counted, checked, cut at their resources.

The queue keeps the bytes that came. A request is counted on skeletons first, level by level, so that a hostile one is
refused before much of it is built. Then protobuf's parser checks all of it: any receiver must be able to read what is
queued.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from reconciler.delivery.otlp import attributes, json_requests, skeletons
from reconciler.delivery.otlp.models import LIMITS, Logs, MalformedRequest, RecordGroup, RequestLimits

INLINE: Final = 1 << 20  # bytes of a protobuf request that are read on the event loop, some milliseconds at most
INLINE_JSON: Final = 16 << 10  # of one in JSON, which takes a hundred times as long

# Of our own, so that large requests hold up nothing else that uses threads.
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
    request = json_requests.to_protobuf(body, limits=limits, is_given_up=is_given_up) if json else body
    try:
        return _cut(request, limits)
    except DecodeError:
        raise MalformedRequest(
            "The request is no ExportLogsServiceRequest in protobuf: a length is wrong, a string is not UTF-8, or its "
            "values are nested too deep. Look at what sends it, and at its Content-Type."
        ) from None


def _cut(request: bytes, limits: RequestLimits) -> Logs:
    whole = skeletons.Request.FromString(request)
    is_large = len(request) > INLINE
    groups: list[RecordGroup] = []
    containers, records = len(whole.groups), 0
    if containers > limits.containers:
        raise json_requests.too_many_containers(limits)
    for data in whole.groups:
        group = skeletons.ResourceLogs.FromString(data)
        containers += len(group.scopes)
        if containers > limits.containers:
            raise json_requests.too_many_containers(limits)
        resource = b"".join(group.resource)  # to protobuf the same as merging them
        skeletons.check_size(resource, "Resource")
        before = records
        for scope in group.scopes:
            records += _count_records(scope, is_large=is_large)
            if records > limits.records:
                raise json_requests.too_many_records(limits)
        if is_large:
            _check_frame(group, ResourceLogs, "scopes")
        if records > before:
            piece = request if len(whole.groups) == 1 else skeletons.Request(groups=[data]).SerializeToString()
            groups.append(RecordGroup(piece, records - before, attributes.read_attributes(resource)))
    if not is_large:
        ExportLogsServiceRequest.FromString(request)
    return Logs(tuple(groups), records, sum(len(group.data) for group in groups))


def _count_records(data: bytes, *, is_large: bool) -> int:
    """Count the records of a scope. In a large request each of them is checked by itself, to build little at a time."""
    scope = skeletons.ScopeLogs.FromString(data)
    count = len(scope.records)
    if len(data) >= skeletons.LARGE:
        for part in scope.scope:
            skeletons.check_size(part, "Scope")
        for record in scope.records:
            skeletons.check_size(record, "LogRecord")
    if is_large:
        for record in scope.records:
            LogRecord.FromString(record)
        _check_frame(scope, ScopeLogs, "records")
    return count


def _check_frame(skeleton: Any, message: type[ResourceLogs] | type[ScopeLogs], inside: str) -> None:
    """Check a message without what is inside of it. Raises DecodeError."""
    skeleton.ClearField(inside)
    message.FromString(skeleton.SerializeToString())
