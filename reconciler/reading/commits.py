"""Planning a commit: a snapshot of the tree, what is stored, one plan, and the rows that would make it so.

Belongs here: the steps, and the rows in parts of bounded size. Does not: what is to be done (`commit_decisions`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.model import outcomes, principals
from reconciler.model.clock import rfc3339
from reconciler.model.outcomes import Change
from reconciler.model.values import Value
from reconciler.planner import changes, decisions, planner
from reconciler.planner.changes import Origin, Stock
from reconciler.planner.dependants import NOTHING
from reconciler.planner.remasking import Remasking
from reconciler.reading import commit_decisions, guarding, handovers, lineages, messages, trees
from reconciler.reading.allowances import Allowance
from reconciler.reading.commit_decisions import WAITING, Decision
from reconciler.reading.handovers import OwnershipTransfer
from reconciler.reading.messages import CommitJob, CommitPlanned
from reconciler.reading.noting import RecordingView
from reconciler.reading.one_file import SharedLimits
from reconciler.reading.terms import RECONCILE, PlanMode
from reconciler.reading.trees import TreeReading
from reconciler.store.contract import Changes, RepositoryRow
from reconciler.store.planning_view import PlanningView

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
    together: SharedLimits | None = None,
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
    together: SharedLimits | None = None,
) -> CommitPlanned:
    """The same for a snapshot that is open; what it looks at is not noted."""
    with view.snapshot():
        remembered = view.repository(job.repository)
        reading = commit_decisions.read(
            job, snapshot, view, remembered, allowance=allowance, only=terms.only, together=together
        )
    allowance.no_file()
    # Reading takes seconds on a large repository and planning does not, so the plan gets a snapshot of its own:
    # the shorter it is, the less often the store moves under it.
    world = commit_decisions.world_of(job, view, allowance, terms=terms)
    decide = partial(
        commit_decisions.decide_commit,
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
    changed_by = lineages.lineage_of_run(snapshot, decision.paths, is_first=is_first) if terms.live else {}
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
    decided = (decision.decided, *(handover.decided for handover in decision.handovers))
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
        approvable=guarding.approvable_digest(pruned),
        note=" ".join(filter(None, (handovers.transfer_note(decision.handovers), pruned.note))) or None,
        index_changed=index_changed,
        held_changed=guarding.stays_note(pruned, repository=repository) != decision.stayed,
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
    for handover in decision.handovers:
        stock = decisions.stock_of(handover.decided, view, project=origin.project)
        taker = _taker(origin, handover)
        yield from changes.change_parts(handover.decided, stock=stock, origin=taker, first=told)
        stored.append((handover.decided, stock))
        told += len(handover.decided.outcomes)
    yield from Remasking(stored, view, project=origin.project, hmac_key=origin.hmac_key, check=check).parts()


def _pruning_parts(job: CommitJob, decision: Decision) -> Iterator[Changes]:
    """What the budget counts of this commit, and what stays though its head does not hold it."""
    if not decision.refused:
        passed = bool(decision.handovers)
        yield from guarding.prune_ledger(job, decision.pruning, owned=decision.owned, passed=passed)
    yield from guarding.what_stays(job, decision.pruning, stayed=decision.stayed)


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


def _taker(origin: Origin, handover: OwnershipTransfer) -> Origin:
    """The same change, on behalf of the repository that takes over: its ids must be others."""
    neighbour = handover.neighbour
    return replace(
        origin,
        actor=principals.repository_actor(neighbour.repository).name,
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
