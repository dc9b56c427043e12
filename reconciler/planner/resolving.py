"""Documents judged together: against the types in force, the rest of the change, and what is stored.

Order inside one change never matters: a reference finds what comes with the change, what is stored, and what is built
in. What comes but is refused is not there; what is stored in an older version is.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from reconciler.model import components, type_checks, violations
from reconciler.model.components import Reference
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.secret_references import AvailableSecrets
from reconciler.model.type_checks import Fit, Lookup, TypeOf
from reconciler.model.violations import Violation
from reconciler.planner import stored
from reconciler.planner.stored import JudgedBefore
from reconciler.store.contract import Damaged

CHECKED = 16 * 1024  # bytes of documents; asking for the time takes as long as judging two hundred


@dataclass(frozen=True, slots=True)
class Coming:
    """The documents that are judged, and what they will meet. No two have one key.

    `arriving` are those that will be stored, or are already, if nothing is wrong with them; the rest is judged as well,
    so that an actor who may not change a resource still learns what is wrong with the document. `there` is what is
    stored or built in, of all that they refer to. `accepting` are those whose parameters may be wrong. `blinded` are
    the types of those that must not be judged by all that their types say (`stored_secrets`). `refuse_unknown` as in
    `type_checks.fit`.
    """

    judged: Mapping[Key, Desired]
    arriving: AbstractSet[Key]
    there: AbstractSet[Key]
    accepting: Collection[Key]
    blinded: Mapping[Key, Lookup] = field(default_factory=dict)
    refuse_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """The violations that make a document invalid, in document order; why one cannot be judged; and the fit of each
    other one, in which all that is wrong is accepted.
    """

    violations: Mapping[Key, Sequence[Violation]] = field(default_factory=dict)
    faults: Mapping[Key, str] = field(default_factory=dict)
    fits: Mapping[Key, Fit] = field(default_factory=dict, repr=False)


def resolve(
    coming: Coming,
    *,
    lookup: Lookup,
    type_of: TypeOf,
    available: AvailableSecrets | None,
    judged: JudgedBefore,
    check: Callable[[], object] = bool,
) -> Resolved:
    """Judge each document against all that will be there. `lookup` finds the types in force, `type_of` those of the
    Extensions that are there already; `available` are the secrets that may be referred to. What `judged` knows by the
    same types is not judged again. `check` is called before the first document is judged, and then between those that
    together hold `CHECKED` bytes.
    """
    judged.forget_changed(lookup)
    fits: dict[Key, Fit] = {}
    faults: dict[Key, str] = {}  # one damaged type must not stop everything else
    unchecked = CHECKED
    for key, document in coming.judged.items():
        unchecked += len(document.owned)
        if unchecked > CHECKED:
            check()
            unchecked = 0
        try:
            # What must not be judged by all that its types say has no part in what others may be judged by.
            known = JudgedBefore() if key in coming.blinded else judged
            fits[key] = known.fit(
                document.owned,
                coming.blinded.get(key, lookup),
                available=available,
                refuse_unknown=coming.refuse_unknown,
            )
        except Damaged as damage:
            faults[key] = damage.message
    needed = set[Key]().union(*[document.references for document in coming.judged.values()])
    if any(target.kind == "Extension" for target in needed):
        _judge_storages(coming, fits, faults, type_of=type_of)
    unfit = _unfit(coming, fits)
    if not unfit and not faults and needed.issubset(coming.there):
        return Resolved(fits=fits)  # nothing refers to anything else that comes: the most common change by far
    present = _present(coming, unfit | faults.keys())
    refused = coming.judged.keys() - present
    broken = {}
    for key, document in coming.judged.items():
        lost = not present.issuperset(document.references)
        if key in unfit or (lost and key in fits):
            owned = document.document()
            found = [*(fits[key].violations if key in unfit else ())]
            if lost:
                found += [_missing(one, refused) for one in components.references(owned) if one.key not in present]
            broken[key] = violations.in_document_order(found, owned)
    return Resolved(broken, faults, {key: fit for key, fit in fits.items() if key not in broken})


def unresolved_lines(found: Sequence[Violation]) -> tuple[str, ...]:
    """Return violations as a stored resource's status lists them: without places, since it is the resource's."""
    return tuple(violations.lines(found, lambda _: "").split("\n")) if found else ()


def _judge_storages(coming: Coming, fits: dict[Key, Fit], faults: dict[Key, str], *, type_of: TypeOf) -> None:
    """Judge the extensions that webhooks name, once it is known which of those that come are refused.

    That depends on no webhook, since neither an Extension nor a Processor holds one.
    """
    naming = [key for key in fits if any(one.kind == "Extension" for one in coming.judged[key].references)]
    refused = _unfit(coming, fits) | faults.keys()
    present = _present(coming, refused)
    arriving = {
        key: coming.judged[key]
        for key in coming.arriving
        if key not in refused and present.issuperset(coming.judged[key].references)
    }
    after = stored.types_after(arriving, type_of)
    for key in naming:
        try:
            fits[key] = type_checks.with_storages(fits[key], coming.judged[key].document(), after)
        except Damaged as damage:
            faults[key] = damage.message
            del fits[key]


def _unfit(coming: Coming, fits: Mapping[Key, Fit]) -> set[Key]:
    """Those that are refused for their parameters."""
    return {key for key, fit in fits.items() if fit.violations and key not in coming.accepting}


def _present(coming: Coming, unfit: Collection[Key]) -> set[Key]:
    """All that a reference may lead to: what is there, and what arrives and is not refused in turn.

    The largest such set, so that two new resources that refer to each other hold each other up.
    """
    present = {*coming.there, *coming.arriving}
    users: dict[Key, list[Key]] = defaultdict(list)
    refused = []
    for key in coming.arriving:
        needed = coming.judged[key].references
        for target in needed:
            if target in coming.arriving and target not in coming.there:
                users[target].append(key)
        if key in unfit or not present.issuperset(needed):
            refused.append(key)
    while refused:
        key = refused.pop()
        if key in present and key not in coming.there:
            present.remove(key)
            refused += users[key]
    return present


def which_reference(reference: Reference) -> str:
    """Name what a reference leads to. The value of a parameter is not repeated: it may be a secret."""
    name = "of this name" if reference.pointer[-1] == "value" else reference.name
    return f"{reference.kind} {name}"


def _missing(reference: Reference, refused: Collection[Key]) -> Violation:
    if reference.key in refused:
        return Violation(
            reference.pointer, f"the {which_reference(reference)} is refused itself and not stored yet; mend that first"
        )
    return Violation(reference.pointer, f"there is no {which_reference(reference)}; create it, or correct the name")
