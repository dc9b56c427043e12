"""What becomes of documents that somebody wants stored: judged together, planned, and what follows for others.

Belongs here: the steps that a commit and a request share. Does not: what disappears (`departures`), rows (`changes`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.access.actors import Actor
from reconciler.deciding import dependants, resolving, stored_secrets
from reconciler.deciding.candidates import Candidate
from reconciler.deciding.changes import Decided
from reconciler.deciding.dependants import Standing
from reconciler.deciding.resolving import Coming, Resolved, Tell
from reconciler.deciding.stored_secrets import Kept
from reconciler.deciding.type_lookup import Types
from reconciler.deciding.worlds import World
from reconciler.planning import planner
from reconciler.planning.models import Change, Outcome, Stored, Wanted
from reconciler.planning.statuses import UpdateStatus
from reconciler.planning.usage import References
from reconciler.resources import builtins
from reconciler.resources.drafts import Draft
from reconciler.resources.fitting import Fit
from reconciler.resources.keys import Key
from reconciler.resources.violations import Violation

ARRIVING = frozenset({UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.UNCHANGED})
UNJUDGED = frozenset({UpdateStatus.INVALID, UpdateStatus.ERROR})
T = TypeVar("T")

WRITING = frozenset({Change.CREATE, Change.UPDATE})


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents that one actor wants stored: the candidates, the same as planned, and what stands under their keys."""

    candidates: Sequence[Candidate]
    wanted: Sequence[Wanted]
    stored: Mapping[Key, Stored]
    actor: Actor
    accept_invalid: bool
    tell: Tell


def decide(batches: Sequence[Batch], world: World) -> tuple[Decided, ...]:
    """For each batch one outcome for each candidate, in order, and what follows from them.

    All batches are judged together, as one change. What follows for others is told with the first.
    """
    change = _Change(batches, world)
    lookup = Types(world.view, project=world.project, coming=dict(change.arriving()))
    kept = tuple(_kept(batch, world, lookup=lookup) for batch in batches)
    if any(one.places or one.reasons or one.faults for one in kept):
        change = _Change([_as_kept(*pair) for pair in zip(batches, kept, strict=True)], world)
    if world.hide_guesses:
        pairs = zip(change.batches, kept, strict=True)
        change = _Change([_as_guessed(batch, one, world, lookup=lookup) for batch, one in pairs], world)
    resolved = change.split(
        resolving.resolve(change.coming, lookup=lookup, type_of=lookup.of_extension, tell=change.tell)
    )
    outcomes = tuple(map(change.outcomes, range(len(batches)), resolved))
    standing = _standing(change.batches, outcomes, resolved, world, lookup=lookup)
    return tuple(
        Decided(
            candidates=batch.candidates,
            outcomes=outcomes[index],
            fits=_still_secret(batch, outcomes[index], resolved[index], world, lookup=lookup),
            unresolved=frozenset(resolved[index].reasons) | resolved[index].faults.keys(),
            kept=kept[index].places,
            standing=standing if index == 0 else replace(standing, rows=(), owners=frozenset()),
        )
        for index, batch in enumerate(change.batches)
    )


def together(batch: Batch, world: World) -> Decided:
    """The same for one batch."""
    [decided] = decide([batch], world)
    return decided


def references(world: World, targets: Iterable[Key], written: Mapping[Key, Draft]) -> References:
    """What will refer to each of these once `written` is stored."""
    wanted = set(targets)
    after = {target: users - written.keys() for target, users in world.view.referrers(world.project, wanted).items()}
    for key, draft in written.items():
        for target in wanted.intersection(draft.references):
            after.setdefault(target, set()).add(key)
    return after


def written(decided: Decided) -> dict[Key, Draft]:
    """What is stored anew."""
    found = {}
    for outcome in decided.outcomes:
        if outcome.change in (Change.CREATE, Change.UPDATE):
            key, draft = _draft(outcome, decided.candidates)
            found[key] = draft
    return found


