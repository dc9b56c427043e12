"""Documents judged together against a snapshot of the store."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec import structs

from reconciler.model import builtins, components, names, resource
from reconciler.model.names import Key
from reconciler.model.outcomes import BUILT_IN, Change, Outcome, StoredState, UpdateStatus, WantedState
from reconciler.model.principals import Actor
from reconciler.model.resource import Draft
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.model.type_checks import Fit
from reconciler.model.violations import Violation
from reconciler.planner import changes, dependants, planner, resolving, stored_secrets
from reconciler.planner.candidates import Candidate
from reconciler.planner.changes import WRITING, Decided, Stock
from reconciler.planner.dependants import DependantState
from reconciler.planner.planner import References
from reconciler.planner.resolving import Coming, Resolved, Tell, TypeLookup
from reconciler.planner.stored_secrets import BlindTypes, KeptSecrets
from reconciler.store.contract import Damaged
from reconciler.store.planning_view import PlanningView

# What a change meets: one snapshot of the store, and what is built in.

KEEPING = frozenset({Change.UPDATE, Change.REPLACE_HEAD, Change.RENEW, Change.RESTORE})
"""What leaves a resource its id."""


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """What a change meets: one snapshot of the store, and what is built in."""

    view: PlanningView
    project: str
    hmac_key: bytes = field(repr=False)
    at: str = ""  # when it happens, RFC 3339
    hide_guesses: bool = False  # a dry run: nothing may show whether a secret that comes in is the stored one
    suspended: frozenset[str] = frozenset()  # repositories whose resources an admin may write
    available: AvailableSecrets | None = (
        NO_SECRETS  # the secrets that the project may refer to; None when nobody can say
    )
    check: Callable[[], object] = bool  # called while documents are judged: raises when there is no time left
    assumed: Set[Key] = frozenset()  # taken to be there, since nobody can say
    lenient: bool = False  # what recent rules have against a document does not count
    refuse_unknown: bool = False  # parameters without a definition are refused whoever executes their type
    known: Mapping[Key, bytes] = field(default_factory=dict)  # by digest: what whoever asks has read; it is no guess

    def stored(self, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """What is stored under these keys, or stands for a name that nobody else may have."""
        wanted = set(keys)
        reserved = {key: self._built_in(key) for key in wanted & builtins.RESERVED}
        return reserved | self.view.compared(self.project, wanted)

    def removable(self, keys: Iterable[Key]) -> dict[Key, StoredState]:
        """What a deletion of these keys meets: what is built in cannot go, whatever its name."""
        wanted = set(keys)
        built_in = {key: self._built_in(key) for key in wanted & builtins.built_in().keys()}
        return built_in | self.view.stored(self.project, wanted)

    def _built_in(self, key: Key) -> StoredState:
        return StoredState(key, digest=_built_in_digest(key, self.hmac_key), version=1, owner=BUILT_IN)


def stock_of(decided: Decided, view: PlanningView, *, project: str) -> Stock:
    """What the rows of these outcomes need to know of what was stored."""
    kept, created = list[Key](), list[Key]()
    for outcome in decided.outcomes:
        if outcome.key is not None:
            if outcome.change is Change.CREATE:
                created.append(outcome.key)
            elif outcome.change in KEEPING:
                kept.append(outcome.key)
    holding = [key for key, one, _ in decided.storing_secrets() if one.change is Change.UPDATE]
    return Stock(
        identities=view.identities(project, kept),
        last_versions=view.last_versions(project, created),
        before=view.documents(project, holding),
    )


def _built_in_digest(key: Key, hmac_key: bytes) -> bytes:
    document = builtins.built_in()[key]
    owned = {name: document[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    return resource.digest_draft(resource.without_absent(owned, names.exact_kind(key.kind)), hmac_key=hmac_key)


# What becomes of documents that somebody wants stored: judged together, planned, and what follows for others.

ARRIVING = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.UNCHANGED})
UNJUDGED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
RENEWED = 100  # stored documents that are looked at together
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Documents that one actor wants stored: the candidates, the same as planned, and what stands under their keys."""

    candidates: Sequence[Candidate]
    wanted: Sequence[WantedState]
    stored: Mapping[Key, StoredState]
    actor: Actor
    accept_invalid: bool
    tell: Tell


