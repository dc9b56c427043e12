"""What the decoder would build of a text of OTLP's JSON, counted before it does.

Belongs here: the count, and the limits that it has. Does not: building (`json_messages`).

The decoder builds all of a text at once: of 8 MiB of empty objects 130 MB, in half a second. So it goes through large
texts twice, and the first time it builds objects without members, calls us for each, and ends with the first one too
many. Members that have no place in a message are passed over, here as there, at a gigabyte a second.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from reconciler.otlp.json_messages import JsonMessage
from reconciler.otlp.refusals import RequestTooLarge
from reconciler.otlp.weighing import MOST_FIELDS, too_many


class _Allowance:
    """Of the one count that is under way: a call of the decoder is over before the next one begins."""

    left = 0


class _TooMany(Exception):
    pass


class _Counted(JsonMessage):
    def __post_init__(self) -> None:
        _Allowance.left -= 1
        if _Allowance.left < 0:
            raise _TooMany


class _Value(_Counted):
    array_value: "_Array | None" = None
    kvlist_value: "_Map | None" = None


class _Pair(_Counted):
    value: _Value | None = None


class _Array(JsonMessage):
    values: list[_Value] | None = None


class _Map(JsonMessage):
    values: list[_Pair] | None = None


class _Resource(JsonMessage):
    attributes: list[_Pair] | None = None
    entity_refs: list[_Counted] | None = None


class _Scope(JsonMessage):
    attributes: list[_Pair] | None = None


class _LogRecord(JsonMessage):
    body: _Value | None = None
    attributes: list[_Pair] | None = None


_objects: Final = msgspec.json.Decoder(list[_Counted] | None).decode
_resource_count: Final = msgspec.json.Decoder(_Resource | None).decode
_scope_count: Final = msgspec.json.Decoder(_Scope | None).decode
_log_record_count: Final = msgspec.json.Decoder(_LogRecord).decode


def count_objects(text: msgspec.Raw, *, most: int, refusal: Callable[[], RequestTooLarge]) -> None:
    """Raises the refusal when an array has more than so many objects; as all of these do, what the decoder raises."""
    _count(_objects, text, most, refusal)


def count_resource(text: msgspec.Raw) -> None:
    """Raises TooLarge when one has more attributes, entities and values than it may."""
    _count(_resource_count, text, MOST_FIELDS, too_many)


def count_scope(text: msgspec.Raw) -> None:
    """The same of a scope."""
    _count(_scope_count, text, MOST_FIELDS, too_many)


def count_record(text: msgspec.Raw) -> None:
    """The same of a log record."""
    _count(_log_record_count, text, MOST_FIELDS, too_many)


def _count(
    decode: Callable[[msgspec.Raw], Any], text: msgspec.Raw, most: int, refusal: Callable[[], RequestTooLarge]
) -> None:
    _Allowance.left = most
    try:
        decode(text)
    except _TooMany:
        raise refusal() from None
