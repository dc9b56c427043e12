"""Planning a commit: a snapshot of the tree, what is stored, one plan, and the rows that would make it so."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TypeVar

from reconciler.access import actors
from reconciler.clock import rfc3339
from reconciler.git.faults import State
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.planning import planner, pruning, statuses
from reconciler.planning.models import Change, Outcome
from reconciler.planning.pruning import Pruning
from reconciler.reading import changes, departures, identities, trees
from reconciler.reading.candidates import Candidate, Rules
from reconciler.reading.changes import Origin, Stock
from reconciler.reading.messages import CommitJob, CommitPlanned
from reconciler.reading.trees import Scope, TreeReading
from reconciler.resources.keys import Key
from reconciler.store.contract import Changes, RepositoryRow
from reconciler.store.planning_view import PlanningView

INDEX_PART = 1_000  # index rows in one part

WAITING, UNMENDED = "waiting", "refused"  # see `store.contract.WantedRow`

Emit = Callable[[Changes], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is to be done; ordinals of the outcomes index `found`."""

    found: Sequence[Candidate]
    outcomes: tuple[Outcome, ...]
    unconverged: tuple[str | None, ...]  # for each of `found`, as in the index
    pruning: Pruning
    refused: bool


def plan(job: CommitJob, view: PlanningView, *, number: int, emit: Emit) -> CommitPlanned:
    """Plan the commit; its parts go to `emit`. Raises GitFault, StoreFault, Moved."""
    with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
        return _plan(job, snapshot, view, number=number, emit=emit)


def _plan(job: CommitJob, snapshot: Snapshot, view: PlanningView, *, number: int, emit: Emit) -> CommitPlanned:
    with view.snapshot():
        remembered = view.repository(job.repository)
        reading = _read(job, snapshot, view, remembered)
    # Reading takes seconds on a large repository and planning does not, so the plan gets a snapshot of its own:
    # the shorter it is, the less often the store moves under it.
    with view.snapshot() as revision:
        decision = _decide(job, view, reading, remembered)
        counts = statuses.count(outcome.status for outcome in decision.outcomes)
        for part in _parts(job, view, decision=decision, commit=snapshot.commit):
            emit(part)
        for part in _index_parts(job, view, reading, decision=decision, remembered=remembered):
            emit(part)
    held = decision.pruning.hold
    return CommitPlanned(
        number=number,
        revision=revision,
        tree=reading.tree,
        full=reading.full,
        counts=counts,
        changed=not decision.refused and any(one.change is not Change.NONE for one in decision.outcomes),
        waits_for_store=WAITING in decision.unconverged,
        refused=decision.refused,
        rewound=_is_rewound(snapshot, remembered, job.commit),
        hold=None if held is None else held.value,
        message=decision.pruning.message,
    )


def _read(job: CommitJob, snapshot: Snapshot, view: PlanningView, remembered: RepositoryRow | None) -> TreeReading:
    rules = Rules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    scope = Scope(repository=job.repository, project=job.context.project, folder=job.path, rules=rules)
    if not job.full and remembered is not None and remembered.tree is not None:
        reading = trees.read_changed(snapshot, view, scope=scope, since=remembered.tree)
        if reading is not None:
            return reading
    return trees.read_all(snapshot, scope=scope)


def _decide(job: CommitJob, view: PlanningView, reading: TreeReading, remembered: RepositoryRow | None) -> _Decision:
    found = reading.candidates()
    project = job.context.project
    actor = actors.repository_actor(job.repository)
    stored = view.stored(project, {candidate.key for candidate in found if candidate.key is not None})
    whole = remembered is None or remembered.state != State.READY
    departed = departures.find(reading, view, repository=job.repository, project=project, look_back=whole)
    pruned = pruning.decide(
        departed.gone,
        tree=departed.tree,
        owned=departed.owned,
        budget=pruning.Budget(job.prune_min_count, job.prune_max_percent) if job.prune else None,
    )
    leaving = [outcome.key for outcome in pruned.deletions if outcome.key is not None]
    conflicts = identities.conflicts(found, stored, view, project=project, leaving=leaving)
    wanted = [
        candidate.wanted(ordinal, reason=conflicts.get(ordinal), allowed=_is_allowed(job, candidate.key))
        for ordinal, candidate in enumerate(found)
    ]
    outcomes = planner.plan(wanted, stored, actor=actor)
    refused = job.atomic and bool(planner.refusals(outcomes, actor=actor))
    # Deletions first: what is created may take over the id of what goes, and no two rows have one id at any moment.
    return _Decision(
        found=found,
        outcomes=(*pruned.deletions, *outcomes),
        unconverged=tuple(_unconverged(outcome, conflicts, repository=job.repository) for outcome in outcomes),
        pruning=pruned,
        refused=refused,
    )


def _unconverged(outcome: Outcome, conflicts: Mapping[int, str], *, repository: str) -> str | None:
    """Whether a document of the head is not what is stored for this repository, and if another change may mend that."""
    if outcome.is_of_another(repository) or outcome.ordinal in conflicts:
        return WAITING
    return UNMENDED if outcome.status in statuses.REFUSED else None


def _is_allowed(job: CommitJob, key: Key | None) -> bool:
    """Whether the repository may hold this resource at all: its kind and its name each match a pattern."""
    return key is None or (
        any(fnmatchcase(key.kind, pattern) for pattern in job.allowed_kinds)
        and any(fnmatchcase(key.name, pattern) for pattern in job.allowed_names)
    )


def _parts(job: CommitJob, view: PlanningView, *, decision: _Decision, commit: CommitInfo) -> Iterator[Changes]:
    origin = _origin(job, commit)
    if decision.refused:
        # Nothing is stored but what the run says; the index stays that of the last applied head.
        told = [replace(outcome, change=Change.NONE) for outcome in decision.outcomes]
        yield from changes.parts(told, decision.found, stock=Stock({}, {}), origin=origin)
        return
    stock = stock_of(decision.outcomes, view, project=origin.project)
    yield from changes.parts(decision.outcomes, decision.found, stock=stock, origin=origin)


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


def stock_of(outcomes: Iterable[Outcome], view: PlanningView, *, project: str) -> Stock:
    """What the rows of these outcomes need to know of what was stored."""
    by_change: dict[Change, list[Key]] = {change: [] for change in Change}
    for outcome in outcomes:
        if outcome.key is not None:
            by_change[outcome.change].append(outcome.key)
    kept = by_change[Change.UPDATE] + by_change[Change.REPLACE_HEAD]
    return Stock(
        identities=view.identities(project, kept),
        last_versions=view.last_versions(project, by_change[Change.CREATE]),
    )


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
        source={
            "type": "git",
            "repository": job.repository,
            "branch": job.branch,
            "commit": commit.id,
            "author": commit.author,
            "date": rfc3339(commit.date),
        },
    )


def _is_rewound(snapshot: Snapshot, remembered: RepositoryRow | None, commit: str) -> bool:
    """Whether the applied commit is no ancestor of this one: a force-push or a rewind."""
    if remembered is None or remembered.commit is None or remembered.commit == commit:
        return False
    return not snapshot.is_ancestor(remembered.commit, commit)


def _batches(rows: Iterator[T]) -> Iterator[tuple[T, ...]]:
    while batch := tuple(islice(rows, INDEX_PART)):
        yield batch
