"""Broken rules of a document, their places, and sentences about them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from reconciler.model import text
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value, pointer_text

LONGEST_POINTER = 400  # characters shown of a pointer, since keys come from outside


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. The message never holds the value that broke it, which may be a secret.

    `pointer` may lead to something that is missing. `at_key`: the key itself is wrong, not the value under it.
    `of_parameter`: a parameter is missing, unknown, or has a bad value; only such violations pass with `acceptInvalid`.
    `recent`: earlier versions of the service had no such rule, so a stored document that breaks it stays as it is.
    `of_unknown`: the parameter has no definition, which may be only a warning.
    """

    pointer: Pointer
    message: str
    at_key: bool = False
    of_parameter: bool = False
    recent: bool = False
    of_unknown: bool = False


class Place(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A place in a repository; line and column count from 1. Its text is safe in a sentence."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{visible(self.path)}:{self.line}:{self.column}"


def lines(violations: Sequence[Violation], place_of: Callable[[Violation], str]) -> str:
    """Return the violations as text, one in each line, in the given order.

    `place_of` gives the text before the pointer (`teams/a.yaml:10:14`), or '' without a file.
    """
    return "\n".join(text.bounded(_line(violation, place_of(violation)) for violation in violations))


def in_document_order(violations: Iterable[Violation], value: Value) -> tuple[Violation, ...]:
    """Return the violations in the order of the document, then by message, each once. Missing parts come after existing
    ones.
    """
    positions: dict[int, dict[str, int]] = {}

    def order(violation: Violation) -> tuple[tuple[float, ...], str, str]:
        pointer = violation.pointer
        return (_order(pointer, value, positions), pointer_text(pointer), violation.message)

    return tuple(sorted(dict.fromkeys(violations), key=order))


def _line(violation: Violation, place: str) -> str:
    return visible(": ".join(part for part in (place, _shown(violation.pointer), violation.message) if part))


def _shown(pointer: Pointer) -> str:
    """Return the pointer as text; a long one is cut at its end."""
    text = pointer_text(pointer)
    return text if len(text) <= LONGEST_POINTER else text[:LONGEST_POINTER] + "…"


def _order(pointer: Pointer, value: Value, positions: dict[int, dict[str, int]]) -> tuple[float, ...]:
    """Return the index of each step of a pointer among its siblings, infinite for a missing one. `positions` caches the
    order of each mapping's keys by the mapping's id, because searching for each key again takes quadratic time.
    """
    order: list[float] = []
    for step in pointer:
        if isinstance(value, dict) and step in value and isinstance(step, str):
            if id(value) not in positions:
                positions[id(value)] = {key: index for index, key in enumerate(value)}
            order.append(positions[id(value)][step])
            value = value[step]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            order.append(step)
            value = value[step]
        else:
            order.append(float("inf"))
            break
    return tuple(order)
