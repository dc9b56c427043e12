"""One field that differs as lines that a person reads.

Belongs here: how values look, how much of a long one is shown. Does not: what differs (that is in the plan), which
signs a format has for it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from reconciler.model.plan import SENSITIVE, SENSITIVE_CHANGED, CutText, PlanDifference, PlanField, PlanPlace
from reconciler.model.text import counted
from reconciler.plans import comparing
from reconciler.plans.showing import LINE, VALUE, PlanLine, clean_text, where

TEXT_LINES = 40  # lines of one text's difference
ELEMENTS = 20  # of a list in another order

_BARE = re.compile(r"[\w./:-]+", re.ASCII)


class Sides(NamedTuple):
    """A field that fits on a line: what was and what is; None where there is none."""

    path: str
    old: str | None
    new: str | None
    where: str


def field_sides(field: PlanField, of: PlanPlace | None) -> Sides | None:
    """The field's two values; None when it takes lines of its own (`lines`)."""
    if (
        field.difference is PlanDifference.REORDERED
        or _is_text(field.old)
        or _is_text(field.new)
        or _hidden_change(field)
    ):
        return None
    return Sides(clean_text(field.path), _side(field, field.old), _side(field, field.new), where(field.at, of))


def field_lines(field: PlanField, of: PlanPlace | None) -> Iterator[PlanLine]:
    """A field that is more than two values: another order, lines of text, a secret that is another one."""
    path, place = clean_text(field.path), where(field.at, of)
    if _hidden_change(field):
        yield PlanLine("~", f"{path}: {SENSITIVE_CHANGED}{place}")
    elif field.difference is PlanDifference.REORDERED:
        yield PlanLine("~", f"{path}: order changed: {_elements(field.old)} -> {_elements(field.new)}{place}")
    else:
        yield PlanLine(
            {PlanDifference.ADDED: "+", PlanDifference.REMOVED: "-"}.get(field.difference, "~"), f"{path}:{place}"
        )
        yield from _text_lines(_split(field.old), _split(field.new))


def _hidden_change(field: PlanField) -> bool:
    return field.sensitive and field.new == SENSITIVE_CHANGED


def _side(field: PlanField, given: Any) -> str | None:
    if given is msgspec.UNSET:
        return None
    return SENSITIVE if field.sensitive and given == SENSITIVE else shown_value(given)


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and "\n" in given


def _split(given: Any) -> list[str]:
    if given is msgspec.UNSET:
        return []
    return given.split("\n") if isinstance(given, str) else [shown_value(given)]


def _elements(given: Any) -> str:
    if not isinstance(given, list | tuple):
        return "" if given is msgspec.UNSET else shown_value(given)
    shown = ", ".join(_element(one) for one in given[:ELEMENTS])
    return f"{shown} and {len(given) - ELEMENTS:,} more" if len(given) > ELEMENTS else shown


def _element(given: Any) -> str:
    name = given.get("name") if isinstance(given, dict) else given
    return clean_text(name) if isinstance(name, str) and _BARE.fullmatch(name) else shown_value(given)


def _text_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[PlanLine]:
    """What differs between two texts, with a little around it; bounded."""
    found = list(comparing.text_difference(old, new))
    yield from (PlanLine(mark, clean_text(text, LINE)) for mark, text in found[:TEXT_LINES])
    if len(found) > TEXT_LINES:
        yield PlanLine("#", f"and {counted(len(found) - TEXT_LINES, 'more line')}")


def shown_value(given: Any) -> str:
    """A value as compact JSON; of a long one how it begins, and how long it is."""
    if isinstance(given, CutText):
        return f"{clean_text(given.begins, VALUE)}... ({given.bytes:,} bytes)"
    return clean_text(msgspec.json.encode(given).decode(), VALUE)
