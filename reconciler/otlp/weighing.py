"""How many fields a large part of a request has, down to its innermost values.

A value may be two bytes on the wire, and a hundred times that when it is built, and a microsecond when it is written as
JSON. So whatever is large and cannot be divided, a record, a resource, a scope, is counted through before it is parsed.

Belongs here: counting with a limit. Does not: which parts are counted (`wire`).
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final

from reconciler.otlp.fields import fields
from reconciler.otlp.refusals import RequestTooLarge

LARGE: Final = 16 << 10  # bytes; what is smaller cannot hold more fields than take some milliseconds
MOST_FIELDS: Final = 50_000  # of one such part; a map of 12,000 keys has as many
SLICE: Final = 2_000  # fields between two places to pause, some milliseconds


class WeighedPart(Enum):
    """Messages that hold values, however deep."""

    RESOURCE = auto()
    ENTITY = auto()
    SCOPE = auto()
    LOG_RECORD = auto()
    VALUE = auto()
    ARRAY = auto()
    MAP = auto()
    PAIR = auto()


_INSIDE: Final[
    Mapping[WeighedPart, Mapping[int, WeighedPart]]
] = {  # by tag: the field's number in opentelemetry-proto, times 8, plus 2
    WeighedPart.RESOURCE: {0x0A: WeighedPart.PAIR, 0x1A: WeighedPart.ENTITY},
    WeighedPart.ENTITY: {},
    WeighedPart.SCOPE: {0x1A: WeighedPart.PAIR},
    WeighedPart.LOG_RECORD: {0x2A: WeighedPart.VALUE, 0x32: WeighedPart.PAIR},
    WeighedPart.VALUE: {0x2A: WeighedPart.ARRAY, 0x32: WeighedPart.MAP},
    WeighedPart.ARRAY: {0x0A: WeighedPart.VALUE},
    WeighedPart.MAP: {0x0A: WeighedPart.PAIR},
    WeighedPart.PAIR: {0x12: WeighedPart.VALUE},
}


def weigh(data: bytes, start: int, end: int, part: WeighedPart) -> Iterator[None]:
    """Count the part whose content is there, if it is large, and stop at places to pause. Raises TooLarge, Malformed,
    IndexError (see `fields`).
    """
    if end - start < LARGE or end > len(data):
        return
    count = 0
    left: list[Any] = [start, end, part]  # three by three: tuples would be objects for the garbage collector to visit
    while left:
        kind, stop, at = left.pop(), left.pop(), left.pop()
        inside = _INSIDE[kind]
        for field in fields(data, at, stop):
            count += 1
            if count > MOST_FIELDS:
                raise too_many()
            if count % SLICE == 0:
                yield
            if (below := inside.get(field.tag)) is not None:
                left += field.content, field.end, below


def too_many() -> RequestTooLarge:
    """What the sender is told of such a part."""
    return RequestTooLarge(
        f"A log record, scope or resource of the request has more than {MOST_FIELDS:,} fields, with those of its "
        "values; log less in one."
    )
