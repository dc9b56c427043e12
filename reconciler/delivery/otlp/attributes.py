"""Attributes of a resource as text, to match them with routes."""

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

MOST_ATTRIBUTES: Final = 1_000  # of one resource that are read
_KEPT: Final = 256  # resources whose attributes are remembered: a sender has the same one in each of its requests
_SMALL: Final = 4 << 10  # bytes of a resource that is worth it


def read_attributes(resource: bytes) -> Mapping[str, str]:
    """Return the attributes of a sound Resource that are scalars, as text.

    Strings are as they are; the others are true and false, decimal integers, fractions as in JSON (`0.5`, `1.0`,
    `1e300`), `NaN`, `Infinity`, `-Infinity`.

    A key that stands twice has the value that stands first, as the Collector reads it. Read are the first 1,000.
    """
    return _remembered(resource) if len(resource) <= _SMALL else _attributes(resource)


def _attributes(resource: bytes) -> Mapping[str, str]:
    found: dict[str, str] = {}
    seen: set[str] = set()
    for attribute in islice(Resource.FromString(resource).attributes, MOST_ATTRIBUTES):
        text = _text(attribute.value)
        if attribute.key not in seen and text is not None:
            found[attribute.key] = text
        seen.add(attribute.key)
    return found


_remembered = lru_cache(maxsize=_KEPT)(_attributes)


def _text(value: AnyValue) -> str | None:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        number = value.double_value
        return msgspec.json.encode(number).decode() if math.isfinite(number) else not_finite(number)
    return None


def not_finite(number: float) -> str:
    """Write one of the three doubles that JSON has no number for, as protobuf's JSON does."""
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"
