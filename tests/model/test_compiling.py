"""Configurations: the place that runs them, those that deliver, and the reasons of the others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import routes
from reconciler.model.names import Key
from reconciler.model.routes import ComponentUse, Destination, Endpoint, Route, RouteVerdict, RunsOn, Use
from reconciler.model.values import Value

RESOURCES: dict[Key, dict[str, Any]] = {
    Key("Source", "in"): {"type": "otlp"},
    Key("Source", "in-5"): {"type": "otlp:5"},
    Key("Source", "file"): {"type": "file"},
    Key("Source", "off"): {"type": "otlp", "disabled": True},
    Key("Source", "masked"): {"type": "otlp", "processors": [{"name": "mask"}]},
    Key("Source", "quiet"): {
        "type": "otlp",
        "processors": [{"name": "sleeping"}, {"type": "custom", "disabled": True}],
    },
    Key("Processor", "mask"): {"type": "custom"},
    Key("Processor", "sleeping"): {"type": "custom", "disabled": True},
    Key("Destination", "siem"): {"type": "webhook"},
    Key("Destination", "otlp"): {"type": "otlp"},
    Key("Destination", "off"): {"type": "webhook", "disabled": True},
    Key("Destination", "masked"): {"type": "webhook", "processors": [{"type": "custom"}]},
    Key("Extension", "queue"): {"type": "file_storage"},
}
IN, OUT = [{"name": "in"}], [{"name": "siem"}]


def known(key: Key) -> ComponentUse | None:
    return routes.component_use(RESOURCES[key]) if key in RESOURCES else None


def verdict(*, ready: bool = True, **spec: Any) -> RouteVerdict:
    return routes.route_verdict("all", spec, ready=ready, known=known)


def why(**spec: Any) -> str:
    found = verdict(**spec)
    assert not found.reason or not found.webhooks
    return found.reason


def in_place(given_id: str | None = "hook", **more: Any) -> dict[str, Any]:
    return {"type": "webhook", **({} if given_id is None else {"id": given_id}), **more}


@pytest.mark.parametrize(
    "spec",
    [
        {"sources": IN, "destinations": OUT},
        {"sources": [{"name": "in-5:latest"}], "destinations": [{"name": "siem:3"}]},
        {"sources": [{"type": "otlp"}], "destinations": [in_place()]},
        {
            "sources": [{"name": "file"}, {"name": "off"}, *IN],
            "destinations": [{"name": "otlp"}, {"name": "off"}, *OUT],
        },
        {"sources": [{"name": "quiet"}], "destinations": OUT, "processors": [{"name": "sleeping"}]},
        {"sources": IN, "destinations": OUT, "processors": [{"type": "custom", "disabled": True}]},
        {"sources": IN, "destinations": [{"name": "siem", "routes": {}}], "extensions": [{"name": "queue"}]},
        # What is disabled counts for nothing, with all that stands in it.
        {"sources": [*IN, {"name": "file", "disabled": True, "routes": {"logs": []}}], "destinations": OUT},
        {"sources": [*IN, {"name": "masked", "disabled": True}], "destinations": OUT},
        {"sources": [*IN, {"name": "off", "processors": [{"name": "mask"}]}], "destinations": OUT},
        {"sources": IN, "destinations": [*OUT, in_place(None, disabled=True)]},
        {"sources": IN, "destinations": [{"name": "siem", "processors": [{"name": "mask", "disabled": True}]}]},
    ],
)
def test_these_deliver(spec: dict[str, Any]) -> None:
    assert why(**spec) == ""


ROUTES = " has `routes`, which the service does not follow yet; remove them or disable the component."
PROCESSOR = " has an enabled processor, which the service cannot run yet; remove or disable it."
MASK = PROCESSOR.replace("an enabled processor", "the enabled processor `mask`")
IS_PROCESSOR = " is an enabled processor, which the service cannot run yet; remove or disable it."
BAD_ID = (
    "/spec/destinations/0 is a webhook in place, and its `id` must be 1 to 63 letters, digits, `-`, `_` or `.`, and "
    "begin and end with a letter or digit; choose another."
)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"ready": False, "runsOn": "collectors", "sources": IN, "destinations": OUT}, routes.ON_COLLECTORS),
        ({"ready": False}, "It is incomplete; complete what `status.incomplete` lists."),
        ({"raw": ""}, "It holds `raw`, which the service does not run; use sources and destinations."),
        ({"sources": [{"name": "in", "routes": {"logs": []}}], "destinations": OUT}, "/spec/sources/0" + ROUTES),
        ({"sources": IN, "destinations": [{"name": "siem", "routes": {"a": 1}}]}, "/spec/destinations/0" + ROUTES),
        (
            {"sources": IN, "destinations": OUT, "extensions": [{"name": "queue", "routes": {"a": 1}}]},
            "/spec/extensions/0" + ROUTES,
        ),
        ({"processors": [{"type": "custom"}]}, routes.NEITHER),  # mending the processor would not help
        ({"sources": IN, "destinations": OUT, "processors": [{"type": "custom"}]}, "/spec/processors/0" + IS_PROCESSOR),
        ({"sources": IN, "destinations": OUT, "processors": [{"name": "mask"}]}, "/spec/processors/0" + IS_PROCESSOR),
        ({"sources": [{"name": "masked"}], "destinations": OUT}, "/spec/sources/0" + MASK),
        ({"sources": IN, "destinations": [{"name": "masked"}]}, "/spec/destinations/0" + PROCESSOR),
        (
            {"sources": [{"type": "otlp", "processors": [{"name": "mask"}]}], "destinations": OUT},
            "/spec/sources/0" + MASK,
        ),
        (
            {"sources": IN, "destinations": [{"name": "siem", "processors": [{"type": "custom"}]}]},
            "/spec/destinations/0" + PROCESSOR,
        ),
        # A source that nothing is taken from has telemetry of its own, which nobody processes either.
        (
            {"sources": [*IN, {"name": "file", "processors": [{"name": "mask"}]}], "destinations": OUT},
            "/spec/sources/1" + MASK,
        ),
        ({"destinations": OUT}, "It has no enabled source of type `otlp`; add one."),
        ({"sources": [{"name": "off"}], "destinations": OUT}, "It has no enabled source of type `otlp`; add one."),
        ({"sources": IN}, "It has no enabled destination of type `webhook`; add one."),
        (
            {"sources": IN, "destinations": [{"name": "otlp"}, {"name": "off"}, {"name": "siem", "disabled": True}]},
            "It has no enabled destination of type `webhook`; add one.",
        ),
        ({}, "It has no enabled source of type `otlp` and no enabled destination of type `webhook`; add them."),
        (
            {"sources": IN, "destinations": [in_place(None)]},
            "/spec/destinations/0 is a webhook in place without an `id`; give it one, since its name is made of it.",
        ),
        ({"sources": IN, "destinations": [in_place("a/b")]}, BAD_ID),
        ({"sources": IN, "destinations": [in_place("a" * 64)]}, BAD_ID),
        (
            {"sources": IN, "destinations": [in_place(), in_place()]},
            "/spec/destinations/1 is a webhook in place with the `id` of another one; give it an `id` of its own.",
        ),
        (
            {"sources": [{"name": "gone"}], "destinations": OUT},
            "/spec/sources/0 names a Source that cannot be read; apply that anew.",
        ),
        (
            {"sources": [{"type": "otlp", "processors": [{"name": "gone"}]}], "destinations": OUT},
            "/spec/sources/0 names a Processor that cannot be read; apply that anew.",
        ),
    ],
)
def test_these_do_not_and_say_why(spec: dict[str, Any], reason: str) -> None:
    assert why(**spec) == reason


def test_its_webhooks_are_the_named_ones_each_once_and_those_in_place_under_its_own_name() -> None:
    given: list[Value] = [{"name": "url", "value": 1}]
    found = verdict(sources=IN, destinations=[*OUT, in_place("b", parameters=given), *OUT, in_place("a")])
    assert found.webhooks == (
        Use("siem", ("spec", "destinations", 0), Key("Destination", "siem"), []),
        Use("all:b", ("spec", "destinations", 1), None, given),
        Use("all:a", ("spec", "destinations", 3), None, []),
    )


def made(use: Use) -> Destination | None:
    return None if use.name == "all:bad" else Destination(name=use.name, endpoint=Endpoint(host="h"))


def test_a_route_has_the_labels_of_the_selector_and_the_destinations() -> None:
    spec: Any = {"sources": IN, "destinations": [*OUT, in_place()], "selector": {"matchLabels": {"b": "", "a": "1"}}}
    found = routes.compile_routes("all", spec, ready=True, known=known, make=made)
    assert found.route == Route(configuration="all", labels=(("a", "1"), ("b", "")), destinations=("siem", "all:hook"))
    assert [one.name for one in found.destinations] == ["siem", "all:hook"]
    assert found.verdict.reason == ""


def test_with_a_webhook_that_does_not_fit_its_type_it_does_not_deliver() -> None:
    spec: Any = {"sources": IN, "destinations": [*OUT, in_place("bad")]}
    found = routes.compile_routes("all", spec, ready=True, known=known, make=made)
    reason = "/spec/destinations/1 is a webhook with parameters that do not fit their type; correct them."
    assert (found.verdict.reason, found.route, found.destinations) == (reason, None, ())


WANTS: dict[str, Any] = {"sources": IN, "destinations": OUT}


@pytest.mark.parametrize(
    ("spec", "runs_on"),
    [
        (WANTS, "service"),
        ({**WANTS, "ready": False}, "service"),
        ({**WANTS, "processors": [{"type": "custom"}]}, "service"),
        ({**WANTS, "destinations": [in_place(None)]}, "service"),
        ({**WANTS, "sources": [{"name": "gone"}]}, "service"),
        ({**WANTS, "sources": [{"name": "file"}]}, "collectors"),
        ({**WANTS, "sources": [{"name": "off"}]}, "collectors"),
        ({**WANTS, "destinations": [{"name": "siem", "disabled": True}]}, "collectors"),
        ({**WANTS, "raw": "{}"}, "collectors"),
        ({}, "collectors"),
        ({**WANTS, "runsOn": "collectors"}, "collectors"),
        ({"runsOn": "service"}, "service"),
        ({"runsOn": "service", "raw": "{}"}, "service"),
    ],
)
def test_where_it_runs_is_what_it_says_and_otherwise_what_it_wants(spec: dict[str, Any], runs_on: str) -> None:
    assert verdict(**spec).runs_on == runs_on


def test_what_runs_on_collectors_wants_no_records() -> None:
    assert routes.wants("all", WANTS, known) != ()
    assert routes.wants("all", {**WANTS, "runsOn": "collectors"}, known) == ()


ONLY = "/spec/{} is of type `{}`, which runs {} only; {} it out"


@pytest.mark.parametrize(
    ("spec", "left_out"),
    [
        ({**WANTS, "extensions": [{"name": "queue"}]}, []),
        (
            {**WANTS, "destinations": [*OUT, {"name": "otlp"}], "extensions": [{"type": "health"}]},
            [
                ONLY.format("destinations/1", "otlp", "on collectors", "the service leaves"),
                ONLY.format("extensions/0", "health", "on collectors", "the service leaves"),
            ],
        ),
        ({**WANTS, "processors": [{"name": "mask"}], "sources": [*IN, {"name": "file", "disabled": True}]}, []),
        (
            {**WANTS, "runsOn": "collectors", "processors": [{"name": "mask"}], "extensions": [{"name": "queue"}]},
            [
                ONLY.format("destinations/0", "webhook", "in the service", "collectors leave"),
                ONLY.format("extensions/0", "file_storage", "in the service", "collectors leave"),
            ],
        ),
    ],
)
def test_components_that_do_not_run_there_are_named(spec: dict[str, Any], left_out: list[str]) -> None:
    assert list(verdict(**spec).left_out) == left_out


COMPONENTS = st.sampled_from(
    [
        *({"name": key.name} for key in RESOURCES if key.kind != "Extension"),
        {"name": "gone"},
        in_place(),
        in_place(None),
    ]
)
SPECS = st.fixed_dictionaries(
    {}, optional={key: st.lists(COMPONENTS, max_size=3) for key in ("sources", "destinations", "processors")}
)


@given(SPECS, st.sampled_from(["sources", "destinations"]), st.booleans())
def test_an_error_or_a_processor_never_turns_the_service_into_collectors(
    spec: dict[str, Any], where: str, ready: bool
) -> None:
    found = verdict(**spec)
    assert found.reason or found.runs_on is RunsOn.SERVICE
    worse = {**spec, "processors": [{"type": "custom"}]}
    worse[where] = [{**one, "routes": {"logs": []}, "processors": [{"name": "mask"}]} for one in spec.get(where, [])]
    broken = {**spec, where: [{"name": "gone"} for _ in spec.get(where, [])]}
    if found.runs_on is RunsOn.SERVICE:
        assert {verdict(ready=ready, **one).runs_on for one in (spec, worse, broken)} == {RunsOn.SERVICE}
