"""Compiled types: schemas that any validator understands, and conditions that see defaults."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, FormatChecker

from reconciler.model import builtins, component_types, type_checks, validators
from reconciler.model.component_types import ComponentType, Condition, Definition, Operator
from reconciler.model.values import Value
from tests.model.types import GIVEN, types

METASCHEMA = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def checker() -> FormatChecker:
    found = FormatChecker(formats=())
    for name, check in validators.STRING_FORMATS.items():
        found.checks(name)(lambda value, check=check: not isinstance(value, str) or check(value))
    return found


def built_in() -> list[ComponentType]:
    documents = builtins.built_in().items()
    return [
        component_types.compiled(key.name, component_types.read_definitions(document["spec"]))
        for key, document in documents
        if key.kind.endswith("Type")
    ]


@given(types(), GIVEN)
def test_jsonschema_gives_the_same_verdict(defined: list[Definition], given_: list[Value]) -> None:
    compiled = component_types.compiled("t", defined)
    values = type_checks.canonical_parameters(given_, compiled)
    oracle = Draft202012Validator(compiled.schema, format_checker=checker())

    assert (type_checks.broken_parameters(given_, compiled, at=()) == ()) == oracle.is_valid(values)


@given(types())
def test_every_compiled_type_fits_the_metaschema(defined: list[Definition]) -> None:
    schema = component_types.compiled("t", defined).schema

    assert list(METASCHEMA.iter_errors(schema)) == []
    assert list(patterns_out_of_line(schema)) == []


@pytest.mark.parametrize("compiled", built_in(), ids=lambda compiled: compiled.name)
def test_the_built_in_types_fit_the_metaschema(compiled: ComponentType) -> None:
    assert list(METASCHEMA.iter_errors(compiled.schema)) == []
    assert list(patterns_out_of_line(compiled.schema)) == []


def patterns_out_of_line(subschema: Any) -> Iterator[str]:
    """Patterns that are not anchored, or have classes whose meaning differs between engines."""
    if isinstance(subschema, list):
        for child in subschema:
            yield from patterns_out_of_line(child)
    elif isinstance(subschema, dict):
        pattern = subschema.get("pattern")
        if isinstance(pattern, str) and not re.fullmatch(r"\^[^\\]*\$", pattern):
            yield pattern
        for keyword, child in subschema.items():
            if keyword != "errorMessage":
                yield from patterns_out_of_line(child)


def definition(name: str, type_: str, **more: Any) -> Definition:
    return Definition(index=0, name=name, type=type_, **more)


def when(operator: str, value: Value) -> tuple[Condition, ...]:
    return (Condition("a", Operator(operator), value),)


@pytest.mark.parametrize(
    ("other", "condition", "given_", "relevant"),
    [
        (definition("a", "bool", default=True), when("equals", True), {}, True),
        (definition("a", "bool", default=True), when("equals", True), {"a": False}, False),
        (definition("a", "bool", default=True), when("equals", "true"), {}, True),
        (definition("a", "bool"), when("equals", True), {"a": "true"}, True),
        (definition("a", "bool"), when("equals", False), {}, False),
        (definition("a", "bool"), when("notEquals", True), {}, True),
        (definition("a", "bool", default=True), when("notEquals", True), {}, False),
        (definition("a", "int"), when("equals", "5"), {"a": 5.0}, True),
        (definition("a", "int"), when("equals", 1), {"a": True}, False),
        (definition("a", "string"), when("notEquals", ""), {}, False),
        (definition("a", "string"), when("notEquals", ""), {"a": ""}, False),
        (definition("a", "string"), when("notEquals", ""), {"a": "x"}, True),
        (definition("a", "string"), when("equals", ""), {}, True),
        (definition("a", "string", default="x"), when("equals", ""), {"a": ""}, False),
        (definition("a", "string", default="x"), when("equals", "x"), {"a": ""}, True),
        (definition("a", "enum", valid_values=("x", "y")), when("containsAny", ["x", "z"]), {"a": "x"}, True),
        (definition("a", "enum", valid_values=("x", "y")), when("containsAny", ["x", "z"]), {"a": "y"}, False),
        (definition("a", "strings"), when("containsAny", ["x", "z"]), {"a": ["y", "z"]}, True),
        (definition("a", "strings"), when("containsAny", "z"), {"a": ["y", "z"]}, True),
        (definition("a", "strings"), when("containsAny", ["x"]), {"a": ["y"]}, False),
        (definition("a", "strings"), when("containsAny", ["x"]), {}, False),
        (definition("a", "strings", default=["x"]), when("containsAny", ["x"]), {}, True),
        (definition("a", "strings", default=["x"]), when("containsAny", ["x"]), {"a": ["y"]}, False),
        (definition("a", "strings"), when("equals", ["x", "y"]), {"a": ["x", "y"]}, True),
        (definition("a", "strings"), when("equals", ["x", "y"]), {"a": ["y", "x"]}, False),
        (definition("b", "string"), when("equals", "x"), {}, False),  # on a parameter that nobody defined
    ],
)
def test_a_required_parameter_is_missed_when_it_is_relevant(
    other: Definition, condition: tuple[Condition, ...], given_: dict[str, Value], relevant: bool
) -> None:
    needed = definition("needed", "string", required=True, relevant_if=condition)
    compiled = component_types.compiled("t", [other, needed])
    listed: list[Value] = [{"name": name, "value": value} for name, value in given_.items()]

    found = type_checks.broken_parameters(listed, compiled, at=())

    assert ("`needed` is required and has no default" in {each.message for each in found}) is relevant


def test_all_conditions_have_to_hold() -> None:
    conditions = (Condition("a", Operator.EQUALS, "x"), Condition("b", Operator.EQUALS, "y"))
    needed = definition("needed", "string", required=True, relevant_if=conditions)
    compiled = component_types.compiled("t", [definition("a", "string"), definition("b", "string"), needed])

    def broken(**values: str) -> bool:
        return bool(
            type_checks.broken_parameters([{"name": n, "value": v} for n, v in values.items()], compiled, at=())
        )

    assert [broken(a="x"), broken(b="y"), broken(a="x", b="y"), broken(a="x", b="z")] == [False, False, True, False]


def test_what_is_settled_is_the_defaults_overlaid_with_values() -> None:
    [webhook] = [each for each in built_in() if each.name == "webhook"]

    settled = type_checks.settled_parameters(
        [{"name": "hostname", "value": "h"}, {"name": "port", "value": "443"}, {"name": "content_type", "value": ""}],
        webhook,
    )

    assert {name: settled.get(name) for name in ("hostname", "port", "content_type", "scheme", "path", "headers")} == {
        "hostname": "h",
        "port": 443,
        "content_type": "application/json",
        "scheme": "https",
        "path": None,
        "headers": None,
    }


def test_a_type_shows_no_definition_when_it_is_printed() -> None:
    defined = [definition("token", "string", default="canary", sensitive=True)]

    assert repr(component_types.compiled("t", defined)) == "ComponentType(name='t')"
