"""Components: those with a type of their own, wherever they stand."""

import pytest

from reconciler.model import components
from reconciler.model.components import Component
from reconciler.model.values import Value

GIVEN: list[Value] = [{"name": "a", "value": 1}]


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Source", {"type": "otlp:2", "parameters": GIVEN}, [Component("Source", "otlp", ("spec",), GIVEN)]),
        ("Source", {"type": "otlp"}, [Component("Source", "otlp", ("spec",), [])]),
        (
            "Destination",
            {"processors": [{"name": "p"}, {"type": "x", "parameters": GIVEN}], "type": "t"},
            [
                Component("Destination", "t", ("spec",), []),
                Component("Processor", "x", ("spec", "processors", 1), GIVEN),
            ],
        ),
        (
            "Configuration",
            {
                "extensions": [{"type": "e", "parameters": GIVEN}],
                "sources": [{"name": "s", "processors": [{"type": "p"}]}],
                "parameters": GIVEN,
            },
            [
                Component("Extension", "e", ("spec", "extensions", 0), GIVEN),
                Component("Processor", "p", ("spec", "sources", 0, "processors", 0), []),
            ],
        ),
        ("SourceType", {"type": "x", "parameters": GIVEN}, []),
        ("Source", None, []),
        ("Source", {"type": 5, "processors": [7, {"type": "p"}]},
         [Component("Processor", "p", ("spec", "processors", 1), [])]),
    ],
)  # fmt: skip
def test_components_are_found_with_their_places(kind: str, spec: Value, expected: list[Component]) -> None:
    assert list(components.find_components(kind, spec)) == expected


def test_a_component_knows_its_type_and_where_its_parameters_stand() -> None:
    [found] = components.find_components("Source", {"type": "otlp:latest"})

    assert (found.type_key, found.at) == (("SourceType", "otlp"), ("spec", "parameters"))