class _Change:
    """All batches of one change; a document is known by its batch and its ordinal there, or by its number in all."""

    def __init__(self, batches: Sequence[Batch], world: World) -> None:
        self.batches = batches
        self._world = world
        self._planned = [self._plan(batch, batch.wanted) for batch in batches]
        self._first = [sum(len(batch.candidates) for batch in batches[:index]) for index in range(len(batches))]
        self.coming = self._coming()

    def arriving(self) -> list[tuple[Key, Draft]]:
        """The documents that will be stored, or are already, if nothing is wrong with them."""
        return [self.coming.judged[number] for number in sorted(self.coming.arriving)]

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
            )
            for first, length in zip(self._first, lengths, strict=True)
        )

    def outcomes(self, index: int, resolved: Resolved) -> tuple[Outcome, ...]:
        """What becomes of the documents of a batch."""
        if not resolved.reasons and not resolved.faults:
            return self._planned[index]
        batch = self.batches[index]
        return self._plan(batch, [_refused(one, resolved) for one in batch.wanted])

    def _plan(self, batch: Batch, wanted: Sequence[Wanted]) -> tuple[Outcome, ...]:
        return planner.plan(wanted, batch.stored, actor=batch.actor, suspended=self._world.suspended)

    def _coming(self) -> Coming:
        """Judged is whatever its role, its repository's settings, and the document itself do not rule out already."""
        judged, arriving, accepting = {}, set(), set()
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
        targets = {target for _, draft in judged.values() for target in draft.references}
        stored = self._world.view.stored(self._world.project, targets)
        return Coming(judged, arriving, stored.keys() | (targets & builtins.built_in().keys()), accepting)


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


def _kept(batch: Batch, world: World, *, lookup: Types) -> Kept:
    if not any(one.draft is not None and one.draft.has_placeholders for one in batch.candidates):
        return Kept(batch.candidates)
    return stored_secrets.keep(
        batch.candidates,
        world.view,
        project=world.project,
        lookup=lookup,
        hmac_key=world.hmac_key,
        accept_invalid=batch.accept_invalid,
    )


def _as_kept(batch: Batch, kept: Kept) -> Batch:
    """What is wanted, with the secrets that stay."""
    drafted = [candidate.draft for candidate in kept.candidates]
    wanted = [
        replace(
            one,
            digest=one.digest if draft is None else draft.digest,
            reason=_joined(one.reason, kept.reasons.get(one.ordinal)),
            fault=kept.faults.get(one.ordinal),
        )
        for one, draft in zip(batch.wanted, drafted, strict=True)
    ]
    return replace(batch, candidates=kept.candidates, wanted=wanted)


def _as_guessed(batch: Batch, kept: Kept, world: World, *, lookup: Types) -> Batch:
    """What is wanted, with a secret in clear never equal to the stored one: whoever guesses right must not learn it
    from anything that follows.
    """
    guesses = stored_secrets.guesses(batch.candidates, kept.places, world.view, project=world.project, lookup=lookup)
    return replace(batch, wanted=[replace(one, digest=b"") if one.ordinal in guesses else one for one in batch.wanted])


def _still_secret(
    batch: Batch, outcomes: Sequence[Outcome], resolved: Resolved, world: World, *, lookup: Types
) -> Mapping[int, Fit]:
    updates = [one.ordinal for one in outcomes if one.change is Change.UPDATE and one.ordinal is not None]
    if not updates:
        return resolved.fits
    changing = {ordinal: batch.candidates[ordinal] for ordinal in updates}
    return stored_secrets.still_secret(
        resolved.fits,
        changing,
        world.view,
        project=world.project,
        lookup=lookup,
        hide_guesses=world.hide_guesses,
    )


def _standing(
    batches: Sequence[Batch],
    outcomes: Sequence[Sequence[Outcome]],
    resolved: Sequence[Resolved],
    world: World,
    *,
    lookup: Types,
) -> Standing:
    storing: dict[Key, tuple[Draft, Fit]] = {}
    were = []
    moved = set()
    for batch, told, fits in zip(batches, outcomes, resolved, strict=True):
        for one in told:
            if one.change in WRITING and one.ordinal is not None:
                key, draft = _draft(one, batch.candidates)
                storing[key] = (draft, fits.fits[one.ordinal])
                if one.stored is not None and one.stored.incomplete:
                    were.append(key)
            elif one.change is Change.REPLACE_HEAD:
                moved.add(one.key)
    found = dependants.find(
        storing,
        world.view,
        project=world.project,
        lookup=lookup,
        type_of=lookup.of_extension,
        incomplete=were,
    )
    # A head that is replaced gets its status with it.
    return replace(found, rows=tuple(row for row in found.rows if Key(row.kind, row.name) not in moved))


def _refused(one: Wanted, resolved: Resolved) -> Wanted:
    reason, fault = resolved.reasons.get(one.ordinal), resolved.faults.get(one.ordinal)
    if reason is None and fault is None:
        return one
    return replace(one, reason=_joined(one.reason, reason), fault=fault)


def _joined(*reasons: str | None) -> str | None:
    return "\n".join(reason for reason in reasons if reason) or None
