"""Changes of a repository besides its runs: admins suspend, resume and approve, and settings add or remove it.

Each is a record with its audit event. Pure, except `approve`. The API checks permissions; `planner.pruning` decides
what an approval releases.
"""

import math
from datetime import datetime

from reconciler.git import faults
from reconciler.git.faults import RepositoryState
from reconciler.model.errors import Refused
from reconciler.reconcile.apply import Applier
from reconciler.settings.repositories import Repository
from reconciler.store.contract import Store
from reconciler.store.records import AuditRow, Record
from reconciler.store.replica_records import Lease
from reconciler.store.repository_records import ApprovalRow, RepositoryRow, SuspensionRow

SETTING = "The setting `suspend` is on: nothing is looked at, and what it owns stays as it is."
RESUMED = "It was resumed; until the head is read again, what was changed meanwhile stays."
SYSTEM = "system"  # the actor of a resume whose time came
SETTINGS = "settings"  # the actor of a change of what is watched
CREATED, CONFIGURED, DELETED = "created", "configured", "deleted"


class Suspended(Refused):
    """A run was requested, or a resume that a setting does not allow; the message says who can change that."""


class NotHeld(Refused):
    """Nothing can be approved at this commit; the message names the right commit, or the file to correct."""


def intervention(
    one: Repository, *, actor: str, at: str, request: str | None = None, run: str | None = None
) -> AuditRow:
    """Return the audit event of a change of a repository, still without the action."""
    return AuditRow(at, one.project, actor, "", "Repository", one.name, request=request, run=run)


# Suspensions


def suspension_message(suspension: SuspensionRow) -> str:
    """Say who suspended the repository, why, until when, and what ends it."""
    until = f" until {suspension.until}" if suspension.until else ""
    return (
        f"Suspended by {suspension.actor}{until} ({suspension.reason}): nothing is looked at, and admins may change "
        f"what it owns; `reconciler resume {suspension.repository}` ends it."
    )


def seconds_left(suspension: SuspensionRow, now: datetime) -> float:
    """Return seconds until it is over, 0 when it is; infinity when it has no end."""
    if suspension.until is None:
        return math.inf
    return max(0.0, (datetime.fromisoformat(suspension.until) - now).total_seconds())


def suspension_record(row: RepositoryRow, suspension: SuspensionRow, *, by: AuditRow) -> Record:
    """Return the record of a new suspension. The last applied and last seen heads stay known."""
    since = row.since if row.state == RepositoryState.SUSPENDED else suspension.since
    state = RepositoryState.SUSPENDED.value
    row = row._replace(state=state, message=suspension_message(suspension), since=since)
    event = by._replace(action="suspended", detail=_reason(suspension))
    return Record(repository=row, suspension=suspension, audit=(event,))


def resume_record(row: RepositoryRow, suspension: SuspensionRow, *, by: AuditRow) -> Record:
    """Return the record of a suspension's end.

    It has no fingerprint, so the next run reads everything, even in another process, and overwrites drifted resources.
    """
    state = RepositoryState.READY if row.commit else RepositoryState.NEVER_READ
    row = row._replace(fingerprint=None, state=state.value, message=RESUMED, since=by.at)
    event = by._replace(action="resumed", detail=_reason(suspension))
    return Record(repository=row, resume=row.name, audit=(event,))


def _reason(suspension: SuspensionRow) -> str:
    return suspension.reason + (f" (until {suspension.until})" if suspension.until else "")


# Approvals of held deletions


async def approve(by: AuditRow, *, commit: str, store: Store, applier: Applier, lease: Lease | None = None) -> None:
    """Release the deletions that a repository holds at a commit; the next plan does them. Raises NotHeld, StoreFault,
    Locked, LeaseLost, and Moved if a run changed the held deletions meanwhile.
    """
    name = by.name
    row, _, _, held = await store.remembered(name, held=0)
    if row is None or row.approvable is None or row.head is None:
        raise NotHeld(f"{name} holds nothing, so there is nothing to approve.")
    if row.head != commit:
        raise NotHeld(
            f"{name} holds nothing at the commit {faults.short_commit(commit)}; "
            f"what it holds, it holds at its head {row.head}."
        )
    if row.approvable == 0:
        raise NotHeld(f"What {name} holds because of a file cannot be approved; mend the file: {row.message}")
    event = by._replace(action="approved", detail=f"{held.total} held at {commit}")
    approval = ApprovalRow(name, commit=commit, actor=by.actor, at=by.at)
    await applier.store_record(
        Record(approval=approval, audit=(event,), lease=lease), project=by.project, is_request=True
    )


# Changes of the settings


def watching_record(now: Repository, row: RepositoryRow, *, is_reload: bool, at: str) -> Record | None:
    """Return the record of a repository that is watched from now on, or with new settings after a reload; None if
    nothing changed.

    After a restart, only the origin of commits is compared, because the store has no other setting.
    """
    by = intervention(now, actor=SETTINGS, at=at)
    if not is_reload and not row.since:  # nothing is remembered
        return Record(repository=row._replace(since=at), audit=(by._replace(action=CREATED),))
    if not is_reload and row.origin in (None, now.origin):
        return None
    return Record(audit=(by._replace(action=CONFIGURED),))


def release_event(remembered: RepositoryRow, *, to: str | None, at: str) -> AuditRow:
    """Return the event of a repository that is no longer watched, or now fills the project `to`. The API becomes the
    owner of its resources.
    """
    action = DELETED if to is None else CONFIGURED
    return AuditRow(at, remembered.project, SETTINGS, action, "Repository", remembered.name)
