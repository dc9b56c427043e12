"""Differences between two versions of a resource, field by field, without secrets; as plans and the history show them.

Two documents without a difference have the same digest (`desired.Desired`), and the reverse: the order of a mapping's
keys does not matter. Entries of lists are matched by name or by equality, not by position.

A path names one place: `spec.parameters[endpoint].value`, `spec.attributes[2]`. An ambiguous part is quoted as in JSON.
A path is safe in a sentence: it has no control characters, and no long part.

For a secret, only the fact of a change is shown. If the type of a component is unknown, any value may be a secret.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from reconciler.model import components, plan, values
from reconciler.model.components import MASK
from reconciler.model.masking import Identity, identity_of
from reconciler.model.plan import SENSITIVE_CHANGED, CutText, PlanDifference, PlanField, PlanPlace
from reconciler.model.secret_references import is_secret_reference
from reconciler.model.text import visible, visible_json
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Pointer, Value

ABSENT = -1

Pairs: TypeAlias = dict[int, int]
"""Positions in the new list by positions in the old one."""


class ListEntry(NamedTuple):
    """The identity of a list entry. Entries with the same name correspond, even if their content differs."""

    name: Identity | None
    value: Hashable = None  # equal for equal entries; not used if there is a name
    likeness: Hashable | None = None  # entries with an equal one may be the same entry, changed; None: never


def matched_entries(old: Sequence[ListEntry], new: Sequence[ListEntry]) -> Pairs:
    """Return the corresponding entries. Entries with the same name correspond, and equal entries without names, in
    their order. Of the rest, entries with the same likeness correspond if the entry before them does.
    """
    pairs = _by_occurrence(enumerate(map(_identity, old)), enumerate(map(_identity, new)))
    there = {index: index for index in pairs.values()}
    return pairs | _by_occurrence(_rest(old, pairs), _rest(new, there))


def is_reordered(pairs: Pairs) -> bool:
    """Return True if corresponding entries are in another order."""
    return any(one > next_one for one, next_one in pairwise(pairs[index] for index in sorted(pairs)))


def merged_order(old: int, new: int, pairs: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield all positions of two lists of these lengths, in the order of the new one; ABSENT for an entry that the
    other list lacks. An entry that is only in the old list comes after the one that was before it.
    """
    behind: dict[int, list[int]] = defaultdict(list)
    last = ABSENT
    for index in range(old):
        if index in pairs:
            last = pairs[index]
        else:
            behind[last].append(index)
    yield from ((gone, ABSENT) for gone in behind[ABSENT])
    back = {there: here for here, there in pairs.items()}
    for index in range(new):
        yield back.get(index, ABSENT), index
        yield from ((gone, ABSENT) for gone in behind.get(index, ()))


def _identity(entry: ListEntry) -> Hashable:
    return entry.value if entry.name is None else entry.name


def _rest(entries: Sequence[ListEntry], found: Pairs) -> Iterator[tuple[int, Hashable]]:
    """Yield the likeness of each remaining entry, with the new position of the entry before it."""
    last = ABSENT
    for index, entry in enumerate(entries):
        if index in found:
            last = found[index]
        elif entry.likeness is not None:
            yield index, (last, entry.likeness)


def _by_occurrence(old: Iterable[tuple[int, Hashable]], new: Iterable[tuple[int, Hashable]]) -> Pairs:
    """Match equal values in order: the first with the first, the second with the second."""
    there = dict(_occurrences(new))
    return {index: there[occurrence] for occurrence, index in _occurrences(old) if occurrence in there}


def _occurrences(entries: Iterable[tuple[int, Hashable]]) -> Iterator[tuple[tuple[Hashable, int], int]]:
    often = Counter[Hashable]()
    for index, value in entries:
        yield (value, often[value]), index
        often[value] += 1


class HiddenPlaces:
    """The places to hide: `places` hold secrets, `around` are the lists and mappings that directly contain such a
    place.
    """

    def __init__(self, places: Iterable[Pointer]) -> None:
        self.places = frozenset(places)
        self.around = frozenset(place[:-1] for place in self.places if place)
        above: set[Pointer] = set()
        for place in self.around:
            while place not in above:
                above.add(place)
                place = place[:-1]  # noqa: PLW2901 - upwards, until where somebody was
        self._above = frozenset(above)

    def shown(self, value: Value, at: Pointer) -> Value:
        """Return the value at a place with each secret in it masked; a value without secrets is not copied."""
        if at in self.places:
            return MASK
        if at not in self._above:
            return value
        if isinstance(value, dict):
            return {key: self.shown(each, (*at, key)) for key, each in value.items()}
        return [self.shown(each, (*at, i)) for i, each in enumerate(value)] if isinstance(value, list) else value


