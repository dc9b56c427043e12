"""What is remembered of the last commits: as much as is bounded, and what is forgotten counts as everything."""

import itertools

import pytest

from reconciler.planning import footprints
from reconciler.resources.keys import Key
from reconciler.store import moving
from reconciler.store.moving import Recent


def touching(number: int) -> bytes:
    return footprints.of("p", [Key("Destination", f"touched-{number}")])


ELSEWHERE = footprints.of("p", [Key("Destination", "elsewhere")])


def noted(*revisions: int) -> Recent:
    """Commits of which each found one revision and made the next; each touches what has its number."""
    recent = Recent()
    for before, revision in itertools.pairwise(revisions):
        recent.note(touching(revision), before=before, revision=revision)
    return recent


@pytest.mark.parametrize("footprint", [ELSEWHERE, touching(1), footprints.EVERYTHING])
def test_a_plan_of_the_present_revision_holds_whatever_it_looked_at(footprint: bytes) -> None:
    assert Recent().holds(footprint, planned_at=7, revision=7)


def test_a_plan_holds_until_a_commit_touches_what_it_looked_at() -> None:
    recent = noted(5, 6, 7, 8)
    assert recent.holds(ELSEWHERE, planned_at=5, revision=8)
    assert [recent.holds(touching(7), planned_at=at, revision=8) for at in (5, 6, 7, 8)] == [False, False, True, True]


def test_a_plan_that_may_have_looked_at_anything_holds_for_its_revision_alone() -> None:
    assert not noted(5, 6).holds(footprints.EVERYTHING, planned_at=5, revision=6)


def test_a_commit_that_may_have_touched_anything_makes_every_plan_void() -> None:
    recent = noted(5, 6)
    recent.note(footprints.EVERYTHING, before=6, revision=7)
    assert not recent.holds(ELSEWHERE, planned_at=5, revision=7)
    assert not recent.holds(ELSEWHERE, planned_at=6, revision=7)


def test_a_revision_that_nobody_noted_makes_every_plan_void() -> None:
    """Another process made it."""
    recent = noted(5, 6)
    recent.note(touching(8), before=7, revision=8)
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
    last = moving.MOST_COMMITS + 1
    recent = noted(*range(last + 1))
    assert recent.holds(ELSEWHERE, planned_at=1, revision=last)
    assert not recent.holds(ELSEWHERE, planned_at=0, revision=last)


def test_only_so_many_bytes_are_remembered() -> None:
    large = footprints.of("p", [Key("Destination", str(number)) for number in range(moving.MOST_KEYS)])
    most = moving.MOST_BYTES // len(large)
    recent = Recent()
    for revision in range(1, most + 2):
        recent.note(large, before=revision - 1, revision=revision)
    assert recent.holds(ELSEWHERE, planned_at=1, revision=most + 1)
    assert not recent.holds(ELSEWHERE, planned_at=0, revision=most + 1)
    recent.note(large * (most + 1), before=most + 1, revision=most + 2)  # more than all together may have
    assert not recent.holds(ELSEWHERE, planned_at=most + 1, revision=most + 2)
    recent.note(touching(1), before=most + 2, revision=most + 3)
    assert recent.holds(ELSEWHERE, planned_at=most + 2, revision=most + 3)
