"""Text in either syntax to documents, and to the places of their parts. `yaml_documents` reads YAML; JSON is read here.

A fast parser reads JSON. If it refuses the text, or a place is needed, a slow and exact walk finds the first violation
with its position, or the positions of everything.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import accumulate
from typing import Final, NoReturn

from reconciler.model import positions, values, yaml_documents
from reconciler.model.positions import (
    DocumentError,
    Lines,
    LocationRecorder,
    Locations,
    Position,
    TextLimits,
    refusal,
    shown,
)
from reconciler.model.values import Document, Value

__all__ = ["Document", "DocumentError", "Locations", "Position", "Syntax", "locate", "read", "syntax_of"]


class Syntax(StrEnum):
    """How a text is written."""

    YAML = "yaml"
    JSON = "json"


_SUFFIXES = {".yaml": Syntax.YAML, ".yml": Syntax.YAML, ".json": Syntax.JSON}


def syntax_of(path: str) -> Syntax | None:
    """Return the syntax that a path's ending names, in upper or lower case; None for any other file."""
    return _SUFFIXES.get(f".{path.rpartition('.')[2].lower()}") if "." in path else None


def read(data: bytes, *, syntax: Syntax, limits: TextLimits) -> list[Document]:
    """The documents of the text that are not empty; raises DocumentError, and nothing else, for what it cannot read.

    No text at all, or only space, gives an empty list in either syntax: who needs a document has to check.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.documents(text, limits=limits)
    return _json_documents(text, limits=limits)


def locate(data: bytes, *, syntax: Syntax, limits: TextLimits) -> Locations:
    """The positions in a text that `read` has accepted.

    A second parse, so it is for texts with something to report. A text that `read` refuses gives a DocumentError or
    the positions of what could be made out.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.locate(text, limits=limits)
    return _locate_json(text, limits=limits)


_TOKEN: Final = re.compile(
    r"""[ \t\n\r]*(?:
      (?P<mark>[\[\]{},:])
    | (?P<quote>")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))
    | (?P<word>-?[A-Za-z]+)
    )?""",
    re.VERBOSE,
)
_STRINGS: Final = json.JSONDecoder()
_CONTROLS: Final = frozenset(map(chr, range(0x20)))
_WORDS: Final = frozenset({"true", "false", "null"})
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F])|.)", re.DOTALL
)


class _State(Enum):
    """The tokens that may come next; the value says it to a person."""

    VALUE = "a value"
    FIRST_ITEM = "a value or `]`"
    FIRST_KEY = "a key in double quotes or `}`"
    KEY = "a key in double quotes"
    COLON = "`:`"
    AFTER_ITEM = "`,` or `]`"
    AFTER_FIELD = "`,` or `}`"
    END = "the end of the text"


_BEFORE_VALUE: Final = frozenset({_State.VALUE, _State.FIRST_ITEM})
_BEFORE_KEY: Final = frozenset({_State.KEY, _State.FIRST_KEY})
_MARKS: Final = {
    "[": _BEFORE_VALUE,
    "{": _BEFORE_VALUE,
    "]": {_State.FIRST_ITEM, _State.AFTER_ITEM},
    "}": {_State.FIRST_KEY, _State.AFTER_FIELD},
    ",": {_State.AFTER_ITEM, _State.AFTER_FIELD},
    ":": {_State.COLON},
}


