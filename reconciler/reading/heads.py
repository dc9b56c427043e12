"""Judging a head: what becomes of its documents and what goes, which depend on each other.

What a document is, what is gone and what guards it come from elsewhere; so do the rows that follow.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from reconciler.model import principals, resource, values
from reconciler.model.components import MASK
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, StoredState
from reconciler.model.type_checks import FITTING
from reconciler.model.values import Value
from reconciler.planner import candidates, decisions, planner, pruning
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.planner.changes import Decided
from reconciler.planner.decisions import DocumentBatch, StoreSnapshot
from reconciler.planner.pruning import PruneBudget, Pruning
from reconciler.reading import handovers
from reconciler.reading.allowances import Allowance
from reconciler.reading.departures import RemovedResources
from reconciler.reading.guarding import PruneCircumstances
from reconciler.reading.handovers import OwnershipClaim, OwnershipTransfer
from reconciler.reading.messages import CommitJob
from reconciler.reading.places import ViolationPlaces
from reconciler.reading.trees import TreeReading

MOST_ROUNDS = 3  # judgements of the whole head


@dataclass(frozen=True, slots=True)
class JudgedHead:
    """What becomes of the documents, what goes or passes on, and by ordinal who cannot have the id that they bring."""

    conflicts: Mapping[int, str]
    decided: Decided
    pruned: Pruning
    handovers: tuple[OwnershipTransfer, ...] = ()


@dataclass(frozen=True, slots=True)
class _Head:
    """Everything that one judgement is made of. `leaving` is what goes unless something holds it."""

    job: CommitJob
    world: StoreSnapshot
    places: ViolationPlaces
    departed: RemovedResources
    around: PruneCircumstances
    found: Sequence[Candidate]
    stored: Mapping[Key, StoredState]
    leaving: Sequence[Key]


def judge_head(
    job: CommitJob,
    reading: TreeReading,
    departed: RemovedResources,
    *,
    around: PruneCircumstances,
    world: StoreSnapshot,
    places: ViolationPlaces,
    allowance: Allowance,
) -> JudgedHead:
    """What is stored and what goes.

    The id of what goes is free for what comes. What stays after all keeps its id, and whoever wanted that is not
    stored; then less may go, and so on. When what would go is held, nothing passes on either.
    """
    found = reading.candidates()
    stored = world.stored(candidate.key for candidate in found if candidate.key is not None)
    leaving = [one.key for one in pruning.removed_resources(departed.gone)] if job.prune else []
    head = _Head(job, world, places, departed, around, found, stored, leaving)
    freed, claims = leaving, _claims(head, allowance)
    rounds = 0
    passing: tuple[OwnershipTransfer, ...]
    while True:
        conflicts = _conflicts(head, freed)
        decided, *taken = decisions.decide([_batch(head, conflicts), *(claim.batch for claim in claims)], world)
        refused = _refused(decided) if departed.gone else {}
        unsure = _unsure(head, refused)
        if any(candidate.key in unsure for claim in claims for candidate in claim.batch.candidates):
            claims = tuple(handovers.without(claims, unsure))
            continue
        passing = tuple(map(handovers.passing_resources, claims, taken))
        pruned = _prune(head, decided, passing, refused=refused)
        if pruned.holds_all and claims:
            passing, decided = (), decisions.together(_batch(head, conflicts), world)
        going = {outcome.key for outcome in pruned.deletions}
        still = [key for key in freed if key in going]
        if len(still) == len(freed) or _conflicts(head, still) == conflicts:
            return JudgedHead(conflicts, decided, pruned, tuple(one for one in passing if one.drafts))
        # Ids may hang together in a long chain: then none of them is free, which is safe, and ends.
        rounds += 1
        freed = still if rounds < MOST_ROUNDS else []


def _conflicts(head: _Head, freed: Sequence[Key]) -> dict[int, str]:
    world = head.world
    return candidates.id_conflicts(head.found, head.stored, world.view, project=world.project, leaving=freed)


def _batch(head: _Head, conflicts: Mapping[int, str]) -> DocumentBatch:
    wanted = [
        candidate.wanted(
            ordinal,
            reason=conflicts.get(ordinal),
            allowed=_is_allowed(head.job, candidate.key),
            lenient=head.world.lenient,
        )
        for ordinal, candidate in enumerate(head.found)
    ]
    return DocumentBatch(
        candidates=head.found,
        wanted=wanted,
        stored=head.stored,
        actor=principals.repository_actor(head.job.repository),
        accept_invalid=head.job.accept_invalid,
        tell=head.places.tell,
    )


def _claims(head: _Head, allowance: Allowance) -> tuple[OwnershipClaim, ...]:
    """What others would take over. Without pruning, a repository lets go of nothing."""
    if not head.job.prune or not head.departed.gone:
        return ()
    rules = CandidateRules(api_versions=head.job.context.api_versions, hmac_key=head.world.hmac_key)
    return handovers.find_claims(head.departed.gone, head.job.neighbours, head.world, rules=rules, allowance=allowance)


def _refused(decided: Decided) -> dict[str, str]:
    """The files of which a document is refused, with the first such place in each."""
    found: dict[str, str] = {}
    for outcome in decided.outcomes:
        if outcome.status in REFUSED and outcome.ordinal is not None:
            place = decided.candidates[outcome.ordinal].place
            if place is not None:
                found.setdefault(place.path, f"{place} is {outcome.status.value}")
    return found


def _unsure(head: _Head, refused: Mapping[str, str]) -> frozenset[Key]:
    gone, approved = head.departed.gone, head.around.approved
    return frozenset(one.key for one in gone if pruning.is_unsure(one, refused=refused, approved=approved))


def _renamed(head: _Head, decided: Decided, leaving: Sequence[Key]) -> frozenset[Key]:
    """What the head creates under another name with an equal spec. Secrets are not compared: whether a guess is one
    must not show.
    """
    kinds = {key.kind for key in leaving}
    created: Counter[tuple[str, bytes]] = Counter()
    for outcome in decided.outcomes:
        if outcome.change is Change.CREATE and outcome.key is not None and outcome.key.kind in kinds:
            assert outcome.ordinal is not None  # what is created is wanted
            draft = decided.candidates[outcome.ordinal].draft
            assert draft is not None  # it is valid
            secrets = dict.fromkeys((at for at, _ in decided.fits.get(outcome.ordinal, FITTING).secrets), MASK)
            masked = values.replaced(resource.owned_by_user(draft), secrets)
            created[outcome.key.kind, _digest(masked["spec"])] += 1
            head.world.check()
    found = set()
    for key, document in sorted(head.world.view.documents(head.world.project, leaving).items()):
        if not document.body:
            continue  # of one that is damaged nobody knows what it was
        spec = key.kind, _digest(msgspec.json.decode(document.body).get("spec"))
        if created[spec]:
            created[spec] -= 1
            found.add(key)
    return frozenset(found)


def _digest(spec: Value) -> bytes:
    return hashlib.sha256(values.canonical_json(spec)).digest()


def _prune(
    head: _Head, decided: Decided, passing: Sequence[OwnershipTransfer], *, refused: Mapping[str, str]
) -> Pruning:
    job, departed, around = head.job, head.departed, head.around
    passed = frozenset(key for handover in passing for key in handover.keys)
    leaving = [key for key in head.leaving if key not in passed]
    written = decisions.written(decided) if leaving else {}
    for handover in passing:
        written |= handover.drafts
    references = decisions.references(head.world, leaving, written) if leaving else {}
    budget = PruneBudget(job.prune_min_count, job.prune_max_percent) if job.prune else None
    is_most = budget is not None and not budget.spares(len(leaving), owned=departed.owned)
    return pruning.decide_prune(
        departed.gone,
        tree=replace(departed.tree, unrelated=around.unrelated, lost=around.lost, released=around.released),
        owned=departed.owned,
        budget=budget,
        window=around.window,
        in_use=planner.resources_in_use(leaving, references),
        passing=passed,
        approved=around.approved,
        renamed=_renamed(head, decided, leaving) if is_most else frozenset(),
        refused=refused,
    )


def _is_allowed(job: CommitJob, key: Key | None) -> bool:
    return key is None or candidates.is_allowed_resource(key, kinds=job.allowed_kinds, names=job.allowed_names)
