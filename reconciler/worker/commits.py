"""Planning a commit."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import outcomes, principals
from reconciler.model.clock import rfc3339
from reconciler.model.outcomes import Change, Outcome
from reconciler.model.values import Value
from reconciler.planner import changes, decisions, planner
from reconciler.planner.candidates import CandidateRules
from reconciler.planner.changes import Decided, Origin, Stock
from reconciler.planner.decisions import StoreSnapshot
from reconciler.planner.dependants import NOTHING
from reconciler.planner.pruning import Pruning
from reconciler.planner.remasking import Remasking
from reconciler.store.contract import Changes, HeldRow, RepositoryRow
from reconciler.store.planning_view import PlanningView
from reconciler.worker import heads, history, messages, ownership_transfer, trees
from reconciler.worker.heads import ViolationPlaces
from reconciler.worker.limits import RECONCILE, Allowance, PlanMode
from reconciler.worker.messages import CommitJob, CommitPlanned
from reconciler.worker.ownership_transfer import OwnershipTransfer
from reconciler.worker.read_set import RecordingView
from reconciler.worker.trees import FileScope, ReadFiles, TreeReading

# What is to be done about a commit: the tree as far as it must be read, judged against what is stored.

WAITING, UNMENDED = "waiting", "refused"  # see `store.contract.WantedRow`


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done. `owned` is how many resources the repository has, `stayed` what the last plan kept."""

    decided: Decided
    transfers: tuple[OwnershipTransfer, ...]
    unconverged: tuple[str | None, ...]  # for each candidate, as in the index
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
    def changes(self) -> bool:
        """Whether resources change, or what is said of them."""
        is_restated = bool(self.decided.standing.rows)
        return not self.refused and (is_restated or any(one.change is not Change.NONE for one in self.outcomes))

    @property
    def paths(self) -> frozenset[str]:
        """The files of which something is stored, or adopted, with a source of this commit."""
        if self.refused:
            return frozenset()
        places = (
            self.decided.candidates[ordinal].place
            for ordinal in map(_fresh, self.decided.outcomes)
            if ordinal is not None
        )
        return frozenset(place.path for place in places if place is not None)

    @property
    def touched(self) -> frozenset[str]:
        """The repositories whose resources are affected."""
        if self.refused:
            return frozenset()
        standing = (self.decided.standing, *(transfer.decided.standing for transfer in self.transfers))
        takers = {transfer.neighbour.repository for transfer in self.transfers}
        return self.claimed_from.union(takers, *(one.owners for one in standing))


def read(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    remembered: RepositoryRow | None,
    *,
    allowance: Allowance,
    only: Set[str] | None = None,
    also: tuple[FileChange, ...] = (),
    together: ReadFiles | None = None,
) -> TreeReading:
    """What the commit holds, as far as it must be read; `only` these files are looked at, and `also` these are read.

    `together`: see `Scope`. Raises GitFault.
    """
    rules = CandidateRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    scope = FileScope(
        repository=job.repository,
        project=job.context.project,
        folder=job.path,
        rules=rules,
        allowance=allowance,
        globs=FileGlobs(include=job.include, exclude=job.exclude, root=job.path),
        only=only,
        also=also,
        together=together,
    )
    try:
        if not job.full and remembered is not None and remembered.tree is not None:
            reading = trees.read_changed(snapshot, view, scope=scope, since=remembered.tree)
            if reading is not None:
                return trees.told_empty(reading, view, scope=scope)
        return trees.told_empty(trees.read_all(snapshot, view, scope=scope), view, scope=scope)
    except GitFault as fault:
        if fault.state is not RepositoryState.PATH_MISSING:
            raise
        return trees.without_folder(fault.message)


def store_snapshot(job: CommitJob, view: PlanningView, allowance: Allowance, *, terms: PlanMode) -> StoreSnapshot:
    """Return what the commit is judged against."""
    context = job.context
    available = context.secrets if terms.live else None
    return StoreSnapshot(
        view,
        context.project,
        context.hmac_key,
        at=context.at,
        available=available,
        check=allowance.time,
        assumed=terms.assumed,
        lenient=terms.lenient,
        refuse_unknown=context.refuse_unknown,
    )


