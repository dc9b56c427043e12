"""Inputs made to hurt: each ends in a value or a refusal, in bounded time, and never takes the process with it."""

import time

import pytest

from reconciler.model.documents import Syntax
from reconciler.model.positions import FILE_LIMITS, TextLimits
from tests.model import reads
from tests.model.reads import Refusal

DEEP = "is nested deeper than 100 levels; flatten it"
OUT = "the integer is outside -9223372036854775808 to 18446744073709551615; quote it to make it text"
NUL = "holds a NUL character, so it is no text file; remove it"
SELF = "the alias `*a` stands inside what it refers to; write the value out"
QUOTE = "is not valid YAML: while scanning a quoted scalar, found unexpected end of stream; close the quote"
AFTER = "is not valid JSON: expecting ',' delimiter here"
KEY = "a key must be text, not a list or mapping"
MANY = "holds more than 100,000 values and keys (an alias counts as what it stands for); split it into smaller ones"
DOCUMENTS = "holds more than 10,000 documents; split it into smaller ones"
MUCH = "holds more than 16,777,216 bytes of text (an alias counts as what it stands for); split it into smaller ones"


def _bomb(first: str, *, uses: int) -> bytes:
    """Seven lists, each made of so many aliases of the one before."""
    lines = [f"a: &a {first}"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * uses)}]" for before, name in zip("abcdef", "bcdefg", strict=True)
    ]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"[" * 100_000, Refusal(1, 101, DEEP), id="flow sequences"),
        pytest.param(b"[\n" * 100_000, Refusal(101, 1, DEEP), id="flow sequences in lines"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, Refusal(1, 101, DEEP), id="closed flow sequences"),
        pytest.param(b"{a: " * 100_000, Refusal(1, 401, DEEP), id="flow mappings"),
        pytest.param(b"? " * 20_000, Refusal(1, 3, KEY), id="keys that are mappings"),
        pytest.param(b"- " * 100_000, Refusal(1, 201, DEEP), id="sequences in one line"),
        pytest.param(
            b"".join(b" " * level + b"k:\n" for level in range(3_000)), Refusal(101, 101, DEEP), id="block mappings"
        ),
        pytest.param(
            b"".join(b" " * level + b"-\n" for level in range(3_000)), Refusal(101, 101, DEEP), id="block sequences"
        ),
        pytest.param(_bomb("[x,x,x,x,x,x,x,x,x]", uses=9), Refusal(6, 8, MANY), id="aliases by count"),
        pytest.param(_bomb("x" * 1_000_000, uses=9), Refusal(3, 8, MUCH), id="aliases by text"),
        pytest.param(b"a: &a\n  self: *a\n", Refusal(2, 9, SELF), id="an alias of itself"),
        pytest.param(b"- x\n" * 100_000, Refusal(100_000, 3, MANY), id="items"),
        pytest.param(b"---\n" * 100_001, Refusal(10_002, 1, DOCUMENTS), id="documents"),
        pytest.param(b"".join(b"- &a%d x\n" % n for n in range(99_999)), 1, id="anchors"),
        pytest.param(
            b"".join(b"%%TAG !%d! x\n" % n for n in range(300_000)),
            Refusal(101, 1, "holds more than 100 %TAG directives; remove them"),
            id="directives",
        ),
        pytest.param(b"a: " + b"9" * 5_000_000, Refusal(1, 4, OUT), id="a long integer"),
        pytest.param(b"a: 0x" + b"f" * 5_000_000, Refusal(1, 4, OUT), id="a long hexadecimal integer"),
        pytest.param(b"a: ." + b"9" * 5_000_000, 1, id="a long fraction"),
        pytest.param(b"a: " + b"x" * 5_000_000, 1, id="a long text"),
        pytest.param(b'a: "' + b"x " * 2_500_000, Refusal(1, 5_000_005, QUOTE), id="a quote that never closes"),
        pytest.param(b" " * 5_000_000, 0, id="spaces"),
        pytest.param(b"#\n" * 2_500_000, 0, id="comments"),
        pytest.param(b"a: 1\n\0b: 2\n", Refusal(2, 1, NUL), id="text after a NUL"),
        pytest.param(b"\xff" * 1000, Refusal(1, 1, "is not UTF-8 text (byte 0xFF); save it as UTF-8"), id="not UTF-8"),
    ],
)
def test_yaml_survives(data: bytes, expected: Refusal | int) -> None:
    assert reads.outcome_of_a_process(data, syntax=Syntax.YAML) == expected


