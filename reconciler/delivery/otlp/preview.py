"""The first records of a stored request, for a person, if only the beginning of the request was read.

Protobuf's parser refuses a message that is cut short, so its fields are read here. Nothing is raised for bytes that are
no request: reading ends there.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber

from reconciler.delivery.otlp import bodies

MOST_CHARACTERS: Final = 500  # of a body, or of a severity
MOST_FIELDS: Final = 2_000  # that are read of one request, in 4 ms: a hostile one may have 16,000 in 32 KiB
LONGEST_VARINT: Final = 10  # bytes

Budget: TypeAlias = Iterator[int]
"""The fields that may still be read."""


class RecordPreview(NamedTuple):
    """A record: its time in Unix nanoseconds (0 for none), its severity, and the beginning of its body."""

    time: int
    severity: str
    body: str
    is_cut: bool


class _Field(NamedTuple):
    """A field of a message: a number, or bytes, of which the end may be missing."""

    number: int
    value: int = 0
    data: bytes = b""
    is_cut: bool = False


def preview_records(beginning: bytes, *, most: int) -> list[RecordPreview]:
    """Return the first records of a request. One that is cut short before its body is left out."""
    budget = iter(range(MOST_FIELDS))
    records = (
        _record(record, budget)
        for group in _messages(beginning, ExportLogsServiceRequest.RESOURCE_LOGS_FIELD_NUMBER, budget)
        for scope in _messages(group.data, ResourceLogs.SCOPE_LOGS_FIELD_NUMBER, budget)
        for record in _messages(scope.data, ScopeLogs.LOG_RECORDS_FIELD_NUMBER, budget)
    )
    return [*islice((record for record in records if record is not None), most)]


def _record(record: _Field, budget: Budget) -> RecordPreview | None:
    fields = {field.number: field for field in _fields(record.data, budget)}
    nothing = _Field(0)
    body = fields.get(LogRecord.BODY_FIELD_NUMBER)
    if body is None and record.is_cut:
        return None
    text = _text(body or nothing, budget)
    name = fields.get(LogRecord.SEVERITY_TEXT_FIELD_NUMBER, nothing).data.decode("utf-8", "ignore")
    number = fields.get(LogRecord.SEVERITY_NUMBER_FIELD_NUMBER, nothing).value
    times = (LogRecord.TIME_UNIX_NANO_FIELD_NUMBER, LogRecord.OBSERVED_TIME_UNIX_NANO_FIELD_NUMBER)
    return RecordPreview(
        time=next((fields[one].value for one in times if one in fields and fields[one].value), 0),
        severity=name[:MOST_CHARACTERS] or _severity(number),
        body=text[:MOST_CHARACTERS],
        is_cut=(body or nothing).is_cut or len(text) > MOST_CHARACTERS,
    )


def _severity(number: int) -> str:
    known = SeverityNumber.DESCRIPTOR.values_by_number.get(number)
    return known.name.removeprefix("SEVERITY_NUMBER_") if known is not None and number else ""


def _text(body: _Field, budget: Budget) -> str:
    """Return a string as it is, another value as JSON, and nothing of another value that is cut short."""
    first = next(_fields(body.data, budget), None)
    if first is not None and first.number == AnyValue.STRING_VALUE_FIELD_NUMBER:
        return first.data.decode("utf-8", "ignore")  # the cut may be inside of a character
    try:
        return bodies.json_text(AnyValue.FromString(body.data)) if body.data else ""
    except DecodeError:
        return ""


def _messages(data: bytes, number: int, budget: Budget) -> Iterator[_Field]:
    return (field for field in _fields(data, budget) if field.number == number)


def _fields(data: bytes, budget: Budget) -> Iterator[_Field]:
    """Yield the fields of a message, until its end or one that is none."""
    at = 0
    try:
        for _ in budget:
            if at >= len(data):
                return
            tag, at = _varint(data, at)
            number, kind = tag >> 3, tag & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield _Field(number, value=value)
            elif kind == 2:
                size, at = _varint(data, at)
                yield _Field(number, data=data[at : at + size], is_cut=at + size > len(data))
                at += size
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                yield _Field(number, value=int.from_bytes(data[at : at + size], "little"))
                at += size
            else:  # groups, which OTLP does not have
                return
    except IndexError:  # inside of a number
        return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it. Raises IndexError."""
    value = 0
    for place in range(LONGEST_VARINT):
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise IndexError
