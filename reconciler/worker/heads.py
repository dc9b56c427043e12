"""The part of judging a head that reads Git: its history, and what others hold of the resources that are gone."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from msgspec import structs

from reconciler.git import trees as git_trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.model import desired, errors, positions, principals, violations
from reconciler.model.clock import rfc3339
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.names import Key
from reconciler.model.outcomes import PRUNE_WINDOW_MILLISECONDS, StoredState
from reconciler.model.values import Value
from reconciler.planner import decisions
from reconciler.planner.decisions import DocumentBatch
from reconciler.planner.heads import OwnershipClaim
from reconciler.planner.pruning import PruneCircumstances
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.store.records import RepositoryRow
from reconciler.worker import trees
from reconciler.worker.allowance import Allowance, Exhausted
from reconciler.worker.messages import CommitJob, Neighbour


def read_circumstances(
    job: CommitJob, snapshot: Snapshot, view: PlanningView, *, remembered: RepositoryRow | None, tree: str
) -> PruneCircumstances:
    """Read what pruning is told of a commit beside its files; its folder is `tree`. Raises GitFault."""
    # Of a mirror that was made again: it is filled with the head and with what was applied last, as long as the remote
    # gives that out. Lacking it, the mirror cannot tell what became of it, and somebody has to say that the head may
    # follow it.
    applied = None if remembered is None or remembered.origin != job.origin else remembered.commit
    lost = applied is not None and not snapshot.has(applied)
    unrelated = lost or (applied is not None and snapshot.is_unrelated(applied, job.commit))
    approval = view.approval(job.repository)
    # Of another history only the commit that was looked at is approved, and what continues it.
    if approval is not None and unrelated and not snapshot.is_ancestor(approval.commit, job.commit):
        approval = None
    return PruneCircumstances(
        window=view.pruned_since(job.repository, job.context.milliseconds - PRUNE_WINDOW_MILLISECONDS),
        approved=None if approval is None else approval.keys,
        unrelated=unrelated,
        lost=lost,
        released=_is_released(job, remembered, tree=tree),
        stayed=frozenset(view.stays(job.repository)),
    )


def _is_released(job: CommitJob, remembered: RepositoryRow | None, *, tree: str) -> bool:
    # Of a repository that was resumed only now nobody knows.
    if remembered is None or remembered.state != RepositoryState.READY or remembered.fingerprint is None:
        return False
    return (remembered.head, remembered.tree) == (job.commit, tree)


# A repository that defines what this one drops becomes its owner with the same change.


def find_claims(
    gone: Iterable[StoredState],
    neighbours: Iterable[Neighbour],
    snapshot: StoreSnapshot,
    *,
    rules: DocumentRules,
    allowance: Allowance,
) -> list[OwnershipClaim]:
    """Find which repositories claim what of `gone`; of several the first by name gets a resource.

    Raises GitFault: what the others hold counts as if the commit held it. Transient when it cannot be read.
    """
    left = {stored.key: structs.replace(stored, owner=None) for stored in gone}
    found = []
    for neighbour in sorted(neighbours, key=lambda one: one.repository):
        claim = _claim(neighbour, left, snapshot, rules=rules, allowance=allowance) if left else None
        if claim is not None:
            found.append(claim)
            claimed = {document.key for document in claim.batch.documents}
            left = {key: stored for key, stored in left.items() if key not in claimed}
    allowance.no_file()
    return found


def _claim(
    neighbour: Neighbour,
    left: Mapping[Key, StoredState],
    snapshot: StoreSnapshot,
    *,
    rules: DocumentRules,
    allowance: Allowance,
) -> OwnershipClaim | None:
    row = snapshot.view.repository(neighbour.repository)
    if row is None or row.commit is None or row.project != snapshot.project:
        return None
    places = _places(neighbour, left.keys(), snapshot.view)
    if not places:
        return None
    try:
        with Snapshot.open(Path(neighbour.mirror), row.commit) as git:
            held = _documents(neighbour, places, git, snapshot.view, rules=rules, allowance=allowance)
            commit = git.commit
    except Exhausted as exhausted:
        told = f"with what would pass to the repository {neighbour.repository}, {exhausted.message}"
        # No Exhausted, which is remembered of the commit: the other's next one may hold less.
        raise GitFault(exhausted.state, f"{told}; or let go of it in several commits") from exhausted
    except errors.ReconcilerError as fault:
        # Its mirror is made anew at this moment, perhaps. Whatever it is, it must not become a deletion.
        told = f"what would pass to the repository {neighbour.repository} cannot be read ({fault.message})"
        raise errors.Transient(
            f"{told}; nothing is done until it can, or that repository is followed no more"
        ) from fault
    batch = DocumentBatch(
        documents=held,
        stored=left,
        actor=principals.repository_actor(neighbour.repository),
        accept_invalid=neighbour.accept_invalid,
        tell=lambda _, found: violations.lines(found, lambda _: ""),  # nobody reads it: its own run tells the neighbour
    )
    source = source_of_commit(neighbour.repository, neighbour.branch, commit)
    return OwnershipClaim(neighbour.repository, batch, source) if held else None


def _places(neighbour: Neighbour, keys: Collection[Key], view: PlanningView) -> dict[str, set[Key]]:
    """Find the files in which the neighbour's applied head holds these, each once; by its present settings, which may
    be newer than that head.
    """
    folder = git_trees.place(neighbour.path).prefix
    globs = FileGlobs(include=neighbour.include, exclude=neighbour.exclude, root=neighbour.path)
    paths: dict[Key, list[str]] = defaultdict(list)
    for key, path in view.places_of(neighbour.repository, keys):
        is_allowed = decisions.is_allowed_resource(key, kinds=neighbour.allowed_kinds, names=neighbour.allowed_names)
        if is_allowed and path.startswith(folder) and globs.choose(path):
            paths[key].append(path)
    held: dict[str, set[Key]] = defaultdict(set)
    for key, found in paths.items():
        if len(found) == 1:  # else the neighbour holds it twice, and neither counts
            held[found[0]].add(key)
    return held


def _documents(
    neighbour: Neighbour,
    places: Mapping[str, Collection[Key]],
    snapshot: Snapshot,
    view: PlanningView,
    *,
    rules: DocumentRules,
    allowance: Allowance,
) -> list[Desired]:
    """Read the valid ones. A file that is set aside is one that cannot be read."""
    blobs = view.blobs(neighbour.repository, sorted(places))
    found = []
    for path in sorted(blobs):
        allowance.file(blobs[path], trees.taken(snapshot.size(blobs[path])))
        read = desired.read_file(snapshot.read(blobs[path], positions.FILE_LIMITS.bytes), path=path, rules=rules) or ()
        allowance.documents(len(read))
        found += [one for one in read if one.key in places[path] and one.owned]
    return found


def source_of_commit(repository: str, branch: str, commit: CommitInfo) -> dict[str, Value]:
    """Return the source of what a repository stores with a commit."""
    return {
        "type": "git",
        "repository": repository,
        "branch": branch,
        "commit": commit.id,
        "author": commit.author,
        "date": rfc3339(commit.date),
    }
