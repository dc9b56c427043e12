"""Judging: which documents are ours, and every rule that one of them breaks."""

import copy
from typing import Any

import pytest
from hypothesis import given

from reconciler.model import desired
from reconciler.model import desired as model_resource
from reconciler.model.desired import MASK_MESSAGE, Classification, Judged
from reconciler.model.names import LABEL_KEY_RULE, NAME_RULE, Key
from reconciler.model.values import Value
from reconciler.model.violations import Violation, lines
from tests.model.documents import API_VERSIONS, EXAMPLES, VALUES, mutated

REFERENCE_RULE = f"{NAME_RULE}, with an optional version after `:`"
COMPONENT_FIELDS = "`type`, `parameters`, `processors`, `disabled`"
ITEM_FIELDS = "`id`, `name`, `type`, `displayName`, `parameters`, `processors`, `disabled`, `routes`"
KINDS = (
    "`AgentVersion`, `Configuration`, `Connector`, `ConnectorType`, `Destination`, `DestinationType`, `Extension`, "
    "`ExtensionType`, `Fleet`, `Processor`, `ProcessorType`, `Source`, `SourceType`"
)


def unknown(fields: str) -> str:
    return f"is not a known field; the fields here are {fields}"


def judge(value: Value) -> Judged:
    return model_resource.judge(value, api_versions=API_VERSIONS)


def document(kind: str, spec: Value) -> dict[str, Value]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def told(value: Value) -> list[str]:
    return lines(judge(value).violations, lambda _: "").splitlines()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"apiVersion": "service/v1", "kind": "Fleet"}, Classification.RESOURCE),
        ({"apiVersion": "service/v1", "kind": "Deployment"}, Classification.RESOURCE),
        ({"apiVersion": "apps/v1", "kind": "Fleet"}, Classification.RESOURCE),
        ({"apiVersion": "service/v1"}, Classification.RESOURCE),
        ({"apiVersion": "apps/v1"}, Classification.RESOURCE),
        ({"kind": "Deployment"}, Classification.RESOURCE),
        ({"kind": None}, Classification.RESOURCE),
        ({"apiVersion": ["service/v1"], "kind": "Fleet"}, Classification.RESOURCE),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, Classification.FOREIGN),
        ({"apiVersion": "apps/v1", "kind": "fleet"}, Classification.FOREIGN),
        ({"apiVersion": ["service/v1"], "kind": {"Fleet": 1}}, Classification.FOREIGN),
        ({"metadata": {"name": "a"}}, Classification.NOT_A_RESOURCE),
        ({}, Classification.NOT_A_RESOURCE),
        (["apiVersion", "kind"], Classification.NOT_A_RESOURCE),
        ("kind: Fleet", Classification.NOT_A_RESOURCE),
        (None, Classification.NOT_A_RESOURCE),
    ],
)
def test_a_document_is_judged_when_either_key_is_ours_or_only_one_is_there(
    value: Value, expected: Classification
) -> None:
    assert model_resource.classify(value, api_versions=API_VERSIONS) is expected


def test_a_valid_document_becomes_the_resource_that_its_user_owns() -> None:
    spec: Value = {"type": "webhook", "parameters": [{"name": "port", "value": 443}]}
    value: Value = {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {
            "name": "siem",
            "id": "01J",
            "hash": [1],
            "version": "x",
            "dateModified": None,
            "deprecated": True,
            "labels": {"service/prune": "disabled"},
        },
        "spec": spec,
        "status": "whatever",
    }

    owned: dict[str, Value] = {
        "apiVersion": "service/v1",
        "kind": "Destination",
        "metadata": {"name": "siem", "deprecated": True, "labels": {"service/prune": "disabled"}},
        "spec": spec,
    }

    assert judge(value) == Judged(
        key=Key("Destination", "siem"),
        violations=(),
        owned=owned,
        proposed_id="01J",
    )


@pytest.mark.parametrize(
    ("metadata", "deprecated", "protected"),
    [
        ({}, False, False),
        ({"deprecated": True}, True, False),
        ({"deprecated": False, "labels": {"service/prune": "disabled"}}, False, True),
        ({"labels": {"service/prune": "enabled"}}, False, False),
        ({"annotations": {"service/prune": "disabled"}}, False, False),
    ],
)
def test_metadata_says_whether_a_resource_is_deprecated_or_stays(
    metadata: dict[str, Value], deprecated: bool, protected: bool
) -> None:
    value: Value = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "a", **metadata}}

    made = desired.of_judged(judge(value), hmac_key=b"k")

    assert (made.deprecated, made.protected) == (deprecated, protected)


