"""The review job: plan the merge of a base and a head as a commit, and report the plan instead of storing it.

A plan must not reveal if a guessed secret equals the stored one: in a document that differs between base and head, a
secret in clear counts as changed. If the caller chose the base, this holds for all documents: the guess may be there,
too.

A forge attaches comments to lines of the head. So places are in the head's file, which differs from the merged one if
both sides changed it.
"""

import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec

from reconciler.collectors import changes as renderings
from reconciler.collectors.changes import Difference, Differences
from reconciler.git import merging
from reconciler.git.merging import Merged
from reconciler.git.snapshots import Snapshot
from reconciler.git.trees import TreeChange as FileChange
from reconciler.model import (
    code_owners,
    components,
    diffs,
    documents,
    plan,
    positions,
    principals,
    rendering,
    type_checks,
    values,
    violations,
)
from reconciler.model.code_owners import CodeOwners
from reconciler.model.components import MASK
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.diffs import ResourceState
from reconciler.model.errors import Refused
from reconciler.model.flows import Flow
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.plan import (
    NamedResource,
    PlanEntry,
    PlanField,
    PlanPlace,
    PlanRendering,
    PlanStatus,
)
from reconciler.model.type_checks import FITTING, Lookup
from reconciler.model.values import Pointer, Value
from reconciler.planner import decisions, field_changes, heads
from reconciler.planner.decisions import WRITING, Decided, DocumentBatch
from reconciler.planner.heads import HeadDecision
from reconciler.planner.pruning import TreeReading
from reconciler.planner.stored import StoreSnapshot, TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import HeadStatusRow
from reconciler.store.repository_records import HeldRow
from reconciler.worker import commits, trees
from reconciler.worker.commits import RECONCILE, CommitReading, PlanMode
from reconciler.worker.messages import CommitJob, ReviewJob, ReviewPlanned
from reconciler.worker.trees import Allowance, FileLocations

MOST_LINES = 20_000  # of a file; in a longer one, places are those of the merge


class HeadLines:
    """Converts lines of a merge to lines of the head. It keeps the last file, since statuses come file by file."""

    def __init__(self, merged: Merged) -> None:
        self._merged, self._head = merged.merged, merged.head
        self._is_head = merged.merged.tree("") == merged.head.tree("")
        self._path: str | None = None
        self._lines: dict[int, int] = {}  # those that differ

    def place(self, place: PlanPlace) -> PlanPlace:
        """Return the place in the head; a line that only the base has stays as it is."""
        return msgspec.structs.replace(place, line=self._of(place.path).get(place.line, place.line))

    def reason(self, text: str, path: str) -> str:
        """Return a reason with the places at the beginning of its lines converted."""
        lines = self._of(path)
        return re.sub(
            rf"^({re.escape(path)}:)([0-9]+)(?=:)",
            lambda found: f"{found[1]}{lines.get(int(found[2]), int(found[2]))}",
            text,
            flags=re.MULTILINE,
        )

    def _of(self, path: str) -> dict[int, int]:
        if path != self._path:
            self._path, self._lines = path, {} if self._is_head else self._moved(path)
        return self._lines

    def _moved(self, path: str) -> dict[int, int]:
        old, new = self._merged.blob(path), self._head.blob(path)
        if old is None or new is None or old == new:
            return {}
        if max(self._merged.size(old), self._head.size(new)) > positions.FILE_LIMITS.bytes:
            return {}
        texts = [
            snapshot.read(blob, positions.FILE_LIMITS.bytes)
            for snapshot, blob in ((self._merged, old), (self._head, new))
        ]
        return {} if max(text.count(b"\n") for text in texts) > MOST_LINES else merging.matching_lines(*texts)


MOST_WALKED = 20_000  # resources in all; users that are further away are not reported
MOST_AFFECTED = 1_000  # by one resource


