"""The words of a plan are those of what finds the differences."""

from reconciler.plans import models
from reconciler.resources import differing
from reconciler.resources.parameters import MASK
from tests.plans import samples


def test_differences_have_one_set_of_words() -> None:
    assert [one.value for one in models.Difference] == [one.value for one in differing.Difference]


def test_secrets_are_masked_with_the_same_words() -> None:
    assert models.SENSITIVE == MASK
    assert models.SENSITIVE_CHANGED == differing.MASK_CHANGED


def test_what_is_there_twice_is_in_the_order_of_lines() -> None:
    twice = [samples.one("invalid", "Fleet", "edge", line=line) for line in (10, 9)]
    assert [one.at.line for one in models.in_order(twice) if one.at] == [9, 10]
