"""A caller who may send a secret and not read one never learns if it is the stored one when nothing else follows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.store.commit import commit
from reconciler.store.records import Record
from reconciler.store.repository_records import SuspensionRow
from tests import worlds
from tests.projects import Resource, configuration, destination, labelled, resource, type_of
from tests.worlds import Answered, Following, Options, World

MASK = "(sensitive)"
SECRET = {"name": "token", "type": "string", "options": {"sensitive": True}}
MAP = {"name": "keys", "type": "map", "options": {"sensitive": True}}
NOTE = {"name": "note", "type": "string"}
OWN = type_of("own", SECRET, MAP, NOTE)
REFERENCE = "${env:DESTINATION_DEFAULT__TOKEN}"
DRY = Options(dry_run=True)
HELD = destination("one", token="right", keys={"a": "right", "b": "right"}, note="n")
SHOWN = destination("one", token=MASK, keys={"a": MASK, "b": MASK}, note="n")


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following(), "b": Following()}) as made:
        yield made


def push(world: World, repository: str, *found: Resource) -> None:
    world.push(repository, {"one.yaml": "---\n".join(json.dumps(one) + "\n" for one in found)})


def told(world: World, repository: str) -> list[tuple[str | None, str]]:
    """Return what a look at a repository tells beside `unchanged`."""
    ran = world.look(repository)
    assert ran is not None
    return [(one.name, one.status) for one in ran.told]


def suspend(world: World, repository: str) -> None:
    """An admin stops looking at a repository."""
    record = Record(suspension=SuspensionRow(repository, "night", "key:admin", "2026-01-01T00:00:00.000Z", None))
    commit(world.kept.writer, (), record=record)


def resource_of(answered: Answered, index: int = 0) -> Any:
    """The resource of an update."""
    return answered.body["updates"][index]["resource"]


def hashes(world: World, name: str = "one") -> list[str]:
    """The hash of each version, oldest first."""
    rows = world.all("select body from version where name = ? order by version", name)
    return [json.loads(row["body"])["metadata"]["hash"] for row in rows]


def test_the_same_secret_in_two_resources_gives_two_hashes(world: World) -> None:
    world.apply([OWN, HELD, {**HELD, "metadata": {"name": "two"}}])
    assert hashes(world, "one") != hashes(world, "two")


def test_the_hash_stays_while_the_spec_does_and_never_comes_back(world: World) -> None:
    world.apply([OWN, HELD])
    world.apply([labelled(HELD, description="edited")])
    world.apply([labelled(SHOWN, description="edited again")])
    assert len({*hashes(world)}) == 1
    world.apply([destination("one", token="guess", keys={"a": "right", "b": "right"}, note="n")])
    world.apply([HELD])
    assert len({*hashes(world)}) == 3
    world.apply([{**HELD, "spec": {**HELD["spec"], "disabled": False}}])
    assert len({*hashes(world)}) == 4


def test_a_resource_that_is_made_anew_has_another_hash_even_with_the_same_id(world: World) -> None:
    brought = labelled(HELD, id="mine")
    world.apply([OWN, brought])
    for again in (brought, HELD, brought):
        world.delete([HELD])
        world.apply([again])
    assert len({*hashes(world)}) == 4


def test_a_hash_without_secrets_goes_by_the_spec_alone(world: World) -> None:
    open_ = destination("one", note="n", token=REFERENCE)
    world.apply([OWN, open_, {**open_, "metadata": {"name": "two"}}])
    world.apply([destination("one", note="other", token=REFERENCE)])
    world.apply([open_])
    assert hashes(world, "one")[::2] == hashes(world, "two") * 2
    assert len({*hashes(world)}) == 2


@pytest.mark.parametrize("owner", ["a", "b"])
def test_what_git_owns_is_forbidden_whether_a_guess_is_right_or_not(world: World, owner: str) -> None:
    push(world, owner, OWN, HELD)
    world.settle()
    seen = []
    for guess in ("right", "wrong"):
        for sent in (
            destination("one", token=guess, keys={"a": MASK, "b": MASK}, note="n"),
            destination("one", token=MASK, keys={"a": MASK, "b": guess}, note="n"),
        ):
            for options in (worlds.ASKED, DRY, Options(atomic=True), Options(role="user")):
                answered = world.apply([sent], options)
                seen.append((answered.planned.status, answered.body))
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert {json.dumps(body["updates"][0]["status"]) for status, body in seen if status == 202} == {'"forbidden"'}
    assert [row["version"] for row in world.all("select version from version where name = 'one'")] == [1]


def test_what_is_shown_of_it_can_be_sent_back_and_so_can_what_holds_no_secret(world: World) -> None:
    by_reference = destination("two", token=REFERENCE, note="n")
    push(world, "a", OWN, HELD, by_reference)
    world.settle()
    for options in (worlds.ASKED, DRY):
        assert world.apply([SHOWN, by_reference, OWN], options).statuses == ["unchanged"] * 3
    shown = [resource_of(world.apply([SHOWN])), resource_of(world.apply([by_reference]))]
    assert world.apply(shown).statuses == ["unchanged"] * 2
    assert (
        world.apply([destination("one", note="n"), destination("two", token="x", note="n")]).statuses
        == ["forbidden"] * 2
    )


def test_a_repository_learns_nothing_of_what_another_one_holds(world: World) -> None:
    push(world, "a", OWN, HELD, destination("open", note="n"))
    world.settle()
    for guess in ("right", "wrong"):
        push(world, "b", destination("one", token=guess, keys={"a": "right", "b": "right"}, note="n"))
        assert told(world, "b") == [("one", "forbidden")]
    push(world, "b", HELD, destination("open", note="n"))
    assert told(world, "b") == [("one", "forbidden")]
    # It passes on all the same, as the same version.
    push(world, "a", OWN)
    world.settle()
    assert [row["owner"] for row in world.stored() if row["name"] == "one"] == ["b"]
    assert [row["version"] for row in world.stored() if row["name"] == "one"] == [1]


def test_a_repository_s_own_secrets_are_equal_and_so_is_what_it_adopts(world: World) -> None:
    world.apply([OWN, HELD])
    push(world, "a", OWN, HELD)
    assert told(world, "a") == []
    ran = world.read_all("a")
    assert ran.told == []
    assert [(row["owner"], row["version"]) for row in world.stored()] == [("a", 1), ("a", 1)]


def test_a_dry_run_over_a_suspended_repository_tells_drift_of_every_guess(world: World) -> None:
    push(world, "a", OWN, HELD)
    world.settle()
    suspend(world, "a")
    assert world.apply([destination("one", token="wrong", note="n")]).statuses == ["configured"]
    seen = []
    for guess in ("right", "also wrong"):
        sent = destination("one", token=guess, keys={"a": "right", "b": "right"}, note="n")
        answered = world.apply([sent], DRY)
        world.turn_back()
        assert resource_of(answered)["status"]["drift"]["repository"] == "a"
        seen.append(answered.body)
    assert seen[0] == seen[1]
    assert "drift" not in resource_of(world.apply([HELD]))["status"]


def as_shown(holder: Resource) -> Resource:
    """A Configuration as it is shown."""
    [inline] = holder["spec"]["destinations"]
    masked = {**inline, "parameters": [{"name": "token", "value": MASK}]}
    return {**holder, "spec": {"destinations": [masked]}}


TRIED = [
    {**SECRET, "type": "enum", "validValues": ["right"]},
    {**SECRET, "type": "enum", "validValues": ["wrong"]},
    {**SECRET, "type": "int", "minimum": 0},
    {**SECRET, "type": "timezone"},
    SECRET,
]


@pytest.mark.parametrize("tried", TRIED)
@pytest.mark.parametrize("accept_invalid", [True, False])
def test_a_dry_run_of_a_type_does_not_try_it_on_stored_secrets(
    world: World, tried: dict[str, Any], *, accept_invalid: bool
) -> None:
    """Neither by the resource that holds one, nor by what names that."""
    value = 1 if tried["type"] == "int" else "right"
    asking = {**NOTE, "required": True, "relevantIf": [{"name": "token", "operator": "equals", "value": value}]}
    options = Options(dry_run=True, accept_invalid=accept_invalid)
    stored = destination("one", token="right")
    shown = destination("one", token=MASK)
    inline = {"id": "i", "type": "own", "parameters": [{"name": "token", "value": "right"}]}
    holder = resource("Configuration", "holder", destinations=[inline])
    world.apply([type_of("own", SECRET, NOTE), stored, configuration("all", "one"), holder])
    kept = [shown, configuration("all", "one"), as_shown(holder)]
    for found in ([*kept], [kept[1]]):
        answered = world.apply([type_of("own", tried, asking), *found], options)
        assert answered.statuses == ["configured", *["unchanged"] * len(found)]
        assert "incomplete" not in json.dumps(answered.body)
        assert '"ready": false' not in json.dumps(answered.body)


def test_a_dry_run_of_a_type_tells_all_else_that_does_not_fit(world: World) -> None:
    world.apply([type_of("own", SECRET, NOTE), destination("one", token="right", note="n")])
    tried = type_of("own", SECRET, {**NOTE, "type": "int"}, {**NOTE, "name": "more", "required": True})
    answered = world.apply([tried, destination("one", token=MASK, note="n")], DRY)
    assert answered.statuses == ["configured", "invalid"]
    assert answered.body["updates"][1]["reason"].split("\n") == [
        "/spec/parameters: `more` is required and has no default",
        "/spec/parameters/1/value: is not an integer",
    ]


def test_a_dry_run_tells_what_does_not_fit_the_types_in_force(world: World) -> None:
    """The status of the resource says so already."""
    world.apply([type_of("own", SECRET, NOTE), destination("one", token="right")])
    world.apply([type_of("own", {**SECRET, "type": "int"}, NOTE)])
    sent = labelled(destination("one", token=MASK), description="edited")
    answered = world.apply([sent], Options(dry_run=True, accept_invalid=True))
    assert resource_of(answered)["status"]["incomplete"] == ["/spec/parameters/0/value: is not an integer"]
