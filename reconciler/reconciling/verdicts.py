"""What a run's findings mean: the repository's state, the run's outcome, and the sentences for a person. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import ReconcilerError
from reconciler.model.outcomes import REFUSED
from reconciler.reconciling.runs import RunOutcome
from reconciler.store.contract import RepositoryRow
from reconciler.worker.messages import CommitPlanned


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
