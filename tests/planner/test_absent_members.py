"""A member that is absent makes no difference, whoever stored the resource and whenever."""

import json
from typing import Any

import pytest

from tests.projects import Resource, configuration, labelled, resource
from tests.worlds import Options, World

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


def without_digests(world: World) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "digest"} for row in world.stored()]


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


@pytest.mark.parametrize(("plain", "padded"), list(SAME.values())[:3], ids=list(SAME)[:3])
@pytest.mark.parametrize("is_git", [False, True])
def test_what_an_earlier_version_stored_is_equal_and_its_digest_is_renewed(
    world: World, plain: Resource, padded: Resource, *, is_git: bool
) -> None:
    def ask() -> list[str]:
        if not is_git:
            return world.apply([padded]).statuses
        assert world.read_all("a").told == []
        return ["unchanged"]

    world.push("a", {"one.json": json.dumps(padded)} if is_git else {"none.json": json.dumps(configuration("none"))})
    world.settle()
    if not is_git:
        world.apply([plain])
    [renewed] = [row["digest"] for row in world.stored() if row["name"] == plain["metadata"]["name"]]
    old = {**padded, "metadata": {key: value for key, value in padded["metadata"].items() if key != "id"}}
    world.age(old)
    before = without_digests(world)
    assert world.apply([plain], Options(dry_run=True)).statuses == ["unchanged"]
    assert ask() == ["unchanged"]
    assert without_digests(world) == before
    assert renewed in [row["digest"] for row in world.stored()]
    revision = world.revision
    assert ask() == ["unchanged"]
    if not is_git:
        assert world.revision == revision
    assert without_digests(world) == before


def test_a_plan_shows_no_difference_in_what_is_absent(world: World) -> None:
    world.push("a", {"one.json": json.dumps(FLEET)})
    world.settle()
    world.age(labelled(FLEET, displayName="", labels={}))
    head = world.mirrors["a"].propose({"one.json": json.dumps(labelled(FLEET, icon="x"))}, onto=world.heads["a"])
    [status] = world.review("a", head).statuses
    assert [field.path for field in status.fields] == ["metadata.icon"]
