"""Cutting: the beginning of a value's JSON, up to the end of a character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import diffs, values
from reconciler.model.plan import CutText
from reconciler.model.values import Value
from tests.model.documents import VALUES


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        ("abc", 5, "abc"),
        ("abcd", 5, CutText(begins='"abcd', bytes=6)),
        ("aé", 3, CutText(begins='"a', bytes=5)),
        ("a😀", 4, CutText(begins='"a', bytes=7)),
        ("\n\n", 3, CutText(begins='"\\n', bytes=6)),
        ("\x1b\x1b", 7, CutText(begins='"\\u001b', bytes=14)),
        ([1, 2], 0, CutText(begins="", bytes=5)),
    ],
)
def test_a_value_is_cut_so(value: Value, most: int, expected: Value | CutText) -> None:
    assert diffs.cut_value(value, most=most) == expected


@given(VALUES | st.text('\\"\n\x1bué😀0'), st.integers(0, 60))
def test_what_is_left_is_a_beginning_without_a_broken_character(value: Value, most: int) -> None:
    found = diffs.cut_value(value, most=most)
    encoded = values.canonical_json(value)
    if not isinstance(found, CutText):
        assert found is value
        assert len(encoded) <= most
        return
    assert encoded.startswith(found.begins.encode())
    assert most - 4 < len(found.begins.encode()) <= most
    assert found.bytes == len(encoded) > most


def test_a_value_of_ten_megabytes_is_cut() -> None:
    found = diffs.cut_value("\\" * 10_000_000, most=1000)

    assert found == CutText(begins='"' + "\\" * 999, bytes=20_000_002)
