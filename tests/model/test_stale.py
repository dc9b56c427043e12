"""The last good route stays in force while the present version of a Configuration cannot deliver, and when it ends."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.model.routes import Destination, Route, Routes
from reconciler.store.records import Changes
from reconciler.worker import redactions
from reconciler.worker.messages import Context, RedactJob
from tests import worlds
from tests.projects import destination, resource, type_of
from tests.worlds import Following, Options, World

ACCEPTING = Options(accept_invalid=True)
FIRST = "2026-01-02T03:04:06.000Z"
SECOND = "2026-01-02T03:04:07.000Z"
INCOMPLETE = "It is incomplete; complete what `status.incomplete` lists."
IS_PROCESSOR = "/spec/processors/0 is an enabled processor, which the service cannot run yet; remove or disable it."
HELD = (
    " Its last good route is not used either, since a later version names another endpoint or other headers: records "
    "wait in the queue until a version can deliver."
)
PROCESSED = {"processors": [{"type": "custom"}]}


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as made:
        yield made


def source(**more: Any) -> dict[str, Any]:
    return resource("Source", "in", type="otlp", **more)


def webhook(name: str = "siem", /, **parameters: Any) -> dict[str, Any]:
    return destination(name, "webhook", **{"hostname": "siem.example.com", "path": "/in", **parameters})


def without(*names: str, **parameters: Any) -> dict[str, Any]:
    """The webhook without these parameters, and with others."""
    made = webhook(**parameters)
    kept = [one for one in made["spec"]["parameters"] if one["name"] not in names]
    return {**made, "spec": {**made["spec"], "parameters": kept}}


def disabled(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "spec": {**one["spec"], "disabled": True}}


def configuration(*names: str, **more: Any) -> dict[str, Any]:
    used = [{"name": name} for name in names or ("siem",)]
    labels = {"selector": {"matchLabels": {"role": "web"}}}
    return resource("Configuration", "web", **{"sources": [{"name": "in"}], "destinations": used, **labels, **more})


def in_place(**parameters: Any) -> dict[str, Any]:
    given = [{"name": name, "value": value} for name, value in {"hostname": "h.example.com", **parameters}.items()]
    return {"id": "hook", "type": "webhook", "parameters": given}


def delivery(world: World, name: str = "web") -> dict[str, Any]:
    """Return what the status says, which the routes agree with."""
    assert world.routes()[1] == ()
    [row] = [row for row in world.stored() if (row["kind"], row["name"]) == ("Configuration", name)]
    said: dict[str, Any] = json.loads(row["status"])["delivery"]
    return said


def stale(version: int, reason: str, since: str = SECOND) -> dict[str, Any]:
    return {"delivers": True, "stale": {"version": version, "since": since, "reason": reason}}


def no(reason: str) -> dict[str, Any]:
    return {"delivers": False, "reason": reason}


def routed(world: World) -> Routes:
    return world.routes("siem", "other", "web:hook")[0]


def only(world: World) -> Destination:
    [one] = routed(world).destinations
    return one


def begin(world: World, *more: dict[str, Any]) -> None:
    """All that delivers, stored."""
    assert set(world.apply([source(), webhook(), configuration(), *more]).statuses) == {"created"}
    assert delivery(world) == {"delivers": True}


@pytest.mark.parametrize(
    "broken",
    [
        configuration(**PROCESSED),
        configuration(sources=[{"name": "in", "routes": {"logs": [{"id": "x"}]}}]),
        source(**PROCESSED),
        without("hostname"),
        webhook(port=99_999),
        webhook(unknown=1),
        webhook(retry_on_failure_enabled="perhaps"),
    ],
    ids=["processor", "routes", "processor-of-the-source", "missing", "wrong", "unknown", "wrong-elsewhere"],
)
def test_what_cannot_deliver_keeps_the_last_good_route(world: World, broken: dict[str, Any]) -> None:
    begin(world)
    before = routed(world)
    assert world.apply([broken], ACCEPTING).statuses == ["configured"]
    said = delivery(world)
    assert (said["delivers"], said["stale"]["version"], said["stale"]["since"]) == (True, 1, SECOND)
    after = routed(world)
    assert (after.routes, after.destinations, after.former) == (before.routes, before.destinations, before.former)
    again = [source(), webhook(), configuration()]
    world.apply(again, ACCEPTING)
    assert delivery(world) == {"delivers": True}
    assert world.view.past_routes(worlds.PROJECT) == {}
    assert routed(world).wanting == ()


def test_a_type_that_makes_it_incomplete_keeps_the_last_good_route(world: World) -> None:
    begin(world)
    needed = {"name": "needed", "type": "string", "required": True}
    world.apply([type_of("otlp", needed, kind="SourceType")])
    assert delivery(world) == stale(1, INCOMPLETE)
    assert [route.configuration for route in routed(world).routes] == ["web"]


def test_a_queue_stays_where_it_was_while_its_extension_is_incomplete(world: World) -> None:
    def own(**parameters: Any) -> dict[str, Any]:
        given = [{"name": name, "value": value} for name, value in parameters.items()]
        return resource("Extension", "own", type="file_storage", parameters=given)

    world.apply([own(max_bytes=4096), source(), webhook(persistent_queue_storage="own"), configuration()])
    before = only(world)
    world.apply([own(max_bytes="many")], ACCEPTING)
    assert delivery(world) == stale(1, INCOMPLETE)
    assert only(world) == before


def test_the_reason_and_the_version_follow_further_changes_and_since_does_not(world: World) -> None:
    begin(world)
    world.apply([configuration(**PROCESSED)])
    assert delivery(world) == stale(1, IS_PROCESSOR)
    world.apply([without("hostname")], ACCEPTING)
    assert delivery(world) == stale(1, INCOMPLETE)
    world.apply([configuration("siem", contentType="text/x", **PROCESSED)])
    world.apply([webhook()])
    assert delivery(world) == stale(1, IS_PROCESSOR)
    world.apply([configuration(selector={})])
    assert delivery(world) == {"delivers": True}
    world.apply([configuration(**PROCESSED)])
    assert delivery(world)["stale"]["version"] == 4


def test_the_selector_of_the_version_in_force_counts(world: World) -> None:
    begin(world)
    world.apply([configuration(selector={"matchLabels": {"role": "db"}}, **PROCESSED)])
    found = routed(world)
    assert found.routes == (Route(configuration="web", labels=(("role", "web"),), destinations=("siem",)),)
    [wanting] = found.wanting
    assert (wanting.labels, wanting.until) == ((("role", "db"),), 1767323047_000 + 600_000)


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (configuration(raw="receivers: {}"), None),
        (disabled(source()), "It has no enabled source of type `otlp`; add one."),
        (disabled(webhook()), "It has no enabled destination of type `webhook`; add one."),
        (destination("siem", "otlp"), "It has no enabled destination of type `webhook`; add one."),
        (configuration(destinations=[{"name": "siem", "disabled": True}]), None),
        (configuration(sources=[], **PROCESSED), None),
    ],
    ids=["raw", "source-disabled", "destination-disabled", "another-type", "use-disabled", "no-source"],
)
@pytest.mark.parametrize("is_stale", [False, True], ids=["delivering", "stale"])
def test_a_decision_ends_the_route_at_once(
    world: World, decision: dict[str, Any], reason: str | None, is_stale: bool
) -> None:
    begin(world)
    if is_stale:
        world.apply([webhook(port=99_999)], ACCEPTING)
    if "raw" in decision["spec"]:
        decision = resource("Configuration", "web", raw="receivers: {}")
    assert world.apply([decision], ACCEPTING).statuses == ["configured"]
    said = delivery(world)
    assert (said["delivers"], "stale" in said) == (False, False)
    assert reason is None or is_stale or said["reason"] == reason
    found = routed(world)
    assert (found.routes, found.destinations, found.wanting) == ((), (), ())


def test_a_route_that_ended_by_a_decision_does_not_come_back_with_an_error(world: World) -> None:
    begin(world)
    world.apply([disabled(source())])
    world.apply([source(**PROCESSED)])
    assert delivery(world)["delivers"] is False
    found = routed(world)
    assert found.routes == ()
    assert [one.labels for one in found.wanting] == [(("role", "web"),)]  # its senders keep them for a while


def test_what_never_delivered_wants_nothing(world: World) -> None:
    world.apply([source(), without("hostname"), configuration(**PROCESSED)], ACCEPTING)
    world.apply([configuration("siem", contentType="text/x", **PROCESSED)], ACCEPTING)
    assert delivery(world)["delivers"] is False
    assert (routed(world).routes, routed(world).wanting) == ((), ())


def test_a_configuration_that_is_made_anew_did_not_deliver_before(world: World) -> None:
    begin(world)
    world.apply([configuration(**PROCESSED)])
    world.delete([configuration()])
    assert (routed(world).routes, world.view.past_routes(worlds.PROJECT)) == ((), {})
    world.apply([configuration(**PROCESSED)])
    assert delivery(world) == no(IS_PROCESSOR)
    assert (routed(world).routes, routed(world).wanting) == ((), ())


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"hostname": "other.example.com"},
        {"scheme": "http"},
        {"port": 9000},
        {"path": "/elsewhere"},
        {"headers": {"Authorization": "Bearer canary-other"}},
    ],
    ids=lambda one: next(iter(one)),
)
@pytest.mark.parametrize("order", ["at-once", "later", "complete"])
def test_a_later_version_that_leads_elsewhere_holds_what_is_queued(
    world: World, elsewhere: dict[str, Any], order: str
) -> None:
    begin(world, webhook("unused"))
    world.apply([webhook(headers={"Authorization": "Bearer canary"})])
    if order == "later":
        world.apply([without("hostname", timeout="x")], ACCEPTING)
        assert delivery(world)["stale"]["version"] == 1
        world.apply([webhook(**elsewhere, timeout="x")], ACCEPTING)
    elif order == "complete":
        world.apply([configuration(**PROCESSED)])
        world.apply([webhook(**elsewhere)])
    else:
        world.apply([webhook(**elsewhere, timeout="x")], ACCEPTING)
    assert delivery(world) == no((IS_PROCESSOR if order == "complete" else INCOMPLETE) + HELD)
    found = routed(world)
    assert [(one.name, one.held) for one in found.destinations] == [("siem", True)]
    assert found.routes == (Route(configuration="web", labels=(("role", "web"),), destinations=("siem",)),)
    world.apply([without("hostname", "path")], ACCEPTING)  # what was left once is not sent to again
    assert only(world).held
    world.apply([webhook(**elsewhere), configuration()])
    assert delivery(world) == {"delivers": True}
    assert not only(world).held


def test_what_is_missing_or_wrong_is_no_change(world: World) -> None:
    begin(world)
    world.apply([webhook(headers={"X-Key": "canary"})])
    good = only(world)
    world.apply([without("hostname", "path", "headers", port=0, scheme="ftp")], ACCEPTING)
    assert delivery(world)["stale"]["version"] == 1
    assert only(world) == good


def test_what_a_later_version_says_of_tls_counts(world: World) -> None:
    world.apply([source(), webhook(insecure_skip_verify=True), configuration()])
    assert only(world).endpoint.insecure_skip_verify
    world.apply([without("hostname", insecure_skip_verify=False)], ACCEPTING)
    assert delivery(world)["stale"]["version"] == 1
    assert only(world).endpoint.insecure_skip_verify is False
    world.apply([without("hostname", mutual_tls=True)], ACCEPTING)  # without its files that is no rule yet
    assert only(world).endpoint.insecure_skip_verify


def test_of_two_webhooks_each_has_its_own_end(world: World) -> None:
    world.apply([source(), webhook(), webhook("other"), configuration("siem", "other")])
    world.apply([configuration("siem", "other", **PROCESSED)])
    world.apply([disabled(webhook("other"))])
    assert delivery(world) == stale(1, IS_PROCESSOR, FIRST.replace("06.", "07."))
    assert [one.name for one in routed(world).destinations] == ["siem"]
    world.apply([configuration("other", **PROCESSED)])
    assert delivery(world)["delivers"] is False
    assert routed(world).destinations == ()


def test_a_destination_that_delivers_for_another_configuration_is_its_present_version(world: World) -> None:
    begin(world)
    other = resource("Configuration", "all", sources=[{"name": "in"}], destinations=[{"name": "siem"}])
    world.apply([other, configuration(**PROCESSED)])
    world.apply([webhook(hostname="new.example.com")])
    assert (only(world).endpoint.host, only(world).held) == ("new.example.com", False)


def test_a_webhook_in_place_is_followed_by_its_id(world: World) -> None:
    world.apply([source(), configuration(destinations=[in_place()])])
    before = only(world)
    world.apply([configuration(destinations=[in_place()], **PROCESSED)])
    assert (delivery(world), only(world)) == (stale(1, IS_PROCESSOR), before)
    nameless = {name: value for name, value in in_place().items() if name != "id"}
    world.apply([configuration(destinations=[nameless])])
    assert (delivery(world)["stale"]["version"], only(world)) == (1, before)
    world.apply([configuration(destinations=[in_place(hostname="other.example.com")], **PROCESSED)])
    assert delivery(world) == no(IS_PROCESSOR + HELD)
    assert only(world).held
    world.apply([configuration("siem", **PROCESSED), webhook()])
    assert routed(world).destinations == ()


def test_a_dry_run_shows_nothing_of_a_stored_secret(world: World) -> None:
    begin(world)
    world.apply([webhook(headers={"X-Key": "canary-right"})])
    world.apply([configuration(**PROCESSED)])
    told = []
    for guess in ("canary-right", "canary-wrong"):
        trying = [webhook(headers={"X-Key": guess}, timeout=7), configuration(**PROCESSED)]
        answered = world.apply(trying, Options(dry_run=True))
        told.append(answered.body["updates"][1]["resource"]["status"])
    assert told[0] == told[1]


def redact(world: World, kind: str, name: str, text: str) -> None:
    parts: list[Changes] = []
    job = RedactJob(
        context=Context(
            store=world.address,
            project=worlds.PROJECT,
            hmac_key=worlds.HMAC_KEY,
            api_versions=worlds.API_VERSIONS,
            at=FIRST,
            milliseconds=0,
            seed=b"",
            secrets=world.secrets,
        ),
        kind=kind,
        name=name,
        text=text,
        actor="key:admin",
        request="request",
        dry_run=False,
    )
    planned = redactions.plan_redaction(job, world.view, emit=parts.append)
    assert planned.obstacle is None
    world.store(*parts)
    world.store(*world.routes()[1])  # as the service does


def test_redacting_the_version_in_force_ends_the_route(world: World) -> None:
    begin(world)
    world.apply([webhook(headers={"X-Key": "canary-secret"})])
    world.apply([without("hostname", "headers")], ACCEPTING)
    assert delivery(world)["stale"]["version"] == 1
    redact(world, "Destination", "siem", "something else")
    assert delivery(world)["stale"]["version"] == 1
    redact(world, "Destination", "siem", "canary-secret")
    assert delivery(world) == no(INCOMPLETE)
    assert routed(world).destinations == ()


def test_redacting_the_version_in_force_of_the_configuration_ends_the_route(world: World) -> None:
    begin(world)
    world.apply([configuration(contentType="text/secret")])
    world.apply([configuration(**PROCESSED)])
    redact(world, "Configuration", "web", "text/secret")
    assert delivery(world) == no(IS_PROCESSOR)
    assert routed(world).routes == ()


def test_a_commit_keeps_it_as_a_request_does(world: World) -> None:
    files = {"in.yaml": source(), "siem.yaml": webhook(), "web.yaml": configuration()}
    world.push("a", {name: json.dumps(one) for name, one in files.items()})
    world.settle()
    assert delivery(world) == {"delivers": True}
    files["web.yaml"] = configuration(**PROCESSED)
    world.push("a", {name: json.dumps(one) for name, one in files.items()})
    world.look("a")
    assert delivery(world)["stale"]["version"] == 1
    del files["web.yaml"]
    world.push("a", {name: json.dumps(one) for name, one in files.items()})
    world.look("a")
    assert (routed(world).routes, world.view.past_routes(worlds.PROJECT)) == ((), {})