def decide_commit(
    job: CommitJob,
    snapshot: Snapshot,
    reading: TreeReading,
    world: StoreSnapshot,
    *,
    remembered: RepositoryRow | None,
    allowance: Allowance,
    terms: PlanMode = RECONCILE,
) -> Decision:
    """What is to be done about what was read, inside one snapshot of the store. Raises GitFault."""
    view = world.view
    around = heads.read_circumstances(job, snapshot, view, remembered=remembered, tree=reading.tree)
    whole = remembered is None or remembered.state != RepositoryState.READY or bool(around.stayed)
    departed = heads.find_removed(
        reading, view, repository=job.repository, project=job.context.project, look_back=whole
    )
    # What is not read is not gone: a tree of which nothing concerns the plan is not empty.
    departed = replace(departed, tree=replace(departed.tree, documents=departed.tree.documents + terms.elsewhere))
    judged = heads.judge_head(
        job,
        reading,
        departed,
        around=around,
        world=world,
        places=ViolationPlaces(reading, snapshot, allowance),
        allowance=allowance.beside(),  # what others hold is read again when this is decided again
    )
    mendable = judged.decided.unresolved | judged.conflicts.keys()
    told = judged.decided.outcomes
    # Deletions first: what is created may take over the id of what goes, and no two rows have one id at any moment.
    outcomes = (*judged.pruned.deletions, *judged.pruned.in_use, *told)
    refused = job.atomic and bool(planner.refusals(outcomes, actor=principals.repository_actor(job.repository)))
    return Decision(
        decided=replace(judged.decided, outcomes=outcomes),
        transfers=() if refused else judged.transfers,
        unconverged=tuple(_unconverged(one, mendable, repository=job.repository) for one in told),
        pruning=judged.pruned,
        owned=departed.owned,
        stayed=around.stayed,
        claimed_from=_claimed_from(told, reading, view, repository=job.repository),
        refused=refused or not judged.pruned.applies,
    )


def _claimed_from(
    told: Iterable[Outcome], reading: TreeReading, view: PlanningView, *, repository: str
) -> frozenset[str]:
    """The repositories that own what this one wants as well from now on: they may wait to let go of it.

    What it wanted before they know: told of that again and again, two that want the same would never rest.
    """
    of_others = {one.key: one.stored.owner for one in told if one.stored is not None and one.is_of_another(repository)}
    if not of_others:
        return frozenset()
    paths = [] if reading.full else [file.path for file in reading.files]
    before = {(row.kind, row.name) for row in view.wanted_in(repository, paths)}
    return frozenset(owner for key, owner in of_others.items() if owner is not None and key not in before)


def _unconverged(outcome: Outcome, mendable: Collection[int], *, repository: str) -> str | None:
    """Whether a document of the head is not what is stored for this repository, and if another change may mend that:
    another owner may let go, what is referred to may come, a type may change.
    """
    if outcome.is_of_another(repository) or outcome.ordinal in mendable:
        return WAITING
    return UNMENDED if outcome.status in outcomes.REFUSED else None


def _fresh(outcome: Outcome) -> int | None:
    """The ordinal of what is stored as this commit has it; None for what keeps its source or is not stored."""
    is_adopted = outcome.change is Change.REPLACE_HEAD and outcome.stored is not None and outcome.stored.owner is None
    return outcome.ordinal if is_adopted or outcome.change in {Change.CREATE, Change.UPDATE} else None


# Planning a commit: a snapshot of the tree, what is stored, one plan, and the rows that would make it so.

INDEX_PART = 1_000  # index rows in one part

Emit = Callable[[Changes], None]
T = TypeVar("T")


def plan_commit(
    job: CommitJob,
    view: PlanningView,
    *,
    number: int,
    emit: Emit,
    at: Callable[[str], None] | None = None,
    together: ReadFiles | None = None,
) -> CommitPlanned:
    """Plan the commit; its parts go to `emit`, and to `at` the blob of each file before it is read.

    Raises GitFault, StoreFault.
    """
    allowance = Allowance(aside=job.aside, at=at)
    noting = RecordingView(view, job.context.project)
    with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
        planned = plan_snapshot(job, snapshot, noting, number=number, emit=emit, allowance=allowance, together=together)
    return structs.replace(planned, footprint=noting.footprint())