def _entries(listed: Sequence[Value], at: Pointer, hidden: HiddenPlaces) -> list[ListEntry]:
    """Return the entries of the list at a place."""
    return [_entry(each, (*at, index), hidden) for index, each in enumerate(listed)]


def _entry(value: Value, at: Pointer, hidden: HiddenPlaces) -> ListEntry:
    """Return the identity of an entry. A secret directly in it is never part of that."""
    open_ = value
    if at in hidden.around and isinstance(value, dict):
        open_ = {key: each for key, each in value.items() if (*at, key) not in hidden.places}
    name = identity_of(open_)
    return ListEntry(name) if name is not None else ListEntry(None, values.canonical_json(value), _likeness(open_))


def entry_names(entries: Sequence[ListEntry]) -> list[str | None]:
    """Return the names by which a list's entries are shown, None for a secret or an entry without a name."""
    return [None if entry.name is None else entry.name[1] for entry in entries]


Listed: TypeAlias = tuple[Sequence[Value], Sequence[ListEntry]]
"""A list, and the identities of its entries."""


def entry_orders(old: Listed, new: Listed, pairs: Pairs) -> tuple[list[Value], list[Value]]:
    """Return labels for the entries of two lists, in order, without secrets. A label is the name, or the scalar itself.
    Any other entry is labelled by its position in the old list, `[2]`, or, if only the new list has it, by that
    position, `[+2]`.
    """
    back = {there: f"[{here}]" for here, there in pairs.items()}
    return (
        [_called(value, entry, f"[{index}]") for index, (value, entry) in enumerate(zip(*old, strict=True))],
        [
            _called(value, entry, back.get(index, f"[+{index}]"))
            for index, (value, entry) in enumerate(zip(*new, strict=True))
        ],
    )


def _called(value: Value, entry: ListEntry, place: str) -> Value:
    if entry.name is not None:
        return entry.name[1]
    return place if isinstance(value, dict | list) else value


def _likeness(value: Value) -> Hashable | None:
    """Return the likeness of an entry without a name, which stays when its content changes: its kind, or the type of a
    component.
    """
    if not isinstance(value, dict):
        return "list" if isinstance(value, list) else None
    named = value.get("type")
    return "mapping", named if isinstance(named, str) else None


LONGEST_PART = 100  # characters of one key or name
_SPECIAL = re.compile(r"""[\s.\[\]"\\]""")


def path_below(path: str, key: str) -> str:
    """Return the path of a key in a mapping."""
    return f"{path}.{_part(key)}" if path else _part(key)


def path_labels(names: Sequence[str | None]) -> list[str]:
    """Return the labels of a list's entries in paths: the name, if it occurs once, otherwise the index."""
    often = Counter(names)
    return [f"[{index}]" if name is None or often[name] > 1 else f"[{_name(name)}]" for index, name in enumerate(names)]


def _name(name: str) -> str:
    """Return a name for brackets. Only digits would be an index, so such a name is quoted."""
    return f'"{name}"' if name.isascii() and name.isdigit() and len(name) <= LONGEST_PART else _part(name)


def _part(text: str) -> str:
    if len(text) > LONGEST_PART:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{_quoted(text[:LONGEST_PART] + '…')}~{digest[:12]}"
    return text if text and not _SPECIAL.search(text) and visible(text) == text else _quoted(text)


def _quoted(text: str) -> str:
    return visible_json(json.dumps(text, ensure_ascii=False))


Secrets: TypeAlias = Mapping[Pointer, Value] | Iterable[tuple[Pointer, Value]]
"""Values by their places, from the document's root down, or pairs of a place and a value."""


class Differing(NamedTuple):
    """One field that differs. `path` is for people (`path_labels`), of the new document if the field is there.

    `old` and `new` are unset for a missing value, and must not be changed. `sensitive`: a part of them is masked. For a
    reordered list they are the labels of its entries (`entry_orders`).
    """

    path: str
    difference: PlanDifference
    old_pointer: Pointer | None
    new_pointer: Pointer | None
    old: Value | UnsetType = UNSET
    new: Value | UnsetType = UNSET
    sensitive: bool = False


class _Place(NamedTuple):
    """A place in both documents."""

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
    """Yield every difference, in the order of the new document; a removed value comes at its old place. The document
    None has no fields. A secret of one version is masked in both. The result shows if a secret differs. If the caller
    must not learn that, replace the secret by another value before.
    """
    walk = _Walk(HiddenPlaces(dict(old_secrets)), HiddenPlaces(dict(new_secrets)))
    return walk.mappings(_Place("", (), ()), dict(old or {}), dict(new or {}))


