"""Suspensions: what one says, when it is over, and how its repository is remembered when one begins or ends. Pure.

Belongs here: the sentences and rows. Does not: stopping a loop (`repositories`), waiting for the end (`loops`).
"""

import math
from dataclasses import dataclass
from datetime import datetime

from reconciler.git.faults import RepositoryState
from reconciler.model.clock import rfc3339
from reconciler.model.errors import Refused
from reconciler.reconciling.watched import WatchedRepository
from reconciler.store.contract import AuditRow, RepositoryRow, SuspensionRow

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
