"""What pruning is told of a commit besides its files (the last 24 hours, approvals, history), and what is remembered of
its verdict. The verdict itself is `planning.pruning`'s.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.git.faults import RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.model.names import Key
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS, PruneWindow
from reconciler.planner.pruning import Pruning
from reconciler.reading.messages import CommitJob
from reconciler.store.contract import Changes, HeldRow, PruneRow, RepositoryRow
from reconciler.store.planning_view import PlanningView

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


def stays_note(pruned: Pruning, *, repository: str) -> frozenset[HeldRow]:
    """What a verdict keeps though the head does not hold it."""
    held = (HeldRow(repository, *stored.key, "held") for stored in pruned.held)
    in_use = (HeldRow(repository, *outcome.key, "in-use") for outcome in pruned.in_use if outcome.key is not None)
    protected = (HeldRow(repository, *stored.key, "protected") for stored in pruned.protected)
    return frozenset((*held, *in_use, *protected))


def approvable_digest(pruned: Pruning) -> int | None:
    """As in the repository's row: whether an admin can release what is held."""
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


def what_stays(job: CommitJob, pruned: Pruning, *, stayed: frozenset[HeldRow]) -> Iterator[Changes]:
    """What is kept, when it is something else than before."""
    now = stays_note(pruned, repository=job.repository)
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
