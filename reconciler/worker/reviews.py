"""Reviewing a merge: the same plan, told and not stored."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep

import msgspec

from reconciler.git import merging
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import code_owners, desired, documents, plan, positions, rendering
from reconciler.model.code_owners import CodeOwners
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.plan import NamedResource, PlanEntry, PlanPlace, PlanStatus
from reconciler.planner import changes, heads
from reconciler.planner.decisions import Decided
from reconciler.planner.heads import HeadDecision
from reconciler.planner.pruning import TreeReading
from reconciler.planner.stored import StoreSnapshot
from reconciler.store.contract import PlanningView
from reconciler.store.records import HeldRow
from reconciler.worker import commits
from reconciler.worker.commits import RECONCILE, PlanMode
from reconciler.worker.messages import CommitJob, ReviewJob, ReviewPlanned
from reconciler.worker.review_fields import PlanFields
from reconciler.worker.trees import Allowance, FileLocations

# The resources that refer, directly or through others, to what a change touches.

MOST_WALKED = 20_000  # resources in all; what is further away is not told
MOST_AFFECTED = 1_000  # by one


class Affected:
    """The users of everything that one decision changes; asked for inside the decision's snapshot of the store."""

    def __init__(self, decided: Decided, snapshot: StoreSnapshot) -> None:
        written = decided.written()
        self._users: dict[Key, set[Key]] = {}
        fresh = {one.key for one in decided.outcomes if one.key is not None and one.change is not Change.NONE}
        while fresh and len(self._users) < MOST_WALKED:
            named = snapshot.references(fresh, written)
            self._users |= {key: set(named.get(key, ())) for key in fresh}
            fresh = {user for users in named.values() for user in users} - self._users.keys()

    def by(self, outcome: Outcome) -> tuple[Key, ...]:
        """Return what an outcome affects beside its own resource, in order."""
        if outcome.key is None or outcome.change in (Change.NONE, Change.REPLACE_HEAD):
            return ()
        found: set[Key] = set()
        waiting = deque([outcome.key])
        while waiting and len(found) < MOST_AFFECTED:
            fresh = self._users.get(waiting.popleft(), set()) - found
            found |= fresh
            waiting += sorted(fresh)
        return tuple(sorted(found - {outcome.key}))


# The entry of a plan: what was decided about a merge, as statuses with places, fields, owners and notes.

MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class EntryWriter:
    """All that the statuses are told from."""

    job: CommitJob
    decision: HeadDecision
    changed: Set[str]  # paths of the files that the change touches
    fields: PlanFields
    affected: Affected
    refused_before: Set[tuple[str, str | None, str | None]]  # documents of the applied head, by path, kind and name
    owners: CodeOwners
    assumed: Set[Key]

    def statuses(self) -> Iterator[PlanStatus]:
        """Every status but those that say that nothing changes; what a guard holds is a deletion too."""
        for outcome in self.decision.decided.outcomes:
            if outcome.status is not UpdateStatus.UNCHANGED:
                yield self._status(outcome)
        for stored in self.decision.pruning.held:
            at = _stored_place(stored)
            yield PlanStatus(
                status=UpdateStatus.DELETED,
                kind=stored.key.kind,
                name=stored.key.name,
                at=at,
                existing=self._was_held(stored),
                owners=() if at is None else self.owners.of(at.path),
                held=True,
            )

    def _status(self, outcome: Outcome) -> PlanStatus:
        at = self._place(outcome)
        shown, left_out = self.fields.of(outcome)
        affected = self.affected.by(outcome)
        return PlanStatus(
            status=outcome.status,
            kind=None if outcome.key is None else outcome.key.kind,
            name=None if outcome.key is None else outcome.key.name,
            reason=self._reason(outcome, at),
            at=at,
            existing=self._is_existing(outcome, at),
            fields=shown,
            fields_left_out=left_out,
            dependants=tuple(NamedResource(kind=key.kind, name=key.name) for key in affected[: plan.MOST_DEPENDANTS]),
            dependants_left_out=max(0, len(affected) - plan.MOST_DEPENDANTS),
            unresolved=self.fields.unresolved(outcome, self.assumed),
            owners=() if at is None else self.owners.of(at.path),
            notes=tuple(note if at is None else self.fields.lines.reason(note, at.path) for note in outcome.notes),
        )

    def _reason(self, outcome: Outcome, at: PlanPlace | None) -> str | None:
        told = outcome.reason or changes.outcome_reason(outcome)
        return told if told is None or at is None else self.fields.lines.reason(told, at.path)

    def _place(self, outcome: Outcome) -> PlanPlace | None:
        if outcome.ordinal is not None:
            place = self.decision.decided.documents[outcome.ordinal].place
            if place is None:
                return None
            return self.fields.lines.place(PlanPlace(path=place.path, line=place.line, column=place.column))
        return None if outcome.stored is None else _stored_place(outcome.stored)

    def _is_existing(self, outcome: Outcome, at: PlanPlace | None) -> bool:
        """It was so before, in a file that the change does not touch."""
        if outcome.ordinal is None:
            assert outcome.key is not None  # what goes is stored
            return HeldRow(self.job.repository, *outcome.key, "in-use") in self.decision.stayed
        if at is None or at.path in self.changed:
            return False
        document = (at.path, *(outcome.key or (None, None)))
        is_refused = outcome.status in REFUSED and document in self.refused_before
        return is_refused or (outcome.status is UpdateStatus.DEPRECATED and outcome.change is Change.NONE)

    def notes(self) -> Iterator[str]:
        """Yield what a reader should know beside the statuses."""
        decision = self.decision
        yield from filter(
            None,
            (decision.pruning.message, decision.pruning.note, heads.transfer_note(decision.transfers)),
        )
        invalid = {one.key for one in decision.decided.outcomes if one.status is UpdateStatus.INVALID}
        for row in decision.decided.standing.rows:
            lines = rendering.incomplete(row.status)
            if lines:
                # Its status says why already.
                why = "" if Key(row.kind, row.name) in invalid else f": {lines[0]}"
                yield f"{row.kind} {row.name} becomes incomplete{why}."

    def _was_held(self, stored: StoredState) -> bool:
        return HeldRow(self.job.repository, *stored.key, "held") in self.decision.stayed

    def entry(self, view: PlanningView, *, live: bool) -> PlanEntry:
        """Write all that is told; `live` as in `PlanMode`. Asked for inside the snapshot of the decision."""
        job, decision = self.job, self.decision
        notes = list(dict.fromkeys(self.notes()))
        if len(notes) > MOST_NOTES:
            notes = [*notes[: MOST_NOTES - 1], f"{len(notes) - MOST_NOTES + 1} more notes are left out."]
        outcomes = decision.decided.outcomes
        if live:  # most of what the repository owns was not read
            changing = [one for one in outcomes if one.status is not UpdateStatus.UNCHANGED and one.stored is not None]
            told = {one.key for one in changing if one.stored is not None and one.stored.owner == job.repository}
            unchanged = view.owned_count(job.repository, job.context.project) - len(told) - len(decision.pruning.held)
        else:
            unchanged = sum(one.status is UpdateStatus.UNCHANGED for one in outcomes)
        return PlanEntry(
            name=job.repository,
            project=job.context.project,
            path=job.path,
            statuses=plan.in_order(self.statuses()),
            unchanged=unchanged,
            held=sum(not self._was_held(stored) for stored in decision.pruning.held),  # others were held before
            notes=tuple(notes),
            refused=decision.refused,
        )


def _stored_place(stored: StoredState) -> PlanPlace | None:
    return None if stored.path is None else PlanPlace(path=stored.path, line=stored.line or 1)


