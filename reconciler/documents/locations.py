"""Where each value and key of a text stands, for when something must be reported.

Belongs here: the tree of positions and looking pointers up in it. Does not: parsing (the readers drive `Recorder`),
values. The tree mirrors the document, so pointers cost nothing until one is asked for.
"""

from dataclasses import dataclass, field

from reconciler.documents.positions import Position
from reconciler.documents.values import Pointer


@dataclass(slots=True)
class Spot:
    """One value: its place, its key's place and what is inside it."""

    place: Position
    key: Position | None = None
    inside: "dict[str | int, Spot]" = field(default_factory=dict)


class Locations:
    """The positions of every document of one text."""

    def __init__(self, roots: dict[int, Spot]) -> None:
        self._roots = roots

    def of(self, index: int, pointer: Pointer, *, at_key: bool = False) -> Position:
        """Where the value stands, or its key; of the nearest ancestor when the pointer leads nowhere.

        Inside an alias the answer is the place in the anchored text: there the person has to change something. What
        has no key (a list item, the root) answers with its own place, an unknown document with the text's start.
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

    spot: Spot
    mapping: bool
    key: tuple[str, Position] | None = None


class Recorder:
    """Builds the tree from what a reader meets, in the order of the text."""

    def __init__(self) -> None:
        self._roots: dict[int, Spot] = {}
        self._index = 0
        self._open: list[_Frame] = []
        self._anchors: dict[str, tuple[Spot, str]] = {}

    def document(self, index: int) -> None:
        self._index = index
        self._anchors.clear()

    def scalar(self, place: Position, text: str, *, anchor: str | None = None) -> None:
        spot = Spot(place)
        if anchor is not None:
            self._anchors[anchor] = (spot, text)
        self._put(spot, text)

    def enter(self, place: Position, *, mapping: bool, anchor: str | None = None) -> None:
        spot = Spot(place)
        if anchor is not None:
            self._anchors[anchor] = (spot, "")
        self._put(spot, "")
        self._open.append(_Frame(spot, mapping))

    def leave(self) -> None:
        self._open.pop()

    def alias(self, place: Position, name: str) -> None:
        """An alias has its own place, and shares what is inside the anchored value."""
        spot, text = self._anchors.get(name) or (Spot(place), "")
        self._put(Spot(place, inside=spot.inside), text)

    def finish(self) -> Locations:
        return Locations(self._roots)

    def _put(self, spot: Spot, text: str) -> None:
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
