"""Judging documents together: what arrives holds up what refers to it, whatever the order."""

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import desired
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.type_checks import BlindTypes, Fit, TypeOf
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from reconciler.planner import resolving
from reconciler.planner.resolving import Coming
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from tests.model.lookups import look_up, type_of

CUSTOM = Key("ProcessorType", "custom")
BAD: list[Value] = [{"name": "configuration", "value": 5}]
WRONG = "is not a string"


def document(kind: str, name: str, **spec: Value) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def processor(name: str, *named: str, bad: bool = False) -> dict[str, Any]:
    """A Processor that names others; a bad one has a parameter that its type does not know."""
    others: list[Value] = [{"name": other} for other in named]
    return document("Processor", name, type="custom", parameters=BAD if bad else [], processors=others)


def coming(
    documents: Iterable[dict[str, Any]],
    *,
    there: Collection[Key] = (),
    barred: Collection[int] = (),
    accept_invalid: bool = False,
) -> Coming:
    """These documents, all but the barred ones arriving, where `there` and the type `custom` are."""
    judged: dict[int, Desired] = {}
    arriving: dict[Key, int] = {}
    for position, each in enumerate(documents):
        found = desired.judge(each, api_versions=frozenset({"service/v1"}))
        assert found.key is not None, found.violations
        judged[position] = desired.of_judged(found, hmac_key=b"k")
        if position not in barred:
            arriving[found.key] = position
    return Coming(judged, arriving, {CUSTOM, *there}, judged.keys() if accept_invalid else ())


class ByPosition(NamedTuple):
    """Why documents are refused, and the fits of the others, by their positions."""

    reasons: dict[int, str]
    fits: dict[int, Fit]


class OneRepository:
    """A store of which only the one read is asked; no other repository has anything."""

    def unmet(self, _project: str, _keys: Collection[Key], *, without: Collection[str]) -> set[Key]:
        assert not without
        return set()


def resolve(one: Coming, type_of: TypeOf = type_of) -> ByPosition:
    snapshot = StoreSnapshot(cast("PlanningView", OneRepository()), "default", b"k")
    found = resolving.resolve(one, snapshot, judging=BlindTypes(look_up), type_of=type_of)
    lines = {at: "\n".join(resolving.unresolved_lines(each)) for at, each in found.violations.items()}
    return ByPosition(lines, dict(found.fits))


def reasons(*documents: dict[str, Any], **context: Any) -> Mapping[int, str]:
    return resolve(coming(documents, **context)).reasons


MISSING = "there is no {}; create it, or correct the name"
REFUSED = "the {} is invalid and not stored yet; mend that first"


def test_a_reference_finds_what_comes_along_what_is_stored_and_what_is_built_in() -> None:
    stored = Key("Processor", "stored")
    assert reasons(processor("a", "b", "stored"), processor("b"), there=[stored]) == {}


def test_a_reference_that_leads_nowhere_is_told_where_it_stands() -> None:
    configuration = document(
        "Configuration",
        "c",
        sources=[{"name": "web:5"}, {"type": "gone", "processors": [{"type": "custom"}, {"name": "p"}]}],
        destinations=[{"name": "web"}],
    )
    assert reasons(configuration) == {
        0: "\n".join(
            [
                # Keys in their canonical order; whoever has the file tells them in its own.
                f"/spec/destinations/0/name: {MISSING.format('Destination web')}",
                f"/spec/sources/0/name: {MISSING.format('Source web')}",
                f"/spec/sources/1/processors/1/name: {MISSING.format('Processor p')}",
                f"/spec/sources/1/type: {MISSING.format('SourceType gone')}",
            ]
        )
    }


def test_the_value_of_a_parameter_that_leads_nowhere_is_not_repeated() -> None:
    webhook = Key("DestinationType", "webhook")
    given_: list[Value] = [
        {"name": "hostname", "value": "x"},
        {"name": "persistent_queue_storage", "value": "hush", "sensitive": True},
    ]
    destination = document("Destination", "d", type="webhook", parameters=given_)
    told = reasons(destination, there=[webhook])
    assert told == {0: f"/spec/parameters/1/value: {MISSING.format('Extension of this name')}"}


OTHER = "names an Extension of another type; name one of the type `file_storage`"
STORAGE = Key("ExtensionType", "file_storage")
THERE = [Key("DestinationType", "webhook"), STORAGE, Key("ExtensionType", "other")]


