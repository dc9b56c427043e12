"""Judging a head: the resources that are stored, deleted, and transferred to other repositories.

These three depend on each other. The input is what the files define, what is removed, and which other repositories
define removed resources.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias

import msgspec
from msgspec import structs

from reconciler.model import names, principals, values
from reconciler.model.components import MASK
from reconciler.model.desired import Desired
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.type_checks import FITTING
from reconciler.model.values import Value
from reconciler.planner import decisions, planner, pruning
from reconciler.planner.decisions import Decided, DocumentBatch, Tell
from reconciler.planner.pruning import PruneCircumstances, Pruning, RemovedResources, TreeReading
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.store.repository_records import HeldRow

WAITING, UNMENDED = "waiting", "refused"  # see `store.repository_records.WantedRow`
MOST_ROUNDS = 3  # of judging the whole head; after them, no id of a deleted resource is free


@dataclass(frozen=True, slots=True)
class OwnershipClaim:
    """A resource that this head drops and that a repository outside this change defines. That repository becomes the
    owner of the stored version, and its next run stores the content of its file.
    """

    stored: StoredState
    repository: str
    branch: str
    path: str


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a repository before it is judged: its files, the resources that they no longer define, and the facts
    that decide about both.
    """

    reading: TreeReading
    removed: RemovedResources
    rules: RepositoryRules
    around: PruneCircumstances
    tell: Tell
    claims: Sequence[OwnershipClaim] = ()  # of other repositories, on removed resources


@dataclass(frozen=True, slots=True)
class HeadDecision:
    """The decision about a head. `owned` is the number of resources that the repository owns, and `stayed` are the
    resources that the last plan kept although its head did not hold them.
    """

    reading: TreeReading
    decided: Decided  # its outcomes begin with those of removed resources
    passed: Mapping[Key, str]  # the new owners of transferred resources
    claims: Sequence[OwnershipClaim]  # transfers to repositories outside this change
    unconverged: tuple[str | None, ...]  # for each document, as in the index
    pruning: Pruning
    owned: int
    stayed: frozenset[HeldRow]
    claimed_from: frozenset[str]  # owners of resources that the head wants for the first time
    refused: bool

    def without_effects_on_others(self) -> "HeadDecision":
        """Return the same without effects on other resources: another head of the change reports them."""
        own = replace(self.decided.standing, rows=(), owners=frozenset(), past_routes=(), flows=())
        return replace(self, decided=replace(self.decided, standing=own))

    @property
    def changes(self) -> bool:
        """True if resources or their statuses change."""
        return self.stores or (not self.refused and bool(self.decided.standing.rows))

    @property
    def stores(self) -> bool:
        """True if resources of the head change or pass to another repository."""
        changes = any(one.change is not Change.NONE for one in self.decided.outcomes)
        return not self.refused and (changes or bool(self.claims))

    @property
    def paths(self) -> frozenset[str]:
        """The files of resources that get this commit as their source."""
        outcomes = () if self.refused else self.decided.outcomes
        # These are written resources, and those adopted from the API. Others keep their source.
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
        return self.claimed_from.union(self.passed.values(), self.decided.standing.owners)


def judge_heads(heads: Sequence[Head], snapshot: StoreSnapshot) -> tuple[HeadDecision, ...]:
    """Decide which resources are stored, deleted and transferred. The id of a deleted resource is free for a new one.
    If the resource must stay after all, it keeps its id, and the document that wanted the id is not stored; then others
    may have to stay too, and so on. If deletions are held, nothing is transferred either.

    Heads of several repositories of one project are judged as if all of them were applied: their documents may refer to
    each other. A dropped resource passes to the first other repository by name that has it.
    """
    found = _Judgement(heads, snapshot).decide()
    applied = [head for head, decision in zip(heads, found, strict=True) if not decision.refused]
    if len(applied) in (0, len(heads)):
        return found
    # A refused atomic head stores nothing, so the others are judged again without it.
    again = iter(judge_heads(applied, snapshot))
    return tuple(decision if decision.refused else next(again) for decision in found)


