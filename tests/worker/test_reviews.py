"""A plan against the store: what it tells, and what nobody may learn from it."""

import json
from typing import Any

import pytest

from reconciler.collectors import changes
from reconciler.git.snapshots import Snapshot
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import SENSITIVE_CHANGED, PlanPlace, PlanRendering, PlanStatus
from reconciler.worker import reviews, trees
from reconciler.worker.trees import Allowance, FileScope
from tests import canaries, worlds
from tests.worlds import Following, World

STORED, OTHER = f"{canaries.MARKER}stored", f"{canaries.MARKER}other"


def destination(name: str, *, token: str = "", port: int = 443) -> str:
    parameters: list[object] = [{"name": "hostname", "value": "a.example.com"}, {"name": "port", "value": port}]
    parameters += [{"name": "headers", "value": {"Authorization": token}}] if token else []
    spec = {"type": "webhook", "parameters": parameters}
    return json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": spec})


def configuration(name: str, *names: str) -> str:
    spec = {"destinations": [{"name": each} for each in names]}
    return json.dumps({"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": name}, "spec": spec})


def propose(world: World, files: dict[str, str]) -> dict[str, PlanStatus]:
    """Return what the plan of these files says, by name."""
    head = world.mirrors["a"].propose(files, onto=world.heads["a"])
    entry = world.review("a", head)
    return {str(one.name): one for one in entry.statuses}


def paths(status: PlanStatus) -> list[str]:
    return [field.path for field in status.fields]


def test_a_secret_that_changed_is_told_without_its_values(world: World) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    [field] = propose(world, {"x.yaml": destination("x", token=OTHER)})["x"].fields
    assert (field.path, field.new, field.sensitive) == (
        "spec.parameters[headers].value.Authorization",
        SENSITIVE_CHANGED,
        True,
    )


def test_a_secret_that_the_base_holds_too_is_not_told_as_changed(world: World) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    found = propose(world, {"x.yaml": destination("x", token=STORED, port=8443)})
    assert paths(found["x"]) == ["spec.parameters[port].value"]


def test_whoever_guesses_what_is_stored_is_told_nothing(world: World) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    world.push("a", {"x.yaml": destination("x", token=OTHER)})  # the base, which nobody has applied yet
    right = propose(world, {"x.yaml": destination("x", token=STORED)})
    wrong = propose(world, {"x.yaml": destination("x", token=f"{canaries.MARKER}wrong")})
    assert right["x"].status is UpdateStatus.CONFIGURED
    assert right["x"].fields == wrong["x"].fields


def test_whoever_guesses_under_a_type_that_calls_nothing_a_secret_is_told_nothing(world: World) -> None:
    parameters = [{"name": "hostname", "type": "string"}, {"name": "port", "type": "int"}]
    own = {
        "apiVersion": "service/v1",
        "kind": "DestinationType",
        "metadata": {"name": "own"},
        "spec": {"parameters": [*parameters, {"name": "headers", "type": "map"}]},
    }
    world.push("a", {"y.yaml": destination("y")})
    world.settle()
    world.apply([json.loads(destination("x", token=STORED))])
    right, wrong = (
        propose(
            world,
            {
                "y.yaml": destination("y"),
                "t.yaml": json.dumps(own),
                "x.yaml": destination("x", token=guess).replace('"webhook"', '"own"'),
            },
        )["x"].fields
        for guess in (STORED, f"{canaries.MARKER}wrong")
    )
    assert right == wrong
    assert [field.path for field in right] == ["spec.parameters[headers].value.Authorization", "spec.type"]


@pytest.mark.parametrize("port", [443, 8443])
def test_whoever_writes_a_guess_into_the_base_too_is_told_nothing(world: World, port: int) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    mirror, told = world.mirrors["a"], []
    for guess in (STORED, OTHER):
        written = f"{destination('x', token=guess)}\n"  # other bytes than those that are followed
        base = mirror.propose({"x.yaml": written, "y": "1"}, onto=world.heads["a"])
        changed = written if port == 443 else destination("x", token=guess, port=port)
        head = mirror.propose({"x.yaml": changed, "y": "2"}, onto=base)
        entry = world.review("a", head, base=base)
        told.append((entry.counts, entry.notes, [(one.name, one.status, one.fields) for one in entry.statuses]))
    assert told[0] == told[1]
    assert told[0][0] == {"configured": 1}


