"""Configurations are rendered again after every change that they depend on, and what was good stays in force."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import worlds
from tests.projects import resource
from tests.worlds import Options, World

NEVER_ENDS = "- filelog: {}\n{{range .many}}{{range $.many}}" + "{{$a := 1}}" * 2000 + "{{end}}{{end}}"


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({}) as made:
        yield made


def source_type(template: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    return resource("SourceType", "own", logs={"receivers": template}, parameters=list(parameters))


def shared(value: str) -> dict[str, Any]:
    given = [{"name": "verbosity", "value": value}]
    return resource("Destination", "out", type="debug", parameters=given)


def configuration(name: str = "web", **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"sources": [{"type": "own"}], "destinations": [{"name": "out"}], **more}
    return resource("Configuration", name, **spec)


def status(world: World, name: str = "web") -> dict[str, Any]:
    [row] = [row for row in world.stored() if (row["kind"], row["name"]) == ("Configuration", name)]
    found: dict[str, Any] = json.loads(row["status"])
    return found


def text(world: World, name: str = "web") -> str | None:
    found = world.all("select body from rendering where configuration = ?", name)
    return found[0]["body"].decode() if found and found[0]["body"] is not None else None


def former(world: World) -> str | None:
    found = world.all("select previous from rendering where configuration = 'web'")
    return found[0]["previous"].decode() if found and found[0]["previous"] is not None else None


def begin(world: World, *more: dict[str, Any]) -> None:
    world.apply([source_type("- filelog: {include: [/a]}"), shared("basic"), configuration(), *more])


def test_a_configuration_is_rendered_and_says_so(world: World) -> None:
    begin(world)
    assert world.render() == ["web"]
    found = text(world)
    assert found is not None
    assert "filelog/source0" in found
    said = status(world)
    assert (said["ready"], [*said["rendering"]]) == (True, ["hash"])
    assert world.render() == []


def test_what_depends_on_a_change_is_rendered_again_and_nothing_else(world: World) -> None:
    other = resource("Configuration", "other", sources=[{"type": "filelog"}], destinations=[{"type": "debug"}])
    begin(world, other)
    assert world.render() == ["other", "web"]
    world.apply([shared("detailed")])
    assert world.render() == ["web"]
    assert "detailed" in (text(world) or "")
    world.apply([source_type("- filelog: {include: [/b]}")])
    assert world.render() == ["web"]
    assert "/b" in (text(world) or "")
    world.apply([resource("Fleet", "apart")])
    assert world.render() == []


def test_another_version_that_gives_the_same_says_so(world: World) -> None:
    begin(world)
    world.render()
    before = status(world)
    world.apply([configuration(contentType="text/yaml")])
    assert "rendering" not in status(world)
    world.render()
    assert status(world) == before


def test_a_fault_is_told_with_its_place_and_the_last_good_rendering_stays(world: World) -> None:
    begin(world)
    world.render()
    good, before = text(world), status(world)
    world.apply([source_type("- filelog:\n    include: [{{ .nothing }}]")])
    world.render()
    said = status(world)
    assert (said["ready"], text(world)) == (False, good)
    assert said["rendering"] == {
        "hash": before["rendering"]["hash"],
        "fault": {
            "reason": "Source 0 (in place): in `logs.receivers` of the type `own`, line 2: "
            "the parameter `nothing` has no value",
            "parameter": "nothing",
            "type": "own",
            "template": "logs.receivers",
            "line": 2,
        },
    }
    assert world.render() == []
    world.apply([shared("detailed")])  # a change elsewhere leaves the fault
    world.render()
    assert (status(world)["ready"], text(world)) == (False, good)
    world.apply([source_type("- filelog: {include: [/a]}")])
    world.render()
    assert (status(world)["ready"], "detailed" in (text(world) or "")) == (True, True)


def test_a_plan_keeps_what_is_said_of_the_rendering(world: World) -> None:
    begin(world)
    world.apply([source_type("- filelog: {{ .nothing }}")])
    world.render()
    said = status(world)
    needs = {"name": "needed", "type": "string", "required": True}
    world.apply([source_type("- filelog: {{ .nothing }}", needs)])
    assert (status(world)["rendering"], len(status(world)["incomplete"])) == (said["rendering"], 1)
    world.apply([source_type("- filelog: {{ .nothing }}")])
    assert status(world) == said


def test_an_incomplete_one_is_not_rendered_until_it_is_completed(world: World) -> None:
    needs = {"name": "needed", "type": "string", "required": True}
    world.apply([source_type("- filelog: {}", needs), shared("basic")])
    world.apply([configuration()], Options(accept_invalid=True))
    world.render()
    assert (text(world), "rendering" in status(world)) == (None, False)
    given = [{"name": "needed", "value": "x"}]
    world.apply([configuration(sources=[{"type": "own", "parameters": given}])])
    world.render()
    good = text(world)
    assert good is not None
    world.apply([configuration()], Options(accept_invalid=True))
    world.render()
    assert (text(world), [*status(world)["rendering"]], status(world)["ready"]) == (good, ["hash"], False)


def test_what_runs_in_the_service_or_is_text_is_not_rendered(world: World) -> None:
    webhook = resource("Destination", "hook", type="webhook", parameters=[{"name": "hostname", "value": "a.example"}])
    records: dict[str, Any] = {"sources": [{"type": "otlp"}], "destinations": [{"name": "hook"}]}
    begin(world, webhook, configuration("delivers", **records), resource("Configuration", "raw", raw="receivers: {}"))
    world.render()
    assert [text(world, name) is None for name in ("delivers", "raw", "web")] == [True, True, False]
    assert world.render() == []
    world.apply([configuration(**records)])
    world.render()
    assert (text(world), "rendering" in status(world)) == (None, False)


def test_a_value_that_becomes_a_secret_is_in_no_rendering_any_more(world: World) -> None:
    template = "- filelog: {include: [{{ .token }}]}"
    begin(world)
    world.apply([source_type(template, {"name": "token", "type": "string"})])
    world.apply([configuration(sources=[{"type": "own", "parameters": [{"name": "token", "value": "canary-x"}]}])])
    world.render()
    assert "canary-x" in (text(world) or "")
    world.apply([source_type(template, {"name": "token", "type": "string", "options": {"sensitive": True}})])
    assert text(world) is None
    world.render()
    fault = status(world)["rendering"]["fault"]
    assert (text(world), fault["parameter"], "${env:NAME}" in fault["reason"]) == (None, "token", True)
    assert "canary-x" not in json.dumps(status(world))


def test_a_value_that_becomes_a_secret_is_in_no_former_rendering_either(world: World) -> None:
    template = "- filelog:\n    include:\n    - {{ .token }}"
    begin(world)
    world.apply([source_type(template, {"name": "token", "type": "string"})])
    for value in ("canary-x", "${env:TOKEN}"):
        given = [{"name": "token", "value": value}]
        world.apply([configuration(sources=[{"type": "own", "parameters": given}])])
        world.render()
    assert "canary-x" in (former(world) or "")
    world.apply([source_type(template, {"name": "token", "type": "string", "options": {"sensitive": True}})])
    assert (text(world), former(world)) == (None, None)
    world.render()
    assert ("${env:TOKEN}" in (text(world) or ""), former(world)) == (True, None)


def test_a_hostile_type_ends_in_time_and_others_are_rendered(world: World) -> None:
    begin(world)
    many = {"name": "many", "type": "strings", "default": ["x"] * 1000}
    hostile = resource("SourceType", "hostile", logs={"receivers": NEVER_ENDS}, parameters=[many])
    world.apply([hostile, configuration("bad", sources=[{"type": "hostile"}])])
    assert world.render() == ["bad", "web"]
    assert "takes more than" in status(world, "bad")["rendering"]["fault"]["reason"]
    assert text(world) is not None