def contents(
    document: Mapping[str, Value], *, secrets: Secrets = (), difference: PlanDifference
) -> Iterator[Differing]:
    """Yield every value of a document that is added or removed as a whole, each with its path. The kind, and names that
    are in brackets of paths, are left out.
    """
    hidden = HiddenPlaces(dict(secrets))

    def walk(path: str, at: Pointer, value: Value, named: str | None = None) -> Iterator[Differing]:
        if at in hidden.places or not value or not isinstance(value, dict | list):
            yield _whole(path, difference, at, value, hidden.shown(value, at))
        elif isinstance(value, dict):
            members = [key for key in value if key != named] or [*value]
            for key in members:
                yield from walk(path_below(path, key), (*at, key), value[key])
        elif any(isinstance(each, dict | list) for each in value):
            found = _entries(value, at, hidden)
            for index, label in enumerate(path_labels(entry_names(found))):
                name = found[index].name
                is_told = name is not None and not label[1:-1].isdigit()
                yield from walk(path + label, (*at, index), value[index], name[0] if name and is_told else None)
        else:
            yield _whole(path, difference, at, value, hidden.shown(value, at))

    for key in ("metadata", "spec"):
        if document.get(key):
            yield from walk(key, (key,), document[key])


def _whole(path: str, difference: PlanDifference, at: Pointer, value: Value, shown: Value) -> Differing:
    """Return the difference for a value that is added or removed as a whole."""
    if difference is PlanDifference.ADDED:
        return Differing(path, difference, None, at, new=shown, sensitive=shown is not value)
    return Differing(path, difference, at, None, old=shown, sensitive=shown is not value)


class _Walk:
    """One walk through two documents side by side. The readers bound the nesting."""

    def __init__(self, old: HiddenPlaces, new: HiddenPlaces) -> None:
        self._old = old
        self._new = new

    def mappings(self, place: _Place, old: dict[str, Value], new: dict[str, Value]) -> Iterator[Differing]:
        """Yield the differences between two mappings."""
        before, after = list(old), list(new)
        positions = {key: index for index, key in enumerate(after)}
        pairs = {index: positions[key] for index, key in enumerate(before) if key in positions}
        # In the value of a parameter: if one document marks values as secrets, they are secrets in the other too.
        is_value = place.new[-1:] == ("value",)
        for one, other in merged_order(len(before), len(after), pairs):
            key = after[other] if one == ABSENT else before[one]
            inner = _Place(path_below(place.path, key), (*place.old, key), (*place.new, key))
            if one == ABSENT:
                yield self._added(inner, new[key], veiled=is_value and place.old in self._old.around)
            elif other == ABSENT:
                yield self._removed(inner, old[key], veiled=is_value and place.new in self._new.around)
            else:
                yield from self._both(inner, old[key], new[key])

    def _lists(self, place: _Place, old: list[Value], new: list[Value]) -> Iterator[Differing]:
        before, after = _entries(old, place.old, self._old), _entries(new, place.new, self._new)
        old_labels, new_labels = (path_labels(entry_names(side)) for side in (before, after))
        pairs = matched_entries(before, after)
        if is_reordered(pairs):
            orders = entry_orders((old, before), (new, after), pairs)
            yield Differing(place.path, PlanDifference.REORDERED, place.old, place.new, *orders)
        for one, other in merged_order(len(old), len(new), pairs):
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
            if not values.is_same(old, new):
                yield self._changed_secret(place, old, new)
        elif isinstance(old, dict) and isinstance(new, dict):
            yield from self.mappings(place, old, new)
        elif isinstance(old, list) and isinstance(new, list):
            yield from self._lists(place, old, new)
        elif not values.is_same(old, new):
            yield self._changed(place, old, new)

    def _is_sensitive(self, place: _Place, old: Value, new: Value) -> bool:
        """Return True if one of the two values is a secret, or contains one without a certain counterpart in the other.
        If one is a reference to a secret, the other may be the secret itself, even if no type says so.
        """
        if place.old in self._old.places or place.new in self._new.places:
            return True
        if isinstance(old, dict) and isinstance(new, dict):
            return False
        is_around = place.old in self._old.around or place.new in self._new.around
        return is_around or is_secret_reference(old) != is_secret_reference(new)

    def _added(self, place: _Place, new: Value, *, veiled: bool = False) -> Differing:
        shown = MASK if veiled and not is_secret_reference(new) else self._new.shown(new, place.new)
        return _whole(place.path, PlanDifference.ADDED, place.new, new, shown)

    def _removed(self, place: _Place, old: Value, *, veiled: bool = False) -> Differing:
        shown = MASK if veiled and not is_secret_reference(old) else self._old.shown(old, place.old)
        return _whole(place.path, PlanDifference.REMOVED, place.old, old, shown)

    def _changed(self, place: _Place, old: Value, new: Value) -> Differing:
        before, after = self._old.shown(old, place.old), self._new.shown(new, place.new)
        sensitive = before is not old or after is not new
        return Differing(place.path, PlanDifference.CHANGED, place.old, place.new, before, after, sensitive)

    def _changed_secret(self, place: _Place, old: Value, new: Value) -> Differing:
        """Return the difference of a secret. A reference is shown, because it is not the secret, unless it is marked as
        one.
        """
        before = old if is_secret_reference(old) and place.old not in self._old.places else MASK
        after = new if is_secret_reference(new) and place.new not in self._new.places else SENSITIVE_CHANGED
        return Differing(place.path, PlanDifference.CHANGED, place.old, place.new, before, after, sensitive=True)


