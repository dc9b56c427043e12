"""What a run leaves behind: its own record and what is remembered of the repository, from what it has found out. Pure.

What the findings mean is `verdicts`' business; writing them is the reconciler's.
"""

from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from reconciler.git.refs import RefHead
from reconciler.model.clock import rfc3339
from reconciler.reconciling import verdicts
from reconciler.reconciling.runs import Run, Trigger
from reconciler.reconciling.verdicts import RunFindings
from reconciler.reconciling.watched import WatchedRepository
from reconciler.store.contract import Record, RepositoryRow, RunRow


@dataclass(slots=True)
class RunAttempt:
    """What one run has found out so far; the exit records it."""

    run: Run
    started: datetime
    full: bool
    head: RefHead | None = None
    findings: RunFindings = field(default_factory=RunFindings)
    recorded: bool = False

    @property
    def is_asked_for(self) -> bool:
        """Whether somebody waits for this run."""
        return self.run.trigger is Trigger.REQUEST

    @property
    def is_run(self) -> bool:
        """That a repository is suspended is a state and no run, unless somebody asked for one."""
        return self.findings.suspended is None or self.is_asked_for


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """By whom and how the repository is read.

    `fingerprint` is the digest of all that shapes a read, `origin` that of the URL and of what is followed there.
    """

    watched: WatchedRepository
    fingerprint: str
    origin: str


def run_record(
    attempt: RunAttempt, before: RepositoryRow | None, *, reader: HistoryReader, finished: datetime, forget: bool
) -> Record:
    """Everything that is written beside the changes. `forget`: the parts hold the whole index of the files."""
    planned, name = attempt.findings.planned, reader.watched.name
    # An approval ends with the first head that is applied and holds nothing.
    is_free = planned is not None and planned.hold is None and not planned.refused
    return Record(
        run=run_row(attempt, before, watched=reader.watched, finished=finished) if attempt.is_run else None,
        repository=repository_row(attempt, before, reader=reader),
        forget_files_of=name if forget else None,
        forget_held_of=name if planned is not None and planned.held_changed else None,
        forget_approval_of=name if is_free else None,
    )


def repository_row(attempt: RunAttempt, before: RepositoryRow | None, *, reader: HistoryReader) -> RepositoryRow:
    """What is remembered from now on; `before` is what was."""
    planned = attempt.findings.planned
    verdict = verdicts.judge_run(attempt.findings, before)
    state = verdict.state.value
    is_applied = planned is not None and not planned.refused
    return RepositoryRow(
        name=reader.watched.name,
        project=reader.watched.project,
        fingerprint=reader.fingerprint if planned else (before and before.fingerprint),
        commit=attempt.run.commit if is_applied else (before and before.commit),
        # After a refused read under new settings the index is of the old ones: then the next read is whole.
        tree=planned.tree if planned and is_applied else (None if planned else before and before.tree),
        head=attempt.run.commit if planned else (before and before.head),
        state=state,
        message=verdict.message,
        since=before.since if before is not None and before.state == state else rfc3339(attempt.started),
        origin=reader.origin if is_applied else (before and before.origin),
        approvable=planned.approvable if planned else (before and before.approvable),
    )


def run_row(
    attempt: RunAttempt, before: RepositoryRow | None, *, watched: WatchedRepository, finished: datetime
) -> RunRow:
    """The finished run."""
    planned, fault = attempt.findings.planned, attempt.findings.fault
    verdict = verdicts.judge_run(attempt.findings, before)
    return RunRow(
        id=attempt.run.id,
        project=watched.project,
        repository=watched.name,
        trigger=attempt.run.trigger.value,
        actor=attempt.run.actor,
        commit=attempt.run.commit,
        outcome=verdict.outcome.value,
        message=fault.message if fault else verdict.message,
        counts=msgspec.json.encode(planned.counts if planned else {}),
        rewound=int(planned is not None and planned.rewound),
        started_at=rfc3339(attempt.started),
        finished_at=rfc3339(finished),
        duration_ms=round((finished - attempt.started).total_seconds() * 1000),
    )


def tells_something_new(attempt: RunAttempt, row: RepositoryRow, before: RepositoryRow | None) -> bool:
    """A fault or a suspension is recorded when it begins or changes, not each time it is met again."""
    findings = attempt.findings
    return (findings.fault is not None or findings.suspended is not None) and (
        before is None or (before.state, before.message) != (row.state, row.message)
    )


def came_to_nothing(attempt: RunAttempt, before: RepositoryRow | None, *, fingerprint: str) -> bool:
    """Whether the head was judged again, and all is as the last run has told."""
    planned = attempt.findings.planned
    if planned is None or before is None or attempt.is_asked_for:
        return False
    verdict = verdicts.judge_run(attempt.findings, before)
    told = (before.head, before.fingerprint, before.state, before.message)
    now = (attempt.run.commit, fingerprint, verdict.state.value, verdict.message)
    is_stored = planned.changed or planned.held_changed or planned.index_changed
    return not is_stored and not attempt.full and told == now
