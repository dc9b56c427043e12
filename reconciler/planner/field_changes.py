"""The fields that differ between two states of a resource, for plans, dry runs, runs and the history.

A secret says that it changed, and not to what. Where the type of a component is unknown, any value may be a secret.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from msgspec import UNSET, UnsetType

from reconciler.model import components, desired, diffs, names, plan, values
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, UpdateStatus
from reconciler.model.plan import PlanDifference, PlanField, PlanPlace, PlanStatus
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Pointer, Value
from reconciler.planner import stored
from reconciler.planner.decisions import WRITING, Decided
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import ChangedVersions, StoredDocument, VersionRow

PlaceOf: TypeAlias = Callable[[Pointer], PlanPlace | None]


@dataclass(frozen=True, slots=True)
class ResourceState:
    """The part of a resource that a user owns, in clear, and its secrets by their places."""

    document: dict[str, Value] = field(repr=False)
    secrets: Mapping[Pointer, Value] = field(repr=False)


def find_fields(
    old: ResourceState | None, new: ResourceState | None, *, lookup: Lookup, place: PlaceOf = lambda _: None
) -> Iterator[PlanField]:
    """Yield the fields that differ, or all where there is only one state. `place` finds those of the new one.

    Raises what the lookup raises.
    """
    if old is not None and new is not None:
        found = diffs.differences(old.document, new.document, old_secrets=old.secrets, new_secrets=new.secrets)
    elif new is not None:
        found = diffs.contents(new.document, secrets=new.secrets, difference=PlanDifference.ADDED)
    elif old is not None:
        found = diffs.contents(old.document, secrets=old.secrets, difference=PlanDifference.REMOVED)
    else:
        return
    present = new or old
    assert present is not None
    unknown = _unknown(present.document, lookup)
    for one in found:
        if one.path != "metadata.name":  # the title says it
            yield _field(one, unknown, place)


def _unknown(document: dict[str, Value], lookup: Lookup) -> Set[Pointer]:
    """Return the components whose type is unknown: of these, every value may be a secret."""
    found = components.find_components(str(document["kind"]), document["spec"])
    return {component.at for component in found if lookup(component.type_key) is None}


def _field(one: diffs.Differing, unknown: Set[Pointer], place: PlaceOf) -> PlanField:
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
    return diffs.cut_value(value, most=plan.MOST_VALUE_BYTES)


def veiled(state: ResourceState, *, known: Collection[Pointer], seed: bytes) -> ResourceState:
    """Return a state with digests for secrets. Equal ones stay equal as far as their places are `known`; no other
    equals anything, whatever its value.
    """

    def digest(place: Pointer, value: Value) -> Value:
        content: list[Value] = ["stored", value] if place in known else ["sent", *place]
        return hashlib.blake2b(values.canonical_json(content), key=seed).hexdigest()

    hidden = {place: digest(place, value) for place, value in state.secrets.items()}
    return ResourceState(values.replaced(state.document, hidden), hidden)


MOST_TOGETHER = 5_000  # fields of one answer, at most some 40 MB

BoundedFields: TypeAlias = tuple[tuple[PlanField, ...], int]
"""The first fields, and how many more there are."""


def stored_state(key: Key, held: StoredDocument | VersionRow) -> ResourceState:
    """Return the state that a stored version holds. Raises Damaged."""
    owned = desired.without_servers(stored.document_in_clear(key, held))
    return ResourceState(desired.without_absent(owned, names.exact_kind(key.kind)), stored.held_secrets(key, held))


def bounded(found: Iterator[PlanField], *, most: int = plan.MOST_FIELDS) -> BoundedFields:
    """Return the first fields and the number of others; nothing for a damaged resource."""
    with suppress(Damaged):
        shown = tuple(islice(found, most))
        return shown, sum(1 for _ in found)
    return (), 0


# Two stored versions of a resource.


def compare_versions(pairs: Sequence[ChangedVersions], view: PlanningView, *, project: str) -> tuple[PlanStatus, ...]:
    """Return a status with the fields for each pair, until there are enough fields for one answer."""
    lookup = TypeLookup(view, project=project, coming={})
    found: list[PlanStatus] = []
    left = MOST_TOGETHER
    for one in pairs:
        if left <= 0:
            break
        found.append(_compared(one, view, project=project, lookup=lookup))
        left -= len(found[-1].fields)
    return tuple(found)


def _compared(one: ChangedVersions, view: PlanningView, *, project: str, lookup: Lookup) -> PlanStatus:
    key = Key(one.kind, one.name)

    def state(number: int | None) -> ResourceState | None:
        versions = [] if number is None else list(view.versions(project, key, number=number))
        return stored_state(key, versions[0]) if versions else None

    fields: BoundedFields = (), 0
    reason = None
    try:
        fields = bounded(find_fields(state(one.before), state(one.after), lookup=lookup))
    except Damaged as damage:
        reason = damage.message
    return PlanStatus(
        status=UpdateStatus(one.status),
        kind=one.kind,
        name=one.name,
        reason=reason,
        at=None if one.path is None else PlanPlace(path=one.path, line=one.line or 1),
        fields=fields[0],
        fields_left_out=fields[1],
    )


# A dry run, whose caller may guess at stored secrets.


def would_change(decided: Decided, snapshot: StoreSnapshot, *, seed: bytes) -> dict[Key, BoundedFields]:
    """Return the fields of each resource that would be written or deleted, until there are enough for one answer.

    A secret that was sent in clear text always counts as changed, so that the answer confirms no guess. `seed` is
    random.
    """
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=decided.written(components.TYPES))
    found: dict[Key, BoundedFields] = {}
    left = MOST_TOGETHER
    for outcome in decided.outcomes:
        if left <= 0:
            break
        if outcome.change not in (*WRITING, Change.DELETE) or outcome.key is None:
            continue
        snapshot.check()
        key, new = outcome.key, None
        if outcome.change is not Change.DELETE:
            sent = ResourceState(decided.document(outcome).document(), dict(decided.fits[key].secrets))
            new = veiled(sent, known=decided.kept.get(key, ()), seed=seed)
        with suppress(Damaged):
            before = snapshot.view.documents(snapshot.project, [key]).get(key)
            old = None if before is None else stored_state(key, before)
            old = old and veiled(old, known=old.secrets, seed=seed)
            found[key] = bounded(find_fields(old, new, lookup=lookup), most=min(left, plan.MOST_FIELDS))
            left -= len(found[key][0])
    return found
