"""Runs: their records, outcomes and counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.model.clock import rfc3339
from reconciler.model.errors import ReconcilerError
from reconciler.model.histogram import Histogram
from reconciler.model.outcomes import REFUSED
from reconciler.reconcile.watched import WatchedRepository
from reconciler.store.contract import Record, RepositoryRow, RunRow
from reconciler.worker.messages import CommitPlanned

# Runs that are queued or running. They live in memory; a finished run is in the store.


class Trigger(StrEnum):
    """Why a run was made."""

    START = "start"
    WATCH = "watch"
    HOOK = "hook"  # a forge says that something was pushed
    POLL = "poll"
    REQUEST = "request"
    RELOAD = "reload"
    RESUME = "resume"  # a suspension ended by itself
    STORE = "store"  # another repository or the API changed what this one waits for


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"  # some of what Git wants is not what is stored
    REFUSED = "refused"  # atomic, or suspended: nothing was stored
    FAILED = "failed"  # nothing was stored, and it is tried again


@dataclass(slots=True)
class Run:
    """One run that has not ended."""

    id: str
    repository: str
    project: str
    trigger: Trigger
    actor: str
    started: datetime | None = None
    commit: str | None = None


def shown_run(run: Run) -> bytes:
    """The run as a JSON object, in the shape of a finished one."""
    return msgspec.json.encode(
        {
            "id": run.id,
            "repository": run.repository,
            "project": run.project,
            "trigger": run.trigger,
            "actor": run.actor,
            "phase": "queued" if run.started is None else "running",
            "commit": run.commit,
            "outcome": None,
            "message": None,
            "counts": {},
            "rewound": False,
            "startedAt": None if run.started is None else rfc3339(run.started),
            "finishedAt": None,
            "durationMs": None,
            "statuses": [],
        }
    )


# What a run's findings mean: the repository's state, the run's outcome, and the sentences for a person. Pure.


@dataclass(frozen=True, slots=True)
class RunFindings:
    """What one run has found out: a fault, a plan, neither when there was nothing new, or why it must not look."""

    suspended: str | None = None
    planned: CommitPlanned | None = None
    fault: ReconcilerError | None = None


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The repository's state with its message, and the run's outcome."""

    state: RepositoryState
    message: str | None
    outcome: RunOutcome


def judge_run(findings: RunFindings, before: RepositoryRow | None) -> RunVerdict:
    """What the findings mean, given what was remembered of the repository."""
    state, message = _state(findings, before)
    if findings.fault is not None:
        return RunVerdict(state, message, RunOutcome.FAILED)
    if findings.suspended is not None:
        return RunVerdict(state, message, RunOutcome.REFUSED)
    if findings.planned is not None and findings.planned.refused:
        return RunVerdict(state, message, RunOutcome.REFUSED)
    note = None if findings.planned is None else findings.planned.note
    fell_short = state is not RepositoryState.READY or message not in (None, note)
    return RunVerdict(state, message, RunOutcome.PARTIAL if fell_short else RunOutcome.SUCCEEDED)


def run_sentence(name: str, commit: str, counts: Mapping[str, int], verdict: RunVerdict) -> str:
    """One line about a run for the log."""
    told = ", ".join(f"{number} {status}" for status, number in counts.items()) or "nothing changed"
    where = f"{name} at {commit[:12]}" if commit else name
    line = f"{where} {verdict.outcome}: {told}."
    return line if verdict.message is None else f"{line} {verdict.message}"


def _state(findings: RunFindings, before: RepositoryRow | None) -> tuple[RepositoryState, str | None]:
    if findings.suspended is not None:
        return RepositoryState.SUSPENDED, findings.suspended
    if isinstance(findings.fault, GitFault):
        return findings.fault.state, findings.fault.message
    if findings.planned is not None:
        state = RepositoryState.READY if findings.planned.hold is None else RepositoryState(findings.planned.hold)
        return state, _message(findings.planned)
    state = RepositoryState.NEVER_READ if before is None else RepositoryState(before.state)
    if findings.fault is not None:
        return state, findings.fault.message
    return state, None if before is None else before.message


def _message(planned: CommitPlanned) -> str | None:
    """Why the store is not what the head says, in one or two sentences; None when it is, and all of it.

    What is as it should be and still to be known comes last.
    """
    short = {status.value: planned.counts[status.value] for status in REFUSED if status.value in planned.counts}
    told = ", ".join(f"{short[status]} {status}" for status in sorted(short))
    if planned.refused and planned.hold != RepositoryState.UNRELATED_ROOT:
        return f"The commit is refused as a whole, since the repository is atomic: {told}; nothing of it was stored."
    said = [planned.message] if planned.message else []
    if short and not planned.message:
        said.append(f"Not stored as the head says: {told}; the run names them.")
    if planned.note:
        said.append(planned.note)
    return " ".join(said) or None


# What a run leaves behind: its own record and what is remembered of the repository, from what it has found out. Pure.
#
# The reconciler writes them.


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
    verdict = judge_run(attempt.findings, before)
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
    verdict = judge_run(attempt.findings, before)
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
    verdict = judge_run(attempt.findings, before)
    told = (before.head, before.fingerprint, before.state, before.message)
    now = (attempt.run.commit, fingerprint, verdict.state.value, verdict.message)
    is_stored = planned.changed or planned.held_changed or planned.index_changed
    return not is_stored and not attempt.full and told == now


# What came of runs, counted for whoever looks at the service from outside.

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(slots=True)
class RunTally:
    """Runs that were recorded since the start, by outcome, and how long they took in seconds."""

    runs: dict[RunOutcome, int] = field(default_factory=lambda: dict.fromkeys(RunOutcome, 0))
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))

    def note(self, outcome: RunOutcome, *, seconds: float) -> None:
        """A run was recorded."""
        self.runs[outcome] += 1
        self.seconds.note(seconds)


@dataclass(slots=True)
class SeenRuns:
    """Of one repository, since the start.

    `succeeded`: when a look last found that all is stored as its head says. `planned`: of the last run that came to a
    plan, how many resources had which status, by kind.
    """

    succeeded: datetime | None = None
    planned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
