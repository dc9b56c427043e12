"""The ten statuses, and how they are counted."""

from reconciler.model import outcomes
from reconciler.model.outcomes import UpdateStatus


def test_the_statuses_are_the_documented_ones() -> None:
    assert {status.value for status in UpdateStatus} == {
        "unchanged",
        "configured",
        "created",
        "deleted",
        "not-found",
        "invalid",
        "error",
        "in-use",
        "forbidden",
        "deprecated",
    }


def test_only_a_refused_status_has_a_reason() -> None:
    assert outcomes.WITH_REASON <= outcomes.REFUSED


def test_counts_are_in_one_order_and_hold_what_occurs() -> None:
    counts = outcomes.count_statuses(
        [UpdateStatus.INVALID, UpdateStatus.CREATED, UpdateStatus.INVALID, UpdateStatus.UNCHANGED]
    )
    assert list(counts.items()) == [("unchanged", 1), ("created", 1), ("invalid", 2)]
    assert outcomes.count_statuses([]) == {}


def test_counts_by_kind_are_the_counts_when_they_are_summed() -> None:
    found = [
        ("Source", UpdateStatus.CREATED),
        (None, UpdateStatus.INVALID),
        ("Destination", UpdateStatus.INVALID),
        ("Source", UpdateStatus.CREATED),
        ("Source", UpdateStatus.UNCHANGED),
    ]
    kinds = outcomes.statuses_by_kind(found)
    assert list(kinds.items()) == [
        ("", {"invalid": 1}),
        ("Destination", {"invalid": 1}),
        ("Source", {"unchanged": 1, "created": 2}),
    ]
    assert outcomes.summed_statuses(kinds.values()) == outcomes.count_statuses(status for _, status in found)
    assert (outcomes.statuses_by_kind([]), outcomes.summed_statuses([])) == ({}, {})