def decide(batches: Sequence[DocumentBatch], snapshot: StoreSnapshot) -> tuple[Decided, ...]:
    """For each batch one outcome for each candidate, in order, and what follows from them.

    All batches are judged together, as one change. What follows for others is told with the first.
    """
    batches = [_renewed(batch, snapshot) for batch in batches]
    change = _Change(batches, snapshot)
    lookup = TypeLookup(snapshot.view, project=snapshot.project, coming=dict(change.arriving_types()))
    kept = tuple(_kept(batch, snapshot, lookup=lookup) for batch in batches)
    if any(one.places or one.reasons or one.faults for one in kept):
        change = _Change([_as_kept(*pair) for pair in zip(batches, kept, strict=True)], snapshot)
    guessing = [_guessing(*pair, snapshot, lookup=lookup) for pair in zip(change.batches, kept, strict=True)]
    if any(guessing):
        change = _Change([_as_guessed(*pair) for pair in zip(change.batches, guessing, strict=True)], snapshot)
    blinding = _blinding(change, snapshot, lookup=lookup) if snapshot.hide_guesses else None
    resolved = change.split(
        resolving.resolve(
            change.blinded(blinding, kept),
            lookup=lookup,
            type_of=lookup.of_extension,
            available=snapshot.available,
            tell=change.tell,
            check=snapshot.check,
        )
    )
    outcomes = tuple(map(change.outcomes, range(len(batches)), resolved))
    standing = _standing(change.batches, outcomes, resolved, snapshot, lookup=lookup, blinding=blinding)
    if standing.made_incomplete:
        outcomes = tuple(tuple(_with_others(one, standing) for one in planned) for planned in outcomes)
    return tuple(
        Decided(
            candidates=batch.candidates,
            outcomes=outcomes[index],
            fits=_still_secret(batch, outcomes[index], resolved[index], snapshot, lookup=lookup),
            unresolved=frozenset(resolved[index].reasons) | resolved[index].faults.keys(),
            kept=kept[index].places,
            standing=standing if index == 0 else replace(standing, rows=(), owners=frozenset()),
        )
        for index, batch in enumerate(change.batches)
    )


def decide_batch(batch: DocumentBatch, snapshot: StoreSnapshot) -> Decided:
    """Decide one batch alone."""
    [decided] = decide([batch], snapshot)
    return decided


def references(snapshot: StoreSnapshot, targets: Iterable[Key], written: Mapping[Key, Draft]) -> References:
    """What will refer to each of these once `written` is stored."""
    wanted = set(targets)
    after = {
        target: users - written.keys() for target, users in snapshot.view.referrers(snapshot.project, wanted).items()
    }
    for key, draft in written.items():
        for target in wanted.intersection(draft.references):
            after.setdefault(target, set()).add(key)
    return after


def written(decided: Decided, kinds: Collection[str] | None = None) -> dict[Key, Draft]:
    """What is stored anew, of these kinds or of all."""
    found = {}
    for outcome in decided.outcomes:
        if outcome.change in WRITING and (kinds is None or (outcome.key is not None and outcome.key.kind in kinds)):
            key, draft = _draft(outcome, decided.candidates)
            found[key] = draft
    return found


def changed_endpoints(decided: Iterable[Decided], view: PlanningView, *, project: str) -> tuple[str, ...]:
    """Return the webhooks whose endpoint a change deletes, disables or points elsewhere; see `delivering`."""
    later: dict[Key, Draft | None] = {}
    for one in decided:
        for outcome in one.outcomes:
            if outcome.change is Change.UPDATE:
                key, draft = _draft(outcome, one.candidates)
                later[key] = draft
            elif outcome.change is Change.DELETE and outcome.key is not None:
                later[outcome.key] = None
    lookup = TypeLookup(view, project=project, coming={})
    return dependants.changed_endpoints(view, project=project, later=later, lookup=lookup)


