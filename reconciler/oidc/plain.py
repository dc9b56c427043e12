"""JSON that strangers wrote, as plain values.

Belongs here: reading an object strictly. Does not: how large it may be (whoever reads the bytes), what it should hold.

Refused is what two readers understand differently (a member given twice, NaN), and text that is no Unicode, which no
later step could write down.
"""

import json
from collections.abc import Mapping


class NotAnObject(ValueError):
    """The bytes are no JSON object, or not one that everybody reads alike."""


def json_object(data: bytes) -> Mapping[str, object]:
    """The JSON object. Raises NotAnObject."""
    try:
        text = data.decode()
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise NotAnObject from None
    if not isinstance(value, dict):
        raise NotAnObject
    return value


def json_texts(value: object) -> tuple[str, ...] | None:
    """The strings of an array; None when it is no such array."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    return None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotAnObject
    return made


def _refuse(_: str) -> object:
    raise NotAnObject
