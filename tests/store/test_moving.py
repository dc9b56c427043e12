"""What is remembered of the last commits: as much as is bounded, and what is forgotten counts as everything."""

import itertools

import pytest

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.store import conflict_detection
from reconciler.store.conflict_detection import RecentCommits


def touching(number: int) -> bytes:
    return outcomes.footprint_of("p", [Key("Destination", f"touched-{number}")])


ELSEWHERE = outcomes.footprint_of("p", [Key("Destination", "elsewhere")], whole=outcomes.OF_PLAN)
WHOLE = outcomes.footprint_of_all("p")


def noted(*revisions: int) -> RecentCommits:
    """Commits of which each found one revision and made the next; each touches what has its number."""
    recent = RecentCommits()
    for before, revision in itertools.pairwise(revisions):
        recent.note(touching(revision), whole=WHOLE, before=before, revision=revision)
    return recent


@pytest.mark.parametrize("footprint", [ELSEWHERE, touching(1), outcomes.EVERYTHING])
def test_a_plan_of_the_present_revision_holds_whatever_it_looked_at(footprint: bytes) -> None:
    assert RecentCommits().holds(footprint, planned_at=7, revision=7)


def test_a_plan_holds_until_a_commit_touches_what_it_looked_at() -> None:
    recent = noted(5, 6, 7, 8)
    assert recent.holds(ELSEWHERE, planned_at=5, revision=8)
    assert [recent.holds(touching(7), planned_at=at, revision=8) for at in (5, 6, 7, 8)] == [False, False, True, True]


def test_a_plan_that_may_have_looked_at_anything_holds_for_its_revision_alone() -> None:
    assert not noted(5, 6).holds(outcomes.EVERYTHING, planned_at=5, revision=6)


def test_a_commit_that_may_have_touched_anything_makes_every_plan_void() -> None:
    recent = noted(5, 6)
    recent.note(outcomes.EVERYTHING, whole=outcomes.EVERYTHING, before=6, revision=7)
    assert not recent.holds(ELSEWHERE, planned_at=5, revision=7)
    assert not recent.holds(ELSEWHERE, planned_at=6, revision=7)


def test_a_revision_that_nobody_noted_makes_every_plan_void() -> None:
    """Another process made it."""
    recent = noted(5, 6)
    recent.note(touching(8), whole=WHOLE, before=7, revision=8)
    assert not recent.holds(ELSEWHERE, planned_at=5, revision=8)
    assert not recent.holds(ELSEWHERE, planned_at=6, revision=8)
    assert recent.holds(ELSEWHERE, planned_at=7, revision=8)


def test_a_revision_may_be_far_above_the_one_before() -> None:
    """As that of a change which was written ahead is."""
    recent = noted(5, 6, 1_000_000, 1_000_001)
    assert recent.holds(ELSEWHERE, planned_at=5, revision=1_000_001)
    assert not recent.holds(touching(6), planned_at=5, revision=1_000_001)
    assert not recent.holds(ELSEWHERE, planned_at=7, revision=1_000_001)  # there never was such a revision


def test_a_plan_of_a_revision_to_come_is_void() -> None:
    """The file was replaced by an older one."""
    assert not noted(5, 6).holds(ELSEWHERE, planned_at=7, revision=6)


def test_only_the_last_commits_are_remembered() -> None:
    last = conflict_detection.MOST_COMMITS + 1
    recent = noted(*range(last + 1))
    assert recent.holds(ELSEWHERE, planned_at=1, revision=last)
    assert not recent.holds(ELSEWHERE, planned_at=0, revision=last)


def test_of_what_there_is_no_room_for_the_project_is_remembered() -> None:
    large = touching(1) * conflict_detection.MOST_KEYS
    most = conflict_detection.MOST_BYTES // len(large)
    recent = RecentCommits()
    for revision in range(1, most + 2):
        recent.note(large, whole=WHOLE, before=revision - 1, revision=revision)
    last = most + 1
    elsewhere = outcomes.footprint_of("q", [Key("Destination", "one")], whole=outcomes.OF_PLAN)
    assert [recent.holds(ELSEWHERE, planned_at=at, revision=last) for at in (0, 1)] == [False, True]
    assert [recent.holds(elsewhere, planned_at=at, revision=last) for at in (0, 1)] == [True, True]
    recent.note(large * (most + 1), whole=WHOLE, before=last, revision=last + 1)  # more than all together may have
    assert not recent.holds(ELSEWHERE, planned_at=last, revision=last + 1)
    assert recent.holds(elsewhere, planned_at=0, revision=last + 1)
    recent.note(touching(1), whole=WHOLE, before=last + 1, revision=last + 2)
    assert recent.holds(ELSEWHERE, planned_at=last + 1, revision=last + 2)


def test_what_there_is_no_room_for_and_is_of_who_knows_which_project_makes_every_plan_void() -> None:
    recent = RecentCommits()
    recent.note(outcomes.EVERYTHING, whole=outcomes.EVERYTHING, before=0, revision=1)
    recent.note(touching(1) * conflict_detection.MOST_BYTES, whole=WHOLE, before=1, revision=2)
    elsewhere = outcomes.footprint_of("q", [Key("Destination", "one")], whole=outcomes.OF_PLAN)
    assert [recent.holds(elsewhere, planned_at=at, revision=2) for at in (0, 1)] == [False, True]
