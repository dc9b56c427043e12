"""Judging a head: its documents, its deletions, and their guards."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from reconciler.git.faults import RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.model import documents, positions, principals, resource, values
from reconciler.model.components import MASK
from reconciler.model.names import Key
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS, REFUSED, Change, PruneWindow, StoredState
from reconciler.model.type_checks import FITTING
from reconciler.model.values import Value
from reconciler.model.violations import Place, Violation
from reconciler.planner import candidates, decisions, planner, pruning
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.planner.changes import Decided
from reconciler.planner.decisions import DocumentBatch, StoreSnapshot
from reconciler.planner.pruning import PruneBudget, Pruning, TreeState
from reconciler.store.contract import Changes, HeldRow, PruneRow, RepositoryRow
from reconciler.store.planning_view import PlanningView
from reconciler.worker import ownership_transfer
from reconciler.worker.limits import Allowance
from reconciler.worker.messages import CommitJob
from reconciler.worker.ownership_transfer import OwnershipClaim, OwnershipTransfer
from reconciler.worker.trees import FileReading, TreeReading

# What a commit no longer contains of what its repository owns, and what of the commit could not be read.
#
# Whether that is deleted is decided in `planner.pruning`. A full reading answers from itself; otherwise the index of
# the applied head says what was not read.


@dataclass(frozen=True, slots=True)
class RemovedResources:
    """What is gone, out of how many, and what the tree holds. `owned` is 0 when nothing is gone: nobody asks."""

    gone: list[StoredState]
    owned: int
    tree: TreeState


@dataclass(frozen=True)
class _Scope:
    reading: TreeReading
    view: PlanningView
    repository: str
    project: str

    @cached_property
    def present(self) -> frozenset[Key]:
        """What the commit contains of what was read; a first read has no use for it."""
        kept = self.reading.kept_wanted
        known = (Key(row.kind, row.name) for row in kept if row.kind is not None and row.name is not None)
        return frozenset(one.key for file in self.reading.files for one in file.candidates if one.key).union(known)

    @cached_property
    def paths(self) -> frozenset[str]:
        """The files that were read."""
        return frozenset(file.path for file in self.reading.files)


def find_removed(
    reading: TreeReading, view: PlanningView, *, repository: str, project: str, look_back: bool
) -> RemovedResources:
    """Everything that a repository owns and this commit does not contain.

    `look_back`: what earlier commits took away may still be there, since it was held.
    """
    scope = _Scope(reading, view, repository, project)
    gone = _gone(scope, look_back=look_back)
    owned = view.owned_count(repository, project) if gone else 0
    tree = TreeState(_unreadable(scope), _documents(scope), missing=reading.missing)
    return RemovedResources(gone, owned, tree)


def _gone(scope: _Scope, *, look_back: bool) -> list[StoredState]:
    """An invalid document with a known kind and name is contained: what is stored of it stays."""
    view = scope.view
    if scope.reading.full:
        owned: Iterable[StoredState] = view.owned(scope.repository, scope.project)
    else:
        before = view.wanted_in(scope.repository, sorted(scope.paths))
        keys = {Key(row.kind, row.name) for row in before if row.kind is not None and row.name is not None}
        known = view.stored(scope.project, keys - scope.present).values()
        owned = [stored for stored in known if stored.owner == scope.repository]
        if look_back:
            held = view.owned_unwanted(scope.repository, scope.project)
            owned = {stored.key: stored for stored in (*owned, *held)}.values()
    return [stored for stored in owned if stored.key not in scope.present]


def _unreadable(scope: _Scope) -> list[tuple[str, str]]:
    """(path, fault) of every file that could not be read whole. Each is read again in every run."""
    files = scope.reading.files
    refused = {file.path: file for file in files for one in file.candidates if one.reason is not None}
    faults = [(path, file.fault) for path, file in refused.items() if file.fault is not None]
    vacant = {file.path: file.vacant for file in scope.reading.files if file.vacant is not None}
    if not scope.reading.full:
        vacant |= {path: why for path, why in scope.view.vacant_files(scope.repository) if path not in scope.paths}
    return sorted(faults + _vacated(scope, vacant))


def _vacated(scope: _Scope, vacant: dict[str, str]) -> list[tuple[str, str]]:
    """A file that gave resources and is now a link, a submodule or empty is unreadable, not absent; a folder likewise.

    Unless all that it gave stands elsewhere now: then it was moved.
    """
    if not vacant:
        return []
    gave: dict[str, set[Key]] = defaultdict(set)
    standing = scope.view.standing_at(scope.repository, scope.project, sorted(vacant))
    for path, key in (*standing, *_given(scope, vacant)):
        if key not in scope.present:
            gave[path].add(key)
    keys = {key for given in gave.values() for key in given}
    elsewhere = {key for key, path in scope.view.places_of(scope.repository, keys) if path not in scope.paths}
    faults = []
    for path in sorted(gave):
        if not scope.reading.full and gave[path] <= elsewhere:
            continue
        told = f"gave resources and now {vacant[path]}; delete it or restore it"
        faults.append((path, f"{Place(path, 1, 1)}: {told}"))
    return faults


def _given(scope: _Scope, vacant: dict[str, str]) -> list[tuple[str, Key]]:
    """What vacant files held that was stored from elsewhere: while it was invalid there, a duplicate, or forbidden."""
    given = [(file.path, key) for file in scope.reading.files if file.vacant is not None for key in file.given]
    if not scope.reading.full:
        before = scope.view.given(scope.repository)
        given += [(path, key) for path, key in before if path in vacant and path not in scope.paths]
    stored = scope.view.stored(scope.project, {key for _, key in given})
    owned = {one.key for one in stored.values() if one.owner == scope.repository}
    return [(path, key) for path, key in given if key in owned]


def _documents(scope: _Scope) -> int:
    """How many resource documents the tree holds; exact only where it matters, at none."""
    here = sum(len(file.candidates) for file in scope.reading.files) + len(scope.reading.kept_wanted)
    if here or scope.reading.full:
        return here
    replaced = scope.view.wanted_in(scope.repository, sorted(scope.paths))
    return scope.view.wanted_count(scope.repository) - len(replaced)


# What pruning is told of a commit besides its files (the last 24 hours, approvals, history), and what is remembered of
# its verdict. The verdict itself is `planner.pruning`'s.

PART = 1_000  # rows in one part


@dataclass(frozen=True, slots=True)
class PruneCircumstances:
    """What is known before a commit is judged. `stayed` is what the last plan kept though its head did not hold it;
    `released`: it held nothing, and was of this very tree. `lost`: what was applied last is nowhere any more.
    """

    window: PruneWindow
    approved: frozenset[Key] | None
    unrelated: bool
    lost: bool
    stayed: frozenset[HeldRow]
    released: bool


def read_circumstances(
    job: CommitJob, snapshot: Snapshot, view: PlanningView, *, remembered: RepositoryRow | None, tree: str
) -> PruneCircumstances:
    """The circumstances of a job's commit, whose folder is `tree`. Raises GitFault."""
    lost = _is_lost(job, snapshot, remembered)
    unrelated = lost or _is_unrelated(job, snapshot, remembered)
    approval = view.approval(job.repository)
    # Of another history only the commit that was looked at is approved, and what continues it.
    if approval is not None and unrelated and not snapshot.is_ancestor(approval.commit, job.commit):
        approval = None
    return PruneCircumstances(
        window=view.pruned_since(job.repository, job.context.milliseconds - PRUNE_WINDOW_MILLISECONDS),
        approved=None if approval is None else approval.keys,
        unrelated=unrelated,
        lost=lost,
        stayed=frozenset(view.stays(job.repository)),
        released=_is_released(job, remembered, tree=tree),
    )


