"""Shapes of YAML texts: what many files share that differ in nothing but simple values.

Belongs here: taking simple values out of a text, and putting them into what libyaml made of a text of the same shape.
Does not: YAML. What a text means is libyaml's alone to say; this module knows one thing of it, that exchanging one
simple value for another changes that value and nothing else.

A simple value stands between `: ` and the end of its line, in characters that there mean nothing but themselves; the
rest of the text, character for character, is its shape. The second text of a shape is read once more, with marks in
the places of its values. A mark holds every character that would end or change a value anywhere but where simple ones
may be exchanged, as in a flow list or a longer text: it has to come back whole and alone, or the shape is of no use.
Whatever is not simple, not within the limits, or wrong takes the usual way, which also tells what is wrong.
"""

import re
import string
from collections.abc import Callable
from typing import Final, NamedTuple, cast

import msgspec

from reconciler.documents import scalars
from reconciler.documents.limits import FILE, Limits
from reconciler.documents.positions import DocumentError
from reconciler.documents.values import Document, Value

MOST_CHARACTERS: Final = 4_096  # of a text that is looked at; the limits of a file allow far more of everything
_MOST_SHAPES: Final = 512
_MOST_SEEN: Final = 8_192  # hashes of texts that may be the first of their shape
_FREE: Final = 64  # shapes learned before any has been of use
_LOOKS: Final = 200  # in a row that were in vain, after which so many texts are not looked at:
_REST: Final = 1_000
_USES: Final = 4  # of shapes, for each further one: to learn one takes longer than to read a text

# No plain value begins like anything else, or holds `: ` or `#`; none of the three holds what JSON escapes.
# What ends with `,`, `]` or `}` is the end of a flow list or mapping far more often than a value.
_TEXT: Final = r"-?[A-Za-z0-9/_$.][ !$-9;-\[\]-~]*+(?::[!$-9;-\[\]-~][ !$-9;-\[\]-~]*+)*+(?<![ ,\]}])"
_REFERENCE: Final = r"\$\{[A-Za-z0-9_:./-]+\}"
_DOUBLE: Final = r'"[ !#-\[\]-~]*+"'
_SINGLE: Final = r"'[ !#-&(-\[\]-~]*+'"
_VALUE: Final = re.compile(rf": ({_TEXT}|{_REFERENCE}|{_DOUBLE}|{_SINGLE})(?![^\r\n])")
_CUT: Final = "\0"  # where a value was: no text holds it
_TEXTUAL: Final = frozenset(string.ascii_letters + "/_$") - scalars.FIRST  # what a plain value that is text begins with
_SHORT: Final = 19  # digits: the first number of characters that 64 bits may not hold

_FAR_REACHING: Final = re.compile("[&!%]")  # anchors, tags, directives; also where they are none
_MARK: Final = "zz%04dzz"
_MARKED: Final = re.compile("zz[0-9]{4}zz")
_MARKS: Final = {  # by quote; a dot stands for none
    ".": _MARK + "/a:b, c, [d], {e} - f ? g:[h] 'i' !&*|>@%%`",
    '"': '"' + _MARK + ": # , [a], {b} - c ? 'd' !&*|>@%%`\"",
    "'": "'" + _MARK + ": # , [a], {b} - c ? !&*|>@%%`'",
}

_DECODER: Final = msgspec.json.Decoder(list[object])
_ENCODER: Final = msgspec.json.Encoder()

Read = Callable[[str, Limits], list[Document]]


class _Shape(NamedTuple):
    """What libyaml made of a text: all documents as one list in JSON, with gaps where values stand."""

    pieces: tuple[str, ...]  # every second one is a gap
    numbers: tuple[int, ...]  # of the value for each gap; those in comments have none
    places: tuple[tuple[int, int, int], ...]  # index, line and column of each document


