"""Cutting: the beginning of a value's JSON, which is sound as far as it goes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.documents.values import Value
from reconciler.resources import canonical, cutting
from reconciler.resources.cutting import Cut
from tests.resources.documents import VALUES


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        ("abc", 5, "abc"),
        ("abcd", 5, Cut('"abcd', 6)),
        ("aé", 3, Cut('"a', 5)),
        ("a😀", 4, Cut('"a', 7)),
        ("\n\n", 2, Cut('"', 6)),
        ("\n\n", 3, Cut('"\\n', 6)),
        ("\x1b\x1b", 5, Cut('"', 14)),
        ("\x1b\x1b", 7, Cut('"\\u001b', 14)),
        ("\\u00", 4, Cut('"\\\\u', 7)),
        ("\\\\\\", 4, Cut('"\\\\', 8)),
        ([1, 2], 0, Cut("", 5)),
    ],
)
def test_a_value_is_cut_so(value: Value, most: int, expected: Value | Cut) -> None:
    assert cutting.cut(value, most=most) == expected


@given(VALUES | st.text('\\"\n\x1bué😀0'), st.integers(0, 60))
def test_what_is_left_is_a_beginning_without_a_broken_character(value: Value, most: int) -> None:
    found = cutting.cut(value, most=most)
    encoded = canonical.encode(value)
    if not isinstance(found, Cut):
        assert found is value
        assert len(encoded) <= most
        return
    assert encoded.startswith(found.begins.encode())
    assert most - 6 < len(found.begins.encode()) <= most
    assert found.bytes == len(encoded) > most
    if isinstance(value, str) and found.begins:
        assert value.startswith(json.loads(found.begins + '"'))


def test_a_value_of_ten_megabytes_is_cut() -> None:
    found = cutting.cut("\\" * 10_000_000, most=1000)

    assert found == Cut('"' + "\\" * 998, 20_000_002)