@dataclass(slots=True)
class _Walk:
    """One pass; `open` holds the keys of each open mapping so far, and None for each open list."""

    text: str
    limits: TextLimits
    lines: Lines
    recorder: LocationRecorder | None  # None: only violations matter
    open: list[set[str] | None]
    state: _State = _State.VALUE
    nodes: int = 0
    size: int = 0  # UTF-8 bytes of strings and keys

    def run(self) -> None:
        end = 0
        while True:
            token = _TOKEN.match(self.text, end)
            if token is None:  # every part is optional, so this cannot be
                raise self.unexpected(end)
            start, end = token.start(token.lastgroup or 0), token.end()
            if token["mark"] is not None:
                self.mark(token["mark"], start)
            elif token["quote"] is not None:
                end = self.string(start)
            elif token["number"] is not None:
                self.number(token)
            elif token["word"] is not None:
                self.word(token["word"], start)
            elif end == len(self.text) and self.state is _State.END:
                return
            else:
                raise self.unexpected(end)

    def mark(self, mark: str, start: int) -> None:
        if self.state not in _MARKS[mark]:
            raise self.unexpected(start)
        if mark in "[{":
            if len(self.open) >= self.limits.depth:
                raise self.refused(f"is nested deeper than {self.limits.depth} levels; flatten it", start)
            self.count(start, size=0)
            if self.recorder is not None:
                self.recorder.enter(self.lines.at(start), mapping=mark == "{")
            self.open.append(set() if mark == "{" else None)
            self.state = _State.FIRST_KEY if mark == "{" else _State.FIRST_ITEM
        elif mark in "]}":
            self.open.pop()
            if self.recorder is not None:
                self.recorder.leave()
            self.after()
        elif mark == ":":
            self.state = _State.VALUE
        else:
            self.state = _State.KEY if self.state is _State.AFTER_FIELD else _State.VALUE

    def string(self, start: int) -> int:
        """A key or a text, and where it ends; the standard library's scanner says where one fails."""
        if self.state not in _BEFORE_VALUE and self.state not in _BEFORE_KEY:
            raise self.unexpected(start)
        try:
            written, end = _STRINGS.raw_decode(self.text, start)
            size = len(written) if written.isascii() else len(written.encode())
        except json.JSONDecodeError as error:
            raise self.broken(start, error.pos) from None
        except UnicodeEncodeError:
            lone = lone_surrogate(self.text, start)
            raise self.refused(
                "half of a surrogate pair is no character; write the whole pair or remove it", lone or start
            ) from None
        self.count(start, size=size)
        self.scalar(start, written)
        if self.state in _BEFORE_KEY:
            keys = self.open[-1]
            if keys is None or written in keys:
                raise self.refused(f"the key `{shown(written)}` is there twice; remove one", start)
            keys.add(written)
            self.state = _State.COLON
        else:
            self.after()
        return end

    def number(self, token: "re.Match[str]") -> None:
        start = token.start("number")
        self.value(start)
        try:
            (values.decimal if token["fraction"] else values.integer)(token["number"])
        except values.NotAScalar as unfit:
            raise self.refused(str(unfit), start) from None

    def word(self, word: str, start: int) -> None:
        if word in _NO_NUMBERS:
            raise self.refused("infinity and not-a-number are not JSON; use a number or a text in double quotes", start)
        if word not in _WORDS:
            raise self.unexpected(start)
        self.value(start)

    def value(self, start: int) -> None:
        """A scalar that is no string."""
        if self.state not in _BEFORE_VALUE:
            raise self.unexpected(start)
        self.count(start, size=0)
        self.scalar(start, "")
        self.after()

    def scalar(self, start: int, written: str) -> None:
        if self.recorder is not None:
            self.recorder.scalar(self.lines.at(start), written)

    def after(self) -> None:
        """Expect what may follow a finished value."""
        if not self.open:
            self.state = _State.END
        else:
            self.state = _State.AFTER_ITEM if self.open[-1] is None else _State.AFTER_FIELD

    def count(self, start: int, *, size: int) -> None:
        self.nodes += 1
        self.size += size
        if self.nodes > self.limits.nodes:
            raise self.refused(f"holds more than {self.limits.nodes:,} values and keys; split it", start)
        if self.size > self.limits.text:
            raise self.refused(f"holds more than {self.limits.text:,} bytes of text; split it", start)

    def broken(self, start: int, end: int) -> DocumentError:
        """Why a string is none, from where the scanner gave up."""
        if end == start:
            return self.refused("is not valid JSON: the text ends inside a string; close the quote", start)
        if self.text[end : end + 1] in _CONTROLS:
            return self.refused("is not valid JSON: a line break or control character in a string; escape it", end)
        escape = self.text.rindex("\\", start, end + 1)
        return self.refused("is not valid JSON: no such escape; write a backslash as `\\\\`", escape)

    def unexpected(self, offset: int) -> DocumentError:
        return self.refused(f"is not valid JSON: expected {self.state.value} here", offset)

    def refused(self, message: str, offset: int) -> DocumentError:
        return refusal(message, self.lines.at(offset))


