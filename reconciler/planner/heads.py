"""Judging a head: the resources that are stored, deleted, and transferred to other repositories.

These depend on each other. What the files hold, what is gone, and what other repositories hold of that come in.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import msgspec
from msgspec import structs

from reconciler.model import principals, values
from reconciler.model.components import MASK
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.type_checks import FITTING
from reconciler.model.values import Value
from reconciler.planner import decisions, planner, pruning
from reconciler.planner.decisions import Decided, DocumentBatch, Tell
from reconciler.planner.pruning import PruneBudget, PruneCircumstances, Pruning, RemovedResources, TreeReading
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.store.records import HeldRow

WAITING, UNMENDED = "waiting", "refused"  # see `store.records.WantedRow`
MOST_ROUNDS = 3  # judgements of the whole head


@dataclass(frozen=True, slots=True)
class OwnershipClaim:
    """The documents by which a repository would become the owner of what this one drops."""

    repository: str
    batch: DocumentBatch
    source: Mapping[str, Value]  # of what is stored then


@dataclass(frozen=True, slots=True)
class OwnershipTransfer:
    """The resources that pass to one repository: all outcomes store something or move a head."""

    claim: OwnershipClaim
    decided: Decided
    documents: Mapping[Key, Desired]


@dataclass(frozen=True, slots=True)
class HeadDecision:
    """All that is done about a head. `owned` counts the repository's resources; `stayed` is what the last plan kept."""

    reading: TreeReading  # with the files that hold nothing any more
    decided: Decided  # its outcomes begin with those of what is gone
    transfers: tuple[OwnershipTransfer, ...]
    unconverged: tuple[str | None, ...]  # for each document, as in the index
    pruning: Pruning
    owned: int
    stayed: frozenset[HeldRow]
    claimed_from: frozenset[str]  # owners of what the head holds and its last one did not
    refused: bool

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Everything that the run tells, in order."""
        return (*self.decided.outcomes, *(one for transfer in self.transfers for one in transfer.decided.outcomes))

    @property
    def decisions(self) -> tuple[Decided, ...]:
        """The decisions about the documents of the head, and about those that pass to other repositories."""
        return (self.decided, *(transfer.decided for transfer in self.transfers))

    @property
    def changes(self) -> bool:
        """Resources change, or what is said of them."""
        is_restated = bool(self.decided.standing.rows)
        return not self.refused and (is_restated or any(one.change is not Change.NONE for one in self.outcomes))

    @property
    def paths(self) -> frozenset[str]:
        """The files of which something is stored, or adopted, with a source of this commit."""
        outcomes = () if self.refused else self.decided.outcomes
        # What is written or adopted has this commit as its source: it neither keeps its source nor stays as it is.
        own = (
            one
            for one in outcomes
            if one.change in decisions.WRITING
            or (one.change is Change.REPLACE_HEAD and one.stored is not None and one.stored.owner is None)
        )
        places = (self.decided.document(one).place for one in own)
        return frozenset(place.path for place in places if place is not None)

    @property
    def touched(self) -> frozenset[str]:
        """The repositories whose resources are affected."""
        if self.refused:
            return frozenset()
        standing = (self.decided.standing, *(transfer.decided.standing for transfer in self.transfers))
        takers = {transfer.claim.repository for transfer in self.transfers}
        return self.claimed_from.union(takers, *(one.owners for one in standing))


def judge_head(
    reading: TreeReading,
    removed: RemovedResources,
    claims: Iterable[OwnershipClaim],
    snapshot: StoreSnapshot,
    *,
    rules: RepositoryRules,
    around: PruneCircumstances,
    tell: Tell,
) -> HeadDecision:
    """Decide what is stored, what is deleted, and which claims are met. The id of a deleted resource is free for a new
    one. If it stays after all, it keeps its id, and the document that wanted the id is not stored; then fewer may be
    deleted, and so on. If deletions are held, nothing is transferred either.
    """
    documents = [_ruled(one, rules, lenient=snapshot.lenient) for one in reading.documents()]
    stored = snapshot.stored(one.key for one in documents if one.key is not None)
    budget = PruneBudget(rules.prune_min_count, rules.prune_max_percent) if rules.prune else None
    leaving = [one.key for one in pruning.removed_resources(removed.gone)] if rules.prune else []
    actor = principals.repository_actor(rules.name)

    def batch(conflicts: Mapping[int, str]) -> DocumentBatch:
        own = [one.refused(conflicts.get(ordinal)) for ordinal, one in enumerate(documents)] if conflicts else documents
        return DocumentBatch(own, stored, actor=actor, accept_invalid=rules.accept_invalid, tell=tell)

    def prune(decided: Decided, transfers: Sequence[OwnershipTransfer], refused: Mapping[str, str]) -> Pruning:
        passing = {key: one for transfer in transfers for key, one in transfer.documents.items()}
        going = [key for key in leaving if key not in passing]
        is_most = budget is not None and not budget.spares(len(going), owned=removed.owned)
        references = snapshot.references(going, decided.written() | passing) if going else {}
        return pruning.decide_prune(
            removed,
            around,
            budget=budget,
            in_use=planner.resources_in_use(going, references),
            passing=passing.keys(),
            renamed=_renamed(decided, going, snapshot) if is_most else frozenset(),
            refused=refused,
        )

    freed, claims, rounds = leaving, list(claims), 0
    while True:
        conflicts = decisions.id_conflicts(documents, stored, snapshot, leaving=freed)
        decided, *taken = decisions.decide([batch(conflicts), *(claim.batch for claim in claims)], snapshot)
        files = _refused_files(decided) if removed.gone else {}
        unsure = {one.key for one in removed.gone if pruning.is_unsure(one, refused=files, approved=around.approved)}
        if any(one.key in unsure for claim in claims for one in claim.batch.documents):
            claims = list(_without(claims, unsure))
            continue
        transfers = tuple(_transfer(claim, each) for claim, each in zip(claims, taken, strict=True))
        pruned = prune(decided, transfers, files)
        if pruned.holds_all and claims:
            transfers, [decided] = (), decisions.decide([batch(conflicts)], snapshot)
        going = {outcome.key for outcome in pruned.deletions}
        still = [key for key in freed if key in going]
        if len(still) == len(freed) or decisions.id_conflicts(documents, stored, snapshot, leaving=still) == conflicts:
            break
        # Ids may hang together in a long chain: then none of them is free, which is safe, and ends.
        rounds += 1
        freed = still if rounds < MOST_ROUNDS else []
    told = decided.outcomes
    # Deletions first: a new resource may get the id of a deleted one, and no two rows may ever have the same id.
    outcomes = (*pruned.deletions, *pruned.in_use, *told)
    refused = rules.atomic and bool(planner.refusals(outcomes, actor=actor))
    mendable = conflicts.keys() | {ordinal for ordinal, one in enumerate(documents) if one.key in decided.unresolved}
    return HeadDecision(
        reading=reading,
        decided=replace(decided, outcomes=outcomes),
        transfers=() if refused else tuple(one for one in transfers if one.documents),
        unconverged=tuple(_unconverged(one, mendable, repository=rules.name) for one in told),
        pruning=pruned,
        owned=removed.owned,
        stayed=around.stayed,
        claimed_from=_claimed_from(told, reading, snapshot.view, repository=rules.name),
        refused=refused or not pruned.applies,
    )


def _claimed_from(
    told: Iterable[Outcome], reading: TreeReading, view: PlanningView, *, repository: str
) -> frozenset[str]:
    """Find the repositories that own what this one wants as well from now on: they may wait to drop it.

    What it wanted before they know: told of that again and again, two that want the same would never rest.
    """
    of_others = {one.key: one.stored.owner for one in told if one.stored is not None and one.is_of_another(repository)}
    if not of_others:
        return frozenset()
    paths = [] if reading.full else [file.path for file in reading.files]
    before = {(row.kind, row.name) for row in view.wanted_in(repository, paths)}
    return frozenset(owner for key, owner in of_others.items() if owner is not None and key not in before)


def _unconverged(outcome: Outcome, mendable: Collection[int], *, repository: str) -> str | None:
    """Tell for the index that a document is not what is stored for this repository, and if another change may mend
    that: another owner may drop it, what is referred to may come, a type may change.
    """
    if outcome.is_of_another(repository) or outcome.ordinal in mendable:
        return WAITING
    return UNMENDED if outcome.status in REFUSED else None


def transfer_note(transfers: Iterable[OwnershipTransfer]) -> str | None:
    """Tell in a run what passed on: a reader of the run would look for it in vain otherwise."""
    passed = ((planner.named(sorted(one.documents)), one.claim.repository) for one in transfers)
    return " ".join(f"{resources} passed to the repository {repository}." for resources, repository in passed) or None


def _ruled(document: Desired, rules: RepositoryRules, *, lenient: bool) -> Desired:
    """The document as its repository's settings and the mode of the plan have it."""
    allowed = document.key is None or is_allowed(document.key, rules)
    if allowed and not (lenient and document.recent is not None):
        return document
    return structs.replace(document, allowed=allowed, recent=None if lenient else document.recent)


