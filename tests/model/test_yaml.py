"""YAML: what each rule reads, and where each refusal points."""

import pytest

from reconciler.model import documents
from reconciler.model.documents import Document, Syntax
from reconciler.model.positions import FILE_LIMITS, TextLimits
from reconciler.model.values import Value
from tests.model import reads


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # constants of the core schema, and what YAML 1.1 took for them
        *[(text, None) for text in ("", "~", "null", "Null", "NULL")],
        *[(text, True) for text in ("true", "True", "TRUE")],
        *[(text, False) for text in ("false", "False", "FALSE")],
        *[(text, text) for text in ("yes", "no", "on", "off", "y", "n", "Yes", "NO", "nUll", "tRue", "nil", "none")],
        # integers
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("012", 12),
        ("08", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("0xffffffffffffffff", 2**64 - 1),
        ("0o1777777777777777777777", 2**64 - 1),
        ("0" * 10_000 + "7", 7),
        *[(text, text) for text in ("0b101", "1_000", "1,000", "0o8", "0xG", "-0x1", "+0o7", "0O7")],
        # no sexagesimals, no dates
        *[(text, text) for text in ("1:30", "190:20:30", "2024-01-02", "2024-01-02T03:04:05Z", "12e", "1.2.3", "v1.2")],
        # floats, and those that are integers in canonical form
        ("1.5", 1.5),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("1E+3", 1000),
        ("1.0", 1),
        ("-0.0", 0),
        ("1.e2", 100),
        ("9007199254740991.0", 2**53 - 1),
        ("9007199254740992.0", 2.0**53),
        ("-9007199254740992.0", -(2.0**53)),
        ("1e300", 1e300),
        ("1e-400", 0),
        *[(text, text) for text in (".", "..", "+", "--", "1e", "1e+", "e3", ".e3", "inf", "NaN", "+.nan", ".iNf")],
        # text that only looks special
        *[(text, text) for text in ("=", "<<", "a b", "http://x.y/z", "time", "trueish", "null1", "-a", "é", "日本")],
    ],
)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: Value) -> None:
    read = reads.value(f"a: {text}\n")

    assert read == {"a": value}
    assert isinstance(read, dict)
    assert type(read["a"]) is type(value)


