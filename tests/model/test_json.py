"""JSON: what is read, and where each refusal points."""

import json

import pytest

from reconciler.model import documents
from reconciler.model.documents import Document, Syntax
from reconciler.model.positions import FILE_LIMITS, TextLimits
from reconciler.model.values import Value
from tests.model import reads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (" true ", True),
        ('"text"', "text"),
        ("-0", 0),
        ("-0.0", 0),
        ("1.0", 1),
        ("1e3", 1000),
        ("1.5E-1", 0.15),
        ("1e300", 1e300),
        ("1e-400", 0),
        ("9007199254740991.0", 2**53 - 1),
        ("9007199254740992.0", 2.0**53),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("{}", {}),
        ("[ ]", []),
        ('{"a": [1, {"b": "c"}, "[{,:"], "no": "on"}', {"a": [1, {"b": "c"}, "[{,:"], "no": "on"}),
        (r'"\ud83d\ude00 \\ud800 \u00e9 \/ \n \u0000"', "\U0001f600 \\ud800 é / \n \0"),
        ('"é\U0001f600\u2028\x7f"', "é\U0001f600\u2028\x7f"),
        ('{"<<": 1, "1": 2}', {"<<": 1, "1": 2}),
    ],
)
def test_values_come_in_canonical_form(text: str, value: Value) -> None:
    read = reads.value(text, syntax=Syntax.JSON)

    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["", " \r\n\t", "\ufeff"])
def test_nothing_but_space_is_no_document(text: str) -> None:
    assert reads.values(text, syntax=Syntax.JSON) == []


def test_the_document_knows_where_it_begins() -> None:
    assert documents.read("\ufeff\r\n  {}".encode(), syntax=Syntax.JSON, limits=FILE_LIMITS) == [
        Document(value={}, index=0, line=2, column=3)
    ]


_OUT = "the integer is outside -9223372036854775808 to 18446744073709551615; quote it to make it text"
_NOT_JSON = "infinity and not-a-number are not JSON; use a number or a text in double quotes"
_HALF = "half of a surrogate pair is no character; write the whole pair or remove it"
_CONTROL = "is not valid JSON: invalid control character here"
_KEY = "is not valid JSON: expecting property name enclosed in double quotes here"
_COLON = "is not valid JSON: expecting ':' delimiter here"
_COMMA = "is not valid JSON: expecting ',' delimiter here"
_VALUE = "is not valid JSON: expecting value here"
_END = "is not valid JSON: extra data here"
_OPEN = "is not valid JSON: unterminated string starting here"
_ESCAPE = "is not valid JSON: invalid \\uXXXX escape here"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        # keys
        ('{"a": 1,\n "b": {"c": 1},\n "a": 2}', 3, 2, "the key `a` is there twice; remove one"),
        ('[{"é": 1, "\\u00e9": 2}]', 1, 11, "the key `é` is there twice; remove one"),
        ('{"a": {"b": 1, "b": 2}, "a": NaN}', 1, 16, "the key `b` is there twice; remove one"),
        ("{a: 1}", 1, 2, _KEY),
        ("{1: 1}", 1, 2, _KEY),
        ('{"a": 1,}', 1, 9, _KEY),
        ('{"a" 1}', 1, 6, _COLON),
        ('{"a": 1 "b": 2}', 1, 9, _COMMA),
        ('{"a": }', 1, 7, _VALUE),
        # lists and the text's end
        ("[1,]", 1, 4, _VALUE),
        ("[,1]", 1, 2, _VALUE),
        ("[1 2]", 1, 4, _COMMA),
        ("[1}", 1, 3, _COMMA),
        ("[1\n", 2, 1, _COMMA),
        ("{} {}", 1, 4, _END),
        ("]", 1, 1, _VALUE),
        ("# comment\n1", 1, 1, _VALUE),
        ("'a'", 1, 1, _VALUE),
        ("\u00a01", 1, 1, _VALUE),
        # words and numbers
        ("True", 1, 1, _VALUE),
        ("[nul]", 1, 2, _VALUE),
        *[(f"[1, {word}]", 1, 5, _NOT_JSON) for word in ("NaN", "Infinity", "-Infinity")],
        ("01", 1, 2, _END),
        ("+1", 1, 1, _VALUE),
        (".5", 1, 1, _VALUE),
        ("1.", 1, 2, _END),
        ("\u0661", 1, 1, _VALUE),
        ("[1e400]", 1, 2, "the number is too large for a 64-bit float; quote it to make it text"),
        ('{"é":\r\n 18446744073709551616}', 2, 2, _OUT),
        ("[-9223372036854775809]", 1, 2, _OUT),
        ("9" * 10_000, 1, 1, _OUT),
        ("[-" + "9" * 10_000 + "]", 1, 2, _OUT),
        # strings
        ('["a', 1, 2, _OPEN),
        ('["a\\', 1, 2, _OPEN),
        ('["a\nb"]', 1, 4, _CONTROL),
        ('["a\tb"]', 1, 4, _CONTROL),
        ('["\\x41"]', 1, 3, "is not valid JSON: invalid \\escape here"),
        ('["\\u00g0"]', 1, 4, _ESCAPE),
        ('["\\u', 1, 4, _ESCAPE),
        ('["a\\u00e', 1, 5, _ESCAPE),
        ('["\\u00e"]', 1, 4, _ESCAPE),
        ('["\\ud83d\\u12"]', 1, 3, _HALF),
        ('["a\\ud800"]', 1, 4, _HALF),
        ('["\\udc00"]', 1, 3, _HALF),
        ('["\\ud83d\\ude00\\uD83D\\n"]', 1, 15, _HALF),
        ('{"\\ude00\\ud83d": 1}', 1, 3, _HALF),
        ('["\\\\\\ud800"]', 1, 5, _HALF),
        ('["a\0"]', 1, 4, "holds a NUL character, so it is no text file; remove it"),
    ],
)
def test_what_breaks_a_rule_is_refused_at_its_place(text: str, line: int, column: int, message: str) -> None:
    assert reads.refusal(text, syntax=Syntax.JSON) == (line, column, message)


def test_depth_counts_lists_and_mappings_but_no_text() -> None:
    limits = TextLimits(depth=2)

    assert reads.value('[{"[[[{": "]}[[[["}]', syntax=Syntax.JSON, limits=limits) == [{"[[[{": "]}[[[["}]
    refusal = reads.refusal('[{"a":\n[]}]', syntax=Syntax.JSON, limits=limits)
    assert refusal == (2, 1, "is nested deeper than 2 levels; flatten it")


@pytest.mark.parametrize("text", ['{"a": [1, 2], "b": {}}', '{"a,:,:,:[{[{": [], "b": [ [ ] ]}', "[0, 1, 2, 3, 4, 5]"])
def test_nodes_count_keys_and_containers_but_no_text(text: str) -> None:
    fits, tight = TextLimits(nodes=7), TextLimits(nodes=5)

    assert reads.value(text, syntax=Syntax.JSON, limits=fits) == json.loads(text)
    refusal = reads.refusal(text, syntax=Syntax.JSON, limits=tight)
    assert refusal.message == "holds more than 5 values and keys; split it"


def test_text_counts_utf8_bytes_of_strings_and_keys() -> None:
    limits = TextLimits(text=6)

    assert reads.value('{"é": "abcd", "": [10000]}', syntax=Syntax.JSON, limits=limits) == {"é": "abcd", "": [10000]}
    refusal = reads.refusal('{"é": "abcde"}', syntax=Syntax.JSON, limits=limits)
    assert refusal == (1, 7, "holds more than 6 bytes of text; split it")
