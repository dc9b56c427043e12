"""Identifiers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import ids

MILLISECONDS = st.integers(0, (1 << 48) - 1)
RANDOMNESS = st.binary(min_size=10, max_size=10)


@pytest.mark.parametrize(
    ("milliseconds", "randomness", "expected"),
    [
        (0, bytes(10), "00000000000000000000000000"),
        ((1 << 48) - 1, b"\xff" * 10, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        (1469918176385, bytes(10), "01ARYZ6S410000000000000000"),  # the time of the example in the ULID specification
        (0, b"\x00\x44\x32\x14\xc7\x42\x54\xb6\x35\xcf", "0000000000" + "0123456789ABCDEF"),
        (1, bytes(9) + b"\x01", "00000000010000000000000001"),
    ],
)
def test_a_ulid_is_time_and_randomness_in_base_32(milliseconds: int, randomness: bytes, expected: str) -> None:
    assert ids.ulid(milliseconds=milliseconds, randomness=randomness) == expected


@given(MILLISECONDS, RANDOMNESS)
def test_a_ulid_tells_its_time(milliseconds: int, randomness: bytes) -> None:
    text = ids.ulid(milliseconds=milliseconds, randomness=randomness)
    assert (len(text), ids.milliseconds(text)) == (26, milliseconds)


@pytest.mark.parametrize("text", ["", "LATER", "0" * 25 + "U", "0" * 27])
def test_what_is_no_ulid_has_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="Encoded ULID"):
        ids.milliseconds(text)


@given(MILLISECONDS, RANDOMNESS, MILLISECONDS, RANDOMNESS)
def test_ulids_sort_by_the_time_they_were_made(one: int, first: bytes, other: int, second: bytes) -> None:
    texts = (ids.ulid(milliseconds=one, randomness=first), ids.ulid(milliseconds=other, randomness=second))
    assert (texts[0] < texts[1]) == ((one, first) < (other, second))


@pytest.mark.parametrize(
    ("milliseconds", "randomness"), [(-1, bytes(10)), (1 << 48, bytes(10)), (0, bytes(9)), (0, bytes(11)), (0, b"")]
)
def test_what_does_not_fit_is_refused(milliseconds: int, randomness: bytes) -> None:
    with pytest.raises(ValueError, match="48 bits of time and 10 bytes of randomness"):
        ids.ulid(milliseconds=milliseconds, randomness=randomness)
