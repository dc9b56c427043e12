"""The view that people get of text from outside."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.text import visible, visible_block, visible_json, visible_lines
from tests import hostile_text

ODD = "\x1b\x07\r\n\x85\x9b\xad\u200b\u200c\u200d\u202e\u2028\ufe0f\ufe0e\u20e3\ufeff\U000e0041\U000e0100\udc9b\uffff"
TEXT = st.text(st.sampled_from(ODD + "a1é日क❤") | st.characters(exclude_categories=()))
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|([nrt]))")
LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def read_back(shown: str) -> str:
    """Return what a reader makes of the escapes."""
    return ESCAPE.sub(lambda found: LETTERS.get(found[4]) or chr(int(found[1] or found[2] or found[3], 16)), shown)


@given(TEXT)
def test_nothing_unseen_is_left(text: str) -> None:
    assert hostile_text.unseen(visible(text)) == []
    assert "\n" not in visible(text)
    assert hostile_text.unseen(visible_lines(text)) == []


@given(TEXT)
def test_a_second_time_changes_nothing(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible_lines(visible_lines(text)) == visible_lines(text)


@given(TEXT.filter(lambda text: "\\" not in text))
def test_a_reader_knows_what_was_there(text: str) -> None:
    assert read_back(visible(text)) == text
    assert read_back(visible_lines(text)) == text


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Mc", "Zs"])))
def test_text_that_shows_as_itself_stays(text: str) -> None:
    fillers = "\u115f\u1160\u3164\uffa0"  # letters without a shape
    kept = "".join(character for character in text if character not in fillers)
    assert visible(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "C:\\teams\\^[a-z]+\\.yaml$",
        "Größe : 5 €",
        "価格\u3000葛\U000e0100城",
        "می\u200cخواهم",  # noqa: RUF001 - Persian is meant
        "क\u094d\u200dष",
        "ᠠ\u180b",
        "👩\u200d💻 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 ©\ufe0f",
        "cafe\u0301",
    ],
)
def test_ordinary_text_of_every_language_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31m\t\r\n\x7f\x9b\u202eé", r"a\x1b[31m\t\r\n\x7f\x9b\u202eé"),
        ("\u2028\u2029\x85\u061c\u200e\u200f\u2066\u2069", r"\u2028\u2029\x85\u061c\u200e\u200f\u2066\u2069"),
        ("\u200b\u2060\u2064\ufeff\u180e\xad\ufff9\u3164", r"\u200b\u2060\u2064\ufeff\u180e\xad\ufff9\u3164"),
        ("\U000e0041\U000e007f\udc80\ud800\uffff\U0001fffe", r"\U000e0041\U000e007f\udc80\ud800\uffff\U0001fffe"),
        ("ad\u200dmin ad\u200cmin", r"ad\u200dmin ad\u200cmin"),  # would pass for another name
        ("a\ufe0f 1\ufe0f2", r"a\ufe0f 1\ufe0f2"),
        ("❤\ufe0f\ufe0e\ufe01\U000e0100", "❤\ufe0f" + r"\ufe0e\ufe01\U000e0100"),  # bytes can hide in a row of them
        ("é\u200d\u200d\u200c", "é\u200d" + r"\u200d\u200c"),
        ("\u200d\ufe0f", r"\u200d\ufe0f"),
        ("\udc1b\ufe0f", r"\udc1b\ufe0f"),
        (r"\x1b", r"\x1b"),
    ],
)
def test_the_rest_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_character_without_a_shape_is_escaped_where_it_stands_alone() -> None:
    shown = [character for character in shapeless() if visible(character) == character]
    assert shown == []


def shapeless() -> Iterator[str]:
    """The controls and separators of Unicode, and what it says to draw nothing for (Default_Ignorable_Code_Point)."""
    yield from (chr(code) for code in range(0x110000) if hostile_text.unseen(chr(code)) and chr(code) != "\n")
    yield from "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u200c\u200d\u3164\uffa0"
    ranges = ((0x2060, 0x206F), (0xFE00, 0xFE0F), (0xFFF0, 0xFFFB), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF))
    yield from (chr(code) for first, last in ranges for code in range(first, last + 1))


def test_lines_stay_where_they_are_wanted() -> None:
    assert visible_lines("a\nb\r\n\u2028c") == "a\nb\\r\n\\u2028c"
    assert visible_block("Traceback\n06:12:00 forged\x1b") == "  Traceback\n  06:12:00 forged\\x1b"


@given(st.recursive(TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8))
def test_json_stays_the_same_document(value: object) -> None:
    document = visible_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(document) == value
    assert hostile_text.unseen(document) == []
    assert "\n" not in document
