"""Lines of a merged file that are in the head's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.merging import matching_lines

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\0\n", b"\n"]), max_size=20)
MANY = 20_000


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ("", "", {}),
        ("abc", "abc", {1: 1, 2: 2, 3: 3}),
        ("xabc", "abc", {2: 1, 3: 2, 4: 3}),
        ("abxc", "abc", {1: 1, 2: 2, 4: 3}),
        ("abc", "abxc", {1: 1, 2: 2, 3: 4}),
        ("abcd", "dabc", {1: 2, 2: 3, 3: 4}),
        ("abc", "xyz", {}),
    ],
)
def test_lines_are_found_again(ours: str, theirs: str, found: dict[int, int]) -> None:
    assert matching_lines(_lines(ours), _lines(theirs)) == found


def _lines(text: str) -> bytes:
    return "".join(f"{letter}\n" for letter in text).encode()


@given(LINES, LINES)
def test_what_is_matched_is_equal_and_in_order(ours: list[bytes], theirs: list[bytes]) -> None:
    found = matching_lines(b"".join(ours), b"".join(theirs))
    assert all(ours[one - 1] == theirs[other - 1] for one, other in found.items())
    assert [found[one] for one in sorted(found)] == sorted(set(found.values()))


def _alternating(period: int) -> bytes:
    return b"".join(b"once %d\n" % number if number % 2 else b"%d\n" % (number % period) for number in range(MANY))


def test_hostile_lines_take_little_time() -> None:
    assert len(matching_lines(_alternating(101), _alternating(99))) >= MANY // 2
    assert len(matching_lines(b"x\n" * MANY, b"x\n" * (MANY - 1))) == MANY - 1
