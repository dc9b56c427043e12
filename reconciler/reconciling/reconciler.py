"""Reconciling one repository: named steps and one exit. Look, fetch, plan and apply; the outcome is recorded once.

When to do it is `loops`' business.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from reconciler import errors
from reconciler.applying import Applier
from reconciler.clock import Clock, rfc3339
from reconciler.git.faults import GitFault, State
from reconciler.git.mirrors import Head, Mirror
from reconciler.git.sources import Source
from reconciler.reading.messages import CommitJob, CommitPlanned, Context
from reconciler.reconciling import verdicts
from reconciler.reconciling.runs import Outcome, Run, Trigger
from reconciler.reconciling.verdicts import Findings
from reconciler.reconciling.watched import Watched
from reconciler.store.contract import Record, RepositoryRow, RunRow, Store

log = logging.getLogger(__name__)

SETTLED = frozenset({State.READY, State.PRUNE_HELD})
"""States that only a plan gives: there, the same head, settings and schemas mean that there is nothing to do."""


@dataclass(slots=True)
class Attempt:
    """What one run has found out so far; the exit records it."""

    run: Run
    started: datetime
    full: bool
    head: Head | None = None
    findings: Findings = field(default_factory=Findings)
    recorded: bool = False


class Reconciler:
    """Knows one repository: where it is, its mirror, and what is remembered of it."""

    def __init__(
        self,
        watched: Watched,
        *,
        mirror: Callable[[], Mirror],
        store: Store,
        applier: Applier,
        fingerprint: str,
        clock: Clock,
    ) -> None:
        self.watched = watched
        self._new_mirror = mirror
        self._store = store
        self._applier = applier
        self._fingerprint = fingerprint
        self._clock = clock
        self._source = Source(url=watched.url, branch=watched.branch, timeout=watched.timeout)
        self.remembered: RepositoryRow | None = None
        self.last_run: str | None = None
        self.waits_for_store = False  # another repository owns some of what the head wants
        self._mirror: Mirror | None = None
        self._has_failed = False  # the last look met a fault, so that what it was for is still to be done

    async def recall(self) -> None:
        """Learn what the store remembers. Raises StoreFault."""
        self.remembered = await self._store.repository(self.watched.name)
        self.last_run = await self._store.last_run(self.watched.name)
        # The index is that of the last applied head: whether a refused one waits is not known, so it may.
        row = self.remembered
        was_refused = row is not None and row.head is not None and row.tree is None
        self.waits_for_store = was_refused or await self._store.waits_for_store(self.watched.name)

    async def reconcile(self, run: Run, *, full: bool) -> bool:
        """One look, and what follows from it; False when it failed for a cause that may pass, so that it is tried soon.

        A look that finds nothing new writes nothing, unless somebody asked for the run. Raises nothing.
        """
        run.started = self._clock()
        attempt = Attempt(run, run.started, full or self._must_read_all())
        try:
            await self._steps(attempt)
        except errors.ReconcilerError as fault:
            attempt.findings = Findings(fault=fault)
        except OSError as fault:
            why = fault.strerror or str(fault)
            told = f"the mirror cannot be used ({why}): look at the disk's space and limits"
            attempt.findings = Findings(fault=errors.Transient(told))
        except Exception:
            # Nobody foresaw it: the other repositories and the API go on, and this one tries again.
            log.exception("The run %s of %s met a fault of the program.", run.id, self.watched.name)
            attempt.findings = Findings(fault=errors.Transient("the run met a fault of the program; see its log"))
        await self._exit(attempt)
        self._has_failed = attempt.findings.fault is not None
        return not _may_pass(attempt.findings.fault)

    def forget(self) -> None:
        """Take nothing for granted: read everything at the next look."""
        self.remembered = None

    async def _steps(self, attempt: Attempt) -> None:
        if self.watched.suspended:
            attempt.findings = Findings(suspended=True)
            return
        mirror = await self._ready_mirror()
        try:
            await self._look_and_apply(attempt, mirror)
        except GitFault as fault:
            if fault.state is not State.MIRROR_CORRUPT:
                raise
            log.warning("The mirror of %s is corrupt and is made anew.", self.watched.name)
            await mirror.rebuild()
            await self._look_and_apply(attempt, mirror, is_empty=True)

    async def _ready_mirror(self) -> Mirror:
        """Once per process: make the mirror, and sweep what a killed one left in it; tried again after a fault."""
        if self._mirror is None:
            mirror = self._new_mirror()
            await mirror.ensure()
            self._mirror = mirror
        return self._mirror

    async def _look_and_apply(self, attempt: Attempt, mirror: Mirror, *, is_empty: bool = False) -> None:
        head = await mirror.look(self._source)
        self._found(attempt, head)
        if self._is_nothing_new(attempt):
            return
        if is_empty or self.remembered is None or self.remembered.head != head.commit:
            self._found(attempt, await mirror.fetch(self._source, head))
        await self._apply(attempt, mirror)

    def _found(self, attempt: Attempt, head: Head) -> None:
        attempt.head = head
        attempt.run.commit = head.commit

    def _must_read_all(self) -> bool:
        return self.remembered is None or self.remembered.fingerprint != self._fingerprint

    def _is_nothing_new(self, attempt: Attempt) -> bool:
        remembered, head = self.remembered, attempt.head
        return (
            not attempt.full
            and not self._must_judge_again(attempt.run.trigger)
            and remembered is not None
            and head is not None
            and remembered.head == head.commit
            and remembered.state in SETTLED
        )

    async def _apply(self, attempt: Attempt, mirror: Mirror) -> None:
        head = attempt.head
        assert head is not None

        def job(context: Context) -> CommitJob:
            watched = self.watched
            return CommitJob(
                context=context,
                repository=watched.name,
                mirror=str(mirror.path),
                commit=head.commit,
                branch=head.branch or head.ref,
                path=watched.path,
                run=attempt.run.id,
                full=attempt.full,
                prune=watched.prune,
                prune_min_count=watched.prune_min_count,
                prune_max_percent=watched.prune_max_percent,
                atomic=watched.atomic,
                allowed_kinds=watched.allowed_kinds,
                allowed_names=watched.allowed_names,
            )

        def record(planned: CommitPlanned) -> Record | None:
            attempt.findings = Findings(planned=planned)
            if self._came_to_nothing(attempt):
                return None
            return self._record(attempt, forget=planned.full and not planned.refused)

        planned = await self._applier.commit(job, project=self.watched.project, origin=self.watched.name, record=record)
        attempt.recorded = not self._came_to_nothing(attempt)
        self.waits_for_store = planned.waits_for_store

    def _must_judge_again(self, trigger: Trigger) -> bool:
        """Whoever asks gets to know all that is wrong with the head. A store that changed may let in what it refused,
        and it may have changed between the last run of the former process and the first look of this one.
        """
        may_have_missed = trigger in (Trigger.START, Trigger.RELOAD) and self.waits_for_store
        return trigger in (Trigger.REQUEST, Trigger.STORE) or may_have_missed or self._has_failed

    def _came_to_nothing(self, attempt: Attempt) -> bool:
        """The head was judged again, and all is as the last run has told."""
        planned, remembered = attempt.findings.planned, self.remembered
        if planned is None or remembered is None or attempt.run.trigger is Trigger.REQUEST:
            return False
        verdict = verdicts.judge(attempt.findings, remembered)
        told = (remembered.head, remembered.fingerprint, remembered.state, remembered.message)
        now = (attempt.run.commit, self._fingerprint, verdict.state.value, verdict.message)
        return not planned.changed and not attempt.full and told == now

    # The one exit

    async def _exit(self, attempt: Attempt) -> None:
        row = self._repository_row(attempt)
        asked = attempt.run.trigger is Trigger.REQUEST
        is_due = not attempt.recorded and (asked or self._tells_something_new(row, attempt))
        if is_due:
            await self._record_alone(attempt)
        if attempt.recorded or attempt.findings.fault is not None:
            self._log(attempt)
        if attempt.recorded and self._is_run(attempt):
            self.last_run = attempt.run.id
        # What was due and could not be written is due again at the next look.
        if attempt.recorded or (attempt.findings.planned is None and not is_due):
            self.remembered = row

    async def _record_alone(self, attempt: Attempt) -> None:
        try:
            await self._store.commit((), record=self._record(attempt, forget=False), planned_at=None)
            attempt.recorded = True
        except errors.ReconcilerError as fault:
            attempt.findings = replace(attempt.findings, fault=attempt.findings.fault or fault)

    def _tells_something_new(self, row: RepositoryRow, attempt: Attempt) -> bool:
        """A fault or a suspension is recorded when it begins or changes, not each time it is met again."""
        before, findings = self.remembered, attempt.findings
        return (findings.fault is not None or findings.suspended) and (
            before is None or (before.state, before.message) != (row.state, row.message)
        )

    def _record(self, attempt: Attempt, *, forget: bool) -> Record:
        return Record(
            run=self._run_row(attempt) if self._is_run(attempt) else None,
            repository=self._repository_row(attempt),
            forget_files_of=self.watched.name if forget else None,
        )

    def _is_run(self, attempt: Attempt) -> bool:
        """That a repository is suspended is a state and no run, unless somebody asked for one."""
        return not attempt.findings.suspended or attempt.run.trigger is Trigger.REQUEST

    def _repository_row(self, attempt: Attempt) -> RepositoryRow:
        before, planned = self.remembered, attempt.findings.planned
        verdict = verdicts.judge(attempt.findings, before)
        state = verdict.state.value
        is_applied = planned is not None and not planned.refused
        since = before.since if before is not None and before.state == state else rfc3339(attempt.started)
        return RepositoryRow(
            name=self.watched.name,
            project=self.watched.project,
            fingerprint=self._fingerprint if planned else (before and before.fingerprint),
            commit=attempt.run.commit if is_applied else (before and before.commit),
            # After a refused read under new settings the index is of the old ones: then the next read is whole.
            tree=planned.tree if planned and is_applied else (None if planned else before and before.tree),
            head=attempt.run.commit if planned else (before and before.head),
            state=state,
            message=verdict.message,
            since=since,
        )

    def _run_row(self, attempt: Attempt) -> RunRow:
        finished, planned = self._clock(), attempt.findings.planned
        verdict = verdicts.judge(attempt.findings, self.remembered)
        return RunRow(
            id=attempt.run.id,
            project=self.watched.project,
            repository=self.watched.name,
            trigger=attempt.run.trigger.value,
            actor=attempt.run.actor,
            commit=attempt.run.commit,
            outcome=verdict.outcome.value,
            message=attempt.findings.fault.message if attempt.findings.fault else verdict.message,
            counts=msgspec.json.encode(planned.counts if planned else {}),
            rewound=int(planned is not None and planned.rewound),
            started_at=rfc3339(attempt.started),
            finished_at=rfc3339(finished),
            duration_ms=round((finished - attempt.started).total_seconds() * 1000),
        )

    def _log(self, attempt: Attempt) -> None:
        fields = {"repository": self.watched.name, "run": attempt.run.id, "commit": attempt.run.commit}
        findings = attempt.findings
        if findings.fault is not None:
            log.warning("%s: %s", self.watched.name, findings.fault.message, extra={"fields": fields})
            return
        counts = findings.planned.counts if findings.planned else {}
        verdict = verdicts.judge(findings, self.remembered)
        level = logging.INFO if verdict.outcome is Outcome.SUCCEEDED or findings.suspended else logging.WARNING
        told = verdicts.sentence(self.watched.name, attempt.run.commit or "", counts, verdict)
        log.log(level, "%s", told, extra={"fields": fields | {"counts": counts}})


def _may_pass(fault: errors.ReconcilerError | None) -> bool:
    """Whether trying again soon may help; what only a person can mend waits for the next look."""
    return fault.transient if isinstance(fault, GitFault) else isinstance(fault, errors.Transient)