def webhook(storage: str) -> dict[str, Any]:
    given_: list[Value] = [
        {"name": "hostname", "value": "x"},
        {"name": "persistent_queue_storage", "value": storage, "sensitive": True},
    ]
    return document("Destination", "d", type="webhook", parameters=given_)


def test_a_queue_is_kept_in_what_is_built_in_and_in_what_comes_along() -> None:
    built_in = Key("Extension", "file_storage_persistent_queue")
    disk = document("Extension", "disk", type="file_storage:1")
    assert reasons(webhook("file_storage_persistent_queue:5"), there=[*THERE, built_in]) == {}
    assert reasons(webhook("disk:5"), disk, there=THERE) == {}
    assert reasons(disk, webhook("disk"), there=THERE) == {}


def test_an_extension_of_another_type_that_comes_keeps_no_queue_whether_in_a_resource_or_in_place() -> None:
    named = webhook("hush")
    inside = document("Configuration", "c", destinations=[named["spec"]], extensions=[{"name": "hush"}])
    assert reasons(document("Extension", "hush", type="other"), named, inside, there=THERE) == {
        1: f"/spec/parameters/1/value: {OTHER}",
        2: f"/spec/destinations/0/parameters/1/value: {OTHER}",
    }


def test_a_queue_in_an_extension_of_another_type_may_be_accepted() -> None:
    found = resolve(coming([document("Extension", "e", type="other"), webhook("e")], there=THERE, accept_invalid=True))
    assert found.reasons == {}
    assert resolving.unresolved_lines(found.fits[1].violations) == (f"/spec/parameters/1/value: {OTHER}",)


BAD_SYNC: list[Value] = [{"name": "sync", "value": "never"}]


@pytest.mark.parametrize(
    ("spec", "barred"), [({"parameters": BAD_SYNC}, []), ({"processors": [{"name": "gone"}]}, []), ({}, [1])]
)
def test_a_queue_is_judged_by_the_stored_extension_when_the_one_that_comes_is_refused(
    spec: dict[str, Value], barred: list[int]
) -> None:
    disk = document("Extension", "disk", type="file_storage", **spec)
    one = coming([webhook("disk"), disk], there=[*THERE, Key("Extension", "disk")], barred=barred)
    found = resolve(one, lambda _: "other")
    assert found.reasons[0] == f"/spec/parameters/1/value: {OTHER}"
    assert found.reasons.keys() == ({0} if barred else {0, 1})


def test_what_refers_to_something_refused_is_refused_and_says_why() -> None:
    assert reasons(processor("a", "b"), processor("b", "c"), processor("c", "gone"), processor("d")) == {
        0: f"/spec/processors/0/name: {REFUSED.format('Processor b')}",
        1: f"/spec/processors/0/name: {REFUSED.format('Processor c')}",
        2: f"/spec/processors/0/name: {MISSING.format('Processor gone')}",
    }


def test_what_refers_to_something_refused_is_judged_against_the_stored_version() -> None:
    stored = [Key("Processor", "b")]
    assert reasons(processor("a", "b"), processor("b", bad=True), there=stored) == {
        1: f"/spec/parameters/0/value: {WRONG}"
    }


def test_two_new_ones_that_refer_to_each_other_hold_each_other_up_and_fall_together() -> None:
    assert reasons(processor("a", "b"), processor("b", "a")) == {}
    assert reasons(processor("a", "b"), processor("b", "a", "gone")) == {
        0: f"/spec/processors/0/name: {REFUSED.format('Processor b')}",
        1: "\n".join(
            [
                f"/spec/processors/0/name: {REFUSED.format('Processor a')}",
                f"/spec/processors/1/name: {MISSING.format('Processor gone')}",
            ]
        ),
    }


def test_everything_that_is_wrong_is_told_in_one_order() -> None:
    mixed = document("Processor", "a", processors=[{"name": "gone"}, {"type": "custom", "parameters": BAD}])
    mixed["spec"] |= {"type": "custom", "parameters": BAD}
    assert reasons(mixed)[0].splitlines() == [
        f"/spec/parameters/0/value: {WRONG}",
        f"/spec/processors/0/name: {MISSING.format('Processor gone')}",
        f"/spec/processors/1/parameters/0/value: {WRONG}",
    ]


