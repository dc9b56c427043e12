"""Text for people: escaping, and tables that line up."""

import json

from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import output, tables

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_nothing_printable_acts_on_a_terminal(text: str) -> None:
    shown = output.printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


def test_control_characters_show_as_escapes() -> None:
    assert output.printable("a\x1b[31m\n\x9b\u202eé\udcff") == "a\\x1b[31m\\n\\x9b\\u202eé\\udcff"


@given(VALUES)
def test_json_is_the_value_and_safe(value: object) -> None:
    text = output.as_json(value)  # type: ignore[arg-type]
    assert json.loads(text) == value
    assert all(character.isprintable() or character == "\n" for character in text)


def test_columns_line_up_whatever_is_in_them() -> None:
    rows = [["a", "x", ""], ["日本", "longer", "é"], ["\x1b", "", "e\u0301"]]
    assert tables.render(["NAME", "STATE", "MORE"], rows, colour=False) == (
        "NAME   STATE    MORE\na      x        -\n日本   longer   é\n\\x1b   -        e\u0301\n"
    )


def test_colour_changes_no_column() -> None:
    header, rows = ["STATE", "NAME"], [["ready", "a"], ["invalid", "b"], ["odd", "ready"]]
    coloured = tables.render(header, rows, colour=True)
    assert coloured.count(tables.RESET) == 2
    for code in (tables.GOOD, tables.BAD, tables.RESET):
        coloured = coloured.replace(code, "")
    assert coloured == tables.render(header, rows, colour=False)