class Affected:
    """The users of all resources that are changed together. Use it inside the decision's snapshot of the store."""

    def __init__(self, decided: Sequence[Decided], snapshot: StoreSnapshot) -> None:
        written = {key: document for each in decided for key, document in each.written().items()}
        outcomes = [one for each in decided for one in each.outcomes]
        self._users: dict[Key, set[Key]] = {}
        fresh = {one.key for one in outcomes if one.key is not None and one.change is not Change.NONE}
        while fresh and len(self._users) < MOST_WALKED:
            named = snapshot.references(fresh, written)
            self._users |= {key: set(named.get(key, ())) for key in fresh}
            fresh = {user for users in named.values() for user in users} - self._users.keys()

    def by(self, outcome: Outcome) -> tuple[Key, ...]:
        """Return the other resources that an outcome affects, in order."""
        if outcome.key is None or outcome.change in (Change.NONE, Change.REPLACE_HEAD):
            return ()
        found: set[Key] = set()
        waiting = deque([outcome.key])
        while waiting and len(found) < MOST_AFFECTED:
            fresh = self._users.get(waiting.popleft(), set()) - found
            found |= fresh
            waiting += sorted(fresh)
        return tuple(sorted(found - {outcome.key}))

    def configurations(self) -> Set[Key]:
        """Return the Configurations that change, or use something that does."""
        return {key for found in (self._users, *self._users.values()) for key in found if key.kind == "Configuration"}


def find_renderings(decided: Sequence[Decided], affected: Affected, store: StoreSnapshot) -> Differences:
    """Return what a change does to what Collectors run. Asked for inside the decision's snapshot of the store."""
    written = {key: (document, one) for one in decided for key, document in one.written().items()}
    going = {one.key for each in decided for one in each.outcomes if one.change is Change.DELETE and one.key}
    present, kept = (TypeLookup(store.view, project=store.project, coming={}, going=each) for each in ((), going))

    @cache
    def before(key: Key) -> Value:
        store.check()
        with suppress(Damaged):
            return present.present(key)
        return None

    @cache
    def after(key: Key) -> Value:
        if key not in written:
            return kept.present(key) if key in going else before(key)
        document, one = written[key]
        secrets = {at: MASK for at, _ in one.fits.get(key, FITTING).secrets}
        return values.replaced(document.document(), secrets)["spec"]

    return renderings.compare(affected.configurations(), before, after, unknown=store.assumed, secrets=store.available)


MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class ReadMerge:
    """The files that are read for one entry.

    `changed` are the paths of the files that differ between the base and the merge, and `base` the base's documents in
    these. `is_read`: the caller has read the base.
    """

    commit: CommitReading
    reading: TreeReading
    store: StoreSnapshot
    changed: Set[str]
    base: Mapping[Key, Desired]
    is_read: bool


