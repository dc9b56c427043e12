"""The fields that differ between two states of a resource, as plans, dry runs, runs and the history show them. Pure.

A secret says that it changed, and not to what. Where the type of a component is unknown, any value may be a secret.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import UNSET, UnsetType

from reconciler.model import components, diffs, plan, values
from reconciler.model.plan import PlanDifference, PlanField, PlanPlace
from reconciler.model.type_checks import Lookup
from reconciler.model.values import Pointer, Value

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
