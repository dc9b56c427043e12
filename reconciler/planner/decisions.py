"""Documents judged together against a snapshot of the store: the outcome of each, and the consequences for others.

A new resource may bring its own `metadata.id`; no two resources of a project have the same. Among the consequences are
changes of delivery: flows that stop, start, move or become stale, and webhooks with a new address.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TypeAlias

import msgspec
from msgspec import structs

from reconciler.model import builtins, components, flows, names, rendering, routes, violations
from reconciler.model.desired import Desired
from reconciler.model.flows import Flow, FlowChange
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState, UpdateStatus
from reconciler.model.principals import Actor
from reconciler.model.rendering import Delivery
from reconciler.model.routes import Endpoints
from reconciler.model.type_checks import BlindTypes, Fit
from reconciler.model.values import Pointer, Value
from reconciler.model.violations import Violation
from reconciler.planner import delivery, planner, resolving, stored
from reconciler.planner.delivery import ComponentUses, Past
from reconciler.planner.dependants import NOTHING, DependantSearch, DependantState
from reconciler.planner.resolving import Coming, Resolved
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged

WRITING = frozenset({Change.CREATE, Change.UPDATE})
ARRIVING = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.UNCHANGED})
UNJUDGED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
NAMED = 10  # a note names this many resources, and counts the rest


Tell: TypeAlias = Callable[[Desired, Sequence[Violation]], str]
"""Renders the violations of a document, one in each line, with their places."""


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Documents that one actor wants to store, and the stored resources with the same keys."""

    documents: Sequence[Desired]
    stored: Mapping[Key, StoredState]
    actor: Actor
    accept_invalid: bool
    tell: Tell


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome of every document, and its effects. Ordinals of outcomes index `documents`.

    `fits` has each document that is stored. `unresolved` are documents that are invalid because of other resources.
    `standing` has the effects on other resources: their incomplete lines and their delivery.
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
        """Return the documents that are created or updated, of these kinds or of all."""
        writing = ((one.key, one) for one in self.outcomes if one.change in WRITING and one.key is not None)
        return {key: self.document(one) for key, one in writing if kinds is None or key.kind in kinds}

    def guessed(self) -> set[Key]:
        """Return the resources with a secret that was sent in clear text."""
        return {
            key
            for key, fit in self.fits.items()
            if any(pointer not in self.kept.get(key, ()) for pointer, _ in fit.secrets)
        }


def decide(batches: Sequence[DocumentBatch], snapshot: StoreSnapshot) -> tuple[Decided, ...]:
    """Decide one outcome for each document of each batch, in order, and the effects on other resources.

    All batches are judged together, as one change. If several have the same key, at most one of them owns it. The
    effects on others are the same in each decision: the caller chooses the one that reports them.
    """
    change = _Change([_renewed(batch, snapshot) for batch in batches], snapshot)
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=change.arriving_types())
    kept = change.keep_secrets(lookup)
    judging = BlindTypes(lookup, kept, change.tried_types(lookup))
    heads = [batch.actor.repository for batch in batches if batch.actor.repository is not None]
    resolved = resolving.resolve(change.coming, snapshot, judging=judging, type_of=lookup.of_extension, heads=heads)
    change.refuse(resolved)
    standing = change.standing(resolved, lookup=lookup, judging=judging)
    updates = [number for number, _, one in change.outcomes() if one.change is Change.UPDATE]
    fits = resolving.still_secret(resolved.fits, change.coming.judged, updates, snapshot, lookup=lookup)
    found = []
    for first, batch, planned in zip(change.firsts, change.batches, change.planned, strict=True):
        numbered = [(number, one.key) for number, one in enumerate(batch.documents, first) if one.key is not None]
        mine = {key: fits[number] for number, key in numbered if number in fits}
        broken = {key for number, key in numbered if number in resolved.violations or number in resolved.faults}
        outcomes = tuple(_noted(one, batch, mine, standing) for one in planned)
        found.append(Decided(batch.documents, outcomes, mine, frozenset(broken), kept, standing))
    return tuple(found)


