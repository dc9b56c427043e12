"""References: every field that holds the name of a resource, and no other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import components, violations
from reconciler.model.components import Reference
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from tests.model.documents import EXAMPLES, VALUES, at, mutated


def told(document: Value) -> list[tuple[str, str, str]]:
    return [
        (found.kind, found.name, "/".join(map(str, found.pointer[1:]))) for found in components.references(document)
    ]


def storage(name: Value) -> dict[str, Value]:
    return {"name": "persistent_queue_storage", "value": name}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Source", {"type": "nginx"}, [("SourceType", "nginx", "type")]),
        ("Source", {"type": "nginx:5"}, [("SourceType", "nginx", "type")]),
        ("Connector", {"type": "routing:latest"}, [("ConnectorType", "routing", "type")]),
        ("Extension", {"type": "file_storage"}, [("ExtensionType", "file_storage", "type")]),
        (
            "Processor",
            {"type": "batch", "processors": [{"name": "a"}, {"type": "b"}]},
            [
                ("ProcessorType", "batch", "type"),
                ("Processor", "a", "processors/0/name"),
                ("ProcessorType", "b", "processors/1/type"),
            ],
        ),
        # Outer components come before those in them.
        (
            "Source",
            {"processors": [{"type": "b", "processors": [{"name": "c:2"}]}], "type": "nginx"},
            [
                ("SourceType", "nginx", "type"),
                ("ProcessorType", "b", "processors/0/type"),
                ("Processor", "c", "processors/0/processors/0/name"),
            ],
        ),
        (
            "Destination",
            {"type": "webhook", "parameters": [{"name": "hostname", "value": "h"}, storage("q:3")]},
            [("DestinationType", "webhook", "type"), ("Extension", "q", "parameters/1/value")],
        ),
        (
            "Destination",
            {"parameters": [storage("q")], "type": "webhook:2"},
            [("DestinationType", "webhook", "type"), ("Extension", "q", "parameters/0/value")],
        ),
        # The parameter of that name of other types is their own business.
        ("Destination", {"type": "otlp", "parameters": [storage("q")]}, [("DestinationType", "otlp", "type")]),
        ("Source", {"type": "webhook", "parameters": [storage("q")]}, [("SourceType", "webhook", "type")]),
        ("Destination", {"type": "webhook", "parameters": [storage(""), storage(5)]},
         [("DestinationType", "webhook", "type")]),
        (
            "Configuration",
            {
                "sources": [{"name": "s", "processors": [{"name": "p"}]}, {"id": "x", "type": "otlp"}],
                "processors": [{"type": "pt"}],
                "connectors": [{"name": "c"}],
                "destinations": [{"name": "d:latest"}, {"type": "webhook", "parameters": [storage("q")]}],
                "extensions": [{"name": "e"}],
                "rollout": {"type": "standard", "name": "x"},
                "parameters": [storage("no")],
            },
            [
                ("Source", "s", "sources/0/name"),
                ("Processor", "p", "sources/0/processors/0/name"),
                ("SourceType", "otlp", "sources/1/type"),
                ("ProcessorType", "pt", "processors/0/type"),
                ("Connector", "c", "connectors/0/name"),
                ("Destination", "d", "destinations/0/name"),
                ("DestinationType", "webhook", "destinations/1/type"),
                ("Extension", "q", "destinations/1/parameters/0/value"),
                ("Extension", "e", "extensions/0/name"),
            ],
        ),
        ("Configuration", {"raw": "sources: [{name: x}]"}, []),
        ("Configuration", None, []),
        ("SourceType", {"parameters": [{"name": "type", "type": "string"}]}, []),
        ("Fleet", {"selector": {"matchLabels": {"name": "x"}}}, []),
        ("AgentVersion", {"type": "x", "name": "y", "sources": [{"name": "z"}]}, []),
    ],
)  # fmt: skip
def test_every_reference_is_found(kind: str, spec: Value, expected: list[tuple[str, str, str]]) -> None:
    assert told({"kind": kind, "metadata": {"name": "own"}, "spec": spec}) == expected


@given(mutated())
def test_references_come_in_document_order_and_point_at_their_names(document: dict[str, Value]) -> None:
    found = components.references(document)

    assert list(violations.in_document_order([Violation(each.pointer, "") for each in found], document)) == [
        Violation(each.pointer, "") for each in found
    ]
    for each in found:
        assert at(document, each.pointer).split(":")[0] == each.name


def names(value: Any) -> set[str]:
    """Every text under a key `type` or `name` of a component."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    own = {value[key].split(":")[0] for key in ("type", "name") if key in value}
    return own | names(value.get("processors"))


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_no_reference_of_an_example_is_missed(document: dict[str, Any]) -> None:
    spec = document.get("spec") or {}
    expected = set()
    if document["kind"] == "Configuration":
        for key in ("sources", "processors", "connectors", "destinations", "extensions"):
            expected |= names(spec.get(key))
    elif document["kind"] in ("Source", "Processor", "Connector", "Destination", "Extension"):
        expected = names(spec)

    assert {each.name for each in components.references(document)} == expected, json.dumps(document)


@given(st.sampled_from(["Source", "Destination", "Configuration", "Fleet", 5]), VALUES)
def test_a_document_of_any_shape_gives_references_or_none(kind: Value, spec: Value) -> None:
    for document in (
        spec,
        {"kind": kind, "spec": spec},
        {"kind": kind, "spec": {"sources": [spec], "processors": spec}},
    ):
        assert all(isinstance(each, Reference) for each in components.references(document))