@pytest.mark.parametrize("text", ["no", "1", "null", "true", "1.5", ".inf", "0x1F", "~", "", "<<", "1e400"])
@pytest.mark.parametrize("form", ["'{}'", '"{}"', "!!str {}", "!!str '{}'", "!<tag:yaml.org,2002:str> {}"])
def test_quoted_and_str_tagged_scalars_are_text(text: str, form: str) -> None:
    assert reads.value(f"- {form.format(text)}\n") == [text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!int '1'", 1),
        ("!!int 0x10", 16),
        ("!!float 1", 1),
        ("!!float '1.5'", 1.5),
        ("!!bool 'true'", True),
        ("!!null ''", None),
        ("!!null", None),
        ("!!map {a: 1}", {"a": 1}),
        ("!!seq [1]", [1]),
    ],
)
def test_core_tags_decide(text: str, value: Value) -> None:
    assert reads.value(f"- {text}\n") == [value]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("\n \n", []),
        ("# only a comment\n", []),
        ("---\n", []),
        ("---\n...\n", []),
        ("---\n---\n# comment\n---\n", []),
        ("null\n", [None]),
        ("''\n", [""]),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("---\na: 1\n---\n\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
        ("--- 1\n--- [2]\n--- {a: 3}\n--- |\n  text\n", [1, [2], {"a": 3}, "text\n"]),
        ("a: [\n  1,\n  2\n]\nb: {}\nc: []\n", [{"a": [1, 2], "b": {}, "c": []}]),
        ("a:\n- 1\n- - 2\n  - x: 3\n    y:\n      z: 4\n", [{"a": [1, [2, {"x": 3, "y": {"z": 4}}]]}]),
        ("a: |\n  x\n   y\n\nb: >-\n  u\n  v\n", [{"a": "x\n y\n", "b": "u v"}]),
        ("? a\n: 1\n? b\n", [{"a": 1, "b": None}]),
        ("{a, b: }\n", [{"a": None, "b": None}]),
        ("no: 1\non: 2\n2024-01-02: 3\n", [{"no": 1, "on": 2, "2024-01-02": 3}]),
        ("'1': 4\n'<<': 5\n\"true\": 6\n", [{"1": 4, "<<": 5, "true": 6}]),
        ('"\\u00e9\\U0001F600\\N": "\\0"\n', [{"é\U0001f600\u0085": "\0"}]),
        ("%YAML 1.1\n---\na: yes\n", [{"a": "yes"}]),
        ("%TAG !y! tag:yaml.org,2002:\n---\na: !y!str 1\n", [{"a": "1"}]),
        ("b: 1\na: 2\n", [{"b": 1, "a": 2}]),
    ],
)
def test_streams_become_values(text: str, values: list[Value]) -> None:
    assert reads.values(text) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a: &x 1\nb: *x\n", {"a": 1, "b": 1}),
        ("a: &x {k: [1]}\nb: *x\nc: [*x, *x]\n", {"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}, {"k": [1]}]}),
        ("&k key: 1\nv: *k\n", {"key": 1, "v": "key"}),
        ("a: &x text\n*x : 1\n", {"a": "text", "text": 1}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: &x [&x 1]\nb: *x\n", {"a": [1], "b": 1}),
        ("a: &x\nb: *x\n", {"a": None, "b": None}),
    ],
)
def test_aliases_repeat_what_they_name(text: str, values: Value) -> None:
    assert reads.value(text) == values


def test_an_alias_gives_a_copy_that_changes_alone() -> None:
    read = reads.value("a: &x {k: [{n: 1}]}\nb: *x\nc: *x\n")

    match read:
        case {"b": {"k": [dict() as inner]}}:
            inner["n"] = 2
    assert read == {"a": {"k": [{"n": 1}]}, "b": {"k": [{"n": 2}]}, "c": {"k": [{"n": 1}]}}


def test_documents_know_their_index_and_where_they_begin() -> None:
    text = b"---\n# nothing\n---\n\n  a: 1\n--- [2]\n---\n---\n&x !!str 3\n"

    assert documents.read(text, syntax=Syntax.YAML, limits=FILE_LIMITS) == [
        Document(value={"a": 1}, index=1, line=5, column=3),
        Document(value=[2], index=2, line=6, column=5),
        Document(value="3", index=4, line=9, column=1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffa: é\nb: [1]\n",
        "a: é\r\nb: [1]\r\n",
        "a: é\rb: [1]\r",
        "\ufeff---\r\na: 'é'\r\nb:\r\n- 1\r\n",
        "a: é\nb: [1]",
    ],
)
def test_byte_order_marks_and_line_ends_do_not_matter(text: str) -> None:
    assert reads.values(text) == [{"a": "é", "b": [1]}]


_OUT = "the integer is outside -9223372036854775808 to 18446744073709551615; quote it to make it text"
_INFINITE = "infinity and not-a-number have no place in a resource; quote the word to make it text"
_NOT_TEXT = "a key must be text, and this one is not; quote it"
_CORE = "only the tags of the YAML core schema are allowed; quote text that begins with `!`"
_BREAK = "holds U+{0}, a line break to some readers only; remove it or write \\u{0} in double quotes"
_CONTROL = "holds the control character U+{}; remove it, or escape it in double quotes"
_INVALID = "is not valid YAML: "
_TOKEN = _INVALID + "while scanning for the next token, found character that cannot start any token; "
_FLOW = _INVALID + "while parsing a flow sequence, did not find expected ',' or ']'; correct the syntax"
_QUOTE = _INVALID + "while scanning a quoted scalar, found unexpected end of stream; close the quote"
_ESCAPE = _INVALID + "while parsing a quoted scalar, found invalid Unicode character escape code; correct the syntax"
_CONTENT = _INVALID + "while parsing a flow node, did not find expected node content; correct the syntax"
_COLON = (
    _INVALID + "mapping values are not allowed in this context; check the indentation, or quote a text that holds `: `"
)
_COMPLEX = "a key must be text, not a list or mapping"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        # keys
        ("a: 1\nb: 2\na: 3\n", 3, 1, "the key `a` is there twice; remove one"),
        ("a: {x: 1, 'x': 2}\n", 1, 11, "the key `x` is there twice; remove one"),
        ("a: &k b\nb: 1\n*k : 2\n", 3, 1, "the key `b` is there twice; remove one"),
        ('"a\\nb\\u202e": 1\n"a\\nb\\u202e": 1\n', 2, 1, "the key `a\\nb\\u202e` is there twice; remove one"),
        (f"{'k' * 61}: 1\n{'k' * 61}: 1\n", 2, 1, f"the key `{'k' * 60}...` is there twice; remove one"),
        ("a: 1\n1: x\n", 2, 1, _NOT_TEXT),
        ("true: x\n", 1, 1, _NOT_TEXT),
        ("- null: x\n", 1, 3, _NOT_TEXT),
        ("a: {1.5: x}\n", 1, 5, _NOT_TEXT),
        ("?\n: x\n", 1, 2, _NOT_TEXT),
        ("a: &x [1]\n*x : 1\n", 2, 1, _NOT_TEXT),
        ("? [a]\n: 1\n", 1, 3, _COMPLEX),
        ("a:\n  ? {b: 1}\n  : 1\n", 2, 5, _COMPLEX),
        ("a:\n  <<: {b: 1}\n", 2, 3, "the merge key `<<` is not supported; write the merged keys out"),
        ("a: &x {b: 1}\nc: {<<: *x}\n", 2, 5, "the merge key `<<` is not supported; write the merged keys out"),
        # numbers
        ("a: 18446744073709551616\n", 1, 4, _OUT),
        ("a:\n  - -9223372036854775809\n", 2, 5, _OUT),
        ("a: 0x10000000000000000\n", 1, 4, _OUT),
        ("a: " + "9" * 10_000 + "\n", 1, 4, _OUT),
        ("a: 0x" + "f" * 10_000 + "\n", 1, 4, _OUT),
        ("a: 0o" + "7" * 10_000 + "\n", 1, 4, _OUT),
        *[(f"é: {word}\n", 1, 4, _INFINITE) for word in (".inf", "-.inf", "+.INF", ".Inf", ".nan", ".NaN", ".NAN")],
        ("a: 1e400\n", 1, 4, "the number is too large for a 64-bit float; quote it to make it text"),
        # tags
        ("a: !custom x\n", 1, 4, _CORE),
        ("a: ! 1\n", 1, 4, _CORE),
        ("a: !\n", 1, 4, _CORE),
        ("- &x ! 'x'\n", 1, 3, _CORE),
        *[
            (f"a: !!{name} x\n", 1, 4, _CORE)
            for name in ("timestamp", "binary", "set", "merge", "map", "python/object:os.system")
        ],
        ("a: !!set {x}\n", 1, 4, "the tag is not allowed here; remove it, or quote text that begins with `!`"),
        ("a: !!map [1]\n", 1, 4, "the tag is not allowed here; remove it, or quote text that begins with `!`"),
        ("a: !!str [1]\n", 1, 4, "the tag is not allowed here; remove it, or quote text that begins with `!`"),
        ("!x\na: 1\n", 1, 1, "the tag is not allowed here; remove it, or quote text that begins with `!`"),
        ("a: !!int abc\n", 1, 4, "the text does not fit its tag `!!int`; remove the tag or change the text"),
        ("a: !!bool yes\n", 1, 4, "the text does not fit its tag `!!bool`; remove the tag or change the text"),
        ("a: !!int true\n", 1, 4, "the text does not fit its tag `!!int`; remove the tag or change the text"),
        ("a: !!float .inf\n", 1, 4, _INFINITE),
        # aliases
        ("a: *nope\n", 1, 4, "the alias has no anchor before it; quote text that begins with `*`"),
        ("a: &x 1\n---\nb: *x\n", 3, 4, "the alias has no anchor before it; quote text that begins with `*`"),
        ("a: &x\n  self: *x\n", 2, 9, "the alias `*x` stands inside what it refers to; write the value out"),
        ("a: &x 1\nb: &x [*x]\n", 2, 8, "the alias `*x` stands inside what it refers to; write the value out"),
        # characters
        ("a: 1\nb: x\0y\n", 2, 5, "holds a NUL character, so it is no text file; remove it"),
        ("a: é\x07\n", 1, 5, _CONTROL.format("0007")),
        ("é: 1\r\nb: \x1b[31m\n", 2, 4, _CONTROL.format("001B")),
        ("é: x\u2028y\n", 1, 5, _BREAK.format("2028")),
        ("a: 1\n# \x85\n", 2, 3, _BREAK.format("0085")),
        # syntax
        ("a: b: c\n", 1, 5, _COLON),
        ("a:\n\tb: 1\n", 2, 1, _TOKEN + "indent with spaces, not tabs"),
        ("a: @b\n", 1, 4, _TOKEN + "quote the text that begins here"),
        ("é: [1\n", 2, 1, _FLOW),
        ('a: "secret\n', 2, 1, _QUOTE),
        ('a: "\\ud800"\n', 1, 7, _ESCAPE),
        ("a: !e!x 1\n", 1, 4, "is not valid YAML: while parsing a node, found undefined tag handle; remove the tag"),
        ("%YAML 1.3\n---\na: 1\n", 1, 1, "is not valid YAML: found incompatible YAML document; correct the syntax"),
        ("a: 1\n---\nb: [\n", 4, 1, _CONTENT),
    ],
)
def test_what_breaks_a_rule_is_refused_at_its_place(text: str, line: int, column: int, message: str) -> None:
    assert reads.refusal(text) == (line, column, message)


