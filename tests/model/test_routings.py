"""The routes of a project, found in a store: Configurations, and of all else what they name."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.model.routes import Endpoint, OnFull, Route, Schedule, Storage, Sync
from reconciler.store.records import Changes, HeadStatusRow
from reconciler.worker.client import COMMAND, WorkerClient
from reconciler.worker.messages import RoutesFound, RoutesJob
from tests import worlds
from tests.projects import destination, resource
from tests.worlds import Following, Options, World

pytestmark = pytest.mark.anyio

SOURCE = resource("Source", "in", type="otlp")
IN = [{"name": "in"}]


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as made:
        yield made


def webhook(name: str, **parameters: Any) -> dict[str, Any]:
    return destination(name, "webhook", **{"hostname": f"{name}.example.com", **parameters})


def in_place(given_id: str, hostname: str) -> dict[str, Any]:
    return {"id": given_id, "type": "webhook", "parameters": [{"name": "hostname", "value": hostname}]}


def delivering(name: str, *destinations: str | dict[str, Any], **labels: str) -> dict[str, Any]:
    used = [{"name": one} if isinstance(one, str) else one for one in destinations]
    return resource("Configuration", name, sources=IN, destinations=used, selector={"matchLabels": labels})


def apply(world: World, *resources: dict[str, Any], options: Options = worlds.ASKED) -> None:
    answered = world.apply(resources, options)
    assert set(answered.statuses) <= {"created", "configured", "unchanged"}, answered.body


def test_routes_and_destinations_are_sorted_and_each_is_there_once(world: World) -> None:
    apply(
        world,
        SOURCE,
        webhook("siem"),
        webhook("archive"),
        webhook("unused"),
        delivering("web", "siem", "archive", role="web"),
        delivering("all", "siem", in_place("hook", "hook.example.com")),
        delivering("off", "otlp-only"),
        destination("otlp-only", "otlp"),
    )
    found, restated = world.routes()
    assert (found.project, found.revision, restated) == ("default", world.revision, ())
    assert found.routes == (
        Route(configuration="all", labels=(), destinations=("siem", "all:hook")),
        Route(configuration="web", labels=(("role", "web"),), destinations=("siem", "archive")),
    )
    assert [(one.name, one.endpoint) for one in found.destinations] == [
        ("all:hook", Endpoint(host="hook.example.com")),
        ("archive", Endpoint(host="archive.example.com")),
        ("siem", Endpoint(host="siem.example.com")),
    ]
    assert found.former == ()


def test_secrets_are_as_they_were_stored_and_no_printed_route_shows_them(world: World) -> None:
    headers = {"Authorization": "canary-token", "X-Key": "${env:DESTINATION_DEFAULT__TOKEN}"}
    place = in_place("hook", "h.example.com")
    place["parameters"].append({"name": "headers", "value": headers})
    apply(world, SOURCE, webhook("siem", headers=headers), delivering("all", "siem", place))
    found, _ = world.routes("all:hook", "siem")
    assert [dict(one.endpoint.headers) for one in found.destinations] == [headers, headers]
    assert "canary" not in repr(found)


def test_a_queue_lies_where_the_extension_says_stored_or_built_in(world: World) -> None:
    own = resource(
        "Extension",
        "own",
        type="file_storage",
        parameters=[{"name": "max_bytes", "value": 4096}, {"name": "sync", "value": "none"}],
    )
    schedule = {"delivery_schedule": "0 22 * * *", "delivery_window": 30}
    apply(
        world,
        SOURCE,
        own,
        webhook("a", persistent_queue_storage="own:2", on_full="drop_newest", **schedule),
        webhook("b"),
        webhook("c", persistent_queue_enabled=False),
        delivering("all", "a", "b", "c"),
    )
    found = {one.name: one for one in world.routes()[0].destinations}
    assert found["a"].buffering.storage == Storage(directory="own", max_bytes=4096, sync=Sync.NONE)
    assert found["a"].buffering.on_full is OnFull.DROP_NEWEST
    assert found["a"].schedule == Schedule(cron="0 22 * * *", window=30)
    assert found["b"].buffering.storage == Storage()
    assert found["c"].buffering.storage is None


def test_a_destination_that_is_gone_is_known_as_it_was_last(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), delivering("all", "siem", in_place("hook", "one.example.com")))
    apply(world, webhook("siem", headers={"Authorization": "canary-token"}, port=444))
    apply(world, delivering("all", "siem", in_place("hook", "two.example.com")))
    left = ("siem", "all:hook", "all:nothing", "nothing", "nobody:hook")
    assert world.routes(*left)[0].former == ()
    apply(world, delivering("all", in_place("other", "three.example.com")))
    known = [(one.name, one.endpoint.host, one.endpoint.port) for one in world.routes(*left)[0].former]
    assert known == [("all:hook", "two.example.com", 8080), ("siem", "siem.example.com", 444)]
    assert world.delete([delivering("all"), webhook("siem")]).statuses == ["deleted", "deleted"]
    gone = world.routes(*left, "all:other")[0]
    assert gone.destinations == ()
    assert [(one.name, one.endpoint.host) for one in gone.former] == [
        ("all:hook", "two.example.com"),
        ("all:other", "three.example.com"),
        ("siem", "siem.example.com"),
    ]
    assert dict(gone.former[2].endpoint.headers) == {"Authorization": "canary-token"}


def test_a_destination_of_another_type_is_known_as_it_was_while_it_was_a_webhook(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), delivering("all", "siem"))
    apply(world, destination("siem", "otlp"))
    found = world.routes("siem")[0]
    assert found.routes == ()
    assert [one.name for one in found.former] == ["siem"]


def test_one_that_is_there_and_that_nothing_routes_to_is_known_when_it_is_asked_for(world: World) -> None:
    apply(world, webhook("siem"))
    assert [one.name for one in world.routes("siem")[0].former] == ["siem"]
    accepting = Options(accept_invalid=True)
    apply(world, webhook("siem", hostname=""), options=accepting)
    assert world.routes("siem")[0].former == ()


def test_what_an_earlier_version_stored_of_delivery_is_restated_once(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), delivering("all", "siem"), delivering("none"), resource("Fleet", "f"))
    before = {row["name"]: row["status"] for row in world.stored()}
    without = [row for row in world.stored() if row["kind"] == "Configuration"]
    for row in without:
        status = json.loads(row["status"])
        del status["delivery"]
        world.store(*restating(row, status))
    _, restated = world.routes()
    world.store(*restated)
    assert {row["name"]: row["status"] for row in world.stored()} == before
    assert world.routes()[1] == ()


def test_a_webhook_that_was_stored_before_a_rule_does_not_deliver_and_says_so(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), delivering("all", "siem"), webhook("other"), delivering("also", "other"))
    world.age(webhook("siem", hostname="siem/example.com"))
    found, restated = world.routes()
    assert [route.configuration for route in found.routes] == ["also"]
    world.store(*restated)
    assert delivery(world, "all") == {
        "delivers": False,
        "reason": "/spec/destinations/0 is a webhook with parameters that do not fit their type; correct them.",
    }


def test_what_is_damaged_in_the_store_stops_nothing_else(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), webhook("bad"), delivering("bad", "bad"), delivering("good", "siem"))
    apply(world, delivering("worse", "siem"))
    for name in ("Destination bad", "Configuration worse"):
        world.all("update version set body = ? where kind || ' ' || name = ?", b"{", name)
    found, restated = world.routes("bad")
    assert [route.configuration for route in found.routes] == ["good"]
    assert [one.name for one in found.destinations] == ["siem"]
    assert found.former == ()
    world.store(*restated)
    assert (
        delivery(world, "bad")["reason"]
        == "/spec/destinations/0 names a Destination that cannot be read; apply that anew."
    )


def test_all_of_it_comes_in_parts(world: World) -> None:
    names = [f"d{number:03}" for number in range(450)]
    apply(world, SOURCE, *map(webhook, names), *(delivering(name, name) for name in names))
    found, _ = world.routes()
    assert [route.configuration for route in found.routes] == names
    assert [one.name for one in found.destinations] == names


async def test_the_reader_child_finds_them(world: World) -> None:
    apply(world, SOURCE, webhook("siem"), webhook("gone"), delivering("all", "siem", role="web"))
    reader = WorkerClient(command=COMMAND)
    await reader.start()
    try:
        async with asyncio.timeout(60):
            answered = await reader.plan(RoutesJob(world._context(), ("gone",)))
    finally:
        await reader.stop()
    found = answered.planned
    assert isinstance(found, RoutesFound)
    assert (found.restated, [*answered.parts()]) == (0, [])
    assert b"siem.example.com" in found.routes
    assert b"gone.example.com" in found.routes


def delivery(world: World, name: str) -> Any:
    [row] = [row for row in world.stored() if (row["kind"], row["name"]) == ("Configuration", name)]
    return json.loads(row["status"])["delivery"]


def restating(row: dict[str, Any], status: dict[str, Any]) -> Any:

    return [Changes(head_statuses=[HeadStatusRow("default", row["kind"], row["name"], 0, json.dumps(status).encode())])]