def held_rows(pruned: Pruning, *, repository: str) -> frozenset[HeldRow]:
    """Return the rows of what pruning keeps although the head does not contain it."""
    held = (HeldRow(repository, *stored.key, "held") for stored in pruned.held)
    in_use = (HeldRow(repository, *outcome.key, "in-use") for outcome in pruned.in_use if outcome.key is not None)
    protected = (HeldRow(repository, *stored.key, "protected") for stored in pruned.protected)
    return frozenset((*held, *in_use, *protected))


def approvable_flag(pruned: Pruning) -> int | None:
    """Return 1 when an admin can release what is held, 0 when a file must be mended first; None otherwise."""
    if pruned.hold is None:
        return None
    if pruned.approvable:
        return 1
    return 0 if pruned.unreadable else None


def prune_ledger(job: CommitJob, pruned: Pruning, *, owned: int, passed: bool) -> Iterator[Changes]:
    """The row of what goes or passes on: from now on less is owned than within these 24 hours."""
    if pruned.deletions or passed:
        row = PruneRow(job.repository, at=job.context.milliseconds, owned=owned, deleted=pruned.unapproved)
        yield Changes(pruned=(row,))


def held_changes(job: CommitJob, pruned: Pruning, *, stayed: frozenset[HeldRow]) -> Iterator[Changes]:
    """Yield the rows of what is kept, in parts, when they differ from `stayed`."""
    now = held_rows(pruned, repository=job.repository)
    if now != stayed:
        rows = sorted(now)
        for start in range(0, len(rows), PART):
            yield Changes(held=tuple(rows[start : start + PART]))


