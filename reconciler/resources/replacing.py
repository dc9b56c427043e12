"""Copies of documents with other values at some places; all else is shared with the original.

Belongs here: copying what leads to a place, and finding the place that a JSON pointer names. Does not: which places.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast

from reconciler.documents.values import Pointer, Value

Container: TypeAlias = dict[str, Value] | list[Value]


class Copies:
    """A document of which only those lists and mappings are copied, once each, that somebody wants to change."""

    def __init__(self, document: dict[str, Value]) -> None:
        self.document = dict(document)
        self._made: dict[Pointer, Container] = {(): self.document}

    def at(self, pointer: Pointer) -> Container:
        """The copy of the list or mapping that stands at this place of the original; it may be changed."""
        if pointer not in self._made:
            above, step = self.at(pointer[:-1]), pointer[-1]
            self._made[pointer] = copy = cast("Container", child(above, step)).copy()
            put(above, step, copy)
        return self._made[pointer]


def replaced(document: dict[str, Value], values: Mapping[Pointer, Value]) -> dict[str, Value]:
    """The document with these values at these places, none of which is beneath another."""
    if not values:
        return document
    copies = Copies(document)
    for pointer, value in values.items():
        put(copies.at(pointer[:-1]), pointer[-1], value)
    return copies.document


def child(container: Value, step: str | int) -> Value:
    """What one step of a pointer leads to. Raises LookupError when there is nothing."""
    if isinstance(container, list) and isinstance(step, int):
        return container[step]
    if isinstance(container, dict) and isinstance(step, str):
        return container[step]
    raise LookupError("a pointer leads to where its document holds nothing")


def at(value: Value, pointer: Pointer) -> Value:
    """What stands at a place. Raises LookupError when there is nothing."""
    for step in pointer:
        value = child(value, step)
    return value


def put(container: Container, step: str | int, value: Value) -> None:
    """Set what one step of a pointer leads to."""
    if isinstance(container, list):
        container[cast("int", step)] = value
    else:
        container[cast("str", step)] = value


def located(document: Value, text: str) -> Pointer:
    """The place that a JSON pointer (RFC 6901) names in a document that holds it."""
    found: list[str | int] = []
    for part in text.split("/")[1:]:
        step = int(part) if isinstance(document, list) else part.replace("~1", "/").replace("~0", "~")
        document = child(document, step)
        found.append(step)
    return tuple(found)
