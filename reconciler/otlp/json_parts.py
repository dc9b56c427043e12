"""Log records, scopes and resources of OTLP's JSON put into the same messages of protobuf.

Belongs here: their members. Does not: single values (`json_values`), requests and what of them is counted
(`json_requests`, `json_counting`).

Each function puts there what takes no time, and leaves arrays and maps to the filling. They raise Wrong, which says
where in the record, scope or resource, TooLarge, and the decoder's errors.
"""

from typing import Final, cast

import msgspec
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

from reconciler.otlp import json_messages as messages
from reconciler.otlp.json_values import Filling, Wrong, decoded, integer, octets
from reconciler.otlp.weighing import MOST_FIELDS, too_many

_log_record: Final = msgspec.json.Decoder(messages.LogRecord).decode
_scope: Final = msgspec.json.Decoder(messages.Scope | None).decode
_resource: Final = msgspec.json.Decoder(messages.Resource | None).decode
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


def _entity(message: common_pb2.EntityRef, reference: messages.EntityReference) -> None:
    message.schema_url = reference.schema_url or ""
    message.type = reference.type or ""
    message.id_keys.extend(decoded(_keys, reference.id_keys, ".idKeys") or ())
    message.description_keys.extend(decoded(_keys, reference.description_keys, ".descriptionKeys") or ())


def _dropped(given: messages.Number) -> int:
    return integer(given, "droppedAttributesCount", most=2**32)