def test_parameters_that_do_not_fit_may_be_accepted_and_missing_references_never() -> None:
    found = resolve(coming([processor("a", bad=True), processor("b", "gone", bad=True)], accept_invalid=True))
    assert found.reasons == {1: f"/spec/processors/0/name: {MISSING.format('Processor gone')}"}
    assert {ordinal: resolving.unresolved_lines(fit.violations) for ordinal, fit in found.fits.items()} == {
        0: (f"/spec/parameters/0/value: {WRONG}",)
    }


def test_what_may_not_be_stored_is_judged_and_nobody_can_refer_to_it() -> None:
    assert reasons(processor("a", "b"), processor("b", bad=True), processor("c"), barred=[1, 2]) == {
        0: f"/spec/processors/0/name: {REFUSED.format('Processor b')}",
        1: f"/spec/parameters/0/value: {WRONG}",
    }


@pytest.mark.parametrize("count", [0, 1, 3])
def test_lines_are_one_for_each_violation(count: int) -> None:
    found = [Violation(("spec", number), "is wrong", of_parameter=True) for number in range(count)]
    assert resolving.unresolved_lines(found) == tuple(f"/spec/{number}: is wrong" for number in range(count))


NAMES = "abcde"
PROCESSOR = st.builds(
    lambda named, bad: (named, bad), st.lists(st.sampled_from([*NAMES, "gone"]), max_size=3), st.booleans()
)
COMING = st.dictionaries(st.sampled_from(NAMES), PROCESSOR, max_size=5)
SOME = st.sets(st.sampled_from(NAMES))


def present(arriving: dict[str, tuple[list[str], bool]], there: Collection[str], *, accept_invalid: bool) -> set[str]:
    """Return what there will be, by looking at every set of those that arrive, the largest first."""
    for size in range(len(arriving), 0, -1):
        for chosen in map(set, combinations(sorted(arriving), size)):
            after = chosen | set(there)
            fine = (
                after.issuperset(arriving[name][0]) and (accept_invalid or not arriving[name][1]) for name in chosen
            )
            if all(fine):
                return after
    return set(there)


@given(COMING, SOME, SOME, st.booleans())
def test_as_much_is_stored_as_can_be(
    found: dict[str, tuple[list[str], bool]], stored: set[str], barred: set[str], accept_invalid: bool
) -> None:
    names = list(found)
    documents = [processor(name, *found[name][0], bad=found[name][1]) for name in names]
    after = present(
        {name: each for name, each in found.items() if name not in barred}, stored, accept_invalid=accept_invalid
    )
    refused = {
        ordinal
        for ordinal, name in enumerate(names)
        if not after.issuperset(found[name][0]) or (found[name][1] and not accept_invalid)
    }

    result = resolve(
        coming(
            documents,
            there=[Key("Processor", name) for name in stored],
            barred=[names.index(name) for name in barred if name in names],
            accept_invalid=accept_invalid,
        )
    )

    assert result.reasons.keys() == refused
    assert result.fits.keys() == set(range(len(names))) - refused


@given(COMING, SOME, SOME, st.booleans(), st.data())
def test_the_order_of_documents_changes_nothing(
    found: dict[str, tuple[list[str], bool]],
    stored: set[str],
    barred: set[str],
    accept_invalid: bool,
    data: st.DataObject,
) -> None:
    def resolved(names: list[str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        one = coming(
            [processor(name, *found[name][0], bad=found[name][1]) for name in names],
            there=[Key("Processor", name) for name in stored],
            barred=[ordinal for ordinal, name in enumerate(names) if name in barred],
            accept_invalid=accept_invalid,
        )
        result = resolve(one)
        fits = {names[ordinal]: resolving.unresolved_lines(fit.violations) for ordinal, fit in result.fits.items()}
        return {names[ordinal]: reason for ordinal, reason in result.reasons.items()}, fits

    assert resolved(data.draw(st.permutations(sorted(found)))) == resolved(sorted(found))


def test_a_long_chain_takes_no_recursion_and_little_time() -> None:
    names = [f"n{number}" for number in range(3_000)]
    chain = [processor(name, following) for name, following in zip(names, [*names[1:], "gone"], strict=True)]
    assert len(reasons(*chain)) == len(names)
    assert reasons(*chain[:-1], processor(names[-1])) == {}
