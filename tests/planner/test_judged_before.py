"""Judged before: what is decided again is decided as if anew, and only what refers to a change is judged again."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model import desired, type_checks, values, violations
from reconciler.model.component_types import ComponentType
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.names import Key
from reconciler.model.principals import repository_actor
from reconciler.model.secret_references import UNKNOWN_SECRETS
from reconciler.model.type_checks import Fit
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from reconciler.planner import decisions
from reconciler.planner.decisions import Decided, DocumentBatch
from reconciler.planner.stored import JudgedBefore, StoreSnapshot
from reconciler.store.contract import Damaged
from tests import worlds
from tests.projects import Resource, configuration, destination, type_of

RULES = DocumentRules(api_versions=worlds.API_VERSIONS, hmac_key=worlds.HMAC_KEY)
TEXT, NUMBER = {"name": "token", "type": "string"}, {"name": "token", "type": "int"}
SECRET = {**TEXT, "options": {"sensitive": True}}
STRICT = {**TEXT, "required": True}

TYPES = st.builds(
    lambda name, definition: type_of(name, *definition),
    st.sampled_from(["own", "other"]),
    st.sampled_from([(TEXT,), (NUMBER,), (SECRET,), (STRICT,), ()]),
)
DESTINATIONS = st.builds(
    lambda name, type_, given: destination(name, type_, **given),
    st.sampled_from(["one", "two", "three"]),
    st.sampled_from(["own", "other", "gone"]),
    st.sampled_from([{}, {"token": "x"}, {"token": 5}, {"more": 1}]),
)
CONFIGURATIONS = st.builds(configuration, st.sampled_from(["c", "d"]), st.sampled_from(["one", "two", "gone"]))
RESOURCES = st.lists(
    TYPES | DESTINATIONS | CONFIGURATIONS, max_size=8, unique_by=lambda one: (one["kind"], one["metadata"]["name"])
)


def tell(_: Desired, found: Sequence[Violation]) -> str:
    return violations.lines(found, lambda _: "")


def decide(documents: list[Desired], snapshot: StoreSnapshot) -> Decided:
    with snapshot.view.snapshot():
        stored = snapshot.stored(one.key for one in documents if one.key is not None)
        batch = DocumentBatch(documents, stored, actor=repository_actor("a"), accept_invalid=False, tell=tell)
        [decided] = decisions.decide([batch], snapshot)
    return decided


@settings(max_examples=60, deadline=None)
@given(RESOURCES, RESOURCES, st.lists(RESOURCES, min_size=1, max_size=3))
def test_deciding_again_gives_what_deciding_anew_gives(
    before: list[Resource], wanted: list[Resource], between: list[list[Resource]]
) -> None:
    documents = desired.read_items(wanted, rules=RULES)
    with worlds.world({}) as world:
        world.apply(before)
        snapshot = StoreSnapshot(world.view, worlds.PROJECT, worlds.HMAC_KEY)
        decide(documents, snapshot)
        for change in between:
            world.apply(change)
            assert decide(documents, snapshot) == decide(documents, replace(snapshot, judged=JudgedBefore()))


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The documents that are judged, as JSON."""
    found: list[bytes] = []
    fit = type_checks.fit

    def noting(owned: dict[str, Value], *args: object, **options: object) -> Fit:
        found.append(values.canonical_json(owned))
        return fit(owned, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type_checks, "fit", noting)
    return found


def test_only_what_refers_to_a_type_that_changed_is_judged_again(judged: list[bytes]) -> None:
    documents = desired.read_items(
        [destination("one", token="x"), destination("two", "other", token="x"), destination("three", "other")],
        rules=RULES,
    )

    def judged_now() -> list[str]:
        judged.clear()
        decide(documents, snapshot)
        return [one.key.name for one in documents if one.key is not None and one.owned in judged]

    with worlds.world({}) as world:
        world.apply([type_of("own", TEXT), type_of("other", TEXT)])
        snapshot = StoreSnapshot(world.view, worlds.PROJECT, worlds.HMAC_KEY)
        assert judged_now() == ["one", "two", "three"]
        assert judged_now() == []
        world.apply([destination("elsewhere", token="x")])
        assert judged_now() == []
        world.apply([type_of("other", SECRET)])
        assert judged_now() == ["two", "three"]
        world.delete([type_of("other")])
        assert judged_now() == ["two", "three"]


def test_what_nobody_could_judge_is_judged_when_somebody_can(judged: list[bytes]) -> None:
    known = JudgedBefore()

    def damaged(_: Key) -> ComponentType | None:
        raise Damaged("the type is damaged")

    def missing(_: Key) -> ComponentType | None:
        return None

    [document] = desired.read_items([destination("one", token="x")], rules=RULES)
    with pytest.raises(Damaged):
        known.fit(document.owned, damaged, available=UNKNOWN_SECRETS, refuse_unknown=False)
    fit = known.fit(document.owned, missing, available=UNKNOWN_SECRETS, refuse_unknown=False)
    assert known.fit(document.owned, missing, available=UNKNOWN_SECRETS, refuse_unknown=False) is fit
    assert len(judged) == 2
    with pytest.raises(Damaged):
        known.fit(document.owned, damaged, available=UNKNOWN_SECRETS, refuse_unknown=False)
