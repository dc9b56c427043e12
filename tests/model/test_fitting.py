"""Fitting: which parameters of a document break a rule of their types, and which of its values are secrets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import components, type_checks
from reconciler.model.names import Key
from reconciler.model.type_checks import Fit
from reconciler.model.values import Pointer, Value, pointer_text
from reconciler.model.violations import Violation
from tests.model.documents import EXAMPLES, at
from tests.model.lookups import look_up, lookup

SINK: dict[str, Value] = {
    "parameters": [
        {"name": "host", "type": "string", "required": True},
        {"name": "token", "type": "string", "options": {"sensitive": True}},
        {"name": "keys", "type": "map", "options": {"sensitive": True}},
    ]
}
SINKS = lookup({Key(f"{kind}Type", "sink"): SINK for kind in components.KINDS})


def document(kind: str, **spec: Value) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


def sink(*processors: Value, **values: Value) -> dict[str, Any]:
    """A component of the type `sink`."""
    given = [{"name": name, "value": value} for name, value in values.items()]
    return {"type": "sink:3", "parameters": given, "processors": list(processors)}


def told(fit: Fit) -> list[str]:
    assert all(violation.of_parameter for violation in fit.violations)
    return [f"{pointer_text(violation.pointer)}: {violation.message}" for violation in fit.violations]


def places(fit: Fit) -> dict[str, Value]:
    return {pointer_text(pointer): value for pointer, value in fit.secrets}


MISSING = "`host` is required and has no default"
UNKNOWN = "/spec/parameters/1/name: is not a parameter of the type `sink`; its parameters are `host`, `token`, `keys`"


def test_an_unknown_parameter_is_a_warning_unless_it_is_to_be_refused() -> None:
    owned = document("Connector", **sink(host="x", more="y"))
    warned, refused = (type_checks.fit(owned, SINKS, refuse_unknown=one) for one in (False, True))
    assert (told(warned), told(refused)) == ([], [UNKNOWN])
    assert [one.message for one in warned.notes] == [
        f"{UNKNOWN.partition(': ')[2]}; it is kept all the same, and masked"
    ]
    assert refused.notes == ()
    assert places(warned) == places(refused) == {"/spec/parameters/1/value": "y"}


@pytest.mark.parametrize(
    ("owned", "broken", "secrets"),
    [
        (document("Source", **sink(host="x")), [], {}),
        (
            document("Source", **sink(host="x", token="t", keys={"A": "k", "B": "${env:B}"})),
            [],
            {"/spec/parameters/1/value": "t", "/spec/parameters/2/value/A": "k"},
        ),
        (
            document("Destination", **sink(token=5)),
            [f"/spec/parameters: {MISSING}", "/spec/parameters/0/value: is not a string"],
            {"/spec/parameters/0/value": 5},
        ),
        # What nobody knows may be a secret.
        (
            document("Connector", **sink(host="x", more="y")),
            [],
            {"/spec/parameters/1/value": "y"},
        ),
        (document("Processor", type="gone", parameters=[{"name": "host", "value": "x"}]), [],
         {"/spec/parameters/0/value": "x"}),
        (document("Source", type="sink"), [f"/spec/parameters: {MISSING}"], {}),
        # Outer components before those nested in them, each against its own type.
        (
            document("Extension", **sink(sink(), {"name": "p"}, sink({"type": "gone"}, host="h", token="t"))),
            [f"/spec/parameters: {MISSING}", f"/spec/processors/0/parameters: {MISSING}"],
            {"/spec/processors/2/parameters/1/value": "t"},
        ),
        (
            document("Configuration", sources=[{"name": "s"}, sink(host="x")], destinations=[sink(token="t")],
                     parameters=[{"name": "host", "value": "x"}]),
            [f"/spec/destinations/0/parameters: {MISSING}"],
            {"/spec/destinations/0/parameters/0/value": "t"},
        ),
        # Kinds without components have no types; a value that says so itself is a secret all the same.
        (document("AgentVersion", **sink(host=5)), [], {}),
        (document("AgentVersion", free=[{"value": "x", "sensitive": True}]), [], {"/spec/free/0/value": "x"}),
        (document("SourceType", **SINK), [], {}),
    ],
)  # fmt: skip
def test_a_document_fits_its_types_so(owned: dict[str, Any], broken: list[str], secrets: dict[str, Value]) -> None:
    fit = type_checks.fit(owned, SINKS)

    assert (told(fit), places(fit)) == (broken, secrets)


def test_a_fit_shows_no_secret() -> None:
    assert "canary" not in repr(type_checks.fit(document("Source", **sink(host="x", token="canary")), SINKS))


def test_each_type_is_looked_up_by_kind_and_name_without_a_version() -> None:
    asked = []

    def note(key: Key) -> None:
        asked.append(key)

    type_checks.fit(document("Destination", type="sink:5", processors=[{"type": "drop"}, {"name": "p:2"}]), note)

    assert asked == [Key("DestinationType", "sink"), Key("ProcessorType", "drop")]


VALUES = st.dictionaries(
    st.sampled_from(["host", "token", "keys", "more"]),
    st.sampled_from(["x", "", 5, {"A": "x"}, {}, ["x"], None, "${file:A}"]),
)


@given(st.lists(VALUES, max_size=3), st.sampled_from(["type", "gone"]))
def test_a_fit_is_that_of_its_components_one_by_one(each: list[dict[str, Value]], other: str) -> None:
    given_ = [sink(**values) for values in each]
    broken: list[Violation] = []
    for index, one in enumerate(given_):
        place: Pointer = ("spec", "sources", index, "parameters")
        found = SINKS(Key("SourceType", "sink"))
        assert found is not None
        broken += type_checks.broken_parameters(one["parameters"], found, at=place)
    referring = [
        Violation(
            ("spec", "sources", outer, "parameters", index, "value"), type_checks.BROKEN_REFERENCE, of_parameter=True
        )
        for outer, one in enumerate(given_)
        for index, parameter in enumerate(one["parameters"])
        if parameter == {"name": "host", "value": "${file:A}"}
    ]

    owned = document("Configuration", sources=[*given_], connectors=[{"type": other}])
    fit = type_checks.fit(owned, SINKS, refuse_unknown=True)

    assert fit.violations == (*broken, *referring)
    assert all(value == at(owned, pointer) for pointer, value in fit.secrets)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_whoever_knows_no_type_shows_nothing(each: list[dict[str, Value]]) -> None:
    owned = document("Configuration", sources=[sink(**values) for values in each])

    fit = type_checks.fit(owned, lambda _: None)

    known = type_checks.fit(owned, SINKS)
    assert fit.violations == ()
    assert places(fit).keys() >= places(known).keys()
    values = dict(pair for outer, one in enumerate(each) for pair in numbered(outer, one))
    hidden = {place for place in values if {place, f"{place}/A"} & places(fit).keys()}
    assert hidden == {place for place, value in values.items() if value not in ({}, "${file:A}")}


def numbered(outer: int, values: dict[str, Value]) -> list[tuple[str, Value]]:
    """The values of one source, by their pointers."""
    return [(f"/spec/sources/{outer}/parameters/{inner}/value", value) for inner, value in enumerate(values.values())]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_every_example_of_a_built_in_type_fits(example: dict[str, Any]) -> None:
    assert told(type_checks.fit({**example, "spec": example.get("spec", {})}, look_up)) == []