class EntryWriter:
    """Writes the entry of a repository from a decision. It is used inside the decision's snapshot of the store."""

    def __init__(
        self,
        read: ReadMerge,
        decision: HeadDecision,
        merged: Merged,
        *,
        affected: Affected,
        flows: Sequence[Flow],
        restated: Sequence[HeadStatusRow],
        renderings: Sequence[Difference],
        lookup: Lookup,
    ) -> None:
        """`restated` are statuses of resources that change with those that are stored. `lookup` finds the types that
        are in force afterwards.
        """
        self._read, self._decision, self._lookup = read, decision, lookup
        self._rules, self._store, self._mode = read.commit.rules, read.store, read.commit.mode
        self._affected, self._flows, self._restated, self._renderings = affected, tuple(flows), restated, renderings
        self._locations = FileLocations(read.reading.files, merged.merged, read.commit.allowance)
        self._lines = HeadLines(merged)
        self._owners = _owners(merged.base)
        self._refused_before = _refused_before(read.store.view, read.commit.rules.name)
        self._reasons_before = _reasons_before(read, decision)
        # A secret is no guess where the caller has read it: in documents that the change does not touch, and the base.
        self._untouched = {one.key for one in _untouched(read.reading, read.changed)} if read.is_read else set()

    def entry(self) -> PlanEntry:
        """Return the entry of the repository."""
        rules, decision = self._rules, self._decision
        notes = list(dict.fromkeys(self._notes()))
        if len(notes) > MOST_NOTES:
            notes = [*notes[: MOST_NOTES - 1], f"{len(notes) - MOST_NOTES + 1} more notes are left out."]
        outcomes = decision.decided.outcomes
        if self._mode.live:  # most of what the repository owns was not read
            told = {
                one.key
                for one in outcomes
                if one.status is not UpdateStatus.UNCHANGED and one.stored is not None
                if one.stored.owner == rules.name
            }
            owned = self._store.view.owned_count(rules.name, self._store.project)
            unchanged = owned - len(told) - len(decision.pruning.held)
        else:
            unchanged = sum(one.status is UpdateStatus.UNCHANGED for one in outcomes)
        return PlanEntry(
            name=rules.name,
            project=self._store.project,
            path=rules.path,
            statuses=plan.in_order(self._statuses()),
            unchanged=unchanged,
            # Others were held before.
            held=sum(HeldRow(rules.name, *one.key, "held") not in decision.stayed for one in decision.pruning.held),
            notes=tuple(notes),
            refused=decision.refused,
            flows=self._flows,
            renderings=tuple(self._rendered()),
        )

    def _rendered(self) -> Iterator[PlanRendering]:
        """Yield what changes for Collectors. Texts of Configurations themselves are not for all readers of a server."""
        documents = {one.key: one for one in self._decision.decided.documents if one.key is not None}

        @cache
        def place(key: Key, pointer: Pointer) -> PlanPlace | None:
            if (document := documents.get(key)) is not None:
                return self._place_of(document, pointer)
            return _stored_place(self._store.stored([key]).get(key))

        for one in self._renderings:
            if not (self._mode.live and (one.old.raw or one.new.raw)):
                yield one.shown(place)

    def _statuses(self) -> Iterator[PlanStatus]:
        """Yield every status that changes something; a held deletion is one, too."""
        told = [one for one in self._decision.decided.outcomes if one.status is not UpdateStatus.UNCHANGED]
        held = [
            Outcome(stored.key, UpdateStatus.DELETED, Change.DELETE, stored=stored)
            for stored in self._decision.pruning.held
        ]
        renamed, room = self._renames(), plan.MOST_CONTENTS
        for number, outcome in enumerate((*told, *held)):
            other = None if outcome.key is None else renamed.get(outcome.key)
            is_whole = outcome.change is not Change.UPDATE
            most = min(plan.MOST_FIELDS, room) if is_whole else plan.MOST_FIELDS
            status = self._status(outcome, renamed=other, most=most, held=number >= len(told))
            room -= len(status.fields) if is_whole else 0
            yield status

    def _renames(self) -> dict[Key, str]:
        """Return the other name of each resource that is deleted and created again with an equal spec."""
        gone = [
            one.key for one in self._decision.decided.outcomes if one.change is Change.DELETE and one.key is not None
        ]
        pairs = heads.renamed_resources(self._decision.decided, gone, self._store)
        return {key: new.name for key, new in pairs.items()} | {new: key.name for key, new in pairs.items()}

    def _status(self, outcome: Outcome, *, renamed: str | None, most: int, held: bool) -> PlanStatus:
        at = self._place(outcome)
        existing = self._is_existing(outcome, at, held=held)
        shown, left_out = ((), 0) if existing else field_changes.bounded(self._fields(outcome, renamed), most=most)
        affected = () if held else self._affected.by(outcome)
        reason = outcome.why()
        notes = outcome.notes
        if at is not None:
            reason = reason and self._lines.reason(reason, at.path)
            notes = tuple(self._lines.reason(note, at.path) for note in notes)
        before = set() if outcome.key is None else self._reasons_before.get(outcome.key, set())
        return PlanStatus(
            status=outcome.status,
            kind=None if outcome.key is None else outcome.key.kind,
            name=None if outcome.key is None else outcome.key.name,
            reason=reason,
            reasons_before=tuple(one for one in (reason or "").split("\n") if before and unplaced(one) in before),
            at=at,
            existing=existing,
            renamed=renamed,
            fields=shown,
            fields_left_out=left_out,
            dependants=tuple(NamedResource(kind=key.kind, name=key.name) for key in affected[: plan.MOST_DEPENDANTS]),
            dependants_left_out=max(0, len(affected) - plan.MOST_DEPENDANTS),
            unresolved=self._unresolved(outcome),
            owners=() if at is None else self._owners.of(at.path),
            notes=notes,
            held=held,
        )

    def _place(self, outcome: Outcome) -> PlanPlace | None:
        if outcome.ordinal is None:
            return _stored_place(outcome.stored)
        place = self._decision.decided.documents[outcome.ordinal].place
        if place is None:
            return None
        return self._lines.place(PlanPlace(path=place.path, line=place.line, column=place.column))

    def _place_of(self, document: Desired, pointer: Pointer) -> PlanPlace | None:
        """Return the place of a part of a document in the head."""
        locations = self._locations.of(document)
        if locations is None or document.place is None:
            return None
        position = locations.of(document.position, pointer)
        return self._lines.place(PlanPlace(path=document.place.path, line=position.line, column=position.column))

    def _is_existing(self, outcome: Outcome, at: PlanPlace | None, *, held: bool) -> bool:
        """Return True if the status was the same before, in a file that the change does not touch."""
        if outcome.ordinal is None:
            assert outcome.key is not None  # a resource to delete is stored
            return HeldRow(self._rules.name, *outcome.key, "held" if held else "in-use") in self._decision.stayed
        if at is None or at.path in self._read.changed:
            return False
        document = (at.path, *(outcome.key or (None, None)))
        is_refused = outcome.status in REFUSED and document in self._refused_before
        return is_refused or (outcome.status is UpdateStatus.DEPRECATED and outcome.change is Change.NONE)

    def _fields(self, outcome: Outcome, renamed: str | None) -> Iterator[PlanField]:
        """Yield the fields that differ from the stored version, or all fields of a resource that is created or deleted.
        A `renamed` one is compared with that of the other name. Raises Damaged.
        """
        if outcome.key is None:
            return
        key = outcome.key if renamed is None else Key(outcome.key.kind, renamed)
        before = self._store.view.documents(self._store.project, [key]).get(key)
        old = None if before is None else field_changes.stored_state(key, before)
        if outcome.change is Change.DELETE:
            yield from diffs.find_fields(old, None, lookup=self._lookup)
        if outcome.ordinal is None or not (outcome.change in WRITING or outcome.status is UpdateStatus.INVALID):
            return
        document = self._decision.decided.documents[outcome.ordinal]
        if not document.owned:
            return  # it is unknown which of its values are secrets
        new = document.document()
        fit = self._decision.decided.fits.get(outcome.key) or type_checks.fit(new, self._lookup)
        found = dict(fit.secrets)
        if old is not None and self._mode.live and (renamed or outcome.key not in self._untouched):
            other = _hidden(found, self._read.base.get(key) if self._read.is_read else None)
            new, found = values.replaced(new, other), found | other
        yield from diffs.find_fields(
            old, ResourceState(new, found), lookup=self._lookup, place=lambda pointer: self._place_of(document, pointer)
        )

    def _unresolved(self, outcome: Outcome) -> tuple[NamedResource, ...]:
        """Return the references of a written resource to resources that are only assumed to exist."""
        if outcome.change not in WRITING or outcome.ordinal is None or not self._mode.assumed:
            return ()
        document = self._decision.decided.documents[outcome.ordinal]
        if self._mode.assumed.isdisjoint(document.references):
            return ()
        # The value of a parameter is not repeated: it may be a secret.
        return tuple(
            NamedResource(
                kind=one.kind,
                name=plan.SENSITIVE if one.pointer[-1] == "value" else one.name,
                at=self._place_of(document, one.pointer),
            )
            for one in components.references(document.document())
            if one.key in self._mode.assumed
        )

    def _notes(self) -> Iterator[str]:
        """Yield notes for the reader that belong to no status."""
        decision = self._decision
        told = (decision.pruning.message, decision.pruning.note, heads.transfer_note(decision.passed))
        yield from filter(None, told)
        changed = [one for one in decision.reading.files if one.path in self._read.changed]
        yield from trees.told_files(one for one in changed if not decision.pruning.names(one.path))
        invalid = {one.key for one in decision.decided.outcomes if one.status is UpdateStatus.INVALID}
        for row in self._restated:
            lines = rendering.incomplete(row.status)
            if lines:
                # The reason is already in its status.
                why = "" if Key(row.kind, row.name) in invalid else f": {lines[0]}"
                yield f"{row.kind} {row.name} becomes incomplete{why}."


