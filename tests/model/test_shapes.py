"""Texts of one shape: whichever way they are read, the outcome is libyaml's."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model import yaml_documents
from reconciler.model.positions import FILE_LIMITS, DocumentError, TextLimits
from reconciler.model.values import Document
from reconciler.model.yaml_documents import MOST_CHARACTERS, Shapes

PLAIN = (
    *("a", "T", "name", "true", "null", "Null", "FALSE", "no", "n", "nullable", "_", "/v1/a", "a b  c", "it's"),
    *("0", "7", "007", "-5", "-0", "1.0", "1.5", "-0.0", "1e3", "1e22", ".5", "-.5", "1.2.3", "0x1F", "0o17", "1:30"),
    *("9007199254740991.0", "9007199254740992.0", "18446744073709551615", "123456789012345678", "1234567890123456789"),
    *("18446744073709551616", "-9223372036854775809", "1e999", ".inf", "-.inf", ".nan"),  # not fit for a document
    *("http://a/b?c=d&e", "${env:A}", "${", "a, b", "x]", "a}", "{0}", "a ? b", "a - b", "..."),
    *("a !b &c *d |e >f %g @h `i", "a:b:c", "a :b", "zz0000zz", "zz0001zz"),
)
DOUBLE = ('""', '" "', '"a"', '"2"', '"true"', '"a: b # c"', '"it\'s"', '"[{,}] &a *b !c"', '"zz0000zz"')
SINGLE = ("''", "' '", "'a'", "'2'", "'null'", "'a: b # c'", "'[{,}] &a *b !c'")
NOT_SIMPLE = (
    *(
        "",
        "|",
        ">-",
        "&a b",
        "*a",
        "!!str 1",
        "[a, b]",
        "{a: b}",
        "a # c",
        "# c",
        "a ",
        "a:",
        "a: b",
        "- a",
        "-",
        "? a",
    ),
    *("@a", "`a", "%a", "[", "}", "ü", "\u2028", "a\tb", '"a\\n"', '"', "'", "'it''s'", '"a" b', "---", "a\\b", 'a"b'),
)
SIMPLE = st.sampled_from(PLAIN), st.sampled_from(DOUBLE), st.sampled_from(SINGLE)

# Where values stand, some of them in places where exchanging them would change more than them.
FRAMES = (
    "a: {0}\nb: {1}\nc:\n  d: {2}\n  - e: {0}\n",
    "a: {0}\nb:\n- c: {1}\n  d: {2}\n-\n  e: {1}\n- - f: {0}\n",
    "a: {0}\n",
    "a: {0}",
    "a: {0}\r\nb: {1}\r\n",
    "# a: {0}\na: {1}\n  # b: {2}\n\nb: {0}\n",
    "a: {0}\n---\nb: {1}\n...\n---\n# c: {2}\n---\nd: {2}\n",
    "a: {0}\na: {1}\n",
    "a: {0}\n  b: {1}\n",
    "<<: {0}\n",
    "1: {0}\n",
    "a: {0}\n  more\nb: {1}\n",
    "a: {0}\n\n  more\n",
    "a: {0}\n  # more\n  more\n",
    "a: |\n  b: {0}\nc: {1}\n",
    "a: >\n  b: {0}\n  c: {1}\nd: {2}\n",
    'a: "more\n  b: {0}\n  c"\nd: {1}\n',
    "a: 'more\n  b: {0}\n  c'\n",
    "a: {{\n  b: {0}\n  }}\nc: {1}\n",
    "a: {{\n  b: {0}\n  , c: {1}\n  }}\n",
    "a: [\n  b: {0}\n  ]\n",
    "[\nb: {0}\n, c: {1}\n]",
    "? a\n: {0}\n? b\n: {1}\n",
    "? |\n  a: {0}\n: {1}\n",
    "? a: {0}\n: {1}\n",
    "a: &b\n  c: {0}\nd: *b\n",
    "- &a\n  b: {0}\n- *a\n- c: {1}\n",
    "a: !!str\n  b: {0}\n",
    "!!int : {0}\n",
    "a:\n  !x: {0}\n",
    "%YAML 1.1\n---\na: {0}\n",
    "%FOO: {0}\n---\na: {1}\n",
    "a: b: {0}\n",
    "a:\tb: {0}\n",
    "a: {0}\n\tb: {1}\n",
    "'a: b': {0}\n\"c: d\": {1}\n",
    "zz0000zz: {0}\na: x zz0001zz\nb: {1}\n",
    "a: \u2028\nb: {0}\n",
    "a: {0}\nb: \x01\n",
    "é: {0}\nb: ü\nc: 😀\nd: {1}\n",
    "a: 1.0\nb: 1\nc: 1.5\nd: {0}\n",
)


class Reader:
    """Reads with shapes, and knows what libyaml was given to read."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.shapes = Shapes(self._parse)

    def _parse(self, text: str, limits: TextLimits) -> list[Document]:
        self.parsed.append(text)
        return yaml_documents.parsed(text, limits)

    def outcome(self, text: str) -> object:
        return _outcome(lambda: self.shapes.documents(text, FILE_LIMITS))

    def read(self, texts: Iterable[str]) -> None:
        """Each is read as libyaml reads it."""
        for text in texts:
            assert self.outcome(text) == _outcome(lambda text=text: yaml_documents.parsed(text, FILE_LIMITS))  # type: ignore[misc]


