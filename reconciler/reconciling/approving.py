"""Approving what a repository's guards hold: an admin looked at it and lets it go.

Who may is the door's business; what an approval releases is decided in `planning.pruning`.
"""

import contextlib
from dataclasses import dataclass

from reconciler.applying import Applier
from reconciler.git import faults
from reconciler.model.errors import Refused
from reconciler.model.principals import Actor
from reconciler.store.contract import ApprovalRow, AuditRow, Held, Moved, RepositoryRow, Store

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
