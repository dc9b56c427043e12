"""References in whole small worlds: what comes of a resource when its secret is missing, comes or goes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model import type_checks
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from tests import worlds
from tests.worlds import ASKED, Following, World

TOKEN = AvailableSecrets(env=frozenset({"A"}), files=frozenset({"token"}))
POINTER = "/spec/parameters/1/value/Authorization"
LINE = f"{POINTER}: {type_checks.BROKEN_REFERENCE}"
INCOMPLETE = {"incomplete": [LINE]}
NAMED = {"incomplete": ["/spec/destinations/0/name: the Destination hook is incomplete; complete it"]}


def hook(authorization: str = "Bearer ${file:token}", **metadata: object) -> dict[str, Any]:
    """A webhook with a header."""
    headers = {"name": "headers", "value": {"Authorization": authorization, "X": "x"}}
    parameters = [{"name": "hostname", "value": "h.example"}, headers]
    return resource("Destination", "hook", {"type": "webhook", "parameters": parameters}, **metadata)


def resource(kind: str, name: str, spec: dict[str, Any], **metadata: object) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


ALL = resource("Configuration", "all", {"destinations": [{"name": "hook"}]})


@pytest.fixture(params=[False, True], ids=["", "acceptInvalid"])
def followed(request: pytest.FixtureRequest) -> Iterator[World]:
    with worlds.world({"a": Following(accept_invalid=request.param)}) as world:
        yield world


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as world:
        yield world


def files(*documents: dict[str, Any]) -> dict[str, str]:
    return {f"{one['metadata']['name']}.json": json.dumps(one) for one in documents}


def standing(world: World) -> dict[str, tuple[int, dict[str, Any]]]:
    """Of each resource its version, and what its status says of its standing."""
    found = {}
    for row in world.stored():
        status = json.loads(row["status"])
        found[row["name"]] = (row["version"], {key: status[key] for key in ("ready", "incomplete") if key in status})
    return found


def test_in_git_a_missing_secret_is_told_with_its_place_and_counts_once_it_is_there(world: World) -> None:
    world.secrets = NO_SECRETS
    world.push("a", files(hook(), ALL))
    ran = world.look("a")
    assert ran is not None
    assert ran.planned.counts == {"invalid": 2}
    [told] = [str(one.reason) for one in ran.told if one.name == "hook"]
    assert told == f"hook.json:1:{told.split(':')[2]}: {LINE}"
    assert standing(world) == {}
    world.secrets = TOKEN
    assert world.read_all("a").planned.counts == {"created": 2}
    assert standing(world) == {"all": (1, {"ready": True}), "hook": (1, {})}


def test_in_git_a_change_to_a_missing_secret_leaves_what_is_stored(world: World) -> None:
    world.secrets = TOKEN
    world.push("a", files(hook("${env:A}"), ALL))
    world.settle()
    world.push("a", files(hook("${env:B}"), ALL))
    ran = world.look("a")
    assert ran is not None
    assert ran.planned.counts == {"invalid": 1}
    assert standing(world) == {"all": (1, {"ready": True}), "hook": (1, {})}
    world.secrets = AvailableSecrets(env=frozenset({"B"}))
    assert world.read_all("a").planned.counts == {"configured": 1, "unchanged": 1}
    assert standing(world) == {"all": (1, {"ready": True}), "hook": (2, {})}


def test_what_is_stored_becomes_incomplete_when_its_secret_goes_and_whole_when_it_comes(followed: World) -> None:
    followed.secrets = TOKEN
    followed.push("a", files(hook(), ALL))
    followed.settle()
    assert standing(followed) == {"all": (1, {"ready": True}), "hook": (1, {})}
    followed.secrets = NO_SECRETS
    gone = followed.read_all("a")
    assert gone.planned.counts == (
        {"unchanged": 2} if followed.following["a"].accept_invalid else {"invalid": 1, "unchanged": 1}
    )
    assert standing(followed) == {"all": (1, {"ready": False, **NAMED}), "hook": (1, INCOMPLETE)}
    followed.secrets = TOKEN
    assert followed.read_all("a").planned.counts == {"unchanged": 2}
    assert standing(followed) == {"all": (1, {"ready": True}), "hook": (1, {})}


def test_what_was_accepted_without_its_secret_becomes_whole_without_a_new_version(followed: World) -> None:
    followed.following["a"] = Following(accept_invalid=True)
    followed.secrets = NO_SECRETS
    followed.push("a", files(hook(), ALL))
    followed.settle()
    assert standing(followed) == {"all": (1, {"ready": False, **NAMED}), "hook": (1, INCOMPLETE)}
    followed.secrets = TOKEN
    ran = followed.read_all("a")
    assert (ran.planned.counts, ran.planned.changed) == ({"unchanged": 2}, True)
    assert standing(followed) == {"all": (1, {"ready": True}), "hook": (1, {})}


def test_a_file_that_moves_when_its_secret_comes_is_whole(world: World) -> None:
    world.following["a"] = Following(accept_invalid=True)
    world.secrets = NO_SECRETS
    world.push("a", files(hook()))
    world.settle()
    world.secrets = TOKEN
    world.push("a", {"other/place.json": json.dumps(hook())})
    world.read_all("a")
    assert standing(world) == {"hook": (1, {})}
    assert [row["path"] for row in world.stored()] == ["other/place.json"]


@pytest.mark.parametrize(
    "authorization",
    ["${file:gone}", "${env:GONE}", "${env:SERVICE_API_KEY}", "${file:../token}", "x ${env:A", "${env:A:-x}"],
)
def test_a_request_is_told_the_same_whatever_the_cause(world: World, authorization: str) -> None:
    world.secrets = TOKEN
    told = world.apply([hook(authorization)])
    assert [(one["status"], one["reason"]) for one in told.body["updates"]] == [("invalid", LINE)]
    assert standing(world) == {}


def test_a_request_that_accepts_it_is_stored_and_applied_again_is_whole(world: World) -> None:
    world.secrets = NO_SECRETS
    assert world.apply([hook(), ALL], replace(ASKED, accept_invalid=True)).statuses == ["created", "created"]
    assert standing(world) == {"all": (1, {"ready": False, **NAMED}), "hook": (1, INCOMPLETE)}
    world.secrets = TOKEN
    asked = world.apply([hook()], replace(ASKED, dry_run=True))
    assert (asked.statuses, asked.planned.changed) == (["configured"], False)  # as any secret in clear on a dry run
    again = world.apply([hook()])
    assert again.statuses == ["unchanged"]
    assert "incomplete" not in again.body["updates"][0]["resource"]["status"]
    assert standing(world) == {"all": (1, {"ready": True}), "hook": (1, {})}


def test_a_request_that_changes_nothing_and_cures_nothing_stores_nothing(world: World) -> None:
    world.secrets = NO_SECRETS
    world.apply([hook()], replace(ASKED, accept_invalid=True))
    revision = world.revision
    assert world.apply([hook()], replace(ASKED, accept_invalid=True)).statuses == ["unchanged"]
    assert world.apply([hook()]).statuses == ["invalid"]
    assert (world.revision, standing(world)) == (revision, {"hook": (1, INCOMPLETE)})


def test_users_of_a_type_that_calls_a_parameter_a_secret_now_are_judged_again(world: World) -> None:
    def own(*, sensitive: bool) -> dict[str, Any]:
        parameter = {"name": "p", "type": "string", "options": {"sensitive": sensitive}}
        return resource("DestinationType", "own", {"parameters": [parameter]})

    world.secrets = TOKEN
    one = resource("Destination", "one", {"type": "own", "parameters": [{"name": "p", "value": "${file:HOST}:80"}]})
    two = resource("Destination", "two", {"type": "own", "parameters": [{"name": "p", "value": "${env:HOST}:80"}]})
    assert world.apply([own(sensitive=False), one, two]).statuses == ["created"] * 3
    assert world.apply([own(sensitive=True)]).statuses == ["configured"]
    line = f"/spec/parameters/0/value: {type_checks.BROKEN_REFERENCE}"
    assert standing(world) == {"one": (1, {"incomplete": [line]}), "own": (2, {}), "two": (1, {})}
    assert world.apply([own(sensitive=False)]).statuses == ["configured"]
    assert standing(world)["one"] == (1, {})


def test_a_kept_secret_that_holds_a_reference_is_judged_as_one(world: World) -> None:
    world.secrets = TOKEN
    world.apply([hook()])
    [shown] = [json.loads(row["body"]) for row in world.stored()]
    assert shown["spec"]["parameters"][1]["value"]["Authorization"] == "(sensitive)"
    shown["metadata"]["description"] = "new"
    world.secrets = NO_SECRETS
    assert world.apply([shown]).statuses == ["invalid"]
    world.secrets = TOKEN
    assert world.apply([shown]).statuses == ["configured"]


def test_a_webhooks_certificates_are_judged_wherever_it_stands(world: World) -> None:
    world.secrets = TOKEN
    parameters = [{"name": "hostname", "value": "h.example"}, {"name": "ca_file", "value": "/etc/ssl/ca.pem"}]
    webhook = {"type": "webhook", "parameters": parameters}
    inline = resource("Configuration", "c", {"destinations": [webhook]})
    told = world.apply([resource("Destination", "d", webhook), inline])
    assert [one["reason"] for one in told.body["updates"]] == [
        f"/spec/parameters/1/value: {type_checks.BROKEN_REFERENCE}",
        f"/spec/destinations/0/parameters/1/value: {type_checks.BROKEN_REFERENCE}",
    ]
    parameters[1]["value"] = "token"
    assert world.apply([resource("Destination", "d", webhook), inline]).statuses == ["created", "created"]
