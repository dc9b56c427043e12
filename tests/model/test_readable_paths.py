"""Readable paths: no two places are written alike, and nothing in one acts on a terminal."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import diffs
from reconciler.model.diffs import LONGEST_PART
from reconciler.model.masking import identity_of
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value
from tests.model.documents import pointers

NASTY = st.one_of(
    st.text(st.sampled_from('ab01.[]"\\ \n\u202e/~…'), max_size=4),
    st.sampled_from(["a" * LONGEST_PART, "a" * (LONGEST_PART + 1), "a" * (LONGEST_PART + 2), "1" * 101]),
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(NASTY, inner, max_size=4),
        st.lists(st.builds(lambda name, v: {"name": name, "v": v}, NASTY, inner), max_size=4),
    ),
    max_leaves=20,
)


def readable(pointer: Pointer, document: Value) -> str:
    """The path of a place, as whoever walks through a document writes it. It may lead to something that is missing."""
    value, path = document, ""
    for step in pointer:
        if isinstance(step, str):
            path = diffs.path_below(path, step)
            value = value.get(step) if isinstance(value, dict) else None
        elif isinstance(value, list) and step < len(value):
            found = [identity_of(entry) for entry in value]
            path += diffs.path_labels([None if one is None else one[1] for one in found])[step]
            value = value[step]
        else:
            path, value = f"{path}[{step}]", None
    return path


@pytest.mark.parametrize(
    ("document", "pointer", "expected"),
    [
        ({}, (), ""),
        ({"spec": {"a": 1}}, ("spec", "a"), "spec.a"),
        ({"": {"": 1}}, ("", ""), '""' + "." + '""'),
        ({"metadata": {"labels": {"a.b/c": 1}}}, ("metadata", "labels", "a.b/c"), 'metadata.labels."a.b/c"'),
        ({"service/prune": 1}, ("service/prune",), "service/prune"),
        ({"p": [{"name": "endpoint", "value": 1}]}, ("p", 0, "value"), "p[endpoint].value"),
        ({"p": [{"name": "a b"}]}, ("p", 0), 'p["a b"]'),
        ({"p": [{"name": "7"}]}, ("p", 0), 'p["7"]'),
        ({"p": [{"name": "a"}, {"id": "a"}, {"name": "b"}]}, ("p", 1, "id"), "p[1].id"),
        ({"p": [1, 2]}, ("p", 1), "p[1]"),
        ({"p": [1, 2]}, ("p", 5, "a"), "p[5].a"),
        ({}, ("spec", "p", 0, "value"), "spec.p[0].value"),
        ({"a\n\x1b": 1}, ("a\n\x1b",), '"a\\n\\u001b"'),
        ({"\u202e": 1}, ("\u202e",), '"\\u202e"'),
        ({"größe": 1}, ("größe",), "größe"),
        ({"a" * 101: 1}, ("a" * 101,), f'"{"a" * 100}…"~{hashlib.sha256(b"a" * 101).hexdigest()[:12]}'),
    ],
)
def test_a_place_is_written_so(document: Value, pointer: Pointer, expected: str) -> None:
    assert readable(pointer, document) == expected


@given(VALUES)
def test_no_two_places_are_written_alike(document: Any) -> None:
    places = pointers(document)
    written = [readable(place, document) for place in places]

    assert len(set(written)) == len(places)
    assert all(visible(path) == path for path in written)
