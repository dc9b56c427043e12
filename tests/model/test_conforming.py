"""Conforming: each parameter is judged by its type, and no message holds its value."""

from typing import Any

import pytest
from hypothesis import given

from reconciler.model import component_types, type_checks
from reconciler.model.component_types import ComponentType, Definition
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from tests.model.documents import VALUES
from tests.model.types import GIVEN, TYPES, types, wrong

AT = ("spec", "parameters")


def typed(type_: str, **more: Any) -> ComponentType:
    return component_types.compiled("t", [Definition(index=0, name="a", type=type_, **more)])


STRING, INTEGER, BOOLEAN, LIST, OBJECT = (
    "is not a string", "is not an integer", "is not true or false", "is not a list", "is not an object",
)  # fmt: skip
PLAIN = "is not a plain name: letters, digits, `-`, `_` or `.`, beginning with a letter or digit"
ZONE = "is not the name of a time zone in IANA's database, such as `Europe/Berlin`"
XY = ("x", "y")
NOT_XY = "is not one of `x`, `y`"


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        (typed("string"), ["", "x", "é", "5"], [(5, STRING), (None, STRING), (True, STRING), ({}, STRING)]),
        (
            typed("filename"),
            ["", "x", "5", "a-b_c.d", "a..", "x" * 255],
            [*((bad, PLAIN) for bad in ["..", ".", ".x", "-x", "_x", "a/b", "../../etc", "/etc", "a\\b", "a b", "é",
                                        "a\n", "\na", "a\0", "${env:X}"]),
             ("x" * 256, "is longer than 255 characters"), (5, STRING), (None, STRING), (["x"], STRING)],
        ),
        (typed("timezone"), ["UTC", "Europe/Berlin"], [("", ZONE), ("Mars", ZONE), (5, STRING)]),
        (
            typed("int"),
            [0, -5, 5.0, 1e300, "8080", "-1", "007", 2**64 - 1],
            [("", INTEGER), ("x", INTEGER), ("5.0", INTEGER), ("1" * 19, INTEGER), ("+5", INTEGER), ("5\n", INTEGER),
             ("\u0665", INTEGER), (5.5, INTEGER), (True, INTEGER), (None, INTEGER), ([5], INTEGER)],
        ),
        (
            typed("int", minimum=1, maximum=65535),
            [1, 65535, "65535", 8080.0],
            [(0, "is less than 1"), ("0", "is less than 1"), (65536, "is greater than 65535"),
             ("99999", "is greater than 65535"), (1e300, "is greater than 65535")],
        ),
        (typed("bool"), [True, False, "true", "false"],
         [("True", BOOLEAN), ("yes", BOOLEAN), (1, BOOLEAN), (0, BOOLEAN), ("", BOOLEAN), (None, BOOLEAN)]),
        (typed("strings"), [[], ["x", ""]], [("x", LIST), ({}, LIST), (None, LIST)]),
        (typed("metrics"), [[], ["x"]], [("x", LIST)]),
        (typed("enum", valid_values=XY), ["x", "y"], [("z", NOT_XY), ("", NOT_XY), (5, NOT_XY), (["x"], NOT_XY)]),
        (typed("enum", valid_values=("true", "5")), ["true", "5"],
         [(True, "is not one of `true`, `5`"), (5, "is not one of `true`, `5`")]),
        (typed("enum", valid_values=XY, creatable=True), ["x", "z", ""], [(5, STRING)]),
        (typed("enums", valid_values=XY), [[], ["x"], ["x", "y", "x"]], [("x", LIST)]),
        (typed("map"), [{}, {"k": "v", "": ""}], [([], OBJECT), ("x", OBJECT)]),
        (typed("mapToEnum", valid_values=XY), [{}, {"k": "x"}], [(["x"], OBJECT)]),
        (typed("yaml"), ["", "a: [1]", "${env:X}"], [("a: [", "does not parse as YAML"), ({"a": 1}, STRING)]),
        (typed("telemetrySelector"), [None, 5, "x", [], {"a": [None]}], []),
        (typed("whatever"), [None, 5, "x", [], {"a": [None]}], []),
    ],
    ids=lambda case: case.definitions["a"].type if isinstance(case, ComponentType) else "",
)  # fmt: skip
def test_each_type_accepts_what_the_table_says(
    type_: ComponentType, good: list[Value], bad: list[tuple[Value, str]]
) -> None:
    for value in good:
        assert type_checks.broken_parameters([{"name": "a", "value": value}], type_, at=AT) == (), value
    for value, message in bad:
        assert type_checks.broken_parameters([{"name": "a", "value": value}], type_, at=AT) == (
            Violation((*AT, 0, "value"), message, of_parameter=True),
        ), value


