"""A run: its findings, their meaning, and its records. Pure; the reconciler stores the records."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import msgspec

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead
from reconciler.model import flows
from reconciler.model.clock import rfc3339
from reconciler.model.errors import ReconcilerError
from reconciler.model.histogram import Histogram
from reconciler.model.outcomes import REFUSED
from reconciler.settings.repositories import Repository
from reconciler.store.records import Record
from reconciler.store.repository_records import RepositoryRow, RunRow
from reconciler.worker.messages import CommitPlanned

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # of runs, as buckets


class Trigger(StrEnum):
    """The reason for a run."""

    START = "start"
    WATCH = "watch"
    HOOK = "hook"  # a forge reported a push
    POLL = "poll"
    REQUEST = "request"
    RELOAD = "reload"
    RESUME = "resume"  # a suspension ended by itself
    STORE = "store"  # another repository or the API changed a resource that this one waits for


class RunOutcome(StrEnum):
    """The outcome of a run."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"  # some resources are not stored as Git wants
    REFUSED = "refused"  # atomic, or suspended: nothing was stored
    FAILED = "failed"  # nothing was stored, and it is tried again


@dataclass(slots=True)
class Run:
    """One run, from the request to the end. The reconciler fills in its findings; the store keeps its record."""

    id: str
    repository: str
    project: str
    trigger: Trigger
    actor: str
    full: bool = False  # read every file, not only changed ones
    started: datetime | None = None  # None while it is queued
    fingerprint: str | None = None  # a digest of all that affects how a commit is judged
    head: RefHead | None = None
    suspended: str | None = None  # the reason why the repository is suspended
    planned: CommitPlanned | None = None
    fault: ReconcilerError | None = None
    is_recorded: bool = False

    @property
    def commit(self) -> str | None:
        """The commit of the run; None before the poll."""
        return None if self.head is None else self.head.commit

    @property
    def is_requested(self) -> bool:
        """True if a person waits for it."""
        return self.trigger is Trigger.REQUEST

    @property
    def is_kept(self) -> bool:
        """True if it gets a record. A suspended repository has a run only if a person requested one."""
        return self.suspended is None or self.is_requested

    def again(self) -> "Run":
        """Return the same run as if it had not begun."""
        return Run(self.id, self.repository, self.project, self.trigger, self.actor)

    def fail(self, fault: ReconcilerError) -> None:
        """End the run with a fault, and drop its other findings."""
        self.suspended, self.planned, self.fault, self.is_recorded = None, None, fault, False


def shown_run(run: Run) -> bytes:
    """Return a queued or running run as a JSON object, in the shape of a finished one."""
    phase = "queued" if run.started is None else "running"
    return msgspec.json.encode(_unfinished_row(run).shown(phase) | {"statuses": []})


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The run's outcome, and the repository's state after it."""

    outcome: RunOutcome
    row: RepositoryRow


def judge_run(run: Run, before: RepositoryRow, *, origin: str) -> RunVerdict:
    """Return the meaning of the run's findings. `before` is the repository's state before the run; `origin` is the
    present digest `Repository.origin`.
    """
    assert run.started is not None
    planned = run.planned
    state, message, outcome = _findings(run, before)
    since = before.since if before.since and before.state == state else rfc3339(run.started)
    row = before._replace(project=run.project, state=state.value, message=message, since=since)
    if planned is not None:
        # After a refused commit the index is still that of the old settings: without a tree, the next read is full.
        row = row._replace(fingerprint=run.fingerprint, head=run.commit, tree=None, approvable=planned.approvable)
        if not planned.refused:
            row = row._replace(commit=run.commit, tree=planned.tree, origin=origin)
    return RunVerdict(outcome, row)


def _findings(run: Run, before: RepositoryRow) -> tuple[RepositoryState, str | None, RunOutcome]:
    """Return the repository's state with its message, and the run's outcome."""
    state = RepositoryState(before.state)
    if run.suspended is not None:
        outcome = RunOutcome.REFUSED if run.fault is None else RunOutcome.FAILED
        return RepositoryState.SUSPENDED, run.suspended, outcome
    if run.fault is not None:
        state = run.fault.state if isinstance(run.fault, GitFault) else state
        return state, run.fault.message, RunOutcome.FAILED
    planned = run.planned
    if planned is None:  # nothing new
        message, note = before.message, None
    else:
        state = RepositoryState.READY if planned.hold is None else RepositoryState(planned.hold)
        message, note = _plan_message(planned), planned.note
        if planned.refused:
            return state, message, RunOutcome.REFUSED
    is_whole = state is RepositoryState.READY and message in (None, note)
    return state, message, RunOutcome.SUCCEEDED if is_whole else RunOutcome.PARTIAL


def _plan_message(planned: CommitPlanned) -> str | None:
    """Say in one or two sentences why the store is not as the head wants; None if it is.

    A note about a sound state comes last.
    """
    short = {status.value: planned.counts[status.value] for status in REFUSED if status.value in planned.counts}
    counts = ", ".join(f"{short[status]} {status}" for status in sorted(short))
    if planned.refused and planned.hold != RepositoryState.UNRELATED_ROOT:
        return f"The commit is refused as a whole, since the repository is atomic: {counts}; nothing of it was stored."
    sentences = [planned.message] if planned.message else []
    if short and not planned.message:
        sentences.append(f"Not stored as the head says: {counts}; the run names them.")
    if planned.note:
        sentences.append(planned.note)
    return " ".join(sentences) or None


def run_sentence(run: Run, verdict: RunVerdict) -> str:
    """Return a line about a run for the log."""
    counts = run.planned.counts if run.planned else {}
    listed = ", ".join(f"{number} {status}" for status, number in counts.items()) or "nothing changed"
    where = f"{run.repository} at {run.commit[:12]}" if run.commit else run.repository
    line = f"{where} {verdict.outcome}: {listed}."
    return line if verdict.row.message is None else f"{line} {verdict.row.message}"


def run_record(run: Run, verdict: RunVerdict, *, finished: datetime, is_news: bool = True) -> Record:
    """Return the record that is stored with the run's changes. It has a run only if the run is news."""
    planned, name = run.planned, run.repository
    is_applied = planned is not None and not planned.refused
    return Record(
        run=_run_row(run, verdict, finished=finished) if run.is_kept and is_news else None,
        repository=verdict.row,
        # After a full read the parts hold the whole index of the files.
        forget_files_of=name if planned is not None and is_applied and planned.full else None,
        forget_held_of=name if planned is not None and planned.held_changed else None,
        # An approval ends with the first head that is applied and holds nothing.
        forget_approval_of=name if planned is not None and is_applied and planned.hold is None else None,
    )