class _Change:
    """One change while it is decided: its batches, the planner's outcomes for each, and the documents to judge."""

    def __init__(self, batches: list[DocumentBatch], snapshot: StoreSnapshot) -> None:
        self.batches = batches
        self.firsts = list(accumulate((len(batch.documents) for batch in batches[:-1]), initial=0))
        self._snapshot = snapshot
        self._plan()

    def outcomes(self) -> Iterator[tuple[int, DocumentBatch, Outcome]]:
        """Yield each document's number in the change, its batch, and its outcome."""
        for first, batch, planned in zip(self.firsts, self.batches, self.planned, strict=True):
            for number, one in enumerate(planned, first):
                yield number, batch, one

    def _plan(self) -> None:
        self.planned = [self._planned(batch) for batch in self.batches]
        self.coming = self._coming()

    def _planned(self, batch: DocumentBatch) -> tuple[Outcome, ...]:
        return planner.plan(batch.documents, batch.stored, actor=batch.actor, suspended=self._snapshot.suspended)

    def _coming(self) -> Coming:
        """Collect the documents to judge: those that role, repository settings and the document itself allow.

        If several batches hold a resource, the owner's document arrives. The others are not stored, and may be invalid.
        """
        judged: dict[int, Desired] = {}
        arriving: dict[Key, int] = {}
        accepting, invalid = set(), set()
        for number, batch, one in self.outcomes():
            # Without `stored` it was forbidden before it was compared: by role or by the repository's settings.
            is_out_of_bounds = one.status is UpdateStatus.FORBIDDEN and one.stored is None
            if one.status in UNJUDGED and one.key is not None:
                invalid.add(one.key)
            if one.status in UNJUDGED or is_out_of_bounds or one.ordinal is None or one.key is None:
                continue
            judged[number] = batch.documents[one.ordinal]
            is_others = one.key in arriving and one.is_of_another(batch.actor.repository or "")
            if (one.status in ARRIVING or one.change is Change.CREATE) and not is_others:
                arriving[one.key] = number
            if batch.accept_invalid:
                accepting.add(number)
        targets = set[Key]().union(*(document.references for document in judged.values()))
        present = self._snapshot.view.stored(self._snapshot.project, targets).keys()
        there = present | (targets & builtins.built_in().keys()) | (targets & self._snapshot.assumed)
        return Coming(judged, arriving, there, accepting, invalid=invalid)

    def arriving_types(self) -> dict[Key, Desired]:
        """Return the types that are stored after the change, unless they turn out to be invalid."""
        coming = self.coming
        return {key: coming.judged[number] for key, number in coming.arriving.items() if key.kind in components.TYPES}

    def tried_types(self, lookup: TypeLookup) -> frozenset[Key]:
        """Return the types of a dry run that are not in force before it."""
        if not self._snapshot.hide_guesses:
            return frozenset()
        before = TypeLookup(self._snapshot.view, project=self._snapshot.project, coming={})
        return frozenset(key for key in self.arriving_types() if not stored.is_same_type(key, before, lookup))

    def keep_secrets(self, lookup: TypeLookup) -> Mapping[Key, frozenset[Pointer]]:
        """Replace each `(sensitive)` by the stored secret, and remove the digest of each document that may guess one.
        Return the places that were replaced.
        """
        snapshot, before = self._snapshot, [batch.documents for batch in self.batches]
        places: dict[Key, frozenset[Pointer]] = {}
        for index, batch in enumerate(self.batches):
            documents, kept = resolving.keep_secrets(
                batch.documents, snapshot, lookup=lookup, accept_invalid=batch.accept_invalid
            )
            places |= kept
            asked = {ordinal for ordinal, one in enumerate(documents) if self._may_guess(one, batch)}
            documents = resolving.without_guesses(documents, asked, kept, snapshot, lookup=lookup)
            self.batches[index] = replace(batch, documents=documents)
        if any(batch.documents is not documents for batch, documents in zip(self.batches, before, strict=True)):
            self._plan()
        return places

    def _may_guess(self, document: Desired, batch: DocumentBatch) -> bool:
        """Return True if the answer would reveal whether a secret equals the stored one, at no risk for the guesser: in
        a dry run, and for resources of another owner.
        """
        snapshot = self._snapshot
        if document.key is None or document.key not in batch.stored or not document.owned:
            return False
        if snapshot.hide_guesses and snapshot.known.get(document.key) != document.digest:
            return True
        return not planner.is_free(batch.stored[document.key], actor=batch.actor, suspended=snapshot.suspended)

    def refuse(self, resolved: Resolved) -> None:
        """Plan again with the documents refused that do not fit other resources."""
        if not resolved.violations and not resolved.faults:
            return
        for index, (first, batch) in enumerate(zip(self.firsts, self.batches, strict=True)):
            documents = list(batch.documents)
            for number, one in enumerate(batch.documents, first):
                if number in resolved.violations:
                    found = resolved.violations[number]
                    told = batch.tell(one, found)
                    is_recent = all(each.recent for each in found)
                    documents[number - first] = structs.replace(one, recent=told) if is_recent else one.refused(told)
                elif number in resolved.faults:
                    documents[number - first] = structs.replace(one, fault=resolved.faults[number])
            self.planned[index] = self._planned(replace(batch, documents=documents))

    def standing(self, resolved: Resolved, *, lookup: TypeLookup, judging: BlindTypes) -> DependantState:
        """Find the resources that the change makes incomplete or complete."""
        storing: dict[Key, tuple[Desired, Fit]] = {}
        were = []
        moved = set()
        doubtful = set()
        for number, batch, one in self.outcomes():
            if one.change in WRITING and one.ordinal is not None and one.key is not None:
                storing[one.key] = (batch.documents[one.ordinal], resolved.fits[number])
                if one.stored is not None and one.stored.incomplete:
                    were.append(one.key)
                continue
            if one.change in (Change.REPLACE_HEAD, Change.RENEW):
                moved.add(one.key)
            present = None if one.key is None else batch.stored.get(one.key)
            if present is None:
                continue
            # An unchanged resource may become incomplete or complete, for example when a secret comes or goes.
            fit = resolved.fits.get(number)
            if present.incomplete or number in resolved.violations or (fit is not None and fit.violations):
                doubtful.add(present.key)
        search = DependantSearch(storing, self._snapshot, lookup=lookup, judging=judging)
        found = search.find(were, doubtful)
        # A moved head gets its status with its new row.
        return replace(found, rows=tuple(row for row in found.rows if Key(row.kind, row.name) not in moved))


