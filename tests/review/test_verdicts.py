"""The verdict of a plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import NamedResource, Plan
from reconciler.review import plan as review_plan
from tests.review import samples
from tests.review.strategies import PLANS

LOST = (NamedResource(kind="Fleet", name="lost"),)


def of(*words: str, existing: bool = False) -> Plan:
    """A plan with resources of these statuses."""
    found = (samples.one(word, "Fleet", f"edge-{at}", existing=existing) for at, word in enumerate(words))
    return samples.plan(samples.entry(*found))


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (samples.plan(), "Plan for 3f2a1c9: no changes"),
        (samples.empty(), "Plan for 3f2a1c9: no changes, 412 unchanged"),
        (of("created", "created", "configured", "deleted", "invalid"), "Plan for 3f2a1c9: +2 ~1 -1, 1 invalid"),
        (of("in-use"), "Plan for 3f2a1c9: 1 in-use"),
        (of("invalid", existing=True), "Plan for 3f2a1c9: no changes, 1 already in trouble"),
        (samples.held(), "Plan for 3f2a1c9: -13, 13 held, 7 unchanged, 1 already in trouble"),
        (samples.rendered(), "Plan for 3f2a1c9: ~1, 2 unfit for collectors"),
        (samples.plan(samples.entry(held=1), of("created").entries[0]), "Plan for 3f2a1c9: +1, 1 held"),
        (samples.large(5_000, 0), "Plan for 3f2a1c9: +1,250 ~2,500 -1,250, 5,000 unchanged"),
    ],
)
def test_first_line_is_the_verdict(plan: Plan, line: str) -> None:
    assert review_plan.first_line(plan) == line


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (samples.plan(), "No changes."),
        (samples.empty(), "No changes. 412 unchanged, 9,990 files not read."),
        (samples.plan(samples.entry(untouched_files=1)), "No changes. 1 file not read."),
        (of("created", "invalid", "configured"), "Plan: 1 to create, 1 to change, 1 invalid"),
        (samples.held(), "Plan: 13 to delete, 13 held; 7 unchanged, 1 already in trouble"),
        (samples.rendered(), "Plan: 1 to change, 2 unfit for collectors"),
        (samples.trouble(), "Plan: 1 to create, 1 unresolved; 7 unchanged, 2 already in trouble"),
    ],
)
def test_last_line_counts(plan: Plan, line: str) -> None:
    assert review_plan.last_line(review_plan.tally_plan(plan.entries)) == line


@pytest.mark.parametrize("word", [status for status in UpdateStatus if status is not UpdateStatus.UNCHANGED])
def test_each_status_trips_on_its_word_and_never_when_it_was_so_before(word: str) -> None:
    assert review_plan.tripped(of(word), review_plan.FAIL_ON)[0] == word
    assert review_plan.tripped(of(word), [word]) == (word,)
    assert review_plan.tripped(of(word, existing=True), review_plan.FAIL_ON) == ()
    assert review_plan.tripped(of("unchanged"), review_plan.FAIL_ON) == ()


def test_unresolved_and_changes_are_words_too() -> None:
    lost = samples.one("configured", "Fleet", "edge", unresolved=LOST)
    plan = samples.plan(samples.entry(lost))
    assert review_plan.tripped(plan, ["changes", "unresolved", "deleted"]) == ("unresolved", "changes")


def test_what_is_held_is_a_deletion_with_a_word_of_its_own() -> None:
    assert review_plan.tripped(samples.held(), review_plan.FAIL_ON) == ("deleted", "held", "changes")
    unlisted = samples.plan(samples.entry(held=1))  # as an older server tells it
    assert review_plan.tripped(unlisted, review_plan.FAIL_ON) == ("deleted", "held", "changes")
    assert review_plan.tripped(of("deleted"), ["held"]) == ()


@pytest.mark.parametrize(
    ("plan", "detailed", "fail_on", "code"),
    [
        (samples.empty(), False, [], 0),
        (samples.empty(), True, ["changes"], 0),
        (of("created"), False, [], 0),
        (of("created"), True, [], 2),
        (of("created"), True, ["deleted"], 2),
        (of("deleted"), True, ["deleted"], 3),
        (of("invalid"), True, [], 2),
        (samples.held(), True, [], 2),
        (samples.held(), False, ["deleted"], 3),
        (samples.held(), False, ["held"], 3),
        (samples.rendered(), False, ["invalid"], 3),
        (samples.rendered(), False, ["deleted"], 0),
        (samples.plan(samples.entry(renderings=samples.rendered().entries[0].renderings[4:5])), True, ["invalid"], 0),
        (of("not-found"), True, [], 0),
        (of("invalid", existing=True), True, ["invalid"], 0),
    ],
)
def test_exit_code(plan: Plan, detailed: bool, fail_on: list[str], code: int) -> None:
    assert review_plan.exit_code(plan, detailed=detailed, fail_on=fail_on) == code


@given(PLANS, st.lists(st.sampled_from(review_plan.FAIL_ON)))
def test_what_trips_is_wanted_and_in_one_order(plan: Plan, wanted: list[str]) -> None:
    found = review_plan.tripped(plan, wanted)
    assert set(found) <= set(wanted)
    assert list(found) == sorted(set(found), key=review_plan.FAIL_ON.index)
    assert len(review_plan.first_line(plan).encode()) < 500
