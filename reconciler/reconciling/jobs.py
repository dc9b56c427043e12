"""What the reader child is told of a repository and its settings, for a commit that is applied or only reviewed.

Belongs here: one place that knows which setting goes where, so that a review judges as the run after the merge will.
Does not: when a commit is planned, and with which keys (`reconciler`, `applying`).
"""

from pathlib import Path

from reconciler.reconciling.watched import WatchedRepository
from reconciler.worker.messages import CommitJob, Context, Neighbour


def commit_job(
    watched: WatchedRepository,
    context: Context,
    *,
    commit: str,
    branch: str,
    run: str,
    full: bool,
    mirror: Path,
    origin: str,
    neighbours: tuple[Neighbour, ...],
) -> CommitJob:
    """The job that plans a commit of a repository. What `branch` and `origin` are, `CommitJob` says."""
    return CommitJob(
        context=context,
        repository=watched.name,
        mirror=str(mirror),
        commit=commit,
        branch=branch,
        path=watched.path,
        run=run,
        full=full,
        prune=watched.prune,
        prune_min_count=watched.prune_min_count,
        prune_max_percent=watched.prune_max_percent,
        atomic=watched.atomic,
        allowed_kinds=watched.allowed_kinds,
        allowed_names=watched.allowed_names,
        accept_invalid=watched.accept_invalid,
        include=watched.include,
        exclude=watched.exclude,
        origin=origin,
        neighbours=neighbours,
    )