def unplaced(line: str) -> str:
    """Return a line of a reason without the place that it begins with."""
    return re.sub(r"^.+?:[0-9]+:[0-9]+: ", "", line)


def _stored_place(stored: StoredState | None) -> PlanPlace | None:
    return None if stored is None or stored.path is None else PlanPlace(path=stored.path, line=stored.line or 1)


def _hidden(found: Mapping[Pointer, Value], base: Desired | None) -> dict[Pointer, Value]:
    """Replace every secret that the caller cannot have read in the base, so that it counts as changed."""
    before = None if base is None or not base.owned else base.document()
    return {
        pointer: secrets.token_hex()
        for pointer, value in found.items()
        if before is None or not values.holds(before, pointer, value)
    }


OWNERS_BYTES = 256 * 1024


def plan_review(job: ReviewJob, view: PlanningView, *, allowance: Allowance) -> ReviewPlanned:
    """Plan a review. Raises GitFault, Refused, StoreFault."""
    proposals = Path(job.proposals) if job.proposals else None
    with merging.open_mirrors(Path(job.commit.mirror), proposals) as repository:
        try:
            merged = merging.merge(repository, job.commit.commit, job.head)
        except merging.Conflicts as conflicts:
            return ReviewPlanned(conflicts=conflicts.files)
        except merging.Unrelated:
            return ReviewPlanned()
        with view.snapshot() as revision:
            read = _read(job.commit, merged, view, allowance=allowance, mode=RECONCILE, followed=job.followed)
            [entry] = _entries([read], merged)
        return ReviewPlanned(
            revision=revision,
            entry=msgspec.msgpack.encode(entry),
            merge_base=merged.merge_base,
            behind=merged.behind,
            ahead=merged.ahead,
        )


