"""Rules that earlier versions did not have: what they stored stays as it is, and is told."""

import json
from typing import Any

import pytest

from reconciler.model import type_checks
from reconciler.model.secret_references import AvailableSecrets
from tests import worlds
from tests.projects import Resource, configuration, destination, resource, type_of
from tests.worlds import Options, World

BROKEN_TEXT = "receivers: [otlp"
NO_YAML = "/spec/raw: does not parse as YAML, so that no collector can load it; mend the text"
UNKNOWN = "/spec/parameters/0/type: is not a type of parameters; did you mean `string`?"
OTHER = (
    "/spec/parameters/1/relevantIf/0/value: is another type than `on` has, which is `bool`; "
    "compare with a value of that"
)


def conditional(value: Any) -> Resource:
    condition = {"name": "on", "operator": "equals", "value": value}
    return type_of("own", {"name": "on", "type": "bool"}, {"name": "b", "type": "int", "relevantIf": [condition]})


CASES = {
    "a text that is no YAML": (
        resource("Configuration", "own", raw="{}"),
        resource("Configuration", "own", raw=BROKEN_TEXT),
        resource("Configuration", "own", raw=BROKEN_TEXT, contentType="text/yaml"),
        NO_YAML,
    ),
    "an unknown type of a parameter": (
        type_of("own", {"name": "a", "type": "string"}),
        type_of("own", {"name": "a", "type": "strng"}),
        type_of("own", {"name": "a", "type": "strng", "label": "A"}),
        UNKNOWN,
    ),
    "a condition of another type": (
        conditional(value=True),
        conditional(value="on"),
        {**conditional(value="on"), "metadata": {"name": "own", "description": "mine"}},
        OTHER,
    ),
}


def told(world: World, *resources: Resource, options: Options = worlds.ASKED) -> list[dict[str, Any]]:
    updates = world.apply(resources, options).body["updates"]
    return [{key: value for key, value in one.items() if key != "resource"} for one in updates]


@pytest.mark.parametrize(("valid", "stored", "other", "line"), CASES.values(), ids=CASES)
def test_what_is_new_obeys_them_and_what_is_stored_is_told(
    world: World, valid: Resource, stored: Resource, other: Resource, line: str
) -> None:
    invalid = [{"status": "invalid", "reason": line}]
    assert told(world, stored) == invalid
    assert told(world, stored, options=Options(accept_invalid=True)) == invalid
    assert told(world, valid) == [{"status": "created"}]
    world.age(stored)
    before = world.stored()
    assert told(world, stored) == [{"status": "unchanged", "notes": [line]}]
    assert told(world, other) == invalid
    assert world.stored() == before
    assert told(world, valid) == [{"status": "configured"}]


@pytest.mark.parametrize(("valid", "stored", "other", "line"), CASES.values(), ids=CASES)
def test_a_repository_keeps_what_it_owns_until_its_document_changes(
    world: World, valid: Resource, stored: Resource, other: Resource, line: str
) -> None:
    world.push("a", {"own.json": json.dumps(valid)})
    world.settle()
    world.age(stored)
    world.push("a", {"own.json": json.dumps(stored)})
    world.settle()
    before = world.stored()
    for ran in (world.read_all("a"), world.read_all("a")):
        assert (ran.told, ran.changes) == ([], [])
    assert world.stored() == before
    world.push("a", {"own.json": json.dumps(other)})
    looked = world.look("a")
    assert looked is not None
    [status] = looked.told
    assert (status.status, (status.reason or "").split(": ", 1)[1]) == ("invalid", line)
    assert world.stored() == before


COVERED = "/spec/parameters/0/value: " + type_checks.OF_THE_SERVICE
KEPT = AvailableSecrets(patterns=("DESTINATION_DEFAULT__*",))


def status(world: World, name: str) -> dict[str, Any]:
    [row] = [row for row in world.stored() if row["name"] == name]
    said: dict[str, Any] = json.loads(row["status"])
    return said


def test_a_variable_of_the_service_in_a_component_of_collectors_makes_what_is_stored_incomplete(world: World) -> None:
    named = destination("one", "otlphttp", endpoint="${env:DESTINATION_DEFAULT__URL}")
    whole = resource("Configuration", "all", destinations=[{"name": "one"}])
    assert told(world, named, whole) == [{"status": "created"}] * 2
    world.secrets = KEPT
    assert told(world, named) == [{"status": "unchanged", "notes": [COVERED]}]
    assert (status(world, "one")["incomplete"], status(world, "all")["ready"]) == ([COVERED], False)
    other = destination("one", "otlphttp", endpoint="${env:DESTINATION_DEFAULT__HOST}")
    assert told(world, other) == [{"status": "invalid", "reason": COVERED}]
    assert told(world, destination("one", "otlphttp", endpoint="${env:URL}")) == [{"status": "configured"}]
    assert status(world, "all")["ready"] is True


def test_components_of_a_type_that_is_stored_are_judged_by_it_as_before(world: World) -> None:
    world.apply([type_of("own", {"name": "a", "type": "string"}), configuration("all")])
    world.age(type_of("own", {"name": "a", "type": "strng"}))
    assert told(world, destination("one", a={"any": ["JSON"]})) == [{"status": "created"}]
