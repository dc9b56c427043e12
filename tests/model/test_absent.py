"""A member that means that it is absent is taken out of a document, and nothing else is."""

import json
from typing import Any

import pytest
from hypothesis import given

from reconciler.model import desired, names
from reconciler.model.values import Value
from tests.model.documents import EXAMPLES, VALUES

COMPONENT: dict[str, Any] = {
    "type": "t",
    "id": "",
    "displayName": "",
    "name": None,
    "parameters": None,
    "processors": [],
    "routes": None,
}
DEFINITION: dict[str, Any] = {
    "name": "a",
    "type": "enum",
    "label": None,
    "description": "",
    "options": None,
    "relevantIf": None,
}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "metadata": (
        "Fleet",
        {"metadata": {"name": "a", "id": "", "displayName": "", "description": "", "icon": None, "labels": {}}},
        {"metadata": {"name": "a"}},
    ),
    "what stands deeper": (
        "Fleet",
        {"metadata": {"name": "a", "additionalInfo": {"message": None, "documentation": [{"text": "t", "url": None}]}}},
        {"metadata": {"name": "a", "additionalInfo": {"documentation": [{"text": "t"}]}}},
    ),
    "a selector": ("Fleet", {"spec": {"selector": {"matchLabels": None}}}, {"spec": {"selector": {}}}),
    "a spec": ("Fleet", {"spec": None}, {"spec": {}}),
    "lists beside a text": (
        "Configuration",
        {"spec": {"raw": "", "sources": [], "processors": [], "connectors": [], "destinations": [], "extensions": []}},
        {"spec": {"raw": ""}},
    ),
    "components of components": (
        "Configuration",
        {"spec": {"sources": [{**COMPONENT, "processors": [COMPONENT]}]}},
        {"spec": {"sources": [{"type": "t", "processors": [{"type": "t"}]}]}},
    ),
    "a parameter": (
        "Source",
        {"spec": {"type": "t", "parameters": [{"name": "a", "value": None, "sensitive": None}]}},
        {"spec": {"type": "t", "parameters": [{"name": "a", "value": None}]}},
    ),
    "a definition": (
        "SourceType",
        {"spec": {"parameters": [DEFINITION]}},
        {"spec": {"parameters": [{"name": "a", "type": "enum"}]}},
    ),
}
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "required members": ("Fleet", {"metadata": {"name": None}}),
    "unknown members": ("Fleet", {"metadata": {"name": "a", "other": None}}),
    "other empty texts": ("Fleet", {"metadata": {"name": "a", "icon": ""}}),
    "values of labels and annotations": (
        "Fleet",
        {"metadata": {"name": "a", "labels": {"id": ""}, "annotations": {"id": "", "description": ""}}},
    ),
    "values of labels in a selector": ("Fleet", {"spec": {"selector": {"matchLabels": {"id": "", "a": None}}}}),
    "values of parameters": (
        "Source",
        {"spec": {"type": "t", "parameters": [{"name": "a", "value": {"id": "", "sources": [], "labels": None}}]}},
    ),
    "what definitions allow": (
        "SourceType",
        {"spec": {"parameters": [{"name": "a", "type": "enum", "default": None, "validValues": [""], "options": {
            "creatable": None, "description": ""}, "properties": {"id": ""}}]}},
    ),
    "templates": ("SourceType", {"spec": {"logs": None, "metrics": {"id": "", "sources": []}}}),
    "open objects": ("AgentVersion", {"spec": {"id": "", "labels": {}, "sources": [], "any": None}}),
    "open objects of a Configuration": ("Configuration", {"spec": {"rollout": {"id": "", "sources": [], "any": None}}}),
    "empty lists of parameters": ("Source", {"spec": {"type": "t", "parameters": []}}),
}  # fmt: skip


def document(kind: str, more: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {}, **more}


@pytest.mark.parametrize(("kind", "sent", "expected"), CASES.values(), ids=CASES)
def test_what_is_absent_is_taken_out(kind: str, sent: dict[str, Any], expected: dict[str, Any]) -> None:
    before = json.dumps(document(kind, sent))
    found = document(kind, sent)
    assert desired.without_absent(found, names.exact_kind(kind)) == document(kind, expected)
    assert json.dumps(found) == before


@pytest.mark.parametrize(("kind", "sent"), KEPT.values(), ids=KEPT)
def test_everything_else_stays(kind: str, sent: dict[str, Any]) -> None:
    found = document(kind, sent)
    assert desired.without_absent(found, names.exact_kind(kind)) == found


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_the_examples_hold_nothing_of_that(example: dict[str, Value]) -> None:
    whole = {"spec": {}, **example}
    assert desired.without_absent(whole, names.exact_kind(str(example["kind"]))) == whole


@given(VALUES)
def test_it_takes_any_value(value: Value) -> None:
    for kind in (None, *names.KINDS):
        once = desired.without_absent({"metadata": value, "spec": value}, kind)
        assert desired.without_absent(once, kind) == once
