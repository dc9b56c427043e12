"""Checks of a type by itself (do its definitions make sense?), and explanations of values that break its rules.

Violations are found one value at a time, and only as many as a person reads. If all were found at once, each missing
parameter would have a copy of all values, and each bad list entry a copy of all allowed values: the author of both
could fill the memory.
"""

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice

from reconciler.model import component_types, components, text, validators, violations
from reconciler.model.component_types import Condition, Definition, Operator, ParameterSchema
from reconciler.model.text import listed
from reconciler.model.validators import MISSING, Rules
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation

MOST = text.MOST_LINES + 1  # no reason tells more
UNKNOWN = "is not known"


def explain_violations(rules: Rules, values: Mapping[str, Value]) -> tuple[Violation, ...]:
    """Yield the first violations of `component_types`; pointers begin with the names. A value without a definition is
    reported at its key.
    """
    # If the parts give no violation, report the whole: a refused value must never pass because no reason was found.
    return tuple(islice(_each(rules, values), MOST)) or validators.broken(rules, dict(values))


def _each(rules: Rules, values: Mapping[str, Value]) -> Iterator[Violation]:
    properties: Mapping[str, ParameterSchema] = rules.schema["properties"]
    for name, value in values.items():
        if name in properties:
            yield from _of_value(rules.part(name, properties[name]), value, at=(name,))
        else:
            yield Violation((name,), UNKNOWN, at_key=True)
    for name in _required(rules, values):
        if name not in values:
            yield Violation((name,), MISSING)


def _of_value(rules: Rules, value: Value, *, at: Pointer) -> Iterator[Violation]:
    """Yield the violations of a value: of a list by its entries, of a map by its values."""
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
    """Yield the names of required parameters; those that are required by a condition come last."""
    yield from rules.schema.get("required", ())
    for index, conditional in enumerate(rules.schema.get("allOf", ())):
        if any(name not in values for name in conditional["then"]["required"]):
            held = {name: values[name] for name in _mentioned(conditional["if"]) if name in values}
            if rules.part(index, conditional["if"]).validator.is_valid(held):
                yield from conditional["then"]["required"]


def _mentioned(condition: ParameterSchema) -> set[str]:
    """Return the parameters that conditions name."""
    names: set[str] = set()
    for part in condition["allOf"]:
        while isinstance(part, dict) and "not" in part:
            part = part["not"]  # noqa: PLW2901 - the condition inside `not` matters too
        if isinstance(part, dict):
            names.update(part.get("properties", ()), part.get("required", ()))
    return names


AT: Pointer = ("spec", "parameters")

# Far above what people write: the largest types that are known have some hundred parameters.
MOST_PARAMETERS = 1_000
MOST_VALUES = 10_000  # of all `validValues`, and of the lists that conditions compare with
MOST_CONDITIONS = 100  # of one parameter
MOST_CONDITIONS_IN_ALL = 1_000
NEAR = 0.6  # of 1; the similarity at which a name may be a typing mistake
LONGEST_NAME = 100  # characters compared with the types: comparing takes the square of the length
MOST_SEARCHES = 100  # conditions `containsAny` in all: each takes memory for every entry of a list that it searches


def broken_definitions(spec: Value) -> tuple[Violation, ...]:
    """Return every rule that the definitions of a type break, in document order; its document fits its kind's
    schema.
    """
    listing = spec.get("parameters") if isinstance(spec, dict) else None
    if not isinstance(listing, list):
        return ()
    too_many = tuple(_too_many(listing))
    if too_many:
        return too_many  # all else would take time in proportion
    known = {definition.name: definition for definition in component_types.read_definitions(spec)}
    found = [
        *components.repeated_parameters(listing, at=AT),
        *(violation for definition in known.values() for violation in _alone(definition)),
        *_defaults(known),
        *_conditions(known),
    ]
    return violations.in_document_order(found, {"spec": spec})


