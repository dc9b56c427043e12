"""Where something stands in a text, and the one error that says so.

Belongs here: positions, turning offsets into them, the error that carries one. Does not: any syntax.
Lines end at LF, CR LF or CR, and columns count characters, as editors do.
"""

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from reconciler.errors import Refused
from reconciler.escaping import visible

_BREAK: Final = re.compile(r"\r\n|\n|\r")
_SHOWN: Final = 60  # characters of a name that an error repeats


class Position(NamedTuple):
    """A 1-based place in a text."""

    line: int
    column: int


class DocumentError(Refused):
    """A text that cannot be read, and where.

    The message is one sentence without the place: the caller, who knows the path, puts `path:line:column: ` before it.
    It may repeat a key, never a value, nor a tag or what only looks like an alias: a secret that nobody quoted may.
    """

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Lines:
    """The lines of one text, for looking up many offsets."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in _BREAK.finditer(text))]

    def at(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)


def refusal(message: str, place: Position) -> DocumentError:
    return DocumentError(message, line=place.line, column=place.column)


def refusal_at(message: str, *, text: str, offset: int) -> DocumentError:
    """The error for a character offset; counts the lines before it, so it is for one error and not for a loop."""
    return refusal(message, Lines(text[: offset + 1]).at(offset))


def shown(name: str) -> str:
    """A key as an error may repeat it: short, on one line, nothing invisible."""
    short = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    return visible(short)
