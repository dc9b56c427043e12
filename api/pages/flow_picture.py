"""The flow of a Configuration as a picture: boxes from sources through processors to destinations. Pure.

All sources meet in one point, so that the picture has as many lines as components. Units are those of the SVG.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

WIDTH, HEIGHT, GAP, BETWEEN, MARGIN = 184, 44, 36, 14, 8
MOST = 40  # sources, and as many destinations
LETTERS = 22  # of a name in a box


class Box(NamedTuple):
    """A component: `detail` is a second line, `page` where it leads, `tone` its colour."""

    x: int
    y: int
    name: str
    detail: str
    page: str
    tone: str

    @property
    def label(self) -> str:
        """The name, cut to what fits."""
        return self.name if len(self.name) <= LETTERS else f"{self.name[: LETTERS - 1]}…"


class Picture(NamedTuple):
    """Boxes, the paths of lines between them, and the size. `left_out` components are not drawn."""

    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    width: int
    height: int
    left_out: int


Describe = Callable[[str, Mapping[str, Any]], tuple[str, str, str, str]]
"""Returns the name, detail, page and tone of a component of a kind."""


def draw(spec: Mapping[str, Any], describe: Describe) -> Picture:
    """Draw the flow of a Configuration's spec."""
    sources, destinations = components(spec, "sources"), components(spec, "destinations")
    left_out = max(0, len(sources) - MOST) + max(0, len(destinations) - MOST)
    rows_in = [[("Source", one), *_own(one)] for one in sources[:MOST]]
    rows_out = [[*_own(one), ("Destination", one)] for one in destinations[:MOST]]
    common = [("Processor", one) for one in components(spec, "processors")]
    rows = max(len(rows_in), len(rows_out), 1)
    height = rows * (HEIGHT + BETWEEN) - BETWEEN + 2 * MARGIN
    middle = height // 2
    boxes: list[Box] = []
    lines: list[str] = []

    def row(drawn: Sequence[tuple[str, Mapping[str, Any]]], x: int, y: int) -> tuple[int, int]:
        """Draw boxes from left to right; return where the row begins and ends."""
        for number, (kind, one) in enumerate(drawn):
            place = x + number * (WIDTH + GAP)
            if number:
                lines.append(_line(place - GAP, y, place, y))
            boxes.append(Box(place, y - HEIGHT // 2, *describe(kind, one)))
        return x, x + len(drawn) * (WIDTH + GAP) - GAP

    def heights(count: int) -> list[int]:
        """Return the heights of the middles of rows, centred in the picture."""
        top = middle - (count * (HEIGHT + BETWEEN) - BETWEEN) // 2 + HEIGHT // 2
        return [top + number * (HEIGHT + BETWEEN) for number in range(count)]

    ends = [(row(one, MARGIN, y)[1], y) for one, y in zip(rows_in, heights(len(rows_in)), strict=True)]
    x = max((end for end, _ in ends), default=MARGIN) + GAP
    lines += [_line(end, y, x, middle) for end, y in ends]
    if common:
        lines.append(_line(x, middle, x + GAP, middle))
        x = row(common, x + GAP, middle)[1] + GAP
        lines.append(_line(x - GAP, middle, x, middle))
    widest = max((len(one) for one in rows_out), default=0)
    for one, y in zip(rows_out, heights(len(rows_out)), strict=True):
        begin, _ = row(one, x + GAP + (widest - len(one)) * (WIDTH + GAP), y)
        lines.append(_line(x, middle, begin, y))
    width = x + (GAP + widest * (WIDTH + GAP) - GAP if widest else 0) + MARGIN
    return Picture(tuple(boxes), tuple(lines), width, height, left_out)


def components(spec: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Return the components in one part of a spec, such as `sources`."""
    found = spec.get(part)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _own(component: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [("Processor", one) for one in components(component, "processors")]


def _line(x: int, y: int, to_x: int, to_y: int) -> str:
    """Return a path from one point to another that is horizontal at both ends."""
    bend = (to_x - x) // 2
    return f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