def _too_many(listing: list[Value]) -> Iterator[Violation]:
    """Yield the limits that a type exceeds. They exist because every component is checked against the whole type."""
    each = [item for item in listing if isinstance(item, dict)]
    conditions = [given if isinstance(given := item.get("relevantIf"), list) else [] for item in each]
    whole = [one for some in conditions for one in some if isinstance(one, dict)]
    compared = [one.get("value") for one in whole]
    values = [value for value in (*(item.get("validValues") for item in each), *compared) if isinstance(value, list)]
    if len(listing) > MOST_PARAMETERS:
        yield Violation(AT, f"has more than {MOST_PARAMETERS:,} parameters; make several types of it")
    if sum(map(len, values)) > MOST_VALUES:
        yield Violation(AT, f"lists more than {MOST_VALUES:,} valid values in all; let some be any text")
    for index, some in enumerate(conditions):
        if len(some) > MOST_CONDITIONS:
            yield Violation((*AT, index, "relevantIf"), f"has more than {MOST_CONDITIONS:,} conditions; take some away")
    if sum(one.get("operator") == Operator.CONTAINS_ANY for one in whole) > MOST_SEARCHES:
        yield Violation(AT, f"has more than {MOST_SEARCHES:,} conditions `containsAny` in all; take some away")
    if sum(map(len, conditions)) > MOST_CONDITIONS_IN_ALL:
        yield Violation(AT, f"has more than {MOST_CONDITIONS_IN_ALL:,} conditions in all; take some away")


def _alone(definition: Definition) -> Iterator[Violation]:
    at = (*AT, definition.index)
    if definition.type not in component_types.NAMES:
        yield Violation((*at, "type"), _unknown_type(definition.type), recent=True)
    if definition.type in component_types.ENUMERATED and not definition.valid_values and not definition.creatable:
        yield Violation((*at, "validValues"), f"is required and not empty for the type `{definition.type}`")
    if definition.minimum is not None and definition.maximum is not None and definition.minimum > definition.maximum:
        yield Violation((*at, "minimum"), "is greater than `maximum`")


def _unknown_type(name: str) -> str:
    """Return the error for an unknown type, which names the nearest type, otherwise all of them."""
    close = difflib.get_close_matches(name[:LONGEST_NAME], component_types.NAMES, n=1, cutoff=NEAR)
    if close:
        return f"is not a type of parameters; did you mean `{close[0]}`?"
    return f"is not a type of parameters; the types are {listed(component_types.NAMES)}"


def _defaults(known: dict[str, Definition]) -> Iterator[Violation]:
    """Yield the defaults that their own definitions refuse. An empty default counts as none. Missing values are
    reported elsewhere.
    """
    judged = {
        name: definition
        for name, definition in known.items()
        if definition.default is not None
        and (definition.valid_values or definition.creatable or definition.type not in component_types.ENUMERATED)
    }
    if not judged:
        return
    rules = validators.compiled(component_types.values_schema(judged))
    values = {name: component_types.canonical_value(each, each.default) for name, each in judged.items()}
    for violation in explain_violations(rules, values):
        name, *below = violation.pointer
        yield Violation((*AT, judged[str(name)].index, "default", *below), violation.message)


def _conditions(known: dict[str, Definition]) -> Iterator[Violation]:
    """Yield the conditions on missing parameters, and on values that the other parameter cannot have."""
    for definition in known.values():
        for index, condition in enumerate(definition.relevant_if):
            at = (*AT, definition.index, "relevantIf", index)
            other = known.get(condition.name)
            if other is None:
                yield Violation((*at, "name"), "is not a parameter of this type")
            elif not _may_hold(condition, other):
                told = f"is another type than `{other.name}` has, which is `{other.type}`; compare with a value of that"
                yield Violation((*at, "value"), told, recent=True)


def _may_hold(condition: Condition, other: Definition) -> bool:
    """Return True if the value of a condition has the type of the parameter that it names. An empty one means none."""
    if component_types.is_empty_value(condition.value):
        return True
    if condition.operator is Operator.CONTAINS_ANY and other.type not in component_types.MAPS:
        each = condition.value if isinstance(condition.value, list) else [condition.value]
        return all(component_types.is_entry(one, other.type) for one in each)
    return component_types.is_of(condition.value, other.type)