@pytest.mark.parametrize(
    ("type_", "value", "below", "message"),
    [
        (typed("strings"), ["x", 5], (1,), STRING),
        (typed("enums", valid_values=XY), ["x", "z"], (1,), NOT_XY),
        (typed("map"), {"k": "v", "l": 5}, ("l",), STRING),
        (typed("mapToEnum", valid_values=XY), {"k": "z"}, ("k",), NOT_XY),
    ],
)
def test_a_violation_inside_a_value_points_there(
    type_: ComponentType, value: Value, below: tuple[str | int, ...], message: str
) -> None:
    assert type_checks.broken_parameters([{"name": "a", "value": value}], type_, at=AT) == (
        Violation((*AT, 0, "value", *below), message, of_parameter=True),
    )


@pytest.mark.parametrize("type_", TYPES)
def test_an_empty_value_is_a_missing_one(type_: str) -> None:
    needed = typed(type_, required=True, valid_values=XY)
    by_default = typed(type_, required=True, valid_values=XY, default="true")
    empties: list[Value] = ["", [], {}, None]
    for empty in empties:
        listed: list[Value] = [{"name": "a", "value": empty}]

        assert type_checks.broken_parameters(listed, needed, at=AT) != (), empty
        # Where the type takes it, the default stands in; else it is a bad value.
        assert type_checks.broken_parameters(listed, by_default, at=AT) == type_checks.broken_parameters(
            listed, typed(type_, valid_values=XY), at=AT
        )


def test_everything_that_is_wrong_is_told_in_document_order() -> None:
    type_ = component_types.compiled(
        "nginx",
        [
            Definition(index=0, name="endpoint", type="string", required=True),
            Definition(index=1, name="token", type="string", required=True),
            Definition(index=2, name="retries", type="int", maximum=9),
        ],
    )
    listed: list[Value] = [
        {"name": "tokne", "value": "canary"},
        {"name": "retries", "value": "10"},
        {"name": "endpoint", "value": ""},
        {"name": "retries", "value": "canary"},
    ]
    known = "its parameters are `endpoint`, `token`, `retries`"

    assert type_checks.broken_parameters(listed, type_, at=AT) == (
        Violation(AT, "`token` is required and has no default", of_parameter=True),
        Violation(
            (*AT, 0, "name"), f"is not a parameter of the type `nginx`; {known}", of_parameter=True, of_unknown=True
        ),
        Violation((*AT, 1, "value"), "is greater than 9", of_parameter=True),
        Violation((*AT, 2, "value"), "is empty; `endpoint` is required and has no default", of_parameter=True),
        # Two values for one name are no matter of the parameter's value: nobody may let it pass.
        Violation((*AT, 3, "name"), "is the name of /spec/parameters/1 already; keep one of them"),
    )


def test_a_type_without_parameters_says_so() -> None:
    [found] = type_checks.broken_parameters([{"name": "a", "value": 1}], component_types.compiled("t", []), at=AT)

    assert found.message == "is not a parameter of the type `t`; it has none"


def test_a_long_list_of_names_is_cut_short() -> None:
    defined = [Definition(index=index, name=f"p{index}", type="int") for index in range(100)]
    [found] = type_checks.broken_parameters([{"name": "x", "value": 1}], component_types.compiled("t", defined), at=AT)

    assert found.message.endswith("`p38`, `p39` and 60 more")


@given(types(), GIVEN)
def test_the_verdict_follows_from_the_rules(defined: list[Definition], listed: list[Value]) -> None:
    unknown, bad, missing = wrong(defined, listed)
    names = [each["name"] for each in listed if isinstance(each, dict)]

    found = type_checks.broken_parameters(listed, component_types.compiled("t", defined), at=())

    told_unknown, told_bad, told_missing = set(), set(), set()
    for violation in found:
        match violation.pointer:
            case (int(index), "name"):
                told_unknown.add(names[index])
            case (int(index), "value", *_) if not violation.message.startswith("is empty; "):
                told_bad.add(names[index])
            case _:
                told_missing.add(violation.message.split("`")[1])
    assert (told_unknown, told_bad, told_missing) == (unknown, bad, missing)
    assert all(violation.of_parameter for violation in found)


@given(types(), VALUES)
def test_a_message_never_holds_a_value(defined: list[Definition], value: Value) -> None:
    values: list[Value] = ["hunter2", ["hunter2"], {"k": "hunter2"}, "a: [hunter2", value]
    listed: list[Value] = [{"name": name, "value": hidden} for name, hidden in zip("abcde", values, strict=True)]

    found = type_checks.broken_parameters(listed, component_types.compiled("t", defined), at=())

    assert "hunter2" not in repr(found)
