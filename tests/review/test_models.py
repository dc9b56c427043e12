"""The words of a plan are those of what finds the differences."""

from reconciler.model import plan
from reconciler.model.components import MASK
from tests.review import samples


def test_secrets_are_masked_with_the_same_words() -> None:
    assert plan.SENSITIVE == MASK


def test_what_is_there_twice_is_in_the_order_of_lines() -> None:
    twice = [samples.one("invalid", "Fleet", "edge", line=line) for line in (10, 9)]
    assert [one.at.line for one in plan.in_order(twice) if one.at] == [9, 10]
