"""Documents and the positions of their parts, from YAML or JSON text. `yaml_documents` reads YAML; this reads JSON.

The standard library parses JSON. A walk over the tokens finds what it does not report: the place of a violation, all
positions, and if a large text is within the limits, before anything is built.
"""

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
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
    refusal_at,
    shown,
)
from reconciler.model.values import Document, Value

__all__ = ["Document", "DocumentError", "Locations", "Position", "Syntax", "locate", "read", "syntax_of"]


class Syntax(StrEnum):
    """The syntax of a text."""

    YAML = "yaml"
    JSON = "json"


_SUFFIXES = {".yaml": Syntax.YAML, ".yml": Syntax.YAML, ".json": Syntax.JSON}


def syntax_of(path: str) -> Syntax | None:
    """Return the syntax by the suffix of a path, in upper or lower case; None for any other file."""
    return _SUFFIXES.get(f".{path.rpartition('.')[2].lower()}") if "." in path else None


def read(data: bytes, *, syntax: Syntax, limits: TextLimits) -> list[Document]:
    """Return the non-empty documents of the text. Raises DocumentError, and nothing else, if it cannot be read.

    An empty or blank text gives an empty list, so a caller that needs a document must check.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.documents(text, limits=limits)
    return _json_documents(text, limits=limits)


def locate(data: bytes, *, syntax: Syntax, limits: TextLimits) -> Locations:
    """Return the positions in a text that `read` has accepted.

    This is a second parse, so use it only for texts with messages. For a text that `read` refuses, it raises
    DocumentError or returns the positions of the readable part.
    """
    text = positions.decode_text(data, limits=limits)
    if syntax is Syntax.YAML:
        return yaml_documents.locate(text, limits=limits)
    return _locate_json(text, limits=limits)


# An unterminated string extends to the end of the text, so that no quote is examined twice.
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_TOKEN: Final = re.compile(rf'{_STRING.pattern}|[\[\]{{}},:]|[^\s\[\]{{}},:"]+', re.DOTALL)
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")
_MARKS: Final = frozenset("[]{},:")
_DIGITS: Final = frozenset("-0123456789")
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F])|.)", re.DOTALL
)


@dataclass(slots=True)
class _Walk:
    """One pass over a text. The parser checks the syntax; this raises DocumentError at the first other violation.

    `open` has the keys of each open mapping so far, and None for each open list.
    """

    text: str
    limits: TextLimits
    lines: Lines
    recorder: LocationRecorder = field(default_factory=LocationRecorder)
    open: list[set[str] | None] = field(default_factory=list)
    before_key: bool = False
    nodes: int = 0
    size: int = 0  # UTF-8 bytes of strings and keys

    def run(self) -> Locations:
        for token in _TOKEN.finditer(self.text):
            if token[0] in _MARKS:
                self.mark(token[0], token.start())
            else:
                self.scalar(token[0], token.start())
        return self.recorder.finish()

    def mark(self, mark: str, start: int) -> None:
        if mark in "[{":
            if len(self.open) >= self.limits.depth:
                raise self.refused(f"is nested deeper than {self.limits.depth} levels; flatten it", start)
            self.count(start, size=0)
            self.recorder.enter(self.lines.at(start), mapping=mark == "{")
            self.open.append(set() if mark == "{" else None)
        elif mark in "]}" and self.open:
            self.open.pop()
            self.recorder.leave()
        self.before_key = mark in "{," and bool(self.open) and self.open[-1] is not None

    def scalar(self, written: str, start: int) -> None:
        text = self.string(written, start) if written[0] == '"' else ""
        if written[0] in _DIGITS or written in _NO_NUMBERS:
            self.number(written, start)
        self.count(start, size=len(text.encode()))
        self.recorder.scalar(self.lines.at(start), text)
        keys = self.open[-1] if self.before_key else None
        if keys is not None:
            if text in keys:
                raise self.refused(f"the key `{shown(text)}` is there twice; remove one", start)
            keys.add(text)
        self.before_key = False

    def string(self, written: str, start: int) -> str:
        for escape in _ESCAPE.finditer(written) if _SURROGATE.search(written) else ():
            if escape["lone"] is not None:
                message = "half of a surrogate pair is no character; write the whole pair or remove it"
                raise self.refused(message, start + escape.start())
        try:
            return str(json.loads(written))
        except ValueError:
            return ""

    def number(self, written: str, start: int) -> None:
        if written in _NO_NUMBERS:
            raise self.refused("infinity and not-a-number are not JSON; use a number or a text in double quotes", start)
        try:
            (values.integer if written.lstrip("-").isdecimal() else values.decimal)(written)
        except values.NotAScalar as unfit:
            raise self.refused(str(unfit), start) from None
        except ValueError:
            return

    def count(self, start: int, *, size: int) -> None:
        self.nodes += 1
        self.size += size
        if self.nodes > self.limits.nodes:
            raise self.refused(f"holds more than {self.limits.nodes:,} values and keys; split it", start)
        if self.size > self.limits.text:
            raise self.refused(f"holds more than {self.limits.text:,} bytes of text; split it", start)

    def refused(self, message: str, offset: int) -> DocumentError:
        return refusal(message, self.lines.at(offset))


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
    """Return the document of the text; none if the text is blank."""
    begin = len(text) - len(text.lstrip(" \t\n\r"))
    if begin == len(text):
        return []
    if not _fits(text, limits) or _SURROGATE.search(text):
        _locate_json(text, limits=limits)
    try:
        value: Value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        told = error.msg.rstrip(": ").removesuffix(" at")
        message = f"is not valid JSON: {told[0].lower()}{told[1:]} here"
        raise refusal_at(message, text=text, offset=error.pos) from None
    except values.NotAScalar:
        _locate_json(text, limits=limits)
        raise refusal("is not valid JSON", Position(1, 1)) from None
    place = Lines(text[: begin + 1]).at(begin)
    return [Document(value, 0, place.line, place.column)]


def _fits(text: str, limits: TextLimits) -> bool:
    """Return True if the text is certainly within the limits, without building anything. Otherwise a walk is needed."""
    if len(text.encode()) > limits.text:
        return False  # escapes only make strings shorter
    marks = _STRING.sub("", text)
    # Each item except the first follows a comma, and each field's value a colon; the first items count with their
    # containers.
    if sum(map(marks.count, "[{,:")) >= limits.nodes:
        return False
    depths = accumulate(1 if mark in "[{" else -1 for mark in _NO_BRACKETS.sub("", marks))
    return max(depths, default=0) <= limits.depth


def _locate_json(text: str, *, limits: TextLimits) -> Locations:
    """Return all positions in the text."""
    return _Walk(text, limits, Lines(text)).run()