class _Change:
    """All batches of one change; a document is known by its batch and its ordinal there, or by its number in all."""

    def __init__(self, batches: Sequence[DocumentBatch], snapshot: StoreSnapshot) -> None:
        self.batches = batches
        self._world = snapshot
        self._planned = [self._plan(batch, batch.wanted) for batch in batches]
        self._first = [sum(len(batch.candidates) for batch in batches[:index]) for index in range(len(batches))]
        self.coming = self._coming()

    def arriving_types(self) -> list[tuple[Key, Draft]]:
        """The types that will be stored, or are already, if nothing is wrong with them."""
        coming = self.coming
        types = [number for number, (key, _) in coming.judged.items() if key.kind in components.TYPES]
        return [coming.judged[number] for number in sorted(types) if number in coming.arriving]

    def blinded(self, blinding: BlindTypes | None, kept: Sequence[KeptSecrets]) -> Coming:
        """What comes, with the types of those documents that hold stored secrets, where `(sensitive)` stood."""
        if blinding is None:
            return self.coming
        places = {
            first + ordinal: found
            for first, one in zip(self._first, kept, strict=True)
            for ordinal, found in one.places.items()
        }
        judged = {
            number: resource.owned_by_user(draft)
            for number, (_, draft) in self.coming.judged.items()
            if number in places
        }
        return replace(
            self.coming, blinded={number: blinding.of(owned, places[number]) for number, owned in judged.items()}
        )

    def tell(self, number: int, found: Sequence[Violation]) -> str:
        """Violations as the batch of the document tells them."""
        index = max(index for index, first in enumerate(self._first) if first <= number)
        return self.batches[index].tell(number - self._first[index], found)

    def split(self, resolved: Resolved) -> tuple[Resolved, ...]:
        """What was resolved, for each batch by ordinals."""
        if len(self.batches) == 1:
            return (resolved,)
        lengths = (len(batch.candidates) for batch in self.batches)
        return tuple(
            Resolved(
                reasons=_part(resolved.reasons, first, length),
                faults=_part(resolved.faults, first, length),
                fits=_part(resolved.fits, first, length),
                notes=_part(resolved.notes, first, length),
            )
            for first, length in zip(self._first, lengths, strict=True)
        )

    def outcomes(self, index: int, resolved: Resolved) -> tuple[Outcome, ...]:
        """What becomes of the documents of a batch."""
        planned = self._planned[index]
        if resolved.reasons or resolved.faults:
            batch = self.batches[index]
            planned = self._plan(batch, [_refused(one, resolved) for one in batch.wanted])
        return tuple(_noted(one, resolved) for one in planned) if resolved.notes else planned

    def _plan(self, batch: DocumentBatch, wanted: Sequence[WantedState]) -> tuple[Outcome, ...]:
        return planner.plan(wanted, batch.stored, actor=batch.actor, suspended=self._world.suspended)

    def _coming(self) -> Coming:
        """Judged is whatever its role, its repository's settings, and the document itself do not rule out already."""
        judged: dict[int, tuple[Key, Draft]] = {}
        arriving, accepting = set(), set()
        for batch, planned, first in zip(self.batches, self._planned, self._first, strict=True):
            for one in planned:
                if one.status in UNJUDGED or _is_out_of_bounds(one) or one.ordinal is None:
                    continue
                number = first + one.ordinal
                judged[number] = _draft(one, batch.candidates)
                if one.status in ARRIVING or one.change is Change.CREATE:
                    arriving.add(number)
                if batch.accept_invalid:
                    accepting.add(number)
        targets = set[Key]().union(*[draft.references for _, draft in judged.values()])
        stored = self._world.view.stored(self._world.project, targets)
        there = stored.keys() | (targets & builtins.built_in().keys()) | (targets & self._world.assumed)
        return Coming(judged, arriving, there, accepting, refuse_unknown=self._world.refuse_unknown)


def _noted(outcome: Outcome, resolved: Resolved) -> Outcome:
    """With what is noted of a document that is stored, or is already."""
    lines = None if outcome.ordinal is None else resolved.notes.get(outcome.ordinal)
    if lines is None or outcome.status not in ARRIVING:
        return outcome
    return structs.replace(outcome, notes=(*outcome.notes, *lines.split("\n")))


