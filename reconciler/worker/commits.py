"""The commit job: read the tree as far as necessary, judge it against the store, and make the rows.

Reading and a first judgement need no lock. Under the project's lock the commit is judged again if the store changed
meanwhile. If this repository drops a resource that another one defines, the other becomes the owner in the same change.
The other's next run stores what its files say.

The lineage of a resource is the commit that last changed its file (`changedBy` of a source). A run searches for a
moment; the lineage job searches for the rest in the background.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import structs

from reconciler.git import trees as git_trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import flows, outcomes, principals
from reconciler.model.clock import rfc3339
from reconciler.model.desired import DocumentRules
from reconciler.model.flows import Flow
from reconciler.model.names import Key
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS, Change, UpdateStatus
from reconciler.model.values import Value
from reconciler.planner import decisions, pruning
from reconciler.planner import heads as planner_heads
from reconciler.planner.changes import ChangeParts, ChangeRows, Origin, origin_row
from reconciler.planner.dependants import NOTHING
from reconciler.planner.heads import Head, HeadDecision, OwnershipClaim
from reconciler.planner.pruning import FileReading, PruneCircumstances, RemovedResources, TreeReading
from reconciler.planner.remasking import Remasking
from reconciler.planner.stored import StoreSnapshot
from reconciler.store import records
from reconciler.store.contract import PlanningView
from reconciler.store.records import Changes, LineageRow, OriginRow
from reconciler.store.repository_records import PruneRow, RepositoryRow
from reconciler.worker import messages, trees
from reconciler.worker.messages import CommitJob, CommitPlanned, Emit, LineageFound, LineageJob, Steps
from reconciler.worker.trees import Allowance, FileLocations, FileScope


@dataclass(frozen=True, slots=True)
class PlanMode:
    """The mode of a plan. `only` are the files that count, None for all; `elsewhere` is the number of other files.
    `assumed` are resources that are assumed to exist, since that is unknown.

    If `live`, the store and the permitted secrets are the service's. Otherwise the store is made for this plan alone,
    and lineage and secrets are not looked up. If `lenient`, recent rules do not count: a service may have stored the
    documents before these rules existed.
    """

    only: Set[str] | None = None
    assumed: Set[Key] = frozenset()
    elsewhere: int = 0
    live: bool = True
    lenient: bool = False


RECONCILE = PlanMode()


class CommitReading:
    """A commit in the steps of its plan. Reading and judging each use a snapshot of the store, which may change
    between.
    """

    def __init__(
        self,
        job: CommitJob,
        snapshot: Snapshot,
        view: PlanningView,
        *,
        allowance: Allowance,
        mode: PlanMode = RECONCILE,
    ) -> None:
        self.job, self.rules = job, job.rules
        self.snapshot, self.view, self.allowance, self.mode = snapshot, view, allowance, mode
        self.documents = DocumentRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
        self.remembered = view.repository(job.rules.name)

    def read(self, *, also: tuple[FileChange, ...] = (), known: Iterable[FileReading] = ()) -> TreeReading:
        """Read the files of the commit that must be read, and the files `also`. The `known` files were read before.

        Raises GitFault.
        """
        scope = FileScope(
            self.rules,
            project=self.job.context.project,
            documents=self.documents,
            allowance=self.allowance,
            only=self.mode.only,
            also=also,
            known={file.path: file for file in known},
        )
        since = None if self.job.full or self.remembered is None else self.remembered.tree
        try:
            reading = None if since is None else trees.read_changed(self.snapshot, self.view, scope=scope, since=since)
            reading = reading or trees.read_all(self.snapshot, self.view, scope=scope)
        except GitFault as fault:
            if fault.state is not RepositoryState.PATH_MISSING:
                raise
            reading = TreeReading(tree=git_trees.EMPTY, full=True, files=(), missing=fault.message)
        self.allowance.at("")
        return reading

    def store_snapshot(self) -> StoreSnapshot:
        """Return the snapshot of the store that the commit is judged against."""
        context = self.job.context
        return StoreSnapshot(
            self.view,
            context.project,
            context.hmac_key,
            context.at,
            available=context.secrets,
            check=self.allowance.time,
            assumed=self.mode.assumed,
            lenient=self.mode.lenient,
            refuse_unknown=context.refuse_unknown,
        )

    def head(self, reading: TreeReading, store: StoreSnapshot) -> Head:
        """Return the head to judge, from the files that were read. Raises GitFault."""
        repository, project, remembered = self.rules.name, store.project, self.remembered
        reading = pruning.marked_vacant(reading, self.view, repository=repository, project=project)
        around = self._circumstances(reading.tree)
        look_back = remembered is None or remembered.state != RepositoryState.READY or bool(around.stayed)
        gone = pruning.find_removed(reading, self.view, repository=repository, project=project, look_back=look_back)
        # Files that were not read count as present: a tree without files of this plan is not empty.
        gone = replace(gone, documents=gone.documents + self.mode.elsewhere)
        tell = FileLocations(reading.files, self.snapshot, self.allowance).tell
        return Head(reading, gone, self.rules, around, tell, list(self.claims(gone, project)))

    def _circumstances(self, tree: str) -> PruneCircumstances:
        """Return what pruning must know of the commit besides its files. `tree` is the repository's folder. Raises
        GitFault.
        """
        job, snapshot, remembered, repository = self.job, self.snapshot, self.remembered, self.rules.name
        # A mirror that was made again has the head, and the applied commit if the remote still serves it. Without that
        # commit nobody knows if the head continues it, so an admin has to approve the head.
        applied = None if remembered is None or remembered.origin != job.origin else remembered.commit
        unrelated = applied is not None and (not snapshot.has(applied) or snapshot.is_unrelated(applied, job.commit))
        approved_at, approved = self.view.approval(repository) or (None, None)
        # In an unrelated history, an approval covers only the commit that it was given for, and its descendants.
        if approved_at is not None and unrelated and not snapshot.is_ancestor(approved_at, job.commit):
            approved = None
        released = (
            remembered is not None
            and remembered.state == RepositoryState.READY
            and remembered.fingerprint is not None  # otherwise it was just resumed, and resources may have drifted
            and (remembered.head, remembered.tree) == (job.commit, tree)
        )
        return PruneCircumstances(
            window=self.view.pruned_since(repository, job.context.milliseconds - PRUNE_WINDOW_MILLISECONDS),
            approved=approved,
            unrelated=unrelated,
            released=released,
            stayed=frozenset(self.view.stays(repository)),
        )

    def claims(self, gone: RemovedResources, project: str) -> Iterator[OwnershipClaim]:
        """Yield the resources that the head drops and that a neighbour's applied head defines. Of several neighbours,
        the first by name becomes the owner.
        """
        left = {one.key: one for one in gone.gone} if self.rules.prune else {}  # without pruning it drops nothing
        beside = {one.rules.name for one in self.job.beside}
        for neighbour in sorted(self.job.neighbours, key=lambda one: one.rules.name):
            name = neighbour.rules.name
            row = self.view.repository(name) if left and name not in beside else None
            if row is None or row.commit is None or row.project != project:
                continue
            rows = self.view.wanted_of(name, left)
            times = Counter(one.key for one in rows)  # a duplicate is invalid
            for one in rows:
                if one.key is not None and times[one.key] == 1 and neighbour.rules.allows(one.key):
                    yield OwnershipClaim(left.pop(one.key), name, neighbour.branch, one.path)


NOTED = 5  # unread files that a run names
INDEX_PART = 1_000  # index rows in one part


def plan_commit(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    *,
    emit: Emit,
    allowance: Allowance,
) -> Steps[CommitPlanned]:
    """Plan a commit and send its parts by `emit`. Raises GitFault, StoreFault."""
    with view.snapshot() as read_at:
        commits = [CommitReading(one, snapshot, view, allowance=allowance) for one in (job, *job.beside)]
        readings = [commit.read() for commit in commits]
    store = commits[0].store_snapshot()
    # Reading a large repository takes seconds, so the judgement has its own, newer snapshot: then it more often still
    # holds when the project is locked.
    with view.snapshot() as judged_at:
        decided = decide(commits, readings, store)
    is_first = any(one.remembered is None or one.remembered.commit is None for one in commits)
    paths = frozenset[str]().union(*(decision.paths for decision in decided))
    changed_by = lineage_of_run(snapshot, paths, is_first=is_first)
    yield
    with view.snapshot() as revision:
        if revision > (judged_at if all(one.full for one in readings) else read_at):
            # After a partial read, other files may matter now. They are few.
            readings = [
                reading if reading.full else commit.read(known=reading.files)
                for commit, reading in zip(commits, readings, strict=True)
            ]
            decided = decide(commits, readings, store)
        return write_commits(commits, decided, store, changed_by=changed_by, emit=emit)


def decide(
    commits: Sequence[CommitReading], readings: Sequence[TreeReading], store: StoreSnapshot
) -> Sequence[HeadDecision]:
    """Judge the commits as one change. Raises GitFault."""
    found = [commit.head(reading, store) for commit, reading in zip(commits, readings, strict=True)]
    decided = planner_heads.judge_heads(found, store)
    teller = _reporting_head(decided)
    return [one if number == teller else one.without_effects_on_others() for number, one in enumerate(decided)]


def _reporting_head(decided: Sequence[HeadDecision]) -> int:
    """Return the number of the head that reports effects on resources of others."""
    found = (number for number, one in enumerate(decided) if one.stores)
    return next(found, next((number for number, one in enumerate(decided) if not one.refused), 0))


def write_commits(
    commits: Sequence[CommitReading],
    decided: Sequence[HeadDecision],
    store: StoreSnapshot,
    *,
    changed_by: Mapping[str, Value],
    emit: Emit,
) -> CommitPlanned:
    """Make the rows of the decisions, inside a snapshot. `changed_by` is what `lineage_of_run` returned."""
    made: list[ChangeRows] = []
    planned: dict[int, CommitPlanned] = {}
    applied = {number: one.decided for number, one in enumerate(decided) if not one.refused}
    flows_changed = decisions.find_flows([*applied.values()], store)
    # A flow is reported by the head that changes its resource.
    holders = {
        one.key: number for number, each in applied.items() for one in each.outcomes if one.change is not Change.NONE
    }
    tellers = [holders.get(decisions.subject(flow), _reporting_head(decided)) for flow in flows_changed]
    # Heads with deletions first: the id of a deleted resource is free for a new one.
    for number in sorted(range(len(commits)), key=lambda number: not decided[number].pruning.deletions):
        commit, decision = commits[number], decided[number]
        changes = _change_rows(commit, decision, changed_by)
        made += [] if decision.refused else [changes]
        told = [flow for flow, teller in zip(flows_changed, tellers, strict=True) if teller == number]
        planned[number] = _write(commit, decision, changes, changed_by, flows_changed=told, emit=emit)
    if any(changes.may_mask for changes in made):
        for part in Remasking(made, store.view, check=commits[0].allowance.time).parts():
            emit(part)
    return structs.replace(planned[0], beside=tuple(planned[number] for number in range(1, len(commits))))


def _write(
    commit: CommitReading,
    decision: HeadDecision,
    changes: ChangeRows,
    changed_by: Mapping[str, Value],
    *,
    flows_changed: Sequence[Flow],
    emit: Emit,
) -> CommitPlanned:
    job, snapshot, view, remembered = commit.job, commit.snapshot, commit.view, commit.remembered
    index = list(_index_parts(job, view, decision, remembered=remembered))
    # Before the parts are sent, because it compares with the stored index.
    told = _file_notes(commit, decision)
    for part in chain(changes.parts(), index, _pruning_parts(job, decision)):
        emit(part)
    decided = () if decision.refused else (decision.decided,)
    endpoints = decisions.changed_endpoints(decided, commit.store_snapshot())
    pruned = decision.pruning
    told_of = [(one.key and one.key.kind, one.status) for one in decision.decided.outcomes]
    told_of += [(claim.stored.key.kind, UpdateStatus.UNCHANGED) for claim in decision.claims]
    kinds = outcomes.statuses_by_kind(told_of)
    return CommitPlanned(
        tree=decision.reading.tree,
        full=decision.reading.full,
        counts=outcomes.summed_statuses(kinds.values()),
        kinds=kinds,
        changed=decision.changes,
        waits_for_store=planner_heads.WAITING in decision.unconverged or bool(pruned.in_use),
        refused=decision.refused,
        rewound=_is_rewound(snapshot, remembered, job.commit),
        hold=None if pruned.hold is None else pruned.hold.value,
        message=pruned.message,
        touched=tuple(sorted(decision.touched - {job.rules.name})),
        approvable=pruned.approvable,
        note=" ".join(filter(None, (planner_heads.transfer_note(decision.passed), pruned.note, *told))) or None,
        index_changed=bool(index),
        held_changed=pruned.held_rows(job.rules.name) != decision.stayed,
        changed_endpoints=endpoints,
        flows=tuple(flows_changed[: flows.MOST]),
        flow_counts=flows.count(flows_changed),
        unexplained=not decision.paths <= changed_by.keys(),
    )


def _file_notes(commit: CommitReading, decision: HeadDecision) -> list[str]:
    """Return a sentence for each changed file that is not read, and for each changed ignore file."""
    found = [file for file in decision.reading.files if file.vacant or file.is_ignore_file]
    # The message about held deletions already names the files that hold them.
    matter = [file for file in found if file.blob is not None and not decision.pruning.names(file.path)]
    known = commit.view.blobs(commit.rules.name, [file.path for file in matter]) if matter else {}
    is_first = commit.remembered is None or commit.remembered.commit is None
    changed = [file for file in matter if known.get(file.path) != file.blob and not (is_first and file.is_ignore_file)]
    told = list(trees.told_files(changed))
    return told if len(told) <= NOTED else [*told[: NOTED - 1], f"{len(told) - NOTED + 1} more files are not read."]


def _change_rows(commit: CommitReading, decision: HeadDecision, changed_by: Mapping[str, Value]) -> ChangeRows:
    view, origin = commit.view, _origin(commit.job, commit.snapshot.commit, changed_by)
    if decision.refused:
        # Only the run's statuses are stored; the index stays that of the last applied head.
        unmade = tuple(structs.replace(outcome, change=Change.NONE) for outcome in decision.decided.outcomes)
        return ChangeRows(replace(decision.decided, outcomes=unmade, standing=NOTHING), view, origin=origin)
    return ChangeRows(decision.decided, view, origin=origin, claims=decision.claims)


def _pruning_parts(job: CommitJob, decision: HeadDecision) -> Iterator[Changes]:
    """Yield the rows for the prune budget, and those of resources that stay although the head does not hold them."""
    pruned = decision.pruning
    if not decision.refused and (pruned.deletions or decision.passed):
        # The budget is a share of what the repository owned before.
        at, owned = job.context.milliseconds, decision.owned
        yield Changes(pruned=[PruneRow(job.rules.name, at=at, owned=owned, deleted=pruned.unapproved)])
    held = pruned.held_rows(job.rules.name)
    if held != decision.stayed:
        for rows in messages.batches(sorted(held), INDEX_PART):
            yield Changes(held=rows)


def _index_parts(
    job: CommitJob, view: PlanningView, decision: HeadDecision, *, remembered: RepositoryRow | None
) -> Iterator[Changes]:
    """Yield the index of the files that were read, unless the store already has it."""
    if decision.refused:
        return
    reading, repository = decision.reading, job.rules.name
    wanted = tuple(trees.wanted_rows(reading, decision.unconverged, repository=repository))
    if not reading.full:
        before = view.wanted_in(repository, [file.path for file in reading.files])
        is_same = remembered is not None and remembered.tree == reading.tree
        if (is_same or _is_indexed(reading, view, repository=repository)) and set(before) == set(wanted):
            return
        yield Changes(forgotten_files=[(repository, file.path) for file in reading.files])
    for files in messages.batches(trees.file_rows(reading, repository=repository), INDEX_PART):
        yield Changes(files=files)
    for rows in messages.batches(wanted, INDEX_PART):
        yield Changes(wanted=rows)


def _is_indexed(reading: TreeReading, view: PlanningView, *, repository: str) -> bool:
    """Return True if the index already has these files, so that only files that are not read changed in the tree."""
    if reading.kept_files or any(file.given or (file.blob and not file.documents) for file in reading.files):
        return False
    blobs = view.blobs(repository, [file.path for file in reading.files])
    return all(blobs.get(file.path) == file.blob for file in reading.files)


def _origin(job: CommitJob, commit: CommitInfo, changed_by: Mapping[str, Value]) -> Origin:
    repository = job.rules.name
    source: dict[str, Value] = {
        "type": "git",
        "repository": repository,
        "branch": job.branch,
        "commit": commit.id,
        "author": commit.author,
        "date": rfc3339(commit.date),
    }
    context, actor = job.context, principals.repository_actor(repository).name
    when = (context.at, context.milliseconds, context.seed)
    return Origin(
        context.project, actor, repository, job.run, None, *when, source, context.hmac_key, changed_by=changed_by
    )


def _is_rewound(snapshot: Snapshot, remembered: RepositoryRow | None, commit: str) -> bool:
    """Return True if the applied commit is not an ancestor of this one, after a force-push or a rewind."""
    if remembered is None or remembered.commit is None or remembered.commit == commit:
        return False
    return not snapshot.is_ancestor(remembered.commit, commit)


RUN_SECONDS = 1.0  # of a search in a run; the lineage job searches for the rest
FIRST_SECONDS = 0.1  # of a search in a first run: enough for a young repository, and little compared with a large read
BACKGROUND_SECONDS = 300.0  # of one search in the background
MOST_EXPLAINED = 20_000  # resources in one search: 30 MB


def lineage_of_run(snapshot: Snapshot, paths: Iterable[str], *, is_first: bool) -> dict[str, Value]:
    """Return `changedBy` of those files of a commit for which a short search finds it."""
    return _changed_by(snapshot, paths, until=time.monotonic() + (FIRST_SECONDS if is_first else RUN_SECONDS))


def explain_lineage(job: LineageJob, view: PlanningView, *, emit: Emit) -> LineageFound:
    """Search for the unknown lineage of a repository's resources. Raises StoreFault."""
    with view.snapshot():
        unexplained = view.without_lineage(job.repository, job.context.project, limit=MOST_EXPLAINED)
        origins = view.origins(one for row in unexplained for one in (row.origin, row.shown))
    parts = ChangeParts()
    explained = 0
    for part in parts.parts(_explain(job, unexplained, origins, parts)):
        emit(part)
        explained += len(part.lineages)
    return LineageFound(explained)


