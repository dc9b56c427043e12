"""Documents judged together against a snapshot of the store: the outcome of each, and the consequences for others.

A new resource may bring its own `metadata.id`; no two resources of a project have the same.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from msgspec import structs

from reconciler.model import builtins, components, violations
from reconciler.model.desired import Desired
from reconciler.model.masking import Secrets
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState, UpdateStatus
from reconciler.model.principals import Actor
from reconciler.model.type_checks import Fit
from reconciler.model.values import Pointer
from reconciler.model.violations import Violation
from reconciler.planner import planner, resolving, stored
from reconciler.planner.dependants import NOTHING, DependantSearch, DependantState
from reconciler.planner.resolving import BlindTypes, Coming, Resolved
from reconciler.planner.stored import StoreSnapshot, TypeLookup

WRITING = frozenset({Change.CREATE, Change.UPDATE})
ARRIVING = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.UNCHANGED})
UNJUDGED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
NAMED = 10  # a note names this many resources, and counts the rest


Tell: TypeAlias = Callable[[Desired, Sequence[Violation]], str]
"""Tells the violations of a document, one a line, with their places."""


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Documents that one actor wants stored, and what is stored under their keys."""

    documents: Sequence[Desired]
    stored: Mapping[Key, StoredState]
    actor: Actor
    accept_invalid: bool
    tell: Tell


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome of every document, and what follows. Ordinals of outcomes index `documents`.

    `fits` has each document that is stored. `unresolved` are those that are invalid for their surroundings.
    """

    documents: Sequence[Desired]
    outcomes: tuple[Outcome, ...]
    fits: Mapping[Key, Fit] = field(default_factory=dict)
    unresolved: frozenset[Key] = frozenset()
    kept: Mapping[Key, frozenset[Pointer]] = field(default_factory=dict)  # where `(sensitive)` stood for a secret
    standing: DependantState = NOTHING

    def document(self, outcome: Outcome) -> Desired:
        """Return the document of an outcome that has one."""
        assert outcome.ordinal is not None
        return self.documents[outcome.ordinal]

    def written(self, kinds: Collection[str] | None = None) -> dict[Key, Desired]:
        """Return what is stored anew, of these kinds or of all."""
        writing = ((one.key, one) for one in self.outcomes if one.change in WRITING and one.key is not None)
        return {key: self.document(one) for key, one in writing if kinds is None or key.kind in kinds}

    def guessed(self) -> set[Key]:
        """Return the resources with a secret that was sent in clear."""
        return {
            key
            for key, fit in self.fits.items()
            if any(pointer not in self.kept.get(key, ()) for pointer, _ in fit.secrets)
        }

    def storing_secrets(self) -> Iterator[tuple[Key, Outcome, Secrets]]:
        """Yield the newly stored resources that have secrets, and these."""
        holding = {key: fit.secrets for key, fit in self.fits.items() if fit.secrets}
        for outcome in self.outcomes if holding else ():
            if outcome.key in holding and outcome.change in WRITING and outcome.key is not None:
                yield outcome.key, outcome, holding[outcome.key]


def decide(batches: Sequence[DocumentBatch], snapshot: StoreSnapshot) -> tuple[Decided, ...]:
    """Decide one outcome for each document of each batch, in order, and what follows from them.

    All batches are judged together, as one change. At most one of them owns a key that several have. What follows for
    others is told with the first.
    """
    change = _Change([_renewed(batch, snapshot) for batch in batches], snapshot)
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=change.arriving_types())
    kept = change.keep_secrets(lookup)
    change.hide_guesses(kept, lookup)
    judging = BlindTypes(lookup, kept, change.tried_types(lookup))
    together, apart = change.resolve(lookup, judging)
    change.refuse(together, apart)
    standing = change.standing(together, lookup=lookup, judging=judging)
    updates = {
        one.key: batch.documents[one.ordinal]
        for batch, planned in zip(change.batches, change.planned, strict=True)
        for one in planned
        if one.change is Change.UPDATE and one.key is not None and one.ordinal is not None
    }
    sticky = resolving.still_secret(together.fits, updates, snapshot, lookup=lookup) if updates else together.fits
    found = []
    for index, (batch, planned, own) in enumerate(zip(change.batches, change.planned, apart, strict=True)):
        # The fit of one document says nothing of another document of the same resource.
        mine = {key: fit for key, fit in sticky.items() if change.holders[key] == index}
        fits = {**mine, **own.fits}
        found.append(
            Decided(
                documents=batch.documents,
                outcomes=tuple(_noted(one, batch, fits, standing) for one in planned),
                fits=fits,
                unresolved=frozenset().union(*(one.violations.keys() | one.faults.keys() for one in (together, own))),
                kept=kept,
                standing=standing if index == 0 else standing.told_elsewhere(),
            )
        )
    return tuple(found)


class _Change:
    """One change while it is decided: its batches, the planner's outcomes for each, and what is to be judged."""

    def __init__(self, batches: list[DocumentBatch], snapshot: StoreSnapshot) -> None:
        self.batches = batches
        self._snapshot = snapshot
        self._plan()

    def _plan(self) -> None:
        self.planned = [self._planned(batch) for batch in self.batches]
        self.coming = self._coming()

    def _planned(self, batch: DocumentBatch) -> tuple[Outcome, ...]:
        return planner.plan(batch.documents, batch.stored, actor=batch.actor, suspended=self._snapshot.suspended)

    def _coming(self) -> Coming:
        """Judge whatever its role, its repository's settings, and the document itself do not rule out already.

        Of a resource that several batches hold, the document of its owner is judged with all others, and the rest
        `apart`: they are not stored, and may be invalid.
        """
        judged: dict[Key, Desired] = {}
        self.apart: list[dict[Key, Desired]] = [{} for _ in self.batches]
        self.holders: dict[Key, int] = {}  # the batches of what is judged with all others
        arriving, accepting, invalid = set(), set(), set()
        for number, (batch, planned) in enumerate(zip(self.batches, self.planned, strict=True)):
            for one in planned:
                # Forbidden and not compared, whatever the document says, and whatever owner the stored one has.
                is_out_of_bounds = one.status is UpdateStatus.FORBIDDEN and one.stored is None
                if one.status in UNJUDGED and one.key is not None:
                    invalid.add(one.key)
                if one.status in UNJUDGED or is_out_of_bounds or one.ordinal is None or one.key is None:
                    continue
                if one.key in judged:
                    if one.is_of_another(batch.actor.repository or ""):
                        self.apart[number][one.key] = batch.documents[one.ordinal]
                        continue
                    self.apart[self.holders[one.key]][one.key] = judged[one.key]
                judged[one.key] = batch.documents[one.ordinal]
                self.holders[one.key] = number
                if one.status in ARRIVING or one.change is Change.CREATE:
                    arriving.add(one.key)
                if batch.accept_invalid:
                    accepting.add(one.key)
        every = chain(judged.values(), *(documents.values() for documents in self.apart))
        targets = set[Key]().union(*(document.references for document in every))
        present = self._snapshot.view.stored(self._snapshot.project, targets).keys()
        there = present | (targets & builtins.built_in().keys()) | (targets & self._snapshot.assumed)
        return Coming(judged, arriving, there, accepting, invalid=invalid)

    def arriving_types(self) -> dict[Key, Desired]:
        """Return the types that will be stored, or are already, if nothing is wrong with them."""
        coming = self.coming
        return {key: coming.judged[key] for key in coming.arriving if key.kind in components.TYPES}

    def tried_types(self, lookup: TypeLookup) -> frozenset[Key]:
        """Return the types of a dry run that are not in force yet."""
        if not self._snapshot.hide_guesses:
            return frozenset()
        before = TypeLookup(self._snapshot.view, project=self._snapshot.project, coming={})
        return frozenset(key for key in self.arriving_types() if not stored.is_same_type(key, before, lookup))

    def keep_secrets(self, lookup: TypeLookup) -> Mapping[Key, frozenset[Pointer]]:
        """Put the secrets that stay in place. Returns the places where `(sensitive)` stood for one."""
        places: dict[Key, frozenset[Pointer]] = {}
        batches = []
        for batch in self.batches:
            documents, kept = resolving.keep_secrets(
                batch.documents, self._snapshot, lookup=lookup, accept_invalid=batch.accept_invalid
            )
            batches.append(batch if documents is batch.documents else replace(batch, documents=documents))
            places |= kept
        if any(one is not other for one, other in zip(batches, self.batches, strict=True)):
            self.batches = batches
            self._plan()
        return places

    def hide_guesses(self, kept: Mapping[Key, frozenset[Pointer]], lookup: TypeLookup) -> None:
        """Make a secret in clear never equal to the stored one where the answer would tell whether it is, and nothing
        else came of a wrong guess: in all of a dry run, otherwise in what another owns. A guess that is right must not
        show in anything that follows.
        """
        snapshot, changed = self._snapshot, False

        def is_known(document: Desired) -> bool:
            return document.key is not None and snapshot.known.get(document.key) == document.digest

        for index, batch in enumerate(self.batches):
            of_another = {
                key
                for key, present in batch.stored.items()
                if not planner.is_free(present, actor=batch.actor, suspended=snapshot.suspended)
            }
            if not of_another and not snapshot.hide_guesses:
                continue
            asked = {
                ordinal: one
                for ordinal, one in enumerate(batch.documents)
                if one.owned
                and (one.key in of_another or (snapshot.hide_guesses and one.key in batch.stored and not is_known(one)))
            }
            guesses = resolving.secret_guesses(asked, kept, snapshot, lookup=lookup) if asked else ()
            if guesses:
                documents = [
                    structs.replace(one, digest=b"") if ordinal in guesses else one
                    for ordinal, one in enumerate(batch.documents)
                ]
                self.batches[index] = replace(batch, documents=documents)
                changed = True
        if changed:
            self._plan()

    def resolve(self, lookup: TypeLookup, judging: BlindTypes) -> tuple[Resolved, list[Resolved]]:
        """Judge all together, then of each batch the documents that are judged apart."""
        heads = [batch.actor.repository for batch in self.batches if batch.actor.repository is not None]

        def resolve(coming: Coming) -> Resolved:
            snapshot = self._snapshot
            return resolving.resolve(coming, snapshot, judging=judging, type_of=lookup.of_extension, heads=heads)

        together = resolve(self.coming)
        refused = (self.coming.judged.keys() | self.coming.invalid) - together.present
        apart = []
        for batch, documents in zip(self.batches, self.apart, strict=True):
            accepting = documents.keys() if batch.accept_invalid else ()
            apart.append(resolve(Coming(documents, frozenset(), together.present, accepting, invalid=refused)))
        return together, apart

    def refuse(self, together: Resolved, apart: Sequence[Resolved]) -> None:
        """Plan again without what is refused for its surroundings."""
        if not any(one.violations or one.faults for one in (together, *apart)):
            return
        for index, batch in enumerate(self.batches):
            documents = list(batch.documents)
            for ordinal, one in enumerate(documents):
                if one.key is None:
                    continue
                resolved = together if self.coming.judged.get(one.key) is one else apart[index]
                if one.key in resolved.violations:
                    found = resolved.violations[one.key]
                    told = batch.tell(one, found)
                    is_recent = all(each.recent for each in found)
                    documents[ordinal] = structs.replace(one, recent=told) if is_recent else one.refused(told)
                elif one.key in resolved.faults:
                    documents[ordinal] = structs.replace(one, fault=resolved.faults[one.key])
            self.planned[index] = self._planned(replace(batch, documents=documents))

    def standing(self, resolved: Resolved, *, lookup: TypeLookup, judging: BlindTypes) -> DependantState:
        """Find what the change makes incomplete or complete."""
        storing: dict[Key, tuple[Desired, Fit]] = {}
        were = []
        moved = set()
        doubtful = set()
        for batch, planned in zip(self.batches, self.planned, strict=True):
            for one in planned:
                if one.change in WRITING and one.ordinal is not None and one.key is not None:
                    storing[one.key] = (batch.documents[one.ordinal], resolved.fits[one.key])
                    if one.stored is not None and one.stored.incomplete:
                        were.append(one.key)
                    continue
                if one.change in (Change.REPLACE_HEAD, Change.RENEW):
                    moved.add(one.key)
                present = None if one.key is None else batch.stored.get(one.key)
                if present is None:
                    continue
                # It stays as it is, and may have become incomplete or complete: secrets come and go.
                fit = resolved.fits.get(present.key)
                if present.incomplete or present.key in resolved.violations or (fit is not None and fit.violations):
                    doubtful.add(present.key)
        search = DependantSearch(storing, self._snapshot, lookup=lookup, judging=judging)
        found = search.find(were, doubtful)
        # A head that is replaced gets its status with it.
        return replace(found, rows=tuple(row for row in found.rows if Key(row.kind, row.name) not in moved))


