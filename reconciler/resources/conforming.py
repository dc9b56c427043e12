"""Whether the parameters of a component are what its type defines.

Belongs here: the values of one component against one type, each violation at its place. Does not: what a type allows
(`component_types`), which components a document holds (`components`), what to do about violations.

A value is judged by its type first. One that the type takes, but that is empty, is a missing one: a default, if there
is one, stands in for it.
"""

from dataclasses import replace

from reconciler.documents.values import Pointer, Value
from reconciler.resources import explaining, parameters, validators, violations
from reconciler.resources.component_types import ComponentType
from reconciler.resources.violations import Violation
from reconciler.resources.words import listed


def broken(given: list[Value], component_type: ComponentType, *, at: Pointer) -> tuple[Violation, ...]:
    """Every rule of the type that a list of parameters breaks, in document order.

    `given` has the shape that the schemas ask for, `[{name, value}, ...]`; `at` is its pointer in the document.
    """
    values = canonical(given, component_type)
    found = explaining.broken(component_type.rules, values)
    twice = tuple(parameters.repeated(given, at=at)) if len(values) < len(given) else ()
    if not found and not twice:
        return ()
    index: dict[Value, int] = {}
    for position, parameter in enumerate(given):
        index.setdefault(_name(parameter), position)
    placed = [_placed(violation, index, component_type) for violation in found]
    ordered = violations.in_document_order(placed, given)
    return (*(_below(at, violation) for violation in ordered), *twice)


def canonical(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """The values by name, in canonical form, those left out that count as none; of one name the first."""
    values: dict[str, Value] = {}
    types = component_type.types
    for parameter in given:
        if not isinstance(parameter, dict):
            continue
        name = parameter.get("name")
        if not isinstance(name, str) or name in values:
            continue
        value, type_ = parameter.get("value"), types.get(name)
        if type_ is None:
            values[name] = value
        elif value not in type_.empty:
            values[name] = value if type_.canonical is None else type_.canonical(value)
    return values


def settled(given: list[Value], component_type: ComponentType) -> dict[str, Value]:
    """What each parameter is: the defaults, overlaid with the values that are given."""
    return {**component_type.defaults, **canonical(given, component_type)}


def _placed(violation: Violation, index: dict[Value, int], component_type: ComponentType) -> Violation:
    """A violation among values by name, as one in the list of parameters."""
    name, *below = violation.pointer
    position = index.get(name)
    if violation.at_key and not below:
        return replace(_parameter((position or 0, "name"), _unknown(component_type)), of_unknown=True)
    if position is None:
        return _parameter((), f"`{name}` is required and has no default")
    if not below and violation.message == validators.MISSING:
        return _parameter((position, "value"), f"is empty; `{name}` is required and has no default")
    return _parameter((position, "value", *below), violation.message)


def _unknown(component_type: ComponentType) -> str:
    names = list(component_type.definitions)
    known = f"its parameters are {listed(names)}" if names else "it has none"
    return f"is not a parameter of the type `{component_type.name}`; {known}"


def _parameter(pointer: Pointer, message: str) -> Violation:
    return Violation(pointer, message, of_parameter=True)


def _below(at: Pointer, violation: Violation) -> Violation:
    return replace(violation, pointer=(*at, *violation.pointer))


def _name(parameter: Value) -> Value:
    name = parameter.get("name") if isinstance(parameter, dict) else None
    return name if isinstance(name, str) else None