def test_whoever_makes_the_very_files_that_are_applied_is_told_nothing(world: World) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    mirror, told = world.mirrors["a"], []
    for guess in (STORED, OTHER):
        base = mirror.propose({"x.yaml": destination("x", token=guess)}, onto=world.heads["a"])
        entry = world.review("a", mirror.propose({"x.yaml": destination("x", token=guess)}, onto=base), base=base)
        told.append((entry.counts, entry.notes, entry.statuses))
    assert told[0] == told[1]


def test_the_base_that_was_applied_is_known_whoever_names_it(world: World) -> None:
    world.push("a", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    head = world.mirrors["a"].propose({"x.yaml": destination("x", token=STORED, port=8443)}, onto=world.heads["a"])
    [status] = world.review("a", head, base=world.heads["a"]).statuses
    assert paths(status) == ["spec.parameters[port].value"]


def test_a_plan_of_a_repository_tells_nothing_of_a_guess_at_what_another_owns(world: World) -> None:
    world.push("b", {"x.yaml": destination("x", token=STORED)})
    world.settle()
    world.push("a", {"y.yaml": destination("y")})
    world.settle()
    statuses = {
        propose(world, {"y.yaml": destination("y"), "x.yaml": destination("x", token=token)})["x"].status
        for token in (STORED, OTHER)
    }
    assert statuses == {UpdateStatus.FORBIDDEN}


def test_what_depends_on_a_change_is_named_through_others_too(world: World) -> None:
    types = json.dumps(
        {
            "apiVersion": "service/v1",
            "kind": "DestinationType",
            "metadata": {"name": "own"},
            "spec": {"parameters": [{"name": "p", "type": "string"}]},
        }
    )
    used = json.dumps(
        {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "x"}, "spec": {"type": "own"}}
    )
    files = {"t.yaml": types, "x.yaml": used, "c.yaml": configuration("c", "x"), "n.yaml": configuration("n")}
    world.push("a", files)
    world.settle()
    found = propose(world, {**files, "t.yaml": types.replace('"string"', '"int"')})
    assert [(one.kind, one.name) for one in found["own"].dependants] == [("Configuration", "c"), ("Destination", "x")]


def test_a_type_that_asks_for_more_makes_its_users_incomplete_and_says_so(world: World) -> None:
    def kind(*, required: bool) -> str:
        spec = {"parameters": [{"name": "p", "type": "string", "required": required}]}
        document = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}, "spec": spec}
        return json.dumps(document)

    user = {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "x"}, "spec": {"type": "own"}}
    world.apply([user])
    world.push("a", {"t.yaml": kind(required=False)})
    world.settle()
    world.apply([user])
    head = world.mirrors["a"].propose({"t.yaml": kind(required=True)}, onto=world.heads["a"])
    entry = world.review("a", head)
    assert [one.status for one in entry.statuses] == [UpdateStatus.CONFIGURED]
    assert entry.notes[0].startswith("Destination x becomes incomplete: ")


def test_what_is_invalid_itself_does_not_say_why_twice(world: World) -> None:
    parameter = {"name": "p", "type": "int", "maximum": 9}
    document = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}}
    loose, tight = (json.dumps({**document, "spec": {"parameters": [{**parameter, "maximum": n}]}}) for n in (9, 5))
    spec = {"type": "own", "parameters": [{"name": "p", "value": 9}]}
    user = json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "x"}, "spec": spec})
    files = {"t.yaml": loose, "x.yaml": user, "c.yaml": configuration("c", "x")}
    world.push("a", files)
    world.settle()
    entry = world.review("a", world.mirrors["a"].propose({**files, "t.yaml": tight}, onto=world.heads["a"]))
    assert [(one.name, one.status) for one in entry.statuses] == [
        ("x", UpdateStatus.INVALID),
        ("own", UpdateStatus.CONFIGURED),
    ]
    assert entry.notes == (
        "Configuration c becomes incomplete: /spec/destinations/0/name: the Destination x is incomplete; complete it.",
        "Destination x becomes incomplete.",
    )