def _renewed(batch: DocumentBatch, snapshot: StoreSnapshot) -> DocumentBatch:
    """Give stored resources their present digests: an earlier version may have stored members that count as absent."""
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
    """Add notes to the outcome of a stored resource: its oddities, its components that do not run, and the resources
    that it makes incomplete.
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
        told = names.named(others, limit=NAMED)
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
    keeps its id. If several new ones have the same id, none gets it, since their order must not matter.

    The ids of resources that are `leaving` in the same change are free, so a renamed resource keeps its id. The id of a
    built-in resource is reserved for a resource that replaces it: people edit and apply the shown form.
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


ADDRESS = tuple(name for name in routes.WHERE if name != "headers")  # the parameters that say where records go
DELETED = "the Configuration is deleted"


def find_flows(decided: Sequence[Decided], snapshot: StoreSnapshot) -> tuple[Flow, ...]:
    """Return the changes of delivery, the gravest first. Call it inside the snapshot of the decision.

    Raises StoreFault.
    """
    found = [flow for one in decided for flow in one.standing.flows]
    found += _ended(decided, snapshot)
    found += _moved(decided, snapshot)
    return flows.in_order(found)


def subject(flow: Flow) -> Key:
    """Return the resource that a flow is reported with: the Configuration, or the destination that moves."""
    configuration, colon, _ = flow.destination.partition(":")
    if flow.configuration or colon:
        return Key("Configuration", flow.configuration or configuration)
    return Key("Destination", flow.destination)


def _ended(decided: Iterable[Decided], snapshot: StoreSnapshot) -> Iterator[Flow]:
    """Yield the flows of the Configurations that are deleted."""
    keys = [key for key, document in _changed(decided).items() if document is None and key.kind == "Configuration"]
    if not keys:
        return
    uses = ComponentUses(snapshot, written={})
    past = snapshot.view.past_routes(snapshot.project)
    for key, before in snapshot.documents(keys):
        remembered = past.get(key.name)
        known = None if remembered is None else msgspec.json.decode(remembered, type=Past)
        delivered = delivery.delivering_before(key, before, uses, known)
        yield from flows.compare(key.name, delivered, flows.NOTHING, reason=DELETED)


def _moved(decided: Sequence[Decided], snapshot: StoreSnapshot) -> Iterator[Flow]:
    """Yield the used destinations whose address changes."""
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming={})
    told = {key: each for one in decided for key, each in one.standing.delivery.items()}
    for name, good, after in _endpoints_changed(decided, snapshot):
        later = after.get(name)
        component_type = lookup(routes.WEBHOOK_TYPE)
        if good is None or later is None or component_type is None:
            continue
        if not routes.leads_elsewhere(good, later, component_type, names=ADDRESS):
            continue
        configuration, colon, _ = name.partition(":")
        if colon:
            users = {Key("Configuration", configuration)}
        else:
            users = {key for key in snapshot.users([Key("Destination", name)]) if key.kind == "Configuration"}
        others = snapshot.documents(users - told.keys())
        if any(_delivers(told[key]) for key in users if key in told) or any(
            _delivers(rendering.delivery(one.status)) for _, one in others
        ):
            yield Flow(change=FlowChange.MOVED, destination=name)


def _delivers(said: Delivery | None) -> bool:
    return said is not None and not said.reason and said.stale is None


def changed_endpoints(decided: Iterable[Decided], snapshot: StoreSnapshot) -> tuple[str, ...]:
    """Return the names of stored webhooks that a change deletes, disables or moves to another address, sorted. It also
    has webhooks that a Configuration no longer names, even if another one still names them.
    """
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming={})
    found = {
        name
        for name, good, after in _endpoints_changed(decided, snapshot)
        if name not in after or routes.is_another_endpoint(good, after[name], lookup)
    }
    return tuple(sorted(found))


def _endpoints_changed(
    decided: Iterable[Decided], snapshot: StoreSnapshot
) -> Iterator[tuple[str, list[Value] | None, Endpoints]]:
    """Yield each stored webhook of changed resources with its parameters, and the resource's webhooks afterwards."""
    changed = {key: one for key, one in _changed(decided).items() if key.kind in ("Configuration", "Destination")}
    for key, before in snapshot.documents(changed):
        document = changed[key]
        after = {} if document is None else routes.endpoints(key, document.document()["spec"])
        good: Endpoints = {key.name: None}  # of a damaged one, whose route may still be in use
        with suppress(Damaged):
            good = routes.endpoints(key, stored.document_in_clear(key, before)["spec"])
        for name, parameters in good.items():
            yield name, parameters, after


def _changed(decided: Iterable[Decided]) -> dict[Key, Desired | None]:
    """Return the resources that are updated, with their documents, and those that are deleted, with None."""
    found: dict[Key, Desired | None] = {}
    for one in decided:
        for outcome in one.outcomes:
            if outcome.key is not None and outcome.change is Change.UPDATE:
                found[outcome.key] = one.document(outcome)
            elif outcome.key is not None and outcome.change is Change.DELETE:
                found[outcome.key] = None
    return found
