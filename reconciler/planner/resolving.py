"""Documents judged together: against the types in force, the rest of the change, and what is stored.

The order inside a change never matters: a reference may lead to a resource of the change, a stored one or a built-in
one. It never leads to a refused document, but it may lead to a stored older version of it.

`(sensitive)` in a document stands for a stored secret, and an unchanged secret remains a secret. No answer reveals if a
guessed value equals a stored secret, so a dry run of a type does not apply its rules to stored secrets.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace

from msgspec import structs

from reconciler.model import components, desired, masking, names, type_checks, values, violations
from reconciler.model.components import Reference
from reconciler.model.desired import Desired
from reconciler.model.masking import Restored
from reconciler.model.names import Key
from reconciler.model.type_checks import BlindTypes, Fit, Lookup, TypeOf
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation
from reconciler.planner import stored
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import Damaged
from reconciler.store.records import StoredDocument


def keep_secrets(
    documents: Sequence[Desired], snapshot: StoreSnapshot, *, lookup: Lookup, accept_invalid: bool
) -> tuple[Sequence[Desired], dict[Key, frozenset[Pointer]]]:
    """Replace `(sensitive)` by the stored secrets. Return the documents and the replaced places. A document gets a
    reason if the replacement is not allowed, and a fault if the stored resource is damaged.
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


def without_guesses(
    documents: Sequence[Desired],
    asked: Collection[int],
    places: Mapping[Key, frozenset[Pointer]],
    snapshot: StoreSnapshot,
    *,
    lookup: Lookup,
) -> Sequence[Desired]:
    """Remove the digest of each `asked` document that updates a stored resource and has a secret in clear text. A value
    is a secret because of its type, or because a secret is stored in its place. Without a digest the document never
    equals the stored one, so a right guess has no effect. `places` are those of `(sensitive)`, which is no guess.
    """
    if not asked:
        return documents
    keys = {ordinal: key for ordinal in asked if (key := documents[ordinal].key) is not None}
    found = snapshot.view.documents(snapshot.project, keys.values())
    hidden = list(documents)
    for ordinal, key in keys.items():
        if key in found:
            owned = documents[ordinal].document()
            secret: set[Pointer] = set()
            with suppress(Damaged):  # with a damaged type, the document is not judged either
                secret.update(pointer for pointer, _ in type_checks.fit(owned, lookup).secrets)
            with suppress(Damaged):
                secret.update(_restored(key, owned, found[key], lookup=lookup, accept_invalid=False).once_secret)
            if not places.get(key, frozenset()).issuperset(secret):
                hidden[ordinal] = structs.replace(documents[ordinal], digest=b"")
    return hidden


def still_secret(
    fits: Mapping[int, Fit],
    documents: Mapping[int, Desired],
    updates: Collection[int],
    snapshot: StoreSnapshot,
    *,
    lookup: Lookup,
) -> Mapping[int, Fit]:
    """Add to the fits of updated resources the values that were secrets and did not change: they stay secrets even if
    the type no longer says so. If guesses are hidden, every value in the place of a former secret stays one, because
    the answer must not confirm a guess.

    A damaged stored version adds nothing; the new version replaces it.
    """
    if not updates:
        return fits
    sticky = dict(fits)
    numbers = {key: number for number in updates if (key := documents[number].key) is not None}
    for key, before in snapshot.view.documents(snapshot.project, numbers).items():
        if before.secrets is not None:
            owned, fit = documents[numbers[key]].document(), fits[numbers[key]]
            with suppress(Damaged):
                result = _restored(key, owned, before, lookup=lookup, accept_invalid=False)
                hidden = result.once_secret if snapshot.hide_guesses else ()
                once = [(place, values.value_at(owned, place)) for place in hidden]
                secrets = masking.united(fit.secrets, (*result.secrets, *once))
                sticky[numbers[key]] = replace(fit, secrets=secrets)
    return sticky


def renewed_digest(key: Key, document: StoredDocument, *, hmac_key: bytes) -> bytes | None:
    """Return the digest of a stored resource without the members that count as absent; None if it has none of these, or
    is damaged.
    """
    if not desired.may_hold_absent(document.body):
        return None
    with suppress(Damaged):
        owned = desired.without_servers(stored.document_in_clear(key, document))
        without = desired.without_absent(owned, names.exact_kind(key.kind))
        return None if without == owned else desired.digest(without, hmac_key=hmac_key)
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