@pytest.mark.parametrize("spec", [{}, None, "absent"])
@pytest.mark.parametrize("labels", [{}, None, "absent"])
def test_empty_labels_are_none_and_a_spec_is_always_there(spec: Value, labels: Value) -> None:
    metadata: dict[str, Value] = {"name": "a"} if labels == "absent" else {"name": "a", "labels": labels}
    value: dict[str, Value] = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": metadata}
    if spec != "absent":
        value["spec"] = spec

    assert judge(value).owned == {
        "apiVersion": "service/v1",
        "kind": "Fleet",
        "metadata": {"name": "a"},
        "spec": {},
    }


def test_an_alias_of_the_api_version_is_kept_as_it_came() -> None:
    value: Value = {"apiVersion": "other/v1", "kind": "Fleet", "metadata": {"name": "a"}}

    owned = model_resource.judge(value, api_versions=frozenset({"service/v1", "other/v1"})).owned

    assert owned is not None
    assert owned["apiVersion"] == "other/v1"
    assert told(value) == ["/apiVersion: is not an API version of this service; it takes `service/v1`"]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"kind": "Fleet", "metadata": {"name": "a"}, "spec": 1}, Key("Fleet", "a")),
        ({"apiVersion": "apps/v1", "kind": "Fleet", "metadata": {"name": "a", "x": 1}}, Key("Fleet", "a")),
        ({"apiVersion": "service/v1", "kind": "fleet", "metadata": {"name": "a"}}, None),
        ({"apiVersion": "service/v1", "kind": "Notification", "metadata": {"name": "a"}}, None),
        ({"apiVersion": "service/v1", "kind": ["Fleet"], "metadata": {"name": "a"}}, None),
        ({"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "-a"}}, None),
        ({"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": 1}}, None),
        ({"apiVersion": "service/v1", "kind": "Fleet", "metadata": ["name"]}, None),
        ({"apiVersion": "service/v1", "kind": "Fleet"}, None),
        ({}, None),
        ([], None),
    ],
)
def test_the_key_of_an_invalid_document_is_known_when_kind_and_name_are(value: Value, key: Key | None) -> None:
    judged = judge(value)

    assert (judged.key, judged.owned) == (key, None)
    assert judged.violations


