"""Why values by name break the rules of a type, found one value at a time and as far as somebody reads it.

Belongs here: taking a type's schema and the values apart. Does not: the schema (`component_types`), where the values
stand in a document (`conforming`, `defining`).

Told all at once, each missing parameter would come with a copy of all values, and each bad entry of a list with a copy
of all that are allowed: whoever writes both could fill the memory.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from reconciler.documents.values import Pointer, Value
from reconciler.resources import validators, violations
from reconciler.resources.parameter_types import Schema
from reconciler.resources.validators import MISSING, Rules
from reconciler.resources.violations import Violation

MOST = violations.MOST_LINES + 1  # no reason tells more
UNKNOWN = "is not known"


def broken(rules: Rules, values: Mapping[str, Value]) -> tuple[Violation, ...]:
    """The first ways in which values break the rules of `component_types`; pointers begin with the names.

    A value whose name no definition has is told at its key.
    """
    if rules.validator.is_valid(values):
        return ()
    # What the pieces do not tell, the whole does: a value that is refused must never pass for want of a reason.
    return tuple(islice(_each(rules, values), MOST)) or validators.broken(rules, dict(values))


def _each(rules: Rules, values: Mapping[str, Value]) -> Iterator[Violation]:
    properties: Mapping[str, Schema] = rules.schema["properties"]
    for name, value in values.items():
        if name in properties:
            yield from _of_value(rules.part(name, properties[name]), value, at=(name,))
        else:
            yield Violation((name,), UNKNOWN, at_key=True)
    for name in _required(rules, values):
        if name not in values:
            yield Violation((name,), MISSING)


def _of_value(rules: Rules, value: Value, *, at: Pointer) -> Iterator[Violation]:
    """A list by its entries and a map by its values."""
    items, others = rules.schema.get("items"), rules.schema.get("additionalProperties")
    if isinstance(value, list) and isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _below((*at, index), validators.broken(rules.part("items", items), item))
    elif isinstance(value, dict) and isinstance(others, dict):
        for key, item in value.items():
            yield from _below((*at, key), validators.broken(rules.part("others", others), item))
    else:
        yield from _below(at, validators.broken(rules, value))


def _below(at: Pointer, found: tuple[Violation, ...]) -> Iterator[Violation]:
    for one in found:
        yield Violation((*at, *one.pointer), one.message, at_key=one.at_key)


def _required(rules: Rules, values: Mapping[str, Value]) -> Iterator[str]:
    """The names that have to be there, those last whose conditions hold."""
    yield from rules.schema.get("required", ())
    for index, conditional in enumerate(rules.schema.get("allOf", ())):
        if any(name not in values for name in conditional["then"]["required"]):
            held = {name: values[name] for name in _mentioned(conditional["if"]) if name in values}
            if rules.part(index, conditional["if"]).validator.is_valid(held):
                yield from conditional["then"]["required"]


def _mentioned(condition: Schema) -> set[str]:
    """The parameters that conditions look at."""
    names: set[str] = set()
    for part in condition["allOf"]:
        while isinstance(part, dict) and "not" in part:
            part = part["not"]  # noqa: PLW2901 - what is denied is looked at all the same
        if isinstance(part, dict):
            names.update(part.get("properties", ()), part.get("required", ()))
    return names
