"""Types of components: parameter definitions, and the JSON Schema that they compile to.

The schema describes an object of values by name, each in the canonical form of its type, without those that count as
none. So equal values compare equal, and a condition of `relevantIf` sees the given value or the default.

Types of parameters that are not in the table accept any JSON: those of `OPEN`, and unknown types in a definition that
an earlier version stored.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.model import validators
from reconciler.model.text import listed
from reconciler.model.values import Value


class Operator(StrEnum):
    """The comparison of a condition."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    CONTAINS_ANY = "containsAny"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on another parameter."""

    name: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one parameter. A default of None, or an empty one, means no default."""

    index: int  # in the list of definitions
    name: str
    type: str
    label: str = ""
    description: str = ""
    required: bool = False
    default: Value = None
    valid_values: tuple[str, ...] = ()
    relevant_if: tuple[Condition, ...] = ()  # all must hold
    sensitive: bool = False
    creatable: bool = False  # an enum takes values beyond the valid ones
    minimum: int | None = None  # of an int
    maximum: int | None = None


def read_definitions(spec: Value) -> tuple[Definition, ...]:
    """Return the definitions of a valid type, in order; of several with one name, the first.

    Parts without the documented shape are skipped, because a stored type may be older than the schema.
    """
    found: dict[str, Definition] = {}
    for index, item in enumerate(_list(_dict(spec).get("parameters"))):
        definition = _definition(index, _dict(item))
        if definition is not None:
            found.setdefault(definition.name, definition)
    return tuple(found.values())


def is_empty_value(value: Value) -> bool:
    """Return True if a value counts as none: null, or an empty text, list or map."""
    return value is None or value in ("", [], {})


def _definition(index: int, item: dict[str, Value]) -> Definition | None:
    name, kind, default = item.get("name"), item.get("type"), item.get("default")
    if not isinstance(name, str) or not isinstance(kind, str):
        return None
    options = _dict(item.get("options"))
    return Definition(
        index=index,
        name=name,
        type=kind,
        label=_text(item.get("label")),
        description=_text(item.get("description")),
        required=item.get("required") is True,
        default=None if is_empty_value(default) else default,
        valid_values=tuple(value for value in _list(item.get("validValues")) if isinstance(value, str)),
        relevant_if=tuple(_conditions(item)),
        sensitive=options.get("sensitive") not in (None, False),  # any other value: better hidden than shown
        creatable=options.get("creatable") is True,
        minimum=_integer(item.get("minimum")),
        maximum=_integer(item.get("maximum")),
    )


def _conditions(item: dict[str, Value]) -> Iterator[Condition]:
    for each in map(_dict, _list(item.get("relevantIf"))):
        name, operator = each.get("name"), each.get("operator")
        if isinstance(name, str) and isinstance(operator, str) and operator in set(Operator):
            yield Condition(name, Operator(operator), each.get("value"))


def _dict(value: Value) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


ParameterSchema = dict[str, Any]

# 18 digits always fit in 64 bits. A larger number can be written without quotes.
INTEGER = "^-?[0-9]{1,18}$"
_INTEGER = re.compile(INTEGER[1:-1])
# No separator, and no dot at the beginning, so that it leads neither out of its folder nor to a hidden file.
FILENAME = "^[A-Za-z0-9][-A-Za-z0-9_.]*$"
LONGEST_FILENAME = 255  # characters, all of one byte; what file systems take
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ParameterType:
    """The rules for values of one type.

    `canonical` gives equal values one form and leaves a value of another type as it is. `empty` are values that the
    type accepts, but that count as none.
    """

    schema: Callable[[Definition], ParameterSchema]
    empty: tuple[Value, ...] = ()
    canonical: Callable[[Value], Value] | None = None


def parameter_type(definition: Definition) -> ParameterType:
    """Return the rules for the values of a definition."""
    return _CREATABLE if definition.type == "enum" and definition.creatable else TYPES.get(definition.type, ANYTHING)


def _integer_value(value: Value) -> Value:
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _boolean(value: Value) -> Value:
    return _BOOLEANS.get(value, value) if isinstance(value, str) else value


def _integers(definition: Definition) -> ParameterSchema:
    schema: ParameterSchema = {
        "type": ["integer", "string"],
        "pattern": INTEGER,
        "errorMessage": dict.fromkeys(("type", "pattern"), "is not an integer"),
    }
    bounds = {"minimum": definition.minimum, "maximum": definition.maximum}
    return schema | {keyword: bound for keyword, bound in bounds.items() if bound is not None}


def _booleans(_: Definition) -> ParameterSchema:
    return {"enum": [True, False, *_BOOLEANS], "errorMessage": {"enum": "is not true or false"}}


def _enumerated(definition: Definition) -> ParameterSchema:
    values = list(dict.fromkeys(definition.valid_values))
    return {"enum": values, "errorMessage": {"enum": f"is not one of {listed(values)}"}}


def _creatable(definition: Definition) -> ParameterSchema:
    return {"type": "string", "examples": list(definition.valid_values)}


def _strings(_: Definition) -> ParameterSchema:
    return {"type": "string"}


def _filenames(_: Definition) -> ParameterSchema:
    message = "is not a plain name: letters, digits, `-`, `_` or `.`, beginning with a letter or digit"
    return {
        "type": "string",
        "maxLength": LONGEST_FILENAME,
        # An empty value counts as missing and never comes here.
        "pattern": FILENAME,
        "errorMessage": {"pattern": message},
    }


def _yaml(_: Definition) -> ParameterSchema:
    return {"type": "string", "format": validators.YAML, "errorMessage": {"format": "does not parse as YAML"}}


def _timezones(_: Definition) -> ParameterSchema:
    message = "is not the name of a time zone in IANA's database, such as `Europe/Berlin`"
    return {"type": "string", "format": validators.TIMEZONE, "errorMessage": {"format": message}}


def _lists(each: Callable[[Definition], ParameterSchema]) -> Callable[[Definition], ParameterSchema]:
    return lambda definition: {"type": "array", "items": each(definition)}


def _maps(each: Callable[[Definition], ParameterSchema]) -> Callable[[Definition], ParameterSchema]:
    return lambda definition: {"type": "object", "additionalProperties": each(definition)}


TYPES: dict[str, ParameterType] = {
    "string": ParameterType(_strings, empty=("",)),
    "filename": ParameterType(_filenames, empty=("",)),
    "timezone": ParameterType(_timezones),
    "int": ParameterType(_integers, canonical=_integer_value),
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
"""The types of parameters whose allowed values are listed in `validValues`."""

OPEN = ("telemetrySelector", "condition", "routes", "fraction", "fileLogSort", "awsCloudwatchNamedField")
"""The types of parameters whose values only the Collector reads."""

NAMES = (*TYPES, *OPEN)
"""All types that a definition may have."""

MAPS = frozenset({"map", "mapToEnum"})
_LISTS = frozenset({"strings", "metrics", "enums"})


def is_of(value: Value, name: str) -> bool:
    """Return True if a value has the type of this name, apart from the other rules of its definition."""
    if name in _LISTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, dict) if name in MAPS else is_entry(value, name)


def is_entry(value: Value, name: str) -> bool:
    """Return True if a value has the type of this name, or is a valid entry if the type is a list."""
    if name not in TYPES:
        return True
    if name == "int":
        number = _integer_value(value)
        return isinstance(number, int) and not isinstance(number, bool)
    if name == "bool":
        return isinstance(_boolean(value), bool)
    return isinstance(value, str)


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class ComponentType:
    """A compiled type. Compiling takes some tenths of a millisecond, so keep it, and do not change it."""

    name: str
    definitions: Mapping[str, Definition] = field(repr=False)  # by name, in order
    types: Mapping[str, ParameterType] = field(repr=False)  # the type of each parameter
    defaults: Mapping[str, Value] = field(repr=False)  # in canonical form; none for a parameter without one
    open: frozenset[str] = field(repr=False)  # parameters whose values are no secrets by definition
    rules: validators.Rules = field(repr=False)

    @property
    def schema(self) -> ParameterSchema:
        """JSON Schema 2020-12."""
        return self.rules.schema


def compiled(name: str, definitions: Sequence[Definition]) -> ComponentType:
    """Compile a type from these definitions. The name is for messages."""
    by_name = {definition.name: definition for definition in definitions}
    defaults = {each.name: canonical_value(each, each.default) for each in definitions if each.default is not None}
    return ComponentType(
        name=name,
        definitions=by_name,
        types={each.name: parameter_type(each) for each in definitions},
        defaults=defaults,
        open=frozenset(each.name for each in definitions if not each.sensitive),
        rules=validators.compiled(_schema(name, by_name, defaults)),
    )


LARGE = 32 * 1024  # bytes of a spec. Compiled, it takes up to 80 times as much, so a larger type is not cached


def compiled_spec(name: str, spec: Value) -> ComponentType:
    """Compile the type with this `spec`. Equal small specs give the same object."""
    encoded = msgspec.json.encode(spec)
    return _compiled_encoded(name, encoded) if len(encoded) < LARGE else _compiled_encoded.__wrapped__(name, encoded)


@lru_cache(maxsize=128)
def _compiled_encoded(name: str, encoded: bytes) -> ComponentType:
    return compiled(name, read_definitions(msgspec.json.decode(encoded)))


def canonical_value(definition: Definition | None, value: Value) -> Value:
    """Return the canonical form of a parameter's value, for comparison: for an int, `"8080"` becomes 8080."""
    form = None if definition is None else parameter_type(definition).canonical
    return value if form is None else form(value)