# The effect of merging: the merge of a base and a head planned like a commit, and told instead of stored.
#
# A plan must not tell whether a guessed secret is the stored one: of a document that is not in the base as it is in the
# head, a secret in clear counts as changed. So it does in all of them where whoever asks chose the base: the guess may
# stand there too.

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
    """The files that differ between the base and the merge, and the base's documents in these by their keys."""

    files: tuple[FileChange, ...]
    changed: Set[str]  # their paths
    documents: Mapping[Key, Desired]

    def known(self, reading: TreeReading) -> dict[Key, bytes]:
        """The digests of what whoever reads the base has read."""
        found = {key: one.digest for key, one in self.documents.items() if one.owned}
        for one in reading.documents():
            if one.key is not None and one.owned and one.place and one.place.path not in self.changed:
                found[one.key] = one.digest
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
        unmerged = ReviewPlanned(number=number, revision=0, entry=b"", merge_base="", behind=0, ahead=0, conflicts=())
        try:
            merged = merging.merge(repository, job.commit.commit, job.head)
        except merging.Conflicts as conflicts:
            return msgspec.structs.replace(unmerged, conflicts=conflicts.files)
        except merging.Unrelated:
            return unmerged
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
    rules = DocumentRules(api_versions=job.context.api_versions, hmac_key=job.context.hmac_key)
    with view.snapshot() as revision:
        remembered = view.repository(job.repository)
        is_read = followed or (remembered is not None and remembered.commit == merged.base.commit.id)
        # Of a base that somebody chose every file is read: that one was not would tell that it is what is applied.
        job = msgspec.structs.replace(job, commit=merged.merged.commit.id, full=job.full or not is_read)
        before = _before(merged, job.path, allowance=allowance, rules=rules if terms.live else None)
        # What is stored already is read too: that nothing was to be read would tell who guessed a secret.
        reading = commits.read(
            job, merged.merged, view, remembered, allowance=allowance, only=terms.only, also=before.files
        )
        allowance.no_file()
        world = commits.store_snapshot(job, view, allowance, terms=terms)
        if terms.live:
            world = replace(world, hide_guesses=True, known=before.known(reading) if is_read else {})
        decision = commits.decide_commit(
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
                locations=FileLocations(reading.files, merged.merged, allowance),
                base=(before.documents if is_read else {}) if terms.live else None,
                unchanged=_unchanged_keys(reading, before) if terms.live and is_read else frozenset(),
            ),
            affected=Affected(decision.decided, world),
            refused_before=_refused_before(view, job.repository),
            owners=_owners(merged.base),
            assumed=terms.assumed,
        )
        return Reviewed(revision, telling.entry(view, live=terms.live))


def _before(merged: Merged, folder: str, *, allowance: Allowance, rules: DocumentRules | None) -> _Before:
    """`rules` None: nobody asks for documents."""
    differing = merged.changes(folder)
    found: dict[Key, Desired] = {}
    if rules is not None:
        for change in differing:
            found |= _documents(merged.base, change, allowance=allowance, rules=rules)
        allowance.no_file()  # what follows goes through the whole tree, which is no file's doing
    return _Before(tuple(differing), frozenset(change.path for change in differing), found)


def _documents(base: Snapshot, change: FileChange, *, allowance: Allowance, rules: DocumentRules) -> dict[Key, Desired]:
    """Read the documents of a file of the base, as far as it can be read."""
    if change.old_blob is None or documents.syntax_of(change.path) is None:
        return {}
    size = base.size(change.old_blob)
    if size > positions.FILE_LIMITS.bytes or change.old_blob in allowance.aside:
        return {}
    allowance.file(change.old_blob, size)
    data = base.read(change.old_blob, positions.FILE_LIMITS.bytes)
    return {one.key: one for one in desired.read_file(data, path=change.path, rules=rules) or () if one.key is not None}


def _unchanged_keys(reading: TreeReading, before: _Before) -> frozenset[Key]:
    return frozenset(
        one.key
        for one in reading.documents()
        if one.key is not None and one.place is not None and one.place.path not in before.changed
    )


def _refused_before(view: PlanningView, repository: str) -> frozenset[tuple[str, str | None, str | None]]:
    """Path, kind and name of each document of the applied head that is not stored as it wants it."""
    rows = view.wanted_in(repository, view.unconverged(repository))
    return frozenset((row.path, row.kind, row.name) for row in rows if row.unconverged is not None)


def _owners(base: Snapshot) -> CodeOwners:
    """Read the owners of files in the base: a head must not choose who reviews it."""
    for path in code_owners.PLACES:
        blob = base.blob(path)
        if blob is not None and base.size(blob) <= OWNERS_BYTES:
            return code_owners.parse(base.read(blob, OWNERS_BYTES).decode("utf-8", "replace"))
    return code_owners.parse("")