def plan_snapshot(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    *,
    number: int,
    emit: Emit,
    allowance: Allowance,
    terms: PlanMode = RECONCILE,
    together: ReadFiles | None = None,
) -> CommitPlanned:
    """The same for a snapshot that is open; what it looks at is not noted."""
    with view.snapshot():
        remembered = view.repository(job.repository)
        reading = read(job, snapshot, view, remembered, allowance=allowance, only=terms.only, together=together)
    allowance.no_file()
    # Reading takes seconds on a large repository and planning does not, so the plan gets a snapshot of its own:
    # the shorter it is, the less often the store moves under it.
    world = store_snapshot(job, view, allowance, terms=terms)
    decide = partial(
        decide_commit,
        job,
        snapshot,
        reading,
        world,
        remembered=remembered,
        allowance=allowance,
        terms=terms,
    )
    with view.snapshot() as revision:
        decision = decide()
    # Walking the history takes time, in which the store may move.
    is_first = remembered is None or remembered.commit is None
    changed_by = history.lineage_of_run(snapshot, decision.paths, is_first=is_first) if terms.live else {}
    with view.snapshot() as present:
        if present != revision:
            decision = decide()
            revision = present
        made = _parts(job, view, decision=decision, commit=snapshot.commit, changed_by=changed_by, check=allowance.time)
        _emit_each(made, emit)
        index = _index_parts(job, view, reading, decision=decision, remembered=remembered)
        index_changed = _emit_each(index, emit)
        _emit_each(_pruning_parts(job, decision), emit)
        endpoints = _changed_endpoints(view, job.context.project, decision)
    return _planned(
        reading,
        decision,
        number=number,
        revision=revision,
        repository=job.repository,
        rewound=_is_rewound(snapshot, remembered, job.commit),
        index_changed=index_changed,
        explained=decision.paths <= changed_by.keys(),
        changed_endpoints=endpoints,
    )


def _changed_endpoints(view: PlanningView, project: str, decision: Decision) -> tuple[str, ...]:
    if decision.refused:
        return ()
    decided = (decision.decided, *(transfer.decided for transfer in decision.transfers))
    return decisions.changed_endpoints(decided, view, project=project)


def _planned(
    reading: TreeReading,
    decision: Decision,
    *,
    number: int,
    revision: int,
    repository: str,
    rewound: bool,
    index_changed: bool,
    explained: bool,
    changed_endpoints: tuple[str, ...],
) -> CommitPlanned:
    pruned = decision.pruning
    kinds = outcomes.statuses_by_kind(
        (outcome.key and outcome.key.kind, outcome.status) for outcome in decision.outcomes
    )
    return CommitPlanned(
        number=number,
        revision=revision,
        tree=reading.tree,
        full=reading.full,
        counts=outcomes.summed_statuses(kinds),
        kinds=kinds,
        changed=decision.changes,
        waits_for_store=WAITING in decision.unconverged or bool(pruned.in_use),
        refused=decision.refused,
        rewound=rewound,
        hold=None if pruned.hold is None else pruned.hold.value,
        message=pruned.message,
        touched=tuple(sorted(decision.touched - {repository})),
        approvable=heads.approvable_flag(pruned),
        note=" ".join(filter(None, (ownership_transfer.transfer_note(decision.transfers), pruned.note))) or None,
        index_changed=index_changed,
        held_changed=heads.held_rows(pruned, repository=repository) != decision.stayed,
        explained=explained,
        damaged=planner.damaged(decision.outcomes, limit=messages.MOST_DAMAGED),
        changed_endpoints=changed_endpoints,
    )


def _emit_each(parts: Iterable[Changes], emit: Emit) -> bool:
    """Whether there was any."""
    was_any = False
    for part in parts:
        emit(part)
        was_any = True
    return was_any


