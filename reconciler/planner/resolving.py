"""References resolved against the change and the store, and the types in force."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import msgspec

from reconciler.model import builtins, component_types, components, resource, type_checks, violations
from reconciler.model.component_types import ComponentType
from reconciler.model.components import Reference
from reconciler.model.names import Key
from reconciler.model.resource import Draft
from reconciler.model.secret_references import AvailableSecrets
from reconciler.model.type_checks import Fit, Lookup, TypeOf
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from reconciler.planner import stored_secrets
from reconciler.store.contract import Damaged
from reconciler.store.planning_view import PlanningView

# Which type of components is in force under a name: the one that comes with this change, the stored one, the built-in.

MOST_BYTES = 4 * 1024 * 1024  # of the specs of types that are kept compiled, which takes up to eighty times as much


class CompiledTypes:
    """Compiled types by what they say, for the life of the process: compiling one costs as much as judging hundreds."""

    def __init__(self) -> None:
        self._types: dict[bytes, ComponentType] = {}
        self._bytes = 0

    def of(self, name: str, spec: Value) -> ComponentType:
        """The type of this name that defines what `spec` says."""
        encoded = msgspec.json.encode(spec)
        digest = hashlib.sha256(name.encode() + b"\0" + encoded).digest()
        known = self._types.get(digest)
        if known is not None:
            return known
        compiled = component_types.compiled(name, component_types.read_definitions(spec))
        # Two threads may do this at once, and then compile or forget something twice.
        if self._bytes + len(encoded) > MOST_BYTES:
            self._types, self._bytes = {}, 0
        self._types[digest] = compiled
        self._bytes += len(encoded)
        return compiled


_compiled = CompiledTypes()


class TypeLookup:
    """A lookup for one plan: inside one snapshot of the store, each type is asked for once.

    What is `going` is not there any more; what is built in may stand in for it.
    """

    def __init__(
        self, view: PlanningView, *, project: str, coming: Mapping[Key, Draft], going: Collection[Key] = ()
    ) -> None:
        self._view = view
        self._project = project
        self._coming = coming
        self._going = going
        self._known: dict[Key, ComponentType | None] = {}
        self._extensions: dict[Key, str | None] = {}

    def __call__(self, key: Key) -> ComponentType | None:
        """The type in force, or None. Raises Damaged when nobody can tell what it says."""
        if key not in self._known:
            spec = self._spec(key)
            self._known[key] = None if spec is None else _compiled.of(key.name, spec)
        return self._known[key]

    def of_extension(self, key: Key) -> str | None:
        """The name of the type of an Extension that is stored or built in, or None. Raises Damaged.

        Not of one that comes: it may be refused (see `after`), which a type, that refers to nothing, is not.
        """
        if key not in self._extensions:
            self._extensions[key] = components.type_name_of(self._standing(key))
        return self._extensions[key]

    def _spec(self, key: Key) -> Value:
        if key in self._coming:
            return resource.owned_by_user(self._coming[key])["spec"]
        return self._standing(key)

    def _standing(self, key: Key) -> Value:
        stored = None if key in self._going else self._view.documents(self._project, [key]).get(key)
        if stored is not None:
            return stored_secrets.masked_document(key, stored)["spec"]
        built_in = builtins.built_in().get(key)
        return None if built_in is None else built_in["spec"]


def types_after(arriving: Mapping[Key, Draft], type_of: TypeOf) -> TypeOf:
    """The types of Extensions once these documents are stored; `type_of` knows those of what is there before."""

    @cache
    def found(key: Key) -> str | None:
        if key in arriving:
            return components.type_name_of(resource.owned_by_user(arriving[key])["spec"])
        return type_of(key)

    return found


# Judging documents together: what one cannot say of itself alone, against the rest of the change and the store.
#
# Order inside one change never matters: a reference finds what comes with the change, what is stored, and what is built
# in. What comes but is refused is not there; what is stored in an older version is.

CHECKED = 16 * 1024  # bytes of documents; asking for the time takes as long as judging two hundred

Tell = Callable[[int, Sequence[Violation]], str]
"""The violations of a candidate, by its ordinal, as lines with their places."""


@dataclass(frozen=True, slots=True)
class Coming:
    """The documents that are judged, by ordinal, and what they will meet.

    `arriving` are those that will be stored, or are already, if nothing is wrong with them; the rest is judged as well,
    so that whoever may not change a resource still learns what is wrong with the document. `there` is what is stored
    or built in, of all that they refer to. `accepting` are those whose parameters may be wrong. `blinded` are the types
    of those that must not be judged by all that their types say (`stored_secrets`). `refuse_unknown` as in
    `type_checks.fit`.
    """

    judged: Mapping[int, tuple[Key, Draft]]
    arriving: Collection[int]
    there: Collection[Key]
    accepting: Collection[int]
    blinded: Mapping[int, Lookup] = field(default_factory=dict)
    refuse_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Resolved:
    """By ordinal: why a document is invalid, or cannot be judged; and of each other one its fit, in which all that is
    wrong is accepted, and what is noted of it, one a line.
    """

    reasons: Mapping[int, str] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    fits: Mapping[int, Fit] = field(default_factory=dict, repr=False)
    notes: Mapping[int, str] = field(default_factory=dict)


def resolve(
    coming: Coming,
    *,
    lookup: Lookup,
    type_of: TypeOf,
    available: AvailableSecrets | None,
    tell: Tell,
    check: Callable[[], object] = bool,
) -> Resolved:
    """Judge each document against all that will be there. `lookup` finds the types in force, `type_of` those of the
    Extensions that are there already; `available` are the secrets that may be referred to. `check` is called before
    the first document is judged, and then between those that together hold `CHECKED` bytes.
    """
    fits, faults = _fits(coming, lookup, available, check=check)
    needed = set[Key]().union(*[draft.references for _, draft in coming.judged.values()])
    if any(target.kind == "Extension" for target in needed):
        _judge_storages(coming, fits, faults, type_of=type_of)
    unfit = _unfit(coming, fits)
    notes = {ordinal: _told(fit.notes, ordinal, coming, tell) for ordinal, fit in fits.items() if fit.notes}
    if not unfit and not faults and needed.issubset(coming.there):
        return Resolved(
            fits=fits, notes=notes
        )  # nothing refers to anything else that comes: the most common change by far
    present = _present(coming, unfit | faults.keys())
    refused = {key for key, _ in coming.judged.values()} - present
    reasons = {}
    for ordinal, (_, draft) in coming.judged.items():
        lost = not present.issuperset(draft.references)
        if ordinal in unfit or (lost and ordinal in fits):
            found = [*(fits[ordinal].violations if ordinal in unfit else ())]
            owned = resource.owned_by_user(draft)
            if lost:
                found += [_missing(one, refused) for one in components.references(owned) if one.key not in present]
            reasons[ordinal] = tell(ordinal, violations.in_document_order(found, owned))
    fitting_ones = {ordinal: fit for ordinal, fit in fits.items() if ordinal not in reasons}
    return Resolved(reasons, faults, fitting_ones, notes)


def _told(found: Sequence[Violation], ordinal: int, coming: Coming, tell: Tell) -> str:
    return tell(ordinal, violations.in_document_order(found, resource.owned_by_user(coming.judged[ordinal][1])))


def unresolved_lines(found: Sequence[Violation]) -> tuple[str, ...]:
    """Violations as a stored resource's status lists them: without places, since the status is the resource's."""
    return tuple(violations.lines(found, lambda _: "").split("\n")) if found else ()


def _fits(
    coming: Coming, lookup: Lookup, available: AvailableSecrets | None, *, check: Callable[[], object]
) -> tuple[dict[int, Fit], dict[int, str]]:
    """How each fits its types, or why that cannot be told: one damaged type must not stop everything else."""
    fits, faults = {}, {}
    unchecked = CHECKED
    for ordinal, (_, draft) in coming.judged.items():
        unchecked += len(draft.owned)
        if unchecked > CHECKED:
            check()
            unchecked = 0
        try:
            judging = coming.blinded.get(ordinal, lookup)
            fits[ordinal] = type_checks.fit_draft(
                draft, judging, available=available, refuse_unknown=coming.refuse_unknown
            )
        except Damaged as damage:
            faults[ordinal] = damage.message
    return fits, faults


def _judge_storages(coming: Coming, fits: dict[int, Fit], faults: dict[int, str], *, type_of: TypeOf) -> None:
    """Judge the extensions that webhooks name, once it is known which of those that come are refused.

    That depends on no webhook, since neither an Extension nor a Processor holds one.
    """
    naming = [number for number in fits if any(one.kind == "Extension" for one in coming.judged[number][1].references)]
    refused = _unfit(coming, fits) | faults.keys()
    present = _present(coming, refused)
    arriving = {
        coming.judged[ordinal][0]: coming.judged[ordinal][1]
        for ordinal in coming.arriving
        if ordinal not in refused and present.issuperset(coming.judged[ordinal][1].references)
    }
    after = types_after(arriving, type_of)
    for ordinal in naming:
        try:
            fits[ordinal] = type_checks.with_storages(
                fits[ordinal], resource.owned_by_user(coming.judged[ordinal][1]), after
            )
        except Damaged as damage:
            faults[ordinal] = damage.message
            del fits[ordinal]


def _unfit(coming: Coming, fits: Mapping[int, Fit]) -> set[int]:
    """Those that are refused for their parameters."""
    return {ordinal for ordinal, fit in fits.items() if fit.violations and ordinal not in coming.accepting}


def _present(coming: Coming, unfit: Collection[int]) -> set[Key]:
    """All that a reference may lead to: what is there, and what arrives and is not refused in turn.

    The largest such set, so that two new resources that refer to each other hold each other up.
    """
    there = set(coming.there)
    arriving = {coming.judged[ordinal][0]: ordinal for ordinal in coming.arriving}
    present = there | arriving.keys()
    users: dict[Key, list[Key]] = defaultdict(list)
    refused = []
    for key, ordinal in arriving.items():
        needed = coming.judged[ordinal][1].references
        for target in needed:
            if target in arriving and target not in there:
                users[target].append(key)
        if ordinal in unfit or not present.issuperset(needed):
            refused.append(key)
    while refused:
        key = refused.pop()
        if key in present and key not in there:
            present.remove(key)
            refused += users[key]
    return present


def which_reference(reference: Reference) -> str:
    """What a reference leads to, in words. The value of a parameter is not repeated: it may be a secret."""
    name = "of this name" if reference.pointer[-1] == "value" else reference.name
    return f"{reference.kind} {name}"


def _missing(reference: Reference, refused: Collection[Key]) -> Violation:
    if reference.key in refused:
        return Violation(
            reference.pointer, f"the {which_reference(reference)} is refused itself and not stored yet; mend that first"
        )
    return Violation(reference.pointer, f"there is no {which_reference(reference)}; create it, or correct the name")