@pytest.mark.parametrize(
    ("data", "line", "column", "byte"),
    [
        (b"\xff\xfea\x00:\x00", 1, 1, "FF"),
        (b"\xef\xbb\xbfa: \xff\n", 1, 4, "FF"),
        (b"a: 1\nb: \xc3\xa9\xe9\n", 2, 5, "E9"),
        (b"a: 1\r\n\xed\xa0\x80\n", 2, 1, "ED"),
        (b"a: \xc3", 1, 4, "C3"),
    ],
)
@pytest.mark.parametrize("syntax", list(Syntax))
def test_what_is_not_utf8_is_refused_at_its_place(
    data: bytes, line: int, column: int, byte: str, syntax: Syntax
) -> None:
    message = f"is not UTF-8 text (byte 0x{byte}); save it as UTF-8"
    assert reads.refusal(data, syntax=syntax) == (line, column, message)


def test_depth_counts_lists_and_mappings_with_aliases_in_place() -> None:
    limits = TextLimits(depth=3)
    deep = "is nested deeper than 3 levels; flatten it"

    assert reads.value("[[[1]]]", limits=limits) == [[[1]]]
    assert reads.refusal("[[[[1]]]]", limits=limits) == (1, 4, deep)
    assert reads.refusal("a:\n  b:\n    c:\n      d: 1\n", limits=limits) == (4, 7, deep)
    assert reads.value("- &x [[1]]\n- *x\n", limits=limits) == [[[1]], [[1]]]
    assert reads.refusal("- &x [[1]]\n- [*x]\n", limits=limits) == (2, 4, deep)
    assert reads.refusal("- &x {a: {b: 1}}\n- {c: *x}\n", limits=limits) == (2, 7, deep)