def review_together(
    jobs: Sequence[CommitJob], merged: Merged, view: PlanningView, *, modes: Sequence[PlanMode]
) -> tuple[PlanEntry, ...]:
    """Return the entries of all repositories of one project, with the merge applied to each, against a store that was
    made for this. Raises GitFault, StoreFault.
    """
    with view.snapshot():
        found = [
            _read(job, merged, view, allowance=Allowance(), mode=mode) for job, mode in zip(jobs, modes, strict=True)
        ]
        return tuple(_entries(found, merged))


def _entries(found: Sequence[ReadMerge], merged: Merged) -> Iterator[PlanEntry]:
    """Yield the entries of repositories that are applied as one change."""
    store = found[0].store
    judged = commits.decide([one.commit for one in found], [one.reading for one in found], store)
    applied = [decision.decided for decision in judged if not decision.refused]
    every = [decision.decided for decision in judged]
    written = {key: document for one in every for key, document in one.written(components.TYPES).items()}
    affected, lookup = Affected(every, store), TypeLookup(store.view, project=store.project, coming=written)
    flows = decisions.find_flows(applied, store)
    rendered = find_renderings(applied, affected, store)
    restated = [row for decision in judged for row in decision.decided.standing.rows]
    keys = [{one.key for one in decision.decided.outcomes} for decision in judged]

    def holder(key: Key) -> int:
        """Return the number of the entry that reports a resource: the one that holds it."""
        return next((number for number, held in enumerate(keys) if key in held), 0)

    for number, (one, decision) in enumerate(zip(found, judged, strict=True)):
        entry = EntryWriter(
            one,
            decision,
            merged,
            affected=affected,
            flows=[flow for flow in flows if holder(decisions.subject(flow)) == number],
            restated=[row for row in restated if holder(Key(row.kind, row.name)) == number],
            renderings=[each for each in rendered.found if holder(each.key) == number],
            lookup=lookup,
        ).entry()
        yield entry if number else msgspec.structs.replace(entry, renderings_left_out=rendered.left_out)


