"""Interventions of admins: suspensions, and approvals of held deletions."""

import contextlib
import math
from dataclasses import dataclass
from datetime import datetime

from reconciler.git import faults
from reconciler.git.faults import RepositoryState
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.model.principals import Actor
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.watched import WatchedRepository
from reconciler.store.contract import ApprovalRow, AuditRow, Held, Moved, RepositoryRow, Store, SuspensionRow

# Suspensions: what one says, when it is over, and how its repository is remembered when one begins or ends. Pure.

SETTING = "The setting `suspend` is on: nothing is looked at, and what it owns stays as it is."
RESUMED = "It was resumed; until the head is read again, what was changed meanwhile stays."
SYSTEM = "system"


class Suspended(Refused):
    """A run was asked for, or a resume that a setting does not allow; the message says who can change that."""


@dataclass(frozen=True, slots=True)
class SuspensionAsker:
    """Who suspends or resumes, when, by which request or in which run."""

    actor: str
    at: str
    request: str | None = None
    run: str | None = None


def suspension_message(suspension: SuspensionRow) -> str:
    """Who suspended the repository, why, until when, and what ends it."""
    until = f" until {suspension.until}" if suspension.until else ""
    return (
        f"Suspended by {suspension.actor}{until} ({suspension.reason}): nothing is looked at, and admins may change "
        f"what it owns; `reconciler resume {suspension.repository}` ends it."
    )


def no_run(name: str, why: str) -> Suspended:
    """A run was asked for meanwhile."""
    return Suspended(f"There is no run of {name} while it is suspended. {why}")


def suspended_by_setting(name: str) -> Suspended:
    """Somebody wants to resume what only the settings can."""
    return Suspended(
        f"{name} is suspended by its setting `suspend: true`, which the API does not change; set it to false, and "
        "reload the settings."
    )


def is_suspension_over(suspension: SuspensionRow, now: datetime) -> bool:
    """Whether its time has passed."""
    return suspension.until is not None and suspension.until <= rfc3339(now)


def seconds_left(suspension: SuspensionRow | None, now: datetime) -> float:
    """How long until it is over, 0 when it is; infinity when nothing is to be waited for: it has no end, or is none."""
    if suspension is None or suspension.until is None:
        return math.inf
    return max(0.0, (datetime.fromisoformat(suspension.until) - now).total_seconds())


def begin_suspension(row: RepositoryRow | None, watched: WatchedRepository, suspension: SuspensionRow) -> RepositoryRow:
    """The repository as it is remembered while it is suspended: what was applied and seen last stays known."""
    before = row or RepositoryRow(
        name=watched.name,
        project=watched.project,
        fingerprint=None,
        commit=None,
        tree=None,
        head=None,
        state=RepositoryState.NEVER_READ,
        message=None,
        since=suspension.since,
    )
    since = before.since if before.state == RepositoryState.SUSPENDED else suspension.since
    return before._replace(state=RepositoryState.SUSPENDED.value, message=suspension_message(suspension), since=since)


def end_suspension(row: RepositoryRow | None, *, at: str) -> RepositoryRow | None:
    """The repository as it is remembered from its resumption to its first run.

    Without a fingerprint everything is read again, also by another process: so what drifted is overwritten.
    """
    if row is None:
        return None
    state = RepositoryState.READY if row.commit else RepositoryState.NEVER_READ
    return row._replace(fingerprint=None, state=state.value, message=RESUMED, since=at)


def suspension_event(suspension: SuspensionRow, *, project: str, action: str, asker: SuspensionAsker) -> AuditRow:
    """That somebody suspended or resumed a repository, with the reason for the suspension."""
    until = f" (until {suspension.until})" if suspension.until else ""
    return AuditRow(
        at=asker.at,
        project=project,
        actor=asker.actor,
        action=action,
        kind="Repository",
        name=suspension.repository,
        version_before=None,
        version_after=None,
        run=asker.run,
        request=asker.request,
        detail=suspension.reason + until,
    )


def shown_suspension(suspension: SuspensionRow | None) -> dict[str, str | None] | None:
    """The suspension for a reader; None when there is none."""
    if suspension is None:
        return None
    return {name: value for name, value in suspension._asdict().items() if name != "repository"}


# Approving what a repository's guards hold: an admin looked at it and lets it go.
#
# Who may is the door's business; what an approval releases is decided in `planner.pruning`.

OVERTAKEN = 2  # times that a run may change what is held between the look at it and the write


class NotHeld(Refused):
    """Nothing can be approved at this commit; the message says where it can, or what to mend."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who lets go what a repository holds at a commit, by which request, and when."""

    repository: str
    commit: str
    actor: Actor
    request: str
    at: str


async def approve(approval: Approval, *, store: Store, applier: Applier) -> None:
    """Let it go; the next plan deletes it. Raises NotHeld, StoreFault."""
    for _ in range(OVERTAKEN):
        with contextlib.suppress(Moved):
            return await _approve(approval, store=store, applier=applier)
    return await _approve(approval, store=store, applier=applier)


def shown_approval(row: RepositoryRow | None, held: Held) -> dict[str, object] | None:
    """What is held at a repository's head, for a reader; None when nothing is."""
    if row is None or row.approvable is None or (row.approvable == 0 and held.total == 0):
        return None
    return {
        "commit": row.head,
        "count": held.total,
        "approvable": bool(row.approvable),
        "resources": [{"kind": key.kind, "name": key.name} for key in held.first],
    }


async def _approve(approval: Approval, *, store: Store, applier: Applier) -> None:
    row = _checked(await store.repository(approval.repository), approval)
    held = await store.held(approval.repository, limit=0)
    await applier.approve(
        ApprovalRow(approval.repository, commit=approval.commit, actor=approval.actor.name, at=approval.at),
        audit=_audit(approval, project=row.project, total=held.total),
    )


def _checked(row: RepositoryRow | None, approval: Approval) -> RepositoryRow:
    """The repository, when something can be approved at this commit; else NotHeld is raised."""
    name = approval.repository
    if row is None or row.approvable is None or row.head is None:
        raise NotHeld(f"{name} holds nothing, so there is nothing to approve.")
    if row.head != approval.commit:
        raise NotHeld(
            f"{name} holds nothing at the commit {faults.short_commit(approval.commit)}; "
            f"what it holds, it holds at its head {row.head}."
        )
    if row.approvable == 0:
        raise NotHeld(f"What {name} holds because of a file cannot be approved; mend the file: {row.message}")
    return row


def _audit(approval: Approval, *, project: str, total: int) -> AuditRow:
    return AuditRow(
        at=approval.at,
        project=project,
        actor=approval.actor.name,
        action="approved",
        kind="Repository",
        name=approval.repository,
        version_before=None,
        version_after=None,
        run=None,
        request=approval.request,
        detail=f"{total} held at {approval.commit}",
    )
