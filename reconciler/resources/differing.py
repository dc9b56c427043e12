"""What differs between two versions of a resource, field by field, in values that hold no secret.

Belongs here: two documents with their secrets in clear, and the places where these stand. Does not: finding them
(`fitting`), which versions are compared, how differences are shown.

Two documents without a difference have the same digest (`drafts`), and the other way round: the order of a mapping's
keys is none.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from reconciler.documents.values import Pointer, Value
from reconciler.resources import canonical, differing_entries, differing_lists, readable_paths, secret_references
from reconciler.resources.differing_entries import Entries
from reconciler.resources.differing_lists import ABSENT
from reconciler.resources.hidden_places import Hidden
from reconciler.resources.parameters import MASK

MASK_CHANGED = "(sensitive, changed)"
"""What is shown in place of a secret that is another than before."""

Secrets: TypeAlias = Mapping[Pointer, Value] | Iterable[tuple[Pointer, Value]]
"""Values by their places, from the document's root down, or pairs of the two."""


class Difference(StrEnum):
    """What happened to a field."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"  # what both lists hold stands in another order; entries may differ besides


class Differing(NamedTuple):
    """One field that differs. `path` is for people (`readable_paths`), of the new document if the field is there.

    `old` and `new` are unset where there is none, and nobody may change what is in them. `sensitive`: something in them
    is masked. Of a list in another order they say what its entries are called (`differing_entries.in_order`).
    """

    path: str
    difference: Difference
    old_pointer: Pointer | None
    new_pointer: Pointer | None
    old: Value | UnsetType = UNSET
    new: Value | UnsetType = UNSET
    sensitive: bool = False


class _Place(NamedTuple):
    """A place that both documents have."""

    path: str
    old: Pointer
    new: Pointer


def differences(
    old: Mapping[str, Value] | None,
    new: Mapping[str, Value] | None,
    *,
    old_secrets: Secrets = (),
    new_secrets: Secrets = (),
) -> Iterator[Differing]:
    """Every difference, in the order of the new document; what is gone comes where it stood. None has no fields.

    What one of the two calls a secret is masked in both. Whether it differs is told, so whoever must not find out by
    guessing gets documents in which it is another value.
    """
    walk = _Walk(Hidden(dict(old_secrets)), Hidden(dict(new_secrets)))
    return walk.mappings(_Place("", (), ()), dict(old or {}), dict(new or {}))


class _Walk:
    """One walk through two documents side by side. Nesting is bounded by the readers."""

    def __init__(self, old: Hidden, new: Hidden) -> None:
        table: dict[Hashable, int] = {}
        self._old = old
        self._new = new
        self._old_entries = Entries(old, table)
        self._new_entries = Entries(new, table)

    def mappings(self, place: _Place, old: dict[str, Value], new: dict[str, Value]) -> Iterator[Differing]:
        """What differs between two mappings."""
        before, after = list(old), list(new)
        positions = {key: index for index, key in enumerate(after)}
        pairs = {index: positions[key] for index, key in enumerate(before) if key in positions}
        # Of what a parameter holds: when one document calls some of its values secrets, those of the other are, too.
        is_value = place.new[-1:] == ("value",)
        for one, other in differing_lists.merged(len(before), len(after), pairs):
            key = after[other] if one == ABSENT else before[one]
            inner = _Place(readable_paths.below(place.path, key), (*place.old, key), (*place.new, key))
            if one == ABSENT:
                yield self._added(inner, new[key], veiled=is_value and place.old in self._old.around)
            elif other == ABSENT:
                yield self._removed(inner, old[key], veiled=is_value and place.new in self._new.around)
            else:
                yield from self._both(inner, old[key], new[key])

    def _lists(self, place: _Place, old: list[Value], new: list[Value]) -> Iterator[Differing]:
        before, after = self._old_entries.of(old, place.old), self._new_entries.of(new, place.new)
        old_labels, new_labels = (readable_paths.labels(differing_entries.names(side)) for side in (before, after))
        pairs = differing_lists.matched(before, after)
        if differing_lists.is_reordered(pairs):
            orders = differing_entries.orders((old, before), (new, after), pairs)
            yield Differing(place.path, Difference.REORDERED, place.old, place.new, *orders)
        for one, other in differing_lists.merged(len(old), len(new), pairs):
            label = old_labels[one] if other == ABSENT else new_labels[other]
            inner = _Place(place.path + label, (*place.old, one), (*place.new, other))
            if one == ABSENT:
                yield self._added(inner, new[other])
            elif other == ABSENT:
                yield self._removed(inner, old[one])
            else:
                yield from self._both(inner, old[one], new[other])

    def _both(self, place: _Place, old: Value, new: Value) -> Iterator[Differing]:
        if self._is_sensitive(place, old, new):
            if not _is_same(old, new):
                yield self._changed_secret(place, old, new)
        elif isinstance(old, dict) and isinstance(new, dict):
            yield from self.mappings(place, old, new)
        elif isinstance(old, list) and isinstance(new, list):
            yield from self._lists(place, old, new)
        elif not _is_same(old, new):
            yield self._changed(place, old, new)

    def _is_sensitive(self, place: _Place, old: Value, new: Value) -> bool:
        """Whether one of the two is a secret, or holds some and nobody can say what in the other corresponds to them.

        Where one is a reference to a secret, the other may be the secret itself, though nobody calls it one.
        """
        if place.old in self._old.places or place.new in self._new.places:
            return True
        if isinstance(old, dict) and isinstance(new, dict):
            return False
        is_around = place.old in self._old.around or place.new in self._new.around
        return is_around or _is_reference(old) != _is_reference(new)

    def _added(self, place: _Place, new: Value, *, veiled: bool = False) -> Differing:
        shown = MASK if veiled and not _is_reference(new) else self._new.shown(new, place.new)
        sensitive = shown is not new
        return Differing(place.path, Difference.ADDED, None, place.new, new=shown, sensitive=sensitive)

    def _removed(self, place: _Place, old: Value, *, veiled: bool = False) -> Differing:
        shown = MASK if veiled and not _is_reference(old) else self._old.shown(old, place.old)
        sensitive = shown is not old
        return Differing(place.path, Difference.REMOVED, place.old, None, old=shown, sensitive=sensitive)

    def _changed(self, place: _Place, old: Value, new: Value) -> Differing:
        before, after = self._old.shown(old, place.old), self._new.shown(new, place.new)
        sensitive = before is not old or after is not new
        return Differing(place.path, Difference.CHANGED, place.old, place.new, before, after, sensitive)

    def _changed_secret(self, place: _Place, old: Value, new: Value) -> Differing:
        """A reference, which is not the secret, is shown, unless it is called one all the same."""
        before = old if _is_reference(old) and place.old not in self._old.places else MASK
        after = new if _is_reference(new) and place.new not in self._new.places else MASK_CHANGED
        return Differing(place.path, Difference.CHANGED, place.old, place.new, before, after, sensitive=True)


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values are equal in canonical form."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other
    return canonical.encode(one) == canonical.encode(other)


def _is_reference(value: Value) -> bool:
    """Whether a text is one whole reference to a secret, rather than the secret."""
    return isinstance(value, str) and value.startswith("${") and secret_references.whole(value) is not None
