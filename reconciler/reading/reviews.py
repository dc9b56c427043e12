"""What merging would do: the merge of a base and a head planned like a commit, and told instead of stored.

Belongs here: what is read of the two commits and what it is judged by. Does not: merging (`git.merging`), deciding
(`commit_decisions`), telling what was decided (`entries`).

A plan must not tell whether a guessed secret is the stored one: of a document that is not in the base as it is in the
head, a secret in clear counts as changed. So it does in all of them where whoever asks chose the base: the guess may
stand there too.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep

import msgspec

from reconciler.git import merging
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import code_owners, documents, positions
from reconciler.model.code_owners import CodeOwners
from reconciler.model.names import Key
from reconciler.model.plan import PlanEntry
from reconciler.planner import candidates
from reconciler.planner.candidates import Candidate, CandidateRules
from reconciler.reading import commit_decisions, entries
from reconciler.reading.affecting import Affected
from reconciler.reading.allowances import Allowance
from reconciler.reading.entries import EntryWriter
from reconciler.reading.fields import PlanFields
from reconciler.reading.messages import CommitJob, ReviewJob, ReviewPlanned
from reconciler.reading.terms import RECONCILE, PlanMode
from reconciler.reading.trees import TreeReading
from reconciler.store.planning_view import PlanningView

REST_SECONDS = 0.01
# Then it goes on beside the others: whoever asks waits too, and what it rests is of the time that it may take.
MOST_RESTS_SECONDS = 60.0
OWNERS_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The entry, as of a revision of the store."""

    revision: int
    entry: PlanEntry


@dataclass(frozen=True, slots=True)
class _Before:
    """What differs between the base and the merge: files, and the base's documents in these by their keys."""

    files: tuple[FileChange, ...]
    changed: Set[str]  # their paths
    documents: Mapping[Key, Candidate]

    def known(self, reading: TreeReading) -> dict[Key, bytes]:
        """The digests of what whoever reads the base has read."""
        found = {key: one.draft.digest for key, one in self.documents.items() if one.draft is not None}
        for one in reading.candidates():
            if one.key is not None and one.draft is not None and one.place and one.place.path not in self.changed:
                found[one.key] = one.draft.digest
        return found


def plan_review(
    job: ReviewJob,
    view: PlanningView,
    *,
    number: int,
    rests: Callable[[], bool],
    at: Callable[[str], None] | None = None,
) -> ReviewPlanned:
    """Plan a review; it is at rest while `rests` says so, and tells `at` the blob of each file before it is read.

    Raises GitFault, Refused, StoreFault.
    """
    end = monotonic() + MOST_RESTS_SECONDS

    def reading(blob: str) -> None:
        if at is not None:
            at(blob)
        while rests() and monotonic() < end:
            sleep(REST_SECONDS)

    proposals = Path(job.proposals) if job.proposals else None
    with merging.open_mirrors(Path(job.commit.mirror), proposals) as repository:
        try:
            merged = merging.merge(repository, job.commit.commit, job.head)
        except merging.Conflicts as conflicts:
            return _unmerged(number, conflicts.files)
        except merging.Unrelated:
            return _unmerged(number, ())
        allowance = Allowance(aside=job.commit.aside, at=reading)
        reviewed = review(job.commit, merged, view, allowance=allowance, followed=job.followed)
        return ReviewPlanned(
            number=number,
            revision=reviewed.revision,
            entry=msgspec.msgpack.encode(reviewed.entry),
            merge_base=merged.merge_base,
            behind=merged.behind,
            ahead=merged.ahead,
        )


