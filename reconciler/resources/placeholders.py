"""`(sensitive)` where a value should be: finding it, and doing without it.

Belongs here: the literal itself, wherever it stands for a value or inside one. Does not: what it stands for
(`restoring`).
"""

from collections.abc import Iterable, Iterator
from typing import cast

from reconciler.documents.values import Pointer, Value
from reconciler.resources import replacing
from reconciler.resources.parameters import MASK


def find(document: dict[str, Value]) -> tuple[Pointer, ...]:
    """Where a document holds `(sensitive)` as a value of a parameter or somewhere inside one, in document order."""
    return tuple(_literals(document["spec"], ("spec",), within=False))


def _literals(value: Value, pointer: Pointer, *, within: bool) -> Iterator[Pointer]:
    if within and value == MASK:
        yield pointer
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _literals(each, (*pointer, key), within=within or key == "value")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _literals(each, (*pointer, index), within=within)


def without(document: dict[str, Value], places: Iterable[Pointer]) -> dict[str, Value]:
    """The document without the values at these places, as if their parameters, or keys of maps, had been left out."""
    copies = replacing.Copies(document)
    leaving: dict[Pointer, set[str | int]] = {}
    for place in places:
        whole = _whole(place)
        leaving.setdefault(whole[:-1], set()).add(whole[-1])
    # Every copy is made before the first entry goes and the positions of others change.
    containers = [(copies.at(pointer), steps) for pointer, steps in leaving.items()]
    for container, steps in containers:
        if isinstance(container, list):
            container[:] = [each for position, each in enumerate(container) if position not in steps]
        else:
            for step in steps:
                del container[cast("str", step)]
    return copies.document


def _whole(place: Pointer) -> Pointer:
    """What goes when the value at a place does: the entry of a map, or the whole parameter."""
    for end in range(2, len(place)):
        if place[end] == "value" and isinstance(place[end - 1], int):
            is_entry = len(place) > end + 1 and isinstance(place[end + 1], str)
            return place[: end + 2] if is_entry else place[:end]
    return place