# Each spec, and all that is told of it.
SPECS: list[tuple[str, Any, list[str]]] = [
    ("Destination", {}, ["/spec/type: is required"]),
    ("Destination", None, ["/spec/type: is required"]),
    ("Destination", [], ["/spec: is not an object"]),
    ("Source", {"type": "nginx:5"}, []),
    ("Source", {"type": "nginx:latest"}, []),
    ("Source", {"type": "nginx:"}, [f"/spec/type: {REFERENCE_RULE}"]),
    ("Source", {"type": "a:b:c"}, [f"/spec/type: {REFERENCE_RULE}"]),
    ("Source", {"type": 1}, ["/spec/type: is not a string"]),
    ("Source", {"type": "a", "disabled": "yes"}, ["/spec/disabled: is not true or false"]),
    ("Source", {"type": "a", "sources": []}, [f"/spec/sources: {unknown(COMPONENT_FIELDS)}"]),
    ("Processor", {"type": "a", "parameters": {}}, ["/spec/parameters: is not a list"]),
    (
        "Processor",
        {"type": "a", "parameters": [1, {}, {"name": "", "value": None, "sensitive": "yes", "more": 1}]},
        [
            "/spec/parameters/0: is not an object",
            "/spec/parameters/1/name: is required",
            "/spec/parameters/1/value: is required",
            "/spec/parameters/2/name: is empty",
            "/spec/parameters/2/sensitive: is not true or false",
            f"/spec/parameters/2/more: {unknown('`name`, `value`, `sensitive`')}",
        ],
    ),
    (
        "Connector",
        {"type": "a", "parameters": [{"name": n, "value": 1} for n in ("x", "y", "x", "x")]},
        [
            "/spec/parameters/2/name: is the name of /spec/parameters/0 already; keep one of them",
            "/spec/parameters/3/name: is the name of /spec/parameters/0 already; keep one of them",
        ],
    ),
    (
        "Extension",
        {"type": "a", "processors": [{}, {"name": "p:1"}, {"type": "t", "parameters": []}, {"name": "p", "type": "t"}]},
        [
            "/spec/processors/0: needs one of `name`, `type`",
            "/spec/processors/3/type: cannot stand beside `name`",
        ],
    ),
    ("Configuration", {}, []),
    (
        "Configuration",
        {
            "sources": [
                {"name": "p", "parameters": [], "x": 1},
                {"type": "t", "id": None, "processors": [{"processors": [{"type": "-"}]}]},
            ],
            "destinations": {},
            "extensions": [{"type": "t", "routes": []}],
        },
        [
            "/spec/sources/0/parameters: cannot stand beside `name`",
            f"/spec/sources/0/x: {unknown(ITEM_FIELDS)}",
            "/spec/sources/1/processors/0: needs one of `name`, `type`",
            f"/spec/sources/1/processors/0/processors/0/type: {REFERENCE_RULE}",
            "/spec/destinations: is not a list",
            "/spec/extensions/0/routes: is not an object",
        ],
    ),
    (
        "Configuration",
        {"sources": [{"type": "t", "parameters": [{"name": "x", "value": 1}, {"name": "x", "value": 2}]}]},
        ["/spec/sources/0/parameters/1/name: is the name of /spec/sources/0/parameters/0 already; keep one of them"],
    ),
    ("Configuration", {"raw": "", "processors": [], "extensions": []}, []),
    (
        "Configuration",
        {"raw": "receivers:", "sources": [{"type": "t"}], "destinations": [{"name": "d"}]},
        ["/spec/sources: cannot stand beside `raw`", "/spec/destinations: cannot stand beside `raw`"],
    ),
    (
        "Configuration",
        {"selector": {"matchLabels": {"a b": "x"}, "matchExpressions": []}, "measurementInterval": 60},
        [
            f"/spec/selector/matchLabels/a b: {LABEL_KEY_RULE}",
            f"/spec/selector/matchExpressions: {unknown('`matchLabels`')}",
            "/spec/measurementInterval: is not a string",
        ],
    ),
    ("Configuration", {"raw": "receivers:", "sources": [], "destinations": None}, []),
    ("Fleet", {"selector": {"matchLabels": None}}, []),
    ("Fleet", {"selector": {"matchLabels": {"a": None}}}, ["/spec/selector/matchLabels/a: is not a string"]),
    ("Fleet", {"match": {}}, [f"/spec/match: {unknown('`selector`')}"]),
    ("AgentVersion", {"anything": [{"goes": None}]}, []),
    ("AgentVersion", 5, ["/spec: is not an object"]),
    (
        "SourceType",
        {
            "version": 1,
            "parameters": [{"name": "a-b"}, {"name": "b", "type": "anything", "relevantIf": [{"operator": "is"}]}],
            "supportedPlatforms": [1],
            "logs": {"free": 1},
            "logs+metrics+traces": "text",
        },
        [
            "/spec/version: is not a string",
            "/spec/parameters/0/name: must be 1 to 127 letters, digits or `_`, and begin with a letter or `_`",
            "/spec/parameters/0/type: is required",
            "/spec/parameters/1/relevantIf/0/operator: is not one of `equals`, `notEquals`, `containsAny`",
            "/spec/parameters/1/relevantIf/0/name: is required",
            "/spec/parameters/1/relevantIf/0/value: is required",
            "/spec/supportedPlatforms/0: is not a string",
        ],
    ),
    (
        "DestinationType",
        {"parameters": [{"name": "a", "type": "int", "options": {"more": 1, "sensitive": 1}, "minimum": 0.5}] * 2},
        [
            "/spec/parameters/0/options/sensitive: is not true or false",
            "/spec/parameters/0/minimum: is not an integer",
            "/spec/parameters/1/name: is the name of /spec/parameters/0 already; keep one of them",
            "/spec/parameters/1/options/sensitive: is not true or false",
            "/spec/parameters/1/minimum: is not an integer",
        ],
    ),
    # What definitions say is judged once they have their shape.
    (
        "SourceType",
        {"version": 1, "parameters": [{"name": "a", "type": "int", "default": "x"}, {"name": "b", "type": "enum"}]},
        [
            "/spec/version: is not a string",
            "/spec/parameters/0/default: is not an integer",
            "/spec/parameters/1/validValues: is required and not empty for the type `enum`",
        ],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "expected"), SPECS)
