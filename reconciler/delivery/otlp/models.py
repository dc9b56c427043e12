"""Export requests of log records, limits and refusals of them, and answers to senders."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # nobody publishes their types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse

from reconciler.model import errors


class RequestLimits(NamedTuple):
    """The size of one request: bytes, as sent and as decoded, and log records."""

    bytes: int = 20 << 20
    records: int = 100_000

    @property
    def containers(self) -> int:
        """The most resources and scopes: each record may have its own."""
        return 2 * self.records


LIMITS: Final = RequestLimits()


class RecordGroup(NamedTuple):
    """The records of one resource.

    `data` is the ResourceLogs with its tag and length as in a request, so any joined groups are an
    ExportLogsServiceRequest in protobuf. `attributes` are the scalar attributes of the resource as text
    (`bodies.read_attributes`).
    """

    data: bytes
    records: int
    attributes: Mapping[str, str]


class Logs(NamedTuple):
    """One sound export request."""

    groups: Sequence[RecordGroup]
    records: int


@dataclass(slots=True)
class RecordShare:
    """The part of a request for one destination. Its joined pieces are a request again."""

    pieces: list[bytes] = field(default_factory=list)
    records: int = 0
    size: int = 0

    def add(self, group: RecordGroup) -> None:
        """Add the records of another resource."""
        self.pieces.append(group.data)
        self.records += group.records
        self.size += len(group.data)


class MalformedRequest(errors.Refused):
    """The request is not what its headers say: 400."""


class RequestTooLarge(errors.Refused):
    """The request exceeds a limit; send it in smaller parts: 413."""


# Answers to senders of log records, in the encoding of their request.

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"

CODES: Final = {
    400: 3,  # INVALID_ARGUMENT
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    404: 5,  # NOT_FOUND
    405: 12,  # UNIMPLEMENTED
    413: 8,  # RESOURCE_EXHAUSTED, as gRPC says of a message over its limit; without RetryInfo it means: not again
    415: 3,
    429: 8,
    500: 13,  # INTERNAL
    503: 14,  # UNAVAILABLE
}
"""The code of google.rpc.Status for an HTTP status. OTLP/HTTP gives it no meaning; it only helps people."""

_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


class OtlpAnswer(NamedTuple):
    """A response's body and its Content-Type."""

    body: bytes
    media_type: str


_SUCCESS: Final = (OtlpAnswer(b"", PROTOBUF), OtlpAnswer(b"{}", JSON))


def success_answer(*, json: bool) -> OtlpAnswer:
    """Return the answer to a request that was accepted completely, even without records."""
    return _SUCCESS[json]


def partial_success_answer(*, rejected: int, message: str, json: bool) -> OtlpAnswer:
    """Return the answer for a number of rejected records, which must not be sent again; `message` says why."""
    if json:
        told = {"rejectedLogRecords": str(rejected), "errorMessage": message}  # 64-bit integers are strings in it
        return OtlpAnswer(msgspec.json.encode({"partialSuccess": told}), JSON)
    told_so = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    return OtlpAnswer(ExportLogsServiceResponse(partial_success=told_so).SerializeToString(), PROTOBUF)


def failure_answer(status: int, message: str, *, json: bool, retry_after: float | None = None) -> OtlpAnswer:
    """Return a google.rpc.Status for an HTTP status. `retry_after` is in seconds, rounded up as in the header."""
    code = CODES.get(status, 3 if status < 500 else 13)
    seconds = None if retry_after is None else math.ceil(retry_after)
    if json:
        told: dict[str, Any] = {"code": code, "message": message}
        if seconds is not None:
            told["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{seconds}s"}]
        return OtlpAnswer(msgspec.json.encode(told), JSON)
    answer = Status(code=code, message=message)
    if seconds is not None:
        info = RetryInfo(retry_delay=Duration(seconds=seconds))
        answer.details.append(AnyMessage(type_url=_RETRY_INFO, value=info.SerializeToString()))
    return OtlpAnswer(answer.SerializeToString(), PROTOBUF)