def values_schema(definitions: Mapping[str, Definition]) -> ParameterSchema:
    """Return the schema of the values, without required names and conditions."""
    return {
        "type": "object",
        "properties": {name: _described(definition) for name, definition in definitions.items()},
        "additionalProperties": False,
    }


def _described(definition: Definition) -> ParameterSchema:
    about = {"title": definition.label, "description": definition.description, "default": definition.default}
    told = {keyword: text for keyword, text in about.items() if not is_empty_value(text)}
    return told | parameter_type(definition).schema(definition)


def _schema(name: str, definitions: Mapping[str, Definition], defaults: Mapping[str, Value]) -> ParameterSchema:
    needed = [each for each in definitions.values() if each.required and each.name not in defaults]
    schema = {"$schema": _DIALECT, "title": name, **values_schema(definitions)}
    always = [each.name for each in needed if not each.relevant_if]
    conditional = [
        {
            "if": {"allOf": [_holds(one, definitions=definitions, defaults=defaults) for one in each.relevant_if]},
            "then": {"required": [each.name]},
        }
        for each in needed
        if each.relevant_if
    ]
    return schema | ({"required": always} if always else {}) | ({"allOf": conditional} if conditional else {})


def _holds(
    condition: Condition, *, definitions: Mapping[str, Definition], defaults: Mapping[str, Value]
) -> dict[str, Any] | bool:
    """Return a schema of the values for which a condition holds. A missing parameter without a default counts as
    empty.
    """
    name, default = condition.name, defaults.get(condition.name)
    if condition.operator is Operator.CONTAINS_ANY:
        wanted = condition.value if isinstance(condition.value, list) else [condition.value]
        wanted = [canonical_value(definitions.get(name), each) for each in wanted]
        held = default if isinstance(default, list) else [default]
        by_default = default is not None and any(same_value(each, one) for each in held for one in wanted)
        among = {"enum": wanted}
        return _value(name, {"anyOf": [among, {"type": "array", "contains": among}]}, needed=not by_default)
    value = canonical_value(definitions.get(name), condition.value)
    equal: dict[str, Any] | bool
    if is_empty_value(value):
        equal = default is None and {"not": {"required": [name]}}
    else:
        equal = _value(name, {"const": value}, needed=default is None or not same_value(default, value))
    return {"not": equal} if condition.operator is Operator.NOT_EQUALS else equal


def _value(name: str, schema: ParameterSchema, *, needed: bool) -> ParameterSchema:
    return {"properties": {name: schema}} | ({"required": [name]} if needed else {})


def same_value(one: Value, other: Value) -> bool:
    """Return True if two values are equal in JSON, where 1 equals 1.0 but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(value, other[key]) for key, value in one.items())
    return one == other
