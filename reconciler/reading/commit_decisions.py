"""What is to be done about a commit: the tree as far as it must be read, judged against what is stored.

Belongs here: from a snapshot to a decision, for a commit that is applied and for one that is only reviewed. Does not:
the rows that would make it so (`commits`), what reviewers are told (`entries`).
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, replace

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import outcomes, principals
from reconciler.model.outcomes import Change, Outcome
from reconciler.planner import planner
from reconciler.planner.candidates import CandidateRules
from reconciler.planner.changes import Decided
from reconciler.planner.decisions import StoreSnapshot
from reconciler.planner.pruning import Pruning
from reconciler.reading import departures, guarding, heads, trees
from reconciler.reading.allowances import Allowance
from reconciler.reading.handovers import OwnershipTransfer
from reconciler.reading.messages import CommitJob
from reconciler.reading.one_file import FileScope, SharedLimits
from reconciler.reading.places import ViolationPlaces
from reconciler.reading.terms import RECONCILE, PlanMode
from reconciler.reading.trees import TreeReading
from reconciler.store.contract import HeldRow, RepositoryRow
from reconciler.store.planning_view import PlanningView

WAITING, UNMENDED = "waiting", "refused"  # see `store.contract.WantedRow`


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done. `owned` is how many resources the repository has, `stayed` what the last plan kept."""

    decided: Decided
    handovers: tuple[OwnershipTransfer, ...]
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


def read(
    job: CommitJob,
    snapshot: Snapshot,
    view: PlanningView,
    remembered: RepositoryRow | None,
    *,
    allowance: Allowance,
    only: Set[str] | None = None,
    also: tuple[FileChange, ...] = (),
    together: SharedLimits | None = None,
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


def world_of(job: CommitJob, view: PlanningView, allowance: Allowance, *, terms: PlanMode) -> StoreSnapshot:
    """What the commit meets."""
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
    around = guarding.read_circumstances(job, snapshot, view, remembered=remembered, tree=reading.tree)
    whole = remembered is None or remembered.state != RepositoryState.READY or bool(around.stayed)
    departed = departures.find_removed(
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
    return UNMENDED if outcome.status in outcomes.REFUSED else None


def _fresh(outcome: Outcome) -> int | None:
    """The ordinal of what is stored as this commit has it; None for what keeps its source or is not stored."""
    is_adopted = outcome.change is Change.REPLACE_HEAD and outcome.stored is not None and outcome.stored.owner is None
    return outcome.ordinal if is_adopted or outcome.change in {Change.CREATE, Change.UPDATE} else None