class Shapes:
    """The shapes that were met, as far as they pay. Threads may share it."""

    def __init__(self, read: Read) -> None:
        """`read` is the usual way."""
        self._read = read
        self._seen: set[int] = set()
        self._known: dict[tuple[str, str], _Shape | None] = {}
        self._learned = self._used = self._vain = 0

    def documents(self, text: str, limits: Limits) -> list[Document]:
        """What the usual way gives for the text, its errors included."""
        if limits is FILE and len(text) <= MOST_CHARACTERS and self._is_worth_a_look():
            parts = _VALUE.split(text)
            values = parts[1::2]
            key = (_CUT.join(parts[::2]), "".join([value[0] if value[0] in _MARKS else "." for value in values]))
            shape = self._known.get(key) or self._met(key)
            if shape is not None and (found := _filled(shape, values)) is not None:
                self._used += 1
                self._vain = 0
                return found
        return self._read(text, limits)

    def _is_worth_a_look(self) -> bool:
        """Where hardly two texts have one shape, a look at each costs a sixth of reading it; so most are spared it."""
        self._vain += 1
        if self._vain > _LOOKS + _REST:
            self._vain = 0
        return self._vain <= _LOOKS

    def _met(self, key: tuple[str, str]) -> _Shape | None:
        """The shape of a text that is not the first to have it, as long as shapes are of use."""
        if key in self._known:
            return None
        if hash(key) not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(hash(key))
            return None
        if self._learned >= _FREE + self._used // _USES:
            return None
        if len(self._known) >= _MOST_SHAPES:
            self._known.clear()
        self._learned += 1
        shape = self._known[key] = _learned(*key, self._read)
        return shape


def _learned(text: str, quotes: str, read: Read) -> _Shape | None:
    """The shape of a text without its values; None when they may not be exchanged."""
    around = text.split(_CUT)
    if len(around) != len(quotes) + 1 or _FAR_REACHING.search(text) is not None:
        return None
    marks = [_MARKS[quote] % number for number, quote in enumerate(quotes)]
    marked = around[0] + "".join(f": {mark}{after}" for mark, after in zip(marks, around[1:], strict=True))
    try:
        documents = read(marked, FILE)
        encoded = _ENCODER.encode([document.value for document in documents]).decode()
    except (DocumentError, UnicodeEncodeError):
        return None
    pieces, numbers = [encoded], []
    for number, mark in enumerate(marks):
        before, found, after = pieces[-1].partition(_json(mark))
        if found:
            pieces[-1:] = before, "", after
            numbers.append(number)
    # A mark that is left is part of a longer text; one before a colon is a key.
    if any(_MARKED.search(piece) or piece.startswith(":") for piece in pieces):
        return None
    shape = _Shape(tuple(pieces), tuple(numbers), tuple((one.index, one.line, one.column) for one in documents))
    # As texts, which tell 1 from 1.0 and True.
    return shape if str(_values(shape, marks)) == str([document.value for document in documents]) else None


def _filled(shape: _Shape, values: list[str]) -> list[Document] | None:
    """The documents with these values; None when one of them is not fit for a document."""
    try:
        found = _values(shape, values)
    except scalars.Unfit:
        return None
    return [Document(value, *place) for value, place in zip(found, shape.places, strict=True)]


def _values(shape: _Shape, values: list[str]) -> list[Value]:
    """What the documents hold with these values. Raises Unfit."""
    if len(values) != len(shape.numbers):
        values = [values[number] for number in shape.numbers]
    pieces = list(shape.pieces)
    pieces[1::2] = [f'"{value}"' if value[0] in _TEXTUAL else _json(value) for value in values]
    return cast("list[Value]", _DECODER.decode("".join(pieces)))


def _json(value: str) -> str:
    """A value as JSON. Raises Unfit."""
    head = value[0]
    if head == '"':
        return value
    if head == "'":
        return f'"{value[1:-1]}"'
    if value.isdecimal() and head != "0" and len(value) < _SHORT:
        return value
    scalar = scalars.plain(value) if head in scalars.FIRST else value
    return _ENCODER.encode(scalar).decode()
