"""Cutting: the beginning of a value's JSON, which is sound as far as it goes."""

import json

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
        ("\n\n", 2, CutText(begins='"', bytes=6)),
        ("\n\n", 3, CutText(begins='"\\n', bytes=6)),
        ("\x1b\x1b", 5, CutText(begins='"', bytes=14)),
        ("\x1b\x1b", 7, CutText(begins='"\\u001b', bytes=14)),
        ("\\u00", 4, CutText(begins='"\\\\u', bytes=7)),
        ("\\\\\\", 4, CutText(begins='"\\\\', bytes=8)),
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
    assert most - 6 < len(found.begins.encode()) <= most
    assert found.bytes == len(encoded) > most
    if isinstance(value, str) and found.begins:
        assert value.startswith(json.loads(found.begins + '"'))


def test_a_value_of_ten_megabytes_is_cut() -> None:
    found = diffs.cut_value("\\" * 10_000_000, most=1000)

    assert found == CutText(begins='"' + "\\" * 998, bytes=20_000_002)