def _read(
    job: CommitJob,
    merged: Merged,
    view: PlanningView,
    *,
    allowance: Allowance,
    mode: PlanMode,
    followed: bool = False,
) -> ReadMerge:
    """Read the merge, and the base in files that differ; `followed` as in ReviewJob. Raises GitFault, StoreFault."""
    remembered = view.repository(job.rules.name)
    is_read = followed or (remembered is not None and remembered.commit == merged.base.commit.id)
    # If the caller chose the base, every file is read: otherwise the time would reveal which ones equal the applied
    # head.
    job = msgspec.structs.replace(job, commit=merged.merged.commit.id, full=job.full or not is_read)
    commit = CommitReading(job, merged.merged, view, allowance=allowance, mode=mode)
    differing = tuple(merged.changes(job.rules.path))
    base: dict[Key, Desired] = {}
    for change in differing:
        base |= _documents(merged.base, change, allowance=allowance, rules=commit.documents)
    allowance.at("")  # the walk of the tree is not the work of one file
    # Files that are stored already are read too: otherwise the time would reveal a right guess of a secret.
    reading = commit.read(also=differing)
    changed, store = frozenset(change.path for change in differing), commit.store_snapshot()
    if mode.live:
        # The digests of the documents that a reader of the base knows.
        shown = [*base.values(), *_untouched(reading, changed)] if is_read else []
        known = {one.key: one.digest for one in shown if one.key is not None and one.owned}
        store = replace(store, hide_guesses=True, known=known)
    return ReadMerge(commit, reading, store, changed, base, is_read)


def _untouched(reading: TreeReading, changed: Set[str]) -> Iterator[Desired]:
    """Yield the documents of files that the change does not touch."""
    for one in reading.documents():
        if one.key is not None and one.place is not None and one.place.path not in changed:
            yield one


def _reasons_before(read: ReadMerge, decision: HeadDecision) -> dict[Key, Set[str]]:
    """Return the reasons why documents of changed files were invalid in the base, for those that are invalid now."""
    invalid = {one.key for one in decision.decided.outcomes if one.status is UpdateStatus.INVALID}
    documents = [one for key, one in sorted(read.base.items()) if key in invalid]
    if not documents:
        return {}
    batch = DocumentBatch(
        documents,
        read.store.stored(one.key for one in documents if one.key is not None),
        actor=principals.repository_actor(read.commit.rules.name),
        accept_invalid=read.commit.rules.accept_invalid,
        tell=lambda _, told: violations.lines(told, lambda _: ""),
    )
    [judged] = decisions.decide([batch], read.store)
    return {
        one.key: {unplaced(line) for line in one.reason.split("\n")}
        for one in judged.outcomes
        if one.key is not None and one.reason is not None
    }


def _documents(base: Snapshot, change: FileChange, *, allowance: Allowance, rules: DocumentRules) -> dict[Key, Desired]:
    """Read the documents of a file of the base; none if it cannot be read."""
    if change.old_blob is None or documents.syntax_of(change.path) is None:
        return {}
    with suppress(Refused):
        found = trees.read_documents(change.path, change.old_blob, base, rules=rules, allowance=allowance)
        return {one.key: one for one in found or () if one.key is not None}
    return {}


def _refused_before(view: PlanningView, repository: str) -> frozenset[tuple[str, str | None, str | None]]:
    """Return path, kind and name of each document of the applied head that is not stored as the head wants."""
    rows = view.wanted_in(repository, view.unconverged(repository))
    return frozenset((row.path, row.kind, row.name) for row in rows if row.unconverged is not None)


def _owners(base: Snapshot) -> CodeOwners:
    """Read the owners of files from the base, because a head must not choose its reviewers."""
    for path in code_owners.PLACES:
        blob = base.blob(path)
        if blob is not None and base.size(blob) <= OWNERS_BYTES:
            return code_owners.parse(base.read(blob, OWNERS_BYTES).decode("utf-8", "replace"))
    return code_owners.parse("")
