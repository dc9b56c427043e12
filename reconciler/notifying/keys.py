"""Keys of projects and of the organization whose makers are no admins any more: somebody should decide whether they
stay, since whoever made a key may know it.

Belongs here: which keys these are. Does not: ending them, which an admin does; people's own keys, which end with the
person.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from reconciler.model import principals
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Directory, Key, is_expired
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.principals import UNLISTED, AccessVerdict, Permission
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look
from reconciler.notifications.texts import LISTED

OPERATORS = frozenset(principal.name for principal in UNLISTED)  # nobody takes their role away


class KeyObserver:
    """Remembers what it found of the directory, which seldom changes."""

    def __init__(self, directory: Callable[[], Directory], *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._seen: Directory | None = None
        self._until: str | None = None  # the first of the keys that were found ends then
        self._findings: tuple[Finding, ...] = ()

    async def look(self) -> list[Look]:
        """One finding for each maker in each project; the organization is the project that is empty."""
        directory, now = self._directory(), rfc3339(self._clock())
        if directory is not self._seen or (self._until is not None and now >= self._until):
            found = keys_to_review(directory, now=now)
            ends = (key.expires_at for keys in found.values() for key in keys if key.expires_at is not None)
            self._seen, self._until = directory, min(ends, default=None)
            self._findings = tuple(_finding(project, maker, keys) for (project, maker), keys in found.items())
        return [Look(Domain.KEYS, self._findings)]


def keys_to_review(directory: Directory, *, now: str) -> Mapping[tuple[str, str], list[Key]]:
    """Return the keys that still open something and whose makers may not make them any more, by project and maker."""
    found: defaultdict[tuple[str, str], list[Key]] = defaultdict(list)
    by_name = {f"key:{key.id}": key for key in directory.keys.values()}
    for key in sorted(directory.keys.values(), key=lambda key: (key.project or "", key.created_by, key.id)):
        if key.owner is None and not is_expired(key, now=now) and not _may_make(directory, key, by_name, now=now):
            found[key.project or "", key.created_by].append(key)
    return found


def _may_make(directory: Directory, key: Key, by_name: Mapping[str, Key], *, now: str) -> bool:
    """Whether the maker of a key still could make it. A key may be older than the rule that keys make none."""
    if key.created_by in OPERATORS:
        return True
    user, maker = directory.users.get(key.created_by.removeprefix("user:")), by_name.get(key.created_by)
    if maker is not None and not is_expired(maker, now=now):
        principal = directory.holder_of(maker)
    elif user is not None and key.created_by.startswith("user:") and user.created_at <= key.created_at:
        principal = directory.principal(user)  # and nobody of the same name who came later
    else:
        return False
    permission = Permission.MANAGE_ORGANIZATION if key.project is None else Permission.MANAGE_KEYS
    return principals.judge(principal, permission, project=key.project) is AccessVerdict.ALLOWED


def _finding(project: str, maker: str, keys: list[Key]) -> Finding:
    named = tuple(f"{key.name} ({key.id})" for key in keys[:LISTED])
    facts: Facts = {"total": len(keys), "names": named}
    return Finding(Cause(NotificationType.KEYS_TO_REVIEW, maker, project), Severity.WARNING, facts)
