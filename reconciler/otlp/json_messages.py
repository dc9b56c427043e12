"""The messages of OTLP as its JSON writes them, for the decoder.

Belongs here: which members there are, and of which types. Does not: what they are made into (`json_requests`).

Other members are passed over, and null is as good as absent, as OTLP says of every message. What each level holds stays
text until it is its turn, and what is large is counted first (`json_counting`): the decoder does all of a text at once.
"""

from typing import Final, TypeAlias

import msgspec

Number: TypeAlias = int | float | str | None
NULL: Final = msgspec.Raw(b"null")


class JsonMessage(msgspec.Struct, rename="camel", gc=False):
    """Any of them."""


class Value(JsonMessage):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: "Array | None" = None
    kvlist_value: "Map | None" = None
    bytes_value: str | None = None


class Pair(JsonMessage):
    key: str | None = None
    value: Value | None = None


class Array(JsonMessage):
    values: list[Value] | None = None


class Map(JsonMessage):
    values: list[Pair] | None = None


class EntityReference(JsonMessage):
    schema_url: str | None = None
    type: str | None = None
    id_keys: msgspec.Raw = NULL
    description_keys: msgspec.Raw = NULL


class Resource(JsonMessage):
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None
    entity_refs: list[EntityReference] | None = None


class Scope(JsonMessage):
    name: str | None = None
    version: str | None = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None


class LogRecord(JsonMessage):
    time_unix_nano: Number = None
    observed_time_unix_nano: Number = None
    severity_number: Number = None
    severity_text: str | None = None
    body: Value | None = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None
    flags: Number = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None


class ScopeLogs(JsonMessage):
    scope: msgspec.Raw = NULL
    log_records: msgspec.Raw = NULL
    schema_url: str | None = None


class ResourceLogs(JsonMessage):
    resource: msgspec.Raw = NULL
    scope_logs: msgspec.Raw = NULL
    schema_url: str | None = None


class Request(JsonMessage):
    resource_logs: msgspec.Raw = NULL