Owners: TypeAlias = Mapping[Key, tuple[int, Desired]]
"""The number of the head that owns a resource, and its document there. It has resources that several heads define, and
those that one drops and another defines.
"""


@dataclass(frozen=True, slots=True)
class _Round:
    """One judgement of all heads."""

    conflicts: Mapping[int, str]  # by the numbers of all documents
    owners: Owners
    decided: Sequence[Decided]
    passing: Sequence[Mapping[Key, str]]  # for each head, the resources that it drops, with their new owners
    pruned: Sequence[Pruning]


class _Judgement:
    """Judges heads in rounds, because only a round shows which removed resources must stay."""

    def __init__(self, heads: Sequence[Head], snapshot: StoreSnapshot) -> None:
        self._heads = heads
        self._snapshot = snapshot
        self._documents = [
            [_ruled(one, head.rules, lenient=snapshot.lenient) for one in head.reading.documents()] for head in heads
        ]
        self._firsts = list(accumulate((len(each) for each in self._documents), initial=0))
        self._stored = snapshot.stored(one.key for each in self._documents for one in each if one.key is not None)
        self._leaving = [
            [one.key for one in pruning.removed_resources(head.removed.gone)] if head.rules.prune else []
            for head in heads
        ]
        self._held: set[Key] = set()  # deletions that a guard holds
        # Documents by which a head would become the owner, with the reason why they are invalid.
        self._unfit: dict[tuple[int, Key], str] = {}

    def decide(self) -> tuple[HeadDecision, ...]:
        """Repeat the judgement until only the resources stay that it assumed to stay."""
        freed, rounds = [key for keys in self._leaving for key in keys], 0
        while True:
            found = self._round(freed)
            if unfit := self._refused_owners(found):
                self._unfit |= unfit  # what stays depends on the owners
                continue
            deleted = {one.key for pruned in found.pruned for one in pruned.deletions}
            held = {
                key
                for leaving, pruned in zip(self._leaving, found.pruned, strict=True)
                for key in (leaving if pruned.holds_all else [one.key for one in pruned.held])
            } - self._held
            passing = set[Key]().union(*found.passing)
            is_more = held & passing or (held and (deleted or len(self._heads) > 1))
            still = [key for key in freed if key in deleted]
            if not is_more and (len(still) == len(freed) or self._conflicts(still) == found.conflicts):
                return tuple(self._decision(number, found) for number in range(len(self._heads)))
            self._held |= held
            # A long chain of ids would need many rounds. After a few, no id counts as free: that is safe, and it ends.
            rounds += 1
            freed = still if rounds < MOST_ROUNDS else []

    def _round(self, freed: Sequence[Key]) -> _Round:
        conflicts = self._conflicts(freed)
        owners = self._owners() if len(self._heads) > 1 else {}
        batches = [self._batch(number, owners, conflicts) for number in range(len(self._heads))]
        decided = decisions.decide(batches, self._snapshot)
        passing = [self._passing(number, owners) for number in range(len(self._heads))]
        return _Round(conflicts, owners, decided, passing, self._prune(decided, owners, passing))

    def _conflicts(self, freed: Sequence[Key]) -> Mapping[int, str]:
        every = [one for each in self._documents for one in each]
        return decisions.id_conflicts(every, self._stored, self._snapshot, leaving=freed)

    def _owners(self) -> Owners:
        holders: dict[Key, list[tuple[int, Desired]]] = defaultdict(list)
        for number in sorted(range(len(self._heads)), key=self._name):
            times = Counter(one.key for one in self._documents[number])  # a duplicate is invalid
            for one in self._documents[number]:
                if one.key is not None and one.owned and one.allowed and times[one.key] == 1:
                    holders[one.key].append((number, one))
        dropped = {key for keys in self._leaving for key in keys} - self._held
        owners = {}
        for key, found in holders.items():
            owner = self._owner_of(key)
            fit = [each for each in found if (each[0], key) not in self._unfit] or found
            own = [each for each in fit if self._name(each[0]) == owner]
            is_shared = len(found) > 1 and (owner is None or bool(own))
            if key in dropped or is_shared:
                owners[key] = (own or fit)[0]
        return owners

    def _batch(self, number: int, owners: Owners, conflicts: Mapping[int, str]) -> DocumentBatch:
        first, rules = self._firsts[number], self._heads[number].rules
        documents = self._documents[number]
        if conflicts or self._unfit:
            documents = [
                one.refused(conflicts.get(first + ordinal) or (one.key and self._unfit.get((number, one.key))))
                for ordinal, one in enumerate(documents)
            ]
        others = {}
        for key, (owner, document) in owners.items():
            if owner != number:  # the resource as its owner will have it
                others[key] = StoredState(key, digest=document.digest, version=0, owner=self._name(owner))
            elif key in self._stored:
                others[key] = structs.replace(self._stored[key], owner=None)
        stored = {**self._stored, **others} if others else self._stored
        actor = principals.repository_actor(rules.name)
        return DocumentBatch(
            documents, stored, actor=actor, accept_invalid=rules.accept_invalid, tell=self._heads[number].tell
        )

    def _passing(self, number: int, owners: Owners) -> dict[Key, str]:
        """Return the resources that a head drops and others define, with the new owner. Heads of this change go before
        other repositories.
        """
        claims = self._heads[number].claims
        claimed = {one.stored.key: one.repository for one in claims if one.stored.key not in self._held}
        return claimed | {key: self._name(owners[key][0]) for key in self._leaving[number] if key in owners}

    def _prune(self, decided: Sequence[Decided], owners: Owners, passed: Sequence[Mapping[Key, str]]) -> list[Pruning]:
        passing = set[Key]().union(*passed)
        going = [key for keys in self._leaving for key in keys if key not in passing and key not in self._held]
        written = {key: document for one in decided for key, document in one.written().items()}
        rewritten = {key: document for key, (_, document) in owners.items() if key in passing}
        references = self._snapshot.references(going, written | rewritten) if going else {}
        in_use = planner.resources_in_use(going, references)
        found = []
        for head, own, leaving in zip(self._heads, decided, self._leaving, strict=True):
            budget, lost = head.rules.budget, [key for key in leaving if key not in passing]
            is_most = budget is not None and not budget.spares(len(lost), owned=head.removed.owned)
            found.append(
                pruning.decide_prune(
                    head.removed,
                    head.around,
                    budget=budget,
                    in_use={key: in_use[key] for key in leaving if key in in_use},
                    passing=passing,
                    renamed=renamed_resources(own, lost, self._snapshot).keys() if is_most else frozenset(),
                    refused=_refused_files(own) if head.removed.gone else {},
                )
            )
        return found

    def _refused_owners(self, found: _Round) -> dict[tuple[int, Key], str]:
        """Return the documents that would make a head the owner but are invalid, with the reasons."""
        return {
            (number, one.key): one.reason
            for number, decided in enumerate(found.decided)
            for one in decided.outcomes
            if one.key is not None and one.key in found.owners and found.owners[one.key][0] == number
            if one.status is UpdateStatus.INVALID and one.reason and (number, one.key) not in self._unfit
            if one.stored is None and self._owner_of(one.key) != self._name(number)
        }

    def _owner_of(self, key: Key) -> str | None:
        return self._stored[key].owner if key in self._stored else None

    def _decision(self, number: int, found: _Round) -> HeadDecision:
        head, decided, pruned = self._heads[number], found.decided[number], found.pruned[number]
        told, rules = decided.outcomes, head.rules
        # Deletions first: a new resource may get the id of a deleted one, and no two rows may ever have the same id.
        outcomes = (*pruned.deletions, *pruned.in_use, *told)
        refused = rules.atomic and bool(planner.refusals(outcomes, actor=principals.repository_actor(rules.name)))
        first, end = self._firsts[number : number + 2]
        mendable = {ordinal - first for ordinal in found.conflicts if first <= ordinal < end}
        mendable |= {ordinal for ordinal, one in enumerate(decided.documents) if one.key in decided.unresolved}
        passed = {} if refused else found.passing[number]
        return HeadDecision(
            reading=head.reading,
            decided=replace(decided, outcomes=outcomes),
            passed=passed,
            claims=[one for one in head.claims if passed.get(one.stored.key) == one.repository],
            unconverged=tuple(_unconverged(one, mendable, repository=rules.name) for one in told),
            pruning=pruned,
            owned=head.removed.owned,
            stayed=head.around.stayed,
            claimed_from=_claimed_from(told, head.reading, self._snapshot.view, repository=rules.name),
            refused=refused or pruned.hold is pruning.PruneHold.UNRELATED_ROOT,
        )

    def _name(self, number: int) -> str:
        return self._heads[number].rules.name


