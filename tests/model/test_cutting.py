"""Cutting: the beginning of a value's JSON, which is sound as far as it goes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import diffs, values
from reconciler.model.diffs import CutValue
from reconciler.model.values import Value
from tests.model.documents import VALUES


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        ("abc", 5, "abc"),
        ("abcd", 5, CutValue('"abcd', 6)),
        ("aé", 3, CutValue('"a', 5)),
        ("a😀", 4, CutValue('"a', 7)),
        ("\n\n", 2, CutValue('"', 6)),
        ("\n\n", 3, CutValue('"\\n', 6)),
        ("\x1b\x1b", 5, CutValue('"', 14)),
        ("\x1b\x1b", 7, CutValue('"\\u001b', 14)),
        ("\\u00", 4, CutValue('"\\\\u', 7)),
        ("\\\\\\", 4, CutValue('"\\\\', 8)),
        ([1, 2], 0, CutValue("", 5)),
    ],
)
def test_a_value_is_cut_so(value: Value, most: int, expected: Value | CutValue) -> None:
    assert diffs.cut_value(value, most=most) == expected


@given(VALUES | st.text('\\"\n\x1bué😀0'), st.integers(0, 60))
def test_what_is_left_is_a_beginning_without_a_broken_character(value: Value, most: int) -> None:
    found = diffs.cut_value(value, most=most)
    encoded = values.canonical_json(value)
    if not isinstance(found, CutValue):
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

    assert found == CutValue('"' + "\\" * 998, 20_000_002)