def _with_others(outcome: Outcome, standing: DependantState) -> Outcome:
    """With a note of which others become incomplete by it."""
    others = None if outcome.key is None else standing.made_incomplete.get(outcome.key)
    if others is None or outcome.change not in WRITING:
        return outcome
    return structs.replace(outcome, notes=(*outcome.notes, changes.makes_incomplete(others)))


def _part(whole: Mapping[int, T], first: int, length: int) -> dict[int, T]:
    return {number - first: told for number, told in whole.items() if first <= number < first + length}


def _is_out_of_bounds(outcome: Outcome) -> bool:
    """Forbidden whatever the document says and whoever owns it."""
    return outcome.status is UpdateStatus.FORBIDDEN and outcome.stored is None


def _draft(outcome: Outcome, found: Sequence[Candidate]) -> tuple[Key, Draft]:
    assert outcome.key is not None
    assert outcome.ordinal is not None
    draft = found[outcome.ordinal].draft
    assert draft is not None, "only a valid document comes this far"
    return outcome.key, draft


def _renewed(batch: DocumentBatch, snapshot: StoreSnapshot) -> DocumentBatch:
    """What is stored, with the digests that it would get now: an earlier version may have stored members that count as
    absent.
    """
    differing = [
        one.key
        for one in batch.candidates
        if one.key is not None
        and one.key in batch.stored
        and one.draft is not None
        and one.draft.digest != batch.stored[one.key].digest
    ]
    renewed = {}
    for start in range(0, len(differing), RENEWED):
        found = snapshot.view.documents(snapshot.project, differing[start : start + RENEWED])
        for key, document in found.items():
            digest = stored_secrets.renewed(key, document, hmac_key=snapshot.hmac_key)
            if digest is not None:
                renewed[key] = structs.replace(batch.stored[key], digest=digest, renewed=True)
    return replace(batch, stored={**batch.stored, **renewed}) if renewed else batch


def _kept(batch: DocumentBatch, snapshot: StoreSnapshot, *, lookup: TypeLookup) -> KeptSecrets:
    if not any(one.draft is not None and one.draft.has_placeholders for one in batch.candidates):
        return KeptSecrets(batch.candidates)
    return stored_secrets.keep_secrets(
        batch.candidates,
        snapshot.view,
        project=snapshot.project,
        lookup=lookup,
        hmac_key=snapshot.hmac_key,
        accept_invalid=batch.accept_invalid,
    )


def _as_kept(batch: DocumentBatch, kept: KeptSecrets) -> DocumentBatch:
    """What is wanted, with the secrets that stay."""
    drafted = [candidate.draft for candidate in kept.candidates]
    wanted = [
        structs.replace(
            one,
            digest=one.digest if draft is None else draft.digest,
            reason=_joined(one.reason, kept.reasons.get(one.ordinal)),
            fault=kept.faults.get(one.ordinal),
        )
        for one, draft in zip(batch.wanted, drafted, strict=True)
    ]
    return replace(batch, candidates=kept.candidates, wanted=wanted)


def _guessing(
    batch: DocumentBatch, kept: KeptSecrets, snapshot: StoreSnapshot, *, lookup: TypeLookup
) -> frozenset[int]:
    """The documents that hold a secret in clear where the answer would tell whether it is the stored one and nothing
    else came of a wrong guess: all of a dry run, else those of what another owns.
    """
    of_another = {
        key
        for key, present in batch.stored.items()
        if not planner.is_free(present, actor=batch.actor, suspended=snapshot.suspended)
    }
    if not of_another and not snapshot.hide_guesses:
        return frozenset()
    asked = {
        ordinal: candidate
        for ordinal, candidate in enumerate(batch.candidates)
        if candidate.key in of_another or (snapshot.hide_guesses and _may_be_guessed(candidate, batch, snapshot))
    }
    if not asked:
        return frozenset()
    return stored_secrets.secret_guesses(asked, kept.places, snapshot.view, project=snapshot.project, lookup=lookup)


def _may_be_guessed(candidate: Candidate, batch: DocumentBatch, snapshot: StoreSnapshot) -> bool:
    if candidate.key is None or candidate.key not in batch.stored or candidate.draft is None:
        return False
    return snapshot.known.get(candidate.key) != candidate.draft.digest