J_MANY = "holds more than 100,000 values and keys; split it"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"[" * 100_000, Refusal(1, 101, DEEP), id="lists"),
        pytest.param(b"[\r\n" * 100_000, Refusal(101, 1, DEEP), id="lists in lines"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, Refusal(1, 101, DEEP), id="closed lists"),
        pytest.param(b'{"a":' * 100_000, Refusal(1, 501, DEEP), id="mappings"),
        pytest.param(b'["]]]]",' * 100_000, Refusal(1, 801, DEEP), id="lists with brackets in texts"),
        pytest.param(b"]" * 100_000, Refusal(1, 1, "is not valid JSON: expecting value here"), id="closing brackets"),
        pytest.param(b"[" + b"1," * 100_000 + b"1]", Refusal(1, 200_000, J_MANY), id="items"),
        pytest.param(b'[{"[' + b"," * 200_000 + b'": 1}]', 1, id="a key of commas"),
        pytest.param(b"[" + b"9" * 5_000_000 + b"]", Refusal(1, 2, OUT), id="a long integer"),
        pytest.param(b"[0." + b"9" * 5_000_000 + b"]", 1, id="a long fraction"),
        pytest.param(b'["' + b"x" * 5_000_000 + b'"]', 1, id="a long text"),
        pytest.param(
            b'["' + b'\\"' * 2_500_000,
            Refusal(1, 2, "is not valid JSON: unterminated string starting here"),
            id="a quote that never closes",
        ),
        pytest.param(b"[" * 99 + b'"\\"[[[' * 800_000, Refusal(1, 107, AFTER), id="brackets and quotes"),
        pytest.param(b"\\" * 5_000_000, Refusal(1, 1, "is not valid JSON: expecting value here"), id="backslashes"),
        pytest.param(b" " * 5_000_000, 0, id="spaces"),
        pytest.param(b'{"a": 1}\0', Refusal(1, 9, NUL), id="NUL"),
    ],
)
def test_json_survives(data: bytes, expected: Refusal | int) -> None:
    assert reads.outcome_of_a_process(data, syntax=Syntax.JSON) == expected


@pytest.mark.parametrize("syntax", list(Syntax))
def test_a_text_over_the_limit_is_refused_before_anything_looks_at_it(syntax: Syntax) -> None:
    data = b"[" * 50_000_000
    begin = time.process_time()

    refusal = reads.refusal(data, syntax=syntax)

    message = "holds 50,000,000 bytes and the limit is 5,242,880; split it into smaller ones"
    assert refusal == (1, 1, message)
    assert time.process_time() - begin < 0.05  # seconds; parsing as much takes longer by far


@pytest.mark.parametrize("syntax", list(Syntax))
def test_a_text_as_large_as_the_limit_is_read(syntax: Syntax) -> None:
    exact = b'"' + b"x" * (FILE_LIMITS.bytes - 2) + b'"'

    assert reads.value(exact, syntax=syntax) == "x" * (FILE_LIMITS.bytes - 2)
    assert reads.refusal(exact + b" ", syntax=syntax)[:2] == (1, 1)


def test_deep_nesting_is_no_matter_for_the_stack_when_the_limit_allows_it() -> None:
    value = reads.value("[" * 5_000 + "]" * 5_000, limits=TextLimits(depth=5_000))

    depth = 0
    while value:
        assert isinstance(value, list)
        (value,) = value
        depth += 1
    assert depth == 4_999
