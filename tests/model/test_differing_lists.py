"""Lists side by side: a longest common subsequence, and what is gone where it stood."""

from functools import cache
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import diffs
from reconciler.model.diffs import ABSENT

LISTS = st.lists(st.sampled_from("abcd"), max_size=12)


def longest(old: list[str], new: list[str]) -> int:
    """How long a common subsequence can be, by its definition."""

    @cache
    def length(one: int, other: int) -> int:
        if one == len(old) or other == len(new):
            return 0
        if old[one] == new[other]:
            return 1 + length(one + 1, other + 1)
        return max(length(one + 1, other), length(one, other + 1))

    return length(0, 0)


@given(LISTS, LISTS)
def test_no_common_subsequence_is_longer(old: list[str], new: list[str]) -> None:
    found = diffs.common_order(old, new)

    assert all(old[one] == new[other] for one, other in found)
    assert all(one[0] < next_one[0] and one[1] < next_one[1] for one, next_one in pairwise(found))
    assert len(found) == longest(old, new)


def test_where_too_much_repeats_it_is_a_common_subsequence_all_the_same() -> None:
    old, new = [*"ab" * 500], [*"ba" * 500, "b"]
    found = diffs.common_order(old, new)

    assert found
    assert all(old[one] == new[other] for one, other in found)
    assert all(one[0] < next_one[0] and one[1] < next_one[1] for one, next_one in pairwise(found))


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 6))
def test_merged_keeps_the_new_order_and_what_is_gone_behind_what_stood_before_it(
    here: list[int], there: list[int], kept: int
) -> None:
    pairs = dict(zip(here[:kept], there[:kept], strict=True))
    found = list(diffs.merged_order(6, 6, pairs))

    assert [other for _, other in found if other != ABSENT] == list(range(6))
    assert sorted(one for one, _ in found if one != ABSENT) == list(range(6))
    assert {one: other for one, other in found if ABSENT not in (one, other)} == pairs
    order = [one for one, _ in found]
    for gone in set(range(6)) - set(pairs):
        before = order[order.index(gone) - 1] if order.index(gone) else None
        assert before == (gone - 1 if gone else None)
