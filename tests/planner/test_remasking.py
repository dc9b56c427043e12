"""A value that becomes a secret is masked in what was stored before, also of resources that are gone."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, UpdateStatus
from reconciler.planner import changes
from reconciler.planner.changes import ChangeRows, Origin
from reconciler.planner.decisions import Decided
from reconciler.planner.remasking import Remasking
from reconciler.store.planning_view import StoredPlanningView
from reconciler.store.records import VersionRow
from tests import worlds
from tests.projects import Resource, destination, labelled, resource, type_of
from tests.worlds import Answered, Following, Options, World

MASK = "(sensitive)"
OPEN = {"name": "token", "type": "string"}
SECRET = {**OPEN, "options": {"sensitive": True}}
NOTE = {"name": "note", "type": "string"}
DRY = Options(dry_run=True)


@pytest.fixture
def world() -> Iterator[World]:
    with worlds.world({"a": Following(), "b": Following()}) as made:
        yield made


def ok(answered: Answered) -> Answered:
    """The request was stored whole."""
    assert {*answered.statuses} <= {"created", "configured", "unchanged", "deleted"}, answered.body
    return answered


def versions(world: World, name: str, kind: str = "Destination") -> list[dict[str, Any]]:
    """Every stored version as a reader gets it, oldest first."""
    rows = world.all("select body from version where kind = ? and name = ? order by version", kind, name)
    return [json.loads(row["body"]) for row in rows]


def tokens(world: World, name: str = "one") -> list[Any]:
    """Return what each version shows of the first parameter."""
    return [body["spec"]["parameters"][0]["value"] for body in versions(world, name)]


def rewritten(answered: Answered) -> list[tuple[str, int]]:
    """The versions that a change rewrites."""
    return [(row.name, row.version) for part in answered.parts for row in part.rewritten]


def marked(one: Resource) -> Resource:
    """The same with its first parameter called a secret."""
    first, *rest = one["spec"]["parameters"]
    return {**one, "spec": {**one["spec"], "parameters": [{**first, "sensitive": True}, *rest]}}


def test_a_type_that_calls_more_a_secret_masks_every_version_that_names_it(world: World) -> None:
    ok(world.apply([type_of("own", OPEN, NOTE), type_of("other", OPEN)]))
    ok(
        world.apply(
            [destination("one", token="t1"), destination("gone", token="g"), destination("else", "other", token="e")]
        )
    )
    ok(world.apply([destination("one", "own:5", token="t2", note="n")]))
    ok(world.delete([destination("gone")]))
    before = versions(world, "one")
    told = ok(world.apply([type_of("own", SECRET, NOTE)]))
    assert rewritten(told) == [("one", 1), ("gone", 1), ("one", 2)]
    assert (tokens(world), tokens(world, "gone"), tokens(world, "else")) == ([MASK, MASK], [MASK], ["e"])
    after = versions(world, "one")
    assert after[1]["spec"]["parameters"][1] == {"name": "note", "value": "n"}
    for old, new in zip(before, after, strict=True):
        hashes = [body["metadata"].pop("hash") for body in (old, new)]
        assert hashes[0] != hashes[1]
        assert old["metadata"] == new["metadata"]
    # The value itself is kept: `(sensitive)` stands for it, and nothing differs.
    assert ok(world.apply([after[1]])).statuses == ["unchanged"]
    assert ok(world.apply([destination("one", "own:5", token="t2", note="n")])).statuses == ["unchanged"]


def test_what_stands_in_place_is_masked_too(world: World) -> None:
    inner = {"id": "p", "type": "own", "parameters": [{"name": "token", "value": {"k": "c"}}]}
    outer = {"id": "d", "type": "own", "parameters": [{"name": "token", "value": ["c"]}], "processors": [inner]}
    free = {"name": "token", "type": "fraction"}
    kinds = ("DestinationType", "ProcessorType")
    ok(world.apply([type_of("own", free, kind=kind) for kind in kinds]))
    ok(world.apply([resource("Configuration", "all", destinations=[outer])]))
    secret = {**free, "options": {"sensitive": True}}
    ok(world.apply([type_of("own", secret, kind="ProcessorType")]))
    [body] = versions(world, "all", "Configuration")
    [shown] = body["spec"]["destinations"]
    assert shown["parameters"][0]["value"] == ["c"]
    assert shown["processors"][0]["parameters"][0]["value"] == {"k": MASK}
    ok(world.apply([type_of("own", secret)]))
    [body] = versions(world, "all", "Configuration")
    assert body["spec"]["destinations"][0]["parameters"][0]["value"] == MASK


def test_a_parameter_that_the_type_defines_no_more_becomes_a_secret(world: World) -> None:
    ok(world.apply([type_of("own", OPEN, NOTE), destination("one", token="t", note="n")]))
    told = ok(world.apply([type_of("own", NOTE)]))
    assert (rewritten(told), tokens(world)) == ([("one", 1)], [MASK])


def test_a_type_that_is_deleted_makes_secrets_of_what_named_it(world: World) -> None:
    ok(world.apply([type_of("own", OPEN), destination("one", token="t")]))
    ok(world.delete([destination("one")]))
    told = ok(world.delete([type_of("own")]))
    assert (rewritten(told), tokens(world)) == ([("one", 1)], [MASK])


def test_a_type_that_shadows_a_built_in_one_masks_what_it_calls_a_secret_and_so_does_its_end(world: World) -> None:
    built_in = destination("one", "custom", telemetry_types=["logs"], configuration="c")
    ok(world.apply([built_in]))
    shown = versions(world, "one")[0]["spec"]["parameters"]
    own = [{"name": one["name"], "type": "fraction"} for one in shown]
    ok(world.apply([type_of("custom", {**own[0], "options": {"sensitive": True}}, own[1])]))
    assert [one["value"] for one in versions(world, "one")[0]["spec"]["parameters"]] == [MASK, "c"]
    more = {"name": "more", "type": "string"}
    ok(world.apply([type_of("custom", *own, more), destination("two", "custom", configuration="d", more="m")]))
    ok(world.delete([destination("two"), destination("one"), type_of("custom")]))
    assert [one["value"] for one in versions(world, "two")[0]["spec"]["parameters"]] == ["d", MASK]


def test_a_type_that_calls_less_a_secret_shows_nothing(world: World) -> None:
    ok(world.apply([type_of("own", SECRET), destination("one", token="t")]))
    told = ok(world.apply([type_of("own", OPEN)]))
    assert (rewritten(told), tokens(world)) == ([], [MASK])
    ok(world.apply([labelled(destination("one", token="t"), description="edited")]))
    assert tokens(world) == [MASK, MASK]


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {}), ({"id": "x"}, {"id": "y"}), ({"displayName": "x"}, {})],
    ids=["nameless", "renamed", "without its name"],
)
def test_what_nothing_tells_from_the_others_stays_a_secret_wherever_it_stands(
    world: World, before: dict[str, str], after: dict[str, str]
) -> None:
    """The type calls it a secret no more, and the component is not found again."""
    values = {"token": "t", "map": {"k": "m"}}
    held = {"type": "own", "parameters": [{"name": name, "value": value} for name, value in values.items()]}
    other = {"type": "own", "parameters": [{"name": "token", "value": "new"}, {"name": "note", "value": "t"}]}
    opened: list[Resource] = [OPEN, {"name": "map", "type": "map"}, NOTE]
    hidden = [SECRET, {**opened[1], "options": {"sensitive": True}}, NOTE]
    ok(world.apply([type_of("own", *hidden), resource("Configuration", "all", destinations=[{**held, **before}])]))
    ok(world.apply([type_of("own", *opened)]))
    changed = resource("Configuration", "all", destinations=[other, {**held, **after}])
    [update] = world.apply([changed], DRY).body["updates"]
    assert [one["value"] for one in update["resource"]["spec"]["destinations"][0]["parameters"]] == [MASK, "t"]
    ok(world.apply([changed]))
    first, second = versions(world, "all", "Configuration")[-1]["spec"]["destinations"]
    assert [one["value"] for one in first["parameters"]] == ["new", "t"]
    assert [one["value"] for one in second["parameters"]] == [MASK, {"k": MASK}]


def test_a_type_of_another_kind_with_the_same_name_masks_nothing(world: World) -> None:
    ok(world.apply([type_of("own", OPEN), type_of("own", OPEN, kind="ProcessorType"), destination("one", token="t")]))
    told = ok(world.apply([type_of("own", SECRET, kind="ProcessorType")]))
    assert (rewritten(told), tokens(world)) == ([], ["t"])


def test_what_an_answer_shows_is_masked_and_a_dry_run_rewrites_nothing(world: World) -> None:
    ok(world.apply([type_of("own", OPEN), destination("one", token="t")]))
    sent = [type_of("own", SECRET), {**destination("one", token="t"), "status": {}}]
    dry = world.apply([sent[0], {**destination("one", token=MASK)}], DRY)
    assert (dry.parts, tokens(world)) == ((), ["t"])
    assert b'"t"' not in dry.planned.answer
    told = ok(world.apply(sent))
    assert told.statuses == ["configured", "unchanged"]
    assert told.body["updates"][1]["resource"]["spec"]["parameters"] == [{"name": "token", "value": MASK}]
    [stored] = world.all("select body from version where name = 'one'")
    shown = {key: value for key, value in told.body["updates"][1]["resource"].items() if key != "status"}
    assert shown == json.loads(stored["body"])


def test_what_is_deleted_together_with_its_type_is_shown_masked(world: World) -> None:
    ok(world.apply([type_of("own", OPEN), destination("one", token="t")]))
    for options in (DRY, worlds.ASKED):
        told = ok(world.delete([type_of("own"), destination("one")], options))
        assert told.body["updates"][1]["resource"]["spec"]["parameters"] == [{"name": "token", "value": MASK}]
    assert tokens(world) == [MASK]


def test_a_commit_masks_as_well_when_it_changes_a_type_or_lets_it_go(world: World) -> None:
    def push(repository: str, *found: Resource) -> None:
        world.push(repository, {"one.yaml": "---\n".join(json.dumps(one) + "\n" for one in found)})
        world.settle()

    one, other = destination("one", token="t"), destination("two", token="t")
    push("a", type_of("own", OPEN), one, other)
    push("a", type_of("own", SECRET, NOTE), labelled(one, description="edited"), other)
    assert (tokens(world), tokens(world, "two")) == ([MASK, MASK], [MASK])
    push("a", type_of("own", OPEN, NOTE), destination("one", note="n"))
    push("b", type_of("own", SECRET, {**NOTE, "options": {"sensitive": True}}))
    assert tokens(world)[-1] == "n"
    push("a", destination("one", note="n"))  # the type passes on to b, in which the note is a secret
    assert tokens(world) == [MASK] * 3
    push("a", resource("Fleet", "only"))
    push("b", resource("Fleet", "other"), type_of("own"))
    assert tokens(world) == [MASK] * 3


def test_a_value_that_is_marked_later_is_masked_wherever_it_stood_before(world: World) -> None:
    own = type_of("own", OPEN, NOTE)
    ok(world.apply([own, destination("one", token="t"), destination("two", token="t")]))
    ok(world.apply([destination("one", note="n", token="t")]))  # moved to another position
    ok(world.apply([destination("one", token="other")]))
    told = ok(world.apply([marked(destination("one", token="t"))]))
    assert rewritten(told) == [("one", 2), ("one", 1)]
    shown = [body["spec"]["parameters"] for body in versions(world, "one")]
    assert shown[0] == [{"name": "token", "value": MASK}]
    assert shown[1] == [{"name": "note", "value": "n"}, {"name": "token", "value": MASK}]
    assert shown[2] == [{"name": "token", "value": "other"}]  # another value
    assert tokens(world, "two") == ["t"]  # another resource
    again = ok(world.apply([labelled(marked(destination("one", token="t")), description="edited")]))
    assert rewritten(again) == []


def test_it_is_masked_also_in_a_life_before(world: World) -> None:
    ok(world.apply([type_of("own", OPEN), destination("one", token="t")]))
    ok(world.delete([destination("one")]))
    told = ok(world.apply([marked(destination("one", token="t"))]))
    assert (rewritten(told), tokens(world)) == ([("one", 1)], [MASK, MASK])


def test_what_has_no_name_is_looked_for_at_the_same_position(world: World) -> None:
    def holding(*, sensitive: bool) -> Resource:
        parameter = {"name": "token", "value": {"k": "t"}, "sensitive": sensitive}
        return resource("Configuration", "all", destinations=[{"type": "own", "parameters": [parameter]}])

    ok(world.apply([type_of("own", {"name": "token", "type": "map"}), holding(sensitive=False)]))
    ok(world.apply([holding(sensitive=True)]))
    shown = [
        body["spec"]["destinations"][0]["parameters"][0]["value"] for body in versions(world, "all", "Configuration")
    ]
    assert shown == [{"k": MASK}, {"k": MASK}]


def test_a_type_and_a_mark_in_one_change_mask_both(world: World) -> None:
    ok(world.apply([type_of("own", OPEN, NOTE), destination("one", token="t", note="n")]))
    told = ok(world.apply([type_of("own", OPEN, {**NOTE, "options": {"sensitive": True}}),
                           marked(destination("one", token="t", note="other"))]))  # fmt: skip
    assert rewritten(told) == [("one", 1)]
    shown = versions(world, "one")[0]["spec"]["parameters"]
    assert [one["value"] for one in shown] == [MASK, MASK]
    assert world.all("select secrets from version where name = 'one' and version = 1") == [
        {"secrets": b'{"/spec/parameters/0/value":"t","/spec/parameters/1/value":"n"}'}
    ]


@pytest.mark.parametrize("body", [b'{"type":"own"', b'{"type":"own"}', b'{"metadata":{"type":"own"},"spec":[]}'])
def test_what_cannot_be_read_stays_and_stops_nothing(world: World, body: bytes) -> None:
    ok(world.apply([type_of("own", OPEN), destination("one", token="t"), destination("two", token="t")]))
    ok(world.apply([destination("one", token="u")]))
    world.all("update version set body = ? where name = 'one' and version = 1", body)
    world.all("update version set body = ? where name = 'own'", b"{")
    told = ok(world.apply([type_of("own", SECRET)]))
    assert rewritten(told) == [("two", 1), ("one", 2)]


def test_parts_are_of_bounded_size(world: World) -> None:
    names = [f"d{number}" for number in range(changes.PART + 1)]
    ok(world.apply([type_of("own", OPEN), *(destination(name, token="t") for name in names)]))
    told = ok(world.apply([type_of("own", SECRET)]))
    sizes = [len(part.rewritten) for part in told.parts if part.rewritten]
    assert sizes == [changes.PART, 1]
    assert {tokens(world, name)[0] for name in names} == {MASK}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each look through versions: of one resource by its name, of all of them `all`."""
    found: list[str] = []
    naming, versions = StoredPlanningView.versions_naming, StoredPlanningView.versions

    def all_looked_through(
        view: StoredPlanningView, project: str, kinds: Sequence[str], types: Iterable[str]
    ) -> Iterator[VersionRow]:
        found.append("all")
        return naming(view, project, kinds, types)

    def one_looked_through(
        view: StoredPlanningView, project: str, key: Key, *, number: int | None = None
    ) -> Iterator[VersionRow]:
        found.append(key.name)
        return versions(view, project, key, number=number)

    monkeypatch.setattr(StoredPlanningView, "versions_naming", all_looked_through)
    monkeypatch.setattr(StoredPlanningView, "versions", one_looked_through)
    return found


