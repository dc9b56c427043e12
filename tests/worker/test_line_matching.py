"""Which line of a merged file is which of the head's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.worker.review_fields import matching_lines

LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f"]), max_size=20)
MANY = 20_000


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("", "", {}),
        ("abc", "abc", {0: 0, 1: 1, 2: 2}),
        ("xabc", "abc", {1: 0, 2: 1, 3: 2}),
        ("abxc", "abc", {0: 0, 1: 1, 3: 2}),
        ("aabbxaabb", "aabbaabb", {0: 0, 1: 1, 2: 2, 3: 3, 5: 4, 6: 5, 7: 6, 8: 7}),
        ("abcd", "dabc", {0: 1, 1: 2, 2: 3}),
        ("abc", "xyz", {}),
    ],
)
def test_lines_are_found_again(ours: str, theirs: str, found: dict[int, int]) -> None:
    assert matching_lines(_split(ours), _split(theirs)) == found


def _split(text: str) -> list[bytes]:
    return [letter.encode() for letter in text]


@given(LINES, LINES)
def test_what_is_matched_is_equal_and_in_order(ours: list[bytes], theirs: list[bytes]) -> None:
    found = matching_lines(ours, theirs)
    assert all(ours[one] == theirs[other] for one, other in found.items())
    assert [found[one] for one in sorted(found)] == sorted(set(found.values()))


@given(LINES, LINES, LINES)
def test_what_stands_at_both_ends_is_found(before: list[bytes], between: list[bytes], after: list[bytes]) -> None:
    marked = [b"%d" % number for number in range(len(before))]
    found = matching_lines([*marked, *between, *after], [*marked, *after])
    assert [found[one] for one in range(len(marked))] == list(range(len(marked)))


def _alternating(period: int) -> list[bytes]:
    return [b"once %d" % number if number % 2 else b"%d" % (number % period) for number in range(MANY)]


def test_hostile_lines_take_no_time() -> None:
    ours, theirs = _alternating(101), _alternating(99)
    assert len(matching_lines(ours, theirs)) >= MANY // 2
    assert len(matching_lines([b"x"] * MANY, [b"x"] * (MANY - 1))) == MANY - 1
    assert len(matching_lines(ours, ours[::-1])) >= 1
