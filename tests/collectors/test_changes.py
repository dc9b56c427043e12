"""Changes of what Collectors run: what differs, where it comes from, and the limits."""

from collections.abc import Iterator, Mapping

import pytest

from reconciler.collectors import changes
from reconciler.collectors.changes import Difference, Differences
from reconciler.collectors.components import Origin
from reconciler.model import builtins
from reconciler.model.names import Key
from reconciler.model.values import Value
from tests.collectors.test_rendering import component

Resources = Mapping[Key, Value]
WEB, EDGE = Key("Configuration", "web"), Key("Configuration", "edge")
OUT = Key("Destination", "out")
SIMPLE: dict[str, Value] = {"sources": [component("filelog", include=["a"])], "destinations": [{"name": "out"}]}
BEFORE: Resources = {WEB: SIMPLE, OUT: component("debug")}


def compared(before: Resources, after: Resources, *keys: Key, unknown: frozenset[Key] = frozenset()) -> Differences:
    built_in = {key: document["spec"] for key, document in builtins.built_in().items()}
    sides = ({**built_in, **one}.get for one in (before, after))
    return changes.compare(keys or (WEB,), *sides, unknown=unknown)


def only(before: Resources, after: Resources) -> Difference:
    [found] = compared(before, after).found
    return found


def test_what_is_equal_is_no_change() -> None:
    assert compared(BEFORE, dict(BEFORE)) == Differences((), 0)
    assert compared({}, {}) == Differences((), 0)


def test_a_change_of_what_a_configuration_names_is_its_own() -> None:
    found = only(BEFORE, {**BEFORE, OUT: component("debug", verbosity="detailed")})
    assert found.key == WEB
    assert "verbosity: basic" in (found.old.text or "")
    assert "verbosity: detailed" in (found.new.text or "")


def test_one_that_comes_or_goes_has_one_side() -> None:
    assert only({OUT: BEFORE[OUT]}, BEFORE).old.text is None
    assert only(BEFORE, {OUT: BEFORE[OUT]}).new.text is None


def test_what_runs_in_the_service_is_nothing_for_collectors() -> None:
    delivers: Value = {"sources": [component("otlp")], "destinations": [component("webhook", hostname="a.example")]}
    assert compared({}, {WEB: delivers}).found == ()
    assert only(BEFORE, {**BEFORE, WEB: delivers}).new.text is None


def test_it_may_say_where_it_runs() -> None:
    says: dict[str, Value] = {
        "sources": [component("otlp")],
        "destinations": [component("webhook", hostname="a.example")],
    }
    assert compared({}, {WEB: {**says, "runsOn": "collectors"}}).found
    assert compared({}, {**BEFORE, WEB: {**SIMPLE, "runsOn": "service"}}).found == ()


def test_one_that_cannot_be_rendered_any_more_says_why_and_where() -> None:
    found = only(BEFORE, {**BEFORE, OUT: component("otlphttp", headers={"a": "(sensitive)"})})
    assert found.new.text is None
    assert found.new.reason.startswith("Destination `out`: the service holds the value of `headers` as a secret")
    assert found.new.fault is not None
    assert found.new.fault.origin == Origin(OUT)
    assert found.old.reason == ""


def test_a_value_that_a_type_makes_a_secret_is_not_shown() -> None:
    own = Key("DestinationType", "own")
    exporter: Value = {"exporters": "- debug: {verbosity: {{ .level }}}"}
    open_level: Value = {"name": "level", "type": "string"}
    hidden: Value = {"name": "level", "type": "string", "options": {"sensitive": True}}
    before: Resources = {
        WEB: SIMPLE,
        OUT: component("own", level="was-open"),
        own: {"parameters": [open_level], "logs": exporter},
    }
    found = only(before, {**before, own: {"parameters": [hidden], "logs": exporter}})
    assert "was-open" in (found.old.text or "")
    assert found.new.text is None
    assert "holds the value of `level` as a secret" in found.new.reason


def test_one_that_fails_as_before_is_no_change() -> None:
    fails: Resources = {WEB: SIMPLE}
    assert compared(fails, {WEB: {**SIMPLE, "measurementInterval": "1m"}}).found == ()
    assert only(fails, BEFORE).old.reason == "Destination `out` is missing or cannot be read"


def test_raw_is_what_it_is() -> None:
    found = only({WEB: {"raw": "a: 1"}}, {WEB: {"raw": "a: 2"}})
    assert [(side.text, side.raw) for side in (found.old, found.new)] == [("a: 1", True), ("a: 2", True)]
    one: Resources = {WEB: {"raw": "a: 1"}}
    pairs: list[tuple[Resources, Resources]] = [(one, {WEB: {"raw": "a: 2"}}), ({}, one), (BEFORE, one), ({}, BEFORE)]
    raw = [only(before, after).shown(lambda *_: None).raw for before, after in pairs]
    assert raw == [True, True, False, False]


def test_one_that_names_what_may_be_elsewhere_is_passed_over() -> None:
    after: Resources = {WEB: SIMPLE}
    assert compared({}, after, unknown=frozenset({OUT})).found == ()
    assert compared({}, after).found != ()


def test_each_component_has_its_place() -> None:
    named: dict[str, Value] = {**component("filelog", include=["a"]), "processors": [component("batch")]}
    resources: Resources = {
        WEB: {
            "sources": [{"name": "app", "processors": [{"name": "shared"}, component("redaction")]}, component("otlp")],
            "processors": [component("batch")],
            "destinations": [{"name": "out"}],
        },
        OUT: component("debug"),
        Key("Source", "app"): named,
        Key("Processor", "shared"): component("resource", upsert={"a": "b"}),
    }
    assert only({}, resources).new.origins == {
        "filelog/app": Origin(Key("Source", "app")),
        "batch/app__processor0": Origin(Key("Source", "app"), ("spec", "processors", 0)),
        "resource/app__processor1": Origin(Key("Processor", "shared")),
        "redaction/app__processor2": Origin(None, ("spec", "sources", 0, "processors", 1)),
        "otlp/source1": Origin(None, ("spec", "sources", 1)),
        "batch/processor0": Origin(None, ("spec", "processors", 0)),
        "debug/out-0": Origin(OUT),
    }


def test_so_many_are_compared_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    after: Resources = {**BEFORE, EDGE: SIMPLE}
    assert len(compared({}, after, WEB, EDGE).found) == 2
    monkeypatch.setattr(changes, "MOST", 1)
    found = compared({}, after, WEB, EDGE)
    assert ([one.key for one in found.found], found.left_out) == ([EDGE], 1)


def test_so_much_text_is_shown_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_CHARACTERS", 600)
    found = compared({}, {**BEFORE, EDGE: SIMPLE}, WEB, EDGE)
    assert (len(found.found), found.left_out) == (1, 1)


def test_there_is_so_much_time_for_all() -> None:
    def late() -> Iterator[float]:
        yield 0.0
        while True:
            yield changes.SECONDS + 1

    ticks = late()
    found = changes.compare((WEB, EDGE), BEFORE.get, {**BEFORE, EDGE: SIMPLE}.get, clock=lambda: next(ticks))
    assert found == Differences((), 2)