def test_nothing_is_looked_through_that_cannot_hold_something(world: World, looks: list[str]) -> None:
    """A first read, and an update that leaves the secrets as they are, cost nothing more."""
    ok(world.apply([type_of("own", SECRET, NOTE), destination("one", token="t", note="n"), destination("two")]))
    ok(world.apply([destination("one", token="t", note="other"), destination("two", note="n")]))
    ok(world.apply([type_of("own", SECRET, NOTE, {**NOTE, "name": "more"})]))
    assert looks == []
    ok(world.apply([destination("one", token="u"), destination("two"), type_of("own", SECRET)]))
    assert looks == ["one", "all"]


def many(prefix: str) -> Resource:
    """Return a Configuration with many secrets."""
    given = [{"type": "own", "parameters": [{"name": "token", "value": f"{prefix}{index}"}]} for index in range(70)]
    return resource("Configuration", "all", destinations=given)


def test_many_values_are_masked(world: World) -> None:
    """The author of documents says how many there are, and how many versions."""
    ok(world.apply([type_of("own", OPEN), many("a"), resource("Configuration", "other")]))
    ok(world.apply([many("b")]))
    shown = many("a")
    for one in shown["spec"]["destinations"]:
        one["parameters"][0]["sensitive"] = True
    assert rewritten(ok(world.apply([shown]))) == [("all", 1)]
    first = versions(world, "all", "Configuration")[0]["spec"]["destinations"]
    assert {one["parameters"][0]["value"] for one in first} == {MASK}


def test_many_types_are_looked_for_in_one_go(world: World) -> None:
    names = [f"own{index}" for index in range(40)]
    ok(world.apply([*(type_of(name, OPEN) for name in names), destination("one", "own7", token="t")]))
    assert rewritten(ok(world.apply([type_of(name, SECRET) for name in names]))) == [("one", 1)]
    assert tokens(world) == [MASK]


def test_looking_through_versions_ends_when_there_is_no_time_left(world: World) -> None:
    class Over(Exception):
        """Of this test."""

    def check() -> None:
        raise Over

    ok(world.apply([type_of("own", OPEN), destination("one", token="t")]))
    ok(world.delete([destination("one")]))
    with world.view.snapshot():
        going = Outcome(Key("DestinationType", "own"), UpdateStatus.DELETED, change=Change.DELETE)
        origin = Origin(worlds.PROJECT, "somebody", None, None, None, "now", 0, b"seed", {}, b"k")
        rows = ChangeRows(Decided((), (going,)), world.view, origin=origin)
        masking = Remasking([rows], world.view, check=check)
        with pytest.raises(Over):
            list(masking.parts())