def _renewed(batch: DocumentBatch, snapshot: StoreSnapshot) -> DocumentBatch:
    """Give what is stored the digests that it would get now: an earlier version may have stored members that count as
    absent.
    """
    differing = [
        one.key
        for one in batch.documents
        if one.key is not None and one.key in batch.stored and one.owned and one.digest != batch.stored[one.key].digest
    ]
    renewed = {}
    for key, document in snapshot.documents(differing):
        digest = resolving.renewed_digest(key, document, hmac_key=snapshot.hmac_key)
        if digest is not None:
            renewed[key] = structs.replace(batch.stored[key], digest=digest, renewed=True)
    return replace(batch, stored={**batch.stored, **renewed}) if renewed else batch


def _noted(outcome: Outcome, batch: DocumentBatch, fits: Mapping[Key, Fit], standing: DependantState) -> Outcome:
    """Add the notes on what is stored, or is already: what is odd about it, which of its components do not run, and
    which others it makes incomplete.
    """
    if outcome.key is None or outcome.ordinal is None:
        return outcome
    notes = outcome.notes
    fit = fits.get(outcome.key)
    if fit is not None and fit.notes and outcome.status in ARRIVING:
        document = batch.documents[outcome.ordinal]
        found = violations.in_document_order(fit.notes, document.document())
        notes = (*notes, *batch.tell(document, found).split("\n"))
    delivery = standing.delivery.get(outcome.key)
    if delivery is not None and outcome.change in WRITING:
        notes = (*notes, *delivery.left_out)
    others = standing.made_incomplete.get(outcome.key)
    if others is not None and outcome.change in WRITING:
        told = planner.named(others, limit=NAMED)
        notes = (*notes, f"makes {told} incomplete; `status.incomplete` of each says what to complete")
    return outcome if notes == outcome.notes else structs.replace(outcome, notes=notes)


