"""Planning a commit: a snapshot of the tree, what is stored, one plan, and the rows that would make it so."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from reconciler.access import actors
from reconciler.clock import rfc3339
from reconciler.deciding import changes, worlds
from reconciler.deciding.candidates import Rules
from reconciler.deciding.changes import Decided, Origin, Stock
from reconciler.deciding.dependants import NOTHING
from reconciler.deciding.remasking import Remasking
from reconciler.deciding.worlds import World
from reconciler.documents.values import Value
from reconciler.git.faults import GitFault, State
from reconciler.git.selecting import Globs
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.planning import planner, statuses
from reconciler.planning.models import Change, Outcome
from reconciler.planning.pruning import Pruning
from reconciler.reading import departures, guarding, handovers, heads, lineages, trees
from reconciler.reading.allowances import Allowance
from reconciler.reading.handovers import Handover
from reconciler.reading.messages import CommitJob, CommitPlanned
from reconciler.reading.one_file import Scope
from reconciler.reading.places import Places
from reconciler.reading.trees import TreeReading
from reconciler.store.contract import Changes, HeldRow, RepositoryRow
from reconciler.store.planning_view import PlanningView

INDEX_PART = 1_000  # index rows in one part

WAITING, UNMENDED = "waiting", "refused"  # see `store.contract.WantedRow`

Emit = Callable[[Changes], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is to be done. `owned` is how many resources the repository has, `stayed` what the last plan kept."""

    decided: Decided
    handovers: tuple[Handover, ...]
    unconverged: tuple[str | None, ...]  # for each candidate, as in the index
    pruning: Pruning
    owned: int
    stayed: frozenset[HeldRow]
    claimed_from: frozenset[str]  # owners of what the head holds and its last one did not
    refused: bool

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Everything that the run tells, in order."""
        return (*self.decided.outcomes, *(one for handover in self.handovers for one in handover.decided.outcomes))

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
        standing = (self.decided.standing, *(handover.decided.standing for handover in self.handovers))
        takers = {handover.neighbour.repository for handover in self.handovers}
        return self.claimed_from.union(takers, *(one.owners for one in standing))


def plan(
    job: CommitJob, view: PlanningView, *, number: int, emit: Emit, at: Callable[[str], None] | None = None
) -> CommitPlanned:
    """Plan the commit; its parts go to `emit`, and to `at` the blob of each file before it is read.

    Raises GitFault, StoreFault, Moved.
    """
    allowance = Allowance(aside=job.aside, at=at)
    with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
        return _plan(job, snapshot, view, number=number, emit=emit, allowance=allowance)


def _plan(
    job: CommitJob, snapshot: Snapshot, view: PlanningView, *, number: int, emit: Emit, allowance: Allowance
) -> CommitPlanned:
    with view.snapshot():
        remembered = view.repository(job.repository)
        reading = _read(job, snapshot, view, remembered, allowance=allowance)
    allowance.no_file()
    # Reading takes seconds on a large repository and planning does not, so the plan gets a snapshot of its own:
    # the shorter it is, the less often the store moves under it.
    with view.snapshot() as revision:
        decision = _decide(job, snapshot, view, reading=reading, remembered=remembered, allowance=allowance)
    # Walking the history takes time, in which the store may move.
    is_first = remembered is None or remembered.commit is None
    changed_by = lineages.of_run(snapshot, decision.paths, is_first=is_first)
    with view.snapshot() as present:
        if present != revision:
            decision = _decide(job, snapshot, view, reading=reading, remembered=remembered, allowance=allowance)
            revision = present
        made = _parts(job, view, decision=decision, commit=snapshot.commit, changed_by=changed_by, check=allowance.time)
        for part in made:
            emit(part)
        index_changed = False
        for part in _index_parts(job, view, reading, decision=decision, remembered=remembered):
            index_changed = True
            emit(part)
        _emit_pruning(job, decision, emit=emit)
    pruned = decision.pruning
    return CommitPlanned(
        number=number,
        revision=revision,
        tree=reading.tree,
        full=reading.full,
        counts=statuses.count(outcome.status for outcome in decision.outcomes),
        changed=decision.changes,
        waits_for_store=WAITING in decision.unconverged or bool(pruned.in_use),
        refused=decision.refused,
        rewound=_is_rewound(snapshot, remembered, job.commit),
        hold=None if pruned.hold is None else pruned.hold.value,
        message=pruned.message,
        touched=tuple(sorted(decision.touched - {job.repository})),
        approvable=guarding.approvable(pruned),
        note=" ".join(filter(None, (handovers.note(decision.handovers), pruned.note))) or None,
        index_changed=index_changed,
        held_changed=guarding.stays(pruned, repository=job.repository) != decision.stayed,
        explained=decision.paths <= changed_by.keys(),
    )


def _emit_pruning(job: CommitJob, decision: _Decision, *, emit: Emit) -> None:
    """What the budget counts of this commit, and what stays though its head does not hold it."""
    if not decision.refused:
        passed = bool(decision.handovers)
        for part in guarding.ledger(job, decision.pruning, owned=decision.owned, passed=passed):
            emit(part)
    for part in guarding.what_stays(job, decision.pruning, stayed=decision.stayed):
        emit(part)


def _read(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    remembered: RepositoryRow | None,
    *,
    allowance: Allowance,
) -> TreeReading:
    rules = Rules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    scope = Scope(
        repository=job.repository,
        project=job.context.project,
        folder=job.path,
        rules=rules,
        allowance=allowance,
        globs=Globs(include=job.include, exclude=job.exclude, root=job.path),
    )
    try:
        if not job.full and remembered is not None and remembered.tree is not None:
            reading = trees.read_changed(snapshot, view, scope=scope, since=remembered.tree)
            if reading is not None:
                return trees.told_empty(reading, view, scope=scope)
        return trees.told_empty(trees.read_all(snapshot, view, scope=scope), view, scope=scope)
    except GitFault as fault:
        if fault.state is not State.PATH_MISSING:
            raise
        return trees.without_folder(fault.message)


def _decide(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    *,
    reading: TreeReading,
    remembered: RepositoryRow | None,
    allowance: Allowance,
) -> _Decision:
    around = guarding.look(job, snapshot, view, remembered=remembered, tree=reading.tree)
    whole = remembered is None or remembered.state != State.READY or bool(around.stayed)
    departed = departures.find(reading, view, repository=job.repository, project=job.context.project, look_back=whole)
    judged = heads.judge(
        job,
        reading,
        departed,
        around=around,
        world=World(
            view,
            job.context.project,
            job.context.hmac_key,
            available=job.context.secrets,
            check=allowance.time,
        ),
        places=Places(reading, snapshot, allowance),
    )
    mendable = judged.decided.unresolved | judged.conflicts.keys()
    told = judged.decided.outcomes
    # Deletions first: what is created may take over the id of what goes, and no two rows have one id at any moment.
    outcomes = (*judged.pruned.deletions, *judged.pruned.in_use, *told)
    refused = job.atomic and bool(planner.refusals(outcomes, actor=actors.repository_actor(job.repository)))
    return _Decision(
        decided=replace(judged.decided, outcomes=outcomes),
        handovers=() if refused else judged.handovers,
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
    return UNMENDED if outcome.status in statuses.REFUSED else None


def _fresh(outcome: Outcome) -> int | None:
    """The ordinal of what is stored as this commit has it; None for what keeps its source or is not stored."""
    is_adopted = outcome.change is Change.REPLACE_HEAD and outcome.stored is not None and outcome.stored.owner is None
    return outcome.ordinal if is_adopted or outcome.change in {Change.CREATE, Change.UPDATE} else None


def _parts(
    job: CommitJob,
    view: PlanningView,
    *,
    decision: _Decision,
    commit: CommitInfo,
    changed_by: Mapping[str, Value],
    check: Callable[[], object],
) -> Iterator[Changes]:
    origin = replace(_origin(job, commit), changed_by=changed_by)
    if decision.refused:
        # Nothing is stored but what the run says; the index stays that of the last applied head.
        unmade = tuple(replace(outcome, change=Change.NONE) for outcome in decision.decided.outcomes)
        decided = replace(decision.decided, outcomes=unmade, standing=NOTHING)
        yield from changes.parts(decided, stock=Stock({}, {}), origin=origin)
        return
    stock = worlds.stock_of(decision.decided, view, project=origin.project)
    yield from changes.parts(decision.decided, stock=stock, origin=origin)
    stored = [(decision.decided, stock)]
    told = len(decision.decided.outcomes)
    for handover in decision.handovers:
        stock = worlds.stock_of(handover.decided, view, project=origin.project)
        taker = _taker(origin, handover)
        yield from changes.parts(handover.decided, stock=stock, origin=taker, first=told)
        stored.append((handover.decided, stock))
        told += len(handover.decided.outcomes)
    yield from Remasking(stored, view, project=origin.project, hmac_key=origin.hmac_key, check=check).parts()


def _index_parts(
    job: CommitJob,
    view: PlanningView,
    reading: TreeReading,
    *,
    decision: _Decision,
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
        yield Changes(files=files)
    for rows in _batches(iter(wanted)):
        yield Changes(wanted=rows)


def _origin(job: CommitJob, commit: CommitInfo) -> Origin:
    context = job.context
    return Origin(
        project=context.project,
        actor=actors.repository_actor(job.repository).name,
        repository=job.repository,
        run=job.run,
        request=None,
        at=context.at,
        milliseconds=context.milliseconds,
        seed=context.seed,
        hmac_key=context.hmac_key,
        source=_source(job.repository, job.branch, commit),
    )


def _taker(origin: Origin, handover: Handover) -> Origin:
    """The same change, on behalf of the repository that takes over: its ids must be others."""
    neighbour = handover.neighbour
    return replace(
        origin,
        actor=actors.repository_actor(neighbour.repository).name,
        repository=neighbour.repository,
        seed=hashlib.blake2b(neighbour.repository.encode(), key=origin.seed, digest_size=len(origin.seed)).digest(),
        source=_source(neighbour.repository, neighbour.branch, handover.commit),
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