def test_deletions_that_would_be_held_are_listed_and_those_held_before_are_told_apart(world: World) -> None:
    def told(one: PlanStatus) -> tuple[str | None, str, bool, bool]:
        assert (one.status, one.at is not None) == (UpdateStatus.DELETED, True)
        return one.name, str(one.at).partition(":")[0], one.held, one.existing

    order = sorted(range(12), key=str)
    files = {f"{number}.yaml": destination(f"d{number}") for number in range(12)}
    world.push("a", files)
    world.settle()
    entry = world.review("a", world.mirrors["a"].propose({"README": ""}, onto=world.heads["a"]))
    assert (entry.held, entry.counts, len(entry.notes)) == (12, {"deleted": 12}, 1)
    assert [told(one) for one in entry.statuses] == [(f"d{number}", f"{number}.yaml", True, False) for number in order]
    world.push("a", {"README": ""})
    world.settle()
    entry = world.review("a", world.mirrors["a"].propose({"README": "1"}, onto=world.heads["a"]))
    assert (entry.held, entry.counts, len(entry.notes)) == (0, {"deleted": 12}, 1)
    assert [told(one) for one in entry.statuses] == [(f"d{number}", f"{number}.yaml", True, True) for number in order]


def test_that_nothing_of_an_atomic_entry_would_be_stored_is_told_once() -> None:
    with worlds.world({"a": Following(atomic=True)}) as world:
        world.push("a", {"x.yaml": destination("x")})
        world.settle()
        entry = world.review(
            "a", world.mirrors["a"].propose({"x.yaml": destination("x", port=0)}, onto=world.heads["a"])
        )
        assert (entry.refused, entry.notes) == (True, ())


def test_trouble_in_files_that_the_change_does_not_touch_was_there_before(world: World) -> None:
    files = {"bad.yaml": destination("bad", port=0), "x.yaml": destination("x")}
    world.push("a", files)
    world.settle()
    found = propose(world, {**files, "x.yaml": destination("x", port=0)})
    assert {name: one.existing for name, one in found.items()} == {"bad": True, "x": False}


def test_beside_what_was_refused_before_new_trouble_is_new(world: World) -> None:
    files = {"both.yaml": f"{destination('bad', port=0)}\n---\n{destination('x')}\n"}
    world.push("a", files)
    world.settle()
    head = world.mirrors["a"].propose({**files, "again.yaml": destination("x")}, onto=world.heads["a"])
    found = [(one.name, str(one.at and one.at.path), one.existing) for one in world.review("a", head).statuses]
    assert found == [("x", "again.yaml", False), ("x", "both.yaml", False), ("bad", "both.yaml", True)]


def test_each_file_of_the_base_is_named_before_it_is_read_and_none_while_the_tree_is_walked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"x.yaml": destination("x"), "y.yaml": destination("y")}
    world.push("a", files)  # nobody has read it, so that the whole tree is walked
    base, mirror = world.heads["a"], world.mirrors["a"]
    head = mirror.propose({**files, "x.yaml": destination("x", port=8443)}, onto=base)
    read: list[str] = []
    walk = trees.considered

    def walked(snapshot: Snapshot, *, scope: FileScope) -> Any:
        read.append("walk")
        return walk(snapshot, scope=scope)

    monkeypatch.setattr(trees, "considered", walked)
    reviews.plan_review(world.review_job("a", head), world.view, allowance=Allowance(at=read.append))
    with Snapshot.open(mirror.path, base) as before, Snapshot.open(mirror.path, head) as after:
        assert read == [before.blob("x.yaml"), "", "walk", after.blob("x.yaml"), after.blob("y.yaml"), ""]