def test_every_rule_that_a_spec_breaks_is_told_in_document_order(kind: str, spec: Value, expected: list[str]) -> None:
    assert told(document(kind, spec)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], ["is not an object"]),
        ("text", ["is not an object"]),
        (
            {},
            ["/apiVersion: is required", "/kind: is required", "/metadata: is required"],
        ),
        (
            {"kind": "destination", "apiVersion": "v1", "metadata": {}},
            [
                "/kind: is not a kind; write `Destination`",
                "/apiVersion: is not an API version of this service; it takes `service/v1`",
                "/metadata/name: is required",
            ],
        ),
        (
            {"kind": "Notification", "apiVersion": "service/v1", "metadata": {"name": "a"}, "more": 1},
            [
                f"/kind: is not a kind; the kinds are {KINDS}",
                f"/more: {unknown('`apiVersion`, `kind`, `metadata`, `spec`, `status`')}",
            ],
        ),
        (
            {"kind": 5, "apiVersion": "", "metadata": {"name": "a"}},
            ["/kind: is not a string", "/apiVersion: is empty"],
        ),
    ],
)
def test_every_rule_that_a_document_breaks_is_told_whatever_its_kind(value: Value, expected: list[str]) -> None:
    assert told(value) == expected


MASKED: list[tuple[str, Value, list[tuple[str | int, ...]]]] = [
    (
        "Destination",
        {
            "type": "webhook",
            "parameters": [
                {"name": "token", "value": "(sensitive)", "sensitive": True},
                {"name": "headers", "value": {"Authorization": "(sensitive)", "X": "y"}},
                {"name": "note", "value": "(sensitive)"},
                {"name": "other", "value": "(sensitive)", "sensitive": False},
            ],
            "processors": [{"type": "t", "parameters": [{"name": "k", "value": "(sensitive)", "sensitive": True}]}],
        },
        [
            ("spec", "parameters", 0, "value"),
            ("spec", "parameters", 1, "value", "Authorization"),
            ("spec", "parameters", 2, "value"),
            ("spec", "parameters", 3, "value"),
            ("spec", "processors", 0, "parameters", 0, "value"),
        ],
    ),
    (
        "AgentVersion",
        {"deep": [{"name": "k", "value": "(sensitive)", "sensitive": True}]},
        [("spec", "deep", 0, "value")],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "pointers"), MASKED)
def test_what_the_service_shows_instead_of_a_secret_is_not_a_value(
    kind: str, spec: Value, pointers: list[tuple[str | int, ...]]
) -> None:
    value = document(kind, spec)

    assert judge(value).violations == tuple(Violation(pointer, MASK_MESSAGE) for pointer in pointers)
    assert MASK_MESSAGE.endswith("send the value itself; in Git, write a reference such as `${env:NAME}`")


@pytest.mark.parametrize(("kind", "spec", "pointers"), MASKED)
def test_a_client_may_leave_it_to_whoever_knows_the_stored_value(
    kind: str, spec: Value, pointers: list[tuple[str | int, ...]]
) -> None:
    value = document(kind, spec)

    judged = model_resource.judge(value, api_versions=API_VERSIONS, placeholders=True)

    assert judged == Judged(key=Key(kind, "a"), violations=(), owned=value, placeholders=tuple(pointers))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_every_example_is_a_resource(example: dict[str, Any]) -> None:
    before = copy.deepcopy(example)

    judged = judge(example)

    assert (judged.key, judged.violations) == (Key(example["kind"], example["metadata"]["name"]), ())
    assert judged.owned == {key: example.get(key, {}) for key in ("apiVersion", "kind", "metadata", "spec")}
    assert example == before


@given(mutated() | VALUES)
def test_a_document_is_either_a_resource_or_has_violations(value: Value) -> None:
    before = copy.deepcopy(value)

    judged = judge(value)

    assert (judged.owned is None) == bool(judged.violations)
    assert len(set(judged.violations)) == len(judged.violations)
    assert value == before
