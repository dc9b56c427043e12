"""A member that is absent makes no difference, whoever stored the resource and whenever."""

import json

import pytest

from tests.projects import Resource, labelled, resource
from tests.worlds import World

FLEET = labelled(resource("Fleet", "one", selector={"matchLabels": {"a": "b"}}), description="one")
TEXT = resource("Configuration", "text", raw="receivers: {}")
INLINE = resource("Configuration", "inline", sources=[{"type": "otlp"}])
SECRET = {"name": "headers", "value": {"Authorization": "canary-token"}, "sensitive": True}
HOOK = resource("Destination", "hook", type="webhook", parameters=[{"name": "hostname", "value": "a.example"}, SECRET])

SAME: dict[str, tuple[Resource, Resource]] = {
    "metadata": (FLEET, labelled(FLEET, id="", displayName="", icon=None, labels={}, annotations=None)),
    "lists beside a text": (TEXT, resource("Configuration", "text", **TEXT["spec"], sources=[], destinations=None)),
    "a component": (
        INLINE,
        resource("Configuration", "inline", sources=[{"type": "otlp", "processors": [], "disabled": None, "id": ""}]),
    ),
    "a secret": (HOOK, {**HOOK, "spec": {**HOOK["spec"], "processors": [], "disabled": None}}),
}


@pytest.mark.parametrize(("plain", "padded"), SAME.values(), ids=SAME)
def test_the_api_takes_either_for_the_other(world: World, plain: Resource, padded: Resource) -> None:
    assert world.apply([padded]).statuses == ["created"]
    [first] = world.stored()
    assert world.apply([plain]).statuses == ["unchanged"]
    assert world.apply([padded]).statuses == ["unchanged"]
    assert world.stored() == [first]


@pytest.mark.parametrize(("plain", "padded"), SAME.values(), ids=SAME)
def test_what_git_owns_is_not_forbidden_for_that(world: World, plain: Resource, padded: Resource) -> None:
    if "headers" in json.dumps(plain):
        pytest.skip("a secret in clear of what another owns is never equal")
    world.push("a", {"one.json": json.dumps(padded)})
    world.settle()
    assert world.apply([plain, labelled(plain, icon="x")][:1]).statuses == ["unchanged"]
    assert world.apply([padded]).statuses == ["unchanged"]


def test_a_plan_shows_no_difference_in_what_is_absent(world: World) -> None:
    world.push("a", {"one.json": json.dumps(FLEET)})
    world.settle()
    world.age(labelled(FLEET, displayName="", labels={}))
    head = world.mirrors["a"].propose({"one.json": json.dumps(labelled(FLEET, icon="x"))}, onto=world.heads["a"])
    [status] = world.review("a", head).statuses
    assert [field.path for field in status.fields] == ["metadata.icon"]