def is_allowed(key: Key, rules: RepositoryRules) -> bool:
    """Return True when the kind and the name of a resource each match a pattern of the setting `allow`."""
    is_kind = any(fnmatchcase(key.kind, pattern) for pattern in rules.allowed_kinds)
    return is_kind and any(fnmatchcase(key.name, pattern) for pattern in rules.allowed_names)


def _without(claims: Iterable[OwnershipClaim], keys: Collection[Key]) -> Iterator[OwnershipClaim]:
    """Leave out of the claims what stays after all."""
    for claim in claims:
        left = [one for one in claim.batch.documents if one.key not in keys]
        if left:
            yield replace(claim, batch=replace(claim.batch, documents=left))


def _transfer(claim: OwnershipClaim, decided: Decided) -> OwnershipTransfer:
    """Keep what can be stored of a claim."""
    outcomes = tuple(outcome for outcome in decided.outcomes if outcome.change is not Change.NONE)
    passed = {outcome.key for outcome in outcomes}
    documents = {one.key: one for one in decided.documents if one.key in passed and one.key and one.owned}
    return OwnershipTransfer(claim, replace(decided, outcomes=outcomes), documents)


def _refused_files(decided: Decided) -> dict[str, str]:
    """The files of which a document is refused, with the first such place in each."""
    found: dict[str, str] = {}
    for outcome in decided.outcomes:
        if outcome.status in REFUSED and outcome.ordinal is not None:
            place = decided.document(outcome).place
            if place is not None:
                found.setdefault(place.path, f"{place} is {outcome.status.value}")
    return found


def _renamed(decided: Decided, leaving: Sequence[Key], snapshot: StoreSnapshot) -> frozenset[Key]:
    """Find what the head creates under another name with an equal spec. Secrets are not compared: an answer must not
    tell that a guess is one.
    """
    kinds = {key.kind for key in leaving}
    created: Counter[tuple[str, bytes]] = Counter()
    for outcome in decided.outcomes:
        if outcome.change is Change.CREATE and outcome.key is not None and outcome.key.kind in kinds:
            secrets = dict.fromkeys((at for at, _ in decided.fits.get(outcome.key, FITTING).secrets), MASK)
            masked = values.replaced(decided.document(outcome).document(), secrets)
            created[outcome.key.kind, _digest(masked["spec"])] += 1
            snapshot.check()
    found = set()
    for key, document in sorted(snapshot.view.documents(snapshot.project, leaving).items()):
        if not document.body:
            continue  # of one that is damaged nobody knows what it was
        spec = key.kind, _digest(msgspec.json.decode(document.body).get("spec"))
        if created[spec]:
            created[spec] -= 1
            found.add(key)
    return frozenset(found)


def _digest(spec: Value) -> bytes:
    return hashlib.sha256(values.canonical_json(spec)).digest()
