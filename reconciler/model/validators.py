"""JSON Schema validation, with the formats and the label rules that JSON Schema lacks. Only this module imports
jsonschema-rs.

The library's messages quote the value, which may be a secret. Ours name the allowed values instead.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError, ValidationErrorKind

import schemas
from reconciler.model import documents, positions
from reconciler.model.names import Kind
from reconciler.model.text import listed
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation

YAML = "yaml"
TIMEZONE = "timezone"


def is_yaml(text: str) -> bool:
    """Return True if the text parses as YAML, and is no larger than a file may be. It may have tags and merge keys,
    which resources may not, because a Collector reads it.
    """
    try:
        documents.locate(text.encode(), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    except documents.DocumentError:
        return False
    return True


def is_timezone(text: str) -> bool:
    """Return True if the text is the name of a time zone in IANA's database; case matters."""
    return text in _time_zones()


@cache
def _time_zones() -> frozenset[str]:
    return schemas.time_zones()


STRING_FORMATS: Mapping[str, Callable[[str], bool]] = MappingProxyType({YAML: is_yaml, TIMEZONE: is_timezone})


MOST_LABELS = 1_000  # in one place; nobody writes more by hand
LABEL_PLACES: tuple[tuple[str, ...], ...] = (("metadata", "labels"), ("spec", "selector", "matchLabels"))


def crowded_labels(document: Value) -> tuple[Violation, ...]:
    """Return a violation for each place with too many labels."""
    found = [at for at in LABEL_PLACES if len(_at(document, at)) > MOST_LABELS]
    return (
        tuple(Violation(at, f"has more than {MOST_LABELS:,} labels; take some away") for at in found) if found else ()
    )


def without_labels(document: Value, at: tuple[str, ...]) -> tuple[Value, dict[str, Value]]:
    """Return the document without the labels in a place, and these labels; the same object if there are none."""
    mapping = _at(document, at)
    return (_emptied(document, at), mapping) if mapping else (document, {})


def _at(value: Value, at: tuple[str, ...]) -> dict[str, Value]:
    for step in at:
        if not isinstance(value, dict):
            return {}
        value = value.get(step)
    return value if isinstance(value, dict) else {}


def _emptied(value: Value, at: tuple[str, ...]) -> Value:
    if not at:
        return {}
    step = at[0]
    return {**value, step: _emptied(value[step], at[1:])} if isinstance(value, dict) else value


_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}

MISSING = "is required"


@dataclass(frozen=True, slots=True)
class Rules:
    """A schema and its compiled form."""

    schema: dict[str, Any] = field(repr=False)
    validator: Draft202012Validator = field(repr=False)
    _parts: "dict[str | int, Rules]" = field(default_factory=dict, repr=False, compare=False)

    def part(self, name: str | int, schema: dict[str, Any]) -> "Rules":
        """Return a subschema, which is compiled at the first call with this name."""
        if name not in self._parts:
            self._parts[name] = compiled(schema)
        return self._parts[name]


def compiled(schema: dict[str, Any]) -> Rules:
    """Return the rules of a schema, with `format`. Do not change the schema afterwards."""
    return Rules(schema, Draft202012Validator(schema, formats=dict(STRING_FORMATS), validate_formats=True))


def violations(kind: Kind | None, value: Value) -> tuple[Violation, ...]:
    """Return the violations of the schema of a document's kind, or without a kind, of the common schema.

    The value comes from a reader, so it has no NaN and no lone surrogate.
    """
    rules = _rules(schemas.ENVELOPE if kind is None else kind.name)
    crowded = crowded_labels(value)
    if not crowded and rules.validator.is_valid(value):
        return ()
    rest, found = value, list[Violation]()
    for at in LABEL_PLACES:
        rest, mapping = without_labels(rest, at)
        if at not in {one.pointer for one in crowded}:
            found += _of_labels(rules, mapping, at=at)
    return (*crowded, *found, *broken(rules, rest))


def _of_labels(rules: Rules, mapping: dict[str, Value], *, at: Pointer) -> Iterator[Violation]:
    """Yield the violations of labels, one at a time: the library copies all labels into the error for each."""
    schema = {"$ref": "#/$defs/labels", "$defs": rules.schema["$defs"]}
    for key, value in mapping.items():
        for one in broken(rules.part("labels", schema), {key: value}):
            yield Violation((*at, *one.pointer), one.message, at_key=one.at_key)


def broken(rules: Rules, value: Value) -> tuple[Violation, ...]:
    """Return the violations of rules by a value, with pointers from the value down.

    The library makes all errors at once, each with a copy of the surrounding value and of the allowed ones. So a value
    that may break many rules at one place must be judged in pieces.
    """
    if rules.validator.is_valid(value):
        return ()
    return tuple(found for error in rules.validator.iter_errors(value) for found in _explain(error, rules.schema))


@cache
def _rules(name: str) -> Rules:
    return compiled(schemas.load(name))


def _explain(error: ValidationError, schema: dict[str, Any]) -> Iterator[Violation]:
    """Yield one violation per error; for unknown keys, one per key."""
    pointer = tuple(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(property=key):
            yield Violation((*pointer, key), MISSING)
        case ValidationErrorKind.AdditionalProperties(unexpected=keys):
            message = _unknown_key(_parent(error, schema))
            yield from (Violation((*pointer, key), message, at_key=True) for key in keys)
        case ValidationErrorKind.PropertyNames(error=inner):
            yield Violation((*pointer, str(inner.instance)), _message(inner, schema), at_key=True)
        case _:
            yield Violation(pointer, _message(error, schema))


def _message(error: ValidationError, schema: dict[str, Any]) -> str:
    keyword = error.kind.name
    told = _parent(error, schema).get("errorMessage")
    if isinstance(told, dict) and keyword in told:
        return str(told[keyword])
    if keyword in {"not", "pattern"}:
        return str(told or "is not allowed here")
    text = MESSAGES.get(keyword)
    return f"breaks the rule `{keyword}`" if text is None else text(error.kind.value)


def _parent(error: ValidationError, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the subschema with the failed keyword. The library has resolved references in schema paths."""
    subschema: Any = schema
    for step in error.schema_path[:-1]:
        subschema = subschema[step]
    return subschema if isinstance(subschema, dict) else {}


def _unknown_key(subschema: dict[str, Any]) -> str:
    return f"is not a known field; the fields here are {listed(tuple(subschema.get('properties', ())))}"


def _any_of(branches: Sequence[Sequence[ValidationError]]) -> str:
    """Return the message for `anyOf`. In our schemas, each alternative is one required field."""
    fields = [error.kind.value for errors in branches for error in errors if error.kind.name == "required"]
    return f"needs one of {listed(fields)}"


def _type(types: Sequence[str]) -> str:
    return "is not " + " or ".join(_TYPES[name] for name in types if name != "null" or len(types) == 1)


MESSAGES: dict[str, Callable[[Any], str]] = {
    "anyOf": _any_of,
    "const": lambda value: f"is not {listed([value])}",
    "enum": lambda values: f"is not one of {listed([value for value in values if value is not None])}",
    "maxItems": lambda limit: f"has more than {limit} entries",
    "maxLength": lambda limit: f"is longer than {limit} characters",
    "minLength": lambda limit: "is empty" if limit == 1 else f"is shorter than {limit} characters",
    "maximum": lambda limit: f"is greater than {limit}",
    "minimum": lambda limit: f"is less than {limit}",
    "type": _type,
}
"""The message for each failed keyword, given the keyword's value in the schema."""