def walk_json(text: str, *, limits: TextLimits, recorder: LocationRecorder | None = None) -> None:
    """Tell the recorder about every value of the text; DocumentError at the first violation, in the text's order."""
    _Walk(text=text, limits=limits, lines=Lines(text), recorder=recorder, open=[]).run()


def lone_surrogate(text: str, start: int) -> int | None:
    """The offset of the first escape from there on that is half of a surrogate pair."""
    for escape in _ESCAPE.finditer(text, start):
        if escape["lone"] is not None:
            return escape.start()
    return None


def first_place(text: str) -> Position | None:
    """Return the beginning of the value; None if there is only white space."""
    begin = len(text) - len(text.lstrip(" \t\n\r"))
    return None if begin == len(text) else Lines(text[: begin + 1]).at(begin)


_SPACE: Final = dict.fromkeys(map(ord, " \t\n\r"))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise values.NotAScalar("a key is there twice")
    return fields


def _no_number(_word: str) -> NoReturn:
    raise values.NotAScalar("infinity and not-a-number are not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=values.integer,
    parse_float=values.decimal,
    parse_constant=_no_number,
)


def _json_documents(text: str, *, limits: TextLimits) -> list[Document]:
    """The one document of the text, or none when it is only white space."""
    place = first_place(text)
    if place is None:
        return []
    if not _fits(text, limits):
        walk_json(text, limits=limits)
    try:
        value: Value = _DECODER.decode(text)
    except (ValueError, values.NotAScalar):
        _explain(text, limits)
    if _SURROGATE.search(text) and lone_surrogate(text, 0) is not None:
        _explain(text, limits)
    return [Document(value, 0, place.line, place.column)]


def _locate_json(text: str, *, limits: TextLimits) -> Locations:
    """The positions of everything in the text."""
    recorder = LocationRecorder()
    if first_place(text) is not None:
        walk_json(text, limits=limits, recorder=recorder)
    return recorder.finish()


def _explain(text: str, limits: TextLimits) -> NoReturn:
    walk_json(text, limits=limits)
    raise refusal("is not valid JSON", Position(1, 1))


def _fits(text: str, limits: TextLimits) -> bool:
    """Return True if the text is surely within the limits, without building anything; otherwise a walk has to tell.

    Many texts are small: with so few marks, wherever they are, no limit can be exceeded. Only for others are the
    strings removed, so that the remaining marks belong to the structure. Text that is not JSON may get either answer,
    but the parser never meets more levels than were counted here.
    """
    if len(text) * 4 > limits.text and len(text.encode()) > limits.text:
        return False  # escapes only make strings shorter, so nothing less needs a closer look
    opening = text.count("[") + text.count("{")
    if opening <= limits.depth and opening + text.count(",") + text.count(":") < limits.nodes:
        return True
    bare = _without_strings(text).translate(_SPACE)
    opening = bare.count("[") + bare.count("{")
    if bare.count("]") + bare.count("}") != opening:
        return False
    # Each item but the first follows a comma, each field's value a colon; the first ones are the containers' own.
    nodes = 1 + bare.count(",") + bare.count(":") + opening - bare.count("[]") - bare.count("{}")
    if nodes > limits.nodes:
        return False
    depths = accumulate(map(_STEPS.__getitem__, bare.encode().translate(None, _NO_BRACKETS)))
    return max(depths, default=0) <= limits.depth


def _without_strings(text: str) -> str:
    """The text with a single quote mark in the place of each string."""
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    return '"'.join(unescaped.split('"')[::2])
