"""Types to test with: what a parameter of each type accepts, written anew, and random types with random values."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from reconciler.model import documents, positions
from reconciler.model.component_types import Condition, Definition, Operator
from reconciler.model.values import Value
from tests.model.documents import VALUES

TYPES = [
    "string",
    "filename",
    "timezone",
    "int",
    "bool",
    "strings",
    "metrics",
    "enum",
    "enums",
    "map",
    "mapToEnum",
    "yaml",
    "fraction",
]
NAMES = ["a", "b", "c", "d"]
TEXTS = ["", "x", "y", "z", "5", "-7", "true", "false", "UTC", "a: [", "05", "1.5", "canary"]
VALUE: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, False, 0, 1, 5, -7, 5.5, 2.0**60, [], {}, [[]], [""]]),
    st.lists(st.sampled_from(["x", "y", "z", "", 5]), max_size=3),
    st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["x", "y", 5, None, ""]), max_size=2),
    VALUES,
)
CONDITION = st.builds(
    Condition, name=st.sampled_from([*NAMES, "nowhere"]), operator=st.sampled_from(Operator), value=VALUE
)
LIMIT = st.one_of(st.none(), st.integers(-10, 10))


@st.composite
def types(draw: st.DrawFn) -> list[Definition]:
    """Definitions that fit the schema of their kind; their sense is not looked at, save that defaults fit."""
    found = []
    for index, name in enumerate(draw(st.lists(st.sampled_from(NAMES), unique=True))):
        definition = Definition(
            index=index,
            name=name,
            type=draw(st.sampled_from(TYPES)),
            required=draw(st.booleans()),
            valid_values=tuple(draw(st.lists(st.sampled_from(["x", "y", "5"]), max_size=3))),
            relevant_if=tuple(draw(st.lists(CONDITION, max_size=2))),
            creatable=draw(st.booleans()),
            minimum=draw(LIMIT),
            maximum=draw(LIMIT),
        )
        default = draw(VALUE)
        if accepted(definition, default) and default not in (None, "", [], {}):
            definition = Definition(**{**fields(definition), "default": default})
        found.append(definition)
    return found


GIVEN: st.SearchStrategy[list[Value]] = st.dictionaries(st.sampled_from([*NAMES, "nowhere"]), VALUE).map(
    lambda values: [{"name": name, "value": value} for name, value in values.items()]
)


def fields(definition: Definition) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in Definition.__slots__}


def integer(value: Value) -> int | None:
    """The integer that a value means to an `int`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.lstrip("-").isascii() and value.removeprefix("-").isdigit() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) else None


def accepted(definition: Definition, value: Value) -> bool:  # noqa: PLR0911
    """Return True when a parameter takes a value, by the table of types alone."""
    match definition.type:
        case "string":
            return isinstance(value, str)
        case "filename":
            return isinstance(value, str) and (
                not value or re.fullmatch(r"[A-Za-z0-9][\w.-]{0,254}", value, re.A) is not None
            )
        case "timezone":
            return value == "UTC"
        case "int":
            number = integer(value)
            low, high = definition.minimum, definition.maximum
            return number is not None and (low is None or low <= number) and (high is None or number <= high)
        case "bool":
            return isinstance(value, bool) or value in ("true", "false")
        case "strings" | "metrics":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "enum":
            return isinstance(value, str) and (definition.creatable or value in definition.valid_values)
        case "enums":
            return isinstance(value, list) and all(each in definition.valid_values for each in value)
        case "map":
            return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        case "mapToEnum":
            return isinstance(value, dict) and all(each in definition.valid_values for each in value.values())
        case "yaml":
            return isinstance(value, str) and parses(value)
        case _:
            return True


def parses(text: str) -> bool:
    try:
        documents.locate(text.encode(), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    except documents.DocumentError:
        return False
    return True


def meant(definition: Definition | None, value: Value) -> Value:
    """A value as it is compared."""
    if definition is not None and definition.type == "int" and integer(value) is not None:
        return integer(value)
    if definition is not None and definition.type == "bool" and isinstance(value, str):
        return {"true": True, "false": False}.get(value, value)
    return value


def taken_as_none(definition: Definition | None, value: Value) -> bool:
    return value in (None, "", [], {}) and definition is not None and accepted(definition, value)


def effective(definitions: Sequence[Definition], values: Mapping[str, Value]) -> dict[str, Value]:
    """The defaults overlaid with what is given and not empty."""
    known = {each.name: each for each in definitions}
    defaults = {each.name: each.default for each in definitions if each.default is not None}
    given = {name: value for name, value in values.items() if not taken_as_none(known.get(name), value)}
    return {name: meant(known.get(name), value) for name, value in {**defaults, **given}.items()}


def holds(condition: Condition, *, values: Mapping[str, Value], known: Mapping[str, Definition]) -> bool:
    definition = known.get(condition.name)
    value = values.get(condition.name)
    if condition.operator is Operator.CONTAINS_ANY:
        wanted = condition.value if isinstance(condition.value, list) else [condition.value]
        held = value if isinstance(value, list) else [value]
        both = [*held] if isinstance(value, list) else []
        candidates = [*both, value] if isinstance(value, list) else held
        return condition.name in values and any(
            text(each) == text(meant(definition, one)) for each in candidates for one in wanted
        )
    if condition.value in (None, "", [], {}):
        equal = condition.name not in values
    else:
        equal = condition.name in values and text(value) == text(meant(definition, condition.value))
    return equal == (condition.operator is Operator.EQUALS)


def text(value: Value) -> str:
    """Equal for values that JSON calls equal."""
    return json.dumps(integral(value), sort_keys=True)


def integral(value: Value) -> Value:
    if isinstance(value, list):
        return [integral(each) for each in value]
    if isinstance(value, dict):
        return {key: integral(each) for key, each in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def wrong(definitions: Sequence[Definition], given: Sequence[Any]) -> tuple[set[str], set[str], set[str]]:
    """By the rules themselves: the names that are unknown, have a bad value, are missing."""
    known = {each.name: each for each in definitions}
    values = {each["name"]: each["value"] for each in given}
    settled = effective(definitions, values)
    return (
        values.keys() - known.keys(),
        {name for name, value in values.items() if name in known and not accepted(known[name], value)},
        {
            each.name
            for each in definitions
            if each.required
            and each.name not in settled
            and all(holds(condition, values=settled, known=known) for condition in each.relevant_if)
        },
    )
