"""A type of components, made ready to judge values: its JSON Schema, compiled, and what follows from its definitions.

Belongs here: several parameters together: which are known, required and when, what they are if left out. Does not:
single values (`parameter_types`), parameters as documents write them (`conforming`).

The schema describes an object of values by name, each in canonical form, those that count as none left out. Under it
a condition of `relevantIf` sees what was given, and where nothing was, the default, which is known beforehand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.documents.values import Value
from reconciler.resources import canonical, parameter_types, validators
from reconciler.resources.definitions import Condition, Definition, Operator, is_empty
from reconciler.resources.parameter_types import ParameterType, Schema

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class ComponentType:
    """A type, compiled. Costs some tenths of a millisecond to make, so keep it; nobody may change what is inside."""

    name: str
    definitions: Mapping[str, Definition] = field(repr=False)  # by name, in order
    types: Mapping[str, ParameterType] = field(repr=False)  # the type of each parameter
    defaults: Mapping[str, Value] = field(repr=False)  # in canonical form; none for a parameter without one
    open: frozenset[str] = field(repr=False)  # parameters whose values are no secrets by definition
    rules: validators.Rules = field(repr=False)

    @property
    def schema(self) -> Schema:
        """JSON Schema 2020-12."""
        return self.rules.schema


def compiled(name: str, definitions: Sequence[Definition]) -> ComponentType:
    """The type of this name, for messages, with these definitions."""
    by_name = {definition.name: definition for definition in definitions}
    defaults = {each.name: canonical_value(each, each.default) for each in definitions if each.default is not None}
    return ComponentType(
        name=name,
        definitions=by_name,
        types={each.name: parameter_types.of(each) for each in definitions},
        defaults=defaults,
        open=frozenset(each.name for each in definitions if not each.sensitive),
        rules=validators.compiled(_schema(name, by_name, defaults)),
    )


def canonical_value(definition: Definition | None, value: Value) -> Value:
    """The form in which values of a parameter are compared: of an int `"8080"` is 8080."""
    form = None if definition is None else parameter_types.of(definition).canonical
    return value if form is None else form(value)


def values_schema(definitions: Mapping[str, Definition]) -> Schema:
    """What each value has to be, without what has to be there."""
    return {
        "type": "object",
        "properties": {name: _described(definition) for name, definition in definitions.items()},
        "additionalProperties": False,
    }


def _described(definition: Definition) -> Schema:
    about = {"title": definition.label, "description": definition.description, "default": definition.default}
    told = {keyword: text for keyword, text in about.items() if not is_empty(text)}
    return told | parameter_types.of(definition).schema(definition)


def _schema(name: str, definitions: Mapping[str, Definition], defaults: Mapping[str, Value]) -> Schema:
    needed: dict[bytes, tuple[tuple[Condition, ...], list[str]]] = {}
    for each in definitions.values():
        if each.required and each.name not in defaults:
            needed.setdefault(_identity(each.relevant_if), (each.relevant_if, []))[1].append(each.name)
    schema = {"$schema": _DIALECT, "title": name, **values_schema(definitions)}
    conditional = []
    for conditions, names in needed.values():
        if conditions:
            holding = [_holds(condition, definitions=definitions, defaults=defaults) for condition in conditions]
            conditional.append({"if": {"allOf": holding}, "then": {"required": names}})
        else:
            schema["required"] = names
    return schema | ({"allOf": conditional} if conditional else {})


def _identity(conditions: tuple[Condition, ...]) -> bytes:
    """Equal for equal conditions; parameters that matter at the same time share one `if`."""
    return canonical.encode([[each.name, each.operator.value, each.value] for each in conditions])


def _holds(
    condition: Condition, *, definitions: Mapping[str, Definition], defaults: Mapping[str, Value]
) -> dict[str, Any] | bool:
    """The schema of values under which a condition holds. A parameter that is none, and has no default, is empty."""
    name, default = condition.name, defaults.get(condition.name)
    if condition.operator is Operator.CONTAINS_ANY:
        wanted = condition.value if isinstance(condition.value, list) else [condition.value]
        wanted = [canonical_value(definitions.get(name), each) for each in wanted]
        held = default if isinstance(default, list) else [default]
        by_default = default is not None and any(same(each, one) for each in held for one in wanted)
        among = {"enum": wanted}
        return _value(name, {"anyOf": [among, {"type": "array", "contains": among}]}, needed=not by_default)
    value = canonical_value(definitions.get(name), condition.value)
    equal: dict[str, Any] | bool
    if is_empty(value):
        equal = default is None and {"not": {"required": [name]}}
    else:
        equal = _value(name, {"const": value}, needed=default is None or not same(default, value))
    return {"not": equal} if condition.operator is Operator.NOT_EQUALS else equal


def _value(name: str, schema: Schema, *, needed: bool) -> Schema:
    return {"properties": {name: schema}} | ({"required": [name]} if needed else {})


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal in JSON, where 1 is 1.0 but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return one == other
