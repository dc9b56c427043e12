"""What the settings change of the watched repositories, as events of the audit. Pure.

Belongs here: which event, and what it says. Does not: watching (`repositories`), what a suspension or an approval says
(`suspending`, `approving`).
"""

import dataclasses
import json

from reconciler.reconciling import watched
from reconciler.reconciling.watched import WatchedRepository
from reconciler.store.contract import AuditRow, RepositoryRow

SETTINGS = "settings"  # who does it
CREATED, CONFIGURED, DELETED = "created", "configured", "deleted"
ORIGIN = "where its commits come from"
NAMES = {  # of settings, where they are others than ours
    "full_interval": "fullInterval",
    "prune": "prune.enabled",
    "prune_min_count": "prune.minCount",
    "prune_max_percent": "prune.maxPercent",
    "suspended": "suspend",
    "allowed_kinds": "allow.kinds",
    "allowed_names": "allow.names",
    "accept_invalid": "acceptInvalid",
    "signers_file": "verify.signersFile",
    "hook_secret_file": "hook.secretFile",
}


def watching_events(
    now: WatchedRepository, *, before: WatchedRepository | None, remembered: RepositoryRow | None, at: str
) -> AuditRow | None:
    """That a repository is watched, or otherwise than `before` in this process; None when nobody would notice.

    Of an earlier process it is remembered where commits came from, and nothing else.
    """
    if before is not None:
        changed = [field.name for field in dataclasses.fields(now) if _differs(field.name, before, now)]
        return _event(CONFIGURED, now.name, now.project, at, sorted(NAMES.get(name, name) for name in changed))
    if remembered is None:
        return _event(CREATED, now.name, now.project, at)
    if remembered.origin in (None, watched.watched_origin(now)):
        return None
    return _event(CONFIGURED, now.name, now.project, at, [ORIGIN])


def released_events(remembered: RepositoryRow, *, to: str | None, at: str) -> AuditRow:
    """That a repository is watched no more, or that it fills another project now: what it owned is the API's."""
    if to is None:
        return _event(DELETED, remembered.name, remembered.project, at)
    return _event(CONFIGURED, remembered.name, remembered.project, at, ["project"])


def _differs(name: str, one: WatchedRepository, other: WatchedRepository) -> bool:
    return bool(getattr(one, name) != getattr(other, name))


def _event(action: str, name: str, project: str, at: str, changed: list[str] | None = None) -> AuditRow:
    return AuditRow(
        at=at,
        project=project,
        actor=SETTINGS,
        action=action,
        kind="Repository",
        name=name,
        version_before=None,
        version_after=None,
        run=None,
        request=None,
        detail=None if changed is None else json.dumps({"changed": changed}),
    )