def unread_row(watched: Repository) -> RepositoryRow:
    """Return the row of a repository that was never read. It has no `since`."""
    state = RepositoryState.NEVER_READ.value
    return RepositoryRow(watched.name, watched.project, None, None, None, None, state=state, message=None, since="")


def _unfinished_row(run: Run) -> RunRow:
    started = None if run.started is None else rfc3339(run.started)
    return RunRow(
        run.id, run.project, run.repository, run.trigger.value, run.actor, run.commit, None, None, started_at=started
    )


def _run_row(run: Run, verdict: RunVerdict, *, finished: datetime) -> RunRow:
    assert run.started is not None
    planned, changes = run.planned, None
    if planned is not None and planned.flow_counts:
        shown = [flows.shown(flow) for flow in planned.flows]
        changes = msgspec.json.encode({"counts": planned.flow_counts, "changes": shown})
    return _unfinished_row(run)._replace(
        outcome=verdict.outcome.value,
        message=run.fault.message if run.fault else verdict.row.message,
        counts=msgspec.json.encode(planned.counts if planned else {}),
        rewound=int(planned is not None and planned.rewound),
        finished_at=rfc3339(finished),
        duration_ms=round((finished - run.started).total_seconds() * 1000),
        flows=changes,
    )


def is_news(run: Run, before: RepositoryRow, verdict: RunVerdict) -> bool:
    """Return True if a run must be recorded: a person requested it, or its plan, fault or suspension differs from the
    recorded state. A commit that changes no file of the repository is no news if everything is stored as it wants.
    """
    planned, is_same = run.planned, (before.state, before.message) == (verdict.row.state, verdict.row.message)
    if run.is_requested:
        return True
    if planned is None:
        return not is_same and (run.fault is not None or run.suspended is not None)
    is_changed = planned.changed or planned.held_changed or planned.index_changed
    # A run reports every error of a new head. It reports a rewind even if the files are the same.
    concerns_head = before.head != run.commit and (planned.rewound or verdict.outcome is not RunOutcome.SUCCEEDED)
    is_known = is_same and before.fingerprint == run.fingerprint and not concerns_head
    return run.full or is_changed or not is_known


@dataclass(slots=True)
class RunTally:
    """The recorded runs of all repositories since the start, by outcome, and their durations in seconds."""

    runs: dict[RunOutcome, int] = field(default_factory=lambda: dict.fromkeys(RunOutcome, 0))
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))

    def note(self, outcome: RunOutcome, *, seconds: float) -> None:
        """Count a recorded run."""
        self.runs[outcome] += 1
        self.seconds.note(seconds)