def _claimed_from(
    told: Iterable[Outcome], reading: TreeReading, view: PlanningView, *, repository: str
) -> frozenset[str]:
    """Return the owners of resources that this repository wants for the first time: they may wait to drop them.

    Owners are not told about earlier wants again: two repositories with the same resource would start each other for
    ever.
    """
    of_others = {one.key: one.stored.owner for one in told if one.stored is not None and one.is_of_another(repository)}
    if not of_others:
        return frozenset()
    paths = [] if reading.full else [file.path for file in reading.files]
    before = {row.key for row in view.wanted_in(repository, paths)}
    return frozenset(owner for key, owner in of_others.items() if owner is not None and key not in before)


def _unconverged(outcome: Outcome, mendable: Collection[int], *, repository: str) -> str | None:
    """Return the index's state of a document: None if it is stored, `waiting` if a change elsewhere may let it in, for
    example if its owner drops it or a type changes, otherwise `refused`.
    """
    if outcome.is_of_another(repository) or outcome.ordinal in mendable:
        return WAITING
    return UNMENDED if outcome.status in REFUSED else None


def transfer_note(passed: Mapping[Key, str]) -> str | None:
    """Name the resources that passed to other repositories, for the message of the run."""
    taken: dict[str, list[Key]] = defaultdict(list)
    for key, repository in sorted(passed.items()):
        taken[repository].append(key)
    told = (f"{names.named(keys)} passed to the repository {repository}." for repository, keys in sorted(taken.items()))
    return " ".join(told) or None


