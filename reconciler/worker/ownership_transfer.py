"""Transfer of ownership between repositories."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from reconciler.git import trees
from reconciler.git.faults import GitFault
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import CommitInfo, Snapshot
from reconciler.model import errors, positions, principals, violations
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, StoredState
from reconciler.model.resource import Draft
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.planner.changes import Decided
from reconciler.planner.decisions import DocumentBatch, StoreSnapshot
from reconciler.store.planning_view import PlanningView
from reconciler.worker import trees as worker_trees
from reconciler.worker.limits import Allowance, Exhausted
from reconciler.worker.messages import Neighbour

NAMED = 5  # a note names this many resources, and counts the rest


@dataclass(frozen=True, slots=True)
class OwnershipClaim:
    """The documents by which one repository would take over."""

    neighbour: Neighbour
    commit: CommitInfo
    batch: DocumentBatch


@dataclass(frozen=True, slots=True)
class OwnershipTransfer:
    """What passes to one repository: all outcomes store something or move a head."""

    neighbour: Neighbour
    commit: CommitInfo
    decided: Decided
    drafts: Mapping[Key, Draft]

    @property
    def keys(self) -> frozenset[Key]:
        """The resources that pass on."""
        return frozenset(self.drafts)


def find_claims(
    gone: Iterable[StoredState],
    neighbours: Iterable[Neighbour],
    world: StoreSnapshot,
    *,
    rules: CandidateRules,
    allowance: Allowance,
) -> tuple[OwnershipClaim, ...]:
    """Who claims what of `gone`; of several repositories the first by name gets a resource.

    Raises GitFault: what the others hold counts as if the commit held it. Transient when it cannot be read.
    """
    left = {stored.key: structs.replace(stored, owner=None) for stored in gone}
    found = []
    for neighbour in sorted(neighbours, key=lambda one: one.repository):
        claim = _claim(neighbour, left, world, rules=rules, allowance=allowance) if left else None
        if claim is not None:
            found.append(claim)
            claimed = {candidate.key for candidate in claim.batch.candidates}
            left = {key: stored for key, stored in left.items() if key not in claimed}
    allowance.no_file()
    return tuple(found)


def without(claims: Iterable[OwnershipClaim], keys: Collection[Key]) -> Iterator[OwnershipClaim]:
    """Leave out of the claims what stays after all."""
    for claim in claims:
        held = [one for one in claim.batch.candidates if one.key not in keys]
        if held:
            yield replace(claim, batch=_batch(claim.neighbour, held, claim.batch.stored))


def passing_resources(claim: OwnershipClaim, decided: Decided) -> OwnershipTransfer:
    """What of a claim can be stored."""
    outcomes = tuple(outcome for outcome in decided.outcomes if outcome.change is not Change.NONE)
    passed = {outcome.key for outcome in outcomes}
    drafts = {one.key: one.draft for one in decided.candidates if one.key in passed and one.key and one.draft}
    return OwnershipTransfer(claim.neighbour, claim.commit, replace(decided, outcomes=outcomes), drafts)


def transfer_note(transfers: Iterable[OwnershipTransfer]) -> str | None:
    """What a run says of what passed on: a reader of the run would look for it in vain otherwise."""
    told = [f"{_named(sorted(one.keys))} passed to the repository {one.neighbour.repository}." for one in transfers]
    return " ".join(told) or None


def _named(keys: list[Key]) -> str:
    named = ", ".join(f"{key.kind} {key.name}" for key in keys[:NAMED])
    return f"{named} and {len(keys) - NAMED} more" if len(keys) > NAMED else named


def _claim(
    neighbour: Neighbour,
    left: Mapping[Key, StoredState],
    world: StoreSnapshot,
    *,
    rules: CandidateRules,
    allowance: Allowance,
) -> OwnershipClaim | None:
    row = world.view.repository(neighbour.repository)
    if row is None or row.commit is None or row.project != world.project:
        return None
    places = _places(neighbour, left.keys(), world.view)
    if not places:
        return None
    try:
        with Snapshot.open(Path(neighbour.mirror), row.commit) as snapshot:
            held = _documents(neighbour, places, snapshot, world.view, rules=rules, allowance=allowance)
            return OwnershipClaim(neighbour, snapshot.commit, _batch(neighbour, held, left)) if held else None
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


def _places(neighbour: Neighbour, keys: Collection[Key], view: PlanningView) -> dict[str, set[Key]]:
    """The files in which the neighbour's applied head holds these, each once; as its settings are now, which it may
    not have looked by yet.
    """
    folder = trees.place(neighbour.path).prefix
    globs = FileGlobs(include=neighbour.include, exclude=neighbour.exclude, root=neighbour.path)
    paths: dict[Key, list[str]] = defaultdict(list)
    for key, path in view.places_of(neighbour.repository, keys):
        is_allowed = candidates.is_allowed_resource(key, kinds=neighbour.allowed_kinds, names=neighbour.allowed_names)
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
    rules: CandidateRules,
    allowance: Allowance,
) -> list[Candidate]:
    """The valid ones. A file that is set aside is one that cannot be read."""
    blobs = view.blobs(neighbour.repository, sorted(places))
    found = []
    for path in sorted(blobs):
        allowance.file(blobs[path], worker_trees.taken(snapshot.size(blobs[path])))
        read = (
            candidates.candidates_of_file(
                snapshot.read(blobs[path], positions.FILE_LIMITS.bytes), path=path, rules=rules
            )
            or ()
        )
        allowance.documents(len(read))
        found += [one for one in read if one.key in places[path] and one.draft is not None]
    return found


def _batch(neighbour: Neighbour, held: Sequence[Candidate], left: Mapping[Key, StoredState]) -> DocumentBatch:
    return DocumentBatch(
        candidates=held,
        wanted=[one.wanted(ordinal) for ordinal, one in enumerate(held)],
        stored=left,
        actor=principals.repository_actor(neighbour.repository),
        accept_invalid=neighbour.accept_invalid,
        tell=lambda _, found: violations.lines(found, lambda _: ""),  # nobody reads it: its own run tells the neighbour
    )
