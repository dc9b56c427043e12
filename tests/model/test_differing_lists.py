"""Lists side by side: what is gone comes where it stood."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import diffs
from reconciler.model.diffs import ABSENT


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