def _ruled(document: Desired, rules: RepositoryRules, *, lenient: bool) -> Desired:
    """Return the document with the rules of its repository's settings and of the plan's mode."""
    allowed = document.key is None or rules.allows(document.key)
    if allowed and not (lenient and document.recent is not None):
        return document
    return structs.replace(document, allowed=allowed, recent=None if lenient else document.recent)


def _refused_files(decided: Decided) -> dict[str, str]:
    """Return the files with a refused document, and the place of the first one in each."""
    found: dict[str, str] = {}
    for outcome in decided.outcomes:
        if outcome.status in REFUSED and outcome.ordinal is not None:
            place = decided.document(outcome).place
            if place is not None:
                found.setdefault(place.path, f"{place} is {outcome.status.value}")
    return found


def renamed_resources(decided: Decided, leaving: Sequence[Key], snapshot: StoreSnapshot) -> dict[Key, Key]:
    """Return the new keys of resources that the head creates with an equal spec under another name, by their old keys.
    Secrets are not compared, because the answer must not confirm a guess.
    """
    kinds = {key.kind for key in leaving}
    created: dict[tuple[str, bytes], list[Key]] = defaultdict(list)
    for outcome in decided.outcomes:
        if outcome.change is Change.CREATE and outcome.key is not None and outcome.key.kind in kinds:
            secrets = dict.fromkeys((at for at, _ in decided.fits.get(outcome.key, FITTING).secrets), MASK)
            masked = values.replaced(decided.document(outcome).document(), secrets)
            created[outcome.key.kind, _digest(masked["spec"])].append(outcome.key)
            snapshot.check()
    found = {}
    for key, document in sorted(snapshot.view.documents(snapshot.project, leaving if created else ()).items()):
        if not document.body:
            continue  # damaged, so its spec is unknown
        renamed = created[key.kind, _digest(msgspec.json.decode(document.body).get("spec"))]
        if renamed:
            found[key] = renamed.pop(0)
    return found


def _digest(spec: Value) -> bytes:
    return hashlib.sha256(values.canonical_json(spec)).digest()