@dataclass(frozen=True, slots=True)
class Coming:
    """The documents to judge, by their numbers in the change, and the resources that they may refer to.

    `arriving` has those that are stored after the change unless they turn out to be invalid, one for each key. The
    others are judged too: an actor who may not change a resource still learns the errors of the document. `there` are
    the stored or built-in resources that they refer to. `accepting` are those whose parameters may be wrong. `invalid`
    are resources of the change that are not judged, because their documents are already invalid.
    """

    judged: Mapping[int, Desired]
    arriving: Mapping[Key, int]
    there: AbstractSet[Key]
    accepting: Collection[int]
    invalid: AbstractSet[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of judging, by the numbers of documents: the violations of invalid ones in document order, the faults
    of those that cannot be judged, and the fits of all others, whose violations are accepted.
    """

    violations: Mapping[int, Sequence[Violation]]
    faults: Mapping[int, str]
    fits: Mapping[int, Fit] = field(repr=False)


def resolve(
    coming: Coming, snapshot: StoreSnapshot, *, judging: BlindTypes, type_of: TypeOf, heads: Collection[str] = ()
) -> Resolved:
    """Judge each document against all resources after the change. `judging` finds the types in force, `type_of` the
    types of existing Extensions. A document is judged once for the same types. `heads` are the repositories whose
    documents are judged.
    """
    fits: dict[int, Fit] = {}
    faults: dict[int, str] = {}  # one damaged type must not stop everything else
    for number, document in coming.judged.items():
        snapshot.check()
        try:
            fits[number] = snapshot.judged.fit(
                document.owned,
                judging.of_coming(document.key, document.document),
                available=snapshot.available,
                refuse_unknown=snapshot.refuse_unknown,
            )
        except Damaged as damage:
            faults[number] = damage.message
    needed = set[Key]().union(*[document.references for document in coming.judged.values()])
    if any(target.kind == "Extension" for target in needed):
        _judge_storages(coming, fits, faults, type_of=type_of)
    unfit = _unfit(coming, fits)
    present = _present(coming, unfit | faults.keys())
    judged = {document.key for document in coming.judged.values() if document.key is not None}
    refused = (judged | coming.invalid) - present
    # Resources that another repository wants and that are not stored count as refused, not as missing.
    refused |= snapshot.view.unmet(snapshot.project, needed - present - refused, without=heads)
    broken = {}
    for number, document in coming.judged.items():
        lost = not present.issuperset(document.references)
        if number in unfit or (lost and number in fits):
            owned = document.document()
            found = [*(fits[number].violations if number in unfit else ())]
            if lost:
                found += [_missing(one, refused) for one in components.references(owned) if one.key not in present]
            broken[number] = violations.in_document_order(found, owned)
    return Resolved(broken, faults, {number: fit for number, fit in fits.items() if number not in broken})


def unresolved_lines(found: Sequence[Violation]) -> tuple[str, ...]:
    """Return violations as lines of a stored resource's status: without places in a file."""
    return tuple(violations.lines(found, lambda _: "").split("\n")) if found else ()


def _judge_storages(coming: Coming, fits: dict[int, Fit], faults: dict[int, str], *, type_of: TypeOf) -> None:
    """Judge the extensions that webhooks name. Whether an arriving Extension is refused is known by then, because
    neither Extensions nor Processors contain webhooks.
    """
    naming = [number for number in fits if any(one.kind == "Extension" for one in coming.judged[number].references)]
    refused = _unfit(coming, fits) | faults.keys()
    present = _present(coming, refused)
    arriving = {
        key: coming.judged[number]
        for key, number in coming.arriving.items()
        if number not in refused and present.issuperset(coming.judged[number].references)
    }
    after = stored.types_after(arriving, type_of)
    for number in naming:
        try:
            fits[number] = type_checks.with_storages(fits[number], coming.judged[number].document(), after)
        except Damaged as damage:
            faults[number] = damage.message
            del fits[number]


def _unfit(coming: Coming, fits: Mapping[int, Fit]) -> set[int]:
    """Return the documents that are refused because of their parameters."""
    return {number for number, fit in fits.items() if fit.violations and number not in coming.accepting}


def _present(coming: Coming, unfit: Collection[int]) -> set[Key]:
    """Return the resources that a reference may lead to: existing ones, and arriving ones that are not refused.

    It is the largest such set, so two new resources may refer to each other.
    """
    present = {*coming.there, *coming.arriving}
    users: dict[Key, list[Key]] = defaultdict(list)
    refused = []
    for key, number in coming.arriving.items():
        needed = coming.judged[number].references
        for target in needed:
            if target in coming.arriving and target not in coming.there:
                users[target].append(key)
        if number in unfit or not present.issuperset(needed):
            refused.append(key)
    while refused:
        key = refused.pop()
        if key in present and key not in coming.there:
            present.remove(key)
            refused += users[key]
    return present


def which_reference(reference: Reference) -> str:
    """Name the target of a reference. The value of a parameter is left out, because it may be a secret."""
    name = "of this name" if reference.pointer[-1] == "value" else reference.name
    return f"{reference.kind} {name}"


def _missing(reference: Reference, refused: Collection[Key]) -> Violation:
    if reference.key in refused:
        return Violation(
            reference.pointer, f"the {which_reference(reference)} is invalid and not stored yet; mend that first"
        )
    return Violation(reference.pointer, f"there is no {which_reference(reference)}; create it, or correct the name")
