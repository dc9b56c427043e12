"""Messages of OTLP with only their nesting, to count and divide a request before it is built.

Every field of a skeleton is a list of bytes, so protobuf's parser splits one level at a time and builds no nested
message. It keeps all other fields as unknown ones, and writes them again.
"""

from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from reconciler.delivery.otlp.models import RequestTooLarge

# By message: the fields that hold messages or lists, with their number and their own kind.
_NESTING: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Request": {"groups": (1, "ResourceLogs")},
    "ResourceLogs": {"resource": (1, "Resource"), "scopes": (2, "ScopeLogs"), "schema_url": (3, "")},
    "ScopeLogs": {"scope": (1, "Scope"), "records": (2, "LogRecord"), "schema_url": (3, "")},
    "Resource": {"attributes": (1, "KeyValue"), "entities": (3, "EntityRef")},
    "Scope": {"attributes": (3, "KeyValue")},
    "EntityRef": {"id_keys": (3, ""), "description_keys": (4, "")},
    "LogRecord": {"body": (5, "AnyValue"), "attributes": (6, "KeyValue")},
    "AnyValue": {"array": (5, "List"), "map": (6, "Map")},
    "List": {"values": (1, "AnyValue")},
    "Map": {"pairs": (1, "KeyValue")},
    "KeyValue": {"value": (2, "AnyValue")},
}

MOST_FIELDS: Final = 50_000  # of one log record, resource or scope: a map of 12,000 keys has as many
LARGE: Final = 2 * MOST_FIELDS  # bytes; a smaller part cannot have more, since a field takes two


def _messages() -> dict[str, Any]:
    file = FileDescriptorProto(name="reconciler/otlp/skeletons.proto", package="reconciler.otlp", syntax="proto3")
    for name, inside in _NESTING.items():
        described = file.message_type.add(name=name)
        for field, (number, _) in inside.items():
            described.field.add(
                name=field,
                number=number,
                label=FieldDescriptorProto.LABEL_REPEATED,
                type=FieldDescriptorProto.TYPE_BYTES,
            )
    file.dependency.append(AnyValue.DESCRIPTOR.file.name)
    file.message_type.add(name="RecordBody").field.add(
        name="body",
        number=_NESTING["LogRecord"]["body"][0],
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type_name=f".{AnyValue.DESCRIPTOR.full_name}",
    )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {
        one.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{one.name}"))
        for one in file.message_type
    }


_MESSAGES: Final = _messages()
Request: Final = _MESSAGES["Request"]
ResourceLogs: Final = _MESSAGES["ResourceLogs"]
ScopeLogs: Final = _MESSAGES["ScopeLogs"]
RecordBody: Final = _MESSAGES["RecordBody"]
"""A log record with only its body: the exporter does not read the attributes."""


def check_size(data: bytes, kind: str) -> None:
    """Refuse a large `LogRecord`, `Resource` or `Scope` with more than `MOST_FIELDS` attributes, values and keys.

    A value may take two bytes on the wire, but a hundred times as much in memory, and a microsecond to write as JSON.
    Raises RequestTooLarge, DecodeError.
    """
    if len(data) < LARGE:
        return
    count = 0
    left = [(data, kind)]
    while left:
        content, name = left.pop()
        message = _MESSAGES[name].FromString(content)
        for field, (_, inner) in _NESTING[name].items():
            values = getattr(message, field)
            count += len(values)
            if count > MOST_FIELDS:
                raise too_many_fields()
            if inner:
                left += [(value, inner) for value in values if len(value) > 1]


def too_many_fields() -> RequestTooLarge:
    """Return the error for such a part, which says what the sender can do."""
    return RequestTooLarge(
        f"A log record, scope or resource of the request has more than {MOST_FIELDS:,} fields, with those of its "
        "values; log less in one."
    )


def keep_records(payload: bytes, keep: frozenset[int]) -> bytes:
    """Return a request with only the records whose positions are in `keep`, counted from 0 through the whole request.

    Empty resources and scopes are left out. Raises ValueError if it is no such request.
    """
    try:
        return _keep_records(payload, keep)
    except DecodeError:
        raise ValueError("what is stored is no export request") from None


def _keep_records(payload: bytes, keep: frozenset[int]) -> bytes:
    place = 0
    request = Request.FromString(payload)
    groups = []
    for group_data in request.groups:
        group = ResourceLogs.FromString(group_data)
        scopes = []
        for scope_data in group.scopes:
            scope = ScopeLogs.FromString(scope_data)
            records = [record for number, record in enumerate(scope.records, place) if number in keep]
            place += len(scope.records)
            if records:
                scope.records[:] = records
                scopes.append(scope.SerializeToString())
        if scopes:
            group.scopes[:] = scopes
            groups.append(group.SerializeToString())
    request.groups[:] = groups
    kept: bytes = request.SerializeToString()
    return kept
