"""What a type says of its parameters, as frozen values.

Belongs here: reading definitions from the spec of a *Type. Does not: what they allow (`parameter_types`), nor whether
they make sense (`defining`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from reconciler.documents.values import Value


class Operator(StrEnum):
    """How a condition compares."""

    EQUALS = "equals"
    NOT_EQUALS = "notEquals"
    CONTAINS_ANY = "containsAny"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that must hold of another parameter."""

    name: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one parameter. A default of None is none; so is every empty one."""

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


def read(spec: Value) -> tuple[Definition, ...]:
    """The definitions of a type whose document fits its schema, in order; of one name, the first.

    What does not have the documented shape is passed over: a type in the store may be older than the schema.
    """
    found: dict[str, Definition] = {}
    for index, item in enumerate(_list(_dict(spec).get("parameters"))):
        definition = _definition(index, _dict(item))
        if definition is not None:
            found.setdefault(definition.name, definition)
    return tuple(found.values())


def is_empty(value: Value) -> bool:
    """Whether a value is none: nothing, or an empty text, list or map."""
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
        default=None if is_empty(default) else default,
        valid_values=tuple(value for value in _list(item.get("validValues")) if isinstance(value, str)),
        relevant_if=tuple(_conditions(item)),
        sensitive=options.get("sensitive") not in (None, False),  # whatever it says instead: rather hidden than shown
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