def test_nodes_count_keys_and_containers_over_all_documents() -> None:
    limits = TextLimits(nodes=7)
    many = "holds more than 7 values and keys (an alias counts as what it stands for); split it into smaller ones"

    assert reads.value("{a: 1, b: [2, 3]}", limits=limits) == {"a": 1, "b": [2, 3]}
    assert reads.refusal("{a: 1, b: [2, 3, 4]}", limits=limits) == (1, 18, many)
    assert reads.refusal("{a: 1, b: [2, []]}\n---\n[]\n", limits=limits) == (3, 1, many)
    assert reads.refusal("- &x [1, 2]\n- *x\n- 3\n", limits=TextLimits(nodes=6)) == (2, 3, many.replace("7", "6"))
    assert reads.value("- &x [1, 2]\n- *x\n", limits=limits) == [[1, 2], [1, 2]]


def test_text_counts_utf8_bytes_of_scalars_and_keys() -> None:
    limits = TextLimits(text=6)
    much = "holds more than 6 bytes of text (an alias counts as what it stands for); split it into smaller ones"

    assert reads.value("é: abcd", limits=limits) == {"é": "abcd"}
    assert reads.refusal("é: abcde", limits=limits) == (1, 4, much)
    assert reads.value("- &x abc\n- *x\n", limits=limits) == ["abc", "abc"]
    assert reads.refusal("- &x abc\n- *x\n- a\n", limits=limits) == (3, 3, much)
    assert reads.refusal("- &x [abcd]\n- *x\n", limits=limits) == (2, 3, much)
