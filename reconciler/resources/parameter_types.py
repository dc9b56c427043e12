"""The types that parameters have: what each accepts, and the one form in which its values are compared.

Belongs here: one row per type. Does not: several parameters together (`component_types`).

Types that are not in the table take any JSON: those of `OPEN`, and, in a definition that an earlier version stored,
types that nobody knows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reconciler.documents.values import Value
from reconciler.resources import formats
from reconciler.resources.definitions import Definition
from reconciler.resources.words import listed

Schema = dict[str, Any]

# 18 digits: they always fit in 64 bits, and a number that needs more can be written without quotes.
INTEGER = "^-?[0-9]{1,18}$"
_INTEGER = re.compile(INTEGER[1:-1])
# No separator, and no dot at the beginning: it leads neither out of a folder nor to a hidden file.
FILENAME = "^[A-Za-z0-9][-A-Za-z0-9_.]*$"
LONGEST_FILENAME = 255  # characters, all of one byte; what file systems take
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ParameterType:
    """What values of one type are.

    `canonical` gives equal values one form and leaves alone what is no value of the type. `empty` are the values that
    the type accepts, but that count as none.
    """

    schema: Callable[[Definition], Schema]
    empty: tuple[Value, ...] = ()
    canonical: Callable[[Value], Value] | None = None


def of(definition: Definition) -> ParameterType:
    """The row for a definition."""
    return _CREATABLE if definition.type == "enum" and definition.creatable else TYPES.get(definition.type, ANYTHING)


def _integer(value: Value) -> Value:
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _boolean(value: Value) -> Value:
    return _BOOLEANS.get(value, value) if isinstance(value, str) else value


def _integers(definition: Definition) -> Schema:
    schema: Schema = {
        "type": ["integer", "string"],
        "pattern": INTEGER,
        "errorMessage": dict.fromkeys(("type", "pattern"), "is not an integer"),
    }
    bounds = {"minimum": definition.minimum, "maximum": definition.maximum}
    return schema | {keyword: bound for keyword, bound in bounds.items() if bound is not None}


def _booleans(_: Definition) -> Schema:
    return {"enum": [True, False, *_BOOLEANS], "errorMessage": {"enum": "is not true or false"}}


def _enumerated(definition: Definition) -> Schema:
    values = list(dict.fromkeys(definition.valid_values))
    return {"enum": values, "errorMessage": {"enum": f"is not one of {listed(values)}"}}


def _creatable(definition: Definition) -> Schema:
    return {"type": "string", "examples": list(definition.valid_values)}


def _strings(_: Definition) -> Schema:
    return {"type": "string"}


def _filenames(_: Definition) -> Schema:
    message = "is not a plain name: letters, digits, `-`, `_` or `.`, beginning with a letter or digit"
    return {
        "type": "string",
        "maxLength": LONGEST_FILENAME,
        # The empty one, which counts as none, never comes this far.
        "pattern": FILENAME,
        "errorMessage": {"pattern": message},
    }


def _yaml(_: Definition) -> Schema:
    return {"type": "string", "format": formats.YAML, "errorMessage": {"format": "does not parse as YAML"}}


def _timezones(_: Definition) -> Schema:
    message = "is not the name of a time zone in IANA's database, such as `Europe/Berlin`"
    return {"type": "string", "format": formats.TIMEZONE, "errorMessage": {"format": message}}


def _lists(each: Callable[[Definition], Schema]) -> Callable[[Definition], Schema]:
    return lambda definition: {"type": "array", "items": each(definition)}


def _maps(each: Callable[[Definition], Schema]) -> Callable[[Definition], Schema]:
    return lambda definition: {"type": "object", "additionalProperties": each(definition)}


TYPES: dict[str, ParameterType] = {
    "string": ParameterType(_strings, empty=("",)),
    "filename": ParameterType(_filenames, empty=("",)),
    "timezone": ParameterType(_timezones),
    "int": ParameterType(_integers, canonical=_integer),
    "bool": ParameterType(_booleans, canonical=_boolean),
    "strings": ParameterType(_lists(_strings), empty=([],)),
    "metrics": ParameterType(_lists(_strings), empty=([],)),
    "enum": ParameterType(_enumerated),
    "enums": ParameterType(_lists(_enumerated), empty=([],)),
    "map": ParameterType(_maps(_strings), empty=({},)),
    "mapToEnum": ParameterType(_maps(_enumerated), empty=({},)),
    "yaml": ParameterType(_yaml, empty=("",)),
}
_CREATABLE = ParameterType(_creatable, empty=("",))
ANYTHING = ParameterType(lambda _: {}, empty=(None, "", [], {}))

ENUMERATED = frozenset({"enum", "enums", "mapToEnum"})
"""The types whose values stand in `validValues`."""

OPEN = ("telemetrySelector", "condition", "routes", "fraction", "fileLogSort", "awsCloudwatchNamedField")
"""The types whose values are for the collector alone."""

NAMES = (*TYPES, *OPEN)
"""All that a definition may say."""

MAPS = frozenset({"map", "mapToEnum"})
_LISTS = frozenset({"strings", "metrics", "enums"})
TAKES = {
    **dict.fromkeys(TYPES, "a string"),
    **dict.fromkeys(_LISTS, "a list of strings"),
    **dict.fromkeys(MAPS, "an object"),
    "int": "an integer",
    "bool": "true or false",
}
"""What values of each type are, in words."""


def is_of(value: Value, name: str) -> bool:
    """Whether a value has the type of this name, whatever else its definition asks of it."""
    if name in _LISTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, dict) if name in MAPS else is_entry(value, name)


def is_entry(value: Value, name: str) -> bool:
    """The same for a value of a single one, and for an entry of a list."""
    if name not in TYPES:
        return True
    if name == "int":
        number = _integer(value)
        return isinstance(number, int) and not isinstance(number, bool)
    if name == "bool":
        return isinstance(_boolean(value), bool)
    return isinstance(value, str)