def _outcome(read: Callable[[], list[Document]]) -> object:
    try:
        # As texts, which tell 1 from 1.0 and from True.
        return [(str(one.value), one.index, one.line, one.column) for one in read()]
    except DocumentError as error:
        return error.message, error.line, error.column


@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=5)  # of each frame
@given(data=st.data())
def test_texts_of_one_shape_are_read_as_libyaml_reads_them(frame: str, data: st.DataObject) -> None:
    kinds = data.draw(st.tuples(*[st.sampled_from(SIMPLE)] * 3))
    values = st.tuples(*kinds)
    reader = Reader()

    reader.read(frame.format(*data.draw(values)) for _ in range(4))


@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=5)  # of each frame
@given(data=st.data())
def test_values_of_any_sort_beside_simple_ones_are_read_as_libyaml_reads_them(frame: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from(PLAIN + DOUBLE + SINGLE + NOT_SIMPLE), min_size=3, max_size=3))
    others = data.draw(st.lists(st.sampled_from(PLAIN), min_size=3, max_size=3))
    reader = Reader()

    reader.read(frame.format(*each) for each in (values, values, others, others, values))


@given(lines=st.lists(st.sampled_from([line for frame in FRAMES for line in frame.split("\n")]), max_size=6))
def test_lines_of_any_sort_together_are_read_as_libyaml_reads_them(lines: list[str]) -> None:
    frame = "\n".join(lines)
    reader = Reader()

    reader.read(frame.format(*values) for values in (("a", "b", "c"), ("d", "1", "a, b"), ("x]", "{0}", "a - b")))


@pytest.mark.parametrize("value", PLAIN)
def test_a_value_means_what_it_means_without_a_shape(value: str) -> None:
    reader = Reader()

    reader.read(f"a:\n  - b: {each}\n" for each in ("x", "y", value))


def test_the_third_text_of_a_shape_needs_no_parser() -> None:
    reader = Reader()
    frame = "kind: {0}\nmetadata:\n  name: {1}\n  labels: {{a: b}}\nspec:\n  - tier: \"{2}\"\n    path: '{2}'\n"

    reader.read(frame.format(f"Kind{number}", number, number) for number in range(9))

    assert len(reader.parsed) == 2
    assert reader.parsed[0] == frame.format("Kind0", 0, 0)


def test_what_one_text_gave_is_not_shared_with_the_next() -> None:
    reader = Reader()
    first, second, third = (reader.shapes.documents("a:\n  b: c\nd: [e]\n", FILE_LIMITS)[0].value for _ in range(3))
    assert isinstance(second, dict)

    second["a"] = second["d"] = None

    assert first == third == {"a": {"b": "c"}, "d": ["e"]}


def test_another_quote_is_another_shape() -> None:
    reader = Reader()

    reader.read(f"a: {value}\n" for value in ("1", "2", '"1"', "'1'", "3", '"2"', "'2'", '"3"', "'3'"))


def test_long_texts_and_texts_with_limits_of_their_own_are_always_parsed() -> None:
    reader = Reader()
    long = "a: b\n" + "# \n" * (MOST_CHARACTERS // 3)
    few = TextLimits(nodes=2)

    for _ in range(4):
        reader.outcome(long)
        assert _outcome(lambda: reader.shapes.documents("a: b\n", FILE_LIMITS)) == [("{'a': 'b'}", 0, 1, 1)]
        assert isinstance(_outcome(lambda: reader.shapes.documents("a: b\n", few)), tuple)

    assert reader.parsed.count(long) == 4


def test_learning_ends_where_it_does_not_pay() -> None:
    reader = Reader()
    texts = [f"key-{number}: a\n" for number in range(1_000)]

    reader.read(text for text in texts for _ in range(2))

    marked = [text for text in reader.parsed if "zz0000zz" in text]
    # 64, and one more for each four uses, of which each that was learned has one: 64 * (1 + 1/4 + 1/16 ...)
    assert len(marked) == 85


def test_shapes_are_found_after_many_texts_that_had_none_in_common() -> None:
    reader = Reader()
    frame = "a: {0}\nb: {1}\n"

    reader.read(f"key-{number}: a\n" for number in range(1_500))
    reader.read(frame.format(number, number) for number in range(1_500))
    before = len(reader.parsed)
    reader.read(frame.format(number, number) for number in range(100))

    assert len(reader.parsed) == before


def test_shapes_are_forgotten_and_learned_again() -> None:
    reader = Reader()

    for number in range(700):
        reader.read([f"key-{number}: a\n"] * 7)
    before = len(reader.parsed)
    reader.read(["key-0: a\n"] * 3)

    assert len(reader.parsed) > before
