"""Defining: what a type says of its parameters has to make sense by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import component_types, type_definitions
from reconciler.model.text import listed
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation
from tests.model.documents import EXAMPLES, VALUES


def told(definitions: list[Value]) -> list[tuple[Pointer, str]]:
    found = type_definitions.broken_definitions({"parameters": definitions})
    assert not any(violation.of_parameter for violation in found)
    return [(violation.pointer[2:], violation.message) for violation in found]


def on(name: str, value: Value = "x") -> dict[str, Value]:
    return {"name": name, "operator": "equals", "value": value}


CONDITIONS: tuple[tuple[str, str, Value, bool], ...] = (
    ("string", "equals", "x", True),
    ("string", "equals", 5, False),
    ("string", "equals", None, True),
    ("enum", "notEquals", "another", True),
    ("enum", "equals", True, False),
    ("int", "equals", 5, True),
    ("int", "equals", "5", True),
    ("int", "equals", 5.0, True),
    ("int", "equals", 5.5, False),
    ("int", "equals", True, False),
    ("int", "equals", "five", False),
    ("int", "equals", "", True),
    ("int", "containsAny", [1, 2], True),
    ("int", "containsAny", [1, "two"], False),
    ("bool", "equals", True, True),
    ("bool", "equals", "true", True),
    ("bool", "equals", "yes", False),
    ("bool", "equals", 1, False),
    ("enums", "containsAny", ["x"], True),
    ("enums", "containsAny", "x", True),
    ("enums", "containsAny", [True], False),
    ("strings", "equals", ["x"], True),
    ("strings", "equals", "x", False),
    ("map", "equals", {"k": "v"}, True),
    ("map", "containsAny", ["k"], False),
    ("fraction", "equals", {"any": [1]}, True),
    ("unknown", "equals", 5, True),
)


@pytest.mark.parametrize(("name", "operator", "value", "may_hold"), CONDITIONS)
def test_a_condition_compares_with_a_value_of_the_type_that_it_names(
    name: str, operator: str, value: Value, *, may_hold: bool
) -> None:
    condition: dict[str, Value] = {"name": "b", "operator": operator, "value": value}
    definitions: list[Value] = [
        {"name": "a", "type": "int", "relevantIf": [condition]},
        {"name": "b", "type": name, "validValues": ["x"]},
    ]
    found = [
        one for one in type_definitions.broken_definitions({"parameters": definitions}) if "relevantIf" in one.pointer
    ]
    where = (*type_definitions.AT, 0, "relevantIf", 0, "value")
    message = f"is another type than `b` has, which is `{name}`; compare with a value of that"
    assert found == ([] if may_hold else [Violation(where, message, recent=True)])


@pytest.mark.parametrize(
    ("definitions", "expected"),
    [
        ([], []),
        ([{"name": "a", "type": "string", "default": "x"}], []),
        ([{"name": "a", "type": "int", "default": "5"}], []),
        ([{"name": "a", "type": "int", "default": 5.5}], [((0, "default"), "is not an integer")]),
        ([{"name": "a", "type": "int", "default": 5, "maximum": 4}], [((0, "default"), "is greater than 4")]),
        ([{"name": "a", "type": "int", "minimum": 5, "maximum": 4}], [((0, "minimum"), "is greater than `maximum`")]),
        ([{"name": "a", "type": "int", "minimum": 5, "maximum": 5}], []),
        ([{"name": "a", "type": "strings", "default": ["x", 5]}], [((0, "default", 1), "is not a string")]),
        ([{"name": "a", "type": "map", "default": {"k": 5}}], [((0, "default", "k"), "is not a string")]),
        ([{"name": "a", "type": "yaml", "default": "["}], [((0, "default"), "does not parse as YAML")]),
        # An empty default is none, of whatever type.
        ([{"name": "a", "type": "int", "default": ""}, {"name": "b", "type": "bool", "default": None}], []),
        ([{"name": "a", "type": "bool", "default": False}, {"name": "b", "type": "int", "default": 0}], []),
        ([{"name": "a", "type": "enum", "validValues": ["x"], "default": "x"}], []),
        ([{"name": "a", "type": "enum", "validValues": ["x"], "default": "y"}],
         [((0, "default"), "is not one of `x`")]),
        ([{"name": "a", "type": "enum", "validValues": ["x"], "default": "y", "options": {"creatable": True}}], []),
        ([{"name": "a", "type": "enum", "default": "x"}],
         [((0, "validValues"), "is required and not empty for the type `enum`")]),
        ([{"name": "a", "type": "enums", "validValues": []}],
         [((0, "validValues"), "is required and not empty for the type `enums`")]),
        ([{"name": "a", "type": "mapToEnum"}],
         [((0, "validValues"), "is required and not empty for the type `mapToEnum`")]),
        ([{"name": "a", "type": "enum", "options": {"creatable": True}}], []),
        ([{"name": "a", "type": "fraction", "default": {"any": [1]}}], []),
        ([{"name": "a", "type": "int"}, {"name": "a", "type": "int"}],
         [((1, "name"), "is the name of /spec/parameters/0 already; keep one of them")]),
        ([{"name": "a", "type": "int", "relevantIf": [on("b", 1), on("c")]}, {"name": "b", "type": "int"}],
         [((0, "relevantIf", 1, "name"), "is not a parameter of this type")]),
        # Two switches may exclude each other.
        (
            [
                {"name": "a", "type": "bool", "relevantIf": [on("b", False)]},
                {"name": "b", "type": "bool", "relevantIf": [on("a", False)]},
            ],
            [],
        ),
        ([{"name": "a", "type": "strnig"}],
         [((0, "type"), "is not a type of parameters; did you mean `string`?")]),
        ([{"name": "a", "type": "Int"}], [((0, "type"), "is not a type of parameters; did you mean `int`?")]),
        ([{"name": "a", "type": "9"}],
         [((0, "type"), f"is not a type of parameters; the types are {listed(component_types.NAMES)}")]),
    ],
)  # fmt: skip
def test_a_type_is_judged_by_its_own_definitions(definitions: list[Value], expected: list[tuple[Pointer, str]]) -> None:
    assert told(definitions) == expected


def test_a_long_chain_of_conditions_is_no_trouble() -> None:
    chain: list[Value] = [
        {"name": f"p{index}", "type": "int", "relevantIf": [on(f"p{index + 1}", 1)]} for index in range(990)
    ]

    assert [pointer for pointer, _ in told(chain)] == [(989, "relevantIf", 0, "name")]
    assert told([*chain, {"name": "p990", "type": "int", "relevantIf": [on("p0", 1)]}]) == []


TYPES = [document for document in EXAMPLES if document["kind"].endswith("Type")]


@pytest.mark.parametrize("document", TYPES, ids=lambda document: document["kind"] + "-" + document["metadata"]["name"])
def test_the_examples_make_sense(document: dict[str, Value]) -> None:
    assert type_definitions.broken_definitions(document.get("spec")) == ()


@given(VALUES, st.lists(st.fixed_dictionaries({"name": st.sampled_from("ab"), "type": st.sampled_from(
    ["int", "enum", "map", "other"])}, optional={"default": VALUES, "validValues": VALUES, "relevantIf": VALUES,
    "options": VALUES, "minimum": VALUES})))  # fmt: skip
def test_a_spec_of_any_shape_is_judged_without_a_crash(spec: Value, definitions: list[Value]) -> None:
    type_definitions.broken_definitions(spec)
    type_definitions.broken_definitions({"parameters": spec})
    type_definitions.broken_definitions({"parameters": [*definitions]})
