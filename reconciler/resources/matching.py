"""Which place of another version of a document a place corresponds to: by names, never by position.

Belongs here: what tells the entries of a list apart. Does not: what is done with what corresponds.

Keys of mappings correspond to equal keys. An entry of a list corresponds to the entry of the same identity, which is
the first of `id`, `name` and `displayName` that it has: parameters have names, components in place an `id` or a
`displayName`. An entry without any, and one whose identity occurs twice in either list, corresponds to nothing.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import TypeAlias

from reconciler.documents.values import Pointer, Value
from reconciler.resources.replacing import at, child

IDENTIFYING = ("id", "name", "displayName")

Identity: TypeAlias = tuple[str, str]  # the key, and what stands under it
Called: TypeAlias = tuple[str, Pointer]  # a parameter's name, and the place inside its value


class Unmatched(Enum):
    """Why a place corresponds to none."""

    ABSENT = auto()
    NAMELESS = auto()
    AMBIGUOUS = auto()


class Matching:
    """Places of one document, looked for in another. Nobody may change the two meanwhile."""

    def __init__(self, document: Value, other: Value) -> None:
        self._document = document
        self._other = other
        # By the list's id: looking through a list anew for each of its entries takes the square of its length.
        self._entries: dict[int, dict[Identity, int | None]] = {}

    def find(self, pointer: Pointer) -> Pointer | Unmatched:
        """The place in the other document; this one holds `pointer`."""
        here, there = self._document, self._other
        found: list[str | int] = []
        for step in pointer:
            next_step = self._step(here, there, step)
            if isinstance(next_step, Unmatched):
                return next_step
            here, there = child(here, step), child(there, next_step)
            found.append(next_step)
        return tuple(found)

    def _step(self, here: Value, there: Value, step: str | int) -> str | int | Unmatched:
        if isinstance(here, list) and isinstance(step, int):
            return self._entry(here, there, step)
        return step if isinstance(there, dict) and step in there else Unmatched.ABSENT

    def _entry(self, here: list[Value], there: Value, position: int) -> int | Unmatched:
        identity = identity_of(here[position])
        if identity is None:
            return Unmatched.NAMELESS
        if not isinstance(there, list) or identity not in self._of(there):
            return Unmatched.ABSENT
        found = self._of(there)[identity]
        return Unmatched.AMBIGUOUS if found is None or self._of(here)[identity] is None else found

    def _of(self, entries: list[Value]) -> dict[Identity, int | None]:
        """The position of each identity in a list; None for one that occurs twice."""
        if id(entries) not in self._entries:
            self._entries[id(entries)] = found = dict[Identity, int | None]()
            for position, entry in enumerate(entries):
                identity = identity_of(entry)
                if identity is not None:
                    found[identity] = None if identity in found else position
        return self._entries[id(entries)]


def called(document: Value, place: Pointer) -> Called | None:
    """What a place in the value of a parameter is called; None outside of one. The document holds the place."""
    steps = range(2, len(place))
    end = next((end for end in steps if place[end] == "value" and place[end - 2] == "parameters"), None)
    parameter = None if end is None else at(document, place[:end])
    name = parameter.get("name") if isinstance(parameter, dict) else None
    return None if end is None or not isinstance(name, str) else (name, place[end + 1 :])


def namesakes(document: Value) -> dict[Called, list[Pointer]]:
    """The values of all parameters, and of a map each value, by what they are called, wherever they stand."""
    found: dict[Called, list[Pointer]] = {}
    for pointer, name, value in _values(document, ()):
        found.setdefault((name, ()), []).append(pointer)
        for key in value if isinstance(value, dict) else ():
            found.setdefault((name, (key,)), []).append((*pointer, key))
    return found


def _values(value: Value, pointer: Pointer) -> Iterator[tuple[Pointer, str, Value]]:
    """The value of each parameter, with its pointer and the parameter's name."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in steps:
        if pointer[-1:] == ("parameters",) and isinstance(each, dict) and "value" in each:
            name = each.get("name")
            if isinstance(name, str):
                yield (*pointer, step, "value"), name, each["value"]
        elif isinstance(each, (dict, list)):
            yield from _values(each, (*pointer, step))


def identity_of(entry: Value) -> Identity | None:
    """What tells an entry of a list from the others."""
    for key in IDENTIFYING if isinstance(entry, dict) else ():
        name = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(name, str) and name:
            return key, name
    return None