def _explain(
    job: LineageJob, resources: Sequence[records.Unexplained], origins: Mapping[int, OriginRow], parts: ChangeParts
) -> Iterator[int]:
    """Add the rows of each resource whose lineage is found, with one walk for each commit they were read from."""
    until = time.monotonic() + BACKGROUND_SECONDS
    by_commit: dict[str, dict[records.Unexplained, str]] = defaultdict(dict)
    for one in resources:
        # The file may have moved since; for a resource adopted without a new version, only the status knows the path.
        path = one.path if _is_of_one_commit(one, origins) else one.shown_path
        by_commit[str(_source(origins[one.shown]).get("commit"))][one] = str(path)
    for commit, paths in by_commit.items():
        if time.monotonic() >= until:
            return
        try:
            with Snapshot.open(Path(job.mirror), commit) as snapshot:
                found = _changed_by(snapshot, set(paths.values()), until=until)
        except GitFault:
            continue  # for example, the mirror was made again after a force-push
        for one, path in paths.items():
            if path in found:
                _add_lineage(job.context.project, one, found[path], origins, parts.rows)
                yield 0


def _add_lineage(
    project: str, one: records.Unexplained, changed_by: Value, origins: Mapping[int, OriginRow], rows: Changes
) -> None:
    """Add the row of one resource, with its new origins. The version gets the commit only if it is of the same commit
    as the status.
    """
    version = origins[one.origin]
    if _is_of_one_commit(one, origins):
        version = _with_lineage(version, changed_by)
    status = None if one.status is None else _with_lineage(origins[one.status], changed_by)
    rows.origins += [version] if status is None else [version, status]
    told = status and status.id
    rows.lineages.append(LineageRow(project, *one.key, one.version, one.origin, version.id, one.status, told))


def _with_lineage(origin: OriginRow, changed_by: Value) -> OriginRow:
    return origin_row(
        {**_source(origin), "changedBy": changed_by},
        actor=origin.actor,
        run=origin.run,
        request=origin.request,
        created_at=origin.created_at,
    )


def _is_of_one_commit(one: records.Unexplained, origins: Mapping[int, OriginRow]) -> bool:
    """Return True if the version and its status name the same commit."""
    version, shown = _source(origins[one.origin]), _source(origins[one.shown])
    return all(version.get(name) == shown.get(name) for name in ("repository", "commit"))


def _source(origin: OriginRow) -> dict[str, Value]:
    source: dict[str, Value] = msgspec.json.decode(origin.head + origin.tail)
    return source


def _changed_by(snapshot: Snapshot, paths: Iterable[str], *, until: float) -> dict[str, Value]:
    found = snapshot.last_changes(list(paths), go_on=lambda: time.monotonic() < until)
    shown: dict[str, Value] = {
        commit.id: {"commit": commit.id, "author": commit.author, "date": rfc3339(commit.date)}
        for commit in set(found.values())
    }
    return {path: shown[commit.id] for path, commit in found.items()}