def test_what_is_not_touched_is_counted(world: World) -> None:
    files = {f"{number}.yaml": destination(f"d{number}") for number in range(5)}
    world.push("a", files)
    world.settle()
    head = world.mirrors["a"].propose({**files, "0.yaml": destination("d0", port=1)}, onto=world.heads["a"])
    entry = world.review("a", head)
    assert entry.counts == {"unchanged": 4, "configured": 1}


def test_a_plan_of_a_repository_that_was_never_read_is_one_against_an_empty_store(world: World) -> None:
    world.push("a", {"x.yaml": destination("x")})
    found = propose(world, {"x.yaml": destination("x"), "y.yaml": destination("y")})
    assert {name: one.status for name, one in found.items()} == {
        "x": UpdateStatus.CREATED,
        "y": UpdateStatus.CREATED,
    }


def test_a_plan_changes_nothing(world: World) -> None:
    world.push("a", {"x.yaml": destination("x")})
    world.settle()
    before = world.revision, world.stored()
    propose(world, {"y.yaml": destination("y")})
    assert (world.revision, world.stored()) == before


def component(kind: str, name: str, type_: str, **parameters: object) -> str:
    spec = {"type": type_, "parameters": [{"name": key, "value": value} for key, value in parameters.items()]}
    return json.dumps({"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def for_collectors(name: str = "edge", **spec: object) -> str:
    sources, destinations = [{"type": "filelog", "parameters": [INCLUDE]}], [{"name": "out"}]
    whole = spec or {"sources": sources, "destinations": destinations}
    return json.dumps({"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": name}, "spec": whole})


INCLUDE = {"name": "include", "value": ["/var/log/a.log"]}
RUNS = {"edge.yaml": for_collectors(), "out.yaml": f"# a comment\n{component('Destination', 'out', 'otlphttp')}"}


def renderings(world: World, files: dict[str, str]) -> dict[str, PlanRendering]:
    """Return what the plan of these files says of collectors, by name."""
    head = world.mirrors["a"].propose(files, onto=world.heads["a"])
    return {one.name: one for one in world.review("a", head).renderings}


def test_what_changes_for_collectors_is_rendered_from_both_sides(world: World) -> None:
    world.push("a", RUNS)
    world.settle()
    out = component("Destination", "out", "otlphttp", endpoint="https://b.example:4318")
    found = renderings(world, {**RUNS, "out.yaml": f"# a comment\n{out}", "x.yaml": destination("x")})
    assert [*found] == ["edge"]
    edge = found["edge"]
    assert "https://b.example:4318" not in (edge.old or "")
    assert "https://b.example:4318" in (edge.new or "")
    assert (edge.violations, edge.existing, edge.raw) == ((), False, False)
    assert edge.at == PlanPlace(path="edge.yaml")
    assert edge.components["otlphttp/out-0"] == PlanPlace(path="out.yaml", line=2)
    assert edge.components["filelog/source0"] == edge.at  # its file did not change, so that nobody read it


def test_a_change_of_a_type_is_rendered_for_all_who_use_it(world: World) -> None:
    own = {"parameters": [], "logs": {"exporters": "- debug: {verbosity: basic}"}}
    document = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}, "spec": own}
    files = {**RUNS, "out.yaml": component("Destination", "out", "own"), "own.yaml": json.dumps(document)}
    world.push("a", {**files, "two.yaml": for_collectors("two")})
    world.settle()
    changed = json.dumps(document).replace("basic", "detailed")
    found = renderings(world, {**files, "two.yaml": for_collectors("two"), "own.yaml": changed})
    assert [*found] == ["edge", "two"]
    assert "detailed" in (found["two"].new or "")


