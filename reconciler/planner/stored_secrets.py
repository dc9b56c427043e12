"""Stored secrets, and what they mean for documents that come in.

`(sensitive)` stands for a stored secret; a secret that stays is still a secret; nobody learns from an answer whether a
guess is one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from reconciler.model import (
    component_types,
    components,
    desired,
    masking,
    names,
    resource,
    type_checks,
    values,
    violations,
)
from reconciler.model.component_types import ComponentType, Definition
from reconciler.model.desired import Desired
from reconciler.model.masking import Restored
from reconciler.model.names import Key
from reconciler.model.type_checks import Fit, Lookup
from reconciler.model.values import Pointer, Value
from reconciler.planner import stored
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import Damaged
from reconciler.store.records import StoredDocument


def keep_secrets(
    documents: Sequence[Desired], snapshot: StoreSnapshot, *, lookup: Lookup, accept_invalid: bool
) -> tuple[Sequence[Desired], dict[Key, frozenset[Pointer]]]:
    """Put stored secrets where `(sensitive)` stands for them. Returns the documents, with a reason where it may not
    stand for one and a fault where nobody can tell, and the places where it did.
    """
    asking = {ordinal: one for ordinal, one in enumerate(documents) if one.has_placeholders}
    if not asking:
        return documents, {}
    found = snapshot.view.documents(snapshot.project, [one.key for one in asking.values() if one.key is not None])
    kept = list(documents)
    places: dict[Key, frozenset[Pointer]] = {}
    for ordinal, one in asking.items():
        assert one.key is not None
        before = found.get(one.key)
        try:
            result = _restored(one.key, one.document(), before, lookup=lookup, accept_invalid=accept_invalid)
        except Damaged as damage:
            kept[ordinal] = structs.replace(one, fault=damage.message)
            continue
        if result.violations and not accept_invalid:
            kept[ordinal] = one.refused(violations.lines(result.violations, lambda _: ""))
        else:
            kept[ordinal] = desired.restored(one, result.document, hmac_key=snapshot.hmac_key)
            places[one.key] = frozenset(result.kept)
    return kept, places


def secret_guesses(
    asked: Mapping[int, Desired],
    places: Mapping[Key, frozenset[Pointer]],
    snapshot: StoreSnapshot,
    *,
    lookup: Lookup,
) -> frozenset[int]:
    """Return, of the documents that are asked about, by ordinal, those of stored resources that hold a secret in clear:
    by its type, or because one is stored there.

    `places` are those where `(sensitive)` stood for it, which is no guess.
    """
    view, project = snapshot.view, snapshot.project
    found = view.documents(project, [one.key for one in asked.values() if one.key is not None and one.owned])
    guessing = set()
    for ordinal, one in asked.items():
        before = None if one.key is None else found.get(one.key)
        if before is None or one.key is None or not one.owned:
            continue
        owned = one.document()
        secret: set[Pointer] = set()
        with suppress(Damaged):  # of a damaged type nobody knows what it calls a secret, and nobody can judge by it
            secret.update(pointer for pointer, _ in type_checks.fit(owned, lookup).secrets)
        with suppress(Damaged):
            secret.update(_restored(one.key, owned, before, lookup=lookup, accept_invalid=False).once_secret)
        if not places.get(one.key, frozenset()).issuperset(secret):
            guessing.add(ordinal)
    return frozenset(guessing)


def still_secret(
    fits: Mapping[Key, Fit], updates: Mapping[Key, Desired], snapshot: StoreSnapshot, *, lookup: Lookup
) -> Mapping[Key, Fit]:
    """Return the fits with the values of what is updated that were secrets and did not change: they stay secrets,
    whatever their type says now. Where guesses are hidden, so does what is where a secret was, lest it show who guessed
    right.

    Of what is damaged in the store nothing is known, and its new version takes its place.
    """
    sticky = dict(fits)
    for key, before in snapshot.view.documents(snapshot.project, list(updates)).items():
        if before.secrets is not None:
            owned = updates[key].document()
            with suppress(Damaged):
                result = _restored(key, owned, before, lookup=lookup, accept_invalid=False)
                hidden = result.once_secret if snapshot.hide_guesses else ()
                once = [(place, values.value_at(owned, place)) for place in hidden]
                secrets = masking.united(fits[key].secrets, (*result.secrets, *once))
                sticky[key] = replace(fits[key], secrets=secrets)
    return sticky


def renewed_digest(key: Key, document: StoredDocument, *, hmac_key: bytes) -> bytes | None:
    """Return the digest of a stored resource without the members that count as absent; None when it has none of these,
    and when nobody can read it.
    """
    if not resource.may_hold_absent(document.body):
        return None
    with suppress(Damaged):
        owned = stored.without_servers(stored.document_in_clear(key, document))
        without = resource.without_absent(owned, names.exact_kind(key.kind))
        return None if without is owned else desired.digest(without, hmac_key=hmac_key)
    return None


def _restored(
    key: Key, incoming: dict[str, Value], before: StoredDocument | None, *, lookup: Lookup, accept_invalid: bool
) -> Restored:
    return masking.restored(
        incoming,
        masked=None if before is None else stored.masked_document(key, before),
        secrets={} if before is None else stored.secrets_by_place(key, before),
        lookup=lookup,
        accept_invalid=accept_invalid,
    )


# A dry run of a type must not try its rules on stored secrets: what then fits or does not would tell what they are.


@dataclass(frozen=True, slots=True)
class BlindTypes:
    """`lookup` finds the types in force afterwards, of which the `tried` ones are not in force yet."""

    lookup: Lookup
    tried: frozenset[Key]

    def of(self, document: dict[str, Value], places: Iterable[Pointer]) -> Lookup:
        """The types by which a document is judged that holds stored secrets at these places."""
        names = self._names(document, frozenset(places))
        return _without(self.lookup, names) if names else self.lookup

    def _names(self, document: dict[str, Value], places: frozenset[Pointer]) -> dict[Key, set[str]]:
        """The parameters that hold them, by the types that are tried."""
        holding = {place[: place.index("value")] for place in places if "value" in place}
        names: dict[Key, set[str]] = defaultdict(set)
        kind = document["kind"]
        for component in (
            components.find_components(kind, document["spec"]) if isinstance(kind, str) and holding else ()
        ):
            for index, parameter in enumerate(component.parameters):
                if component.type_key in self.tried and (*component.at, index) in holding:
                    name = parameter.get("name") if isinstance(parameter, dict) else None
                    names[component.type_key].add(str(name))
        return names


def _without(lookup: Lookup, names: Mapping[Key, Collection[str]]) -> Lookup:
    def found(key: Key) -> ComponentType | None:
        component_type = lookup(key)
        if component_type is None or key not in names:
            return component_type
        definitions = [_blind(one, names[key]) for one in component_type.definitions.values()]
        # What is a secret does not change.
        return replace(component_types.compiled(key.name, definitions), open=component_type.open)

    return found


def _blind(definition: Definition, names: Collection[str]) -> Definition:
    """The definition without what asks for the value of one of these parameters."""
    if definition.name in names:
        return Definition(definition.index, definition.name, type="", sensitive=definition.sensitive)
    if any(condition.name in names for condition in definition.relevant_if):
        return replace(definition, required=False, relevant_if=())
    return definition
