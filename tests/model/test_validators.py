"""Validators: the verdict is jsonschema's too, and the words are ours."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

import schemas
from reconciler.model import names, validators
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from tests.model.documents import EXAMPLES, mutated, pointers, replaced

CANARY = "hunter2-canary"
PLANTS: list[Value] = [CANARY, f"-{CANARY}-", [CANARY], {"a": CANARY}, [{"name": CANARY}]]


def anchored(_: object, pattern: str, instance: object, __: object) -> Iterator[ValidationError]:
    """`pattern` as ECMAScript means it: in Python, `$` also matches before a last newline."""
    if isinstance(instance, str) and not re.search(pattern.removesuffix("$") + r"\Z", instance):
        yield ValidationError("does not match")


Oracle: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {"pattern": anchored}
)


@cache
def oracle(name: str) -> Any:
    return Oracle(schemas.load(name))


@given(mutated())
def test_jsonschema_gives_the_same_verdict(document: dict[str, Value]) -> None:
    kind = names.exact_kind(str(document["kind"]))
    assert kind is not None

    assert (validators.violations(kind, document) == ()) == oracle(kind.name).is_valid(document)
    assert (validators.violations(None, document) == ()) == oracle("envelope").is_valid(document)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_examples_break_no_rule(document: dict[str, Value]) -> None:
    assert validators.violations(names.exact_kind(str(document["kind"])), document) == ()


@given(st.data())
def test_a_message_never_holds_the_value_that_broke_the_rule(data: st.DataObject) -> None:
    document = data.draw(st.sampled_from(EXAMPLES))
    pointer = data.draw(st.sampled_from(pointers(document)))
    planted = data.draw(st.sampled_from(PLANTS))
    changed = replaced(document, pointer, planted)

    found = validators.violations(names.exact_kind(document["kind"]), changed)

    assert CANARY not in "".join(violation.message for violation in found)
    assert CANARY not in repr([violation.pointer for violation in found])


KEYWORDS_THAT_EXPLAIN_THEMSELVES = {"required", "additionalProperties", "propertyNames", "pattern", "not"}
KEYWORDS_THAT_HOLD_OTHERS = {"properties", "items", "$defs", "$ref", "allOf", "dependentSchemas"}
ANNOTATIONS = {"$schema", "$id", "title", "description", "examples", "errorMessage"}


@pytest.mark.parametrize("name", schemas.names())
def test_every_keyword_that_refuses_has_words(name: str) -> None:
    used = keywords(schemas.load(name)) - ANNOTATIONS - KEYWORDS_THAT_HOLD_OTHERS

    assert used - KEYWORDS_THAT_EXPLAIN_THEMSELVES - set(validators.MESSAGES) == set()


def keywords(subschema: Any) -> set[str]:
    """The keywords of a subschema and all below."""
    if isinstance(subschema, list):
        return set().union(*(keywords(child) for child in subschema))
    if not isinstance(subschema, dict):
        return set()
    found = set(subschema)
    for keyword, value in subschema.items():
        if keyword in {"properties", "$defs", "dependentSchemas"}:
            found |= keywords(list(value.values()))
        elif keyword not in ANNOTATIONS | {"required", "enum", "const", "type"}:
            found |= keywords(value)
    return found


METADATA_FIELDS = ", ".join(f"`{field}`" for field in schemas.load("envelope")["$defs"]["metadata"]["properties"])
TOP_FIELDS = "`apiVersion`, `kind`, `metadata`, `spec`, `status`"
ID_RULE = "must be 1 to 128 letters, digits, `-`, `_` or `.`, and begin with a letter or digit"


def wrong(*pointer: str | int, says: str) -> Violation:
    return Violation(pointer, says)


def wrong_key(*pointer: str | int, says: str) -> Violation:
    return Violation(pointer, says, at_key=True)


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        (["apiVersion"], 1, [wrong("apiVersion", says="is not a string")]),
        (["apiVersion"], "", [wrong("apiVersion", says="is empty")]),
        (["more"], 1, [wrong_key("more", says=f"is not a known field; the fields here are {TOP_FIELDS}")]),
        (["spec"], [], [wrong("spec", says="is not an object")]),
        (["spec"], None, []),
        (["status"], "anything", []),
        (["metadata"], [], [wrong("metadata", says="is not an object")]),
        (["metadata"], {}, [wrong("metadata", "name", says="is required")]),
        (["metadata", "name"], "-", [wrong("metadata", "name", says=names.NAME_RULE)]),
        (["metadata", "name"], 5, [wrong("metadata", "name", says="is not a string")]),
        (["metadata", "id"], "x" * 128, []),
        (["metadata", "id"], "x" * 129, [wrong("metadata", "id", says=ID_RULE)]),
        (["metadata", "hash"], ["anything"], []),
        (["metadata", "version"], "anything", []),
        (["metadata", "dateModified"], None, []),
        (["metadata", "labels"], None, []),
        (["metadata", "labels"], 1, [wrong("metadata", "labels", says="is not an object")]),
        (
            ["metadata", "labels"],
            {"a b": "x", "c": 1, "d": "-", "e": ""},
            [
                wrong_key("metadata", "labels", "a b", says=names.LABEL_KEY_RULE),
                wrong("metadata", "labels", "c", says="is not a string"),
                wrong("metadata", "labels", "d", says=names.LABEL_VALUE_RULE),
            ],
        ),
        (
            ["metadata"],
            {"name": "a", "lables": {}, "x/y": 1},
            [
                wrong_key("metadata", key, says=f"is not a known field; the fields here are {METADATA_FIELDS}")
                for key in ("lables", "x/y")
            ],
        ),
        (["metadata", "deprecated"], "yes", [wrong("metadata", "deprecated", says="is not true or false")]),
        (["metadata", "blueprintTags"], {"a": "b"}, [wrong("metadata", "blueprintTags", "a", says="is not a list")]),
        (["metadata", "annotations"], {"a": 1}, [wrong("metadata", "annotations", "a", says="is not a string")]),
    ],
)
def test_what_is_wrong_is_said_in_our_words(pointer: list[str], value: Value, expected: list[Violation]) -> None:
    document: Value = {"apiVersion": "service/v1", "kind": "AgentVersion", "metadata": {"name": "a"}}

    found = validators.violations(names.exact_kind("AgentVersion"), replaced(document, tuple(pointer), value))

    assert set(found) == set(expected)
