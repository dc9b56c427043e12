"""Rules that hold for every value and every text."""

import json
from collections.abc import Iterator

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import documents
from reconciler.model.documents import DocumentError, Syntax
from reconciler.model.positions import FILE_LIMITS, TextLimits
from reconciler.model.values import Pointer, Value
from tests.model import reads

INTEGERS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**54), 2**54).map(float)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "no",
        "on",
        "1",
        "1.5",
        "true",
        "null",
        "~",
        "",
        "<<",
        "2024-01-02",
        "1:30",
        ".inf",
        "- a",
        "a: b",
        "#",
        "\n",
        "\t",
    ]
)
SCALARS: st.SearchStrategy[Value] = st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS


def _nested(scalars: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
        max_leaves=12,
    )


def _canonical(value: Value) -> Value:
    match value:
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case list():
            return [_canonical(item) for item in value]
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
    return value


def _exact(value: Value) -> str:
    """For comparing: 1, 1.0 and true are equal to Python."""
    return repr(value)


@given(value=_nested(SCALARS), indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_json_text_gives_its_value_in_canonical_form(value: Value, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    assert _exact(reads.value(text, syntax=Syntax.JSON)) == _exact(_canonical(value))


@given(value=_nested(SCALARS), flow=st.sampled_from([None, True, False]))
def test_quoted_yaml_gives_its_value_in_canonical_form(value: Value, flow: bool | None) -> None:
    # Everything is quoted, and what is no text is tagged: here YAML 1.1, which PyYAML writes, agrees with 1.2.
    text = yaml.safe_dump(value, default_style='"', default_flow_style=flow, sort_keys=False)

    assert _exact(reads.value(text)) == _exact(_canonical(value))


def _agreed(text: str) -> bool:
    """Return True when the dialects agree on a text that PyYAML leaves unquoted: only 1.2 takes `1e3` for a number."""
    return not text[:1].isascii() or text[:1] not in set("+-.0123456789")


AGREED = TEXTS.filter(_agreed)


@given(
    value=st.recursive(
        st.none() | st.booleans() | INTEGERS | FLOATS | AGREED,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(AGREED, inner, max_size=4),
        max_leaves=12,
    ),
    flow=st.sampled_from([None, True, False]),
)
def test_plain_yaml_gives_its_value_where_the_dialects_agree(value: Value, flow: bool | None) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, sort_keys=False)

    assert _exact(reads.value(text)) == _exact(_canonical(value))


@given(value=_nested(SCALARS), line_end=st.sampled_from(["\r\n", "\r"]))
def test_line_ends_and_a_byte_order_mark_change_nothing(value: Value, line_end: str) -> None:
    text = json.dumps(value, indent=1)
    other = "\ufeff" + text.replace("\n", line_end)

    for syntax in Syntax:
        if syntax is Syntax.JSON or "\\ud" not in text:  # YAML has no surrogate pairs
            assert _exact(reads.values(other, syntax=syntax)) == _exact(reads.values(text, syntax=syntax))


# Pieces that meet each other's edges far more often than random characters do.
YAML_PIECES = (
    *("a", "b: ", "- ", "\n", "\n  ", " ", "[", "]", "{", "}", ",", "? ", ": ", "&x ", "*x", "!!str ", "! ", "|\n"),
    *(
        "'",
        '"',
        "\\",
        "#",
        "---\n",
        "...\n",
        "%TAG ! x\n",
        "1",
        "-1.5e3",
        ".inf",
        "~",
        "<<",
        "\t",
        "\r\n",
        "é",
        "\u2028",
    ),
)
JSON_PIECES = (
    *("[", "]", "{", "}", ",", ":", '"', '"a"', '"b"', "\\", '"\\ud800"', '"\\ud83d\\ude00"', "\\u0041", "\\n"),
    *("1", "-", "0", ".5", "e3", "1e400", "99999999999999999999", "true", "null", "NaN", "-Infinity", "x"),
    *(" ", "\n", "\r", "\t", "\x01", "é", "[[", "]]", '{"a":'),
)
YAML_TEXTS = st.lists(st.sampled_from(YAML_PIECES), max_size=25).map("".join)
JSON_TEXTS = st.lists(st.sampled_from(JSON_PIECES), max_size=16).map("".join)


def _refused(data: bytes, syntax: Syntax, limits: TextLimits) -> DocumentError | None:
    """The refusal, if there is one; any other exception fails the test."""
    try:
        documents.read(data, syntax=syntax, limits=limits)
    except DocumentError as error:
        return error
    return None


def _not_located(data: bytes, syntax: Syntax, limits: TextLimits) -> DocumentError | None:
    try:
        documents.locate(data, syntax=syntax, limits=limits)
    except DocumentError as error:
        return error
    return None


TIGHT = TextLimits(depth=4, nodes=12, text=30)


@given(
    data=st.binary(max_size=40) | (YAML_TEXTS | JSON_TEXTS).map(str.encode),
    limits=st.sampled_from([FILE_LIMITS, TIGHT]),
)
def test_bytes_are_read_or_refused_and_nothing_else(data: bytes, limits: TextLimits) -> None:
    for syntax in Syntax:
        error = _refused(data, syntax, limits)
        unlocated = _not_located(data, syntax, limits)
        if error is None:
            assert unlocated is None
        else:
            assert 1 <= error.line <= data.count(b"\n") + data.count(b"\r") + 2
            assert 1 <= error.column <= len(data) + 1
            assert "\n" not in error.message


@given(text=JSON_TEXTS | _nested(SCALARS).map(json.dumps), limits=st.sampled_from([FILE_LIMITS, TIGHT]))
def test_what_the_walk_over_json_refuses_is_never_read(text: str, limits: TextLimits) -> None:
    unlocated = _not_located(text.encode(), Syntax.JSON, limits)

    assert unlocated is None or _refused(text.encode(), Syntax.JSON, limits) is not None


@given(text=JSON_TEXTS | _nested(SCALARS).map(json.dumps))
def test_what_is_read_as_json_is_json(text: str) -> None:
    for document in _read_or_nothing(text):
        assert _exact(document) == _exact(_canonical(json.loads(text)))


def _read_or_nothing(text: str) -> list[Value]:
    try:
        return reads.values(text, syntax=Syntax.JSON)
    except DocumentError:
        return []


def _fields(items: list[Value]) -> Value:
    return {str(place): item for place, item in enumerate(items)}


# Shapes whose every scalar and key is a word of its own, so that the text itself says where each one stands.
SHAPES: st.SearchStrategy[Value] = st.recursive(
    st.none(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.lists(inner, min_size=1, max_size=3).map(_fields),
    max_leaves=15,
)


def _named(shape: Value, words: Iterator[str]) -> Value:
    match shape:
        case list():
            return [_named(item, words) for item in shape]
        case dict():
            return {next(words): _named(item, words) for item in shape.values()}
    return next(words)


def _words() -> Iterator[str]:
    number = 0
    while True:
        yield f"é{number:03}z"
        number += 1


def _pointers(value: Value, at: Pointer = ()) -> Iterator[tuple[Pointer, Value]]:
    yield at, value
    match value:
        case list():
            for place, item in enumerate(value):
                yield from _pointers(item, (*at, place))
        case dict():
            for key, item in value.items():
                yield from _pointers(item, (*at, key))


@given(
    shape=SHAPES, flow=st.sampled_from([None, True, False]), syntax=st.sampled_from(Syntax), indent=st.integers(0, 3)
)
def test_positions_point_at_the_text(shape: Value, flow: bool | None, syntax: Syntax, indent: int) -> None:
    value = _named(shape, _words())
    if syntax is Syntax.JSON:
        text, quote = json.dumps(value, indent=indent or None, ensure_ascii=False), '"'
    else:
        text, quote = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True, indent=indent + 2), ""
    locations = documents.locate(text.encode(), syntax=syntax, limits=FILE_LIMITS)
    lines = text.split("\n")

    for pointer, found in _pointers(value):
        line, column = locations.of(0, pointer)
        if isinstance(found, str):
            assert lines[line - 1][column - 1 :].startswith(quote + found)
        if pointer and isinstance(pointer[-1], str):
            line, column = locations.of(0, pointer, at_key=True)
            assert lines[line - 1][column - 1 :].startswith(quote + pointer[-1])