def _is_released(job: CommitJob, remembered: RepositoryRow | None, *, tree: str) -> bool:
    # Of a repository that was resumed only now nobody knows.
    if remembered is None or remembered.state != RepositoryState.READY or remembered.fingerprint is None:
        return False
    return (remembered.head, remembered.tree) == (job.commit, tree)


def _is_lost(job: CommitJob, snapshot: Snapshot, remembered: RepositoryRow | None) -> bool:
    """Whether the mirror lacks what was applied last from the same place, so that nothing tells what became of it.

    A mirror that was made again is filled with the head and with that commit, as long as the remote gives it out. It
    lacks it only when the head does not lead to it, and the remote has it no more or refuses it: then somebody has to
    say that the head may follow it.
    """
    if remembered is None or remembered.commit is None or remembered.origin != job.origin:
        return False
    return not snapshot.has(remembered.commit)


def _is_unrelated(job: CommitJob, snapshot: Snapshot, remembered: RepositoryRow | None) -> bool:
    """Whether the commit has no history in common with what was applied last from the same place."""
    if remembered is None or remembered.commit is None or remembered.origin != job.origin:
        return False
    return snapshot.is_unrelated(remembered.commit, job.commit)


# Where in its file a violation of a document stands, when the file was read long before the violation was found.
#
# Positions cost a second parse, so they are looked up only for files with something to tell; the last file is kept,
# since documents come file by file.


class ViolationPlaces:
    """The files of one reading."""

    def __init__(self, read: TreeReading, snapshot: Snapshot, allowance: Allowance) -> None:
        self._snapshot = snapshot
        self._allowance = allowance
        self._read = read
        self._documents: list[tuple[FileReading, Candidate]] | None = None
        self._path: str | None = None
        self._locations: documents.Locations | None = None

    def tell(self, ordinal: int, found: Sequence[Violation]) -> str:
        """The violations of the reading's document of this ordinal, as lines with their places.

        Raises GitFault, Exhausted: many documents, each with many violations, take longer to tell than to read.
        """
        self._allowance.time()
        if self._documents is None:  # of most commits there is nothing to tell
            self._documents = [(file, candidate) for file in self._read.files for candidate in file.candidates]
        file, candidate = self._documents[ordinal]
        if file.path != self._path or self._locations is None:
            syntax = documents.syntax_of(file.path)
            assert syntax is not None
            assert file.blob is not None
            data = self._snapshot.read(file.blob, positions.FILE_LIMITS.bytes)
            self._path, self._locations = file.path, documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
        return candidates.file_reason(
            self._in_order(found, candidate.position),
            path=file.path,
            index=candidate.position,
            locations=self._locations,
        )

    def _in_order(self, found: Sequence[Violation], index: int) -> list[Violation]:
        """As a reader of the file meets them."""
        locations = self._locations
        assert locations is not None

        def place(violation: Violation) -> tuple[int, int]:
            position = locations.of(index, violation.pointer, at_key=violation.at_key)
            return position.line, position.column

        return sorted(found, key=place)


# Judging a head: what becomes of its documents and what goes, which depend on each other.
#
# What a document is, what is gone and what guards it come from elsewhere; so do the rows that follow.

MOST_ROUNDS = 3  # judgements of the whole head


@dataclass(frozen=True, slots=True)
class JudgedHead:
    """What becomes of the documents, what goes or passes on, and by ordinal who cannot have the id that they bring."""

    conflicts: Mapping[int, str]
    decided: Decided
    pruned: Pruning
    transfers: tuple[OwnershipTransfer, ...] = ()


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
            claims = tuple(ownership_transfer.without(claims, unsure))
            continue
        passing = tuple(map(ownership_transfer.passing_resources, claims, taken))
        pruned = _prune(head, decided, passing, refused=refused)
        if pruned.holds_all and claims:
            passing, decided = (), decisions.decide_batch(_batch(head, conflicts), world)
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
    return ownership_transfer.find_claims(
        head.departed.gone, head.job.neighbours, head.world, rules=rules, allowance=allowance
    )


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
    passed = frozenset(key for transfer in passing for key in transfer.keys)
    leaving = [key for key in head.leaving if key not in passed]
    written = decisions.written(decided) if leaving else {}
    for transfer in passing:
        written |= transfer.drafts
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