def cut_value(value: Value, *, most: int) -> Value | CutText:
    """Return the value if its canonical JSON has at most `most` bytes, otherwise that many bytes of its beginning."""
    encoded = values.canonical_json(value)
    if len(encoded) <= most:
        return value
    return CutText(begins=encoded[:most].decode(errors="ignore"), bytes=len(encoded))


PlaceOf: TypeAlias = Callable[[Pointer], PlanPlace | None]


@dataclass(frozen=True, slots=True)
class ResourceState:
    """The part of a resource that a user owns, secrets in clear, and the secrets by their places."""

    document: dict[str, Value] = field(repr=False)
    secrets: Mapping[Pointer, Value] = field(repr=False)


def find_fields(
    old: ResourceState | None, new: ResourceState | None, *, lookup: Lookup, place: PlaceOf = lambda _: None
) -> Iterator[PlanField]:
    """Yield the fields that differ, or all fields if there is only one state. `place` finds the place of a field of the
    new one. Raises the errors of the lookup.
    """
    if old is not None and new is not None:
        found = differences(old.document, new.document, old_secrets=old.secrets, new_secrets=new.secrets)
    elif new is not None:
        found = contents(new.document, secrets=new.secrets, difference=PlanDifference.ADDED)
    elif old is not None:
        found = contents(old.document, secrets=old.secrets, difference=PlanDifference.REMOVED)
    else:
        return
    present = new or old
    assert present is not None
    unknown = _unknown_places(present.document, lookup)
    for one in found:
        if one.path != "metadata.name":  # the title has the name
            yield _field(one, unknown, place)


def _unknown_places(document: dict[str, Value], lookup: Lookup) -> Set[Pointer]:
    """Return the components whose type is unknown: every value of them may be a secret."""
    found = components.find_components(str(document["kind"]), document["spec"])
    return {component.at for component in found if lookup(component.type_key) is None}


def _field(one: Differing, unknown: Set[Pointer], place: PlaceOf) -> PlanField:
    pointer = (one.old_pointer if one.new_pointer is None else one.new_pointer) or ()
    is_unknown = one.sensitive and any(pointer[:length] in unknown for length in range(len(pointer) + 1))
    return PlanField(
        path=one.path,
        difference=one.difference,
        old=_shown(one.old, is_unknown=is_unknown),
        new=_shown(one.new, is_unknown=is_unknown),
        at=None if one.new_pointer is None else place(one.new_pointer),
        sensitive=one.sensitive,
    )


_OF_UNKNOWN_TYPE = {plan.SENSITIVE: plan.UNKNOWN_TYPE, plan.SENSITIVE_CHANGED: plan.UNKNOWN_TYPE_CHANGED}


def _shown(value: Value | UnsetType, *, is_unknown: bool) -> object:
    if isinstance(value, UnsetType):
        return UNSET
    if is_unknown and isinstance(value, str):
        return _OF_UNKNOWN_TYPE.get(value, value)
    return cut_value(value, most=plan.MOST_VALUE_BYTES)


def veiled(state: ResourceState, *, known: Collection[Pointer], seed: bytes) -> ResourceState:
    """Return a state with digests in place of secrets. At `known` places, equal secrets have equal digests. Every other
    digest equals nothing, even for equal values.
    """

    def digest(place: Pointer, value: Value) -> Value:
        content: list[Value] = ["stored", value] if place in known else ["sent", *place]
        return hashlib.blake2b(values.canonical_json(content), key=seed).hexdigest()

    hidden = {place: digest(place, value) for place, value in state.secrets.items()}
    return ResourceState(values.replaced(state.document, hidden), hidden)
