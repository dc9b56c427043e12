"""What stored secrets mean for documents that come in."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

import msgspec

from reconciler.model import component_types, components, masking, names, resource, type_checks, values, violations
from reconciler.model.component_types import ComponentType, Definition
from reconciler.model.masking import Restored
from reconciler.model.names import Key
from reconciler.model.resource import SERVER_KEYS
from reconciler.model.type_checks import Fit, Lookup
from reconciler.model.values import Pointer, Value
from reconciler.planner.candidates import Candidate
from reconciler.store.contract import Damaged
from reconciler.store.planning_view import PlanningView, StoredDocument, StoredVersion

# What stored secrets mean for documents that come in: `(sensitive)` stands for one; one that stays is still a secret.


@dataclass(frozen=True, slots=True)
class KeptSecrets:
    """The candidates with secrets in place of `(sensitive)`. By ordinal: why one may not stand there; why nobody can
    tell; and where it did and was replaced.
    """

    candidates: Sequence[Candidate]
    reasons: Mapping[int, str] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, frozenset[Pointer]] = field(default_factory=dict)


def keep_secrets(
    found: Sequence[Candidate],
    view: PlanningView,
    *,
    project: str,
    lookup: Lookup,
    hmac_key: bytes,
    accept_invalid: bool,
) -> KeptSecrets:
    """Put stored secrets where `(sensitive)` stands for them."""
    asking = {ordinal: one for ordinal, one in enumerate(found) if one.draft is not None and one.draft.has_placeholders}
    stored = view.documents(project, [one.key for one in asking.values() if one.key is not None])
    kept = list(found)
    reasons: dict[int, str] = {}
    faults: dict[int, str] = {}
    places: dict[int, frozenset[Pointer]] = {}
    for ordinal, candidate in asking.items():
        assert candidate.draft is not None
        assert candidate.key is not None
        incoming, before = resource.owned_by_user(candidate.draft), stored.get(candidate.key)
        try:
            result = _restored(candidate.key, incoming, before, lookup=lookup, accept_invalid=accept_invalid)
        except Damaged as damage:
            faults[ordinal] = damage.message
            continue
        if result.violations and not accept_invalid:
            reasons[ordinal] = violations.lines(result.violations, lambda _: "")
        else:
            kept[ordinal] = msgspec.structs.replace(
                candidate, draft=resource.restored_draft(candidate.draft, result.document, hmac_key=hmac_key)
            )
            places[ordinal] = frozenset(result.kept)
    return KeptSecrets(kept, reasons, faults, places)


def secret_guesses(
    asked: Mapping[int, Candidate],
    places: Mapping[int, frozenset[Pointer]],
    view: PlanningView,
    *,
    project: str,
    lookup: Lookup,
) -> frozenset[int]:
    """Of the documents that are asked about, by ordinal, those of stored resources that hold a secret in clear: by its
    type, or because one is stored there.

    `places` are those where `(sensitive)` stood for it, which is no guess.
    """
    stored = view.documents(project, [one.key for one in asked.values() if one.key is not None and one.draft])
    guessing = set()
    for ordinal, candidate in asked.items():
        document = None if candidate.key is None else stored.get(candidate.key)
        if document is None or candidate.draft is None or candidate.key is None:
            continue
        owned = resource.owned_by_user(candidate.draft)
        secret: set[Pointer] = set()
        with suppress(Damaged):  # of a damaged type nobody knows what it calls a secret, and nobody can judge by it
            secret.update(pointer for pointer, _ in type_checks.fit(owned, lookup).secrets)
        with suppress(Damaged):
            secret.update(_restored(candidate.key, owned, document, lookup=lookup, accept_invalid=False).once_secret)
        if not places.get(ordinal, frozenset()).issuperset(secret):
            guessing.add(ordinal)
    return frozenset(guessing)


def still_secret(
    fits: Mapping[int, Fit],
    updates: Mapping[int, Candidate],
    view: PlanningView,
    *,
    project: str,
    lookup: Lookup,
    hide_guesses: bool,
) -> dict[int, Fit]:
    """The fits of what is updated, with the values that were secrets and did not change: they stay secrets, whatever
    their type says now. `hide_guesses`: so does what stands where a secret was, lest it show who guessed right.

    Of what is damaged in the store nothing is known, and its new version takes its place.
    """
    stored = view.documents(project, [one.key for one in updates.values() if one.key is not None])
    sticky = dict(fits)
    for ordinal, candidate in updates.items():
        assert candidate.draft is not None
        assert candidate.key is not None
        document = stored.get(candidate.key)
        if document is not None and document.secrets is not None:
            owned = resource.owned_by_user(candidate.draft)
            with suppress(Damaged):
                result = _restored(candidate.key, owned, document, lookup=lookup, accept_invalid=False)
                once = [(place, values.value_at(owned, place)) for place in result.once_secret if hide_guesses]
                secrets = masking.united(fits[ordinal].secrets, (*result.secrets, *once))
                sticky[ordinal] = replace(fits[ordinal], secrets=secrets)
    return sticky


def renewed(key: Key, document: StoredDocument, *, hmac_key: bytes) -> bytes | None:
    """The digest of a stored resource without the members that count as absent; None when it has none of these, and
    when nobody can read it.
    """
    if not resource.may_hold_absent(document.body):
        return None
    with suppress(Damaged):
        owned = without_servers(document_in_clear(key, document))
        without = resource.without_absent(owned, names.exact_kind(key.kind))
        return None if without is owned else resource.digest_draft(without, hmac_key=hmac_key)
    return None


def without_servers(document: Mapping[str, Value]) -> dict[str, Value]:
    """What a user owns of a stored resource."""
    metadata = cast("dict[str, Value]", document["metadata"])
    mine: dict[str, Value] = {name: value for name, value in metadata.items() if name not in SERVER_KEYS}
    return {**document, "metadata": mine}


def document_in_clear(key: Key, document: StoredDocument | StoredVersion) -> dict[str, Value]:
    """A stored resource with its secrets, and with the server's metadata. Raises Damaged."""
    return masking.secrets_in_clear(masked_document(key, document), _secrets(key, document))


def masked_document(key: Key, document: StoredDocument | StoredVersion) -> dict[str, Value]:
    """A stored resource as readers get it, without status. Raises Damaged."""
    return _decoded(key, document.body)


def held_secrets(key: Key, document: StoredDocument | StoredVersion) -> dict[Pointer, Value]:
    """The secrets of a stored resource by their places in it. Raises Damaged."""
    return masking.located(masked_document(key, document), _secrets(key, document))


def _restored(
    key: Key, incoming: dict[str, Value], stored: StoredDocument | None, *, lookup: Lookup, accept_invalid: bool
) -> Restored:
    return masking.restored(
        incoming,
        masked=None if stored is None else masked_document(key, stored),
        secrets={} if stored is None else _secrets(key, stored),
        lookup=lookup,
        accept_invalid=accept_invalid,
    )


def _secrets(key: Key, document: StoredDocument | StoredVersion) -> dict[str, Value]:
    return {} if document.secrets is None else _decoded(key, document.secrets)


def _decoded(key: Key, stored: bytes) -> dict[str, Value]:
    try:
        return cast("dict[str, Value]", msgspec.json.decode(stored, type=dict))
    except msgspec.DecodeError:
        told = f"the {key.kind} {key.name} is damaged in the store; apply it anew, or restore a backup"
        raise Damaged(told) from None


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