def _blinding(change: _Change, snapshot: StoreSnapshot, *, lookup: TypeLookup) -> BlindTypes:
    before = TypeLookup(snapshot.view, project=snapshot.project, coming={})
    types = [key for key, _ in change.arriving_types()]
    return BlindTypes(lookup, frozenset(key for key in types if not _is_in_force(key, before, lookup)))


def _is_in_force(key: Key, before: TypeLookup, after: TypeLookup) -> bool:
    with suppress(Damaged):
        return before(key) is after(key)
    return False


def _as_guessed(batch: DocumentBatch, guesses: Collection[int]) -> DocumentBatch:
    """What is wanted, with a secret in clear never equal to the stored one: whoever guesses right must not learn it
    from anything that follows.
    """
    wanted = [structs.replace(one, digest=b"") if one.ordinal in guesses else one for one in batch.wanted]
    return replace(batch, wanted=wanted)


def _still_secret(
    batch: DocumentBatch,
    outcomes: Sequence[Outcome],
    resolved: Resolved,
    snapshot: StoreSnapshot,
    *,
    lookup: TypeLookup,
) -> Mapping[int, Fit]:
    updates = [one.ordinal for one in outcomes if one.change is Change.UPDATE and one.ordinal is not None]
    if not updates:
        return resolved.fits
    changing = {ordinal: batch.candidates[ordinal] for ordinal in updates}
    return stored_secrets.still_secret(
        resolved.fits,
        changing,
        snapshot.view,
        project=snapshot.project,
        lookup=lookup,
        hide_guesses=snapshot.hide_guesses,
    )


def _standing(
    batches: Sequence[DocumentBatch],
    outcomes: Sequence[Sequence[Outcome]],
    resolved: Sequence[Resolved],
    snapshot: StoreSnapshot,
    *,
    lookup: TypeLookup,
    blinding: BlindTypes | None,
) -> DependantState:
    storing: dict[Key, tuple[Draft, Fit]] = {}
    were = []
    moved = set()
    doubtful = set()
    for batch, told, fits in zip(batches, outcomes, resolved, strict=True):
        for one in told:
            if one.change in WRITING and one.ordinal is not None:
                key, draft = _draft(one, batch.candidates)
                storing[key] = (draft, fits.fits[one.ordinal])
                if one.stored is not None and one.stored.incomplete:
                    were.append(key)
                continue
            moves = one.change is Change.RESTORE and batch.actor.repository
            if one.change in (Change.REPLACE_HEAD, Change.RENEW) or moves:
                moved.add(one.key)
            present = None if one.key is None else batch.stored.get(one.key)
            if present is not None and _may_stand_otherwise(one, present, fits):
                doubtful.add(present.key)
    found = dependants.find_dependants(
        storing,
        snapshot.view,
        project=snapshot.project,
        at=snapshot.at,
        lookup=lookup,
        type_of=lookup.of_extension,
        available=snapshot.available,
        incomplete=were,
        doubtful=doubtful,
        blinding=blinding,
        refuse_unknown=snapshot.refuse_unknown,
    )
    # A head that is replaced gets its status with it.
    return replace(found, rows=tuple(row for row in found.rows if Key(row.kind, row.name) not in moved))


def _may_stand_otherwise(one: Outcome, stored: StoredState, resolved: Resolved) -> bool:
    """Whether what is stored, and stays as it is, may have become incomplete or whole: secrets come and go."""
    fit = None if one.ordinal is None else resolved.fits.get(one.ordinal)
    return stored.incomplete or one.ordinal in resolved.reasons or (fit is not None and bool(fit.violations))


def _refused(one: WantedState, resolved: Resolved) -> WantedState:
    reason, fault = resolved.reasons.get(one.ordinal), resolved.faults.get(one.ordinal)
    if reason is None and fault is None:
        return one
    return structs.replace(one, reason=_joined(one.reason, reason), fault=fault)


def _joined(*reasons: str | None) -> str | None:
    return "\n".join(reason for reason in reasons if reason) or None
