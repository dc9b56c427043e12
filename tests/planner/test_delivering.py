"""`status.delivery` of Configurations: stored with what it follows from, in the same transaction, and nowhere else."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.model import routes
from reconciler.model.clock import rfc3339
from tests import worlds
from tests.projects import destination, resource, type_of
from tests.worlds import Following, Options, World

DELIVERS = {"delivers": True}
PROCESSOR = " has an enabled processor, which the service cannot run yet; remove or disable it."
MASK = PROCESSOR.replace("an enabled processor", "the enabled processor `mask`")
IS_PROCESSOR = PROCESSOR.replace(" has ", " is ")
NO_SOURCE = "It has no enabled source of type `otlp`; add one."
NO_DESTINATION = "It has no enabled destination of type `webhook`; add one."


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following(), "b": Following()}) as made:
        yield made


def no(reason: str) -> dict[str, Any]:
    return {"delivers": False, "reason": reason}


def stale(world: World, reason: str) -> dict[str, Any]:
    """It delivers by its first version, since the last change."""
    return {**DELIVERS, "stale": {"version": 1, "since": rfc3339(world.now), "reason": reason}}


def source(name: str = "in", type_: str = "otlp", **more: Any) -> dict[str, Any]:
    return resource("Source", name, type=type_, **more)


def webhook(name: str = "siem", **more: Any) -> dict[str, Any]:
    made = destination(name, "webhook", hostname="siem.example.com")
    return {**made, "spec": {**made["spec"], **more}}


def configuration(name: str = "all", **more: Any) -> dict[str, Any]:
    return resource("Configuration", name, **{"sources": [{"name": "in"}], "destinations": [{"name": "siem"}], **more})


def delivery(world: World, name: str = "all") -> Any:
    """Return what the status says, and that it is what the routes are made from."""
    assert world.routes()[1] == ()
    [row] = [row for row in world.stored() if (row["kind"], row["name"]) == ("Configuration", name)]
    return json.loads(row["status"]).get("delivery")


def test_only_configurations_have_it(world: World) -> None:
    world.apply([source(), webhook(), configuration(), resource("Fleet", "f")])
    says = {row["name"]: json.loads(row["status"]).get("delivery") for row in world.stored()}
    assert says == {"all": DELIVERS, "in": None, "siem": None, "f": None}


def runs_on(world: World, name: str = "all") -> tuple[Any, Any]:
    assert world.routes()[1] == ()
    [row] = [row for row in world.stored() if (row["kind"], row["name"]) == ("Configuration", name)]
    status = json.loads(row["status"])
    return status["runsOn"], status.get("leftOut")


def test_a_configuration_says_where_it_runs_and_what_does_not_run_there(world: World) -> None:
    only = "/spec/destinations/1 is of type `otlphttp`, which runs on collectors only; the service leaves it out"
    mixed = configuration(destinations=[{"name": "siem"}, {"name": "out"}])
    [*_, update] = world.apply([source(), webhook(), destination("out", "otlphttp"), mixed]).body["updates"]
    assert (update["status"], update["notes"]) == ("created", [only])
    assert (runs_on(world), delivery(world)) == (("service", [only]), DELIVERS)
    world.apply([destination("out", "webhook", hostname="out.example.com")])
    assert (runs_on(world), delivery(world)) == (("service", None), DELIVERS)
    world.apply([source(disabled=True)])
    left_out = "/spec/destinations/{} is of type `webhook`, which runs in the service only; collectors leave it out"
    assert runs_on(world) == ("collectors", [left_out.format(0), left_out.format(1)])


def test_a_configuration_for_collectors_routes_no_records_and_has_no_last_good_route(world: World) -> None:
    world.apply([source(), webhook(), configuration()])
    [update] = world.apply([configuration(runsOn="collectors")]).body["updates"]
    assert update["resource"]["status"]["runsOn"] == "collectors"
    assert delivery(world) == no(routes.ON_COLLECTORS)
    assert world.routes()[0].routes == ()
    assert world.routes()[0].wanting == ()
    world.apply([configuration(runsOn="service")])
    assert (runs_on(world), delivery(world)) == (("service", None), DELIVERS)


def test_it_follows_every_component_that_is_named(world: World) -> None:
    world.apply([source(), webhook(), configuration()])
    for changed, expected in [
        (source(disabled=True), no(NO_SOURCE)),
        (source(type_="file"), no(NO_SOURCE)),
        (source(processors=[{"type": "custom"}]), no("/spec/sources/0" + PROCESSOR)),
        (source(), DELIVERS),
        (webhook(disabled=True), no(NO_DESTINATION)),
        (destination("siem", "otlp"), no(NO_DESTINATION)),
        (webhook(processors=[{"type": "custom"}]), no("/spec/destinations/0" + PROCESSOR)),
        (webhook(), DELIVERS),
    ]:
        assert world.apply([changed]).statuses == ["configured"]
        assert delivery(world) == expected
    assert [row["version"] for row in world.stored() if row["kind"] == "Configuration"] == [1]


def test_it_follows_a_processor_that_a_component_names(world: World) -> None:
    def processor(**more: Any) -> dict[str, Any]:
        return resource("Processor", "mask", type="custom", **more)

    named = [{"name": "mask"}]
    world.apply(
        [processor(), source(), webhook(processors=named), configuration(), configuration("own", processors=named)]
    )
    assert delivery(world) == no("/spec/destinations/0" + MASK)
    assert delivery(world, "own") == no("/spec/processors/0" + IS_PROCESSOR)
    world.apply([processor(disabled=True)])
    assert [delivery(world), delivery(world, "own")] == [DELIVERS, DELIVERS]
    world.apply([processor()])
    assert delivery(world) == stale(world, "/spec/destinations/0" + MASK)


def test_it_follows_a_type_by_which_something_becomes_incomplete_and_whole_again(world: World) -> None:
    needed = {"name": "needed", "type": "string", "required": True}
    shadow = type_of("otlp", needed, kind="SourceType")
    world.apply([source(), webhook(), configuration()])
    world.apply([shadow])
    assert delivery(world) == stale(world, "It is incomplete; complete what `status.incomplete` lists.")
    world.delete([shadow])
    world.apply([type_of("otlp", kind="SourceType")])
    assert delivery(world) == DELIVERS


def test_what_is_accepted_although_it_is_incomplete_does_not_deliver_until_it_is_whole(world: World) -> None:
    accepting = Options(accept_invalid=True)
    world.apply([source(), destination("siem", "webhook"), configuration()], accepting)
    assert delivery(world) == no("It is incomplete; complete what `status.incomplete` lists.")
    world.apply([webhook()])
    assert delivery(world) == DELIVERS


def test_the_order_in_a_request_never_matters(world: World) -> None:
    world.apply([configuration(), webhook(), source()])
    assert delivery(world) == DELIVERS
    world.apply([source(disabled=True), configuration(destinations=[{"name": "siem", "disabled": True}])])
    assert delivery(world) == no(
        "It has no enabled source of type `otlp` and no enabled destination of type `webhook`; add them."
    )


def test_a_commit_says_it_as_a_request_does_and_restates_what_others_own(world: World) -> None:
    world.push("a", {"in.yaml": json.dumps(source()), "siem.yaml": json.dumps(webhook())})
    world.push("b", {"all.yaml": json.dumps(configuration())})
    world.settle()
    assert delivery(world) == DELIVERS
    world.push("a", {"in.yaml": json.dumps(source(disabled=True)), "siem.yaml": json.dumps(webhook())})
    world.settle()
    assert delivery(world) == no(NO_SOURCE)


def test_it_is_right_after_a_move_to_another_file_in_the_same_commit(world: World) -> None:
    files = {"all.yaml": json.dumps(configuration()), "siem.yaml": json.dumps(webhook())}
    world.push("a", {**files, "in.yaml": json.dumps(source())})
    world.settle()
    moved = {"moved.yaml": files["all.yaml"], "siem.yaml": files["siem.yaml"]}
    world.push("a", {**moved, "in.yaml": json.dumps(source(disabled=True))})
    world.settle()
    assert delivery(world) == no(NO_SOURCE)
    [row] = [row for row in world.stored() if row["name"] == "all"]
    assert (row["path"], row["version"]) == ("moved.yaml", 1)


def test_a_change_that_alters_no_answer_writes_no_status(world: World) -> None:
    world.apply([source(), webhook(), *(configuration(f"c{number}") for number in range(5))])
    longer = webhook(parameters=[{"name": "hostname", "value": "other.example.com"}, {"name": "timeout", "value": 9}])
    answered = world.apply([longer])
    assert answered.statuses == ["configured"]
    assert [row for part in answered.parts for row in part.head_statuses] == []


def test_an_answer_that_shows_it_has_what_the_request_makes_of_it(world: World) -> None:
    world.apply([source(), webhook(), configuration()])
    answered = world.apply([source(disabled=True), configuration()])
    assert answered.statuses == ["configured", "unchanged"]
    assert answered.body["updates"][1]["resource"]["status"]["delivery"] == no(NO_SOURCE)


def in_place(given_id: str, host: str = "siem.example.com", **more: Any) -> dict[str, Any]:
    parameters = [{"name": "hostname", "value": host}]
    return {"id": given_id, "type": "webhook", "parameters": parameters, **more}


@pytest.mark.parametrize(
    ("changed", "endpoints"),
    [
        (webhook(), ()),
        (webhook(parameters=[{"name": "hostname", "value": "siem.example.com"}, {"name": "timeout", "value": 9}]), ()),
        (webhook(parameters=[{"name": "hostname", "value": "other.example.com"}]), ("siem",)),
        (webhook(disabled=True), ("siem",)),
        (destination("siem", "otlp"), ("siem",)),
        (webhook("new"), ()),
        (source(disabled=True), ()),
        (configuration(selector={"matchLabels": {"role": "edge"}}), ("all:one", "all:two")),
        (configuration(destinations=[{"name": "siem"}, in_place("one"), in_place("two")]), ()),
        (
            configuration(destinations=[{"name": "siem", "disabled": True}, in_place("one", "b.example.com")]),
            ("all:one", "all:two", "siem"),
        ),
        (configuration(destinations=[in_place("one"), in_place("two", disabled=True)]), ("all:two", "siem")),
    ],
)
def test_a_change_names_the_webhooks_that_it_disables_or_points_elsewhere(
    world: World, changed: dict[str, Any], endpoints: tuple[str, ...]
) -> None:
    world.apply([source(), webhook(), configuration(destinations=[{"name": "siem"}, in_place("one"), in_place("two")])])
    assert world.apply([changed], Options(dry_run=True)).planned.changed_endpoints == ()
    assert world.apply([changed]).planned.changed_endpoints == endpoints


def test_a_change_names_the_webhooks_that_it_deletes_and_that_have_other_secrets(world: World) -> None:
    def with_token(token: str) -> dict[str, Any]:
        headers = {"name": "headers", "value": {"Authorization": token}, "sensitive": True}
        return webhook(parameters=[{"name": "hostname", "value": "siem.example.com"}, headers])

    everything = [source(), with_token("one"), configuration(destinations=[{"name": "siem"}, in_place("own")])]
    assert world.apply(everything).planned.changed_endpoints == ()
    assert world.apply([with_token("(sensitive)")]).planned.changed_endpoints == ()
    assert world.apply([with_token("two")]).planned.changed_endpoints == ("siem",)
    assert world.delete([configuration()]).planned.changed_endpoints == ("all:own", "siem")
    assert world.delete([webhook()]).planned.changed_endpoints == ("siem",)


def test_a_commit_names_them_as_a_request_does(world: World) -> None:
    def pushed(**resources: dict[str, Any]) -> tuple[str, ...]:
        world.push("a", {f"{name}.yaml": json.dumps(one) for name, one in resources.items()})
        ran = world.look("a")
        assert ran is not None
        return ran.planned.changed_endpoints

    own = configuration(destinations=[{"name": "siem"}, in_place("own")])
    assert pushed(source=source(), siem=webhook(), own=own) == ()
    assert pushed(source=source(), siem=webhook(disabled=True), own=own) == ("siem",)
    assert pushed(source=source(), siem=webhook(), own=own) == ()
    assert pushed(source=source()) == ("all:own", "siem")
