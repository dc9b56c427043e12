"""The flows of a plan: what merging a commit does to delivery, in words."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import worlds
from tests.projects import destination, resource
from tests.worlds import Following, Options, World

SOURCE = resource("Source", "in", type="otlp")


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as made:
        yield made


def webhook(name: str = "siem", host: str = "siem.example.com", **more: Any) -> dict[str, Any]:
    made = destination(name, "webhook", hostname=host)
    return {**made, "spec": {**made["spec"], **more}}


def orders(*destinations: str, **more: Any) -> dict[str, Any]:
    named = [{"name": name} for name in destinations]
    return resource("Configuration", "orders", sources=[{"name": "in"}], destinations=named, **more)


BASE = [SOURCE, webhook(), webhook("archive"), orders("siem")]


def files(resources: list[dict[str, Any]]) -> dict[str, str]:
    return {f"{one['kind']}-{one['metadata']['name']}.json": json.dumps(one) for one in resources}


def flows(world: World, base: list[dict[str, Any]], head: list[dict[str, Any]]) -> list[str]:
    """Merge the resources of a commit into others that are stored; return the sentences of the plan."""
    world.push("a", files(base))
    world.settle()
    proposed = world.mirrors["a"].propose(files(head), onto=world.heads["a"])
    return [flow.sentence() for flow in world.review("a", proposed).flows]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param(BASE, [], id="nothing changes"),
        pytest.param(
            [SOURCE, webhook(), webhook("archive"), orders("siem", "archive")],
            ["orders also delivers to archive"],
            id="another destination",
        ),
        pytest.param(
            [SOURCE, webhook(), webhook("archive"), orders("archive")],
            ["orders stops delivering to siem", "orders also delivers to archive"],
            id="one in place of another",
        ),
        pytest.param(
            [SOURCE, webhook(), webhook("archive"), orders("siem", processors=[{"type": "custom"}])],
            [
                "orders goes on delivering to siem by its old version 1: /spec/processors/0 is an enabled processor, "
                "which the service cannot run yet; remove or disable it"
            ],
            id="a processor",
        ),
        pytest.param(
            [resource("Source", "in", type="otlp", disabled=True), *BASE[1:]],
            ["orders stops delivering to siem: It has no enabled source of type `otlp`; add one"],
            id="a source that is disabled",
        ),
        pytest.param(
            [SOURCE, webhook(disabled=True), *BASE[2:]],
            ["orders stops delivering to siem: It has no enabled destination of type `webhook`; add one"],
            id="a destination that is disabled",
        ),
        pytest.param(
            BASE[:-1], ["orders stops delivering to siem: the Configuration is deleted"], id="a Configuration less"
        ),
        pytest.param(
            [SOURCE, webhook(host="other.example.com"), *BASE[2:]], ["siem: endpoint changes"], id="another endpoint"
        ),
        pytest.param(
            [SOURCE, webhook(), webhook("archive", host="other.example.com"), BASE[3]],
            [],
            id="another endpoint of a destination that nothing delivers to",
        ),
        pytest.param(
            [*BASE[:3], orders("siem", selector={"matchLabels": {"app": "web"}})],
            ["orders delivers other records: its selector changes"],
            id="another selector",
        ),
        pytest.param(
            [*BASE, resource("Configuration", "new", sources=[{"name": "in"}], destinations=[{"name": "siem"}])],
            ["new delivers to siem"],
            id="a new Configuration",
        ),
        pytest.param(
            [*BASE[:3], orders("siem", description="the same flows in other words")], [], id="another text alone"
        ),
    ],
)
def test_a_plan_tells_what_changes_in_delivery(world: World, head: list[dict[str, Any]], expected: list[str]) -> None:
    assert flows(world, BASE, head) == expected


def test_a_flow_that_was_stale_is_told_when_the_present_version_delivers(world: World) -> None:
    broken = [*BASE[:3], orders("siem", processors=[{"type": "custom"}])]
    world.push("a", files(BASE))
    world.settle()
    assert flows(world, broken, BASE) == ["orders delivers to siem by its present version again"]


def test_a_run_counts_them_and_names_them(world: World) -> None:
    world.push("a", files(BASE))
    world.settle()
    world.push("a", files([SOURCE, webhook(host="other.example.com"), *BASE[2:]]))
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.flow_counts, [one.sentence() for one in ran.planned.flows]) == (
        {"moved": 1},
        ["siem: endpoint changes"],
    )


def test_a_dry_run_tells_them_and_a_request_that_is_stored_does_not(world: World) -> None:
    world.apply(BASE)
    more = orders("siem", "archive")
    asked = world.apply([more], Options(dry_run=True)).body
    assert asked["flows"] == [
        {
            "change": "started",
            "configuration": "orders",
            "destination": "archive",
            "also": True,
            "text": "orders also delivers to archive",
        }
    ]
    assert "flows" not in world.apply([more]).body
    gone = world.delete([more], Options(dry_run=True)).body["flows"]
    assert [one["text"] for one in gone] == [
        "orders stops delivering to archive: the Configuration is deleted",
        "orders stops delivering to siem: the Configuration is deleted",
    ]
