"""Parameters: where they are found, and which of their values are secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import component_types, components
from reconciler.model.component_types import Definition
from reconciler.model.names import Key
from reconciler.model.values import Pointer, Value
from tests.model.documents import VALUES


@pytest.mark.parametrize(
    ("spec", "secrets"),
    [
        ({"parameters": [{"name": "a", "value": "x"}]}, []),
        ({"parameters": [{"name": "a", "value": "x", "sensitive": False}]}, []),
        ({"parameters": [{"name": "a", "sensitive": True}]}, []),
        ({"parameters": [{"name": "a", "value": "x", "sensitive": True}]}, [(("parameters", 0, "value"), "x")]),
        ({"parameters": [{"name": "a", "value": None, "sensitive": True}]}, [(("parameters", 0, "value"), None)]),
        ({"parameters": [{"name": "a", "value": 5, "sensitive": "yes"}]}, [(("parameters", 0, "value"), 5)]),
        (
            {"parameters": [{"name": "a", "value": ["x", "y"], "sensitive": True}]},
            [(("parameters", 0, "value"), ["x", "y"])],
        ),
        (
            {"parameters": [{"name": "headers", "value": {"A": "x", "B": {"c": "y"}}}]},
            [(("parameters", 0, "value", "A"), "x"), (("parameters", 0, "value", "B"), {"c": "y"})],
        ),
        ({"parameters": [{"name": "headers", "value": {}}]}, []),
        # A definition's condition on `headers` compares; it holds no secret.
        ({"parameters": [{"name": "a", "relevantIf": [{"name": "headers", "value": "x"}]}]}, []),
        # What is inside a secret is the secret's own business.
        (
            {"parameters": [{"name": "a", "value": {"k": {"value": "x", "sensitive": True}}, "sensitive": True}]},
            [(("parameters", 0, "value", "k"), {"value": "x", "sensitive": True})],
        ),
        ({"sources": [{"processors": [{"parameters": [{"name": "headers", "value": "x"}]}]}]},
         [(("sources", 0, "processors", 0, "parameters", 0, "value"), "x")]),
        ({"rollout": {"parameters": {"a": {"value": "x", "sensitive": True}}}},
         [(("rollout", "parameters", "a", "value"), "x")]),
        # Whole references say where the secret is; anything more or less is a value.
        ({"parameters": [{"name": "headers", "value": {"A": "${env:DESTINATION_A__B}", "B": "${file:a-b.c}"}}]}, []),
        (
            {"parameters": [{"name": "headers", "value": {"A": "x ${env:A}", "B": "${env:A}\n", "C": "${env:}"}}]},
            [
                (("parameters", 0, "value", "A"), "x ${env:A}"),
                (("parameters", 0, "value", "B"), "${env:A}\n"),
                (("parameters", 0, "value", "C"), "${env:}"),
            ],
        ),
        ("text", []),
        ([[{"name": "a", "value": "x", "sensitive": True}]], [((0, 0, "value"), "x")]),
    ],
)  # fmt: skip
def test_secrets_are_found_wherever_they_stand(spec: Value, secrets: list[tuple[Pointer, Value]]) -> None:
    assert components.find_parameters(spec).secrets == secrets


def test_every_list_of_parameters_is_found_in_document_order() -> None:
    inner: list[Value] = [{"name": "b", "value": 1}]
    outer: list[Value] = [{"name": "a", "value": {"parameters": inner}}]
    spec: Value = {"parameters": outer, "sources": [{"parameters": []}], "rollout": {"parameters": {}}}

    assert components.find_parameters(spec).lists == [
        (("parameters",), outer),
        (("parameters", 0, "value", "parameters"), inner),
        (("sources", 0, "parameters"), []),
    ]


def test_a_search_shows_no_secret() -> None:
    found = components.find_parameters({"parameters": [{"name": "headers", "value": {"A": "canary"}}]})

    assert "canary" not in repr(found)


TYPE = component_types.compiled(
    "t",
    [
        Definition(index=0, name="host", type="string"),
        Definition(index=1, name="headers", type="map"),
        Definition(index=2, name="token", type="string", sensitive=True),
        Definition(index=3, name="keys", type="map", sensitive=True),
    ],
)


@pytest.mark.parametrize(
    ("parameter", "secret"),
    [
        ({"name": "host", "value": "x"}, []),
        ({"name": "host", "value": "x", "sensitive": True}, [("value",)]),
        ({"name": "token", "value": "x"}, [("value",)]),
        ({"name": "token", "value": "x", "sensitive": False}, [("value",)]),
        ({"name": "token", "value": "${env:DESTINATION_DEFAULT__T}"}, []),
        ({"name": "keys", "value": {"A": "x", "B": "${file:b}"}}, [("value", "A")]),
        # The definition knows better than the name.
        ({"name": "headers", "value": {"A": "x"}}, []),
        # Nobody knows what it is.
        ({"name": "more", "value": "x"}, [("value",)]),
        ({"name": 5, "value": "x"}, [("value",)]),
        ({"name": "host", "value": {"value": "x", "sensitive": True}}, [("value", "value")]),
    ],
)
def test_a_value_is_a_secret_when_its_definition_says_so(parameter: dict[str, Value], secret: list[Pointer]) -> None:
    found = components.find_parameters({"parameters": [parameter]}, {("parameters",): TYPE})

    assert [pointer for pointer, _ in found.secrets] == [("parameters", 0, *below) for below in secret]


def test_every_value_of_an_unknown_type_is_a_secret() -> None:
    spec: Value = {
        "type": "gone",
        "parameters": [{"name": "host", "value": "x"}, {"name": "keys", "value": {"A": "y"}}],
        "processors": [{"type": "t", "parameters": [{"name": "host", "value": "x"}, {"name": "token", "value": "z"}]}],
        "rollout": {"parameters": [{"name": "host", "value": "x"}]},
    }
    types = components.component_types_of(
        components.find_components("Source", spec), {Key("ProcessorType", "t"): TYPE, Key("SourceType", "t"): TYPE}.get
    )

    assert components.find_parameters(spec, types).secrets == [
        (("parameters", 0, "value"), "x"),
        (("parameters", 1, "value", "A"), "y"),
        (("processors", 0, "parameters", 1, "value"), "z"),
    ]


@given(VALUES, st.sampled_from(["Source", "Configuration"]))
def test_less_knowledge_never_shows_more(value: Value, kind: str) -> None:
    spec: Value = {"type": "t", "parameters": [{"name": "host", "value": value}, {"name": "more", "value": value}]}
    if kind == "Configuration":
        spec = {"destinations": [spec], "sources": [spec]}
    found = components.find_components(kind, spec)

    unknown = components.find_parameters(spec, components.component_types_of(found, lambda _: None)).secrets
    known = components.find_parameters(spec, components.component_types_of(found, lambda _: TYPE)).secrets

    assert {pointer for pointer, _ in unknown} >= {pointer for pointer, _ in known if len(pointer) < 6}