def id_conflicts(
    documents: Sequence[Desired],
    stored: Mapping[Key, StoredState],
    snapshot: StoreSnapshot,
    *,
    leaving: Sequence[Key] = (),
) -> dict[int, str]:
    """Return, by ordinal, the reasons why new resources cannot have the ids in their documents. An existing resource
    keeps its own; if several new ones have the same, none gets it, since their order must not matter.

    The ids of what is `leaving` with the same change are free: a resource that is renamed keeps its id. The id of a
    built-in resource is only for the one that replaces it, so that the shown form can be edited and applied.
    """
    proposed = {
        ordinal: one.proposed_id
        for ordinal, one in enumerate(documents)
        if one.proposed_id is not None and one.key not in stored
    }
    if not proposed:
        return {}
    owners = snapshot.view.taken_ids(snapshot.project, sorted(set(proposed.values())))
    freed = set(leaving)
    taken = {resource_id for resource_id, owner in owners.items() if owner not in freed}
    bringing = Counter(proposed.values())
    reasons = {}
    for ordinal, resource_id in proposed.items():
        document = documents[ordinal]
        is_built_in = builtins.built_in_ids().get(resource_id, document.key) != document.key
        if resource_id in taken or bringing[resource_id] > 1 or is_built_in:
            prefix = "" if document.place is None else f"{document.place}: "
            reasons[ordinal] = f"{prefix}/metadata/id: another resource of the project has this id; leave it out"
    return reasons
