"""YAML that is written means the same to every reader."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import documents as model_documents
from reconciler.model import positions, yaml_documents
from reconciler.model.values import Value
from tests import hostile_text

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
MISREAD = st.sampled_from(
    ["no", "On", "1e3", "0o17", "0x1F", "1_000", "1:30", "2026-01-01", "~", "", "<<", "=", ".inf", "+1"]
)
# Lines that would mean something to a reader if they stood at the margin.
LINES = st.lists(st.sampled_from(["...", "---", "# ", "#", "", " ", "a: b", "- a", "text"])).map("\n".join)
MARKED = st.builds("{}{}".format, LINES, st.sampled_from(["", "\n", "\n\n", "\n...", "\n...\n", "\n---\n", "\n# \n"]))
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT | MISREAD | MARKED
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | MISREAD | MARKED, inner),
    max_leaves=20,
)


def read(text: str) -> list[Value]:
    documents = model_documents.read(text.encode(), syntax=model_documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    return [document.value for document in documents]


@given(VALUES.filter(lambda value: value is not None))
def test_a_value_is_read_as_it_was_written(value: Value) -> None:
    text = yaml_documents.to_yaml([value])
    assert read(text) == [value]
    assert yaml.safe_load(text) == value  # YAML 1.1 agrees
    assert hostile_text.unseen(text) == []


@given(st.lists(MARKED | st.fixed_dictionaries({"raw": MARKED}), min_size=2, max_size=4))
def test_a_stream_is_read_as_it_was_written(values: list[Value]) -> None:
    text = yaml_documents.to_yaml(values)
    assert read(text) == values
    assert list(yaml.safe_load_all(text)) == values


def test_documents_are_a_stream_in_their_order() -> None:
    assert yaml_documents.to_yaml([{"b": 1, "a": [1, {"c": "x"}]}, {"a": 2}]) == ("b: 1\na:\n- 1\n- c: x\n---\na: 2\n")
    assert yaml_documents.to_yaml([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("no", "'no'\n"),
        ("1e3", "'1e3'\n"),
        ("0o17", "'0o17'\n"),
        ("plain text", "plain text\n"),
        ("\x1b[31m", '"\\e[31m"\n'),
        ("\u202e", '"\\u202E"\n'),
        ("\U000e0041", '"\\U000E0041"\n'),
        ("می\u200cخواهم", "می\u200cخواهم\n"),  # noqa: RUF001 - Persian is meant
        ("क\n\u200d", '"क\\n\\u200D"\n'),  # the line's end is no letter to join to
        ({"raw": "one:\n  two: 3\n"}, "raw: |\n  one:\n    two: 3\n"),
        ({"raw": "a: b\n...\n"}, "raw: |\n  a: b\n  ...\n"),
        ({"raw": "...\n\n"}, "raw: |+\n  ...\n\n"),
        ({"raw": "a...\n"}, "raw: |\n  a...\n"),
        ("a...", "a...\n"),
        ("...", "'...'\n"),
    ],
)
def test_only_what_would_be_misread_is_quoted(value: Value, text: str) -> None:
    assert yaml_documents.to_yaml([value]) == text


def test_long_lines_are_not_folded() -> None:
    assert yaml_documents.to_yaml([{"a": "word " * 100 + "end"}]).count("\n") == 1


def test_equal_parts_are_written_out() -> None:
    part: Value = {"a": 1}
    assert "&" not in yaml_documents.to_yaml([{"one": part, "two": part}])