def test_a_value_that_a_change_of_a_type_makes_a_secret_is_rendered_no_more(world: World) -> None:
    own: dict[str, object] = {
        "parameters": [{"name": "level", "type": "string", "options": {"sensitive": False}}],
        "logs": {"exporters": "- debug: {verbosity: {{ .level }}}"},
    }
    document = {"apiVersion": "service/v1", "kind": "DestinationType", "metadata": {"name": "own"}, "spec": own}
    out = component("Destination", "out", "own", level="was-open")
    files = {**RUNS, "out.yaml": out, "own.yaml": json.dumps(document)}
    world.push("a", files)
    world.settle()
    edge = renderings(world, {**files, "own.yaml": json.dumps(document).replace("false", "true")})["edge"]
    assert edge.new is None
    assert "holds the value of `level` as a secret" in edge.violations[0]


def test_what_cannot_be_rendered_any_more_is_a_violation_at_its_component(world: World) -> None:
    world.push("a", RUNS)
    world.settle()
    out = component("Destination", "out", "otlphttp", headers={"api-key": STORED})
    found = renderings(world, {**RUNS, "out.yaml": f"# a comment\n{out}"})["edge"]
    [violation] = found.violations
    assert violation.startswith("out.yaml:2:1: Destination `out`: the service holds the value of `headers` as a secret")
    assert (found.new, found.existing) == (None, False)


def test_what_could_not_be_rendered_before_is_no_news(world: World) -> None:
    secret = component("Destination", "out", "otlphttp", headers={"api-key": STORED})
    files = {**RUNS, "out.yaml": secret, "too.yaml": secret.replace('"out"', '"too"')}
    world.push("a", files)
    world.settle()
    other = renderings(world, {**files, "edge.yaml": RUNS["edge.yaml"].replace('"out"', '"too"')})["edge"]
    assert (len(other.violations), other.existing) == (1, False)  # another reason
    more = renderings(world, {**files, "edge.yaml": RUNS["edge.yaml"].replace("a.log", "b.log")})
    assert more == {}
    mended = renderings(world, {**files, "out.yaml": RUNS["out.yaml"]})["edge"]
    assert (mended.old, mended.violations) == (None, ())


def test_whoever_guesses_is_told_nothing_by_what_collectors_would_run(world: World) -> None:
    parameters = [{"name": "headers", "type": "map"}]
    own = {
        "apiVersion": "service/v1",
        "kind": "DestinationType",
        "metadata": {"name": "own"},
        "spec": {"parameters": parameters, "logs": {"exporters": "- debug: {a: {{ .headers }}}"}},
    }
    world.push("a", {"y.yaml": destination("y")})
    world.settle()
    world.apply([json.loads(component("Destination", "out", "otlphttp", headers={"api-key": STORED}))])
    told = [
        renderings(
            world,
            {
                "y.yaml": destination("y"),
                "own.yaml": json.dumps(own),
                "edge.yaml": RUNS["edge.yaml"],
                "out.yaml": component("Destination", "out", "own", headers={"api-key": guess}),
            },
        )
        for guess in (STORED, f"{canaries.MARKER}wrong")
    ]
    assert told[0] == told[1]
    assert canaries.MARKER not in str(told)


def test_the_own_text_of_a_configuration_is_not_for_all_readers(world: World) -> None:
    files = {**RUNS, **{f"{name}.yaml": for_collectors(name, raw="a: 1") for name in ("raw", "edge")}}
    world.push("a", files)
    world.settle()
    others = {"raw.yaml": for_collectors("raw", raw="a: 2"), "edge.yaml": RUNS["edge.yaml"]}
    assert renderings(world, {**files, **others}) == {}


def test_one_configuration_after_another_up_to_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST", 2)
    world.push("a", RUNS)
    world.settle()
    more = {f"{name}.yaml": for_collectors(name) for name in ("a", "b", "c", "d")}
    head = world.mirrors["a"].propose({**RUNS, **more}, onto=world.heads["a"])
    entry = world.review("a", head)
    assert ([one.name for one in entry.renderings], entry.renderings_left_out) == (["a", "b"], 2)
