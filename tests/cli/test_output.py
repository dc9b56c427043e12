"""Text for people: sentences, escaping, and tables that line up."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import output, tables
from reconciler.model.errors import Refused
from tests import hostile_text

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_the_value_and_safe(value: object) -> None:
    text = output.as_json(value)  # type: ignore[arg-type]
    assert json.loads(text) == value
    assert hostile_text.unseen(text) == []


def test_yaml_is_the_value_and_says_what_it_cannot_hold() -> None:
    assert yaml.safe_load(output.as_yaml([{hostile_text.EVERYTHING: hostile_text.EVERYTHING}])) == {
        hostile_text.EVERYTHING: hostile_text.EVERYTHING
    }
    with pytest.raises(Refused, match="use -o json"):
        output.as_yaml(["\udc9b"])
    assert json.loads(output.as_json("\udc9b")) == "\udc9b"


def test_what_is_written_acts_on_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output.write(f"a {hostile_text.CLEAR}\nb {hostile_text.TURNED}\n")
    output.line(f"a {hostile_text.CLEAR}\nb")
    output.note("c\r\nerror: forged")
    output.notes("Usage: \x9b31m\nmore")
    output.error(f"Cannot {hostile_text.TITLE}.")
    written = capsys.readouterr()
    assert written.out == "a \\x1b[2J\nb \\u202e\na \\x1b[2J\\nb\n"
    assert written.err == "c\\r\\nerror: forged\nUsage: \\x9b31m\nmore\nerror: cannot \\x1b]0;evil\\x07\n"


def test_columns_line_up_whatever_is_in_them() -> None:
    rows = [["a", "x", ""], ["日本", "longer", "é"], ["\x1b", "", "e\u0301"], ["क\u094d\u200dष", "❤\ufe0f", "x"]]
    assert tables.aligned(["NAME", "STATE", "MORE"], rows) == (
        "NAME   STATE    MORE\na      x        -\n日本   longer   é\n\\x1b   -        e\u0301\n"
        "क\u094d\u200dष      ❤\ufe0f       x\n"
    )


def test_a_cell_is_one_line() -> None:
    table = tables.aligned(["NAME", "STATE"], [["a\nb   ready", hostile_text.EVERYTHING]])
    assert table.count("\n") == 2
    assert hostile_text.unseen(table) == []


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("There is no Fleet x.", "there is no Fleet x"),
        ("A new resource is not valid.", "a new resource is not valid"),
        ("Fleet x is in use.", "Fleet x is in use"),
        ("Git is not installed.", "Git is not installed"),
        ("SERVICE_API_KEY is not set", "SERVICE_API_KEY is not set"),
        ("TLS is off.", "TLS is off"),
        ("http://a gave no answer", "http://a gave no answer"),
        ("wait...", "wait..."),
        ("a name must not be `..`", "a name must not be `..`"),
        ("", ""),
    ],
)
def test_an_error_begins_small_and_has_no_full_stop(message: str, shown: str) -> None:
    assert output.error_sentence(message) == shown


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-11-21T06:12:00.123Z", "2026-11-21T06:12:00Z"),
        ("2026-11-21T06:12:00Z", "2026-11-21T06:12:00Z"),
        ("", ""),
    ],
)
def test_a_moment_is_shown_to_the_second(moment: str, shown: str) -> None:
    assert output.moment_text(moment) == shown