def _parts(
    job: CommitJob,
    view: PlanningView,
    *,
    decision: Decision,
    commit: CommitInfo,
    changed_by: Mapping[str, Value],
    check: Callable[[], object],
) -> Iterator[Changes]:
    origin = replace(_origin(job, commit), changed_by=changed_by)
    if decision.refused:
        # Nothing is stored but what the run says; the index stays that of the last applied head.
        unmade = tuple(structs.replace(outcome, change=Change.NONE) for outcome in decision.decided.outcomes)
        decided = replace(decision.decided, outcomes=unmade, standing=NOTHING)
        yield from changes.change_parts(decided, stock=Stock({}, {}), origin=origin)
        return
    stock = decisions.stock_of(decision.decided, view, project=origin.project)
    yield from changes.change_parts(decision.decided, stock=stock, origin=origin)
    stored = [(decision.decided, stock)]
    told = len(decision.decided.outcomes)
    for transfer in decision.transfers:
        stock = decisions.stock_of(transfer.decided, view, project=origin.project)
        taker = _taker(origin, transfer)
        yield from changes.change_parts(transfer.decided, stock=stock, origin=taker, first=told)
        stored.append((transfer.decided, stock))
        told += len(transfer.decided.outcomes)
    yield from Remasking(stored, view, project=origin.project, hmac_key=origin.hmac_key, check=check).parts()


def _pruning_parts(job: CommitJob, decision: Decision) -> Iterator[Changes]:
    """What the budget counts of this commit, and what stays though its head does not hold it."""
    if not decision.refused:
        passed = bool(decision.transfers)
        yield from heads.prune_ledger(job, decision.pruning, owned=decision.owned, passed=passed)
    yield from heads.held_changes(job, decision.pruning, stayed=decision.stayed)


def _index_parts(
    job: CommitJob,
    view: PlanningView,
    reading: TreeReading,
    *,
    decision: Decision,
    remembered: RepositoryRow | None,
) -> Iterator[Changes]:
    """What is remembered of the files that were read; nothing when it is what is remembered already."""
    if decision.refused:
        return
    wanted = tuple(trees.wanted_rows(reading, decision.unconverged, repository=job.repository))
    if not reading.full:
        before = view.wanted_in(job.repository, [file.path for file in reading.files])
        if remembered is not None and remembered.tree == reading.tree and set(before) == set(wanted):
            return
        yield Changes(forgotten_files=tuple((job.repository, file.path) for file in reading.files))
    for files in _batches(trees.file_rows(reading, repository=job.repository)):
        yield Changes(files=files, whole_index=reading.full)
    for rows in _batches(iter(wanted)):
        yield Changes(wanted=rows, whole_index=reading.full)


def _origin(job: CommitJob, commit: CommitInfo) -> Origin:
    context = job.context
    return Origin(
        project=context.project,
        actor=principals.repository_actor(job.repository).name,
        repository=job.repository,
        run=job.run,
        request=None,
        at=context.at,
        milliseconds=context.milliseconds,
        seed=context.seed,
        hmac_key=context.hmac_key,
        source=_source(job.repository, job.branch, commit),
    )


def _taker(origin: Origin, transfer: OwnershipTransfer) -> Origin:
    """The same change, on behalf of the repository that takes over: its ids must be others."""
    neighbour = transfer.neighbour
    return replace(
        origin,
        actor=principals.repository_actor(neighbour.repository).name,
        repository=neighbour.repository,
        seed=hashlib.blake2b(neighbour.repository.encode(), key=origin.seed, digest_size=len(origin.seed)).digest(),
        source=_source(neighbour.repository, neighbour.branch, transfer.commit),
        changed_by={},  # found in the background: its files are others
    )


def _source(repository: str, branch: str, commit: CommitInfo) -> dict[str, Value]:
    return {
        "type": "git",
        "repository": repository,
        "branch": branch,
        "commit": commit.id,
        "author": commit.author,
        "date": rfc3339(commit.date),
    }


def _is_rewound(snapshot: Snapshot, remembered: RepositoryRow | None, commit: str) -> bool:
    """Whether the applied commit is no ancestor of this one: a force-push or a rewind."""
    if remembered is None or remembered.commit is None or remembered.commit == commit:
        return False
    return not snapshot.is_ancestor(remembered.commit, commit)


def _batches(rows: Iterator[T]) -> Iterator[tuple[T, ...]]:
    while batch := tuple(islice(rows, INDEX_PART)):
        yield batch
