"""The entry of a plan: what was decided about a merge, as statuses with places, fields, owners and notes.

Belongs here: from a decision to what reviewers are told. Does not: deciding (`commit_decisions`), which commits are
compared (`reviews`), what differs in one resource (`fields`), how it is shown (`plans`).
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from reconciler.model import plan, rendering
from reconciler.model.code_owners import CodeOwners
from reconciler.model.names import Key
from reconciler.model.outcomes import REFUSED, Change, Outcome, StoredState, UpdateStatus
from reconciler.model.plan import NamedResource, PlanEntry, PlanPlace, PlanStatus
from reconciler.planner import changes
from reconciler.reading import handovers
from reconciler.reading.affecting import Affected
from reconciler.reading.commit_decisions import Decision
from reconciler.reading.fields import PlanFields
from reconciler.reading.messages import CommitJob
from reconciler.store.contract import HeldRow
from reconciler.store.planning_view import PlanningView

MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class EntryWriter:
    """All that the statuses are told from."""

    job: CommitJob
    decision: Decision
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
            place = self.decision.decided.candidates[outcome.ordinal].place
            if place is None:
                return None
            return self.fields.lines.place(PlanPlace(path=place.path, line=place.line, column=place.column))
        return None if outcome.stored is None else _stored_place(outcome.stored)

    def _is_existing(self, outcome: Outcome, at: PlanPlace | None) -> bool:
        """Whether it was so before, in a file that the change does not touch."""
        if outcome.ordinal is None:
            assert outcome.key is not None  # what goes is stored
            return HeldRow(self.job.repository, *outcome.key, "in-use") in self.decision.stayed
        if at is None or at.path in self.changed:
            return False
        document = (at.path, *(outcome.key or (None, None)))
        is_refused = outcome.status in REFUSED and document in self.refused_before
        return is_refused or (outcome.status is UpdateStatus.DEPRECATED and outcome.change is Change.NONE)

    def notes(self) -> Iterator[str]:
        """What a reader should know beside the statuses."""
        decision = self.decision
        yield from filter(
            None, (decision.pruning.message, decision.pruning.note, handovers.transfer_note(decision.handovers))
        )
        invalid = {one.key for one in decision.decided.outcomes if one.status is UpdateStatus.INVALID}
        for row in decision.decided.standing.rows:
            lines = rendering.incomplete(row.status)
            if lines:
                # Its status says why already.
                why = "" if Key(row.kind, row.name) in invalid else f": {lines[0]}"
                yield f"{row.kind} {row.name} becomes incomplete{why}."

    def held(self) -> int:
        """How many deletions would be held back; those that are already were so before."""
        return sum(not self._was_held(stored) for stored in self.decision.pruning.held)

    def _was_held(self, stored: StoredState) -> bool:
        return HeldRow(self.job.repository, *stored.key, "held") in self.decision.stayed


def _stored_place(stored: StoredState) -> PlanPlace | None:
    return None if stored.path is None else PlanPlace(path=stored.path, line=stored.line or 1)


def plan_entry(telling: EntryWriter, view: PlanningView, *, live: bool) -> PlanEntry:
    """All that is told; `live` as in `Terms`. Asked for inside the snapshot of the decision."""
    job, decision = telling.job, telling.decision
    told = plan.in_order(telling.statuses())
    notes = list(dict.fromkeys(telling.notes()))
    if len(notes) > MOST_NOTES:
        notes = [*notes[: MOST_NOTES - 1], f"{len(notes) - MOST_NOTES + 1} more notes are left out."]
    return PlanEntry(
        name=job.repository,
        project=job.context.project,
        path=job.path,
        statuses=told,
        unchanged=_unchanged(job, decision, view) - len(decision.pruning.held) if live else _counted(decision),
        held=telling.held(),
        notes=tuple(notes),
        refused=decision.refused,
    )


def _unchanged(job: CommitJob, decision: Decision, view: PlanningView) -> int:
    """What the repository owns and nothing is told of; most of it was not read."""
    told = {
        outcome.key
        for outcome in decision.decided.outcomes
        if outcome.stored is not None
        and outcome.stored.owner == job.repository
        and outcome.status is not UpdateStatus.UNCHANGED
    }
    return view.owned_count(job.repository, job.context.project) - len(told)


def _counted(decision: Decision) -> int:
    return sum(outcome.status is UpdateStatus.UNCHANGED for outcome in decision.decided.outcomes)
