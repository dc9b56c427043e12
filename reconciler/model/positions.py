"""Places in a text, the limits on one text in either syntax, its decoding, and the error that names a place."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Pointer

_BREAK: Final = re.compile(r"\r\n|\n|\r")
_SHOWN: Final = 60  # characters of a name that an error repeats


class Position(NamedTuple):
    """A 1-based place in a text."""

    line: int
    column: int


class DocumentError(Refused):
    """A text that cannot be read, and where.

    The message is one sentence without the place: the caller, who knows the path, puts `path:line:column: ` before it.
    It may repeat a key, but never a value, a tag or a possible alias, because an unquoted secret may look like one.
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
    """Return the error for a character offset. It counts all lines before, so do not call it in a loop."""
    return refusal(message, Lines(text[: offset + 1]).at(offset))


def shown(name: str) -> str:
    """Return a key for an error: short, on one line, without invisible characters."""
    short = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    return visible(short)


@dataclass(slots=True)
class Location:
    """The location of one value: its place, its key's place, and the locations inside it."""

    place: Position
    key: Position | None = None
    inside: "dict[str | int, Location]" = field(default_factory=dict)


class Locations:
    """The positions of every document of one text."""

    def __init__(self, roots: dict[int, Location]) -> None:
        self._roots = roots

    def of(self, index: int, pointer: Pointer, *, at_key: bool = False) -> Position:
        """Return the place of a value, or of its key. If there is nothing at the pointer, this is the place of the
        nearest ancestor. Inside an alias it is the place in the anchored text, where the person must correct it. A
        value without a key (a list item, the root) has its own place. An unknown document has the start of the text.
        """
        spot = self._roots.get(index)
        if spot is None:
            return Position(1, 1)
        for part in pointer:
            inner = spot.inside.get(part)
            if inner is None:
                break
            spot = inner
        return spot.key if at_key and spot.key is not None else spot.place


@dataclass(slots=True)
class _Frame:
    """An open list or mapping; `key` is what the next value of a mapping is for."""

    spot: Location
    mapping: bool
    key: tuple[str, Position] | None = None


class LocationRecorder:
    """Builds the tree of locations from the reader's events in the order of the text."""

    def __init__(self) -> None:
        self._roots: dict[int, Location] = {}
        self._index = 0
        self._open: list[_Frame] = []
        self._anchors: dict[str, tuple[Location, str]] = {}

    def document(self, index: int) -> None:
        self._index = index
        self._anchors.clear()

    def scalar(self, place: Position, text: str, *, anchor: str | None = None) -> None:
        spot = Location(place)
        if anchor is not None:
            self._anchors[anchor] = (spot, text)
        self._put(spot, text)

    def enter(self, place: Position, *, mapping: bool, anchor: str | None = None) -> None:
        spot = Location(place)
        if anchor is not None:
            self._anchors[anchor] = (spot, "")
        self._put(spot, "")
        self._open.append(_Frame(spot, mapping))

    def leave(self) -> None:
        self._open.pop()

    def alias(self, place: Position, name: str) -> None:
        """Add an alias. It has its own place, and shares the inner locations of the anchored value."""
        spot, text = self._anchors.get(name) or (Location(place), "")
        self._put(Location(place, inside=spot.inside), text)

    def finish(self) -> Locations:
        return Locations(self._roots)

    def _put(self, spot: Location, text: str) -> None:
        if not self._open:
            self._roots[self._index] = spot
            return
        frame = self._open[-1]
        if not frame.mapping:
            frame.spot.inside[len(frame.spot.inside)] = spot
        elif frame.key is None:
            frame.key = (text, spot.place)
        else:
            name, spot.key = frame.key
            frame.spot.inside[name] = spot
            frame.key = None


MEBIBYTE: Final = 2**20


@dataclass(frozen=True, slots=True)
class TextLimits:
    """The limits of a reader; the defaults are for a file in Git."""

    bytes: int = 5 * MEBIBYTE  # of the text as it comes; checked before anything is parsed
    depth: int = 100  # lists and mappings inside one another, the outermost included, after aliases
    nodes: int = 100_000  # scalars, keys, lists and mappings of the whole text, an alias at its full size
    documents: int = 10_000  # of one text, empty ones included
    text: int = 16 * MEBIBYTE  # UTF-8 bytes of scalars and keys of the whole text, an alias at its full size


FILE_LIMITS: Final = TextLimits()
REQUEST_NODES: Final = 1_000_000  # ten thousand resources of a hundred nodes each


def limits_of_body(size: int) -> TextLimits:
    """Return the limits for a request body of at most `size` bytes.

    A body carries many resources: ten thousand of a hundred nodes each, and a larger one a node for each 8 bytes. It
    has two more levels than a file, because each resource is in a list in a mapping. So a resource that fits in Git
    also fits through the API.
    """
    return TextLimits(
        bytes=size,
        depth=FILE_LIMITS.depth + 2,
        nodes=max(REQUEST_NODES, size // 8),
        text=max(FILE_LIMITS.text, size),
    )


_MARK: Final = "\ufeff"  # the byte order mark that some editors put before UTF-8


def decode_text(data: bytes, *, limits: TextLimits) -> str:
    """Return the text without its byte order mark. The size is checked first, so a huge input costs nothing."""
    if len(data) > limits.bytes:
        message = f"holds {len(data):,} bytes and the limit is {limits.bytes:,}; split it into smaller ones"
        raise DocumentError(message, line=1, column=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix(_MARK)
        message = f"is not UTF-8 text (byte 0x{data[error.start]:02X}); save it as UTF-8"
        raise refusal_at(message, text=before, offset=len(before)) from None
    text = text.removeprefix(_MARK)
    nul = text.find("\0")
    if nul >= 0:
        raise refusal_at("holds a NUL character, so it is no text file; remove it", text=text, offset=nul)
    return text
