"""What tells the entries of a document's lists apart: names, and numbers that are equal exactly when values are.

Belongs here: making entries of values, and what they are called. Does not: which correspond (`differing_lists`).
"""

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from reconciler.documents.values import Pointer, Value
from reconciler.resources.differing_lists import Entry, Pairs
from reconciler.resources.hidden_places import Hidden
from reconciler.resources.matching import identity_of


class Entries:
    """The entries of one document, which nobody may change meanwhile.

    Documents that share a `table` have the same numbers for the same values.
    """

    def __init__(self, hidden: Hidden, table: dict[Hashable, int]) -> None:
        self._hidden = hidden
        self._table = table
        self._numbers: dict[int, int] = {}  # by the id of a list or mapping, so that each is looked into once

    def of(self, listed: Sequence[Value], at: Pointer) -> list[Entry]:
        """The entries of the list that stands at a place."""
        return [self._entry(each, (*at, index)) for index, each in enumerate(listed)]

    def _entry(self, value: Value, at: Pointer) -> Entry:
        open_ = self._open(value, at)
        name = identity_of(open_)
        return Entry(name) if name is not None else Entry(None, self._number(value), _likeness(open_))

    def _open(self, value: Value, at: Pointer) -> Value:
        """The entry without what is a secret directly in it: no entry is known by that."""
        if at not in self._hidden.around or not isinstance(value, dict):
            return value
        return {key: each for key, each in value.items() if (*at, key) not in self._hidden.places}

    def _number(self, value: Value) -> int:
        if not isinstance(value, dict | list):
            # True equals 1, and 0.0 equals -0.0, but not in JSON.
            return self._numbered((value.__class__, repr(value) if isinstance(value, float) else value))
        if id(value) not in self._numbers:
            self._numbers[id(value)] = self._numbered(self._form(value))
        return self._numbers[id(value)]

    def _form(self, value: dict[str, Value] | list[Value]) -> Hashable:
        if isinstance(value, dict):
            return frozenset((key, self._number(each)) for key, each in value.items())
        return (list, *map(self._number, value))

    def _numbered(self, form: Hashable) -> int:
        return self._table.setdefault(form, len(self._table))


def names(entries: Sequence[Entry]) -> list[str | None]:
    """What entries are called in a path."""
    return [None if entry.name is None else entry.name[1] for entry in entries]


Listed: TypeAlias = tuple[Sequence[Value], Sequence[Entry]]
"""A list and what tells its entries apart."""


def orders(old: Listed, new: Listed, pairs: Pairs) -> tuple[list[Value], list[Value]]:
    """What the entries of two lists are called, in order; none of them is a secret.

    The name, or the scalar itself. Another one is called by its place in the old list, `[2]`; `[+2]` is the place in
    the new one of what is in it alone.
    """
    back = {there: f"[{here}]" for here, there in pairs.items()}
    return (
        [_called(value, entry, f"[{index}]") for index, (value, entry) in enumerate(zip(*old, strict=True))],
        [
            _called(value, entry, back.get(index, f"[+{index}]"))
            for index, (value, entry) in enumerate(zip(*new, strict=True))
        ],
    )


def _called(value: Value, entry: Entry, place: str) -> Value:
    if entry.name is not None:
        return entry.name[1]
    return place if isinstance(value, dict | list) else value


def _likeness(value: Value) -> Hashable | None:
    """What stays when something in a nameless entry changes: what it is, and the type of a component."""
    if not isinstance(value, dict):
        return "list" if isinstance(value, list) else None
    named = value.get("type")
    return "mapping", named if isinstance(named, str) else None