def review(
    job: CommitJob,
    merged: Merged,
    view: PlanningView,
    *,
    allowance: Allowance,
    terms: PlanMode = RECONCILE,
    followed: bool = False,
) -> Reviewed:
    """The entry of one repository, or of one folder of it; `followed` as in ReviewJob. Raises GitFault, StoreFault."""
    rules = CandidateRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    with view.snapshot() as revision:
        remembered = view.repository(job.repository)
        is_read = followed or (remembered is not None and remembered.commit == merged.base.commit.id)
        # Of a base that somebody chose every file is read: that one was not would tell that it is what is applied.
        job = msgspec.structs.replace(job, commit=merged.merged.commit.id, full=job.full or not is_read)
        before = _before(merged, job.path, allowance=allowance, rules=rules if terms.live else None)
        # What is stored already is read too: that nothing was to be read would tell who guessed a secret.
        reading = commit_decisions.read(
            job, merged.merged, view, remembered, allowance=allowance, only=terms.only, also=before.files
        )
        allowance.no_file()
        world = commit_decisions.world_of(job, view, allowance, terms=terms)
        if terms.live:
            world = replace(world, hide_guesses=True, known=before.known(reading) if is_read else {})
        decision = commit_decisions.decide_commit(
            job, merged.merged, reading, world, remembered=remembered, allowance=allowance, terms=terms
        )
        telling = EntryWriter(
            job=job,
            decision=decision,
            changed=before.changed,
            fields=PlanFields(
                decision.decided,
                world,
                merged,
                blobs={file.path: file.blob for file in reading.files if file.blob is not None},
                base=(before.documents if is_read else {}) if terms.live else None,
                unchanged=_unchanged_keys(reading, before) if terms.live and is_read else frozenset(),
            ),
            affected=Affected(decision.decided, world),
            refused_before=_refused_before(view, job.repository),
            owners=_owners(merged.base),
            assumed=terms.assumed,
        )
        return Reviewed(revision, entries.plan_entry(telling, view, live=terms.live))


def _unmerged(number: int, files: tuple[str, ...]) -> ReviewPlanned:
    return ReviewPlanned(number=number, revision=0, entry=b"", merge_base="", behind=0, ahead=0, conflicts=files)


def _before(merged: Merged, folder: str, *, allowance: Allowance, rules: CandidateRules | None) -> _Before:
    """`rules` None: nobody asks for documents."""
    differing = merged.changes(folder)
    found: dict[Key, Candidate] = {}
    if rules is not None:
        for change in differing:
            found |= _documents(merged.base, change, allowance=allowance, rules=rules)
        allowance.no_file()  # what follows goes through the whole tree, which is no file's doing
    return _Before(tuple(differing), frozenset(change.path for change in differing), found)


def _documents(
    base: Snapshot, change: FileChange, *, allowance: Allowance, rules: CandidateRules
) -> dict[Key, Candidate]:
    """What a file of the base holds, as far as it can be read."""
    if change.old_blob is None or documents.syntax_of(change.path) is None:
        return {}
    size = base.size(change.old_blob)
    if size > positions.FILE_LIMITS.bytes or change.old_blob in allowance.aside:
        return {}
    allowance.file(change.old_blob, size)
    data = base.read(change.old_blob, positions.FILE_LIMITS.bytes)
    return {
        one.key: one
        for one in candidates.candidates_of_file(data, path=change.path, rules=rules) or ()
        if one.key is not None
    }


def _unchanged_keys(reading: TreeReading, before: _Before) -> frozenset[Key]:
    return frozenset(
        one.key
        for one in reading.candidates()
        if one.key is not None and one.place is not None and one.place.path not in before.changed
    )


def _refused_before(view: PlanningView, repository: str) -> frozenset[tuple[str, str | None, str | None]]:
    """Path, kind and name of each document of the applied head that is not stored as it wants it."""
    rows = view.wanted_in(repository, view.unconverged(repository))
    return frozenset((row.path, row.kind, row.name) for row in rows if row.unconverged is not None)


def _owners(base: Snapshot) -> CodeOwners:
    """Who owns which file, as the base says: a head must not choose who reviews it."""
    for path in code_owners.PLACES:
        blob = base.blob(path)
        if blob is not None and base.size(blob) <= OWNERS_BYTES:
            return code_owners.parse(base.read(blob, OWNERS_BYTES).decode("utf-8", "replace"))
    return code_owners.parse("")
